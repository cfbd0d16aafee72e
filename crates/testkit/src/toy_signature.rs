//! A signature scheme that anybody can forge, and certificates that are not X.509: for tests of
//! handshakes, which take much less time with it than with real signatures.
//!
//! A private key equals its public key. A signature is the SHA-256 hash of the key and the message.
//! A certificate is a name in 32 bytes, and the SubjectPublicKeyInfo.

use lightseal_core::Random;
use lightseal_dtls::crypto::{
    Hash, Provider, Sha256, SignatureAlgorithm, SignatureAnswer, SignatureScheme, Signing,
    SigningKey, rustcrypto,
};
use lightseal_dtls::{
    BadCertificate, CertificateVerifier, CertifiedKey, PeerKey, PresentedCertificate,
    codepoints::CertificateType,
};
use pki_types::{AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The portable provider with toy signatures alone, under the code points of three schemes.
pub static PROVIDER: Provider = Provider::new("toy signatures")
    .with_suites(rustcrypto::PROVIDER.suites)
    .with_suites_12(rustcrypto::PROVIDER.suites_12)
    .with_groups(rustcrypto::PROVIDER.groups)
    .with_signatures(&[&ED25519, &ECDSA, &PKCS1]);

static ED25519: SignatureAlgorithm = SignatureAlgorithm {
    scheme: SignatureScheme::ED25519,
    name: "toy 1",
    algorithms: &[&Toy { kind: 1 }],
    signs_handshakes_13: true,
    known_answer: NONE,
};
static ECDSA: SignatureAlgorithm = SignatureAlgorithm {
    scheme: SignatureScheme::ECDSA_SECP256R1_SHA256,
    name: "toy 2",
    algorithms: &[&Toy { kind: 2 }],
    signs_handshakes_13: true,
    known_answer: NONE,
};
static PKCS1: SignatureAlgorithm = SignatureAlgorithm {
    scheme: SignatureScheme::RSA_PKCS1_SHA256,
    name: "toy 3",
    algorithms: &[&Toy { kind: 3 }],
    signs_handshakes_13: false,
    known_answer: NONE,
};

/// Toys have no known answers.
const NONE: SignatureAnswer = SignatureAnswer { private_key: &[], public_key: &[], signature: &[] };

/// A kind of keys.
#[derive(Debug)]
struct Toy {
    kind: u8,
}

/// The content of the AlgorithmIdentifier for keys of each kind: an object identifier.
const ALGORITHM_IDS: [[u8; 3]; 4] = [[6, 1, 0], [6, 1, 1], [6, 1, 2], [6, 1, 3]];

fn signature(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut out = [0; 32];
    Sha256.digest(&[key, message], &mut out);
    out
}

impl SignatureVerificationAlgorithm for Toy {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        let valid = self::signature(public_key, message) == signature;
        if valid { Ok(()) } else { Err(InvalidSignature) }
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        AlgorithmIdentifier::from_slice(&ALGORITHM_IDS[usize::from(self.kind)])
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.public_key_alg_id()
    }
}

/// How a key answers when it is asked to sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answers {
    /// At once.
    AtOnce,
    /// With a wrong signature.
    Wrongly,
    /// With `Later`, this many times.
    After(usize),
    /// It cannot sign.
    Never,
}

/// A key for toy signatures.
#[derive(Debug)]
pub struct ToyKey {
    schemes: Vec<SignatureScheme>,
    public: Vec<u8>,
    answers: Answers,
    asked: AtomicUsize,
}

impl ToyKey {
    /// The key with this number, for the scheme ED25519.
    pub fn new(number: u8) -> Self {
        Self::of_kind(number, 1, SignatureScheme::ED25519)
    }

    /// A key of another kind, and for another scheme, than Ed25519's.
    pub fn of_kind(number: u8, kind: u8, scheme: SignatureScheme) -> Self {
        let id = ALGORITHM_IDS[usize::from(kind)];
        // SEQUENCE { SEQUENCE { id }, BIT STRING of 32 bytes }
        let mut public = vec![0x30, 40, 0x30, 3];
        public.extend(id);
        public.extend([3, 33, 0]);
        public.extend([number; 32]);
        Self { schemes: vec![scheme], public, answers: Answers::AtOnce, asked: AtomicUsize::new(0) }
    }

    #[must_use]
    pub fn answering(self, answers: Answers) -> Self {
        Self { answers, ..self }
    }

    /// The hash by which it is pinned.
    pub fn pin(&self) -> [u8; 32] {
        let mut out = [0; 32];
        Sha256.digest(&[&self.public], &mut out);
        out
    }

    /// As a raw public key.
    pub fn raw(self) -> CertifiedKey {
        CertifiedKey::raw(Arc::new(self))
    }

    /// With a certificate for `name`, and `more` further certificates of 700 bytes.
    pub fn x509(self, name: &str, more: usize) -> CertifiedKey {
        let mut certificate = vec![0; 32];
        certificate[..name.len()].copy_from_slice(name.as_bytes());
        certificate.extend(&self.public);
        let chain = std::iter::once(certificate).chain((0..more).map(|_| vec![9; 700]));
        CertifiedKey::x509(chain.collect(), Arc::new(self)).unwrap()
    }
}

impl SigningKey for ToyKey {
    fn schemes(&self) -> &[SignatureScheme] {
        &self.schemes
    }

    fn public_key(&self) -> &[u8] {
        &self.public
    }

    fn sign(&self, _: SignatureScheme, message: &[u8], _: &mut Random) -> Signing {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        match self.answers {
            Answers::Wrongly => Signing::Done(vec![0; 32]),
            Answers::Never => Signing::Failed,
            Answers::After(times) if asked < times => Signing::Later,
            _ => Signing::Done(signature(&self.public[10..], message).to_vec()),
        }
    }
}

/// Accepts certificates of [`ToyKey`] for the name that the client wants, raw public keys, or both.
#[derive(Debug)]
pub struct ToyVerifier {
    pub kinds: Vec<CertificateType>,
    pub authorities: Vec<Vec<u8>>,
    /// The schemes that it says it accepts in certificates.
    pub schemes: Vec<SignatureScheme>,
    revoked: Mutex<Vec<[u8; 32]>>,
}

impl ToyVerifier {
    /// Accepts these kinds, in order of preference.
    pub fn new(kinds: &[CertificateType]) -> Self {
        Self {
            kinds: kinds.to_vec(),
            authorities: Vec::new(),
            schemes: Vec::new(),
            revoked: Mutex::default(),
        }
    }

    /// From now on no session is resumed with the peers whose keys have these hashes, and with all
    /// others again.
    ///
    /// # Panics
    /// Another thread has panicked meanwhile.
    pub fn revoke(&self, pins: &[[u8; 32]]) {
        *self.revoked.lock().unwrap() = pins.to_vec();
    }
}

impl CertificateVerifier for ToyVerifier {
    fn kinds(&self) -> &[CertificateType] {
        &self.kinds
    }

    fn verify(
        &self,
        presented: &PresentedCertificate<'_>,
    ) -> Result<(Vec<u8>, Option<String>), BadCertificate> {
        let own = presented.entries[0];
        if presented.kind == CertificateType::RAW_PUBLIC_KEY {
            return Ok((own.to_vec(), None));
        }
        let (name, spki) = own.split_at_checked(32).ok_or(BadCertificate::Malformed)?;
        let name: Vec<u8> = name.iter().copied().take_while(|byte| *byte != 0).collect();
        let name = String::from_utf8(name).map_err(|_| BadCertificate::Malformed)?;
        if presented.server_name.is_some_and(|wanted| wanted != name) {
            return Err(BadCertificate::WrongName);
        }
        Ok((spki.to_vec(), Some(name)))
    }

    fn still_accepts(&self, peer: &PeerKey) -> bool {
        !self.revoked.lock().unwrap().contains(&peer.spki_sha256)
    }

    fn certificate_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }

    fn authorities(&self) -> Vec<Vec<u8>> {
        self.authorities.clone()
    }

    fn authorities_in_hello(&self) -> Vec<Vec<u8>> {
        self.authorities.clone()
    }
}
