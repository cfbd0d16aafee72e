//! What differs between operating systems: modes of files, and what tells one file from another.

#[cfg(not(unix))]
pub(crate) use elsewhere::*;
#[cfg(unix)]
pub(crate) use unix::*;

#[cfg(unix)]
mod unix {
    use std::fs::{DirBuilder, File, Metadata, OpenOptions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
    use std::path::Path;

    pub(crate) fn set_mode(options: &mut OpenOptions, mode: u32) {
        options.mode(mode);
    }

    pub(crate) fn set_directory_mode(builder: &mut DirBuilder, mode: u32) {
        builder.mode(mode);
    }

    pub(crate) fn mode(metadata: &Metadata) -> Option<u32> {
        Some(metadata.mode() & 0o777)
    }

    /// Device and inode.
    pub(crate) fn identity(metadata: &Metadata) -> (u64, u64) {
        (metadata.dev(), metadata.ino())
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

/// Systems without modes: whoever can read a directory can read the files that are made in it. They
/// also tell no inodes, and write a directory's names to the disk themselves.
#[cfg(not(unix))]
mod elsewhere {
    use std::fs::{DirBuilder, Metadata, OpenOptions};
    use std::io;
    use std::path::Path;

    pub(crate) fn set_mode(_: &mut OpenOptions, _: u32) {}

    pub(crate) fn set_directory_mode(_: &mut DirBuilder, _: u32) {}

    pub(crate) fn mode(_: &Metadata) -> Option<u32> {
        None
    }

    pub(crate) fn identity(_: &Metadata) -> (u64, u64) {
        (0, 0)
    }

    pub(crate) fn changed(_: &Metadata) -> (i64, i64) {
        (0, 0)
    }

    pub(crate) fn sync_directory(_: &Path) -> io::Result<()> {
        Ok(())
    }
}
