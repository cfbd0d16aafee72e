//! The signature schemes of certificates (RFC 8446, section 4.2.3): what the ends say of them, and
//! what their keys are chosen by.

use crate::certificates12::{X509, certified, configs, connected, mutual};
use lightseal_dtls::codepoints::{CertificateType, SignatureScheme};
use lightseal_dtls::{
    CertifiedKey, ClientAuthentication, KeyStore, OfferedCertificates, ProtocolVersion,
};
use std::sync::{Arc, Mutex};
use testkit::pair::Configs;
use testkit::toy_signature::{PROVIDER, ToyVerifier};

const VERSIONS: [ProtocolVersion; 2] = [ProtocolVersion::Dtls13, ProtocolVersion::Dtls12];

/// A key that notes what it is chosen by.
struct Chosen {
    key: CertifiedKey,
    by: Mutex<Vec<Vec<SignatureScheme>>>,
}

impl Chosen {
    fn new(number: u8) -> Arc<Self> {
        Arc::new(Self { key: certified(number, X509), by: Mutex::default() })
    }

    /// The schemes of certificates by which the key was chosen last.
    fn by(&self) -> Vec<SignatureScheme> {
        self.by.lock().unwrap().last().expect("it was asked").clone()
    }
}

impl KeyStore for Chosen {
    fn choose(&self, offered: &OfferedCertificates<'_>) -> Option<CertifiedKey> {
        self.by.lock().unwrap().push(offered.certificate_schemes.to_vec());
        self.key.choose(offered)
    }

    fn kinds(&self) -> Vec<CertificateType> {
        vec![X509]
    }
}

fn verifier(schemes: &[SignatureScheme]) -> Arc<ToyVerifier> {
    let mut verifier = ToyVerifier::new(&[X509]);
    verifier.schemes = schemes.to_vec();
    Arc::new(verifier)
}

fn speaking(version: ProtocolVersion, mut configs: Configs) -> Configs {
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.versions = vec![version];
    }
    configs
}

/// The schemes that the provider accepts, in handshakes and certificates.
fn of_provider() -> Vec<SignatureScheme> {
    PROVIDER.signatures.iter().map(|signature| signature.scheme).collect()
}

const OTHERS: [SignatureScheme; 2] = [SignatureScheme::RSA_PKCS1_SHA512, SignatureScheme(0x0905)];

#[test]
fn a_server_chooses_its_key_by_the_schemes_of_certificates() {
    for version in VERSIONS {
        for own in [&[][..], &OTHERS] {
            let mut configs = speaking(version, configs(X509));
            let keys = Chosen::new(1);
            configs.server.keys = Some(Arc::clone(&keys) as _);
            configs.client.verifier = Some(verifier(own));
            drop(connected(configs, 1));
            // Without schemes of its own the client sends no second list, and the first counts.
            let expected = if own.is_empty() { of_provider() } else { own.to_vec() };
            assert_eq!(keys.by(), expected, "{version}");
        }
    }
}

#[test]
fn a_client_chooses_its_key_by_the_schemes_of_certificates() {
    for version in VERSIONS {
        for own in [&[][..], &OTHERS] {
            let mut configs = speaking(version, mutual(X509, X509));
            let keys = Chosen::new(2);
            configs.client.keys = Some(Arc::clone(&keys) as _);
            configs.server.clients = ClientAuthentication::Required(verifier(own));
            drop(connected(configs, 1));
            // The CertificateRequest of DTLS 1.2 has one list (RFC 5246, section 7.4.4).
            let has_own = version == ProtocolVersion::Dtls13 && !own.is_empty();
            let expected = if has_own { own.to_vec() } else { of_provider() };
            assert_eq!(keys.by(), expected, "{version}");
        }
    }
}
