//! A directory with a file for each identity: `--psk-dir DIR` and `--allow-dir DIR`.
//!
//! The file of a pre-shared key has the key; that of a public key or a name only has to be there. A
//! file is looked for when it is asked for, so that the number of files does not matter. The kernel says
//! which files change, and once a minute all are looked through in parts. Where the kernel does not say
//! it (another system, or a file system that others may change too) each question about changes is
//! answered with "perhaps all": the files of the keys in use are read again and again.

use super::names::file_name;
use super::source::{Changed, Entry, KeySource, Kind, MOST_KEY_BYTES, PeerIdentity, SourceError};
use super::watch::Watch;
use crate::keys;
use crate::units::counted;
use lightseal_dtls::{Identity, Psk};
use lightseal_net::RateLimitedLog;
use lightseal_owner_only::file::{inode, refuse_writable};
use std::fmt;
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
#[cfg(unix)]
use std::path::Component;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use zeroize::Zeroizing;

/// The longest file that is read: an identity and a key, and some lines of comment.
const MOST_FILE_BYTES: u64 = 4096;

/// A file with this name says that a directory without a key is empty on purpose.
const REVOKE_ALL: &str = keys::REVOKE_ALL;

const NO_FILE: &str = "it is no regular file";

/// Why a link is not followed.
#[cfg(unix)]
const LINK: &str = "it is a symbolic link, behind which changes would not be noticed";

/// A directory of keys, or of public keys and names.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    kind: Kind,
    /// Which directory it was when it was looked at last.
    found: Option<DirectoryId>,
    /// Which directory is watched, and the watch if the kernel can do it; `None` if the changes since
    /// the last question may not be known.
    watched: Option<DirectoryId>,
    watch: Option<Watch>,
    /// Limits the warnings of files that cannot be used.
    unusable: RateLimitedLog,
}

/// Tells a directory from others: its device, its inode, and when it was created. A file system gives
/// the inode of a directory that was removed to the next one.
type DirectoryId = (u64, u64, Option<SystemTime>);

impl Directory {
    /// # Errors
    ///
    /// If there is no such directory, or other users can write to it.
    pub(super) fn open(path: &Path, kind: Kind) -> Result<Self, SourceError> {
        let mut directory = Self {
            path: path.to_owned(),
            kind,
            found: None,
            watched: None,
            watch: None,
            unusable: RateLimitedLog::default(),
        };
        directory.look()?;
        Ok(directory)
    }

    /// Looks whether the directory is there, and can be relied on. Returns which one it is.
    fn look(&mut self) -> Result<DirectoryId, SourceError> {
        let metadata = std::fs::metadata(&self.path).map_err(SourceError::new)?;
        if !metadata.is_dir() {
            return Err(SourceError::new("not a directory"));
        }
        // Whoever can change the directory can add keys.
        refuse_writable(&self.path, &metadata).map_err(SourceError::new)?;
        let id = directory_id(&metadata);
        // A directory that is there and empty may be the place where another one is mounted.
        if self.found != Some(id) && !self.has_any()? {
            return Err(SourceError::new(format_args!(
                "it has no {}; an empty file {REVOKE_ALL} in it says that this is on purpose",
                match self.kind {
                    Kind::Psks => "key",
                    Kind::Peers => "identity",
                }
            )));
        }
        self.found = Some(id);
        Ok(id)
    }

    fn has_any(&self) -> Result<bool, SourceError> {
        let mut entries = std::fs::read_dir(&self.path).map_err(SourceError::new)?;
        Ok(entries.next().is_some())
    }

    fn read(&self, identity: &Identity) -> Result<Option<Entry>, SourceError> {
        let Some(name) = file_name(identity) else { return Ok(None) };
        let path = self.path.join(&name);
        // A directory whose disk fails says something else than that there is no such file.
        match entry(identity, &path) {
            Ok(entry) => Ok(Some(entry)),
            Err(Unread::Absent) => Ok(None),
            Err(Unread::Unusable(why)) => {
                self.warn(&path, &why);
                Ok(None)
            }
            Err(Unread::Failed(error)) => Err(SourceError::new(format_args!("{name}: {error}"))),
        }
    }

    /// Says at a limited rate that a file cannot be used.
    fn warn(&self, path: &Path, why: &dyn fmt::Display) {
        if let Some(count) = self.unusable.due() {
            let path = path.display();
            let files = counted(count, "such file");
            tracing::warn!("{path}: {why}; it counts as if it were not there ({files})");
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
        let looked = self.look();
        // While the directory is away its changes are not known.
        let watched = self.watched.take();
        let id = looked?;
        if watched != Some(id) {
            // First the watch, then the files: nothing is missed in between.
            self.watch = Watch::of(&self.path, self.kind);
            self.watched = Some(id);
        } else if let Some(watch) = &mut self.watch {
            let changed = watch.changes();
            // If the watch has ended, there is a new one with the next question.
            self.watched = changed.is_some().then_some(id);
            return Ok(changed.unwrap_or(Changed::All));
        } else {
            self.watched = Some(id);
        }
        Ok(Changed::All)
    }
}

/// Why a file says nothing.
#[derive(Debug)]
enum Unread {
    Absent,
    /// The file is there, and the fault is its own: files of other identities may be opened.
    Unusable(String),
    /// Nothing is known of the file.
    Failed(std::io::Error),
}

/// Opens a file without waiting for a writer of a pipe. A symbolic link is followed only if its
/// target is exchanged together with a name that the kernel watches.
#[cfg(unix)]
fn open(path: &Path) -> Result<File, Unread> {
    use rustix::fs::OFlags;
    use std::os::unix::fs::OpenOptionsExt;
    let open = |flags: OFlags| {
        let flags = (OFlags::NONBLOCK | flags).bits().cast_signed();
        File::options().read(true).custom_flags(flags).open(path)
    };
    let opened = match open(OFlags::NOFOLLOW) {
        Err(error) if error.kind() != ErrorKind::NotFound => match std::fs::read_link(path) {
            Ok(target) if is_exchanged(&target) => open(OFlags::empty()),
            Ok(_) => return Err(Unread::Unusable(LINK.into())),
            Err(_) => Err(error),
        },
        opened => opened,
    };
    opened.map_err(|error| unread(path, error))
}

#[cfg(not(unix))]
fn open(path: &Path) -> Result<File, Unread> {
    File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Unread::Absent,
        _ => Unread::Failed(error),
    })
}

/// Whether a link leads through a name of two dots and more in the directory. Kubernetes exchanges the
/// link `..data` when a file has changed to which `..data/NAME` leads.
#[cfg(unix)]
fn is_exchanged(target: &Path) -> bool {
    let mut parts = target.components();
    let is_name = |part: Component<'_>| matches!(part, Component::Normal(_));
    let first = parts.next().filter(|first| is_name(*first));
    first.is_some_and(|first| first.as_os_str().as_encoded_bytes().starts_with(b".."))
        && parts.all(is_name)
}

/// Tells a file that cannot be opened from a directory whose files are not known.
#[cfg(unix)]
fn unread(path: &Path, error: std::io::Error) -> Unread {
    use rustix::io::Errno;
    match Errno::from_io_error(&error) {
        // No file can have a name that is too long for the file system.
        Some(Errno::NOENT | Errno::NAMETOOLONG) => Unread::Absent,
        Some(Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::NOTDIR | Errno::NXIO)
            if path.symlink_metadata().is_ok() =>
        {
            Unread::Unusable(error.to_string())
        }
        _ => Unread::Failed(error),
    }
}

/// What the file of an identity says.
fn entry(identity: &Identity, path: &Path) -> Result<Entry, Unread> {
    let file = open(path)?;
    let metadata = file.metadata().map_err(Unread::Failed)?;
    if !metadata.is_file() {
        return Err(Unread::Unusable(NO_FILE.into()));
    }
    match identity {
        Identity::Psk(identity) => psk(identity, file, path, &metadata).map(Entry::Psk),
        _ => Ok(Entry::Admitted),
    }
}

/// The key in a file.
fn psk(identity: &[u8], file: File, path: &Path, metadata: &Metadata) -> Result<Psk, Unread> {
    keys::refuse_exposed("the file", path, metadata)
        .map_err(|error| Unread::Unusable(error.to_string()))?;
    if metadata.len() > MOST_FILE_BYTES {
        return Err(Unread::Unusable(format!("it is longer than {MOST_FILE_BYTES} bytes")));
    }
    let mut text = Zeroizing::new(String::with_capacity(MOST_FILE_BYTES as usize + 1));
    file.take(MOST_FILE_BYTES).read_to_string(&mut text).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => Unread::Unusable(error.to_string()),
        _ => Unread::Failed(error),
    })?;
    let key = keys::only_key(&text, identity).map_err(Unread::Unusable)?;
    if key.len() > MOST_KEY_BYTES {
        return Err(Unread::Unusable(format!("the key is longer than {MOST_KEY_BYTES} bytes")));
    }
    Psk::external(identity, &key).map_err(|error| Unread::Unusable(error.to_string()))
}

fn directory_id(metadata: &Metadata) -> DirectoryId {
    let (device, inode) = inode(metadata);
    (device, inode, metadata.created().ok())
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
        // A program that another test starts holds files open for a moment. Then the kernel says later
        // that they were written, so each of those may be named once more.
        let written = ["a", "b", "c"].map(|name| psk(name.as_bytes()));
        let mut these = |expected: &[&[u8]]| {
            let Changed::These(told) = source.changes().unwrap() else { panic!("too much") };
            let expected: Vec<_> = expected.iter().map(|identity| psk(identity)).collect();
            assert!(expected.iter().all(|identity| told.contains(identity)), "{told:?}");
            let is_known = |identity| written.contains(identity) || expected.contains(identity);
            assert!(told.iter().all(is_known), "{told:?}");
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

    /// A write through a link elsewhere is no event in the directory.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_key_that_changes_through_another_hard_link_is_noticed() {
        let (keys, elsewhere) = (Keys::new("keys-hard"), Keys::new("keys-hard-elsewhere"));
        keys.write("a", &format!("a:{HEX}\n"));
        std::fs::hard_link(keys.0.join("a"), elsewhere.0.join("a")).unwrap();
        let mut source = Directory::open(&keys.0, Kind::Psks).unwrap();
        assert_eq!(source.changes().unwrap(), Changed::All);
        if source.watch.is_none() {
            return skip::test("the file system of the temporary folder cannot be watched");
        }
        std::fs::write(elsewhere.0.join("a"), format!("a:{HEX}00\n")).unwrap();
        assert_eq!(source.changes().unwrap(), Changed::These(Vec::new()));
        source.watch.as_mut().unwrap().rescan_now();
        assert_eq!(source.changes().unwrap(), Changed::These(vec![psk(b"a")]));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_directory_that_is_removed_and_made_again_is_watched_anew() {
        let keys = Keys::new("keys-again");
        keys.write("a", &format!("a:{HEX}\n"));
        let mut source = Directory::open(&keys.0, Kind::Psks).unwrap();
        assert_eq!(source.changes().unwrap(), Changed::All);
        if source.watch.is_none() {
            return skip::test("the file system of the temporary folder cannot be watched");
        }
        assert_eq!(source.changes().unwrap(), Changed::These(Vec::new()));
        std::fs::remove_dir_all(&keys.0).unwrap();
        std::fs::create_dir(&keys.0).unwrap();
        for name in ["a", "b"] {
            keys.write(name, &format!("{name}:{HEX}\n"));
        }
        // As if the new directory could not be told from the old one.
        source.watched = Some(source.look().unwrap());
        assert_eq!(source.changes().unwrap(), Changed::All);
        assert_eq!(source.changes().unwrap(), Changed::All, "there is a new watch");
        assert_eq!(source.changes().unwrap(), Changed::These(Vec::new()));
        std::fs::remove_file(keys.0.join("a")).unwrap();
        assert_eq!(source.changes().unwrap(), Changed::These(vec![psk(b"a")]));
        // What happens while the directory is away is not known, whatever the kernel says.
        let aside = keys.0.with_extension("aside");
        std::fs::rename(&keys.0, &aside).unwrap();
        assert!(source.changes().is_err());
        std::fs::rename(&aside, &keys.0).unwrap();
        assert_eq!(source.changes().unwrap(), Changed::All);
    }

    #[test]
    fn a_file_that_cannot_be_opened_keeps_nobody_else_away() {
        let keys = Keys::new("keys-unreadable");
        keys.write("a", &format!("a:{HEX}\n"));
        std::os::unix::fs::symlink("loop", keys.0.join("loop")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(keys.0.join("socket")).unwrap();
        keys.write("denied", &format!("denied:{HEX}\n"));
        let nobody = std::fs::Permissions::from_mode(0o000);
        std::fs::set_permissions(keys.0.join("denied"), nobody).unwrap();
        let mut source = Directory::open(&keys.0, Kind::Psks).unwrap();
        let asked = [psk(b"loop"), psk(b"a"), psk(b"socket"), psk(b"denied")];
        let found = source.find(&asked).unwrap();
        let found: Vec<_> = found.iter().map(Option::is_some).collect();
        // Root may read it.
        let reads_denied = File::open(keys.0.join("denied")).is_ok();
        assert_eq!(found, [false, true, false, reads_denied]);
        // A name that the file system cannot have, a directory that cannot be entered, and a disk that
        // fails.
        use rustix::io::Errno;
        let unread = |name: &str, errno: Errno| unread(&keys.0.join(name), errno.into());
        assert!(matches!(unread("none", Errno::NAMETOOLONG), Unread::Absent));
        assert!(matches!(unread("none", Errno::ACCESS), Unread::Failed(_)));
        assert!(matches!(unread("a", Errno::ACCESS), Unread::Unusable(_)));
        assert!(matches!(unread("a", Errno::IO), Unread::Failed(_)));
    }

    #[test]
    fn a_link_counts_only_if_its_target_is_exchanged_under_a_name_that_is_watched() {
        use std::os::unix::fs::symlink;
        let (keys, elsewhere) = (Keys::new("keys-links"), Keys::new("keys-elsewhere"));
        for name in ["a", "b"] {
            elsewhere.write(name, &format!("{name}:{HEX}\n"));
        }
        symlink(elsewhere.0.join("a"), keys.0.join("a")).unwrap();
        symlink(&elsewhere.0, keys.0.join("..data")).unwrap();
        symlink("..data/b", keys.0.join("b")).unwrap();
        symlink("..data/absent", keys.0.join("absent")).unwrap();
        let mut source = Directory::open(&keys.0, Kind::Psks).unwrap();
        for (identity, counts) in [("a", false), ("b", true), ("absent", false)] {
            let found = keys.find(&mut source, identity.as_bytes());
            assert_eq!(found.is_some(), counts, "{identity}");
        }
        let exchanged = ["..data/a", "..2026/b"];
        let others = ["../a", "a", "/a", "..data/../../a", ".data/a"];
        assert!(exchanged.iter().all(|target| is_exchanged(Path::new(target))));
        assert!(!others.iter().any(|target| is_exchanged(Path::new(target))));
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
