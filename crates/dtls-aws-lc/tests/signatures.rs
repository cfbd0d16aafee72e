//! Signatures and private keys mean the same to both providers. Both must also agree with the
//! vectors of Wycheproof.

use lightseal_core::Random;
use lightseal_dtls::crypto::signatures::ed25519::Ed25519Key;
use lightseal_dtls::crypto::signatures::p256::EcdsaP256Key;
use lightseal_dtls::crypto::signatures::p384::EcdsaP384Key;
use lightseal_dtls::crypto::{
    PrivateKeyError, Provider, SignatureScheme, Signing, SigningKey, rustcrypto,
};
use lightseal_dtls_aws_lc::PROVIDER;
use pki_types::{PrivateKeyDer, SignatureVerificationAlgorithm};
use wycheproof::TestResult;

const PROVIDERS: [&Provider; 2] = [&rustcrypto::PROVIDER, &PROVIDER];

fn rng(seed: u64) -> Random {
    Random::insecure(seed)
}

/// A key of each kind that both providers support, in PKCS#8, with the length of its public key.
fn new_keys() -> [(Vec<u8>, usize); 3] {
    [
        (EcdsaP256Key::generate(&mut rng(1)).to_pkcs8().to_vec(), 65),
        (EcdsaP384Key::generate(&mut rng(1)).to_pkcs8().to_vec(), 97),
        (Ed25519Key::generate(&mut rng(1)).to_pkcs8().to_vec(), 32),
    ]
}

fn load(
    provider: &Provider,
    pkcs8: &[u8],
) -> Result<std::sync::Arc<dyn SigningKey>, PrivateKeyError> {
    provider.load_key(&PrivateKeyDer::Pkcs8(pkcs8.into()))
}

fn signature(key: &dyn SigningKey, scheme: SignatureScheme, message: &[u8]) -> Vec<u8> {
    match key.sign(scheme, message, &mut rng(2)) {
        Signing::Done(signature) => signature,
        other => panic!("{other:?}"),
    }
}

fn algorithm(
    provider: &Provider,
    scheme: SignatureScheme,
) -> &'static dyn SignatureVerificationAlgorithm {
    provider.signature(scheme).expect("both have it").algorithms[0]
}

#[test]
fn each_verifies_what_the_other_signs() {
    for (pkcs8, public_len) in new_keys() {
        let keys = PROVIDERS.map(|provider| load(provider, &pkcs8).unwrap());
        assert_eq!(keys[0].public_key(), keys[1].public_key());
        assert_eq!(keys[0].schemes(), keys[1].schemes());
        let spki = keys[0].public_key();
        let public = &spki[spki.len() - public_len..];
        for scheme in keys[0].schemes() {
            for key in &keys {
                let signed = signature(&**key, *scheme, b"message");
                for provider in PROVIDERS {
                    let algorithm = algorithm(provider, *scheme);
                    algorithm.verify_signature(public, b"message", &signed).unwrap();
                    let other = algorithm.verify_signature(public, b"another", &signed);
                    assert!(other.is_err(), "{algorithm:?}");
                    for at in 0..signed.len() {
                        let mut changed = signed.clone();
                        changed[at] ^= 1;
                        let result = algorithm.verify_signature(public, b"message", &changed);
                        assert!(result.is_err(), "{algorithm:?}: byte {at}");
                    }
                }
            }
        }
    }
}

#[test]
fn damaged_keys_are_refused() {
    for (pkcs8, public_len) in new_keys() {
        for provider in PROVIDERS {
            for cut in 0..pkcs8.len() {
                assert!(load(provider, &pkcs8[..cut]).is_err(), "{cut} bytes");
            }
            let mut other_public = pkcs8.clone();
            *other_public.last_mut().unwrap() ^= 1;
            // The encoding of Ed25519 keys is without the public key.
            if public_len > 32 {
                assert_eq!(load(provider, &other_public).err(), Some(PrivateKeyError::Invalid));
            }
        }
    }
}

#[test]
fn keys_sign_under_their_own_schemes_only() {
    for (pkcs8, _) in new_keys() {
        for provider in PROVIDERS {
            let key = load(provider, &pkcs8).unwrap();
            for scheme in PROVIDER.signatures.iter().map(|signature| signature.scheme) {
                let done = matches!(key.sign(scheme, b"", &mut rng(1)), Signing::Done(_));
                assert_eq!(done, key.schemes().contains(&scheme), "{scheme}");
            }
        }
    }
}

/// The RSA key of the known answers, which AWS-LC alone supports.
#[test]
fn rsa_keys_sign_under_all_schemes() {
    let rsa = PROVIDER.signature(SignatureScheme::RSA_PSS_RSAE_SHA256).unwrap().known_answer;
    let key = load(&PROVIDER, rsa.private_key).unwrap();
    let error = load(&rustcrypto::PROVIDER, rsa.private_key).err();
    assert_eq!(error, Some(PrivateKeyError::Unsupported));
    assert_eq!(key.schemes().len(), 6);
    for scheme in key.schemes() {
        let signed = signature(&*key, *scheme, b"message");
        let algorithm = algorithm(&PROVIDER, *scheme);
        algorithm.verify_signature(rsa.public_key, b"message", &signed).unwrap();
        assert!(algorithm.verify_signature(rsa.public_key, b"another", &signed).is_err());
        assert!(rustcrypto::PROVIDER.signature(*scheme).is_none());
    }
}

#[test]
fn dtls_1_3_signs_no_handshake_with_pkcs_1() {
    for signature in PROVIDER.signatures {
        let pkcs1 = signature.name.starts_with("rsa_pkcs1");
        assert_eq!(signature.signs_handshakes_13, !pkcs1, "{}", signature.name);
    }
}

/// Checks one test of Wycheproof. Neither provider verifies what is not valid.
fn check(
    algorithm: &dyn SignatureVerificationAlgorithm,
    (public, message, signature): (&[u8], &[u8], &[u8]),
    (id, expected): (usize, TestResult),
    counts: &mut [usize; 2],
) {
    let verified = algorithm.verify_signature(public, message, signature).is_ok();
    match expected {
        TestResult::Valid => assert!(verified, "{algorithm:?}: test {id}"),
        TestResult::Invalid => assert!(!verified, "{algorithm:?}: test {id}"),
        TestResult::Acceptable => {}
    }
    counts[usize::from(verified)] += 1;
}

#[test]
fn wycheproof_vectors_of_ecdsa() {
    use wycheproof::ecdsa::TestName::{
        EcdsaSecp256r1Sha256, EcdsaSecp384r1Sha256, EcdsaSecp384r1Sha384,
    };
    for provider in PROVIDERS {
        let [p256, p384] =
            [SignatureScheme::ECDSA_SECP256R1_SHA256, SignatureScheme::ECDSA_SECP384R1_SHA384]
                .map(|scheme| provider.signature(scheme).unwrap().algorithms);
        for (name, algorithm) in [
            (EcdsaSecp256r1Sha256, p256[0]),
            (EcdsaSecp384r1Sha384, p384[0]),
            // In DTLS 1.2 a scheme names no curve.
            (EcdsaSecp384r1Sha256, p256[1]),
        ] {
            let mut counts = [0; 2];
            for group in wycheproof::ecdsa::TestSet::load(name).unwrap().test_groups {
                for test in &group.tests {
                    let input = (&group.key.key[..], &test.msg[..], &test.sig[..]);
                    check(algorithm, input, (test.tc_id, test.result), &mut counts);
                }
            }
            assert!(counts.iter().all(|count| *count > 100), "{name:?}: {counts:?}");
        }
    }
}

#[test]
fn wycheproof_vectors_of_ed25519() {
    for provider in PROVIDERS {
        let algorithm = algorithm(provider, SignatureScheme::ED25519);
        let mut counts = [0; 2];
        let set = wycheproof::eddsa::TestSet::load(wycheproof::eddsa::TestName::Ed25519).unwrap();
        for group in set.test_groups {
            for test in &group.tests {
                let input = (&group.key.pk[..], &test.msg[..], &test.sig[..]);
                check(algorithm, input, (test.tc_id, test.result), &mut counts);
            }
        }
        assert!(counts.iter().all(|count| *count > 40), "{counts:?}");
    }
}

#[test]
fn wycheproof_vectors_of_rsa() {
    use wycheproof::rsa_pkcs1_verify as pkcs1;
    use wycheproof::rsa_pss_verify as pss;
    for (name, scheme) in [
        (pss::TestName::RsaPss2048Sha256Mgf1SaltLen32, SignatureScheme::RSA_PSS_RSAE_SHA256),
        (pss::TestName::RsaPss2048Sha384Mgf1SaltLen48, SignatureScheme::RSA_PSS_RSAE_SHA384),
        (pss::TestName::RsaPss4096Sha512Mgf1SaltLen64, SignatureScheme::RSA_PSS_RSAE_SHA512),
    ] {
        let mut counts = [0; 2];
        for group in pss::TestSet::load(name).unwrap().test_groups {
            for test in &group.tests {
                let input = (&group.asn_key[..], &test.msg[..], &test.sig[..]);
                let algorithm = algorithm(&PROVIDER, scheme);
                check(algorithm, input, (test.tc_id, test.result), &mut counts);
            }
        }
        assert!(counts.iter().all(|count| *count > 20), "{name:?}: {counts:?}");
    }
    for (name, scheme) in [
        (pkcs1::TestName::Rsa2048Sha256, SignatureScheme::RSA_PKCS1_SHA256),
        (pkcs1::TestName::Rsa2048Sha384, SignatureScheme::RSA_PKCS1_SHA384),
        (pkcs1::TestName::Rsa2048Sha512, SignatureScheme::RSA_PKCS1_SHA512),
    ] {
        let mut counts = [0; 2];
        for group in pkcs1::TestSet::load(name).unwrap().test_groups {
            for test in &group.tests {
                let input = (&group.asn_key[..], &test.msg[..], &test.sig[..]);
                let algorithm = algorithm(&PROVIDER, scheme);
                check(algorithm, input, (test.tc_id, test.result), &mut counts);
            }
        }
        assert!(counts.iter().all(|count| *count > 5), "{name:?}: {counts:?}");
    }
}
