//! What the images of `cargo xtask footprint` share. Each image is a program for the board
//! mps2-an385 that does one thing, so that its flash is the flash of that thing.
//!
//! An image prints one line for each measured step ([`meter`]); the instructions of a step are
//! counted by the emulator between two marks. A client or a server alone gets its peer's datagrams
//! from a transcript, which an image with both ends has written: random numbers are counted, so the same
//! handshake repeats to the byte, and no compiler can know what arrives.
#![no_std]
#![cfg_attr(
    not(any(feature = "client", feature = "server")),
    allow(dead_code, unused_imports, reason = "an image without an end of an association")
)]

extern crate alloc;

pub mod axiom;
#[cfg(all(feature = "client", feature = "server"))]
pub mod both;
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "group")]
pub mod group;
pub mod heap;
pub mod mac;
pub mod machine;
mod memory;
#[cfg_attr(feature = "bare", path = "bare.rs")]
pub mod meter;
pub mod random;
#[cfg(feature = "server")]
pub mod server;
pub mod settings;
pub mod solo;
#[cfg(feature = "tags")]
pub mod tags;
pub mod transcript;
