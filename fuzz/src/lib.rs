//! Attacks on the engines, each a function of a seed.
//!
//! - [`fleet`]: many handshakes over a lossy relay.
#![forbid(unsafe_code)]

pub mod fleet;
