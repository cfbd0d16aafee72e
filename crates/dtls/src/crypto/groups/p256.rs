//! ECDH in NIST P-256 (RFC 8446, section 4.2.8.2).

use crate::crypto::{Group, GroupAnswer, InvalidKeyShare, KeyExchange, NamedGroup, SharedSecret};
use alloc::boxed::Box;
use lightseal_core::Random;
use p256::elliptic_curve::sec1::ToSec1Point;
use p256::{PublicKey, SecretKey};
use zeroize::Zeroizing;

/// Length of an uncompressed point in bytes.
const POINT: usize = 65;
/// The first byte of an uncompressed point.
const UNCOMPRESSED: u8 = 4;

/// P-256.
pub struct P256;

impl Group for P256 {
    fn id(&self) -> NamedGroup {
        NamedGroup::P256
    }

    fn name(&self) -> &'static str {
        "secp256r1"
    }

    fn known_answer(&self) -> &'static GroupAnswer {
        &GroupAnswer::P256
    }

    fn start(&self, rng: &mut Random) -> Box<dyn KeyExchange> {
        loop {
            let scalar = Zeroizing::new(rng.array::<32>());
            if let Ok(secret) = SecretKey::from_slice(&*scalar) {
                return Box::new(KeyPair::new(secret));
            }
        }
    }
}

struct KeyPair {
    secret: SecretKey,
    public: [u8; POINT],
}

impl KeyPair {
    fn new(secret: SecretKey) -> Self {
        let mut public = [0; POINT];
        public.copy_from_slice(secret.public_key().to_sec1_point(false).as_bytes());
        Self { secret, public }
    }
}

impl KeyExchange for KeyPair {
    fn public_key(&self) -> &[u8] {
        &self.public
    }

    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, InvalidKeyShare> {
        if peer.len() != POINT || peer.first() != Some(&UNCOMPRESSED) {
            return Err(InvalidKeyShare);
        }
        let peer = PublicKey::from_sec1_bytes(peer).map_err(|_| InvalidKeyShare)?;
        let shared = self.secret.diffie_hellman(&peer);
        SharedSecret::new(shared.raw_secret_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn start(seed: u64) -> Box<dyn KeyExchange> {
        P256.start(&mut Random::insecure(seed))
    }

    #[test]
    fn only_points_of_the_curve_pass() {
        let good = start(2).public_key().to_vec();
        assert!(start(1).complete(&good).is_ok());
        let mut off_curve = good.clone();
        off_curve[64] ^= 1;
        let mut hybrid = good.clone();
        hybrid[0] = 6 | good[64] & 1;
        let mut compressed = good[..33].to_vec();
        compressed[0] = 2 | good[64] & 1;
        let infinity = [0].to_vec();
        let zeros = {
            let mut zeros = [0; POINT].to_vec();
            zeros[0] = 4;
            zeros
        };
        for bad in [off_curve, hybrid, compressed, infinity, zeros, good[..64].to_vec(), Vec::new()]
        {
            assert_eq!(start(1).complete(&bad).err(), Some(InvalidKeyShare), "{bad:?}");
        }
    }
}
