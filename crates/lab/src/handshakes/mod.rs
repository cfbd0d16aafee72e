//! Handshakes of the engine between nodes of a simulated world.
//!
//! - [`Profile`]: the kind of handshake, and whose timers retransmit;
//! - [`End`]: a client or a server as a [`Node`](crate::world::Node);
//! - [`Course`]: handshakes in one world, and what each of them cost;
//! - [`Survey`]: many handshakes of one kind, and what they cost on average.
//!
//! # A new profile
//!
//! Add an entry to [`PROFILES`].

mod course;
mod end;
pub mod expected;
mod profile;
mod survey;
mod tinydtls;
mod work;

pub use course::{Course, Outcome, Recording};
pub use end::{End, Sent};
pub(crate) use end::{address, node};
pub(crate) use profile::Making;
pub use profile::{PROFILES, Profile};
pub use survey::{Cost, Summary, Survey, Totals};
pub(crate) use work::Tally;

#[cfg(test)]
mod tests;
