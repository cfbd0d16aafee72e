//! What is written to files and printed.

use crate::failure::{Context, Failure};
use lightseal_owner_only::file;
use lightseal_pki::SpkiHash;
use rcgen::KeyPair;
use serde_json::{Map, Value};
use std::io::Write;
use std::path::{Path, PathBuf};
use time::OffsetDateTime;
use zeroize::Zeroizing;

/// The path with a dot and this ending after it, also if it has a dot already.
pub(super) fn with_extension(prefix: &Path, extension: &str) -> PathBuf {
    let mut name = prefix.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}

/// Refuses to overwrite files, before anything is made.
pub(super) fn check<'p>(
    paths: impl IntoIterator<Item = &'p PathBuf>,
    force: bool,
) -> Result<(), Failure> {
    for path in paths {
        if !force && path.symlink_metadata().is_ok() {
            let name = path.display();
            return Err(Failure::new(format_args!(
                "{name}: the file exists already; --force overwrites it"
            )));
        }
    }
    Ok(())
}

/// Writes a private key to a file that only this user can read.
pub(super) fn write_key(path: &Path, key: &KeyPair, force: bool) -> Result<(), Failure> {
    let pem = Zeroizing::new(key.serialize_pem());
    if force {
        let replaced = file::replace(path, 0o600, pem.as_bytes(), |_| Ok(()));
        return replaced.map(drop).context(path.display());
    }
    crate::keys::store(path, pem.as_bytes())
}

/// Writes what everybody may read.
pub(super) fn write(path: &Path, content: &[u8], force: bool) -> Result<(), Failure> {
    let written = if force {
        file::replace(path, 0o644, content, |_| Ok(())).map(drop)
    } else {
        std::fs::File::create_new(path).and_then(|mut file| file.write_all(content))
    };
    written.context(path.display())
}

/// What a command made.
pub(super) struct Made<'a> {
    pub(super) key: Option<&'a Path>,
    pub(super) public_key: Option<&'a Path>,
    pub(super) certificate: Option<&'a Path>,
    pub(super) request: Option<&'a Path>,
    pub(super) not_after: Option<OffsetDateTime>,
    pub(super) spki: SpkiHash,
}

impl Made<'_> {
    /// Nothing yet, for the key with this hash.
    pub(super) fn of(spki: SpkiHash) -> Self {
        let (key, public_key, certificate, request, not_after) = (None, None, None, None, None);
        Self { key, public_key, certificate, request, not_after, spki }
    }

    /// Prints a line for a file of pinned keys, the hash and `name`, or an object of JSON.
    pub(super) fn print(&self, name: &Path, json: bool) -> Result<(), Failure> {
        let mut out = std::io::stdout();
        let written = if json {
            writeln!(out, "{}", self.as_json())
        } else {
            writeln!(out, "{} {}", self.spki, name.display())
        };
        written.context("standard output")
    }

    fn as_json(&self) -> Value {
        let mut object = Map::new();
        let files = [
            ("key", self.key),
            ("public_key", self.public_key),
            ("certificate", self.certificate),
            ("request", self.request),
        ];
        for (field, path) in files {
            if let Some(path) = path {
                object.insert(field.into(), path.display().to_string().into());
            }
        }
        object.insert("spki".into(), self.spki.to_string().into());
        if let Some(time) = self.not_after {
            object.insert("not_after".into(), time.unix_timestamp().into());
        }
        object.into()
    }
}
