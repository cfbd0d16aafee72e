//! When the certificates and revocation lists in files expire.

use crate::pem;
use std::path::PathBuf;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// What a file that expires contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum ExpiringFile {
    /// Certificates of this end.
    Certificate,
    /// Certificates of authorities that are trusted.
    Authorities,
    /// Revocation lists.
    RevocationLists,
}

impl ExpiringFile {
    /// The name of the kind in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Authorities => "authorities",
            Self::RevocationLists => "revocation_lists",
        }
    }
}

/// When a file expires: the first of the certificates or lists in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiration {
    /// What the file contains.
    pub kind: ExpiringFile,
    /// The file.
    pub path: PathBuf,
    /// The time in seconds since 1970-01-01.
    pub at: u64,
}

/// When the first of the certificates in a file expires, in seconds since 1970-01-01.
pub(super) fn first_end(file: &[u8]) -> Option<u64> {
    let certificates = pem::certificates(file).ok()?;
    let parsed = certificates.iter().filter_map(|der| Certificate::from_der(der).ok());
    let ends = parsed.map(|certificate| certificate.tbs_certificate().validity().not_after);
    ends.map(|end| end.to_unix_duration().as_secs()).min()
}
