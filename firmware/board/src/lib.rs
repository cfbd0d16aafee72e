//! QEMU's board mps2-an385 with a Cortex-M3, from its start to UDP.
//!
//! - [`console`]: text, the command line and the exit code, over semihosting;
//! - [`clock`]: microseconds since the start;
//! - [`tick`]: an interrupt in each millisecond;
//! - [`heap`]: the allocator;
//! - [`lan9118`]: the driver of the Ethernet controller;
//! - [`ethernet`]: that controller as a device of smoltcp;
//! - [`network`]: an engine without I/O, run over UDP.
//!
//! The board has no source of randomness. Programs take a seed from their command line, which makes
//! a run repeatable and is nothing for a device in the field.
#![no_std]

extern crate alloc;

pub mod clock;
pub mod console;
pub mod ethernet;
pub mod heap;
pub mod lan9118;
pub mod network;
pub mod tick;
mod trap;

pub use clock::Clock;
pub use network::Network;
