//! What the engine needs of cryptography, and where it gets it.
//!
//! - [`provider`]: a [`Provider`] is two slices, of cipher suites and of groups;
//!   what is not listed is not linked;
//! - [`protection`]: records sealed and opened in place;
//! - [`limits`]: how long a key may be used;
//! - [`schedule`]: the key schedule of 1.3, one type a stage; [`schedule12`]: that of 1.2;
//! - [`transcript`]: the hash it is bound to;
//! - [`group`]: key exchange; [`groups`]: X25519 and P-256 (feature `rustcrypto`);
//! - [`suites`]: the constructions, generic over the block cipher where they are ours;
//! - [`rustcrypto`]: the portable provider (feature `rustcrypto`);
//! - `dangerous`: what must not be used, to show why (feature `dangerous-gcm-aggregation`).

#[cfg(feature = "dangerous-gcm-aggregation")]
pub mod dangerous;
pub mod group;
#[cfg(feature = "rustcrypto")]
pub mod groups;
pub mod limits;
pub mod protection;
pub mod provider;
#[cfg(feature = "rustcrypto")]
pub mod rustcrypto;
pub mod schedule;
pub mod schedule12;
pub mod suites;
pub mod transcript;

pub use crate::codepoints::{CipherSuiteId, NamedGroup};
pub use group::{Group, GroupAnswer, InvalidKeyShare, KeyExchange, SharedSecret};
pub use limits::{KeyState, Limits, Usage};
pub use protection::{
    Aead, Block, Opened, Pad, Prf, PrfProtection, PrfState, Protection, Record, Unauthentic,
};
pub use provider::{
    CipherSuite, CipherSuite12, Exchange12, Keying, PadKeying, Provider, SelfTestFailed,
};
pub use schedule::{
    BinderKey, EarlySecret, ExportError, ExporterSecret, FinishedKey, HandshakeSecret,
    MasterSecret, ResumptionSecret, TrafficSecret,
};
pub use schedule12::{Keys12, MasterSecret12, PremasterSecret, Prf12};
pub use suites::known_answer::{KnownAnswer, KnownAnswer12};
pub use transcript::Transcript;
