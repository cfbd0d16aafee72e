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
    &GroupAnswer::Kem {
        share: Some([
            0xd4, 0x5e, 0xd8, 0xd0, 0x91, 0x93, 0x80, 0x92, 0x90, 0xb3, 0xb6, 0x97, 0x22, 0xc9,
            0x23, 0x8a, 0x7b, 0x57, 0x37, 0xbb, 0x80, 0x8e, 0x5c, 0x8d, 0xa0, 0xc4, 0xc5, 0x47,
            0x70, 0x28, 0xb9, 0x2c,
        ]),
    },
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
        &GroupAnswer::Kem {
            share: Some([
                0x53, 0xfd, 0xc6, 0x6d, 0xf8, 0x77, 0x7b, 0x41, 0xe0, 0x59, 0x2e, 0x69, 0x57, 0x71,
                0xce, 0x1f, 0x5b, 0xda, 0x4a, 0xa0, 0xd3, 0x35, 0xbb, 0x34, 0xcf, 0x02, 0x54, 0x8c,
                0x82, 0xfa, 0xca, 0x86,
            ]),
        }
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
