//! What the control path leaves for a thread of the data path, and how that wakes.

use gateway::bridge::PeerIndex;
use gateway::codepoints::Whole;
use packet_io::Source;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Errands that wait at most: more than any burst of probes to a thousand peers.
const MOST: usize = 16_384;

/// Something to be done by a thread that has ports.
#[derive(Debug)]
pub(super) enum Errand {
    /// Seal this for the peer and send it.
    Datagram(PeerIndex, Whole, Vec<u8>),
    /// Put this frame on the LAN.
    Frame(Vec<u8>),
}

/// Errands for one thread.
#[derive(Debug)]
pub(super) struct Mailbox {
    errands: Mutex<VecDeque<Errand>>,
    bell: OwnedFd,
    /// There may be an errand, or the bell rings. A thread at work looks here, which takes no system
    /// call. Becomes false with the errands locked.
    has_some: AtomicBool,
}

impl Mailbox {
    /// An empty one.
    ///
    /// # Errors
    /// The kernel has no descriptor left.
    pub(super) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        Ok(Self { errands: Mutex::default(), bell, has_some: AtomicBool::new(false) })
    }

    /// Leaves an errand, unless too many wait: whether it was taken.
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
        // Full means that it rings already.
        let _already = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        // Afterwards: a thread that looks in between finds the bell ringing, and looks again.
        self.has_some.store(true, Ordering::Release);
    }

    /// The next errand. The bell is silent once there is none.
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
