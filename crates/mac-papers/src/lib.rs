//! What the LightMAC paper (Luykx, Preneel, Tischhauser, Yasuda, FSE 2016) compares LightMAC with.
//!
//! - [`emac`]: [`Emac`], serial, one cipher call for each block;
//! - [`pmac_parity`]: [`PmacParity`], parallel, three cipher calls for two blocks;
//! - [`bounds`]: proven security bounds of LightMAC and of other modes (Table 2 of the paper).
//!
//! The MACs exist for speed measurements, and are as fast as a mode over
//! [`BlockCipherEncrypt`](cipher::BlockCipherEncrypt) can be. Over AES they have kernels as good as
//! LightMAC's. Use [`lightmac`] to authenticate messages.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

pub mod bounds;
pub mod emac;
pub mod pmac_parity;

pub use emac::Emac;
pub use pmac_parity::PmacParity;

/// Computes `state ^= block`, as far as the shorter of them reaches.
fn xor(state: &mut [u8], block: &[u8]) {
    for (s, b) in state.iter_mut().zip(block) {
        *s ^= b;
    }
}
