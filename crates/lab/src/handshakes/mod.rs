//! Handshakes of the engine between nodes of a simulated world.
//!
//! - [`Profile`]: the kind of handshake, and whose timers retransmit;
//! - [`HandshakeNode`]: a client or a server as a [`Node`](crate::world::Node);
//! - [`HandshakeRun`]: handshakes in one world, and what each of them cost;
//! - [`Survey`]: many handshakes of one kind, and what they cost on average.
//!
//! # A new profile
//!
//! Add an entry to [`PROFILES`].

mod credential;
mod end;
pub mod expected;
mod profile;
mod run;
mod survey;
mod tinydtls;
mod work;

pub use end::{HandshakeNode, Sent};
pub(crate) use profile::EndSettings;
pub use profile::{PROFILES, Profile};
pub use run::{HandshakeRun, Outcome, Recording};
pub use survey::{Cost, Summary, Survey, Totals};
pub(crate) use work::WorkCounter;

#[cfg(test)]
mod tests;
