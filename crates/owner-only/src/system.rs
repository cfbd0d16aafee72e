//! What differs between operating systems: who can access files, and what tells one file from another.

#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;

#[cfg(unix)]
mod unix {
    use std::fs::{DirBuilder, File, Metadata, OpenOptions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
    use std::path::Path;

    /// Creates a file with this mode, whose name must not exist: `O_EXCL` follows no symbolic link.
    pub(crate) fn create_file(path: &Path, mode: u32) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
    }

    /// Opens a file, which belongs to this user alone if it is created.
    pub(crate) fn open_private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
        options.mode(0o600).open(path)
    }

    /// Creates a directory that only its owner can access, with `parents` also the ones above it.
    pub(crate) fn create_directory(path: &Path, parents: bool) -> io::Result<()> {
        DirBuilder::new().mode(0o700).recursive(parents).create(path)
    }

    /// Why a file of secrets is refused; `None` if it is not.
    pub(crate) fn exposure(path: &Path, metadata: &Metadata) -> Option<String> {
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY");
        let is_credential = credentials.is_some_and(|directory| path.starts_with(directory));
        let forbidden = if is_credential { 0o037 } else { 0o077 };
        let mode = metadata.mode() & 0o777;
        let shown = path.display();
        (mode & forbidden != 0)
            .then(|| format!("open to other users (mode {mode:03o}): chmod 600 {shown}"))
    }

    /// Why a file or directory that only this user may change is refused; `None` if it is not.
    pub(crate) fn openness(path: &Path, metadata: &Metadata) -> Option<String> {
        let mode = metadata.mode() & 0o777;
        let shown = path.display();
        (mode & 0o022 != 0)
            .then(|| format!("other users can change it (mode {mode:03o}): chmod go-w {shown}"))
    }

    /// Device and inode.
    pub(crate) fn inode(metadata: &Metadata) -> (u64, u64) {
        (metadata.dev(), metadata.ino())
    }

    /// Device and inode.
    pub(crate) fn identity(file: &File) -> io::Result<(u64, u64)> {
        Ok(inode(&file.metadata()?))
    }

    /// Seconds and nanoseconds of the last change of either content or metadata.
    pub(crate) fn changed(metadata: &Metadata) -> (i64, i64) {
        (metadata.ctime(), metadata.ctime_nsec())
    }

    /// Writes the names in a directory to the disk.
    pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
        File::open(directory)?.sync_all()
    }
}

/// There are access lists instead of modes, and metadata has no number of the file. Windows writes a
/// directory's names to the disk itself.
#[cfg(windows)]
mod windows {
    use crate::access_list::{self, Fault, Forbidden};
    use crate::kernel::{self, Descriptor};
    use std::fs::{File, Metadata, OpenOptions};
    use std::io;
    use std::os::windows::fs::OpenOptionsExt;
    use std::os::windows::io::BorrowedHandle;
    use std::path::Path;

    pub(crate) use crate::kernel::{identity, is_administrator};

    /// The descriptor of what belongs to this user: full access for the user, the system and
    /// administrators, and none for others, whatever the directory above says. `flags` says whether what
    /// is made in it has the same access list.
    fn private(flags: &str) -> io::Result<Descriptor> {
        let user = kernel::user()?;
        let entry = |trustee: &str| format!("(A;{flags};FA;;;{trustee})");
        let entries = [&*user, "SY", "BA"].map(entry).concat();
        Descriptor::from_text(&format!("O:{user}D:P{entries}"))
    }

    /// This user, in the form that owners have in texts of descriptors.
    pub(crate) fn user() -> io::Result<String> {
        let user = Descriptor::from_text(&format!("O:{}D:", kernel::user()?))?.text()?;
        Ok(access_list::owner(&user).unwrap_or_default().to_owned())
    }

    /// Owner and access list of a file or directory as a text. A link is followed.
    pub(crate) fn descriptor(path: &Path) -> io::Result<String> {
        let mut options = OpenOptions::new();
        options.access_mode(kernel::READ_DESCRIPTOR).custom_flags(kernel::DIRECTORIES_TOO);
        Descriptor::of_file(&options.open(path)?)?.text()
    }

    /// Checks who can access a file or directory besides this user, the system and administrators.
    pub(crate) fn check(path: &Path, forbidden: Forbidden) -> io::Result<Result<(), Fault>> {
        Ok(access_list::check(&descriptor(path)?, &user()?, forbidden))
    }

    /// Checks who can access a pipe besides `owner`, the system and administrators.
    pub(crate) fn check_pipe(
        pipe: BorrowedHandle<'_>,
        owner: &str,
    ) -> io::Result<Result<(), Fault>> {
        let descriptor = Descriptor::of_pipe(pipe)?.text()?;
        Ok(access_list::check(&descriptor, owner, Forbidden::Access))
    }

    /// Creates a file whose name must not exist. One with mode 600 belongs to this user alone, and
    /// others get the access list that the directory has for its files.
    pub(crate) fn create_file(path: &Path, mode: u32) -> io::Result<File> {
        match mode & 0o077 {
            0 => kernel::create_file(path, &private("")?),
            _ => OpenOptions::new().write(true).create_new(true).open(path),
        }
    }

    /// Opens a file, which belongs to this user alone if it is created.
    pub(crate) fn open_private(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
        if !path.exists() {
            match kernel::create_file(path, &private("")?) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
        options.open(path)
    }

    /// Creates a directory that only its owner can access, and what is made in it, with `parents` also
    /// the ones above it.
    pub(crate) fn create_directory(path: &Path, parents: bool) -> io::Result<()> {
        let descriptor = private("OICI")?;
        let create = || kernel::create_directory(path, &descriptor);
        match create() {
            Err(error) if parents && error.kind() == io::ErrorKind::NotFound => {
                let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
                create_directory(parent.ok_or(error)?, true)?;
                create()
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match path.is_dir() {
                true if parents => Ok(()),
                _ => Err(error),
            },
            done => done,
        }
    }

    /// Why a file of secrets is refused; `None` if it is not.
    pub(crate) fn exposure(path: &Path, _: &Metadata) -> Option<String> {
        judged(path, Forbidden::Access)
    }

    /// Why a file or directory that only this user may change is refused; `None` if it is not.
    pub(crate) fn openness(path: &Path, _: &Metadata) -> Option<String> {
        judged(path, Forbidden::Change)
    }

    fn judged(path: &Path, forbidden: Forbidden) -> Option<String> {
        let shown = path.display();
        let cure = format!(
            "icacls \"{shown}\" /reset, then icacls \"{shown}\" /inheritance:r /grant:r YOU:F, where YOU \
             is what whoami prints"
        );
        match check(path, forbidden) {
            Ok(Ok(())) => None,
            Ok(Err(fault @ Fault::Open(_))) => Some(format!("{fault}: {cure}")),
            Ok(Err(fault @ Fault::Owner(_))) => Some(format!("{fault}: {shown}")),
            Err(error) => Some(format!("its access list cannot be read ({error}): {shown}")),
        }
    }

    pub(crate) fn inode(_: &Metadata) -> (u64, u64) {
        (0, 0)
    }

    pub(crate) fn changed(_: &Metadata) -> (i64, i64) {
        (0, 0)
    }

    pub(crate) fn sync_directory(_: &Path) -> io::Result<()> {
        Ok(())
    }
}
