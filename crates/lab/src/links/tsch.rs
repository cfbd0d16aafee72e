//! Time slotted channel hopping (IEEE 802.15.4-2015, section 6.2.6, and its default template of a
//! timeslot).
//!
//! A cell is dedicated to one direction of one link, or shared by all nodes. Dedicated cells do not
//! interfere with each other: the cells of links that share a node lie in different timeslots, and
//! other cells may share a timeslot on different channels.

use super::{
    ACK_BYTES, Air, FRAME_BYTES, Idle, InvalidSetting, LinkLayer, LinkLayerSettings, Timer,
    airtime_micros,
};
use crate::energy::{Activity, Timeslot};
use crate::topology::{NodeId, Topology};
use lightseal_core::Random;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// Duration of a timeslot, in microseconds.
pub const SLOT_MICROS: u64 = 10_000;

/// Time from the start of a timeslot to the start of the frame (macTsTxOffset), in microseconds.
const TX_OFFSET_MICROS: u64 = 2_120;

/// How long a receiver waits for a frame (macTsRxWait), in microseconds. A punctual frame arrives
/// after half of it.
const RX_WAIT_MICROS: u64 = 2_200;

/// Time from the end of a frame to the start of its acknowledgement (macTsTxAckDelay), in
/// microseconds.
const ACK_DELAY_MICROS: u64 = 1_000;

/// How long a sender listens for an acknowledgement (macTsAckWait), in microseconds.
const ACK_WAIT_MICROS: u64 = 400;

/// The exponents of the backoff in shared cells (macMinBe and macMaxBe for TSCH).
const MIN_EXPONENT: u32 = 1;
const MAX_EXPONENT: u32 = 7;

/// The settings of a schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct TschSettings {
    /// Number of timeslots in a slotframe. A timeslot takes 10 ms.
    pub slotframe: u64,
    /// Number of cells in a slotframe: for each direction of each link, or shared by all nodes.
    pub cells: u64,
    /// Whether the cells are shared by all nodes.
    #[serde(default)]
    pub shared: bool,
    /// How often a frame that was not acknowledged is sent again (macMaxFrameRetries).
    #[serde(default = "retries")]
    pub retries: u32,
}

const fn retries() -> u32 {
    7
}

impl TschSettings {
    /// A schedule with this many dedicated cells in each direction of each link.
    pub const fn dedicated(slotframe: u64, cells: u64) -> Self {
        Self { slotframe, cells, shared: false, retries: retries() }
    }
}

impl LinkLayerSettings for TschSettings {
    fn name(&self) -> &'static str {
        "tsch"
    }

    fn build(
        &self,
        topology: &Topology,
        random: &mut Random,
    ) -> Result<Box<dyn LinkLayer>, InvalidSetting> {
        if !(1..=65_535).contains(&self.slotframe) {
            return Err(InvalidSetting::new("slotframe", "must be from 1 to 65535"));
        }
        let most = if self.shared { self.slotframe } else { self.slotframe / 2 };
        if !(1..=most).contains(&self.cells) {
            return Err(InvalidSetting::new("cells", format!("must be from 1 to {most} here")));
        }
        let mut tsch = Tsch {
            length: self.slotframe,
            retries: self.retries,
            shared: self.shared,
            queues: Vec::new(),
            index: BTreeMap::new(),
            contenders: BTreeMap::new(),
            listens: vec![0; topology.len()],
        };
        match self.shared {
            true => tsch.share(topology, self.cells),
            false => tsch.dedicate(topology, self.cells, random)?,
        }
        Ok(Box::new(tsch))
    }

    fn period_micros(&self) -> u64 {
        self.slotframe.saturating_mul(SLOT_MICROS)
    }

    fn round_trip_micros(&self, hops: u16) -> u64 {
        let wait = self.slotframe.div_ceil(self.cells) + 1;
        2 * u64::from(hops) * wait * SLOT_MICROS
    }

    fn repeats_lost(&self) -> bool {
        self.retries > 0
    }
}

/// A schedule, and the queues of all radios.
#[derive(Debug)]
struct Tsch {
    length: u64,
    retries: u32,
    shared: bool,
    queues: Vec<TransmitQueue>,
    /// The queue that a node uses for frames to another one. Where cells are shared, each node has
    /// a single queue.
    index: BTreeMap<(NodeId, NodeId), usize>,
    /// The queues that will send in each of the next shared cells, by the number of the timeslot.
    contenders: BTreeMap<u64, Vec<usize>>,
    /// Number of cells in a slotframe in which each node listens.
    listens: Vec<u64>,
}

/// A queue of frames that wait for their cells.
#[derive(Debug)]
struct TransmitQueue {
    from: NodeId,
    /// The timeslots of the queue's cells in the slotframe, ascending.
    slots: Vec<u64>,
    frames: VecDeque<(NodeId, Vec<u8>)>,
    tries: u32,
    exponent: u32,
    /// The receiver has received the first frame, but its acknowledgement was lost.
    received: bool,
}

/// The timers: a dedicated cell, and a shared cell.
const DEDICATED: u16 = 0;
const SHARED: u16 = 1;

/// The timeslots of `count` evenly spaced cells. The first lies `half_spaces` half spaces and
/// `offset` timeslots after the start.
fn evenly_spaced(length: u64, count: u64, half_spaces: u64, offset: u64) -> Vec<u64> {
    let slot = |k| ((2 * k + half_spaces) * length / (2 * count) + offset) % length;
    let mut slots: Vec<u64> = (0..count).map(slot).collect();
    slots.sort_unstable();
    slots
}

impl Tsch {
    fn add(&mut self, from: NodeId, slots: Vec<u64>) -> usize {
        let exponent = MIN_EXPONENT;
        let frames = VecDeque::new();
        self.queues.push(TransmitQueue {
            from,
            slots,
            frames,
            tries: 0,
            exponent,
            received: false,
        });
        self.queues.len() - 1
    }

    /// Gives all nodes the same evenly spaced cells.
    fn share(&mut self, topology: &Topology, cells: u64) {
        for id in topology.nodes() {
            self.add(id, evenly_spaced(self.length, cells, 0, 0));
        }
        self.listens.fill(cells);
    }

    /// Gives each link of the tree evenly spaced cells upwards and, midway between them, downwards.
    /// No two cells at a node share a timeslot.
    fn dedicate(
        &mut self,
        topology: &Topology,
        cells: u64,
        random: &mut Random,
    ) -> Result<(), InvalidSetting> {
        let length = self.length;
        let mut taken: Vec<Vec<u64>> = vec![Vec::new(); topology.len()];
        for id in topology.nodes() {
            let Some(parent) = topology.parent(id) else { continue };
            let ends = [id, parent].map(|end| usize::from(end.0));
            let first = random.below(length);
            let fits = (0..length).map(|offset| (first + offset) % length).find_map(|offset| {
                let queues =
                    [0, 1].map(|half_spaces| evenly_spaced(length, cells, half_spaces, offset));
                let clash = |slot: &u64| ends.iter().any(|end| taken[*end].contains(slot));
                let is_free = !queues.iter().flatten().any(clash);
                is_free.then_some(queues)
            });
            let Some(queues) = fits else {
                let reason = format!("do not fit at node {} into {length} timeslots", parent.0);
                return Err(InvalidSetting::new("cells", reason));
            };
            for (slots, [from, to]) in queues.into_iter().zip([[id, parent], [parent, id]]) {
                ends.iter().for_each(|end| taken[*end].extend(&slots));
                self.listens[usize::from(to.0)] += slots.len() as u64;
                let queue = self.add(from, slots);
                self.index.insert((from, to), queue);
            }
        }
        Ok(())
    }

    /// Waits for the next cell of the queue `queue`, after `skipped` of its cells.
    fn wait(&mut self, air: &mut Air<'_>, queue: usize, skipped: u64) {
        let slot = air.now.as_micros() / SLOT_MICROS + 1;
        let slots = &self.queues[queue].slots;
        let count = slots.len() as u64;
        let next = slots.partition_point(|cell| *cell < slot % self.length) as u64 + skipped;
        let frame = slot / self.length + next / count;
        let at = frame * self.length + slots[(next % count) as usize];
        if !self.shared {
            return air.wake_at(at * SLOT_MICROS, DEDICATED, queue as u32);
        }
        let contenders = self.contenders.entry(at).or_default();
        contenders.push(queue);
        if contenders.len() == 1 {
            air.wake_at(at * SLOT_MICROS, SHARED, 0);
        }
    }

    /// Accounts for what a sender and its receiver spend in a cell.
    fn spend(air: &mut Air<'_>, from: NodeId, to: NodeId, bytes: usize, outcome: FrameOutcome) {
        let (frame, ack) = (airtime_micros(bytes), airtime_micros(ACK_BYTES));
        let sender = match outcome {
            FrameOutcome::Acknowledged => Timeslot::SendAcknowledged,
            FrameOutcome::Received | FrameOutcome::Lost => Timeslot::SendUnacknowledged,
        };
        air.energy.slot(from, sender);
        air.energy.spend(from, Activity::Send, frame);
        air.energy.spend(from, Activity::Listen, ACK_WAIT_MICROS.max(ack));
        if outcome == FrameOutcome::Lost {
            // The receiver listens in vain, as it does in every unused cell, or it receives noise.
            return;
        }
        air.energy.slot(to, Timeslot::ReceiveAcknowledge);
        air.energy.spend(to, Activity::Listen, frame + RX_WAIT_MICROS / 2);
        air.energy.spend(to, Activity::Send, ack);
    }

    /// Sends the first frame of the queue `queue`. `is_clear` tells whether no other node sends in
    /// this cell.
    fn transmit(&mut self, air: &mut Air<'_>, queue: usize, is_clear: bool) {
        let sending = &mut self.queues[queue];
        let from = sending.from;
        let Some((to, frame)) = sending.frames.front() else { return };
        let (to, bytes) = (*to, frame.len());
        sending.tries += 1;
        let start = air.now.as_micros() + TX_OFFSET_MICROS;
        let end = start + airtime_micros(bytes);
        let mut outcome = FrameOutcome::Lost;
        if air.frame(start, from, to, frame) && is_clear {
            outcome = FrameOutcome::Received;
            if !sending.received {
                air.arrive(end, to, frame.clone());
            }
            sending.received = true;
            if air.acknowledge(end + ACK_DELAY_MICROS, to, from, frame) {
                outcome = FrameOutcome::Acknowledged;
            }
        }
        let is_done = outcome == FrameOutcome::Acknowledged || sending.tries > self.retries;
        let mut skipped = 0;
        if is_done {
            sending.frames.pop_front();
            (sending.tries, sending.received) = (0, false);
            sending.exponent = MIN_EXPONENT;
        } else if self.shared {
            skipped = air.random.below(1 << sending.exponent);
            sending.exponent = (sending.exponent + 1).min(MAX_EXPONENT);
        }
        let is_waiting = !sending.frames.is_empty();
        Self::spend(air, from, to, bytes, outcome);
        if is_waiting {
            self.wait(air, queue, skipped);
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameOutcome {
    Lost,
    Received,
    Acknowledged,
}

impl LinkLayer for Tsch {
    fn send(&mut self, air: &mut Air<'_>, from: NodeId, to: NodeId, frame: Vec<u8>) {
        let queue = match self.shared {
            true => Some(usize::from(from.0)),
            false => self.index.get(&(from, to)).copied(),
        };
        let Some(queue) = queue else { return };
        self.queues[queue].frames.push_back((to, frame));
        if self.queues[queue].frames.len() == 1 {
            self.wait(air, queue, 0);
        }
    }

    fn handle(&mut self, air: &mut Air<'_>, timer: Timer) {
        if timer.kind == DEDICATED {
            return self.transmit(air, timer.owner as usize, true);
        }
        let slot = air.now.as_micros() / SLOT_MICROS;
        let Some(senders) = self.contenders.remove(&slot) else { return };
        let is_sending = |id: NodeId| senders.iter().any(|queue| self.queues[*queue].from == id);
        let clear: Vec<bool> = senders
            .iter()
            .map(|queue| {
                let TransmitQueue { from, frames, .. } = &self.queues[*queue];
                let Some((to, _)) = frames.front() else { return false };
                let others = air.topology.hears(*to).iter().filter(|id| *id != from);
                !is_sending(*to) && !others.copied().any(is_sending)
            })
            .collect();
        for (queue, is_clear) in senders.into_iter().zip(clear) {
            self.transmit(air, queue, is_clear);
        }
    }

    fn idle(&self, _: &Topology, node: NodeId, micros: u64) -> Idle {
        let cells = self.listens[usize::from(node.0)];
        let slots = micros * cells / (self.length * SLOT_MICROS);
        Idle { listen_micros: slots * RX_WAIT_MICROS, slots }
    }
}

const _: () = assert!(
    TX_OFFSET_MICROS + airtime_micros(FRAME_BYTES) + ACK_DELAY_MICROS + airtime_micros(ACK_BYTES)
        < SLOT_MICROS
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_spaced_evenly_and_those_back_midway() {
        assert_eq!(evenly_spaced(101, 3, 0, 0), [0, 33, 67]);
        assert_eq!(evenly_spaced(101, 3, 1, 0), [16, 50, 84]);
        assert_eq!(evenly_spaced(101, 1, 1, 70), [19]);
    }

    #[test]
    fn no_node_has_two_cells_in_one_timeslot() {
        let topology = Topology::grid(4, 3);
        let settings = TschSettings::dedicated(101, 3);
        let mut tsch = Tsch {
            length: 101,
            retries: 7,
            shared: false,
            queues: Vec::new(),
            index: BTreeMap::new(),
            contenders: BTreeMap::new(),
            listens: vec![0; 12],
        };
        let mut random = Random::insecure(5);
        tsch.dedicate(&topology, settings.cells, &mut random).expect("the cells fit");
        for id in topology.nodes() {
            let mine = tsch.index.iter().filter(|((from, to), _)| *from == id || *to == id);
            let mut slots: Vec<u64> =
                mine.flat_map(|(_, queue)| tsch.queues[*queue].slots.clone()).collect();
            let count = slots.len();
            slots.sort_unstable();
            slots.dedup();
            assert_eq!(slots.len(), count);
        }
        let crowded = TschSettings::dedicated(7, 3).build(&topology, &mut random);
        assert_eq!(crowded.err().map(|fault| fault.field), Some("cells"));
    }
}
