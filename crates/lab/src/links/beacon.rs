//! Beacon-enabled IEEE 802.15.4 (IEEE 802.15.4-2006, section 7.5): slotted CSMA-CA in the
//! contention access periods of a cluster tree.
//!
//! Every node with children is the head of a cluster, and its children are the members. In each
//! beacon interval, every cluster has a superframe of its own, one after the other in the order of
//! the heads. Radios are off at all other times. All radios of a cluster hear each other, and no
//! radio of another cluster.

use super::{
    ACK_BYTES, Air, Idle, InvalidSetting, LinkLayer, LinkLayerSettings, TURNAROUND_MICROS, Timer,
    airtime_micros,
};
use crate::energy::Activity;
use crate::topology::{NodeId, Topology};
use lightseal_core::Random;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// The shortest superframe (aBaseSuperframeDuration), in microseconds.
const BASE_MICROS: u64 = 15_360;

/// The largest beacon order at which beacons are sent.
const MAX_ORDER: u32 = 14;

/// A backoff period (aUnitBackoffPeriod), in microseconds.
const UNIT_MICROS: u64 = 320;

/// The defaults of macMinBE, macMaxBE, macMaxCSMABackoffs and macMaxFrameRetries.
const MIN_EXPONENT: u32 = 3;
const MAX_EXPONENT: u32 = 5;
const MAX_BACKOFFS: u32 = 4;
const RETRIES: u32 = 3;

/// The long interframe space (macLIFSPeriod), in microseconds.
const SPACE_MICROS: u64 = 640;

/// The short interframe space (macSIFSPeriod) in microseconds, and the longest frame in bytes that
/// is followed by it (aMaxSIFSFrameSize).
const SHORT_SPACE_MICROS: u64 = 192;
const MAX_BYTES_BEFORE_SHORT_SPACE: usize = 18;

/// How long an acknowledgement is awaited (macAckWaitDuration), in microseconds.
const ACK_WAIT_MICROS: u64 = 864;

/// Duration of a clear channel assessment, in microseconds.
const ASSESSMENT_MICROS: u64 = 128;

/// Lengths in bytes of a beacon with a 64-bit address, of an address that is pending in it, and of
/// a data request.
const BEACON_BYTES: usize = 19;
const PENDING_BYTES: usize = 8;
const REQUEST_BYTES: usize = 22;

/// How a head sends frames to its members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Downlink {
    /// Heads send frames as members do. Members listen throughout the access period.
    #[default]
    Direct,
    /// A beacon announces one frame for each member, which then requests it.
    Indirect,
}

/// The settings of beacon-enabled mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct BeaconSettings {
    /// The beacon interval is 15.36 ms · 2^`beacon_order`.
    pub beacon_order: u32,
    /// The contention access period, beacon included, is 15.36 ms · 2^`superframe_order`.
    pub superframe_order: u32,
    /// How a head sends frames to its members.
    #[serde(default)]
    pub downlink: Downlink,
    /// Whether beacons carry a 16-bit address, as those of ns-3 do.
    #[serde(default)]
    pub short_beacons: bool,
}

const fn least(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}

impl BeaconSettings {
    /// Direct transmission in both directions, and beacons with 64-bit addresses.
    pub const fn direct(beacon_order: u32, superframe_order: u32) -> Self {
        let downlink = Downlink::Direct;
        Self { beacon_order, superframe_order, downlink, short_beacons: false }
    }

    /// Length of a beacon in bytes. A beacon that announces an indirect frame names its receiver.
    const fn beacon_bytes(&self) -> usize {
        let pending = match self.downlink {
            Downlink::Direct => 0,
            Downlink::Indirect => PENDING_BYTES,
        };
        BEACON_BYTES + pending - if self.short_beacons { 6 } else { 0 }
    }

    /// The beacon interval, in microseconds.
    pub const fn interval_micros(&self) -> u64 {
        BASE_MICROS << least(self.beacon_order, MAX_ORDER)
    }

    /// The contention access period, in microseconds.
    pub const fn access_micros(&self) -> u64 {
        BASE_MICROS << least(self.superframe_order, MAX_ORDER)
    }
}

impl LinkLayerSettings for BeaconSettings {
    fn name(&self) -> &'static str {
        "beacon"
    }

    fn build(
        &self,
        topology: &Topology,
        _: &mut Random,
    ) -> Result<Box<dyn LinkLayer>, InvalidSetting> {
        if self.beacon_order > MAX_ORDER {
            return Err(InvalidSetting::new(
                "beacon_order",
                format!("must be from 0 to {MAX_ORDER}"),
            ));
        }
        if self.superframe_order > self.beacon_order {
            return Err(InvalidSetting::new(
                "superframe_order",
                "must be at most the beacon order",
            ));
        }
        let heads = topology.nodes().filter(|id| !topology.children(*id).is_empty());
        let heads: Vec<NodeId> = heads.collect();
        let room = 1u64 << (self.beacon_order - self.superframe_order);
        if heads.len() as u64 > room {
            let reason = format!("is too short for the superframes of {} clusters", heads.len());
            return Err(InvalidSetting::new("beacon_order", reason));
        }
        let mut beacon = Beacon {
            settings: self.clone(),
            clusters: Vec::new(),
            queues: Vec::new(),
            index: BTreeMap::new(),
            acknowledging: BTreeMap::new(),
        };
        for (cluster, head) in heads.into_iter().enumerate() {
            beacon.clusters.push(Cluster::default());
            let down = beacon.add(cluster, head, false);
            for member in topology.children(head) {
                let up = beacon.add(cluster, *member, false);
                beacon.index.insert((*member, head), up);
                let down = match self.downlink {
                    Downlink::Direct => down,
                    Downlink::Indirect => beacon.add(cluster, head, true),
                };
                beacon.index.insert((head, *member), down);
            }
        }
        Ok(Box::new(beacon))
    }

    fn period_micros(&self) -> u64 {
        self.interval_micros()
    }

    fn round_trip_micros(&self, hops: u16) -> u64 {
        // A message takes a beacon interval in each direction, and one more access period if it
        // begins late.
        2 * u64::from(hops) * (self.interval_micros() + self.access_micros())
    }

    fn repeats_lost(&self) -> bool {
        true
    }
}

/// A cluster tree.
#[derive(Debug)]
struct Beacon {
    settings: BeaconSettings,
    clusters: Vec<Cluster>,
    queues: Vec<TransmitQueue>,
    index: BTreeMap<(NodeId, NodeId), usize>,
    /// Until when a node's radio is busy with its last acknowledgement, in microseconds.
    acknowledging: BTreeMap<NodeId, u64>,
}

/// The shared channel of a cluster.
#[derive(Debug, Default)]
struct Cluster {
    /// From when until when the channel is occupied, in microseconds, and whether frames collided.
    began: u64,
    until: u64,
    collided: bool,
}

/// The queue of a node that contends for the channel.
#[derive(Debug)]
struct TransmitQueue {
    cluster: usize,
    from: NodeId,
    /// Whether the receiver must request each frame.
    indirect: bool,
    frames: VecDeque<(NodeId, Vec<u8>)>,
    backoffs: u32,
    exponent: u32,
    retries: u32,
    /// A timer is set for this queue.
    active: bool,
    /// The receiver has received the first frame of the queue.
    received: bool,
    /// The receiver acknowledges the first frame of the queue.
    acknowledged: bool,
}

/// The timers: the first and the second clear channel assessment, the start of the frame, and the
/// ends of the frame, of its acknowledgement, and of the interframe space.
const ASSESS: u16 = 0;
const ASSESS_AGAIN: u16 = 1;
const SEND: u16 = 2;
const SENT: u16 = 3;
const END: u16 = 4;
const SPACED: u16 = 5;

/// Time from the end of a frame to the end of its acknowledgement, in microseconds.
const ANSWER_MICROS: u64 = TURNAROUND_MICROS + airtime_micros(ACK_BYTES);

/// Time on the air of a frame and its acknowledgement, in microseconds. The standard lets an
/// acknowledgement begin one turnaround after the frame, or on the next boundary of backoff periods
/// (section 7.5.6.4.2). ns-3 and radios that acknowledge in hardware do the former.
const fn acknowledged_micros(bytes: usize) -> u64 {
    airtime_micros(bytes) + ANSWER_MICROS
}

impl Beacon {
    fn add(&mut self, cluster: usize, from: NodeId, indirect: bool) -> usize {
        self.queues.push(TransmitQueue {
            cluster,
            from,
            indirect,
            frames: VecDeque::new(),
            backoffs: 0,
            exponent: MIN_EXPONENT,
            retries: 0,
            active: false,
            received: false,
            acknowledged: false,
        });
        self.queues.len() - 1
    }

    /// When the cluster's access period in this beacon interval begins, which is after its beacon,
    /// and when it ends.
    fn period(&self, cluster: usize, interval: u64) -> (u64, u64) {
        let access = self.settings.access_micros();
        let start = interval * self.settings.interval_micros() + cluster as u64 * access;
        let bytes = self.settings.beacon_bytes();
        let space =
            if bytes <= MAX_BYTES_BEFORE_SHORT_SPACE { SHORT_SPACE_MICROS } else { SPACE_MICROS };
        let beacon = (airtime_micros(bytes) + space).div_ceil(UNIT_MICROS);
        (start + beacon * UNIT_MICROS, start + access)
    }

    /// The number of the beacon interval that a time lies in, for the cluster.
    fn interval(&self, cluster: usize, at: u64) -> u64 {
        let offset = cluster as u64 * self.settings.access_micros();
        at.saturating_sub(offset) / self.settings.interval_micros()
    }

    /// The boundary of backoff periods that is `units` backoff periods after `at`. Only backoff
    /// periods within access periods count.
    fn boundary(&self, cluster: usize, at: u64, mut units: u64) -> u64 {
        let mut interval = self.interval(cluster, at);
        let mut at = at;
        loop {
            let (start, end) = self.period(cluster, interval);
            let first = start + at.saturating_sub(start).div_ceil(UNIT_MICROS) * UNIT_MICROS;
            let left = end.saturating_sub(first) / UNIT_MICROS;
            if units < left {
                return first + units * UNIT_MICROS;
            }
            units -= left;
            interval += 1;
            at = 0;
        }
    }

    /// Draws a random backoff and sets the timer of the first assessment.
    fn back_off(&mut self, air: &mut Air<'_>, queue: usize, from: u64) {
        let TransmitQueue { cluster, exponent, .. } = self.queues[queue];
        let units = air.random.below(1 << exponent);
        let at = self.boundary(cluster, from, units);
        self.set(air, queue, ASSESS, at);
    }

    fn set(&mut self, air: &mut Air<'_>, queue: usize, kind: u16, at: u64) {
        self.queues[queue].active = true;
        air.wake_at(at, kind, queue as u32);
    }

    /// Begins to send the first frame of the queue, if there is one.
    fn begin(&mut self, air: &mut Air<'_>, queue: usize) {
        let now = air.now.as_micros();
        let sending = &mut self.queues[queue];
        if sending.active || sending.frames.is_empty() {
            return;
        }
        (sending.backoffs, sending.exponent) = (0, MIN_EXPONENT);
        let (cluster, indirect, node) = (sending.cluster, sending.indirect, sending.from);
        let from = match indirect {
            // The next beacon announces the frame, and the receiver requests it after the beacon.
            true => self.period(cluster, self.interval(cluster, now) + 1).0,
            false => self.acknowledging.get(&node).map_or(now, |until| now.max(*until)),
        };
        self.back_off(air, queue, from);
    }

    fn assess(&mut self, air: &mut Air<'_>, queue: usize, again: bool) {
        let now = air.now.as_micros();
        let TransmitQueue { cluster, from, indirect, .. } = self.queues[queue];
        let Some((to, frame)) = self.queues[queue].frames.front() else { return };
        let bytes = frame.len();
        air.energy.spend(if indirect { *to } else { from }, Activity::Listen, ASSESSMENT_MICROS);
        if self.clusters[cluster].until > now {
            let sending = &mut self.queues[queue];
            sending.backoffs += 1;
            sending.exponent = (sending.exponent + 1).min(MAX_EXPONENT);
            if sending.backoffs > MAX_BACKOFFS {
                return self.next(air, queue);
            }
            return self.back_off(air, queue, now + UNIT_MICROS);
        }
        let interval = self.interval(cluster, now);
        let (_, end) = self.period(cluster, interval);
        let request = if indirect { acknowledged_micros(REQUEST_BYTES) } else { 0 };
        let transaction = airtime_micros(bytes) + ACK_WAIT_MICROS + SPACE_MICROS;
        if !again && now + 2 * UNIT_MICROS + request + transaction > end {
            // The rest of the access period is too short. Back off again in the next one.
            let next = self.period(cluster, interval + 1).0;
            return self.back_off(air, queue, next);
        }
        let kind = if again { SEND } else { ASSESS_AGAIN };
        self.set(air, queue, kind, now + UNIT_MICROS);
    }

    fn send_now(&mut self, air: &mut Air<'_>, queue: usize) {
        let now = air.now.as_micros();
        let TransmitQueue { cluster, from, indirect, .. } = self.queues[queue];
        let Some((to, frame)) = self.queues[queue].frames.front() else { return };
        let (to, bytes) = (*to, frame.len());
        let mut until = now + acknowledged_micros(bytes);
        if indirect {
            until += acknowledged_micros(REQUEST_BYTES) + TURNAROUND_MICROS;
            air.energy.spend(to, Activity::Send, airtime_micros(REQUEST_BYTES));
            air.energy.spend(from, Activity::Send, airtime_micros(ACK_BYTES));
            air.energy.spend(to, Activity::Listen, acknowledged_micros(bytes));
        }
        let air_of = &mut self.clusters[cluster];
        air_of.collided = air_of.began == now && air_of.until > now;
        (air_of.began, air_of.until) = (now, air_of.until.max(until));
        air.energy.spend(from, Activity::Send, airtime_micros(bytes));
        air.energy.spend(from, Activity::Listen, ACK_WAIT_MICROS);
        self.set(air, queue, SENT, until - ANSWER_MICROS);
    }

    /// The frame has been sent. If it reached the receiver, the acknowledgement begins.
    fn sent(&mut self, air: &mut Air<'_>, queue: usize) {
        let now = air.now.as_micros();
        let TransmitQueue { cluster, from, indirect, .. } = self.queues[queue];
        let collided = self.clusters[cluster].collided;
        let Some((to, frame)) = self.queues[queue].frames.front() else { return };
        let to = *to;
        let start = now - airtime_micros(frame.len());
        let asked =
            !indirect || air.signal(to, from, REQUEST_BYTES) && air.answer(from, to, ACK_BYTES);
        let mut acknowledged = false;
        if asked && air.frame(start, from, to, frame) && !collided {
            acknowledged = air.acknowledge(now + TURNAROUND_MICROS, to, from, frame);
            air.energy.spend(to, Activity::Send, airtime_micros(ACK_BYTES));
            self.acknowledging.insert(to, now + ANSWER_MICROS);
            if !self.queues[queue].received {
                air.arrive(now, to, frame.clone());
            }
            self.queues[queue].received = true;
        }
        self.queues[queue].acknowledged = acknowledged;
        self.set(air, queue, END, now + ANSWER_MICROS);
    }

    fn end(&mut self, air: &mut Air<'_>, queue: usize) {
        let sending = &mut self.queues[queue];
        sending.retries += 1;
        if sending.acknowledged || sending.retries > RETRIES {
            return self.next(air, queue);
        }
        sending.active = false;
        self.begin(air, queue);
    }

    /// Removes the first frame from the queue and turns to the next.
    fn next(&mut self, air: &mut Air<'_>, queue: usize) {
        let sending = &mut self.queues[queue];
        sending.frames.pop_front();
        (sending.retries, sending.received) = (0, false);
        self.set(air, queue, SPACED, air.now.as_micros() + SPACE_MICROS);
    }
}

impl LinkLayer for Beacon {
    fn send(&mut self, air: &mut Air<'_>, from: NodeId, to: NodeId, frame: Vec<u8>) {
        let Some(queue) = self.index.get(&(from, to)).copied() else { return };
        self.queues[queue].frames.push_back((to, frame));
        self.begin(air, queue);
    }

    fn handle(&mut self, air: &mut Air<'_>, timer: Timer) {
        let queue = timer.owner as usize;
        match timer.kind {
            ASSESS => self.assess(air, queue, false),
            ASSESS_AGAIN => self.assess(air, queue, true),
            SEND => self.send_now(air, queue),
            SENT => self.sent(air, queue),
            END => self.end(air, queue),
            _ => {
                self.queues[queue].active = false;
                self.begin(air, queue);
            }
        }
    }

    fn idle(&self, topology: &Topology, node: NodeId, micros: u64) -> Idle {
        let intervals = micros / self.settings.interval_micros();
        let access = self.settings.access_micros();
        let as_member = match (topology.parent(node), self.settings.downlink) {
            (None, _) => 0,
            (Some(_), Downlink::Direct) => access,
            (Some(_), Downlink::Indirect) => airtime_micros(self.settings.beacon_bytes()),
        };
        let as_head = if topology.children(node).is_empty() { 0 } else { access };
        Idle { listen_micros: intervals * (as_member + as_head), slots: 0 }
    }
}
