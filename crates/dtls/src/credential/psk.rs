//! Pre-shared keys, and how a server finds those of its clients.

use crate::error::ConfigError;
use alloc::vec::Vec;
use core::fmt;
use zeroize::Zeroizing;

/// An external pre-shared key (RFC 8446, section 4.2.11) for use with SHA-256.
///
/// The key must have at least 128 bits of entropy. A password is not suitable as a PSK, because one
/// recorded handshake lets anybody try passwords offline.
#[derive(Clone)]
pub struct Psk {
    identity: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
}

impl Psk {
    /// Creates a PSK. The identity is sent in plaintext.
    ///
    /// The key must be shared by exactly two ends, one of which is always the client and the other
    /// always the server. An end that uses one PSK in both roles can be made to talk to itself (RFC
    /// 9257, section 7).
    ///
    /// # Errors
    /// Fails unless the identity has 1 to 256 bytes and the key 16 to 65,535 bytes.
    pub fn external(identity: &[u8], key: &[u8]) -> Result<Self, ConfigError> {
        if identity.is_empty() || identity.len() > 256 {
            return Err(ConfigError::PskIdentityLength(identity.len()));
        }
        if !(16..=usize::from(u16::MAX)).contains(&key.len()) {
            return Err(ConfigError::PskLength(key.len()));
        }
        Ok(Self { identity: identity.to_vec(), key: Zeroizing::new(key.to_vec()) })
    }

    /// The identity.
    pub fn identity(&self) -> &[u8] {
        &self.identity
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }
}

impl fmt::Debug for Psk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Psk").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// The answer of a [`PskStore`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Lookup {
    /// The PSK with the identity.
    Found(Psk),
    /// The server has no PSK with the identity.
    Unknown,
    /// The answer is not known yet. The client's message waits, and the store is asked again when
    /// the program calls [`Endpoint::lookups_answered`](crate::Endpoint::lookups_answered).
    Later,
}

impl From<Option<Psk>> for Lookup {
    fn from(psk: Option<Psk>) -> Self {
        psk.map_or(Self::Unknown, Self::Found)
    }
}

/// The PSKs of a server, found by identity.
pub trait PskStore: Send + Sync {
    /// Looks up the PSK with this identity. A store in memory answers with an `Option<Psk>`, made
    /// into a [`Lookup`] by `into()`. A store elsewhere begins a query, answers [`Lookup::Later`],
    /// and keeps the result until it is asked again.
    fn look_up(&self, identity: &[u8]) -> Lookup;

    /// Whether the store has no PSK at all, so that a server does not choose suites with PSKs. By
    /// default it may have some.
    fn is_empty(&self) -> bool {
        false
    }
}

impl PskStore for Psk {
    fn look_up(&self, identity: &[u8]) -> Lookup {
        (self.identity == identity).then(|| self.clone()).into()
    }
}

impl PskStore for Vec<Psk> {
    fn look_up(&self, identity: &[u8]) -> Lookup {
        self.iter().find(|psk| psk.identity == identity).cloned().into()
    }

    fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }
}
