//! The words that every engine and every host of Lightseal shares.
//!
//! - [`time`]: integer microseconds, never a clock;
//! - [`rng`]: randomness that is injected whole as one seed;
//! - [`wire`]: a bounds-checked codec over slices;
//! - [`replay`]: the sliding replay window;
//! - [`packet`]: a packet with room around it;
//! - [`engine`]: the contract between a sans-I/O engine and its host.
//!
//! No protocol lives here. Nothing in this crate allocates, reads a clock or
//! asks the operating system for anything.
//!
//! # Driving an engine
//!
//! Every engine is driven the same way. Feed it what happened, then drain it
//! until it names the next wake-up time:
//!
//! ```
//! use vocabulary::{Engine, Instant, Output};
//!
//! fn drain<E: Engine>(engine: &mut E, mut transmit: impl FnMut(&[u8])) -> Option<Instant> {
//!     let mut buf = [0; 1500];
//!     loop {
//!         match engine.poll_output(&mut buf) {
//!             Output::Datagram { payload, .. } => transmit(payload),
//!             Output::Event(_event) => {}
//!             Output::WakeAt(deadline) => return Some(deadline),
//!             Output::Idle => return None,
//!         }
//!     }
//! }
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod engine;
pub mod packet;
pub mod replay;
pub mod rng;
pub mod time;
pub mod wire;

pub use engine::{AddressPair, Engine, Output};
pub use packet::PacketBuf;
pub use replay::ReplayWindow;
pub use rng::Random;
pub use time::Instant;
pub use wire::{Decode, DecodeError, Encode, Reader, Writer};
