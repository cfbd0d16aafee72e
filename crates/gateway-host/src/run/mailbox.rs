//! Tasks that the control path gives to a thread of the data path, and the event descriptor that
//! wakes the thread.

use lightseal_gateway::bridge::PeerIndex;
use lightseal_gateway::codepoints::Whole;
use lightseal_packet_io::Source;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Most tasks that wait: more than any burst of probes to a thousand peers.
const MOST: usize = 16_384;

/// A task for a thread that has ports.
#[derive(Debug)]
pub(super) enum Errand {
    /// Seal this content for the peer and send it.
    Datagram(PeerIndex, Whole, Vec<u8>),
    /// Put this frame on the LAN.
    Frame(Vec<u8>),
}

/// The tasks that wait for one thread.
#[derive(Debug)]
pub(super) struct Mailbox {
    errands: Mutex<VecDeque<Errand>>,
    /// An eventfd, on which a sleeping thread waits.
    bell: OwnedFd,
    /// True if there may be a task, or the eventfd may be readable. A busy thread checks this flag,
    /// which needs no system call. It becomes false only while `errands` is locked.
    has_some: AtomicBool,
}

impl Mailbox {
    /// An empty mailbox.
    ///
    /// # Errors
    /// If the kernel has no free descriptor.
    pub(super) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { errands: Mutex::default(), bell, has_some: AtomicBool::new(false) })
    }

    /// Adds a task; `false` if too many wait.
    #[must_use]
    pub(super) fn leave(&self, errand: Errand) -> bool {
        let mut errands = self.errands.lock().unwrap_or_else(PoisonError::into_inner);
        if errands.len() >= MOST {
            return false;
        }
        errands.push_back(errand);
        self.has_some.store(true, Ordering::Release);
        drop(errands);
        self.ring();
        true
    }

    /// Wakes the thread.
    pub(super) fn ring(&self) {
        // An error means that the counter of the eventfd is at its maximum, so it is readable
        // already.
        let _already = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        // Set after the write: a thread that checks the flag in between finds the eventfd readable
        // when it sleeps, and checks again.
        self.has_some.store(true, Ordering::Release);
    }

    /// Removes the next task. If there is none, the eventfd is no longer readable.
    pub(super) fn take(&self) -> Option<Errand> {
        if !self.has_some.load(Ordering::Acquire) {
            return None;
        }
        let mut errands = self.errands.lock().unwrap_or_else(PoisonError::into_inner);
        let errand = errands.pop_front();
        if errand.is_none() {
            self.has_some.store(false, Ordering::Release);
            let _silent = rustix::io::read(&self.bell, &mut [0; 8]);
        }
        errand
    }
}

impl Source for Mailbox {
    fn descriptors(&self, visit: &mut dyn FnMut(BorrowedFd<'_>)) {
        visit(self.bell.as_fd());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn rings(mailbox: &Mailbox) -> bool {
        let mut bell = [PollFd::new(&mailbox.bell, PollFlags::IN)];
        poll(&mut bell, Some(&Timespec::default())).unwrap() == 1
    }

    #[test]
    fn the_bell_rings_until_somebody_looked_and_not_longer() {
        let mailbox = Mailbox::new().unwrap();
        for with_errand in [false, true, false] {
            assert!(!rings(&mailbox));
            match with_errand {
                true => assert!(mailbox.leave(Errand::Frame(Vec::new()))),
                false => mailbox.ring(),
            }
            assert!(rings(&mailbox));
            assert_eq!(mailbox.take().is_some(), with_errand);
            assert!(mailbox.take().is_none());
        }
        assert!(!rings(&mailbox));
    }

    #[test]
    fn errands_come_in_order_and_no_more_than_there_is_room_for() {
        let mailbox = Mailbox::new().unwrap();
        let left = (0..MOST + 3).filter(|&at| mailbox.leave(Errand::Frame(vec![at as u8])));
        assert_eq!(left.count(), MOST);
        for at in 0..MOST {
            assert!(matches!(mailbox.take(), Some(Errand::Frame(bytes)) if bytes == [at as u8]));
        }
        assert!(mailbox.take().is_none());
    }
}
