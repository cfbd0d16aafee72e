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
//! listener was last heard ([`KnownBoot::status_of`]). An old boot has never received such a
//! request, so its records are refused, and the sender need not remember old nonces. Each epoch
//! begins without a known boot, because the sender may have lost its state.

use super::InvalidPublicKey;
use crate::parts::Pairwise;
use core::fmt;
use x25519_dalek::StaticSecret;
use zeroize::Zeroizing;

/// A member's static X25519 key, zeroized when dropped.
#[derive(Clone)]
pub struct PrivateKey {
    secret: StaticSecret,
    /// Stored, because it costs as much to compute as a shared secret.
    public: PublicKey,
    pub(super) part: Pairwise,
}

impl PrivateKey {
    /// A private key from 32 random bytes.
    #[cfg(feature = "pairwise")]
    pub fn new(bytes: &[u8; 32]) -> Self {
        const PART: Pairwise = Pairwise::INCLUDED.expect("the feature `pairwise`");
        Self::with(PART, bytes)
    }

    pub(crate) fn with(part: Pairwise, bytes: &[u8; 32]) -> Self {
        let secret = StaticSecret::from(*bytes);
        let public = PublicKey(x25519_dalek::PublicKey::from(&secret).to_bytes());
        Self { secret, public, part }
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

impl PublicKey {
    /// Whether the shared secret with every private key is zero. Such a key would cost each peer a
    /// scalar multiplication for each record in its owner's name, because no pairwise secret could
    /// be computed and stored.
    pub fn is_small_order(&self) -> bool {
        let mut bytes = self.0;
        // The top bit is ignored (RFC 7748, section 5).
        bytes[31] &= 0x7f;
        SMALL_ORDER.contains(&bytes)
    }
}

/// The u-coordinates of all points of small order on Curve25519 and its twist, as D. J. Bernstein
/// lists them at <https://cr.yp.to/ecdh.html#validate>: 0, 1, the two of order 8, p - 1, and the
/// other encodings of 0 and 1, p and p + 1. The numbers are little-endian, without the top bit.
const SMALL_ORDER: [[u8; 32]; 7] = [
    ends(0, 0, 0),
    ends(1, 0, 0),
    [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4,
        0x6a, 0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49,
        0xb8, 0x00,
    ],
    [
        0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef,
        0x5b, 0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f,
        0x11, 0x57,
    ],
    ends(0xec, 0xff, 0x7f),
    ends(0xed, 0xff, 0x7f),
    ends(0xee, 0xff, 0x7f),
];

/// 32 bytes with this first and last byte, and `middle` between them.
const fn ends(first: u8, middle: u8, last: u8) -> [u8; 32] {
    let mut bytes = [middle; 32];
    bytes[0] = first;
    bytes[31] = last;
    bytes
}

/// A listener's statement about its current boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boot {
    /// The boot nonce, drawn at random when the listener started.
    pub nonce: [u8; 8],
    /// The highest request number that the listener has received from the sender.
    pub request: u64,
}

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
pub enum BootStatus {
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
    pub const fn mark_heard(&mut self, next: u64) {
        self.not_before = next;
    }

    /// How to treat a record of `boot` while the sender's next request has the number `next`.
    pub fn status_of(known: Option<&Self>, boot: &Boot, next: u64) -> BootStatus {
        match known {
            Some(known) if known.nonce == boot.nonce => BootStatus::Known,
            _ if boot.request >= next => BootStatus::Stale,
            Some(known) if boot.request < known.not_before => BootStatus::Stale,
            _ => BootStatus::New,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_small_order_is_known_without_a_scalar_multiplication() {
        let own = PrivateKey::new(&[7; 32]);
        for key in SMALL_ORDER {
            for top in [0, 0x80] {
                let mut bytes = key;
                bytes[31] |= top;
                let key = PublicKey(bytes);
                assert!(key.is_small_order());
                assert_eq!(own.agree(&key).err(), Some(InvalidPublicKey));
            }
        }
        for near in [ends(2, 0, 0), ends(0xeb, 0xff, 0x7f), ends(0xef, 0xff, 0x7f)] {
            assert!(!PublicKey(near).is_small_order());
            assert!(own.agree(&PublicKey(near)).is_ok());
        }
        assert!(!own.public().is_small_order());
    }
}
