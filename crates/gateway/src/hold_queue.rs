//! Frames that are held until a peer knows their flow, within limits.

use crate::lock;
use crate::peer_set::PeerIndex;
use crate::route::Route;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use lightseal_core::Instant;
use std::collections::VecDeque;
use std::sync::Mutex;

/// Most bytes of frames that are held, whatever the limit on the number of frames.
const MAX_HELD_BYTES: usize = 1 << 20;
/// How long a frame is held at most: some round trips of the management channel, and less than the
/// retransmission timeout of a transport protocol.
const MAX_HOLD_TIME: Duration = Duration::from_millis(500);

/// A frame that was held and may be sent now.
#[derive(Debug)]
pub(crate) struct ReleasedFrame {
    /// The peer that the frame is for.
    pub(crate) peer: PeerIndex,
    /// The frame's routing: destinations, length and header.
    pub(crate) route: Route,
    /// The bytes of the frame, without padding.
    pub(crate) frame: Vec<u8>,
}

#[derive(Debug)]
struct HeldFrame {
    since: Instant,
    frame: ReleasedFrame,
}

#[derive(Debug, Default)]
struct HeldFrames {
    frames: VecDeque<HeldFrame>,
    bytes: usize,
    /// The scheme's count of acknowledgements when no frame was ready last. Until it grows, no
    /// further frame can be ready.
    acknowledged_at_last_scan: Option<u64>,
}

/// All frames that are held.
#[derive(Debug)]
pub(crate) struct HoldQueue {
    most: usize,
    queue: Mutex<HeldFrames>,
    len: AtomicUsize,
}

impl HoldQueue {
    /// An empty queue of at most `most` frames.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, queue: Mutex::default(), len: AtomicUsize::new(0) }
    }

    /// How many frames are held.
    pub(crate) fn len(&self) -> usize {
        self.len.load(Ordering::Acquire)
    }

    /// Holds a frame; `false` if there is no room for it.
    pub(crate) fn hold(&self, now: Instant, released: ReleasedFrame) -> bool {
        let mut queue = lock(&self.queue);
        let len = released.frame.len();
        if queue.frames.len() >= self.most || queue.bytes + len > MAX_HELD_BYTES {
            return false;
        }
        queue.bytes += len;
        queue.frames.push_back(HeldFrame { since: now, frame: released });
        // The peer may have learned the frame's flow before the frame was held, so look again.
        queue.acknowledged_at_last_scan = None;
        self.len.store(queue.frames.len(), Ordering::Release);
        true
    }

    /// Removes and returns the first frame that may be sent. `acknowledged` is the scheme's count
    /// of acknowledgements.
    pub(crate) fn release(
        &self,
        acknowledged: u64,
        may_go: impl Fn(PeerIndex, &Route) -> bool,
    ) -> Option<ReleasedFrame> {
        if self.len() == 0 {
            return None;
        }
        let mut queue = lock(&self.queue);
        if queue.acknowledged_at_last_scan == Some(acknowledged) {
            return None;
        }
        let ready = |held: &HeldFrame| may_go(held.frame.peer, &held.frame.route);
        let Some(at) = queue.frames.iter().position(ready) else {
            queue.acknowledged_at_last_scan = Some(acknowledged);
            return None;
        };
        let held = queue.frames.remove(at)?;
        queue.bytes -= held.frame.frame.len();
        self.len.store(queue.frames.len(), Ordering::Release);
        Some(held.frame)
    }

    /// Drops frames that were held for longer than [`MAX_HOLD_TIME`], and calls `gone` with the
    /// peer of each.
    pub(crate) fn expire(&self, now: Instant, mut gone: impl FnMut(PeerIndex)) {
        let mut queue = lock(&self.queue);
        while queue.frames.front().is_some_and(|oldest| now - oldest.since > MAX_HOLD_TIME) {
            let Some(held) = queue.frames.pop_front() else { break };
            queue.bytes -= held.frame.frame.len();
            gone(held.frame.peer);
        }
        self.len.store(queue.frames.len(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer_set::PeerSet;

    fn frame(peer: u8, len: usize) -> ReleasedFrame {
        let peer = PeerIndex(peer);
        let route = Route { peers: PeerSet::of(peer), len, class: 0, header: None };
        ReleasedFrame { peer, route, frame: vec![0; len] }
    }

    #[test]
    fn frames_go_in_order_once_their_flow_is_known_and_not_before() {
        let hold_queue = HoldQueue::new(3);
        let now = Instant::from_micros(1);
        for (peer, len) in [(1, 10), (2, 20), (2, 30)] {
            assert!(hold_queue.hold(now, frame(peer, len)));
        }
        assert!(hold_queue.release(0, |_, _| false).is_none());
        assert!(hold_queue.release(0, |_, _| true).is_none(), "no flow was acknowledged since");
        let second = |peer: PeerIndex, _: &Route| peer.0 == 2;
        let lens = [20, 30].map(|_| hold_queue.release(1, second).unwrap().frame.len());
        assert_eq!(lens, [20, 30]);
        assert!(hold_queue.release(1, second).is_none());
        let mut gone = 0;
        hold_queue.expire(now + MAX_HOLD_TIME, |_| gone += 1);
        assert_eq!(gone, 0);
        hold_queue.expire(now + MAX_HOLD_TIME + Duration::from_micros(1), |_| gone += 1);
        assert_eq!(gone, 1);
    }

    #[test]
    fn frames_and_bytes_have_bounds() {
        let now = Instant::from_micros(1);
        for (most, len, expected) in
            [(0, 60, 0), (1024, 60, 1024), (2000, 60, 2000), (1024, 9000, MAX_HELD_BYTES / 9000)]
        {
            let hold_queue = HoldQueue::new(most);
            let held = (0..3000).filter(|_| hold_queue.hold(now, frame(0, len))).count();
            assert_eq!((held, hold_queue.len()), (expected, expected));
        }
    }
}
