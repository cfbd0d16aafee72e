//! Private keys and signature schemes of the portable provider.

use lightseal_core::Random;
use lightseal_dtls::crypto::rustcrypto::PROVIDER;
use lightseal_dtls::crypto::signatures::p256::{ECDSA_SECP256R1_SHA256, EcdsaP256Key};
use lightseal_dtls::crypto::{
    PrivateKeyError, Provider, SelfTestFailed, SignatureAlgorithm, SignatureScheme, Signing,
    SigningKey,
};
use pki_types::PrivateKeyDer;

/// The bytes of `subjectPublicKey`, which is the last field of the SubjectPublicKeyInfo.
fn subject_public_key(spki: &[u8], len: usize) -> &[u8] {
    &spki[spki.len() - len..]
}

fn signed(key: &dyn SigningKey, scheme: SignatureScheme, message: &[u8], seed: u64) -> Vec<u8> {
    match key.sign(scheme, message, &mut Random::insecure(seed)) {
        Signing::Done(signature) => signature,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_new_key_signs_and_survives_its_encoding() {
    let scheme = SignatureScheme::ECDSA_SECP256R1_SHA256;
    let algorithm = PROVIDER.signature(scheme).unwrap();
    let key = EcdsaP256Key::generate(&mut Random::insecure(1));
    let pkcs8 = key.to_pkcs8();
    let loaded = PROVIDER.load_key(&PrivateKeyDer::Pkcs8(pkcs8.to_vec().into())).unwrap();
    assert_eq!(loaded.public_key(), key.public_key());
    assert_eq!(loaded.schemes(), [scheme]);
    let public = subject_public_key(key.public_key(), 65);
    for message in [&b""[..], b"message", &[7; 1000]] {
        let one = signed(&key, scheme, message, 2);
        assert_eq!(one, signed(&*loaded, scheme, message, 2), "a simulation repeats");
        assert_ne!(one, signed(&key, scheme, message, 3), "the nonce is hedged");
        for signature in [&one, &signed(&key, scheme, message, 3)] {
            algorithm.algorithms[0].verify_signature(public, message, signature).unwrap();
        }
        assert!(algorithm.algorithms[0].verify_signature(public, b"another", &one).is_err());
    }
    assert_eq!(
        key.sign(SignatureScheme::ED25519, b"", &mut Random::insecure(1)),
        Signing::Failed,
        "a scheme that the key does not have"
    );
}

/// The encodings of one key, made with OpenSSL 3.0 from the scalar 01 02 … 20.
#[test]
fn keys_load_from_sec_1_with_and_without_parameters() {
    let scalar: [u8; 32] = core::array::from_fn(|i| i as u8 + 1);
    let expected = EcdsaP256Key::from_scalar(&scalar).unwrap();
    let bare = [&[0x30, 0x25, 2, 1, 1, 4, 32][..], &scalar].concat();
    let curve = [0xa0, 10, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
    let named = [&[0x30, 0x31, 2, 1, 1, 4, 32][..], &scalar, &curve].concat();
    for der in [&bare, &named] {
        let key = PROVIDER.load_key(&PrivateKeyDer::Sec1(der.as_slice().into())).unwrap();
        assert_eq!(key.public_key(), expected.public_key());
    }
    let mut other_curve = named.clone();
    *other_curve.last_mut().unwrap() = 9;
    let load = |der: &[u8]| PROVIDER.load_key(&PrivateKeyDer::Sec1(der.into())).err();
    assert_eq!(load(&other_curve), Some(PrivateKeyError::Unsupported));
    for cut in 0..named.len() {
        assert!(load(&named[..cut]).is_some(), "{cut} bytes");
    }
}

#[test]
fn scalars_out_of_range_are_no_keys() {
    assert_eq!(EcdsaP256Key::from_scalar(&[0; 32]).err(), Some(PrivateKeyError::Invalid));
    assert_eq!(EcdsaP256Key::from_scalar(&[0xff; 32]).err(), Some(PrivateKeyError::Invalid));
}

#[test]
fn a_contradicting_public_key_is_refused() {
    let answer = ECDSA_SECP256R1_SHA256.known_answer.private_key;
    for at in 0..answer.len() {
        let mut changed = answer.to_vec();
        changed[at] ^= 1;
        let key = PROVIDER.load_key(&PrivateKeyDer::Pkcs8(changed.into()));
        assert!(key.is_err(), "byte {at}");
    }
}

#[test]
fn a_provider_without_keys_loads_none() {
    static BARE: Provider = Provider::new("bare");
    let key = ECDSA_SECP256R1_SHA256.known_answer.private_key;
    let error = BARE.load_key(&PrivateKeyDer::Pkcs8(key.into())).err();
    assert_eq!(error, Some(PrivateKeyError::Unsupported));
}

#[test]
fn the_self_test_notices_wrong_signatures_and_wrong_keys() {
    static OTHER: SignatureAlgorithm = {
        let mut other = ECDSA_SECP256R1_SHA256;
        other.name = "other";
        other.known_answer.signature = &[0x30, 6, 2, 1, 1, 2, 1, 1];
        other
    };
    static WRONG: Provider = PROVIDER.with_signatures(&[&OTHER]);
    assert_eq!(WRONG.self_test(), Err(SelfTestFailed("other")));
    static LOADS_ANOTHER: Provider = PROVIDER.with_key_loader(|_| {
        Ok(std::sync::Arc::new(EcdsaP256Key::generate(&mut Random::insecure(1))))
    });
    assert_eq!(LOADS_ANOTHER.self_test(), Err(SelfTestFailed(ECDSA_SECP256R1_SHA256.name)));
    assert_eq!(PROVIDER.self_test(), Ok(()));
}
