//! Files of secrets, and files that are replaced as a whole.

use crate::system;
use std::ffi::OsString;
use std::fmt;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What other users can do to a file or directory, and must not be able to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exposed(String);

impl fmt::Display for Exposed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Exposed {}

impl From<Exposed> for io::Error {
    fn from(exposed: Exposed) -> Self {
        Self::new(io::ErrorKind::PermissionDenied, exposed)
    }
}

/// Refuses a file of secrets that other users can read or write.
///
/// A file from systemd (`LoadCredential=`) may be systemd's own file with an ACL for the service's
/// user. The ACL's mask is then in place of the group's permissions. A path that is no regular
/// file, such as a pipe, is accepted. On Windows the access list of the file at the path is checked: the
/// file belongs to this user, the system or administrators, and nobody else can read or change it.
///
/// # Errors
/// Other users can read or write the file.
pub fn refuse_exposed(path: &Path, metadata: &Metadata) -> Result<(), Exposed> {
    match system::exposure(path, metadata).filter(|_| metadata.is_file()) {
        Some(why) => Err(Exposed(why)),
        None => Ok(()),
    }
}

/// Refuses a file or directory that other users can change. They may read it. A path that is neither,
/// such as a pipe, is accepted. On Windows the access list decides, as in [`refuse_exposed`].
///
/// # Errors
/// Other users can change it.
pub fn refuse_writable(path: &Path, metadata: &Metadata) -> Result<(), Exposed> {
    let judged = metadata.is_file() || metadata.is_dir();
    match system::openness(path, metadata).filter(|_| judged) {
        Some(why) => Err(Exposed(why)),
        None => Ok(()),
    }
}

/// Device and inode of a file, which tell it from every other file that exists at the same time. On
/// Windows, where metadata has neither, all files have the same; [`identity`] tells.
pub fn inode(metadata: &Metadata) -> (u64, u64) {
    system::inode(metadata)
}

/// What tells an open file from every other file that exists at the same time: device and inode, on
/// Windows the number of the volume and of the file there.
///
/// # Errors
/// Errors of the operating system.
pub fn identity(file: &File) -> io::Result<(u64, u64)> {
    system::identity(file)
}

/// Opens a file with `options`, which must not ask for a new one. If the file is created, it belongs to
/// this user alone.
///
/// # Errors
/// The file cannot be opened or created.
pub fn open_private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    system::open_private(options, path)
}

/// Creates an empty file that belongs to this user alone.
///
/// # Errors
/// The file cannot be created, or its name exists already, even as a dangling symbolic link.
pub fn create_private(path: &Path) -> io::Result<File> {
    system::create_file(path, 0o600)
}

/// Identifies the state of a file. It changes when the file is written or replaced, even if its
/// modification time was set back and its length is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    modified: Option<SystemTime>,
    len: u64,
    /// Device and inode.
    inode: (u64, u64),
    /// The time of the last change of either content or metadata.
    changed: (i64, i64),
}

impl Version {
    /// The version of a file with this metadata.
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            modified: metadata.modified().ok(),
            len: metadata.len(),
            inode: system::inode(metadata),
            changed: system::changed(metadata),
        }
    }
}

/// Creates a file of secrets that only this user can read.
///
/// # Errors
/// The file cannot be written, or its name exists already, even as a dangling symbolic link:
/// overwriting a key would destroy it.
pub fn create(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = create_private(path)?;
    let written = file.write_all(content).and_then(|()| file.sync_all());
    if written.is_err() {
        // An incomplete secret is useless.
        let _ = std::fs::remove_file(path);
    }
    written
}

/// Replaces a file as a whole or not at all, and writes it to the disk, with the mode `mode` less
/// the umask. On Windows a mode without rights for others stands for an access list without them. A
/// symbolic link is replaced, not followed. `prepare` is called with the new file
/// before it takes the place of the old one. Returns the new file, open.
///
/// # Errors
/// The file cannot be written, or `prepare` fails. Then the old file is unchanged.
pub fn replace(
    path: &Path,
    mode: u32,
    content: &[u8],
    prepare: impl FnOnce(&File) -> io::Result<()>,
) -> io::Result<File> {
    let beside = beside(path)?;
    let mut file = system::create_file(&beside, mode)?;
    let replaced = file
        .write_all(content)
        .and_then(|()| file.sync_all())
        .and_then(|()| prepare(&file))
        .and_then(|()| std::fs::rename(&beside, path));
    if let Err(error) = replaced {
        let _ = std::fs::remove_file(&beside);
        return Err(error);
    }
    // The rename is stored in the directory, which must also be written to the disk. On some file
    // systems this does nothing.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    system::sync_directory(folder.unwrap_or(Path::new(".")))?;
    Ok(file)
}

/// Checks whether [`replace`] could write the file, and leaves no trace.
///
/// # Errors
/// The file could not be written.
pub fn try_replace(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    let beside = beside(path)?;
    create_private(&beside)?;
    std::fs::remove_file(&beside)
}

/// A path beside `path` with a random name, which nobody can guess and prepare.
fn beside(path: &Path) -> io::Result<PathBuf> {
    let mut random = [0; 8];
    getrandom::fill(&mut random)
        .map_err(|error| io::Error::other(format!("no randomness: {error}")))?;
    let mut name = OsString::from(path.as_os_str());
    name.push(format!(".{:016x}.part", u64::from_be_bytes(random)));
    Ok(name.into())
}

/// Creates a directory that only its owner can access, unless it exists.
///
/// # Errors
/// The directory cannot be created.
pub fn private_directory(directory: &Path) -> io::Result<()> {
    system::create_directory(directory, true)
}

/// Creates a directory that only its owner can access, and that does not exist yet.
///
/// # Errors
/// The directory cannot be created, or its name exists already.
pub fn new_private_directory(directory: &Path) -> io::Result<()> {
    system::create_directory(directory, false)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::test_directory::Dir;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A directory that is there.
    fn made(name: &str) -> Dir {
        let dir = Dir::new(name);
        std::fs::create_dir_all(&dir.0).unwrap();
        dir
    }

    fn names(dir: &Dir) -> Vec<String> {
        let entries = std::fs::read_dir(&dir.0).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_is_left_beside_it() {
        let dir = made("replace");
        let path = dir.0.join("a");
        replace(&path, 0o600, b"one", |_| Ok(())).unwrap();
        replace(&path, 0o600, b"two", |_| Ok(())).unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), mode(&path)), (b"two".to_vec(), 0o600));
        let refused = replace(&path, 0o600, b"three", |_| Err(io::ErrorKind::Other.into()));
        assert!(refused.is_err() && std::fs::read(&path).unwrap() == b"two");
        try_replace(&path).unwrap();
        assert_eq!(names(&dir), ["a"]);
        assert!(try_replace(&dir.0).is_err());
        assert!(try_replace(&dir.0.join("no/such/a")).is_err());
    }

    #[test]
    fn symbolic_links_lead_nowhere() {
        let dir = made("links");
        let (victim, path) = (dir.0.join("victim"), dir.0.join("a"));
        std::fs::write(&victim, "kept").unwrap();
        // An attacker prepared a link under the name that temporary files once had.
        symlink(&victim, dir.0.join("a.part")).unwrap();
        replace(&path, 0o600, b"mine", |_| Ok(())).unwrap();
        try_replace(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        symlink(&victim, &path).unwrap();
        assert_eq!(create(&path, b"mine").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        replace(&path, 0o600, b"mine", |_| Ok(())).unwrap();
        assert!(path.symlink_metadata().unwrap().is_file());
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
    }

    #[test]
    fn secrets_are_their_owners() {
        let dir = made("secrets");
        let path = dir.0.join("key");
        create(&path, b"secret").unwrap();
        assert_eq!(mode(&path), 0o600);
        assert_eq!(refuse_exposed(&path, &path.metadata().unwrap()), Ok(()));
        for exposed in [0o640, 0o604, 0o620, 0o601] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(exposed)).unwrap();
            let said = refuse_exposed(&path, &path.metadata().unwrap()).unwrap_err().to_string();
            assert!(said.contains(&format!("mode {exposed:03o}): chmod 600 {}", path.display())));
        }
    }

    #[test]
    fn a_file_of_the_same_length_and_time_is_another_version() {
        let dir = made("version");
        let (path, other) = (dir.0.join("a"), dir.0.join("b"));
        std::fs::write(&path, "one").unwrap();
        let before = path.metadata().unwrap();
        let modified = before.modified().unwrap();
        let backdate = |path: &Path| {
            let file = OpenOptions::new().write(true).open(path).unwrap();
            file.set_modified(modified).unwrap();
        };
        assert_eq!(Version::of(&before), Version::of(&path.metadata().unwrap()));
        std::fs::write(&other, "two").unwrap();
        backdate(&other);
        std::fs::rename(&other, &path).unwrap();
        let replaced = path.metadata().unwrap();
        assert_eq!((replaced.modified().unwrap(), replaced.len()), (modified, 3));
        assert_ne!(Version::of(&before), Version::of(&replaced), "another inode");
        // Time stamps of files may be coarse.
        std::thread::sleep(std::time::Duration::from_millis(50));
        std::fs::write(&path, "six").unwrap();
        backdate(&path);
        let written = path.metadata().unwrap();
        assert_eq!((written.modified().unwrap(), written.len()), (modified, 3));
        assert_ne!(Version::of(&replaced), Version::of(&written), "another change time");
    }
}

#[cfg(all(test, windows))]
mod tests {
    use super::*;
    use crate::test_directory::Dir;

    /// A directory of this user alone, and others in it.
    fn made(name: &str) -> Dir {
        let dir = Dir::new(name);
        private_directory(&dir.0.join("deep/deeper")).unwrap();
        dir
    }

    #[test]
    fn secrets_are_their_owners() {
        let dir = made("secrets");
        let path = dir.0.join("key");
        create(&path, b"secret").unwrap();
        assert_eq!(refuse_exposed(&path, &path.metadata().unwrap()), Ok(()));
        assert_eq!(create(&path, b"other").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"secret");
        let exposed = dir.0.join("exposed");
        let everyone = crate::kernel::Descriptor::from_text("D:P(A;;FA;;;WD)").unwrap();
        drop(crate::kernel::create_file(&exposed, &everyone).unwrap());
        let said = refuse_exposed(&exposed, &exposed.metadata().unwrap()).unwrap_err().to_string();
        assert!(said.starts_with("open to everyone: icacls \""), "{said}");
        // Wine keeps what a file's mode can say, and the umask takes the right to write from others.
        let is_kept = system::descriptor(&exposed).unwrap().contains(";FA;;;WD)");
        let judged = refuse_writable(&exposed, &exposed.metadata().unwrap());
        let said = judged.map_err(|why| why.to_string());
        let is_refused = said.is_err_and(|why| why.starts_with("open to everyone: icacls \""));
        assert_eq!(is_refused, is_kept);
        // A file of the user becomes one that nobody else reads.
        replace(&exposed, 0o600, b"secret", |_| Ok(())).unwrap();
        assert_eq!(refuse_exposed(&exposed, &exposed.metadata().unwrap()), Ok(()));
        let mut options = OpenOptions::new();
        let log = dir.0.join("log");
        for _ in 0..2 {
            let file = open_private(options.append(true).create(true), &log);
            file.unwrap().write_all(b"line").unwrap();
            assert_eq!(refuse_exposed(&log, &log.metadata().unwrap()), Ok(()));
        }
        assert_eq!(std::fs::read(&log).unwrap(), b"lineline");
    }

    #[test]
    fn directories_are_their_owners_and_are_made_once() {
        let dir = made("directories");
        let check = |path: &Path| system::check(path, crate::access_list::Forbidden::Change);
        assert_eq!(check(&dir.0.join("deep/deeper")).unwrap(), Ok(()));
        let new = dir.0.join("new");
        new_private_directory(&new).unwrap();
        assert_eq!(new_private_directory(&new).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        private_directory(&new).unwrap();
        assert_eq!(refuse_writable(&new, &new.metadata().unwrap()), Ok(()));
        assert!(check(&new).unwrap().is_ok() && check(&new.join("none")).is_err());
    }

    #[test]
    fn paths_may_have_more_than_260_units() {
        let dir = made("long");
        let deep = dir.0.join("x".repeat(120)).join("y".repeat(120)).join("z".repeat(120));
        private_directory(&deep).unwrap();
        let path = deep.join("key");
        assert!(path.as_os_str().len() > 360);
        create(&path, b"secret").unwrap();
        assert_eq!(refuse_exposed(&path, &path.metadata().unwrap()), Ok(()));
        let exposed = deep.join("exposed");
        let everyone = crate::kernel::Descriptor::from_text("D:P(A;;FA;;;WD)").unwrap();
        drop(crate::kernel::create_file(&exposed, &everyone).unwrap());
        assert!(refuse_exposed(&exposed, &exposed.metadata().unwrap()).is_err());
    }

    #[test]
    fn a_file_that_takes_the_place_of_another_has_another_identity() {
        let dir = made("identity");
        let (path, copy) = (dir.0.join("a"), dir.0.join("b"));
        let file = replace(&path, 0o600, b"one", |_| Ok(())).unwrap();
        let first = identity(&file).unwrap().1;
        let of = |path| identity(&File::open(path).unwrap()).unwrap().1;
        assert_eq!(of(&path), first);
        std::fs::copy(&path, &copy).unwrap();
        assert_ne!(of(&copy), first);
        drop(file);
        // The other one is made while the first one is there, and has its number.
        replace(&path, 0o600, b"two", |_| Ok(())).unwrap();
        assert_ne!(of(&path), first);
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
    }
}
