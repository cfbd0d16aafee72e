//! Pre-shared keys, and how a server finds those of its clients.

use crate::crypto::{Hash, Sha256};
use crate::error::ConfigError;
use crate::parts::Importer;
use alloc::vec::Vec;
use core::fmt;
use lightseal_core::parts::PartState;
use zeroize::Zeroizing;

/// The longest context of an imported PSK, in bytes: roles and identities of two ends fit, and a
/// ClientHello with it still fits one datagram.
pub(crate) const LONGEST_CONTEXT: usize = 512;

/// An external pre-shared key (RFC 8446, section 4.2.11) for use with SHA-256.
///
/// The key must have at least 128 bits of entropy. A password is not suitable as a PSK, because one
/// recorded handshake lets anybody try passwords offline.
#[derive(Clone)]
pub struct Psk {
    identity: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
    /// The context with which the PSK is imported for DTLS 1.3, if it is.
    context: PartState<Importer, Vec<u8>>,
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
        let (identity, key) = (identity.to_vec(), Zeroizing::new(key.to_vec()));
        Ok(Self { identity, key, context: PartState::EMPTY })
    }

    /// Creates a PSK that is imported for DTLS 1.3 (RFC 9258): each hash algorithm gets a key of its
    /// own, derived from `key`, and `context` says what the key is for. Both ends must import it,
    /// with the same context. Where one PSK could serve in both roles, the context names the two
    /// ends and their roles, so that an end cannot be made to talk to itself (RFC 9258, appendix A).
    ///
    /// In DTLS 1.2, for which PSKs are not imported, `key` is used as it is (RFC 9258, section 7).
    /// A profile of DTLS 1.3 for devices requires the importer wherever it is possible
    /// (draft-ietf-uta-tls13-iot-profile).
    ///
    /// # Errors
    /// As [`Self::external`], and if the context has more than 512 bytes.
    #[cfg(feature = "psk-importer")]
    pub fn imported(identity: &[u8], key: &[u8], context: &[u8]) -> Result<Self, ConfigError> {
        if context.len() > LONGEST_CONTEXT {
            return Err(ConfigError::PskContextLength(context.len()));
        }
        let context = PartState::new(Importer::INCLUDED, |_| context.to_vec());
        Ok(Self { context, ..Self::external(identity, key)? })
    }

    /// The identity.
    pub fn identity(&self) -> &[u8] {
        &self.identity
    }

    pub(crate) fn key(&self) -> &[u8] {
        &self.key
    }

    /// Tells this key from others of the same identity
    /// ([`Negotiated::key_check`](crate::Negotiated::key_check)).
    pub fn check(&self) -> KeyCheck {
        // For keys up to 48 bytes this costs one SHA-256 block in every handshake. The result is
        // never sent in plaintext.
        let mut full = [0; 32];
        Sha256.digest(&[b"session", &self.key], &mut full);
        KeyCheck(full.first_chunk().copied().unwrap_or_default())
    }

    /// The context with which the PSK is imported for DTLS 1.3; `None` if it is not imported.
    pub fn context(&self) -> Option<&[u8]> {
        self.context.get().map(Vec::as_slice)
    }

    /// Whether the PSK is imported with this context, or, for `None`, is not imported.
    fn is_for(&self, identity: &[u8], context: Option<&[u8]>) -> bool {
        self.identity == identity && self.context() == context
    }
}

impl fmt::Debug for Psk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Psk").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// The length in bytes of the check that tells one key from another. It is short because only the
/// owner of a key chooses it.
pub(crate) const KEY_CHECK: usize = 8;

/// Tells the keys of one PSK identity apart, without the key: an eighth of a hash of it. Whoever knows
/// it can test a guess of the key, so it is kept as secret as the association.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyCheck(pub(crate) [u8; KEY_CHECK]);

/// Never its bytes.
impl fmt::Debug for KeyCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyCheck")
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
    ///
    /// If the store has two PSKs with the identity, one imported and the other not, it answers with
    /// the one that is not. A server of DTLS 1.3 accepts a client's PSK only in the form that the
    /// store answers with.
    fn look_up(&self, identity: &[u8]) -> Lookup;

    /// Looks up the PSK with this identity that is imported with this context
    /// ([`Psk::imported`]). By default it is what [`look_up`](Self::look_up) finds, if that is
    /// imported with the context.
    fn look_up_imported(&self, identity: &[u8], context: &[u8]) -> Lookup {
        match self.look_up(identity) {
            Lookup::Found(psk) if !psk.is_for(identity, Some(context)) => Lookup::Unknown,
            answer => answer,
        }
    }

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
        let direct = self.iter().find(|psk| psk.is_for(identity, None));
        direct.or_else(|| self.iter().find(|psk| psk.identity == identity)).cloned().into()
    }

    fn look_up_imported(&self, identity: &[u8], context: &[u8]) -> Lookup {
        self.iter().find(|psk| psk.is_for(identity, Some(context))).cloned().into()
    }

    fn is_empty(&self) -> bool {
        self.as_slice().is_empty()
    }
}
