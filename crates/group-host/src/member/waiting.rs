//! A small buffer for datagrams that applications send while the member may not seal records.

use super::port::Destination;
use lightseal_core::Instant;
use std::collections::VecDeque;
use std::time::Duration;

/// The maximum number of datagrams that wait.
const MOST: usize = 64;
/// The maximum total length of the datagrams that wait, in bytes.
const MOST_BYTES: usize = 64 * 1024;
/// The maximum time for which a datagram waits. After this time its application has given up or
/// sent it again.
const MOST_AGE: Duration = Duration::from_secs(30);

/// Datagrams that wait for the controller to confirm the member's start.
#[derive(Default)]
pub(super) struct SendBuffer {
    datagrams: VecDeque<(Instant, Destination, Vec<u8>)>,
    bytes: usize,
    dropped: u64,
}

impl SendBuffer {
    /// Adds a datagram. The oldest datagrams are dropped if there is no room for it.
    pub(super) fn push(&mut self, now: Instant, to: Destination, datagram: &[u8]) {
        self.expire(now);
        if datagram.len() > MOST_BYTES {
            self.dropped += 1;
            return;
        }
        while self.datagrams.len() >= MOST || self.bytes + datagram.len() > MOST_BYTES {
            self.drop_oldest();
        }
        self.bytes += datagram.len();
        self.datagrams.push_back((now, to, datagram.to_vec()));
    }

    /// The next datagram to be sent that is not too old.
    pub(super) fn pop(&mut self, now: Instant) -> Option<(Destination, Vec<u8>)> {
        self.expire(now);
        let (_, to, datagram) = self.datagrams.pop_front()?;
        self.bytes -= datagram.len();
        Some((to, datagram))
    }

    /// The number of datagrams that were dropped because they had waited for too long or there was
    /// no room.
    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    fn expire(&mut self, now: Instant) {
        let is_old = |(since, ..): &(Instant, Destination, Vec<u8>)| *since + MOST_AGE <= now;
        while self.datagrams.front().is_some_and(is_old) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some((.., datagram)) = self.datagrams.pop_front() {
            self.bytes -= datagram.len();
            self.dropped += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(seconds)
    }

    #[test]
    fn the_oldest_make_room_and_all_are_sent_or_counted() {
        let mut waiting = SendBuffer::default();
        for n in 0..1000_u16 {
            waiting.push(at(1), Destination::Group, &n.to_be_bytes());
        }
        let sent: Vec<_> = std::iter::from_fn(|| waiting.pop(at(2))).collect();
        assert_eq!((sent.len(), waiting.dropped()), (MOST, 1000 - MOST as u64));
        assert_eq!(sent.last().unwrap().1, 999_u16.to_be_bytes());
        for _ in 0..10 {
            waiting.push(at(3), Destination::Group, &[0; MOST_BYTES / 3]);
        }
        waiting.push(at(3), Destination::Group, &[0; MOST_BYTES + 1]);
        let sent = std::iter::from_fn(|| waiting.pop(at(3))).count();
        assert_eq!((sent, waiting.dropped()), (3, 1000 - MOST as u64 + 7 + 1));
        assert_eq!(waiting.bytes, 0);
    }

    #[test]
    fn what_waited_for_too_long_is_not_sent() {
        let mut waiting = SendBuffer::default();
        waiting.push(at(0), Destination::Group, b"old");
        waiting.push(at(1), Destination::Group, b"new");
        let expired = at(0) + MOST_AGE;
        assert_eq!(waiting.pop(expired).unwrap().1, b"new");
        assert_eq!((waiting.pop(expired), waiting.dropped()), (None, 1));
    }
}
