//! The groups of the portable provider.

pub mod p256;
pub mod x25519;
