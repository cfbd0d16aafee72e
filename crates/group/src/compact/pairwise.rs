//! What a sender and a listener need to have a secret of their own: static X25519 keys, and the
//! listener's boot nonce.
//!
//! Other members can then neither read the listener's responses nor write them. What this does
//! not give: both keys are static, so whoever learns one of them and the epoch's root key reads
//! all of the epoch (no forward secrecy beyond it), and whoever learns a sender's private key
//! can pose to that sender as any listener (key-compromise impersonation), and the other way
//! round.
//!
//! A listener that keeps nothing when it is switched off starts again at number 0. It draws 8
//! random bytes at each start, the boot nonce, and the keys derive from it: numbers are used
//! again, nonces are not. It may stand in clear in front of a record, because the key is made
//! from it: who changes it makes the record fail. But who *repeats* it, and the records behind
//! it, must not bring an old boot back. A sender therefore takes a new nonce only from a record
//! that states a request which was sent after the listener was last heard
//! ([`KnownBoot::standing`]). A boot that another has followed never saw such a request, so it
//! never comes back, and nobody has to remember the nonces that were. Each epoch begins without a
//! boot: the sender may have lost what it knew.

use super::InvalidPublicKey;
use super::header::Boot;
use core::fmt;
use x25519_dalek::StaticSecret;
use zeroize::Zeroizing;

/// A member's static X25519 key, zeroized when dropped.
#[derive(Clone)]
pub struct PrivateKey {
    secret: StaticSecret,
    /// Kept: it costs as much as a shared secret.
    public: PublicKey,
}

impl PrivateKey {
    /// A key from 32 random bytes.
    pub fn new(bytes: &[u8; 32]) -> Self {
        let secret = StaticSecret::from(*bytes);
        let public = PublicKey(x25519_dalek::PublicKey::from(&secret).to_bytes());
        Self { secret, public }
    }

    /// What the other members know of it.
    pub const fn public(&self) -> PublicKey {
        self.public
    }

    /// The 32 bytes, for storage.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.secret.as_bytes()
    }

    /// The secret shared with the owner of `peer` (RFC 7748, section 6.1).
    ///
    /// # Errors
    /// It would be zero.
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

/// A member's static X25519 key, as the controller gives it to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PublicKey(pub [u8; 32]);

/// What a sender keeps of a listener's boots beside the pair's secret: 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownBoot {
    nonce: [u8; 8],
    /// Requests below this number were sent before the listener was last heard.
    not_before: u64,
}

/// What becomes of a record that states a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is of the boot that the sender knows: its keys, its window.
    Known,
    /// If it opens, the listener has started again: new keys, a new window.
    New,
    /// It is of an earlier boot, or may be: to be dropped, whether it would open or not.
    Stale,
}

impl KnownBoot {
    /// The boot of the first record of a listener that opened; `next` is the number of the
    /// sender's next request.
    pub const fn new(boot: &Boot, next: u64) -> Self {
        Self { nonce: boot.nonce, not_before: next }
    }

    /// From storage.
    pub(crate) const fn restore(nonce: [u8; 8], not_before: u64) -> Self {
        Self { nonce, not_before }
    }

    /// For storage, beside the nonce.
    pub(crate) const fn not_before(&self) -> u64 {
        self.not_before
    }

    /// The boot's nonce.
    pub const fn nonce(&self) -> &[u8; 8] {
        &self.nonce
    }

    /// To be called for each record of this boot that opened, before the sender's request `next`
    /// is sent. Not for a challenge of another boot: repeated, it would keep out who starts again.
    pub const fn heard(&mut self, next: u64) {
        self.not_before = next;
    }

    /// What becomes of a record of `boot` while the sender's next request has the number `next`.
    pub fn standing(known: Option<&Self>, boot: &Boot, next: u64) -> Standing {
        match known {
            Some(known) if known.nonce == boot.nonce => Standing::Known,
            _ if boot.request >= next => Standing::Stale,
            Some(known) if boot.request < known.not_before => Standing::Stale,
            _ => Standing::New,
        }
    }
}
