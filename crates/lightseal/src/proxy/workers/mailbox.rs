//! What a worker is given by others: datagrams that they have received, and associations that it is to
//! end.

use lightseal_core::AddressPair;
use lightseal_dtls::Handle;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// The most datagrams that wait for a worker.
const MOST_DATAGRAMS: usize = 1024;

/// The most bytes of datagrams that wait for a worker.
const MOST_BYTES: usize = 512 * 1024;

/// A datagram was dropped because the mailbox was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Overflow;

/// What waits for a worker. Only its first datagrams take memory: it is used again.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    bytes: Vec<u8>,
    datagrams: VecDeque<(AddressPair, Range<usize>)>,
    ends: Vec<Handle>,
}

impl Mail {
    /// Gives up to `most` of the datagrams to `deliver`, and forgets them. Returns whether more are left.
    pub(crate) fn deliver_some(
        &mut self,
        most: usize,
        mut deliver: impl FnMut(AddressPair, &mut [u8]),
    ) -> bool {
        let count = self.datagrams.len().min(most);
        for (addresses, range) in self.datagrams.drain(..count) {
            deliver(addresses, self.bytes.get_mut(range).unwrap_or_default());
        }
        if self.datagrams.is_empty() {
            self.bytes.clear();
        }
        !self.datagrams.is_empty()
    }

    /// The associations that are to end, which are forgotten.
    pub(crate) fn ends(&mut self) -> impl Iterator<Item = Handle> {
        self.ends.drain(..)
    }

    fn is_empty(&self) -> bool {
        self.datagrams.is_empty() && self.ends.is_empty()
    }
}

#[derive(Debug, Default)]
pub(super) struct Mailbox {
    mail: Mutex<Mail>,
    arrived: Notify,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a copy of a datagram.
    pub(super) fn add(&self, addresses: AddressPair, datagram: &[u8]) -> Result<(), Overflow> {
        let mut mail = self.lock();
        let start = mail.bytes.len();
        if mail.datagrams.len() >= MOST_DATAGRAMS || start + datagram.len() > MOST_BYTES {
            return Err(Overflow);
        }
        mail.bytes.extend_from_slice(datagram);
        mail.datagrams.push_back((addresses, start..start + datagram.len()));
        drop(mail);
        self.arrived.notify_one();
        Ok(())
    }

    /// Adds an association that is to end. There are no more of them than associations.
    pub(super) fn end(&self, handle: Handle) {
        self.lock().ends.push(handle);
        self.arrived.notify_one();
    }

    /// Waits until there is something, and exchanges it for the empty `mail`.
    pub(super) async fn take(&self, mail: &mut Mail) {
        loop {
            self.arrived.notified().await;
            let mut arrived = self.lock();
            if !arrived.is_empty() {
                std::mem::swap(&mut *arrived, mail);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn a_full_mailbox_drops_and_an_emptied_one_takes_more() {
        let (mailbox, mut mail) = (Mailbox::default(), Mail::default());
        let from = AddressPair::to("192.0.2.1:7".parse().unwrap());
        for _ in 0..2 {
            for number in 0..MOST_DATAGRAMS {
                mailbox.add(from, &number.to_be_bytes()).unwrap();
            }
            assert_eq!(mailbox.add(from, b"more"), Err(Overflow));
            mailbox.take(&mut mail).await;
            let mut expected = 0_usize;
            let mut turns = 1;
            while mail.deliver_some(100, |addresses, datagram| {
                assert_eq!((addresses, &*datagram), (from, &expected.to_be_bytes()[..]));
                expected += 1;
            }) {
                turns += 1;
            }
            assert_eq!((expected, turns), (MOST_DATAGRAMS, 11));
        }
        let long = vec![7; MOST_BYTES];
        mailbox.add(from, &long).unwrap();
        assert_eq!(mailbox.add(from, b"m"), Err(Overflow));
        mailbox.take(&mut mail).await;
        assert!(!mail.deliver_some(1, |_, datagram| assert_eq!(datagram.len(), MOST_BYTES)));
        // Nothing more is there.
        let waits = tokio::time::timeout(Duration::from_millis(1), mailbox.take(&mut mail));
        assert!(waits.await.is_err());
    }
}
