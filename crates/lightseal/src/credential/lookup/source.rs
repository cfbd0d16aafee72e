//! What all sources of keys have in common.

use lightseal_dtls::{Identity, KeyCheck, Psk};
use std::fmt;
use std::sync::Arc;

/// An identity that is looked up.
pub(super) type PeerIdentity = Arc<Identity>;

/// Which identities a source is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Identities of pre-shared keys.
    Psks,
    /// Public keys and names of certificates.
    Peers,
}

/// What a source has of an identity.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    /// Its pre-shared key.
    Psk(Psk),
    /// The public key, or the name that a certificate proves, is let in.
    Admitted,
}

/// Tells what a source has of an identity from what it has of it later; `None` for a public key or a
/// name, of which there is nothing to be told apart.
pub(super) type EntryCheck = Option<KeyCheck>;

impl Entry {
    pub(super) fn check(&self) -> EntryCheck {
        match self {
            Self::Psk(psk) => Some(psk.check()),
            Self::Admitted => None,
        }
    }
}

/// The most identities in one question to a source.
pub(super) const MOST_AT_ONCE: usize = 1000;

/// The longest key, in bytes. The hash functions of TLS have blocks of 128 bytes at most, so that a
/// longer key has no more entropy to give.
pub(super) const MOST_KEY_BYTES: usize = 128;

/// The longest identity of a pre-shared key, in bytes. There is no key with a longer one
/// ([`Psk::external`]), nor with an empty one.
pub(super) const MOST_IDENTITY_BYTES: usize = 256;

/// A place that has keys. Each of the two threads that ask has one of its own.
pub(super) trait KeySource: Send {
    /// What the source has of identities, in their order; `None` for an identity without a key, or
    /// one that is not let in.
    ///
    /// # Errors
    ///
    /// If the source does not answer. Nothing is known of any of the identities then.
    fn find(&mut self, identities: &[PeerIdentity]) -> Result<Vec<Option<Entry>>, SourceError>;

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
    These(Vec<PeerIdentity>),
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

/// An identity in the form of access lists and logs, that of a pre-shared key without `psk:` before
/// it.
pub(super) fn written(identity: &Identity) -> String {
    let whole = identity.to_string();
    match identity {
        Identity::Psk(_) => whole.strip_prefix("psk:").unwrap_or_default().to_owned(),
        _ => whole,
    }
}

/// The identity that is written in this way.
pub(super) fn read(kind: Kind, text: &str) -> Option<PeerIdentity> {
    let identity: Identity = match kind {
        Kind::Psks => format!("psk:{text}").parse().ok()?,
        Kind::Peers => text.parse().ok()?,
    };
    let fits = matches!(identity, Identity::Psk(_)) == (kind == Kind::Psks);
    fits.then(|| identity.into())
}
