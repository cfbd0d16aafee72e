//! Multicast groups of the engine, and the other ways to secure a group's messages for comparison.
//!
//! - [`Configuration`]: one of the paper's five, or one of ours;
//! - [`Transaction`]: one request and the responses of all listeners, over radios;
//! - [`Survey`]: many transactions, and what they took on average;
//! - [`many_listeners`]: a sender with many listeners;
//! - [`eviction`]: all members but one move to new keys, although datagrams are lost;
//! - [`coap`]: the messages that are sent.

mod account;
pub mod coap;
mod configuration;
pub mod eviction;
mod listener;
pub mod many_listeners;
mod members;
mod sender;
mod survey;
#[cfg(test)]
mod tests;
mod transaction;

pub use configuration::{CONFIGURATIONS, Configuration, Security};
pub use members::members;
pub use survey::{MeanAndDeviation, Summary, Survey};
pub use transaction::{EnergyByComponent, Outcome, Spending, Transaction};
