//! Files in PEM or DER.

use alloc::borrow::ToOwned;
use alloc::vec;
use alloc::vec::Vec;
use pki_types::pem::PemObject;
use pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};

/// Bytes that are neither the PEM nor the DER that was expected.
#[derive(Debug)]
pub(crate) struct Unreadable;

/// Whether the bytes are PEM: a DER file begins with the tag of a SEQUENCE, which no text has at its
/// beginning except for the digit 0.
fn is_pem(bytes: &[u8]) -> bool {
    contains(bytes, b"-----BEGIN ")
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// All certificates of a PEM file, or the one of a DER file.
pub(crate) fn certificates(bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, Unreadable> {
    if !is_pem(bytes) {
        return Ok(vec![CertificateDer::from(bytes.to_owned())]);
    }
    CertificateDer::pem_slice_iter(bytes).collect::<Result<_, _>>().map_err(|_| Unreadable)
}

/// All revocation lists of a PEM file, or the one of a DER file.
pub(crate) fn crls(bytes: &[u8]) -> Result<Vec<CertificateRevocationListDer<'static>>, Unreadable> {
    if !is_pem(bytes) {
        return Ok(vec![CertificateRevocationListDer::from(bytes.to_owned())]);
    }
    let lists = CertificateRevocationListDer::pem_slice_iter(bytes);
    lists.collect::<Result<_, _>>().map_err(|_| Unreadable)
}

/// What a file of a private key has.
#[derive(Debug)]
pub(crate) enum KeyFile {
    Key(PrivateKeyDer<'static>),
    /// The key is encrypted under a password.
    Encrypted,
    Several,
    None,
}

/// The private key of a PEM or DER file: PKCS #8, SEC 1 or PKCS #1.
pub(crate) fn private_key(bytes: &[u8]) -> Result<KeyFile, Unreadable> {
    let marks: [&[u8]; 2] = [b"-----BEGIN ENCRYPTED PRIVATE KEY-----", b"Proc-Type: 4,ENCRYPTED"];
    if marks.iter().any(|mark| contains(bytes, mark)) {
        return Ok(KeyFile::Encrypted);
    }
    if !is_pem(bytes) {
        let key = PrivateKeyDer::try_from(bytes).map_err(|_| Unreadable)?;
        return Ok(KeyFile::Key(key.clone_key()));
    }
    let mut keys = PrivateKeyDer::pem_slice_iter(bytes);
    let Some(key) = keys.next() else { return Ok(KeyFile::None) };
    let key = key.map_err(|_| Unreadable)?;
    match keys.next() {
        None => Ok(KeyFile::Key(key)),
        Some(_) => Ok(KeyFile::Several),
    }
}
