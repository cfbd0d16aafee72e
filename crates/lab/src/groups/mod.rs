//! Multicast groups of the engine, with what else could secure them beside.
//!
//! - [`Configuration`]: one of the paper's five, or of ours;
//! - [`Transaction`]: one request and the responses of all listeners, over radios;
//! - [`Survey`]: many of them, and what they took on average;
//! - [`coap`]: the messages.

mod account;
pub mod coap;
mod configuration;
mod listener;
mod members;
mod sender;
mod survey;
#[cfg(test)]
mod tests;
mod transaction;

pub use configuration::{CONFIGURATIONS, Configuration, Security};
pub use members::members;
pub use survey::{Measure, Summary, Survey};
pub use transaction::{Outcome, Parts, Spending, Transaction};
