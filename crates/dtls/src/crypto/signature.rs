//! Signatures of handshake messages: private keys that sign, and algorithms that verify.
//!
//! The algorithms are those of `rustls-pki-types`, so that one table serves the engine and the
//! verification of X.509 chains.

mod known_answer;

use crate::codepoints::SignatureScheme;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use lightseal_core::Random;
use pki_types::{AlgorithmIdentifier, PrivateKeyDer, SignatureVerificationAlgorithm};

pub use known_answer::SignatureAnswer;

/// A private key, in memory or elsewhere: in a security module or an agent.
pub trait SigningKey: fmt::Debug + Send + Sync {
    /// The schemes with which the key signs, in order of preference.
    fn schemes(&self) -> &[SignatureScheme];

    /// The public key as SubjectPublicKeyInfo in DER (RFC 5280, section 4.1.2.7).
    fn public_key(&self) -> &[u8];

    /// Signs `message`, which is not hashed yet. A key elsewhere begins the operation, answers
    /// [`Signing::Later`], and keeps the signature until it is asked again with the same scheme and
    /// message. It may use randomness of its own in place of `rng`.
    fn sign(&self, scheme: SignatureScheme, message: &[u8], rng: &mut Random) -> Signing;
}

/// The answer of a [`SigningKey`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Signing {
    /// The signature.
    Done(Vec<u8>),
    /// The signature is not known yet.
    Later,
    /// The key cannot sign: its device failed, or it has no such scheme.
    Failed,
}

/// A signature scheme with the algorithms that verify it.
#[derive(Clone, Copy, Debug)]
pub struct SignatureAlgorithm {
    /// The code point.
    pub scheme: SignatureScheme,
    /// The name in the IANA registry.
    pub name: &'static str,
    /// The algorithms, one for each kind of key that the scheme allows. The first one is for the
    /// only kind of key that DTLS 1.3 allows with the scheme; in DTLS 1.2 an ECDSA scheme names no
    /// curve.
    pub algorithms: &'static [&'static dyn SignatureVerificationAlgorithm],
    /// Whether DTLS 1.3 allows the scheme in handshake messages, and not only in certificates.
    pub signs_handshakes_13: bool,
    /// The results that the self-test must compute with the first algorithm.
    pub known_answer: SignatureAnswer,
}

/// Makes a key that signs from a private key in PKCS#8, SEC 1 or PKCS#1.
pub type KeyLoader = fn(&PrivateKeyDer<'_>) -> Result<Arc<dyn SigningKey>, PrivateKeyError>;

/// Why a private key was not loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PrivateKeyError {
    /// The provider supports no keys of this kind, or the encoding is not one that it reads.
    Unsupported,
    /// The key does not parse, is out of range, or contradicts the public key beside it.
    Invalid,
}

impl fmt::Display for PrivateKeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unsupported => "private key of an unsupported kind or encoding",
            Self::Invalid => "invalid private key",
        })
    }
}

impl core::error::Error for PrivateKeyError {}

/// A public key as SubjectPublicKeyInfo in DER (RFC 5280, section 4.1.2.7), from the content of its
/// `AlgorithmIdentifier` and the bytes of its `subjectPublicKey`.
///
/// # Panics
/// If the result would be longer than 65535 bytes, which no public key is.
pub fn subject_public_key_info(algorithm: AlgorithmIdentifier, public_key: &[u8]) -> Vec<u8> {
    const SEQUENCE: u8 = 0x30;
    const BIT_STRING: u8 = 0x03;
    /// The number of unused bits in the last byte of the bit string.
    const NO_UNUSED_BITS: &[u8] = &[0];
    let algorithm = der(SEQUENCE, &[algorithm.as_ref()]);
    let public_key = der(BIT_STRING, &[NO_UNUSED_BITS, public_key]);
    der(SEQUENCE, &[&algorithm, &public_key])
}

/// One value in DER, whose content comes in parts.
fn der(tag: u8, content: &[&[u8]]) -> Vec<u8> {
    let len: usize = content.iter().map(|part| part.len()).sum();
    let [high, low] = u16::try_from(len).expect("keys are shorter than 64 KiB").to_be_bytes();
    let mut out = alloc::vec![tag];
    match len {
        ..0x80 => out.push(low),
        0x80..0x100 => out.extend([0x81, low]),
        _ => out.extend([0x82, high, low]),
    }
    content.iter().for_each(|part| out.extend_from_slice(part));
    out
}
