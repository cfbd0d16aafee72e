//! The access list: the peers that are allowed in, one identity a line.
//!
//! Lines that begin with `#` and empty lines are ignored. What comes after white space and a `#` is
//! a remark. A list without an identity allows nobody.

use crate::failure::{Context, Failure};
use lightseal_dtls::{Identity, Lookup, PskStore};
use lightseal_owner_only::file::Version;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

/// The largest list that is read, in bytes: ten million identities of 100 bytes.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// A file of identities, which can be read again when it changes.
#[derive(Debug)]
pub(crate) struct AccessList {
    path: PathBuf,
    state: RwLock<(BTreeSet<Identity>, Version)>,
}

impl AccessList {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or a line is no identity.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        Ok(Self { path: path.to_owned(), state: RwLock::new(read(path)?) })
    }

    /// Whether one of the identities of a peer is on the list.
    pub(crate) fn allows(&self, identities: &[Identity]) -> bool {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        identities.iter().any(|identity| state.0.contains(identity))
    }

    /// Reads the file again if it changed, or in any case with `force`. Returns the number of
    /// identities, or `None` if the file was not read. If the file has become unusable, the list
    /// that was read before remains in use.
    ///
    /// # Errors
    ///
    /// The errors of [`open`](Self::open).
    pub(crate) fn reload(&self, force: bool) -> Result<Option<usize>, Failure> {
        let metadata = std::fs::metadata(&self.path);
        let metadata = metadata.context(format_args!("access list {}", self.path.display()))?;
        let version = Version::of(&metadata);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if !force && version == state.1 {
            return Ok(None);
        }
        // The version is stored even for a broken file, so that it is reported once.
        state.1 = version;
        *state = read(&self.path)?;
        Ok(Some(state.0.len()))
    }
}

fn read(path: &Path) -> Result<(BTreeSet<Identity>, Version), Failure> {
    let name = format!("access list {}", path.display());
    let metadata = std::fs::metadata(path).context(&name)?;
    if metadata.len() > MAX_FILE_BYTES {
        return Err(Failure::new(format_args!("{name}: longer than 1 GiB")));
    }
    let text = std::fs::read_to_string(path).context(&name)?;
    let list = parse(&text)
        .map_err(|(line, what)| Failure::new(format_args!("{name}, line {line}: {what}")))?;
    Ok((list, Version::of(&metadata)))
}

fn parse(text: &str) -> Result<BTreeSet<Identity>, (usize, String)> {
    let mut list = BTreeSet::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split_once(" #").map_or(line, |(before, _)| before).trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        list.insert(line.parse().map_err(|error| (number, format!("{error}")))?);
    }
    Ok(list)
}

/// The keys of a store whose identities are on an access list.
pub(crate) struct AllowedPsks {
    pub(crate) psks: Arc<dyn PskStore>,
    pub(crate) list: Arc<AccessList>,
}

impl PskStore for AllowedPsks {
    fn look_up(&self, identity: &[u8]) -> Lookup {
        match self.list.allows(&[Identity::Psk(identity.to_vec())]) {
            true => self.psks.look_up(identity),
            false => Lookup::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_an_identity_in_each_line() {
        let list =
            parse("\u{feff}# ours\npsk:sensor-7  # roof\n\n  subject:CN=a b#c \r\n").unwrap();
        let expected = ["psk:sensor-7", "subject:CN=a b#c"];
        assert_eq!(list.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        assert_eq!(parse("#\n\npsk:a\nsensor-7\n").unwrap_err().0, 4);
        assert!(parse("").unwrap().is_empty());
    }
}
