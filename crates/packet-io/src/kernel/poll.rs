//! Waiting for descriptors: `ppoll(2)`.

use super::checked;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::null;
use std::time::Duration;

/// Descriptors to wait for.
#[derive(Default)]
pub(crate) struct PollList(Vec<libc::pollfd>);

impl PollList {
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a descriptor to wait for, until it can be read, or written if `writable`.
    pub(crate) fn add(&mut self, fd: BorrowedFd<'_>, writable: bool) {
        let events = if writable { libc::POLLOUT } else { libc::POLLIN };
        self.0.push(libc::pollfd { fd: fd.as_raw_fd(), events, revents: 0 });
    }

    /// Waits until a descriptor is ready, for `timeout` at most. Returns whether one is; an
    /// interrupted wait returns `false`.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>) -> io::Result<bool> {
        let limit = timeout.map(|timeout| libc::timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i32::MAX.into()),
            tv_nsec: timeout.subsec_nanos() as _,
        });
        let limit = limit.as_ref().map_or(null(), |limit| limit as *const libc::timespec);
        // SAFETY: the list and the limit live until the call returns; for descriptors that were
        // closed since, the kernel returns POLLNVAL.
        let answer = unsafe { libc::ppoll(self.0.as_mut_ptr(), self.0.len() as _, limit, null()) };
        match checked(answer) {
            Ok(ready) => Ok(ready > 0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            Err(error) => Err(error),
        }
    }
}
