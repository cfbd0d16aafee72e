//! Ephemeral Diffie-Hellman (RFC 8446, section 4.2.8).

use alloc::boxed::Box;
use core::fmt;
use vocabulary::Random;
use zeroize::ZeroizeOnDrop;

/// The code point of a key exchange group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamedGroup(pub u16);

impl NamedGroup {
    /// NIST P-256 (secp256r1).
    pub const P256: Self = Self(23);
    /// X25519.
    pub const X25519: Self = Self(29);
}

impl fmt::Debug for NamedGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamedGroup({})", self.0)
    }
}

/// What two ends agreed on.
#[derive(ZeroizeOnDrop)]
pub struct SharedSecret([u8; 32]);

impl SharedSecret {
    /// A secret that a group computed.
    pub const fn new(secret: [u8; 32]) -> Self {
        Self(secret)
    }

    /// The secret's bytes.
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for SharedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedSecret(..)")
    }
}

/// The peer's key share is no valid public key, or one that would make the
/// shared secret known to everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidKeyShare;

impl fmt::Display for InvalidKeyShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid key share")
    }
}

impl core::error::Error for InvalidKeyShare {}

/// A group to exchange keys in.
pub trait Group: Send + Sync {
    /// Its code point.
    fn id(&self) -> NamedGroup;

    /// Its name in the registry.
    fn name(&self) -> &'static str;

    /// Makes an ephemeral key pair. The private scalar is the next 32 bytes of
    /// `rng`, big-endian in P-256 (drawn again until it is in range) and
    /// little-endian and clamped in X25519, whoever computes it: a run repeats
    /// under any provider.
    fn start(&self, rng: &mut Random) -> Box<dyn KeyExchange>;
}

/// An ephemeral key pair, used once.
pub trait KeyExchange: Send {
    /// The key share to send.
    fn public_key(&self) -> &[u8];

    /// Computes the shared secret in constant time.
    ///
    /// # Errors
    /// `peer` is no point of the group (P-256: uncompressed only), or the
    /// X25519 output is all zeros.
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, InvalidKeyShare>;
}

/// Whether `group` computes its known answers.
pub(crate) fn known_answer_holds(group: &dyn Group) -> bool {
    let mut rng = Random::from_seed([7; 32]);
    let (one, other) = (group.start(&mut rng), group.start(&mut rng));
    let share = other.public_key().to_vec();
    let Ok(a) = other.complete(one.public_key()) else { return false };
    one.complete(&share).is_ok_and(|b| a.as_bytes() == b.as_bytes())
}
