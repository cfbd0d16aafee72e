//! Radios that are always on: unslotted CSMA-CA (IEEE 802.15.4-2006, section 7.5.1.4), with or
//! without acknowledgements. Broadcast frames are never acknowledged (section 7.5.6.4).

use super::{
    ACK_BYTES, Air, FRAME_BYTES, Idle, InvalidSetting, LinkLayer, LinkLayerSettings,
    TURNAROUND_MICROS, Timer, airtime_micros,
};
use crate::energy::Activity;
use crate::topology::{NodeId, Topology};
use lightseal_core::Random;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// A backoff period (aUnitBackoffPeriod), in microseconds.
const UNIT_MICROS: u64 = 320;

/// The defaults of macMinBE, macMaxBE and macMaxCSMABackoffs.
const MIN_EXPONENT: u32 = 3;
const MAX_EXPONENT: u32 = 5;
const MAX_BACKOFFS: u32 = 4;

/// The long interframe space (macLIFSPeriod), in microseconds.
const SPACE_MICROS: u64 = 640;

/// Time from the end of a frame to the end of its acknowledgement, in microseconds.
const ANSWER_MICROS: u64 = TURNAROUND_MICROS + airtime_micros(ACK_BYTES);

/// The settings of radios that are always on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct AlwaysOnSettings {
    /// How often a frame that was not acknowledged is sent again (macMaxFrameRetries). Without this
    /// setting, frames are not acknowledged.
    pub retries: Option<u32>,
}

impl LinkLayerSettings for AlwaysOnSettings {
    fn name(&self) -> &'static str {
        "always-on"
    }

    fn build(
        &self,
        topology: &Topology,
        _: &mut Random,
    ) -> Result<Box<dyn LinkLayer>, InvalidSetting> {
        if self.retries.is_some_and(|retries| retries > 1000) {
            return Err(InvalidSetting::new("retries", "must be at most 1000"));
        }
        let radios = topology.nodes().map(|_| Radio::default()).collect();
        Ok(Box::new(AlwaysOn { settings: self.clone(), radios }))
    }

    fn period_micros(&self) -> u64 {
        UNIT_MICROS << MIN_EXPONENT
    }

    fn round_trip_micros(&self, hops: u16) -> u64 {
        let once = (UNIT_MICROS << MIN_EXPONENT) + airtime_micros(FRAME_BYTES) + ANSWER_MICROS;
        2 * u64::from(hops) * (once + SPACE_MICROS)
    }

    fn repeats_lost(&self) -> bool {
        self.retries.is_some()
    }

    fn broadcasts(&self) -> bool {
        true
    }
}

/// The radios of all nodes.
#[derive(Debug)]
struct AlwaysOn {
    settings: AlwaysOnSettings,
    radios: Vec<Radio>,
}

#[derive(Debug, Default)]
struct Radio {
    frames: VecDeque<(NodeId, Vec<u8>)>,
    backoffs: u32,
    tries: u32,
    /// A timer is set for this radio.
    active: bool,
    /// The receiver has received the first frame of the queue.
    received: bool,
    /// When the current transmission began, and when it ends, in microseconds.
    began: u64,
    until: u64,
}

/// The timers: a clear channel assessment, the end of a frame, and the end of its acknowledgement.
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
        let exponent = (MIN_EXPONENT + self.radio(id).backoffs).min(MAX_EXPONENT);
        let units = air.random.below(1 << exponent);
        air.wake_at(from + units * UNIT_MICROS, ASSESS, id.0.into());
    }

    /// Whether `id` hears any node but `except` between two times.
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
            if radio.backoffs > MAX_BACKOFFS {
                return self.next(air, id, now);
            }
            return self.back_off(air, id, now + UNIT_MICROS);
        }
        let begin = now + TURNAROUND_MICROS;
        let Some(to) = self.radio(id).frames.front().map(|(to, _)| *to) else { return };
        let acknowledged = self.is_acknowledged(to);
        let radio = self.radio(id);
        let Some((_, frame)) = radio.frames.front() else { return };
        let airtime = airtime_micros(frame.len());
        (radio.began, radio.until) = (begin, begin + airtime);
        air.energy.spend(id, Activity::Send, airtime);
        let end = begin + airtime + if acknowledged { ANSWER_MICROS } else { 0 };
        air.wake_at(end, END, id.0.into());
    }

    fn end(&mut self, air: &mut Air<'_>, id: NodeId) {
        let now = air.now.as_micros();
        let Radio { began, until, .. } = self.radios[usize::from(id.0)];
        let Some((to, frame)) = self.radio(id).frames.front().cloned() else { return };
        if to == NodeId::EVERYBODY {
            return self.end_broadcast(air, id, &frame);
        }
        let acknowledged = self.is_acknowledged(to);
        let comes = air.frame(began, id, to, &frame);
        let mut is_done = !acknowledged;
        if comes && self.is_clear(air, to, id) {
            air.energy.received(to, until - began);
            if !self.radio(id).received {
                air.arrive(now, to, frame.clone());
            }
            self.radio(id).received = true;
            if acknowledged {
                air.energy.spend(to, Activity::Send, airtime_micros(ACK_BYTES));
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

    /// Every neighbour receives the same frame, over a channel of its own.
    fn end_broadcast(&mut self, air: &mut Air<'_>, id: NodeId, frame: &[u8]) {
        let now = air.now.as_micros();
        let Radio { began, until, .. } = self.radios[usize::from(id.0)];
        air.sent(began, frame);
        for to in air.topology.hears(id) {
            if air.signal(id, *to, frame.len()) && self.is_clear(air, *to, id) {
                air.energy.received(*to, until - began);
                air.arrive(now, *to, frame.to_vec());
            }
        }
        self.next(air, id, now + SPACE_MICROS);
    }

    /// Whether a node neither sends nor hears another node while `sender` sends.
    fn is_clear(&self, air: &Air<'_>, id: NodeId, sender: NodeId) -> bool {
        let Radio { began, until, .. } = self.radios[usize::from(sender.0)];
        let there = &self.radios[usize::from(id.0)];
        let cannot_receive = there.began < until && there.until > began;
        !cannot_receive && !self.is_busy(air, id, sender, began, until)
    }

    fn is_acknowledged(&self, to: NodeId) -> bool {
        self.settings.retries.is_some() && to != NodeId::EVERYBODY
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
        let id = NodeId(timer.owner as u16);
        match timer.kind {
            ASSESS => self.assess(air, id),
            _ => self.end(air, id),
        }
    }

    fn idle(&self, _: &Topology, _: NodeId, micros: u64) -> Idle {
        Idle { listen_micros: micros, slots: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::{ChannelModel, Channels};
    use crate::world::{NextAction, Node, World};
    use lightseal_core::Instant;

    /// A node that broadcasts once, if it is to, and counts the frames that it hears.
    #[derive(Default)]
    struct Speaker {
        says: usize,
        heard: Vec<(Instant, NodeId, usize)>,
    }

    impl Node for Speaker {
        fn receive(&mut self, _: Instant, _: NodeId, _: &mut [u8]) {
            panic!("a unicast datagram, but all nodes broadcast");
        }

        fn receive_multicast(&mut self, now: Instant, from: NodeId, datagram: &mut [u8]) {
            self.heard.push((now, from, datagram.len()));
        }

        fn wake(&mut self, _: Instant) {}

        fn poll(&mut self, _: Instant, buf: &mut [u8]) -> NextAction {
            match core::mem::take(&mut self.says) {
                0 => NextAction::Idle,
                len => {
                    buf[..len].fill(7);
                    NextAction::Send { to: NodeId::EVERYBODY, len }
                }
            }
        }
    }

    fn spoken(says: usize, channel: &ChannelModel, seed: u64) -> World<Speaker> {
        let topology = Topology::star(3);
        let settings = AlwaysOnSettings { retries: Some(3) };
        let link = settings.build(&topology, &mut Random::insecure(seed)).unwrap();
        let channels = Channels::new(channel, &[], true);
        let mut world = World::new(topology, link, channels, Random::insecure(seed));
        for id in 0..4 {
            let says = if id == 2 { says } else { 0 };
            world.add(Instant::ZERO, Speaker { says, ..Speaker::default() });
        }
        while world.step().is_some() {}
        world
    }

    #[test]
    fn all_neighbours_hear_one_frame_at_once() {
        let world = spoken(44, &ChannelModel::PERFECT, 1);
        let airtime = airtime_micros(44 + 27);
        let heard = |id| &world.node(NodeId(id)).heard;
        assert_eq!(heard(0).len(), 1);
        assert_eq!((heard(0)[0].1, heard(0)[0].2), (NodeId(2), 44));
        assert!(heard(0) == heard(1) && heard(0) == heard(3) && heard(2).is_empty());
        let spent = |id| world.spent(NodeId(id), Instant::ZERO);
        assert_eq!(spent(2).of(Activity::Send), airtime);
        assert_eq!((spent(0).of(Activity::Send), spent(0).received_micros), (0, airtime));
    }

    #[test]
    fn each_neighbour_has_a_channel_of_its_own() {
        let half = ChannelModel::Bernoulli { delivery: 0.5 };
        let counts = (0..100).map(|seed| {
            let world = spoken(44, &half, seed);
            [0, 1, 3].map(|id| world.node(NodeId(id)).heard.len())
        });
        let (all, some): (usize, usize) = counts.fold((0, 0), |(all, some), [a, b, c]| {
            (all + usize::from(a + b + c == 3), some + usize::from(a + b + c > 0))
        });
        assert!((3..30).contains(&all) && (70..100).contains(&some), "{all} {some}");
    }

    #[test]
    fn long_datagrams_come_whole() {
        let world = spoken(200, &ChannelModel::PERFECT, 1);
        assert_eq!(world.node(NodeId(0)).heard[0].2, 200);
    }
}
