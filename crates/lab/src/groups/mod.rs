//! Multicast groups of the engine, with what else could secure them beside.
//!
//! - [`Configuration`]: one of the paper's five, or of ours;
//! - [`Transaction`]: one request and the responses of all listeners, over radios;
//! - [`Survey`]: many of them, and what they took on average;
//! - [`crowd`]: a sender with many listeners;
//! - [`eviction`]: all but one move to new keys, though datagrams are lost;
//! - [`coap`]: the messages.

mod account;
pub mod coap;
mod configuration;
pub mod crowd;
pub mod eviction;
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
