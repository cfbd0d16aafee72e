//! A client and a server that exchange numbered payloads over DTLS, and check what they receive.
//!
//! A board of the folder `firmware` and the host it meets run the same two engines, so that both
//! ends check in the same way. The engines do no I/O: each wraps the engine of `lightseal-dtls`, and
//! a driver of sockets or of a board's Ethernet controller runs it.
//!
//! - [`options`]: what is exchanged, from words such as `handshakes=100`;
//! - [`client`]: makes associations one after the other, sends payloads and waits for their echoes;
//! - [`server`]: sends every payload back;
//! - [`payload`]: payloads that show by themselves whether they are genuine;
//! - `group`: members of a multicast group, with the feature `group`;
//! - `mac`: a signer of messages and its verifier, with the feature `mac`;
//! - [`step`]: what an engine wants, without a borrow;
//! - [`lossy`]: loses datagrams of any engine, in both directions.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod client;
#[cfg(feature = "group")]
pub mod group;
pub mod lossy;
#[cfg(feature = "mac")]
pub mod mac;
pub mod options;
pub mod payload;
pub mod server;
pub mod step;

pub use client::Client;
pub use lossy::Lossy;
pub use options::Options;
pub use server::Server;

/// What an engine of this crate asks of its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Continue from another UDP port.
    NewPort,
    /// Stop: the exchange is over.
    End,
}

/// Engines of this crate. They report what they found as text.
pub trait Exchange {
    /// Whether everything that was received is genuine and everything that was asked for was done.
    fn succeeded(&self) -> bool;

    /// Writes the counters as members of a JSON object, without braces.
    ///
    /// # Errors
    /// Those of `out`.
    fn report(&self, out: &mut dyn core::fmt::Write) -> core::fmt::Result;
}
