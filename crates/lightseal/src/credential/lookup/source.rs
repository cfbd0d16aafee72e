//! What all sources of keys have in common.

use lightseal_dtls::{Identity, Psk};
use std::fmt;
use std::sync::Arc;

/// The identity of a pre-shared key.
pub(super) type PskIdentity = Arc<[u8]>;

/// The most identities in one question to a source.
pub(super) const MOST_AT_ONCE: usize = 1000;

/// The longest key, in bytes. The hash functions of TLS have blocks of 128 bytes at most, so that a
/// longer key has no more entropy to give.
pub(super) const MOST_KEY_BYTES: usize = 128;

/// A place that has keys. Each of the two threads that ask has one of its own.
pub(super) trait KeySource: Send {
    /// The keys of identities, in their order; `None` for an identity without a key.
    ///
    /// # Errors
    ///
    /// If the source does not answer. Nothing is known of any of the identities then.
    fn find(&mut self, identities: &[PskIdentity]) -> Result<Vec<Option<Psk>>, SourceError>;

    /// What may have changed since the last call that did not fail.
    ///
    /// # Errors
    ///
    /// If the source does not answer.
    fn changes(&mut self) -> Result<Changed, SourceError>;
}

/// What may have changed in a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// The keys of these identities, and no others.
    These(Vec<PskIdentity>),
    /// It is not known which.
    All,
}

/// Why a source does not answer.
#[derive(Debug)]
pub(super) struct SourceError(pub(super) String);

impl SourceError {
    pub(super) fn new(why: impl fmt::Display) -> Self {
        Self(why.to_string())
    }
}

impl fmt::Display for SourceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SourceError {}

/// An identity in the form of access lists and logs, without `psk:` before it.
pub(super) fn written(identity: &[u8]) -> String {
    let whole = Identity::Psk(identity.to_vec()).to_string();
    whole.strip_prefix("psk:").unwrap_or_default().to_owned()
}
