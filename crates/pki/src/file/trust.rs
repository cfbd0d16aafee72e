//! Files of authorities, revocation lists and pinned keys.

use super::expiration::{Expiration, ExpiringFile, first_end};
use super::{FileError, Problem, read, version};
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

/// What a file says.
#[derive(Clone, Copy)]
enum Kind {
    Authorities,
    RevocationLists,
    AcceptedKeys,
    RequiredKeys,
}

impl Kind {
    /// Reads a file of this kind.
    fn read(self, path: &Path) -> Result<Trust, FileError> {
        let (trust, usable) = (Trust::new(), |trust: Result<Trust, TrustError>| {
            trust.map_err(|error| FileError::new(path, Problem::Trust(error)))
        });
        match self {
            Self::Authorities => usable(trust.with_authorities(&read(path, false)?)),
            Self::RevocationLists => usable(trust.with_revocation_lists(&read(path, false)?)),
            Self::AcceptedKeys => Ok(trust.with_accepted_keys(pinned_keys(path)?)),
            Self::RequiredKeys => Ok(trust.with_required_keys(pinned_keys(path)?)),
        }
    }
}

impl Part {
    /// What a file of this kind says now.
    fn read(kind: Kind, path: &Path, version: Option<Version>) -> Result<Self, FileError> {
        let trust = kind.read(path)?;
        let expiration = match kind {
            Kind::Authorities => first_end(&read(path, false)?),
            Kind::RevocationLists => trust.crls_valid_until,
            Kind::AcceptedKeys | Kind::RequiredKeys => None,
        };
        Ok(Self { version, trust, expiration })
    }
}

impl TrustFiles {
    /// Reads the files.
    ///
    /// # Errors
    /// Fails if a file is unreadable or unusable.
    pub fn load(&self) -> Result<Trust, FileError> {
        let parts = self.all().map(|(kind, path)| kind.read(path));
        Ok(self.joined(&parts.collect::<Result<Vec<_>, _>>()?))
    }

    /// All files with their kinds.
    fn all(&self) -> impl Iterator<Item = (Kind, &Path)> {
        [
            (Kind::Authorities, &self.authorities),
            (Kind::RevocationLists, &self.revocation_lists),
            (Kind::AcceptedKeys, &self.accepted_keys),
            (Kind::RequiredKeys, &self.required_keys),
        ]
        .into_iter()
        .flat_map(|(kind, paths)| paths.iter().map(move |path| (kind, path.as_path())))
    }

    /// What these contents of the files say together.
    fn joined<'t>(&self, parts: impl IntoIterator<Item = &'t Trust>) -> Trust {
        let mut trust = Trust::new().with_accepted_keys(self.pins.iter().copied());
        parts.into_iter().for_each(|part| trust.extend(part));
        trust
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
    // A file that was emptied by mistake would lock all peers out, or require no key any more.
    if keys.is_empty() {
        return Err(FileError::new(path, Problem::NoKey));
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
    /// In the order of [`TrustFiles::all`].
    parts: Vec<Part>,
    verifier: X509Verifier,
}

/// A file, as it was read last.
#[derive(Debug)]
struct Part {
    /// The version that was looked at last; `None` if there was none.
    version: Option<Version>,
    /// The last content that could be used.
    trust: Trust,
    /// When the first certificate or list in it expires, in seconds since 1970-01-01.
    expiration: Option<u64>,
}

/// What a [`ReloadingVerifier::reload`] did.
#[derive(Debug, Default)]
#[must_use]
#[non_exhaustive]
pub struct Reloaded {
    /// Whether a file was read that can be used.
    pub changed: bool,
    /// The files that cannot be used. What was read from them before remains in use.
    pub failures: Vec<FileError>,
}

impl ReloadingVerifier {
    /// Reads the files.
    ///
    /// # Errors
    /// The errors of [`TrustFiles::load`].
    pub fn open(settings: Settings, files: TrustFiles) -> Result<Self, FileError> {
        let part = |(kind, path): (Kind, &Path)| {
            let version = Some(version(path)?);
            Part::read(kind, path, version)
        };
        let parts = files.all().map(part).collect::<Result<Vec<_>, _>>()?;
        let current = settings.verifier(files.joined(parts.iter().map(|part| &part.trust)));
        let verifier = ReplaceableVerifier::new(current.clone());
        let current = Mutex::new(Current { parts, verifier: current });
        Ok(Self { settings, files, verifier, current })
    }

    /// Reads the files again that changed, or all with `force`. A file that cannot be used does not
    /// keep the others from taking effect, and is named once, until it changes again. Peers that were
    /// accepted by their chains are remembered if no authority is missing now, the revocation lists are
    /// the same, and no further key is required.
    pub fn reload(&self, force: bool) -> Reloaded {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reloaded = Reloaded::default();
        for ((kind, path), part) in self.files.all().zip(&mut current.parts) {
            let (now, missing) = match version(path) {
                Ok(version) => (Some(version), None),
                Err(error) => (None, Some(error)),
            };
            if !force && part.version == now {
                continue;
            }
            part.version = now;
            match missing.map_or_else(|| Part::read(kind, path, now), Err) {
                Ok(read) => {
                    *part = read;
                    reloaded.changed = true;
                }
                Err(error) => reloaded.failures.push(error),
            }
        }
        if reloaded.changed {
            let trust = self.files.joined(current.parts.iter().map(|part| &part.trust));
            let verifier = self.settings.verifier(trust).in_place_of(&current.verifier);
            self.verifier.replace(verifier.clone());
            current.verifier = verifier;
        }
        reloaded
    }

    /// When the authorities and revocation lists in use expire, file by file.
    pub fn expirations(&self) -> Vec<Expiration> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = self.files.all().zip(&current.parts);
        let expiration = |((kind, path), part): ((Kind, &Path), &Part)| {
            let kind = match kind {
                Kind::Authorities => ExpiringFile::Authorities,
                _ => ExpiringFile::RevocationLists,
            };
            Some(Expiration { kind, path: path.into(), at: part.expiration? })
        };
        parts.filter_map(expiration).collect()
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
