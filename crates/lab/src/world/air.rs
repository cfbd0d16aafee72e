//! What a link layer may do at one time.

use super::capture::Frames;
use super::queue::Queue;
use super::{Event, NodeId, Topology};
use crate::channels::Channels;
use crate::energy::Meter;
use crate::links::{ACK_BYTES, Arrival, Timer, airtime_micros};
use vocabulary::{Instant, Random};

/// A link layer's view of the world.
pub struct Air<'a> {
    /// The time.
    pub now: Instant,
    /// Its randomness.
    pub random: &'a mut Random,
    /// What it costs.
    pub energy: &'a mut Meter,
    /// Who hears whom.
    pub topology: &'a Topology,
    pub(super) channels: &'a mut Channels,
    pub(super) capture: Option<&'a mut Frames>,
    pub(super) queue: &'a mut Queue<Event>,
}

impl Air<'_> {
    /// Sets a timer.
    pub fn wake_at(&mut self, at: u64, kind: u16, whose: u32) {
        let at = Instant::from_micros(at);
        self.queue.add(at, Event::Link(Timer { at, kind, whose }));
    }

    /// Puts a frame on the air from microsecond `at` on; whether it comes through to `to`.
    pub fn frame(&mut self, at: u64, from: NodeId, to: NodeId, frame: &[u8]) -> bool {
        self.sent(at, frame);
        self.channels.frame(self.random, from, to, frame.len())
    }

    /// Puts a frame on the air from microsecond `at` on; to whom it comes through is asked by
    /// [`Self::signal`].
    pub fn sent(&mut self, at: u64, frame: &[u8]) {
        if let Some(capture) = &mut self.capture {
            capture.add(at + airtime_micros(0), frame);
        }
    }

    /// Whether a frame comes through to `to` that was captured already, or is not to be, such as
    /// a strobe.
    pub fn signal(&mut self, from: NodeId, to: NodeId, bytes: usize) -> bool {
        self.channels.frame(self.random, from, to, bytes)
    }

    /// Acknowledges `frame` from microsecond `at` on; whether that comes through.
    pub fn acknowledge(&mut self, at: u64, from: NodeId, to: NodeId, frame: &[u8]) -> bool {
        if let Some(capture) = &mut self.capture {
            capture.add(at + airtime_micros(0), &crate::lowpan::acknowledgement(frame));
        }
        self.channels.acknowledgement(self.random, from, to, ACK_BYTES)
    }

    /// The same for an acknowledgement that is not captured.
    pub fn answer(&mut self, from: NodeId, to: NodeId, bytes: usize) -> bool {
        self.channels.acknowledgement(self.random, from, to, bytes)
    }

    /// Gives a frame to a node's stack.
    pub fn arrive(&mut self, at: u64, to: NodeId, frame: Vec<u8>) {
        let at = Instant::from_micros(at);
        self.queue.add(at, Event::Arrival(Arrival { at, to, frame }));
    }
}
