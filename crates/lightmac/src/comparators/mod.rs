//! The rivals that the paper measures LightMAC against (section 5), over the same ciphers.
//!
//! - [`emac`]: [`Emac`], serial, one cipher call a block;
//! - [`pmac_parity`]: [`PmacParity`], parallel, three cipher calls for two blocks.
//!
//! They are here to be measured, and written to be as fast as a mode over
//! [`BlockCipherEncrypt`](cipher::BlockCipherEncrypt) can be. Nothing else of this
//! project uses them.

pub mod emac;
pub mod pmac_parity;

pub use emac::Emac;
pub use pmac_parity::PmacParity;
