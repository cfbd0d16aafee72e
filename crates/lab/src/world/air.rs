//! The operations of a link layer at one point in time.

use super::capture::Frames;
use super::{Event, NodeId, Topology};
use crate::channels::Channels;
use crate::energy::Meter;
use crate::links::{ACK_BYTES, Arrival, Timer, airtime_micros};
use lightseal_core::{Instant, Random};
use lightseal_net::delay_line::DelayLine;

/// A link layer's view of the world.
pub struct Air<'a> {
    /// The current time.
    pub now: Instant,
    /// The source of randomness for link layers.
    pub random: &'a mut Random,
    /// The accounts of what nodes spend.
    pub energy: &'a mut Meter,
    /// Which nodes hear each other.
    pub topology: &'a Topology,
    pub(super) channels: &'a mut Channels,
    pub(super) capture: Option<&'a mut Frames>,
    pub(super) queue: &'a mut DelayLine<Event>,
}

impl Air<'_> {
    /// Sets a timer for microsecond `at`.
    pub fn wake_at(&mut self, at: u64, kind: u16, owner: u32) {
        let at = Instant::from_micros(at);
        self.queue.push(at, Event::Link(Timer { at, kind, owner }));
    }

    /// Sends a frame at microsecond `at`. Returns whether it reaches `to` intact.
    pub fn frame(&mut self, at: u64, from: NodeId, to: NodeId, frame: &[u8]) -> bool {
        self.sent(at, frame);
        self.channels.frame(self.random, from, to, frame.len())
    }

    /// Sends a frame at microsecond `at`. [`Self::signal`] then tells for each receiver whether it
    /// arrives.
    pub fn sent(&mut self, at: u64, frame: &[u8]) {
        if let Some(capture) = &mut self.capture {
            capture.add(at + airtime_micros(0), frame);
        }
    }

    /// Whether a frame reaches `to` intact. The frame has been captured already, or is not to be,
    /// such as a strobe.
    pub fn signal(&mut self, from: NodeId, to: NodeId, bytes: usize) -> bool {
        self.channels.frame(self.random, from, to, bytes)
    }

    /// Acknowledges `frame` at microsecond `at`. Returns whether the acknowledgement arrives.
    pub fn acknowledge(&mut self, at: u64, from: NodeId, to: NodeId, frame: &[u8]) -> bool {
        if let Some(capture) = &mut self.capture {
            capture.add(at + airtime_micros(0), &crate::lowpan::acknowledgement(frame));
        }
        self.channels.acknowledgement(self.random, from, to, ACK_BYTES)
    }

    /// Whether an acknowledgement arrives that is not captured.
    pub fn answer(&mut self, from: NodeId, to: NodeId, bytes: usize) -> bool {
        self.channels.acknowledgement(self.random, from, to, bytes)
    }

    /// Gives a frame to a node's network stack.
    pub fn arrive(&mut self, at: u64, to: NodeId, frame: Vec<u8>) {
        let at = Instant::from_micros(at);
        self.queue.push(at, Event::Arrival(Arrival { at, to, frame }));
    }
}
