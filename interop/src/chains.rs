//! One authority with a certificate for each end, ECDSA with P-256, in the forms that each
//! implementation reads.

use crate::handshake::Handshake;
use crate::wolfssl::{Certified, RawKeys, Role};
use lightseal_dtls::codepoints::CertificateType;
use lightseal_dtls::crypto::Provider;
use lightseal_dtls::{
    BadCertificate, CertificateVerifier, CertifiedKey, PeerKey, PresentedCertificate,
};
use lightseal_pki::{Clock, SpkiHash, Trust, X509Verifier};
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    IsCa, KeyPair, PublicKeyData,
};
use std::ffi::CString;

/// The server's name, which its certificate has.
pub const SERVER_NAME: &str = "server.example";

/// A verifier that does not name its authorities.
pub struct Unnamed(X509Verifier);

impl CertificateVerifier for Unnamed {
    fn kinds(&self) -> &[CertificateType] {
        self.0.kinds()
    }

    fn verify(
        &self,
        presented: &PresentedCertificate<'_>,
    ) -> Result<(Vec<u8>, Option<String>), BadCertificate> {
        self.0.verify(presented)
    }

    fn still_accepts(&self, peer: &PeerKey) -> bool {
        self.0.still_accepts(peer)
    }
}

/// A certificate and its private key.
pub struct Issued {
    /// The certificate in DER.
    pub certificate: Vec<u8>,
    /// The key in DER (PKCS#8).
    pub key: Vec<u8>,
    /// The public key (SubjectPublicKeyInfo in DER).
    pub spki: Vec<u8>,
    certificate_pem: String,
    key_pem: String,
}

/// An authority and the certificates that it has issued.
pub struct Chains {
    /// The authority's own certificate in DER.
    pub authority: Vec<u8>,
    authority_pem: String,
    /// The client's certificate.
    pub client: Issued,
    /// The server's certificate.
    pub server: Issued,
}

impl Chains {
    /// New keys and certificates.
    ///
    /// # Panics
    /// Never: rcgen makes certificates from valid names.
    #[must_use]
    pub fn new() -> Self {
        let mut root = CertificateParams::new(vec![]).expect("no names");
        root.distinguished_name = common_name("authority");
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root = CertifiedIssuer::self_signed(root, new_key()).expect("a valid root");
        let issue = |name: &str| {
            let key = new_key();
            // The length of a signature varies by some bytes. The median makes the length of the
            // certificate the same for each chain.
            let mut leaves: Vec<_> = (0..25).map(|_| sign(name, &key, &root)).collect();
            leaves.sort_by_key(|leaf| leaf.der().len());
            let leaf = leaves.swap_remove(leaves.len() / 2);
            Issued {
                certificate: leaf.der().to_vec(),
                key: key.serialize_der(),
                spki: key.subject_public_key_info(),
                certificate_pem: leaf.pem(),
                key_pem: key.serialize_pem(),
            }
        };
        Self {
            authority: root.der().to_vec(),
            authority_pem: root.pem(),
            client: issue("client.example"),
            server: issue(SERVER_NAME),
        }
    }

    /// A verifier that trusts the authority or, if `raw`, each end's public key. It does not name the
    /// authority to clients, as wolfSSL and OpenSSL do not by default.
    ///
    /// # Panics
    /// Never: the authority is valid.
    pub fn verifier(&self, provider: &'static Provider, raw: bool) -> Unnamed {
        let trust = if raw {
            let keys = [&self.client, &self.server].map(|end| SpkiHash::of(&end.spki));
            Trust::new().with_accepted_keys(keys)
        } else {
            Trust::new().with_authorities(&self.authority).expect("a valid root")
        };
        let verifier = lightseal_pki::Settings::new(provider, Clock::system()).verifier(trust);
        let kind = if raw { CertificateType::RAW_PUBLIC_KEY } else { CertificateType::X509 };
        Unnamed(verifier.with_kinds([kind]))
    }

    /// wolfSSL's form of one end.
    ///
    /// # Panics
    /// Never: the server's name is valid.
    pub fn wolfssl(&self, role: Role, handshake: &Handshake) -> Certified {
        let (this, other) = match role {
            Role::Client => (&self.client, &self.server),
            Role::Server => (&self.server, &self.client),
        };
        let own = Some(this).filter(|_| handshake.mutual || role == Role::Server);
        let verifies = handshake.mutual || role == Role::Client;
        Certified {
            own: own.map(|issued| (issued.certificate_pem.clone(), issued.key_pem.clone())),
            authority: verifies.then(|| self.authority_pem.clone()),
            server_name: CString::new(SERVER_NAME).expect("no zero in a name"),
            raw: handshake
                .raw
                .then(|| RawKeys { own: this.spki.clone(), other: other.spki.clone() }),
            resumption: handshake.resumed,
        }
    }
}

impl Default for Chains {
    fn default() -> Self {
        Self::new()
    }
}

impl Issued {
    /// Our form of the key with its certificate or, if `raw`, alone.
    ///
    /// # Panics
    /// The provider has no ECDSA with P-256.
    pub fn certified_key(&self, provider: &'static Provider, raw: bool) -> CertifiedKey {
        let (chain, key) = (self.certificate_pem.as_bytes(), self.key_pem.as_bytes());
        let loaded = if raw {
            lightseal_pki::raw_key(provider, key)
        } else {
            lightseal_pki::certified_key(provider, chain, key)
        };
        loaded.expect("a valid key")
    }
}

fn sign(name: &str, key: &KeyPair, root: &CertifiedIssuer<'_, KeyPair>) -> Certificate {
    let mut leaf = CertificateParams::new(vec![name.to_owned()]).expect("a valid name");
    leaf.distinguished_name = common_name(name);
    leaf.serial_number = Some(vec![0x17; 8].into());
    leaf.signed_by(key, root).expect("a valid certificate")
}

fn common_name(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

fn new_key() -> KeyPair {
    KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("randomness")
}
