//! A DTLS 1.2 session that a client offers to resume.

use super::{Lookup, Psk, PskStore};
use crate::crypto::{CipherSuiteId, MasterSecret12};
use alloc::vec::Vec;
use core::fmt;
use sha2::{Digest, Sha256};

/// The length in bytes of the check that tells one key from another. It is short because only the
/// owner of a key chooses it.
pub(crate) const KEY_CHECK: usize = 8;

/// A ticket that a server gave to a client for resumption.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) bytes: Vec<u8>,
}

/// The PSK with which a session was made. The session cannot be resumed when the server no longer
/// has this PSK.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) identity: Vec<u8>,
    /// Detects that the key of the identity has changed.
    pub(crate) key_check: [u8; KEY_CHECK],
}

impl Owner {
    pub(crate) fn of(psk: &Psk) -> Self {
        // For keys up to 48 bytes this costs one SHA-256 block in every handshake. The result is
        // never sent in plaintext.
        let full = Sha256::new().chain_update(b"session").chain_update(psk.key()).finalize();
        let key_check = full.first_chunk().copied().unwrap_or_default();
        Self { identity: psk.identity().to_vec(), key_check }
    }

    /// Whether a server still has this key.
    pub(crate) fn is_known(&self, psks: &dyn PskStore) -> bool {
        matches!(psks.look_up(&self.identity), Lookup::Found(psk) if Self::of(&psk) == *self)
    }
}

/// A DTLS 1.2 session that a later handshake can resume.
///
/// It contains the master secret: anybody who has it can decrypt recordings of the associations
/// made with it.
#[derive(Clone)]
pub struct Session {
    pub(crate) suite: CipherSuiteId,
    pub(crate) extended_master: bool,
    pub(crate) master: MasterSecret12,
    pub(crate) owner: Owner,
    pub(crate) id: Vec<u8>,
    pub(crate) ticket: Option<Ticket>,
}

impl Session {
    /// The PSK identity with which the session was made.
    pub fn identity(&self) -> &[u8] {
        &self.owner.identity
    }

    /// The cipher suite, which stays the same when the session is resumed.
    pub const fn suite(&self) -> CipherSuiteId {
        self.suite
    }

    /// Whether the session has an ID or a ticket with which it can be resumed.
    pub fn is_resumable(&self) -> bool {
        !self.id.is_empty() || self.ticket.is_some()
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("suite", &self.suite)
            .field("identity", &self.owner.identity)
            .finish_non_exhaustive()
    }
}
