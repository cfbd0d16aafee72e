//! Link layers, which carry frames from radio to radio.
//!
//! - [`LinkLayer`]: the interface of link layers, each of which has a file;
//! - [`Layer`]: the settings of a link layer, as scenario files write them;
//! - [`always_on`]: plain CSMA-CA;
//! - [`beacon`]: beacon-enabled mode;
//! - [`tsch`]: time slotted channel hopping;
//! - [`xmac`]: preamble sampling.
//!
//! # A new link layer
//!
//! Add a file here with the layer's settings and a type that implements [`LinkLayer`], and a
//! variant to [`Layer`]. A link layer receives frames to send, sets timers, and decides which
//! frames arrive and when. A [`World`](crate::world::World) does the rest.

mod air;
pub mod always_on;
pub mod beacon;
mod capture;
pub mod tsch;
pub mod xmac;

pub use crate::lowpan::FRAME_BYTES;
pub use air::Air;
pub(crate) use air::Schedule;
pub use capture::Frame;
pub(crate) use capture::Frames;

use crate::tagged;
use crate::topology::{NodeId, Topology};
use lightseal_core::{Instant, Random};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Length of the PHY header before a frame (IEEE 802.15.4, O-QPSK at 2450 MHz), in bytes: preamble,
/// delimiter and length.
pub const PHY_BYTES: u64 = 6;

/// Duration of a byte at 250 kbit/s, in microseconds.
pub const BYTE_MICROS: u64 = 32;

/// Length of an acknowledgement, in bytes.
pub const ACK_BYTES: usize = 5;

/// Time that a radio takes to change between receiving and sending, in microseconds: 12 symbols
/// (aTurnaroundTime).
pub const TURNAROUND_MICROS: u64 = 192;

/// How long a frame of this many bytes is on the air, in microseconds.
pub const fn airtime_micros(bytes: usize) -> u64 {
    (PHY_BYTES + bytes as u64) * BYTE_MICROS
}

/// A medium access protocol, and the radios of all nodes that run it.
pub trait LinkLayer {
    /// Queues a frame (an IEEE 802.15.4 frame with its checksum) for a neighbour, or for all of
    /// them where the layer [broadcasts](LinkLayerSettings::broadcasts).
    fn send(&mut self, air: &mut Air<'_>, from: NodeId, to: NodeId, frame: Vec<u8>);

    /// Handles a timer that this layer set and that has expired.
    fn handle(&mut self, air: &mut Air<'_>, timer: Timer);

    /// What a node spends on idle listening within this many microseconds.
    fn idle(&self, topology: &Topology, node: NodeId, micros: u64) -> Idle;
}

/// What a node spends on idle listening, while no frame is sent to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// Microseconds of listening.
    pub listen_micros: u64,
    /// Number of timeslots in which the node listened, for layers that account by timeslot.
    pub slots: u64,
}

/// A timer of a link layer, which alone gives meaning to `kind` and `owner`.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// When the timer expires.
    pub at: Instant,
    /// What the timer is for.
    pub kind: u16,
    /// The node or queue that the timer is for.
    pub owner: u32,
}

/// A frame that reached a radio intact.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When the last byte arrived.
    pub at: Instant,
    /// The node that received the frame.
    pub to: NodeId,
    /// The frame with its checksum.
    pub frame: Vec<u8>,
}

/// A link layer and its settings. Scenario files write them as one table, with the layer's name as
/// `layer`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(tag = "layer")]
pub enum Layer {
    /// Plain CSMA-CA.
    AlwaysOn(always_on::AlwaysOnSettings),
    /// Preamble sampling.
    XMac(xmac::XMacSettings),
    /// Beacon-enabled IEEE 802.15.4.
    Beacon(beacon::BeaconSettings),
    /// Time slotted channel hopping.
    Tsch(tsch::TschSettings),
}

/// Settings of a link layer.
pub trait LinkLayerSettings {
    /// The name in tables.
    fn name(&self) -> &'static str;

    /// Makes the link layer with a radio for each node of `topology`.
    ///
    /// # Errors
    ///
    /// Fails when a value is out of range, or the topology does not suit the link layer.
    fn build(
        &self,
        topology: &Topology,
        random: &mut Random,
    ) -> Result<Box<dyn LinkLayer>, InvalidSetting>;

    /// The range of starting times that makes a difference, in microseconds: the period of the
    /// schedule, or the longest first backoff if there is no schedule.
    fn period_micros(&self) -> u64;

    /// The longest time that one frame in each direction takes over this many hops, without loss
    /// and without other traffic, in microseconds.
    fn round_trip_micros(&self, hops: u16) -> u64;

    /// Whether the radios themselves send lost frames again.
    fn repeats_lost(&self) -> bool;

    /// Whether a frame can be broadcast to all neighbours.
    fn broadcasts(&self) -> bool {
        false
    }
}

/// An invalid setting: the field and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSetting {
    /// The field's name in a scenario file.
    pub field: &'static str,
    /// What the field's value must be.
    pub reason: String,
}

impl InvalidSetting {
    /// An invalid setting in a field, and the reason.
    pub fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self { field, reason: reason.into() }
    }
}

impl Layer {
    /// Parses a layer and its settings such as `x-mac,check_interval_ms=125`.
    ///
    /// # Errors
    ///
    /// A description of the error in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        tagged::parse(text)
    }

    /// The settings of whichever layer this is.
    pub fn settings(&self) -> &dyn LinkLayerSettings {
        match self {
            Self::AlwaysOn(settings) => settings,
            Self::XMac(settings) => settings,
            Self::Beacon(settings) => settings,
            Self::Tsch(settings) => settings,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layers_are_read_from_a_line() {
        let parsed = Layer::parse("x-mac,check_interval_ms=62.5,busy_wait=false");
        let Ok(Layer::XMac(settings)) = parsed else { panic!("{parsed:?}") };
        assert_eq!((settings.check_interval_ms, settings.busy_wait), (62.5, false));
        let parsed = Layer::parse("beacon,beacon_order=3,superframe_order=1,downlink=indirect");
        let Ok(Layer::Beacon(settings)) = parsed else { panic!("{parsed:?}") };
        assert_eq!(settings.downlink, beacon::Downlink::Indirect);
        for wrong in
            ["", "z-mac", "tsch", "tsch,slotframe", "tsch,slotframe=x,cells=1", "x-mac,a=1"]
        {
            let error = Layer::parse(wrong).expect_err(wrong);
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
