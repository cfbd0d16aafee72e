//! X25519 (RFC 7748).

use crate::crypto::{Group, GroupAnswer, InvalidKeyShare, KeyExchange, NamedGroup, SharedSecret};
use alloc::boxed::Box;
use lightseal_core::Random;
use x25519_dalek::{PublicKey, StaticSecret};
use zeroize::Zeroizing;

/// X25519.
pub struct X25519;

impl Group for X25519 {
    fn id(&self) -> NamedGroup {
        NamedGroup::X25519
    }

    fn name(&self) -> &'static str {
        "x25519"
    }

    fn known_answer(&self) -> &'static GroupAnswer {
        &GroupAnswer::X25519
    }

    fn start(&self, rng: &mut Random) -> Box<dyn KeyExchange> {
        let scalar = Zeroizing::new(rng.array());
        Box::new(KeyPair::new(&scalar))
    }
}

struct KeyPair {
    secret: StaticSecret,
    public: PublicKey,
}

impl KeyPair {
    fn new(scalar: &[u8; 32]) -> Self {
        let secret = StaticSecret::from(*scalar);
        Self { public: PublicKey::from(&secret), secret }
    }
}

impl KeyExchange for KeyPair {
    fn public_key(&self) -> &[u8] {
        self.public.as_bytes()
    }

    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, InvalidKeyShare> {
        let peer = <[u8; 32]>::try_from(peer).map_err(|_| InvalidKeyShare)?;
        let shared = self.secret.diffie_hellman(&PublicKey::from(peer));
        // RFC 8446, section 7.4.2: an all-zero output is refused.
        if shared.was_contributory() {
            SharedSecret::new(shared.as_bytes())
        } else {
            Err(InvalidKeyShare)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7748, section 6.1.
    #[test]
    fn vector_of_rfc_7748() {
        let alice = KeyPair::new(&[
            0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1, 0x72, 0x51, 0xb2,
            0x66, 0x45, 0xdf, 0x4c, 0x2f, 0x87, 0xeb, 0xc0, 0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5,
            0x1d, 0xb9, 0x2c, 0x2a,
        ]);
        let bob = KeyPair::new(&[
            0x5d, 0xab, 0x08, 0x7e, 0x62, 0x4a, 0x8a, 0x4b, 0x79, 0xe1, 0x7f, 0x8b, 0x83, 0x80,
            0x0e, 0xe6, 0x6f, 0x3b, 0xb1, 0x29, 0x26, 0x18, 0xb6, 0xfd, 0x1c, 0x2f, 0x8b, 0x27,
            0xff, 0x88, 0xe0, 0xeb,
        ]);
        assert_eq!(alice.public_key()[..4], [0x85, 0x20, 0xf0, 0x09]);
        let shared = Box::new(alice).complete(bob.public_key()).unwrap();
        assert_eq!(
            shared.as_bytes(),
            [
                0x4a, 0x5d, 0x9d, 0x5b, 0xa4, 0xce, 0x2d, 0xe1, 0x72, 0x8e, 0x3b, 0xf4, 0x80, 0x35,
                0x0f, 0x25, 0xe0, 0x7e, 0x21, 0xc9, 0x47, 0xd1, 0x9e, 0x33, 0x76, 0xf0, 0x9b, 0x3c,
                0x1e, 0x16, 0x17, 0x42,
            ]
        );
    }

    #[test]
    fn shares_of_small_order_or_another_length_are_refused() {
        for peer in [&[0; 32][..], &[0; 31], &[0; 33], &[]] {
            let ours = Box::new(KeyPair::new(&[1; 32]));
            assert_eq!(ours.complete(peer).err(), Some(InvalidKeyShare), "{peer:?}");
        }
        let mut one = [0; 32];
        one[0] = 1;
        assert!(Box::new(KeyPair::new(&[1; 32])).complete(&one).is_err());
        one[0] = 9;
        assert!(Box::new(KeyPair::new(&[1; 32])).complete(&one).is_ok());
    }
}
