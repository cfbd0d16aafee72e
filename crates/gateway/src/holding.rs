//! Frames that are held until a peer knows their flow, within limits.

use crate::bridge::PeerIndex;
use crate::gateway::Parcel;
use crate::lock;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use lightseal_core::Instant;
use std::collections::VecDeque;
use std::sync::Mutex;

/// Most bytes of frames that are held, whatever the limit on the number of frames.
const BYTES: usize = 1 << 20;
/// How long a frame is held at most: some round trips of the management channel, and less than the
/// retransmission timeout of a transport protocol.
const PATIENCE: Duration = Duration::from_millis(500);

/// A frame that was held and may be sent now, with [`Gateway::plan`] and then [`Gateway::seal`].
///
/// [`Gateway::plan`]: crate::gateway::Gateway::plan
/// [`Gateway::seal`]: crate::gateway::Gateway::seal
#[derive(Debug)]
pub struct Released {
    /// The peer that the frame is for.
    pub peer: PeerIndex,
    /// The frame's routing: destinations, length and header.
    pub parcel: Parcel,
    /// The bytes of the frame, without padding.
    pub frame: Vec<u8>,
}

#[derive(Debug)]
struct Held {
    since: Instant,
    released: Released,
}

#[derive(Debug, Default)]
struct Queue {
    frames: VecDeque<Held>,
    bytes: usize,
    /// The scheme's count of acknowledgements when no frame was ready last. Until it grows, no
    /// further frame can be ready.
    looked: Option<u64>,
}

/// All frames that are held.
#[derive(Debug)]
pub(crate) struct Holding {
    most: usize,
    queue: Mutex<Queue>,
    len: AtomicUsize,
}

impl Holding {
    /// An empty queue of at most `most` frames.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, queue: Mutex::default(), len: AtomicUsize::new(0) }
    }

    /// How many frames are held.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Holds a frame; `false` if there is no room for it.
    pub(crate) fn hold(&self, now: Instant, released: Released) -> bool {
        let mut queue = lock(&self.queue);
        let len = released.frame.len();
        if queue.frames.len() >= self.most || queue.bytes + len > BYTES {
            return false;
        }
        queue.bytes += len;
        queue.frames.push_back(Held { since: now, released });
        // The peer may have learned the frame's flow before the frame was held, so look again.
        queue.looked = None;
        self.len.store(queue.frames.len(), Ordering::Release);
        true
    }

    /// Removes and returns the first frame that may be sent. `acknowledged` is the scheme's count
    /// of acknowledgements.
    pub(crate) fn release(
        &self,
        acknowledged: u64,
        may_go: impl Fn(PeerIndex, &Parcel) -> bool,
    ) -> Option<Released> {
        if self.len() == 0 {
            return None;
        }
        let mut queue = lock(&self.queue);
        if queue.looked == Some(acknowledged) {
            return None;
        }
        let ready = |held: &Held| may_go(held.released.peer, &held.released.parcel);
        let Some(at) = queue.frames.iter().position(ready) else {
            queue.looked = Some(acknowledged);
            return None;
        };
        let held = queue.frames.remove(at)?;
        queue.bytes -= held.released.frame.len();
        self.len.store(queue.frames.len(), Ordering::Release);
        Some(held.released)
    }

    /// Drops frames that were held for longer than [`PATIENCE`], and calls `gone` with the peer of
    /// each.
    pub(crate) fn expire(&self, now: Instant, mut gone: impl FnMut(PeerIndex)) {
        let mut queue = lock(&self.queue);
        while queue.frames.front().is_some_and(|oldest| now - oldest.since > PATIENCE) {
            let Some(held) = queue.frames.pop_front() else { break };
            queue.bytes -= held.released.frame.len();
            gone(held.released.peer);
        }
        self.len.store(queue.frames.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::PeerSet;

    fn frame(peer: u8, len: usize) -> Released {
        let peer = PeerIndex(peer);
        let parcel = Parcel { to: PeerSet::of(peer), len, class: 0, header: None };
        Released { peer, parcel, frame: vec![0; len] }
    }

    #[test]
    fn frames_go_in_order_once_their_flow_is_known_and_not_before() {
        let holding = Holding::new(3);
        let now = Instant::from_micros(1);
        for (peer, len) in [(1, 10), (2, 20), (2, 30)] {
            assert!(holding.hold(now, frame(peer, len)));
        }
        assert!(holding.release(0, |_, _| false).is_none());
        assert!(holding.release(0, |_, _| true).is_none(), "no flow was acknowledged since");
        let second = |peer: PeerIndex, _: &Parcel| peer.0 == 2;
        let lens = [20, 30].map(|_| holding.release(1, second).unwrap().frame.len());
        assert_eq!(lens, [20, 30]);
        assert!(holding.release(1, second).is_none());
        let mut gone = 0;
        holding.expire(now + PATIENCE, |_| gone += 1);
        assert_eq!(gone, 0);
        holding.expire(now + PATIENCE + Duration::from_micros(1), |_| gone += 1);
        assert_eq!(gone, 1);
    }

    #[test]
    fn frames_and_bytes_have_bounds() {
        let now = Instant::from_micros(1);
        for (most, len, expected) in
            [(0, 60, 0), (1024, 60, 1024), (2000, 60, 2000), (1024, 9000, BYTES / 9000)]
        {
            let holding = Holding::new(most);
            let held = (0..3000).filter(|_| holding.hold(now, frame(0, len))).count();
            assert_eq!((held, holding.len()), (expected, expected));
        }
    }
}
