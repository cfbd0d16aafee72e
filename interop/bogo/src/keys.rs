//! Private keys of the suite.

use crate::Failure;
use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    self, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RsaEncoding, RsaKeyPair,
};
use lightseal_dtls::Random;
use lightseal_dtls::codepoints::SignatureScheme;
use lightseal_dtls::crypto::{Signing, SigningKey};
use pki_types::PrivatePkcs8KeyDer;
use pki_types::pem::PemObject;
use std::sync::Arc;

/// A private key with the schemes that the case allows.
#[derive(Debug)]
struct Key {
    pair: Pair,
    public: Vec<u8>,
    schemes: Vec<SignatureScheme>,
}

#[derive(Debug)]
enum Pair {
    Rsa(RsaKeyPair),
    Ecdsa(EcdsaKeyPair),
    Ed25519(Ed25519KeyPair),
}

/// ECDSA's schemes, which name the curve in DTLS 1.3.
const ECDSA: [(SignatureScheme, &EcdsaSigningAlgorithm); 2] = [
    (SignatureScheme::ECDSA_SECP256R1_SHA256, &signature::ECDSA_P256_SHA256_ASN1_SIGNING),
    (SignatureScheme::ECDSA_SECP384R1_SHA384, &signature::ECDSA_P384_SHA384_ASN1_SIGNING),
];

/// RSA's schemes, in the order in which BoringSSL prefers them.
const RSA: [(u16, &dyn RsaEncoding); 6] = [
    (0x0804, &signature::RSA_PSS_SHA256),
    (0x0401, &signature::RSA_PKCS1_SHA256),
    (0x0805, &signature::RSA_PSS_SHA384),
    (0x0501, &signature::RSA_PKCS1_SHA384),
    (0x0806, &signature::RSA_PSS_SHA512),
    (0x0601, &signature::RSA_PKCS1_SHA512),
];

/// Reads a key in PKCS#8. With `allowed` schemes it signs with no others.
pub(crate) fn read(
    path: &str,
    allowed: Vec<SignatureScheme>,
) -> Result<Arc<dyn SigningKey>, Failure> {
    let failed = |why: &str| Failure::Failed(format!("{path}: {why}"));
    let der = PrivatePkcs8KeyDer::from_pem_file(path).map_err(|_| failed("no PKCS#8"))?;
    let der = der.secret_pkcs8_der();
    let (pair, public, own) =
        pair(der).ok_or_else(|| Failure::Unimplemented(format!("{path}: a key of this kind")))?;
    let schemes = if allowed.is_empty() { own } else { allowed };
    Ok(Arc::new(Key { pair, public, schemes }))
}

fn pair(der: &[u8]) -> Option<(Pair, Vec<u8>, Vec<SignatureScheme>)> {
    fn spki(key: &impl AsDer<PublicKeyX509Der<'static>>) -> Option<Vec<u8>> {
        Some(key.as_der().ok()?.as_ref().to_vec())
    }
    for (scheme, algorithm) in ECDSA {
        if let Ok(pair) = EcdsaKeyPair::from_pkcs8(algorithm, der) {
            let public = spki(pair.public_key())?;
            return Some((Pair::Ecdsa(pair), public, vec![scheme]));
        }
    }
    if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
        let public = spki(pair.public_key())?;
        return Some((Pair::Ed25519(pair), public, vec![SignatureScheme::ED25519]));
    }
    let pair = RsaKeyPair::from_pkcs8(der).ok()?;
    let public = spki(pair.public_key())?;
    Some((Pair::Rsa(pair), public, RSA.map(|(scheme, _)| SignatureScheme(scheme)).to_vec()))
}

impl SigningKey for Key {
    fn schemes(&self) -> &[SignatureScheme] {
        &self.schemes
    }

    fn public_key(&self) -> &[u8] {
        &self.public
    }

    fn sign(&self, scheme: SignatureScheme, message: &[u8], _: &mut Random) -> Signing {
        let random = SystemRandom::new();
        let signed = match &self.pair {
            Pair::Ed25519(pair) => Some(pair.sign(message).as_ref().to_vec()),
            Pair::Ecdsa(pair) => {
                pair.sign(&random, message).ok().map(|signed| signed.as_ref().to_vec())
            }
            Pair::Rsa(pair) => RSA.iter().find(|entry| entry.0 == scheme.0).and_then(|entry| {
                let mut signed = vec![0; pair.public_modulus_len()];
                pair.sign(entry.1, &random, message, &mut signed).ok().map(|()| signed)
            }),
        };
        signed.map_or(Signing::Failed, Signing::Done)
    }
}
