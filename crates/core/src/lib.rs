//! The types that all engines and hosts of Lightseal share.
//!
//! - [`time`]: time in integer microseconds, without a clock;
//! - [`rng`]: a random generator that is seeded from outside;
//! - [`wire`]: a bounds-checked codec over slices;
//! - [`replay`]: the sliding replay window;
//! - [`packet`]: a packet with room before and after it;
//! - `math`: mathematical functions with the same results everywhere, with the feature of this name;
//! - [`mod@parts`]: parts of an engine that a build may lack;
//! - [`Text`]: words about errors, which a build may lack;
//! - [`engine`]: the contract between a sans-I/O engine and its host.
//!
//! This crate contains no protocol. Nothing in it allocates, reads a clock or calls the operating
//! system, except `Random::from_os`, which the feature `os` adds for hosts.
//!
//! # Driving an engine
//!
//! All engines that implement [`Engine`] are driven in the same way. Pass what happened to the
//! engine, then poll it until it returns the next wake-up time:
//!
//! ```
//! use lightseal_core::{Engine, Instant, Output};
//!
//! fn drain<E: Engine>(engine: &mut E, mut transmit: impl FnMut(&[u8])) -> Option<Instant> {
//!     let mut buf = vec![0; 1500];
//!     loop {
//!         let needed = match engine.poll_output(&mut buf) {
//!             Output::Datagram { payload, .. } => {
//!                 transmit(payload);
//!                 continue;
//!             }
//!             Output::Event(_event) => continue,
//!             Output::BufferTooSmall { needed } => needed,
//!             Output::WakeAt(deadline) => return Some(deadline),
//!             Output::Idle => return None,
//!         };
//!         buf.resize(needed, 0);
//!     }
//! }
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod engine;
#[cfg(feature = "math")]
pub mod math;
pub mod packet;
pub mod parts;
pub mod replay;
pub mod rng;
mod text;
pub mod time;
pub mod wire;

pub use engine::{AddressPair, Engine, Output, Sent};
pub use packet::PacketBuf;
pub use replay::{ReplayWindow, ShortReplayWindow};
#[cfg(feature = "os")]
pub use rng::OsRandomError;
pub use rng::Random;
pub use text::{Text, text};
pub use time::Instant;
pub use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// The examples of the page that the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
