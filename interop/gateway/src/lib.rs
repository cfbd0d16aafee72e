//! Grounds for the MACsec gateway: real MACsec ends, and other tunnels to be measured beside.
//!
//! - [`namespace`]: network namespaces, and what runs in them;
//! - [`daemon`]: programs that end with us, and what they take of the processor;
//! - [`guest`]: a small Linux in QEMU with the MACsec and MKA that this machine's kernel lacks;
//! - [`interrupt`]: being asked to stop.
//!
//! A package of its own, because `interop` links wolfSSL, OpenSSL and Mbed TLS, of which nothing
//! here needs any.
#![forbid(unsafe_code)]

pub mod daemon;
mod failure;
pub mod guest;
pub mod interrupt;
pub mod namespace;

pub use failure::Failure;
