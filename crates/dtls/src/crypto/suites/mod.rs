//! Record protection, one file for each construction.
//!
//! | file | suites | tags may be aggregated |
//! |---|---|---|
//! | [`gcm`] | AES_128_GCM | no |
//! | [`chacha`] | CHACHA20_POLY1305 | no |
//! | [`ccm`] | AES_128_CCM, AES_128_CCM_8 | with full tags |
//! | [`lightmac`] | AES_128_CTR_LIGHTMAC, AES_128_CTR_LIGHTMAC_8 | with full tags |
//! | [`integrity`] | SHA256_SHA256, which does not encrypt | yes |
//!
//! All except the last two also serve DTLS 1.2, as the same AEADs without a mask. All except
//! `chacha` and `integrity` accept any block cipher, so that a device can use its own AES.

pub mod ccm;
#[cfg(feature = "rustcrypto")]
pub mod chacha;
mod ctr;
#[cfg(feature = "rustcrypto")]
pub mod gcm;
#[cfg(feature = "alloc")]
pub mod integrity;
pub mod known_answer;
#[cfg(feature = "alloc")]
pub mod lightmac;
pub mod mask;
pub mod nonce;
pub(crate) mod outputs;
