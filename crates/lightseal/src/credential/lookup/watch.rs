//! What the kernel says of changes in a directory (inotify).

use super::names::identity_of;
use super::source::{Changed, Kind};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

/// The most identities in one answer. Beyond it everything may have changed.
const MOST_CHANGED: usize = 100_000;

/// File systems that other machines change too, of which the kernel here hears nothing: NFS, SMB,
/// CIFS, FUSE, 9P, AFS, Ceph, CODA, OCFS2, GFS2 (statfs(2)).
const SHARED: [u64; 11] = [
    0x6969,
    0xfe53_4d42,
    0xff53_4d42,
    0x517b,
    0x6573_5546,
    0x0102_1997,
    0x5346_414f,
    0x00c3_6400,
    0x7375_7245,
    0x7461_636f,
    0x0116_1970,
];

/// A directory that is watched.
#[derive(Debug)]
pub(super) struct Watch {
    fd: OwnedFd,
    kind: Kind,
}

impl Watch {
    /// Watches a directory of such identities; `None` if its changes cannot be watched.
    pub(super) fn of(path: &Path, kind: Kind) -> Option<Self> {
        let file_system = rustix::fs::statfs(path).ok()?.f_type;
        // The magic numbers have 32 bits, whatever the type of the field.
        if SHARED.contains(&(u64::from(file_system as u32))) {
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
        Some(Self { fd: watch, kind })
    }

    /// What has changed since the last call; `None` if the kernel does not say it any more: the
    /// directory was removed or unmounted.
    pub(super) fn changes(&mut self) -> Option<Changed> {
        let mut buf = [MaybeUninit::uninit(); 16_384];
        let mut reader = Reader::new(&self.fd, &mut buf);
        let (mut these, mut all) = (Vec::new(), false);
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
