//! Pairwise secrets of a sender and a listener: static X25519 keys, and the listener's boot nonce.
//!
//! Other members can neither read the listener's pairwise responses nor forge them. The limits of
//! this protection: both keys are static, so an attacker that learns one of them and the epoch's
//! root key can read all pairwise records of the epoch (no forward secrecy within an epoch). An
//! attacker that learns a sender's private key can impersonate any listener to that sender, and
//! vice versa (key-compromise impersonation).
//!
//! A listener without stable storage starts again at number 0 after a restart. At each start it
//! draws 8 random bytes, the *boot nonce*, from which the keys are derived: record numbers repeat,
//! but never under the same key. The boot nonce may be sent in clear in front of a record, because
//! a changed nonce gives another key, under which the record does not open. A *replayed* boot
//! nonce, with the records behind it, must not make an old boot current again. A sender therefore
//! accepts a new boot nonce only from a record that states a request which was sent after the
//! listener was last heard ([`KnownBoot::standing`]). An old boot has never received such a
//! request, so its records are refused, and the sender need not remember old nonces. Each epoch
//! begins without a known boot, because the sender may have lost its state.

use super::InvalidPublicKey;
use super::header::Boot;
use core::fmt;
use x25519_dalek::StaticSecret;
use zeroize::Zeroizing;

/// A member's static X25519 key, zeroized when dropped.
#[derive(Clone)]
pub struct PrivateKey {
    secret: StaticSecret,
    /// Stored, because it costs as much to compute as a shared secret.
    public: PublicKey,
}

impl PrivateKey {
    /// A private key from 32 random bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        let secret = StaticSecret::from(*bytes);
        let public = PublicKey(x25519_dalek::PublicKey::from(&secret).to_bytes());
        Self { secret, public }
    }

    /// The public key.
    pub const fn public(&self) -> PublicKey {
        self.public
    }

    /// The 32 secret bytes, for storage.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.secret.as_bytes()
    }

    /// The secret shared with the owner of `peer` (RFC 7748, section 6.1).
    ///
    /// # Errors
    /// The shared secret would be zero, because the public key is of small order.
    pub(super) fn agree(&self, peer: &PublicKey) -> Result<Zeroizing<[u8; 32]>, InvalidPublicKey> {
        let shared = self.secret.diffie_hellman(&x25519_dalek::PublicKey::from(peer.0));
        if shared.was_contributory() {
            Ok(Zeroizing::new(shared.to_bytes()))
        } else {
            Err(InvalidPublicKey)
        }
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

/// A member's static X25519 public key, which the controller gives to other members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PublicKey(pub [u8; 32]);

/// What a sender stores about a listener's current boot, in addition to the pairwise secret: 16
/// bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownBoot {
    nonce: [u8; 8],
    /// The number of the first request that was sent after the listener was last heard.
    not_before: u64,
}

/// How a sender treats a record that states a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The record is of the boot that the sender knows: use its keys and its replay window.
    Known,
    /// If the record opens, the listener has restarted: use new keys and a new replay window.
    New,
    /// The record is, or may be, of an earlier boot: drop it, even if it would open.
    Stale,
}

impl KnownBoot {
    /// A boot, from the first of its records that opened. `next` is the number of the sender's next
    /// request.
    pub const fn new(boot: &Boot, next: u64) -> Self {
        Self { nonce: boot.nonce, not_before: next }
    }

    /// A boot from storage.
    pub(crate) const fn restore(nonce: [u8; 8], not_before: u64) -> Self {
        Self { nonce, not_before }
    }

    /// The number of the first request that was sent after the listener was last heard, for
    /// storage.
    pub(crate) const fn not_before(&self) -> u64 {
        self.not_before
    }

    /// The boot's nonce.
    pub const fn nonce(&self) -> &[u8; 8] {
        &self.nonce
    }

    /// Must be called for each record of this boot that opened, before the sender's request `next`
    /// is sent. Must not be called for a challenge from another boot: a replayed challenge would
    /// then keep the sender from accepting a new boot.
    pub const fn heard(&mut self, next: u64) {
        self.not_before = next;
    }

    /// How to treat a record of `boot` while the sender's next request has the number `next`.
    pub fn standing(known: Option<&Self>, boot: &Boot, next: u64) -> Standing {
        match known {
            Some(known) if known.nonce == boot.nonce => Standing::Known,
            _ if boot.request >= next => Standing::Stale,
            Some(known) if boot.request < known.not_before => Standing::Stale,
            _ => Standing::New,
        }
    }
}
