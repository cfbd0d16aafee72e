//! Key exchange over AWS-LC.

use aws_lc_rs::agreement::{self, Algorithm, PrivateKey, PublicKey, UnparsedPublicKey, agree};
use aws_lc_rs::kem;
use lightseal_core::Random;
use lightseal_dtls::crypto::{
    Group, GroupAnswer, Hybrid, InvalidKeyShare, KeyExchange, NamedGroup, SharedSecret,
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
        KeyPair::draw::<32>(&agreement::X25519, rng)
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
        KeyPair::draw::<32>(&agreement::ECDH_P256, rng)
    }

    fn known_answer(&self) -> &'static GroupAnswer {
        &GroupAnswer::P256
    }
}

/// P-384.
pub struct P384;

impl Group for P384 {
    fn id(&self) -> NamedGroup {
        NamedGroup::P384
    }

    fn name(&self) -> &'static str {
        "secp384r1"
    }

    fn start(&self, rng: &mut Random) -> Box<dyn KeyExchange> {
        KeyPair::draw::<48>(&agreement::ECDH_P384, rng)
    }

    fn known_answer(&self) -> &'static GroupAnswer {
        &GroupAnswer::P384
    }
}

/// ML-KEM-768 with X25519 (RFC 10024). AWS-LC draws the randomness of ML-KEM itself, so a simulation
/// with this group does not repeat to the byte.
pub static X25519_MLKEM768: Hybrid = Hybrid::new(
    NamedGroup::X25519_MLKEM768,
    "X25519MLKEM768",
    &MlKem768,
    &X25519,
    &GroupAnswer::Kem { share: None },
);

/// ML-KEM-768 alone (FIPS 203), which is a part of [`X25519_MLKEM768`].
pub struct MlKem768;

impl Group for MlKem768 {
    fn id(&self) -> NamedGroup {
        NamedGroup::MLKEM768
    }

    fn name(&self) -> &'static str {
        "MLKEM768"
    }

    fn start(&self, _: &mut Random) -> Box<dyn KeyExchange> {
        let key = kem::DecapsulationKey::generate(&kem::ML_KEM_768);
        let key = key.expect("AWS-LC has randomness and memory");
        let public = key
            .encapsulation_key()
            .and_then(|public| Ok(public.key_bytes()?.as_ref().to_vec()))
            .expect("a new key has its encapsulation key");
        Box::new(MlKemPair { key, public })
    }

    fn answer(
        &self,
        _: &mut Random,
        peer: &[u8],
    ) -> Result<(Vec<u8>, SharedSecret), InvalidKeyShare> {
        let peer = kem::EncapsulationKey::new(&kem::ML_KEM_768, peer);
        let peer = peer.map_err(|_| InvalidKeyShare)?;
        // This fails if a coefficient of the key is not reduced (FIPS 203, section 7.2).
        let (ciphertext, secret) = peer.encapsulate().map_err(|_| InvalidKeyShare)?;
        Ok((ciphertext.as_ref().to_vec(), SharedSecret::new(secret.as_ref())?))
    }

    fn is_kem(&self) -> bool {
        true
    }

    fn known_answer(&self) -> &'static GroupAnswer {
        &GroupAnswer::Kem { share: None }
    }
}

struct MlKemPair {
    key: kem::DecapsulationKey,
    public: Vec<u8>,
}

impl KeyExchange for MlKemPair {
    fn public_key(&self) -> &[u8] {
        &self.public
    }

    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, InvalidKeyShare> {
        let secret = self.key.decapsulate(peer.into()).map_err(|_| InvalidKeyShare)?;
        SharedSecret::new(secret.as_ref())
    }
}

struct KeyPair {
    private: PrivateKey,
    public: PublicKey,
}

impl KeyPair {
    /// A key pair whose scalar has `LEN` bytes.
    fn draw<const LEN: usize>(
        algorithm: &'static Algorithm,
        rng: &mut Random,
    ) -> Box<dyn KeyExchange> {
        loop {
            let scalar = Zeroizing::new(rng.array::<LEN>());
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
