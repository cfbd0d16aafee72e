//! The groups of the portable provider.

mod curve;
pub mod mlkem768;
pub mod p256;
pub mod p384;
pub mod x25519;
