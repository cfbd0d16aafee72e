//! The long-term keys of a single member: an Ed25519 key that signs its records, and an X25519 key
//! from which pairwise secrets are made.
//!
//! The private keys never leave their device. The public keys go to the controller when a member
//! joins, and from there to any member that [looks them up](crate::directory). A joining device
//! does not prove that it has the private keys: signatures and shared secrets are bound to
//! SenderIDs and ListenerIDs, so a device that joined with another device's public keys could
//! neither sign records nor compute shared secrets.

use crate::compact::{InvalidPublicKey, PrivateKey, PublicKey, SigningKey, VerifyingKey};
use crate::parts::{Pairwise, Signatures};
use core::fmt;
use lightseal_core::parts::PartState;
use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, DecodeError, Encode, Random, Reader, Writer};
use zeroize::Zeroizing;

/// A member's own private keys, zeroized when dropped. A device has one identity, which it uses in
/// all its groups.
///
/// A build without signatures or without pairwise keys has no use for one of the two keys, and keeps
/// its bytes.
#[derive(Clone)]
pub struct Identity {
    bytes: Zeroizing<[u8; Self::BYTES]>,
    signing: PartState<Signatures, SigningKey>,
    exchange: PartState<Pairwise, PrivateKey>,
}

impl Identity {
    /// Length of a stored identity in bytes.
    pub const BYTES: usize = 64;

    /// Generates a new identity.
    pub fn generate(rng: &mut Random) -> Self {
        Self::from_bytes(&Zeroizing::new(rng.array()))
    }

    /// An identity from 64 random bytes or from storage: the 32-byte Ed25519 seed, then the 32-byte
    /// X25519 private key.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let (seed, exchange) = bytes.split_at(32);
        let half = |half: &[u8]| Zeroizing::new(<[u8; 32]>::try_from(half).expect("half of 64"));
        Self {
            bytes: Zeroizing::new(*bytes),
            signing: PartState::new(Signatures::INCLUDED, |part| {
                SigningKey::with(part, &half(seed))
            }),
            exchange: PartState::new(Pairwise::INCLUDED, |part| {
                PrivateKey::with(part, &half(exchange))
            }),
        }
    }

    /// The 64 secret bytes, for storage.
    pub fn to_bytes(&self) -> Zeroizing<[u8; Self::BYTES]> {
        self.bytes.clone()
    }

    /// The public keys, which other members may know.
    #[cfg(all(feature = "signatures", feature = "pairwise"))]
    pub fn public(&self) -> PublicKeys {
        let (signing, exchange) = (self.signing().public(), self.exchange().public());
        PublicKeys { signing: *signing.as_bytes(), exchange }
    }

    /// The Ed25519 private key.
    #[cfg(feature = "signatures")]
    pub fn signing(&self) -> &SigningKey {
        self.signer().expect("the feature `signatures`")
    }

    /// The X25519 private key.
    #[cfg(feature = "pairwise")]
    pub fn exchange(&self) -> &PrivateKey {
        self.exchanger().expect("the feature `pairwise`")
    }

    /// The Ed25519 private key, if this build has signatures.
    pub(crate) fn signer(&self) -> Option<&SigningKey> {
        self.signing.get()
    }

    /// The X25519 private key, if this build has pairwise keys.
    pub(crate) fn exchanger(&self) -> Option<&PrivateKey> {
        self.exchange.get()
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(..)")
    }
}

/// A member's public keys: 64 bytes, the Ed25519 key and then the X25519 key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PublicKeys {
    signing: [u8; 32],
    /// The X25519 public key, for pairwise secrets.
    pub exchange: PublicKey,
}

impl PublicKeys {
    /// Length on the wire and in storage, in bytes.
    pub const BYTES: usize = 64;

    /// Public keys from their 64 bytes.
    ///
    /// # Errors
    /// The first 32 bytes are not a valid Ed25519 public key, or the other 32 bytes are an X25519
    /// public key of small order, with which no secret can be shared.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Result<Self, InvalidPublicKey> {
        let keys = Self::from_storage(bytes)?;
        if keys.exchange.is_small_order() { Err(InvalidPublicKey) } else { Ok(keys) }
    }

    /// Public keys from a controller's store. The X25519 key may be of small order, because earlier
    /// controllers did not refuse such a key when a device joined. The controller keeps the keys of
    /// such a member out of its [directory](crate::directory).
    ///
    /// # Errors
    /// The first 32 bytes are not a valid Ed25519 public key. A build without signatures does not
    /// check this.
    pub fn from_storage(bytes: &[u8; Self::BYTES]) -> Result<Self, InvalidPublicKey> {
        let (signing, exchange) = bytes.split_at(32);
        let part = |part: &[u8]| <[u8; 32]>::try_from(part).map_err(|_| InvalidPublicKey);
        let (signing, exchange) = (part(signing)?, PublicKey(part(exchange)?));
        if Signatures::INCLUDED.is_some() {
            VerifyingKey::new(&signing)?;
        }
        Ok(Self { signing, exchange })
    }

    /// The 64 bytes, as on the wire.
    pub fn to_bytes(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..32].copy_from_slice(&self.signing);
        bytes[32..].copy_from_slice(&self.exchange.0);
        bytes
    }

    /// The Ed25519 public key, decompressed for verification.
    #[cfg(feature = "signatures")]
    pub fn verifying(&self) -> VerifyingKey {
        VerifyingKey::new(&self.signing).expect("from_bytes has checked the key")
    }

    /// The Ed25519 public key, decompressed for verification, if this build has signatures.
    pub(crate) fn verifier(&self) -> PartState<Signatures, VerifyingKey> {
        let key = |_| VerifyingKey::new(&self.signing).expect("from_bytes has checked the key");
        PartState::new(Signatures::INCLUDED, key)
    }

    pub(crate) const fn signing_bytes(&self) -> &[u8; 32] {
        &self.signing
    }
}

impl fmt::Debug for PublicKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Encode for PublicKeys {
    fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        w.bytes(&self.to_bytes())
    }
}

impl Decode<'_> for PublicKeys {
    fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Self::from_bytes(&r.array()?).map_err(|_| DecodeError::invalid("public key"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn an_identity_comes_back_from_storage_and_shows_no_secret() {
        let identity = Identity::generate(&mut Random::insecure(1));
        let again = Identity::from_bytes(&identity.to_bytes());
        assert_eq!(*identity.to_bytes(), *again.to_bytes());
        assert_eq!(identity.public(), again.public());
        let bytes = identity.public().to_bytes();
        assert_eq!(PublicKeys::decode(&bytes), Ok(identity.public()));
        assert!(PublicKeys::decode(&bytes[..63]).is_err());
        assert_eq!(format!("{identity:?}"), "Identity(..)");
    }

    #[test]
    fn a_key_that_checks_nothing_is_refused() {
        let mut bytes = Identity::generate(&mut Random::insecure(2)).public().to_bytes();
        bytes[..32].fill(0);
        assert_eq!(PublicKeys::from_bytes(&bytes), Err(InvalidPublicKey));
    }

    #[test]
    fn a_key_that_shares_no_secret_is_refused() {
        let mut bytes = Identity::generate(&mut Random::insecure(2)).public().to_bytes();
        bytes[32..].fill(0);
        assert_eq!(PublicKeys::from_bytes(&bytes), Err(InvalidPublicKey));
        assert!(PublicKeys::from_storage(&bytes).is_ok());
        bytes[32] = 1;
        assert!(PublicKeys::decode(&bytes).is_err());
        bytes[32] = 9;
        assert!(PublicKeys::decode(&bytes).is_ok());
    }
}
