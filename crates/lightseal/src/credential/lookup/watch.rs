//! What the kernel says of changes in a directory (inotify).

mod rescan;

use super::names::identity_of;
use super::source::{Changed, Kind};
use rescan::{Found, Rescan};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Instant;

/// The most identities in one answer. Beyond it everything may have changed.
const MOST_CHANGED: usize = 100_000;

/// File systems that this machine alone changes, by their magic numbers (statfs(2)): the kernel here
/// hears of all changes. Others, such as those of a network or of another machine's host, are not watched.
/// Overlayfs is among them: who changes the layers beneath it while it is mounted does what the kernel
/// leaves undefined, and [`Rescan`] finds that too.
const LOCAL: [(u32, &str); 19] = [
    (0xef53, "ext2, ext3, ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0x0102_1994, "tmpfs"),
    (0x8584_58f6, "ramfs"),
    (0xf2f5_2010, "f2fs"),
    (0x2fc1_2fc1, "zfs"),
    (0xca45_1a4e, "bcachefs"),
    (0x794c_7630, "overlayfs"),
    (0x7371_7368, "squashfs"),
    (0xe0f5_e1e2, "erofs"),
    (0x2405_1905, "ubifs"),
    (0x72b6, "jffs2"),
    (0x3153_464a, "jfs"),
    (0x5265_4973, "reiserfs"),
    (0x3434, "nilfs"),
    (0x4d44, "vfat"),
    (0x2011_bab0, "exfat"),
    (0x7366_746e, "ntfs"),
];

/// Whether a file system is one that this machine alone changes.
fn is_local(magic: u32) -> bool {
    LOCAL.iter().any(|(local, _)| *local == magic)
}

/// A directory that is watched.
#[derive(Debug)]
pub(super) struct Watch {
    fd: OwnedFd,
    kind: Kind,
    rescan: Rescan,
}

impl Watch {
    /// Watches a directory of such identities; `None` if its changes cannot be watched.
    pub(super) fn of(path: &Path, kind: Kind) -> Option<Self> {
        let file_system = rustix::fs::statfs(path).ok()?.f_type;
        // The magic numbers have 32 bits, whatever the type of the field.
        if !is_local(file_system as u32) {
            return None;
        }
        let watch = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok()?;
        let what = WatchFlags::ATTRIB
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MODIFY
            | WatchFlags::MOVE
            | WatchFlags::ONLYDIR;
        inotify::add_watch(&watch, path, what).ok()?;
        Some(Self { fd: watch, kind, rescan: Rescan::of(path).ok()? })
    }

    /// Has the next call look the directory through.
    #[cfg(test)]
    pub(super) fn rescan_now(&mut self) {
        self.rescan.due = Instant::now();
    }

    /// What has changed since the last call; `None` if the kernel does not say it any more: the
    /// directory was removed or unmounted.
    pub(super) fn changes(&mut self) -> Option<Changed> {
        let mut buf = [MaybeUninit::uninit(); 16_384];
        let mut reader = Reader::new(&self.fd, &mut buf);
        let (mut these, mut all, mut heard) = (Vec::new(), false, false);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => continue,
                Err(_) => return None,
            };
            if event.events().intersects(ReadFlags::IGNORED | ReadFlags::UNMOUNT) {
                return None;
            }
            heard = true;
            all |= event.events().contains(ReadFlags::QUEUE_OVERFLOW);
            let Some(name) = event.file_name().map(std::ffi::CStr::to_bytes) else { continue };
            // Kubernetes exchanges all files at once, by a link with a name of two dots and more.
            all |= name.starts_with(b"..");
            if these.len() < MOST_CHANGED {
                these.extend(identity_of(self.kind, name));
            } else {
                all = true;
            }
        }
        match self.rescan.step(Instant::now(), heard).ok()? {
            Found::These(names) => {
                let names = names.iter().map(|name| name.as_encoded_bytes());
                these.extend(names.filter_map(|name| identity_of(self.kind, name)));
            }
            Found::All => all = true,
        }
        Some(match all {
            true => Changed::All,
            false => {
                these.sort();
                these.dedup();
                Changed::These(these)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_file_systems_that_nobody_else_changes_are_watched() {
        // NFS, SMB, CIFS, FUSE, 9P, AFS (two), Ceph, Coda, OCFS2, GFS2, Lustre, GPFS, BeeGFS, PanFS, and the
        // folders that VirtualBox and Parallels share with their guests.
        let shared = [
            0x6969,
            0xfe53_4d42,
            0xff53_4d42,
            0x6573_5546,
            0x0102_1997,
            0x5346_414f,
            0x6b41_4653,
            0x00c3_6400,
            0x7375_7245,
            0x7461_636f,
            0x0116_1970,
            0x0bd0_0bd0,
            0x4750_4653,
            0x1983_0326,
            0xaad7_aaea,
            0x786f_4256,
            0x7c7c_6673,
        ];
        assert!(!shared.into_iter().any(is_local));
        assert!([0xef53, 0x0102_1994].into_iter().all(is_local));
        let all: std::collections::BTreeSet<_> = LOCAL.iter().map(|(magic, _)| magic).collect();
        assert_eq!(all.len(), LOCAL.len());
    }
}
