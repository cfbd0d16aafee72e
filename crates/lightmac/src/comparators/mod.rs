//! The MACs that the paper compares with LightMAC (section 5), over the same ciphers.
//!
//! - [`emac`]: [`Emac`], serial, one cipher call for each block;
//! - [`pmac_parity`]: [`PmacParity`], parallel, three cipher calls for two blocks.
//!
//! They exist for speed measurements, and are as fast as a mode over
//! [`BlockCipherEncrypt`](cipher::BlockCipherEncrypt) can be. No other part of this project uses
//! them.

pub mod emac;
pub mod pmac_parity;

pub use emac::Emac;
pub use pmac_parity::PmacParity;
