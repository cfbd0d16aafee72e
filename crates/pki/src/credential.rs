//! Private keys with their certificates, from PEM or DER.

use crate::pem::{self, KeyFile};
use crate::reason::reason;
use crate::trust::TrustError;
use alloc::sync::Arc;
use core::fmt;
use lightseal_dtls::crypto::{PrivateKeyError, Provider, SigningKey};
use lightseal_dtls::{BadCertificate, CertifiedKey};
use pki_types::PrivateKeyDer;
use webpki::EndEntityCert;
use zeroize::Zeroize;

/// Why a key or its certificates cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadError {
    /// The file of certificates is at fault.
    Certificates(TrustError),
    /// The key's own certificate does not parse.
    OwnCertificate(BadCertificate),
    /// The chain has more bytes than a Certificate message.
    ChainLength,
    /// The private key is neither PEM nor DER, or of none of the forms PKCS #8, SEC 1 and PKCS #1.
    KeyForm,
    /// There is no private key.
    NoKey,
    /// There are several private keys.
    SeveralKeys,
    /// The private key is encrypted under a password.
    Encrypted,
    /// The provider does not load the key.
    Key(PrivateKeyError),
    /// The first certificate is for another key.
    WrongKey,
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificates(error) => error.fmt(f),
            Self::OwnCertificate(_) => f.write_str("the first certificate does not parse"),
            Self::ChainLength => f.write_str("the certificates are longer than 16 MiB"),
            Self::KeyForm => {
                f.write_str("the private key is not in PEM or DER as PKCS #8, SEC 1 or PKCS #1")
            }
            Self::NoKey => f.write_str("no private key in it"),
            Self::SeveralKeys => f.write_str("more than one private key in it"),
            Self::Encrypted => f.write_str(
                "the private key is encrypted, and nobody can be asked for its password: \
                 openssl pkey -in FILE -out NEW decrypts it",
            ),
            Self::Key(error) => error.fmt(f),
            Self::WrongKey => {
                f.write_str("the first certificate is for another key than the private key")
            }
        }
    }
}

impl core::error::Error for LoadError {}

/// A private key with its chain of X.509 certificates, which begins with its own. Each is PEM or
/// DER; both may be the same PEM file.
///
/// # Errors
/// Fails if the bytes are unreadable, if the provider does not support the key, or if the first
/// certificate is for another key.
pub fn certified_key(
    provider: &Provider,
    certificates: &[u8],
    private_key: &[u8],
) -> Result<CertifiedKey, LoadError> {
    let unreadable = |_| LoadError::Certificates(TrustError::Unreadable);
    let chain = pem::certificates(certificates).map_err(unreadable)?;
    let own = chain.first().ok_or(LoadError::Certificates(TrustError::NoCertificate))?;
    let parsed = EndEntityCert::try_from(own).map_err(reason).map_err(LoadError::OwnCertificate)?;
    let key = signing_key(provider, private_key)?;
    if *parsed.subject_public_key_info() != *key.public_key() {
        return Err(LoadError::WrongKey);
    }
    let chain = chain.iter().map(|certificate| certificate.to_vec()).collect();
    CertifiedKey::x509(chain, key).map_err(|_| LoadError::ChainLength)
}

/// A private key whose public key is its own credential (RFC 7250), from PEM or DER.
///
/// # Errors
/// Fails if the bytes are unreadable, or if the provider does not support the key.
pub fn raw_key(provider: &Provider, private_key: &[u8]) -> Result<CertifiedKey, LoadError> {
    Ok(CertifiedKey::raw(signing_key(provider, private_key)?))
}

/// A private key from PEM or DER.
///
/// # Errors
/// Fails if the bytes are unreadable, or if the provider does not support the key.
pub fn signing_key(
    provider: &Provider,
    private_key: &[u8],
) -> Result<Arc<dyn SigningKey>, LoadError> {
    let mut key = private_key_der(private_key)?;
    let loaded = provider.load_key(&key).map_err(LoadError::Key);
    key.zeroize();
    loaded
}

/// A private key in DER, from PEM or DER: PKCS #8, SEC 1 or PKCS #1. The caller zeroizes it.
///
/// # Errors
/// Fails if the bytes have no private key that is not encrypted, or several.
pub fn private_key_der(pem_or_der: &[u8]) -> Result<PrivateKeyDer<'static>, LoadError> {
    match pem::private_key(pem_or_der).map_err(|_| LoadError::KeyForm)? {
        KeyFile::Key(key) => Ok(key),
        KeyFile::Encrypted => Err(LoadError::Encrypted),
        KeyFile::Several => Err(LoadError::SeveralKeys),
        KeyFile::None => Err(LoadError::NoKey),
    }
}
