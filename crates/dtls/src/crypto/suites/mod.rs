//! Record protection, one file a construction.
//!
//! | file | suites | tags may be aggregated |
//! |---|---|---|
//! | [`gcm`] | AES_128_GCM | no |

#[cfg(feature = "rustcrypto")]
pub mod gcm;
pub mod known_answer;
pub mod mask;
pub mod nonce;
