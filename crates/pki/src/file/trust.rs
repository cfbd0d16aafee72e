//! Files of authorities, revocation lists and pinned keys.

use super::{FileError, Problem, read, versions};
use crate::replace::ReplaceableVerifier;
use crate::spki::{NotAnSpkiHash, SpkiHash};
use crate::trust::{Trust, TrustError};
use crate::verifier::{Settings, X509Verifier};
use alloc::string::String;
use alloc::vec::Vec;
use lightseal_dtls::codepoints::{CertificateType, SignatureScheme};
use lightseal_dtls::{BadCertificate, CertificateVerifier, PeerKey, PresentedCertificate};
use lightseal_owner_only::file::Version;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// Files that say who is trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustFiles {
    /// Certificates of authorities, PEM or DER.
    pub authorities: Vec<PathBuf>,
    /// Revocation lists, PEM or DER.
    pub revocation_lists: Vec<PathBuf>,
    /// Keys that are accepted for themselves: one a line, `spki:` and 64 hexadecimal digits. What
    /// follows after a space, empty lines, and lines that begin with `#` are ignored.
    pub accepted_keys: Vec<PathBuf>,
    /// Keys one of which must be in a chain, in the same form.
    pub required_keys: Vec<PathBuf>,
    /// Keys that are accepted for themselves, besides those in files.
    pub pins: Vec<SpkiHash>,
}

impl TrustFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// Fails if a file is unreadable or unusable.
    pub fn load(&self) -> Result<Trust, FileError> {
        type With = fn(Trust, &[u8]) -> Result<Trust, TrustError>;
        let steps: [(&[PathBuf], With); 2] = [
            (&self.authorities, Trust::with_authorities),
            (&self.revocation_lists, Trust::with_revocation_lists),
        ];
        let mut trust = Trust::new().with_accepted_keys(self.pins.iter().copied());
        for (paths, with) in steps {
            for path in paths {
                trust = with(trust, &read(path, false)?)
                    .map_err(|error| FileError::new(path, Problem::Trust(error)))?;
            }
        }
        for path in &self.accepted_keys {
            trust = trust.with_accepted_keys(pinned_keys(path)?);
        }
        for path in &self.required_keys {
            trust = trust.with_required_keys(pinned_keys(path)?);
        }
        Ok(trust)
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        let lists =
            [&self.authorities, &self.revocation_lists, &self.accepted_keys, &self.required_keys];
        lists.into_iter().flatten().map(PathBuf::as_path)
    }
}

fn pinned_keys(path: &Path) -> Result<Vec<SpkiHash>, FileError> {
    let bytes = read(path, false)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut keys = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let word = line.split_whitespace().next().unwrap_or_default();
        let key = word
            .parse()
            .map_err(|error: NotAnSpkiHash| FileError::new(path, Problem::Line(number, error)))?;
        keys.push(key);
    }
    Ok(keys)
}

/// A verifier whose authorities, revocation lists and pinned keys come from files, which can be read
/// again while it is in use.
#[derive(Debug)]
pub struct ReloadingVerifier {
    settings: Settings,
    files: TrustFiles,
    verifier: ReplaceableVerifier,
    current: Mutex<Current>,
}

/// What was read last.
#[derive(Debug)]
struct Current {
    versions: Vec<Version>,
    verifier: X509Verifier,
}

impl ReloadingVerifier {
    /// Reads the files.
    ///
    /// # Errors
    /// The errors of [`TrustFiles::load`].
    pub fn open(settings: Settings, files: TrustFiles) -> Result<Self, FileError> {
        let versions = versions(files.paths())?;
        let current = settings.verifier(files.load()?);
        let verifier = ReplaceableVerifier::new(current.clone());
        let current = Mutex::new(Current { versions, verifier: current });
        Ok(Self { settings, files, verifier, current })
    }

    /// Reads the files again if one of them changed, or in any case with `force`. Returns whether
    /// they were read. Peers that were accepted by their chains are remembered if no authority is
    /// missing now, the revocation lists are the same, and no further key is required.
    ///
    /// # Errors
    /// The errors of [`TrustFiles::load`]. What was read before remains in use. The error is not
    /// returned again until a file changes.
    pub fn reload(&self, force: bool) -> Result<bool, FileError> {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let now = versions(self.files.paths())?;
        if !force && current.versions == now {
            return Ok(false);
        }
        current.versions = now;
        let verifier = self.settings.verifier(self.files.load()?).in_place_of(&current.verifier);
        self.verifier.replace(verifier.clone());
        current.verifier = verifier;
        Ok(true)
    }
}

impl CertificateVerifier for ReloadingVerifier {
    fn kinds(&self) -> &[CertificateType] {
        self.verifier.kinds()
    }

    fn verify(
        &self,
        presented: &PresentedCertificate<'_>,
    ) -> Result<(Vec<u8>, Option<String>), BadCertificate> {
        self.verifier.verify(presented)
    }

    fn still_accepts(&self, peer: &PeerKey) -> bool {
        self.verifier.still_accepts(peer)
    }

    fn certificate_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.certificate_schemes()
    }

    fn authorities(&self) -> Vec<Vec<u8>> {
        self.verifier.authorities()
    }
}
