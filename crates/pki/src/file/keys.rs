//! Files of private keys and their certificates.

use super::expiration::{Expiration, ExpiringFile, first_end};
use super::{FileError, Problem, read, versions};
use crate::choice::KeysByName;
use crate::credential::{certified_key, raw_key};
use crate::replace::ReplaceableKeys;
use alloc::vec::Vec;
use lightseal_dtls::codepoints::CertificateType;
use lightseal_dtls::crypto::Provider;
use lightseal_dtls::{CertifiedKey, KeyStore, OfferedCertificates};
use lightseal_owner_only::file::Version;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The files of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFiles {
    key: PathBuf,
    certificates: Option<PathBuf>,
}

impl KeyFiles {
    /// A private key with a file of its certificates, which begins with its own. Both may be the
    /// same PEM file.
    pub fn x509(key: impl Into<PathBuf>, certificates: impl Into<PathBuf>) -> Self {
        Self { key: key.into(), certificates: Some(certificates.into()) }
    }

    /// A private key whose public key is its own credential.
    pub fn raw(key: impl Into<PathBuf>) -> Self {
        Self { key: key.into(), certificates: None }
    }

    /// Reads the key and its certificates.
    ///
    /// Certificates are compressed for peers that accept it, with the feature `zlib`.
    ///
    /// # Errors
    /// Fails if a file is unreadable or unusable, if other users can read the private key, or if the
    /// first certificate is for another key.
    pub fn load(&self, provider: &Provider) -> Result<CertifiedKey, FileError> {
        let key = read(&self.key, true)?;
        let Some(path) = &self.certificates else {
            let failed = |error| FileError::new(&self.key, Problem::Load(error));
            return raw_key(provider, &key).map_err(failed);
        };
        let certificates = read(path, false)?;
        let key = certified_key(provider, &certificates, &key).map_err(|error| {
            use crate::LoadError::{Certificates, ChainLength, OwnCertificate, WrongKey};
            let about_certificates =
                matches!(error, Certificates(_) | ChainLength | OwnCertificate(_) | WrongKey);
            let path = if about_certificates { path } else { &self.key };
            FileError::new(path, Problem::Load(error))
        })?;
        #[cfg(feature = "zlib")]
        let key = key.with_compression(&crate::Zlib);
        Ok(key)
    }

    /// When the first of the certificates expires, if there are any and the file is readable.
    fn expiration(&self) -> Option<Expiration> {
        let path = self.certificates.as_ref()?;
        let at = first_end(&read(path, false).ok()?)?;
        Some(Expiration { kind: ExpiringFile::Certificate, path: path.clone(), at })
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.key), self.certificates.as_ref()].into_iter().flatten().map(PathBuf::as_path)
    }
}

/// Keys from files, which can be read again while they are in use. One of several is chosen as by
/// [`KeysByName`].
#[derive(Debug)]
pub struct ReloadingKeys {
    provider: Provider,
    files: Vec<KeyFiles>,
    only_known_names: bool,
    keys: ReplaceableKeys,
    current: Mutex<Current>,
}

/// What was read last.
#[derive(Debug)]
struct Current {
    versions: Vec<Version>,
    expirations: Vec<Expiration>,
}

impl Current {
    fn of(files: &[KeyFiles], versions: Vec<Version>) -> Self {
        Self { versions, expirations: files.iter().filter_map(KeyFiles::expiration).collect() }
    }
}

impl ReloadingKeys {
    /// Reads the files, in order of preference.
    ///
    /// # Errors
    /// The errors of [`KeyFiles::load`].
    pub fn open(
        provider: &Provider,
        files: impl IntoIterator<Item = KeyFiles>,
    ) -> Result<Self, FileError> {
        let files: Vec<_> = files.into_iter().collect();
        let versions = versions(files.iter().flat_map(KeyFiles::paths))?;
        let keys = ReplaceableKeys::new(load(provider, &files, false)?);
        let current = Mutex::new(Current::of(&files, versions));
        Ok(Self { provider: *provider, files, only_known_names: false, keys, current })
    }

    /// As [`KeysByName::only_known_names`].
    ///
    /// # Errors
    /// The errors of [`KeyFiles::load`].
    pub fn only_known_names(self) -> Result<Self, FileError> {
        let keys = Self { only_known_names: true, ..self };
        keys.reload(true)?;
        Ok(keys)
    }

    /// Reads the files again if one of them changed, or in any case with `force`. Returns whether
    /// they were read.
    ///
    /// # Errors
    /// The errors of [`KeyFiles::load`]. The keys that were read before remain in use. The error is
    /// not returned again until a file changes.
    pub fn reload(&self, force: bool) -> Result<bool, FileError> {
        let mut known = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let now = versions(self.files.iter().flat_map(KeyFiles::paths))?;
        if !force && known.versions == now {
            return Ok(false);
        }
        known.versions.clone_from(&now);
        self.keys.replace(load(&self.provider, &self.files, self.only_known_names)?);
        *known = Current::of(&self.files, now);
        Ok(true)
    }

    /// When the certificates in use expire, file by file.
    pub fn expirations(&self) -> Vec<Expiration> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).expirations.clone()
    }
}

fn load(
    provider: &Provider,
    files: &[KeyFiles],
    only_known_names: bool,
) -> Result<KeysByName, FileError> {
    let keys: Result<Vec<_>, _> = files.iter().map(|files| files.load(provider)).collect();
    let keys = KeysByName::new(keys?);
    Ok(if only_known_names { keys.only_known_names() } else { keys })
}

impl KeyStore for ReloadingKeys {
    fn choose(&self, offered: &OfferedCertificates<'_>) -> Option<CertifiedKey> {
        self.keys.choose(offered)
    }

    fn kinds(&self) -> Vec<CertificateType> {
        self.keys.kinds()
    }
}
