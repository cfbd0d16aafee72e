//! The cryptography of the engine, and the providers that implement it.
//!
//! - [`provider`]: a [`Provider`] lists cipher suites and groups; what is not listed is not linked;
//! - [`protection`]: traits that seal and open records in place;
//! - `hash`: hash functions with HMAC and HKDF, which suites name; `sha256` and
//!   `sha384`: the portable ones; `blocks256`: SHA-256 over messages in parts;
//! - [`limits`]: how much a key may be used;
//! - `schedule`: the key schedule of DTLS 1.3, one type for each stage; `schedule12`: that of 1.2
//!   (feature `internals`);
//! - `transcript`: the hash of the handshake messages (feature `internals`);
//! - [`group`]: key exchange; [`groups`]: X25519, P-256, P-384 and ML-KEM-768 (feature `rustcrypto`);
//! - [`signature`]: private keys that sign, and algorithms that verify; [`signatures`]: those of the
//!   portable provider (features `certificates` and `rustcrypto`);
//! - [`suites`]: the constructions of record protection, where possible generic over the block
//!   cipher;
//! - [`rustcrypto`]: the portable provider (feature `rustcrypto`);
//! - `dangerous`: an insecure suite, which exists to show why (feature
//!   `dangerous-gcm-aggregation`).

mod blocks256;
#[cfg(feature = "dangerous-gcm-aggregation")]
pub mod dangerous;
#[cfg(feature = "alloc")]
pub mod group;
#[cfg(feature = "rustcrypto")]
pub mod groups;
mod hash;
pub mod limits;
pub mod protection;
#[cfg(feature = "alloc")]
pub mod provider;
#[cfg(feature = "rustcrypto")]
pub mod rustcrypto;
#[cfg(not(feature = "internals"))]
mod schedule;
#[cfg(feature = "internals")]
pub mod schedule;
#[cfg(not(feature = "internals"))]
mod schedule12;
#[cfg(feature = "internals")]
pub mod schedule12;
mod sha256;
#[cfg(feature = "sha384")]
mod sha384;
mod shared;
#[cfg(feature = "alloc")]
pub mod signature;
#[cfg(all(feature = "certificates", feature = "rustcrypto"))]
pub mod signatures;
mod suite;
pub mod suites;
#[cfg(all(feature = "alloc", not(feature = "internals")))]
mod transcript;
#[cfg(all(feature = "alloc", feature = "internals"))]
pub mod transcript;

pub use crate::codepoints::{CipherSuiteId, NamedGroup, SignatureScheme};
#[cfg(feature = "alloc")]
pub use group::{Group, GroupAnswer, Hybrid, KeyExchange};
#[cfg(feature = "internals")]
pub use hash::HashValue;
#[cfg(not(feature = "internals"))]
pub(crate) use hash::HashValue;
pub(crate) use hash::LONGEST_OUTPUT;
pub use hash::{CustomRunningHash, Hash, HashAlgorithm, HmacKey, HmacState, RunningHash};
pub(crate) use limits::{Count, OpenUsage, SealUsage, ShortCount};
pub use limits::{KeyState, Limits, Usage};
pub use protection::{
    Aead, Block, Opened, Pad, Prf, PrfProtection, PrfState, Protection, Record, Unauthentic,
};
#[cfg(feature = "alloc")]
pub use provider::{Provider, SelfTestFailed};
pub(crate) use schedule::KeptSecret;
#[cfg(feature = "internals")]
pub use schedule::{
    ApplicationSecrets, BinderKey, EarlySecret, ExporterSecret, FinishedKey, HandshakeSecret,
    MasterSecret, ResumptionSecret,
};
#[cfg(not(feature = "internals"))]
pub(crate) use schedule::{
    ApplicationSecrets, BinderKey, EarlySecret, ExporterSecret, HandshakeSecret, MasterSecret,
    ResumptionSecret,
};
pub use schedule::{ExportError, KeyDerivation, TrafficSecret};
#[cfg(feature = "internals")]
pub use schedule12::{Keys12, MasterSecret12, PremasterSecret, Prf12};
#[cfg(not(feature = "internals"))]
pub(crate) use schedule12::{Keys12, MasterSecret12, PremasterSecret, Prf12};
pub use sha256::Sha256;
#[cfg(feature = "sha384")]
pub use sha384::Sha384;
pub use shared::{InvalidKeyShare, SharedSecret};
#[cfg(feature = "alloc")]
pub use signature::{
    KeyLoader, PrivateKeyError, SignatureAlgorithm, SignatureAnswer, Signing, SigningKey,
};
pub use suite::{AeadKeying, CipherSuite, CipherSuite12, Exchange12, Keying, PadKeying};
pub use suites::known_answer::{KnownAnswer, KnownAnswer12};
#[cfg(all(feature = "alloc", feature = "internals"))]
pub use transcript::Transcript;
#[cfg(all(feature = "alloc", not(feature = "internals")))]
pub(crate) use transcript::Transcript;
