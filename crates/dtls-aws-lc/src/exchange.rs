//! Key exchange over AWS-LC.

use aws_lc_rs::agreement::{self, Algorithm, PrivateKey, PublicKey, UnparsedPublicKey, agree};
use lightseal_core::Random;
use lightseal_dtls::crypto::{
    Group, GroupAnswer, InvalidKeyShare, KeyExchange, NamedGroup, SharedSecret,
};
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

    fn start(&self, rng: &mut Random) -> Box<dyn KeyExchange> {
        KeyPair::draw(&agreement::X25519, rng)
    }

    fn known_answer(&self) -> &'static GroupAnswer {
        &GroupAnswer::X25519
    }
}

/// P-256.
pub struct P256;

impl Group for P256 {
    fn id(&self) -> NamedGroup {
        NamedGroup::P256
    }

    fn name(&self) -> &'static str {
        "secp256r1"
    }

    fn start(&self, rng: &mut Random) -> Box<dyn KeyExchange> {
        KeyPair::draw(&agreement::ECDH_P256, rng)
    }

    fn known_answer(&self) -> &'static GroupAnswer {
        &GroupAnswer::P256
    }
}

struct KeyPair {
    private: PrivateKey,
    public: PublicKey,
}

impl KeyPair {
    fn draw(algorithm: &'static Algorithm, rng: &mut Random) -> Box<dyn KeyExchange> {
        loop {
            let scalar = Zeroizing::new(rng.array::<32>());
            // This fails only if a P-256 scalar is out of range: once in 2^32 draws.
            if let Ok(private) = PrivateKey::from_private_key(algorithm, &*scalar) {
                let public = private.compute_public_key().expect("a private key has a public key");
                return Box::new(Self { private, public });
            }
        }
    }
}

impl KeyExchange for KeyPair {
    fn public_key(&self) -> &[u8] {
        self.public.as_ref()
    }

    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, InvalidKeyShare> {
        let ours = self.public_key();
        // The peer's share must have the form of ours: 32 bytes, or an uncompressed point. AWS-LC
        // would accept other forms.
        let same_form = self.private.algorithm() == &agreement::X25519 || peer.first() == Some(&4);
        if peer.len() != ours.len() || !same_form {
            return Err(InvalidKeyShare);
        }
        let peer = UnparsedPublicKey::new(self.private.algorithm(), peer);
        agree(&self.private, peer, InvalidKeyShare, SharedSecret::new)
    }
}
