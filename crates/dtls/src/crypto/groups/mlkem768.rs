//! ML-KEM-768 (FIPS 203), alone and with X25519.

use super::x25519::X25519;
use crate::crypto::NamedGroup;
use crate::crypto::group::{
    Group, GroupAnswer, Hybrid, InvalidKeyShare, KeyExchange, SharedSecret,
};
use alloc::boxed::Box;
use alloc::vec::Vec;
use lightseal_core::Random;
use ml_kem::kem::{Decapsulate, Encapsulate, KeyExport};
use ml_kem::{DecapsulationKey768, EncapsulationKey768};
use zeroize::Zeroizing;

/// ML-KEM-768 with X25519 (RFC 10024). A key pair takes some 10 KB of memory, and a ClientHello with
/// its share does not fit one datagram of 1200 bytes.
pub static X25519_MLKEM768: Hybrid = Hybrid::new(
    NamedGroup::X25519_MLKEM768,
    "X25519MLKEM768",
    &MlKem768,
    &X25519,
    &GroupAnswer::Kem { hash: None },
);

/// ML-KEM-768 alone, which is a part of [`X25519_MLKEM768`]. The seed of a key pair, d ‖ z, is the
/// next 64 bytes of the generator, and the message of an encapsulation the next 32.
pub struct MlKem768;

impl Group for MlKem768 {
    fn id(&self) -> NamedGroup {
        NamedGroup::MLKEM768
    }

    fn name(&self) -> &'static str {
        "MLKEM768"
    }

    fn start(&self, rng: &mut Random) -> Box<dyn KeyExchange> {
        let seed = Zeroizing::new(rng.array::<64>());
        let key = DecapsulationKey768::from_seed((*seed).into());
        let share = key.encapsulation_key().to_bytes().to_vec();
        Box::new(KeyPair { key, share })
    }

    fn answer(
        &self,
        rng: &mut Random,
        peer: &[u8],
    ) -> Result<(Vec<u8>, SharedSecret), InvalidKeyShare> {
        let peer = peer.try_into().map_err(|_| InvalidKeyShare)?;
        let key = EncapsulationKey768::new(peer).map_err(|_| InvalidKeyShare)?;
        let (ciphertext, secret) = key.encapsulate_with_rng(rng);
        let secret = Zeroizing::new(<[u8; 32]>::from(secret));
        Ok((ciphertext.to_vec(), SharedSecret::new(&*secret)?))
    }

    fn is_kem(&self) -> bool {
        true
    }

    fn known_answer(&self) -> &'static GroupAnswer {
        &GroupAnswer::Kem { hash: None }
    }
}

struct KeyPair {
    key: DecapsulationKey768,
    share: Vec<u8>,
}

impl KeyExchange for KeyPair {
    fn public_key(&self) -> &[u8] {
        &self.share
    }

    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, InvalidKeyShare> {
        let secret = self.key.decapsulate_slice(peer).map_err(|_| InvalidKeyShare)?;
        let secret = Zeroizing::new(<[u8; 32]>::from(secret));
        SharedSecret::new(&*secret)
    }
}
