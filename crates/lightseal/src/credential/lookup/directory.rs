//! A directory with a file for each identity: `--psk-dir DIR` and `--allow-dir DIR`.
//!
//! The file of a pre-shared key has the key; that of a public key or a name only has to be there. A
//! file is looked for when it is asked for, so that the number of files does not matter. The kernel says
//! which files change. Where it does not (another system, or a file system of the network) each
//! question about changes is answered with "perhaps all": the files of the keys in use are read
//! again and again.

use super::names::file_name;
use super::source::{Changed, Entry, KeySource, Kind, MOST_KEY_BYTES, PeerIdentity, SourceError};
#[cfg(target_os = "linux")]
use super::watch::Watch;
use crate::keys;
use lightseal_dtls::{Identity, Psk};
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The longest file that is read: an identity and a key, and some lines of comment.
const MOST_FILE_BYTES: u64 = 4096;

/// A file with this name says that a directory without a key is empty on purpose.
const REVOKE_ALL: &str = keys::REVOKE_ALL;

const NO_FILE: &str = "it is no regular file";

/// A directory of keys, or of public keys and names.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    kind: Kind,
    /// Device and inode of the directory as it was when it was looked at last, and when its changes
    /// were asked for last.
    place: Option<(u64, u64)>,
    watched: Option<(u64, u64)>,
    #[cfg(target_os = "linux")]
    watch: Option<Watch>,
}

impl Directory {
    /// # Errors
    ///
    /// If there is no such directory, or other users can write to it.
    pub(super) fn open(path: &Path, kind: Kind) -> Result<Self, SourceError> {
        let mut directory = Self {
            path: path.to_owned(),
            kind,
            place: None,
            watched: None,
            #[cfg(target_os = "linux")]
            watch: None,
        };
        directory.look()?;
        Ok(directory)
    }

    /// Looks whether the directory is there, and can be relied on. Returns its device and inode.
    fn look(&mut self) -> Result<(u64, u64), SourceError> {
        let metadata = std::fs::metadata(&self.path).map_err(SourceError::new)?;
        if !metadata.is_dir() {
            return Err(SourceError::new("not a directory"));
        }
        refuse_writable(&metadata)?;
        let place = place(&metadata);
        // A directory that is there and empty may be the place where another one is mounted.
        if self.place != Some(place) && !self.has_any()? {
            return Err(SourceError::new(format_args!(
                "it has no {}; an empty file {REVOKE_ALL} in it says that this is on purpose",
                match self.kind {
                    Kind::Psks => "key",
                    Kind::Peers => "identity",
                }
            )));
        }
        self.place = Some(place);
        Ok(place)
    }

    fn has_any(&self) -> Result<bool, SourceError> {
        let mut entries = std::fs::read_dir(&self.path).map_err(SourceError::new)?;
        Ok(entries.next().is_some())
    }

    fn read(&self, identity: &Identity) -> Result<Option<Entry>, SourceError> {
        let Some(name) = file_name(identity) else { return Ok(None) };
        let path = self.path.join(&name);
        // A directory whose disk fails says something else than that there is no such file.
        let file = match open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(SourceError::new(format_args!("{name}: {error}"))),
        };
        let metadata = file.metadata().map_err(SourceError::new)?;
        let found = match identity {
            Identity::Psk(identity) => psk(identity, file, &path, &metadata).map(Entry::Psk),
            _ if metadata.is_file() => Ok(Entry::Admitted),
            _ => Err(NO_FILE.to_owned()),
        };
        match found {
            Ok(entry) => Ok(Some(entry)),
            Err(why) => {
                tracing::warn!("{}: {why}; it counts as if it were not there", path.display());
                Ok(None)
            }
        }
    }
}

impl KeySource for Directory {
    fn find(&mut self, identities: &[PeerIdentity]) -> Result<Vec<Option<Entry>>, SourceError> {
        let before = self.look()?;
        let found: Result<Vec<_>, _> =
            identities.iter().map(|identity| self.read(identity)).collect();
        // If the directory went away meanwhile, its files did not end one by one.
        match self.look()? {
            after if after == before => found,
            _ => Err(SourceError::new("the directory was replaced meanwhile")),
        }
    }

    fn changes(&mut self) -> Result<Changed, SourceError> {
        let place = self.look()?;
        let is_other = self.watched.replace(place) != Some(place);
        #[cfg(target_os = "linux")]
        {
            if is_other {
                // First the watch, then the files: nothing is missed in between.
                self.watch = Watch::of(&self.path, self.kind);
            }
            if let Some(watch) = &mut self.watch {
                let changed = watch.changes();
                return Ok(if is_other { Changed::All } else { changed });
            }
        }
        let _ = is_other;
        Ok(Changed::All)
    }
}

/// Opens a file without waiting for a writer of a pipe.
fn open(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    }
    options.open(path)
}

/// The key in a file.
fn psk(identity: &[u8], file: File, path: &Path, metadata: &Metadata) -> Result<Psk, String> {
    if !metadata.is_file() {
        return Err(NO_FILE.into());
    }
    keys::refuse_exposed("the file", path, metadata).map_err(|error| error.to_string())?;
    if metadata.len() > MOST_FILE_BYTES {
        return Err(format!("it is longer than {MOST_FILE_BYTES} bytes"));
    }
    let mut text = Zeroizing::new(String::with_capacity(MOST_FILE_BYTES as usize + 1));
    file.take(MOST_FILE_BYTES).read_to_string(&mut text).map_err(|error| error.to_string())?;
    let key = keys::only_key(&text, identity)?;
    if key.len() > MOST_KEY_BYTES {
        return Err(format!("the key is longer than {MOST_KEY_BYTES} bytes"));
    }
    Psk::external(identity, &key).map_err(|error| error.to_string())
}

#[cfg(unix)]
fn place(metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn place(_: &Metadata) -> (u64, u64) {
    (0, 0)
}

/// Refuses a directory to which other users could add keys.
#[cfg(unix)]
fn refuse_writable(metadata: &Metadata) -> Result<(), SourceError> {
    use std::os::unix::fs::MetadataExt;
    match metadata.mode() & 0o022 {
        0 => Ok(()),
        _ => Err(SourceError::new("other users can write to it; chmod go-w takes that away")),
    }
}

#[cfg(not(unix))]
fn refuse_writable(_: &Metadata) -> Result<(), SourceError> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    const HEX: &str = "000102030405060708090a0b0c0d0e0f";

    fn psk(identity: &[u8]) -> PeerIdentity {
        Identity::Psk(identity.to_vec()).into()
    }

    /// A directory of keys that is removed in the end.
    struct Keys(PathBuf);

    impl Keys {
        fn new(name: &str) -> Self {
            let name = format!("lightseal-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.0.join(name);
            let _ = std::fs::remove_file(&path);
            keys::store(&path, text.as_bytes()).unwrap();
        }

        fn find(&self, source: &mut Directory, identity: &[u8]) -> Option<Psk> {
            match source.find(&[psk(identity)]).unwrap().pop().unwrap() {
                Some(Entry::Psk(psk)) => Some(psk),
                Some(Entry::Admitted) => panic!("{identity:?} is a pre-shared key"),
                None => None,
            }
        }
    }

    impl Drop for Keys {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    #[test]
    fn a_key_is_read_from_a_file_of_its_own_that_nobody_else_can_read() {
        let keys = Keys::new("keys-directory");
        let said = Directory::open(&keys.0, Kind::Psks).unwrap_err().to_string();
        assert!(said.contains("it has no key; an empty file !revoke-all"), "{said}");
        keys.write("a", &format!("# of device a\na:{HEX}\n"));
        keys.write("b%20c", &format!("b c:{HEX}\n"));
        keys.write("other", &format!("a:{HEX}\n"));
        keys.write("short", "short:0011\n");
        keys.write("two", &format!("two:{HEX}\nthree:{HEX}\n"));
        keys.write("open", &format!("open:{HEX}\n"));
        let readable = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(keys.0.join("open"), readable).unwrap();
        std::fs::create_dir(keys.0.join("directory")).unwrap();
        let mut source = Directory::open(&keys.0, Kind::Psks).unwrap();
        for known in [&b"a"[..], b"b c"] {
            let psk = keys.find(&mut source, known).unwrap();
            let key = Psk::external(known, &(0..16).collect::<Vec<u8>>()).unwrap();
            assert_eq!((psk.identity(), psk.check()), (known, key.check()));
        }
        for none in [&b"other"[..], b"short", b"two", b"open", b"directory", b"absent", b"../a"] {
            assert!(keys.find(&mut source, none).is_none(), "{none:?}");
        }
        let exposed = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(&keys.0, exposed).unwrap();
        assert!(
            Directory::open(&keys.0, Kind::Psks).unwrap_err().to_string().contains("chmod go-w")
        );
    }

    #[test]
    fn a_directory_that_goes_away_revokes_nobody_and_one_that_is_emptied_does() {
        let keys = Keys::new("keys-away");
        keys.write("a", &format!("a:{HEX}\n"));
        let mut source = Directory::open(&keys.0, Kind::Psks).unwrap();
        assert_eq!(source.changes().unwrap(), Changed::All, "nothing was known before");
        let aside = keys.0.with_extension("aside");
        std::fs::rename(&keys.0, &aside).unwrap();
        assert!(source.find(&[psk(b"a")]).is_err() && source.changes().is_err());
        // What a mount leaves behind.
        std::fs::create_dir(&keys.0).unwrap();
        assert!(source.find(&[psk(b"a")]).is_err() && source.changes().is_err());
        std::fs::remove_dir(&keys.0).unwrap();
        std::fs::rename(&aside, &keys.0).unwrap();
        assert!(keys.find(&mut source, b"a").is_some());
        std::fs::remove_file(keys.0.join("a")).unwrap();
        assert!(keys.find(&mut source, b"a").is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_kernel_says_which_keys_have_changed() {
        let keys = Keys::new("keys-watch");
        for name in ["a", "b", "c"] {
            keys.write(name, &format!("{name}:{HEX}\n"));
        }
        let mut source = Directory::open(&keys.0, Kind::Psks).unwrap();
        assert_eq!(source.changes().unwrap(), Changed::All);
        if source.watch.is_none() {
            return skip::test("the file system of the temporary folder cannot be watched");
        }
        let mut these = |expected: &[&[u8]]| {
            let expected = expected.iter().map(|identity| psk(identity)).collect();
            assert_eq!(source.changes().unwrap(), Changed::These(expected));
        };
        these(&[]);
        std::fs::remove_file(keys.0.join("a")).unwrap();
        keys.write("b", &format!("b:{HEX}00\n"));
        these(&[b"a", b"b"]);
        std::fs::rename(keys.0.join("b"), keys.0.join("d%20d")).unwrap();
        these(&[b"b", b"d d"]);
        std::fs::create_dir(keys.0.join("..2026")).unwrap();
        assert_eq!(source.changes().unwrap(), Changed::All);
        std::fs::remove_dir(keys.0.join("..2026")).unwrap();
    }

    #[test]
    fn a_public_key_or_a_name_is_let_in_by_a_file_whatever_it_has() {
        let keys = Keys::new("keys-peers");
        let said = Directory::open(&keys.0, Kind::Peers).unwrap_err().to_string();
        assert!(said.contains("it has no identity"), "{said}");
        keys.write(&format!("spki:{}", "0a".repeat(32)), "");
        keys.write("subject:a.example", "# the meter in the cellar\n");
        std::fs::create_dir(keys.0.join("subject:c.example")).unwrap();
        let mut source = Directory::open(&keys.0, Kind::Peers).unwrap();
        let asked = [
            Identity::Key([10; 32]),
            Identity::Subject("a.example".into()),
            Identity::Subject("b.example".into()),
            Identity::Subject("c.example".into()),
            Identity::Subject("../a.example".into()),
        ];
        let found = source.find(&asked.map(PeerIdentity::from)).unwrap();
        let found: Vec<_> =
            found.iter().map(|entry| matches!(entry, Some(Entry::Admitted))).collect();
        assert_eq!(found, [true, true, false, false, false]);
        std::fs::remove_file(keys.0.join("subject:a.example")).unwrap();
        let gone = Identity::Subject("a.example".into());
        assert!(source.find(&[gone.into()]).unwrap()[0].is_none());
    }
}
