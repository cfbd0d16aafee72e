//! Radios that are always on: unslotted CSMA-CA (IEEE 802.15.4-2006, section 7.5.1.4), with or
//! without acknowledgements.

use super::{
    ACK_BYTES, FRAME_BYTES, Fault, Idle, LinkLayer, Setting, TURNAROUND_MICROS, Timer,
    airtime_micros,
};
use crate::energy::Use;
use crate::world::{Air, NodeId, Topology};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use vocabulary::Random;

/// A backoff period (aUnitBackoffPeriod), in microseconds.
const UNIT_MICROS: u64 = 320;

/// macMinBE, macMaxBE and macMaxCSMABackoffs by default.
const LEAST_EXPONENT: u32 = 3;
const MOST_EXPONENT: u32 = 5;
const MOST_BACKOFFS: u32 = 4;

/// The longer of the spaces between frames (macLIFSPeriod).
const SPACE_MICROS: u64 = 640;

/// From the end of a frame to that of its acknowledgement.
const ANSWER_MICROS: u64 = TURNAROUND_MICROS + airtime_micros(ACK_BYTES);

/// How frames are sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Settings {
    /// How often a frame that was not acknowledged is sent again (macMaxFrameRetries); `None`:
    /// frames are not acknowledged.
    pub retries: Option<u32>,
}

impl Setting for Settings {
    fn name(&self) -> &'static str {
        "always-on"
    }

    fn build(&self, topology: &Topology, _: &mut Random) -> Result<Box<dyn LinkLayer>, Fault> {
        if self.retries.is_some_and(|retries| retries > 1000) {
            return Err(Fault::new("retries", "must be at most 1000"));
        }
        let radios = topology.nodes().map(|_| Radio::default()).collect();
        Ok(Box::new(AlwaysOn { settings: self.clone(), radios }))
    }

    fn period_micros(&self) -> u64 {
        UNIT_MICROS << LEAST_EXPONENT
    }

    fn round_trip_micros(&self, hops: u16) -> u64 {
        let once = (UNIT_MICROS << LEAST_EXPONENT) + airtime_micros(FRAME_BYTES) + ANSWER_MICROS;
        2 * u64::from(hops) * (once + SPACE_MICROS)
    }

    fn repeats_lost(&self) -> bool {
        self.retries.is_some()
    }
}

/// All radios.
#[derive(Debug)]
struct AlwaysOn {
    settings: Settings,
    radios: Vec<Radio>,
}

#[derive(Debug, Default)]
struct Radio {
    frames: VecDeque<(NodeId, Vec<u8>)>,
    backoffs: u32,
    tries: u32,
    /// A timer is set.
    active: bool,
    /// The receiver has the first frame.
    received: bool,
    /// Since when it sends, and until when.
    began: u64,
    until: u64,
}

/// Timers: a clear channel assessment, and the end of a frame and of its acknowledgement.
const ASSESS: u16 = 0;
const END: u16 = 1;

impl AlwaysOn {
    fn radio(&mut self, id: NodeId) -> &mut Radio {
        &mut self.radios[usize::from(id.0)]
    }

    fn begin(&mut self, air: &mut Air<'_>, id: NodeId, from: u64) {
        let radio = self.radio(id);
        if radio.active || radio.frames.is_empty() {
            return;
        }
        radio.active = true;
        radio.backoffs = 0;
        self.back_off(air, id, from);
    }

    fn back_off(&mut self, air: &mut Air<'_>, id: NodeId, from: u64) {
        let exponent = (LEAST_EXPONENT + self.radio(id).backoffs).min(MOST_EXPONENT);
        let units = air.random.below(1 << exponent);
        air.wake_at(from + units * UNIT_MICROS, ASSESS, id.0.into());
    }

    /// Whether `id` hears anybody but `except` between two times.
    fn is_busy(&self, air: &Air<'_>, id: NodeId, except: NodeId, from: u64, to: u64) -> bool {
        air.topology.hears(id).iter().filter(|other| **other != except).any(|other| {
            let Radio { began, until, .. } = self.radios[usize::from(other.0)];
            began < to && until > from
        })
    }

    fn assess(&mut self, air: &mut Air<'_>, id: NodeId) {
        let now = air.now.as_micros();
        let is_sending = self.radio(id).until > now;
        if self.is_busy(air, id, id, now, now + 1) || is_sending {
            let radio = self.radio(id);
            radio.backoffs += 1;
            if radio.backoffs > MOST_BACKOFFS {
                return self.next(air, id, now);
            }
            return self.back_off(air, id, now + UNIT_MICROS);
        }
        let begin = now + TURNAROUND_MICROS;
        let acknowledged = self.settings.retries.is_some();
        let radio = self.radio(id);
        let Some((_, frame)) = radio.frames.front() else { return };
        let airtime = airtime_micros(frame.len());
        (radio.began, radio.until) = (begin, begin + airtime);
        air.energy.spend(id, Use::Send, airtime);
        let end = begin + airtime + if acknowledged { ANSWER_MICROS } else { 0 };
        air.wake_at(end, END, id.0.into());
    }

    fn end(&mut self, air: &mut Air<'_>, id: NodeId) {
        let now = air.now.as_micros();
        let acknowledged = self.settings.retries.is_some();
        let Radio { began, until, .. } = self.radios[usize::from(id.0)];
        let Some((to, frame)) = self.radio(id).frames.front().cloned() else { return };
        let there = &self.radios[usize::from(to.0)];
        let is_deaf = there.began < until && there.until > began;
        let comes = air.frame(began, id, to, &frame);
        let is_clear = !is_deaf && !self.is_busy(air, to, id, began, until);
        let mut is_done = !acknowledged;
        if comes && is_clear {
            if !self.radio(id).received {
                air.arrive(now, to, frame.clone());
            }
            self.radio(id).received = true;
            if acknowledged {
                air.energy.spend(to, Use::Send, airtime_micros(ACK_BYTES));
                is_done = air.acknowledge(until + TURNAROUND_MICROS, to, id, &frame);
            }
        }
        let most = self.settings.retries.unwrap_or(0);
        let radio = self.radio(id);
        radio.tries += 1;
        if is_done || radio.tries > most {
            return self.next(air, id, now + SPACE_MICROS);
        }
        radio.active = false;
        self.begin(air, id, now);
    }

    fn next(&mut self, air: &mut Air<'_>, id: NodeId, from: u64) {
        let radio = self.radio(id);
        radio.frames.pop_front();
        (radio.tries, radio.received, radio.active) = (0, false, false);
        self.begin(air, id, from);
    }
}

impl LinkLayer for AlwaysOn {
    fn send(&mut self, air: &mut Air<'_>, from: NodeId, to: NodeId, frame: Vec<u8>) {
        self.radio(from).frames.push_back((to, frame));
        let now = air.now.as_micros();
        self.begin(air, from, now);
    }

    fn handle(&mut self, air: &mut Air<'_>, timer: Timer) {
        let id = NodeId(timer.whose as u16);
        match timer.kind {
            ASSESS => self.assess(air, id),
            _ => self.end(air, id),
        }
    }

    fn idle(&self, _: &Topology, _: NodeId, micros: u64) -> Idle {
        Idle { listen_micros: micros, slots: 0 }
    }
}
