//! Link layers: how frames get from radio to radio.
//!
//! - [`LinkLayer`]: what each of them is, one file each;
//! - [`Layer`]: their settings, as scenario files say them;
//! - [`always_on`]: plain CSMA-CA;
//! - [`beacon`]: beacon-enabled mode;
//! - [`tsch`]: time slotted channel hopping;
//! - [`xmac`]: preamble sampling.
//!
//! # A new link layer
//!
//! One file here with settings and a type that implements [`LinkLayer`], and a variant of [`Layer`].
//! It gets frames, sets timers, and says which frames arrive when; a
//! [`World`](crate::world::World) does the rest.

pub mod always_on;
pub mod beacon;
pub mod tsch;
pub mod xmac;

use crate::tagged;
use crate::world::{Air, NodeId, Topology};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vocabulary::{Instant, Random};

/// Bytes of the PHY header before a frame (IEEE 802.15.4, O-QPSK at 2450 MHz): preamble,
/// delimiter, length.
pub const PHY_BYTES: u64 = 6;

/// Microseconds a byte takes at 250 kbit/s.
pub const BYTE_MICROS: u64 = 32;

/// The longest frame, in bytes, checksum included.
pub const FRAME_BYTES: usize = 127;

/// An acknowledgement, in bytes.
pub const ACK_BYTES: usize = 5;

/// Microseconds a radio takes between receiving and sending: 12 symbols (aTurnaroundTime).
pub const TURNAROUND_MICROS: u64 = 192;

/// Microseconds a frame of so many bytes is on the air.
pub const fn airtime_micros(bytes: usize) -> u64 {
    (PHY_BYTES + bytes as u64) * BYTE_MICROS
}

/// A medium access protocol and all radios that speak it.
pub trait LinkLayer {
    /// Queues a frame (an IEEE 802.15.4 frame with its checksum) for a neighbour, or for all of
    /// them where the layer [broadcasts](Setting::broadcasts).
    fn send(&mut self, air: &mut Air<'_>, from: NodeId, to: NodeId, frame: Vec<u8>);

    /// A timer that it set has come.
    fn handle(&mut self, air: &mut Air<'_>, timer: Timer);

    /// What a node spends within so many microseconds though nobody speaks to it.
    fn idle(&self, topology: &Topology, node: NodeId, micros: u64) -> Idle;
}

/// What a node spends though nobody speaks to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// Microseconds of listening.
    pub listen_micros: u64,
    /// Timeslots listened in, where those are what counts.
    pub slots: u64,
}

/// Something a link layer waits for; what the numbers mean is its own affair.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    /// When.
    pub at: Instant,
    /// What.
    pub kind: u16,
    /// Of whom.
    pub whose: u32,
}

/// A frame that reached a radio whole.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When its last byte did.
    pub at: Instant,
    /// Whose.
    pub to: NodeId,
    /// With its checksum.
    pub frame: Vec<u8>,
}

/// A link layer and its settings, which scenario files say in one table, with its name as `layer`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(tag = "layer")]
pub enum Layer {
    /// Plain CSMA-CA.
    AlwaysOn(always_on::Settings),
    /// Preamble sampling.
    XMac(xmac::Settings),
    /// Beacon-enabled IEEE 802.15.4.
    Beacon(beacon::Settings),
    /// Time slotted channel hopping.
    Tsch(tsch::Settings),
}

/// Settings of a link layer.
pub trait Setting {
    /// For tables.
    fn name(&self) -> &'static str;

    /// Its radios, for the nodes of `topology`.
    ///
    /// # Errors
    /// Values out of range, or a topology that they do not suit.
    fn build(&self, topology: &Topology, random: &mut Random) -> Result<Box<dyn LinkLayer>, Fault>;

    /// The time after which what happens depends on the start no more, in microseconds.
    fn period_micros(&self) -> u64;

    /// The longest that one frame each way takes without loss and without others in the way, over
    /// so many hops, in microseconds.
    fn round_trip_micros(&self, hops: u16) -> u64;

    /// Whether frames that are lost are sent again by radios themselves.
    fn repeats_lost(&self) -> bool;

    /// Whether a frame can be for all neighbours.
    fn broadcasts(&self) -> bool {
        false
    }
}

/// What is wrong with a setting: the field and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// As in a scenario file.
    pub field: &'static str,
    /// What it must be.
    pub reason: String,
}

impl Fault {
    /// Of a field.
    pub fn new(field: &'static str, reason: impl Into<String>) -> Self {
        Self { field, reason: reason.into() }
    }
}

impl Layer {
    /// Reads a layer and its settings as `x-mac,check_interval_ms=125`.
    ///
    /// # Errors
    /// What is wrong, in one line.
    pub fn parse(text: &str) -> Result<Self, String> {
        tagged::parse(text)
    }

    /// The settings, whatever layer they are of.
    pub fn setting(&self) -> &dyn Setting {
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
