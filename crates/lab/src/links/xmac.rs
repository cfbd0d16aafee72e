//! X-MAC as in Contiki (Buettner et al., SenSys 2006; Contiki's cxmac). Every node listens briefly
//! once in each check interval. A node that has a frame to send repeats a short strobe until the
//! receiver acknowledges one, and then sends the frame.
//!
//! Data frames are not acknowledged, so a lost data frame stays lost. A receiver that has heard a
//! strobe keeps its radio on until the frame arrives or its next listening period ends. A lost
//! frame therefore costs it about a check interval of listening. Strobes come 5.5 ms apart, so only
//! one falls into a listening period; if that one is lost, the sender has to wait for the next
//! period. If no strobe is acknowledged, the sender tries again after a random delay. Radios are
//! half duplex: a node that strobes hears nothing. Strobes do not appear in captures.

use super::{
    Air, Idle, InvalidSetting, LinkLayer, LinkLayerSettings, TURNAROUND_MICROS, Timer,
    airtime_micros,
};
use crate::energy::Activity;
use crate::topology::{NodeId, Topology};
use lightseal_core::Random;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// How long a node listens in each check interval, in microseconds.
const ON_MICROS: u64 = 6_250;

/// How long before its receiver's listening period a sender begins if it knows the receiver's
/// phase, in microseconds.
const GUARD_MICROS: u64 = 2 * ON_MICROS;

/// Length of a strobe in bytes: a MAC header with 64-bit addresses, a type, and the checksum.
const STROBE_BYTES: usize = 24;

/// Length of a strobe's acknowledgement in bytes, which has the same parts.
const ANSWER_BYTES: usize = STROBE_BYTES;

/// How often a frame is tried.
const TRIES: u32 = 8;

const STROBE_MICROS: u64 = airtime_micros(STROBE_BYTES);
const ANSWER_MICROS: u64 = TURNAROUND_MICROS + airtime_micros(ANSWER_BYTES) + TURNAROUND_MICROS;

/// Time from the beginning of one strobe to that of the next, and from the decision to strobe to
/// the first strobe, in microseconds. It is Contiki's `DEFAULT_STROBE_WAIT_TIME`, seven eighths of
/// a listening period. The sender listens in between.
const PERIOD_MICROS: u64 = ON_MICROS * 7 / 8;

/// The settings of X-MAC. Contiki's default has all three switches on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct XMacSettings {
    /// Time from one listening period to the next.
    pub check_interval_ms: f64,
    /// Whether senders know when their neighbours listen, and begin shortly before that.
    #[serde(default = "yes")]
    pub phase_lock: bool,
    /// Whether a sender's radio stays on between strobes, or is on only while an acknowledgement
    /// may arrive.
    #[serde(default = "yes")]
    pub on_between_strobes: bool,
    /// Whether a sender's processor waits actively from the time it takes up a frame until the
    /// frame is sent.
    #[serde(default = "yes")]
    pub busy_wait: bool,
}

const fn yes() -> bool {
    true
}

impl XMacSettings {
    /// Contiki's default settings with this check interval.
    pub const fn contiki(check_interval_ms: f64) -> Self {
        Self { check_interval_ms, phase_lock: true, on_between_strobes: true, busy_wait: true }
    }

    fn interval_micros(&self) -> u64 {
        (self.check_interval_ms * 1e3).round() as u64
    }
}

impl LinkLayerSettings for XMacSettings {
    fn name(&self) -> &'static str {
        "x-mac"
    }

    fn build(
        &self,
        topology: &Topology,
        random: &mut Random,
    ) -> Result<Box<dyn LinkLayer>, InvalidSetting> {
        let least = 2 * ON_MICROS;
        if !(least as f64 / 1e3..=1e6).contains(&self.check_interval_ms) {
            return Err(InvalidSetting::new("check_interval_ms", "must be from 12.5 to 1000000"));
        }
        let interval = self.interval_micros();
        let radio = |_| Radio {
            phase: random.below(interval),
            queue: VecDeque::new(),
            tries: 0,
            state: State::Off,
            busy_since: 0,
            taken_until: 0,
            awake: None,
        };
        let radios = topology.nodes().map(radio).collect();
        Ok(Box::new(XMac { settings: self.clone(), interval, radios }))
    }

    fn period_micros(&self) -> u64 {
        self.interval_micros()
    }

    fn round_trip_micros(&self, hops: u16) -> u64 {
        let once = self.interval_micros() + ON_MICROS + PERIOD_MICROS + ANSWER_MICROS;
        2 * u64::from(hops) * (once + airtime_micros(super::FRAME_BYTES))
    }

    fn repeats_lost(&self) -> bool {
        false
    }
}

/// The radios of all nodes.
#[derive(Debug)]
struct XMac {
    settings: XMacSettings,
    interval: u64,
    radios: Vec<Radio>,
}

#[derive(Debug)]
struct Radio {
    /// When the node listens for the first time, in microseconds.
    phase: u64,
    queue: VecDeque<(NodeId, Vec<u8>)>,
    tries: u32,
    state: State,
    /// Since when the processor waits for the first frame of the queue to be sent, in microseconds.
    busy_since: u64,
    /// Until when a frame is being sent or received, in microseconds.
    taken_until: u64,
    /// Set while the radio is on for a frame whose strobe it has heard.
    awake: Option<Awake>,
}

/// The time for which a radio is on between its listening periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Awake {
    /// From when on this time has not been accounted for, in microseconds.
    since: u64,
    /// The end of the next listening period after the strobe, in microseconds. Contiki does not
    /// wait longer.
    until: u64,
}

/// What a radio does besides listening once in each check interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Off,
    /// The radio has a frame and will try to send it.
    Waiting,
    /// The radio has repeated strobes since this time, in microseconds.
    Strobing(u64),
    /// The receiver listens, and the radio sends the frame.
    Sending,
}

/// The timers.
const START: u16 = 0;
const STROBE: u16 = 1;
const SENT: u16 = 2;
const FREE: u16 = 3;
const LAPSE: u16 = 4;

impl XMac {
    fn radio(&mut self, id: NodeId) -> &mut Radio {
        &mut self.radios[usize::from(id.0)]
    }

    /// Whether a neighbour of `id` other than `except` is sending.
    fn is_disturbed(&self, topology: &Topology, id: NodeId, except: NodeId, now: u64) -> bool {
        topology.hears(id).iter().filter(|other| **other != except).any(|other| {
            match self.radios[usize::from(other.0)].state {
                State::Strobing(since) => since < now,
                State::Sending => true,
                State::Off | State::Waiting => false,
            }
        })
    }

    /// The first time at or after `at` when the node begins to listen and is not sending or
    /// receiving a frame.
    fn listens_at(&self, id: NodeId, at: u64) -> u64 {
        let Radio { phase, taken_until, .. } = self.radios[usize::from(id.0)];
        let at = at.max(taken_until);
        phase + at.saturating_sub(phase).div_ceil(self.interval) * self.interval
    }

    /// When the first strobe at or after `from` ends that the receiver can hear completely while it
    /// listens. The strobes are those repeated since `since`. If there is no such strobe, the time
    /// is after the last strobe.
    fn heard_at(&self, to: NodeId, since: u64, from: u64) -> u64 {
        let strobe_at = |earliest: u64| {
            since + (earliest - since).div_ceil(PERIOD_MICROS).max(1) * PERIOD_MICROS
        };
        let next = strobe_at(from) + STROBE_MICROS;
        if self.radios[usize::from(to.0)].awake.is_some_and(|awake| next <= awake.until) {
            return next;
        }
        // The last time by then when the receiver began to listen.
        let mut wake = self.listens_at(to, (from + 1).saturating_sub(self.interval));
        let last = since + self.max_strobing_micros();
        loop {
            let strobe = strobe_at(wake.max(from));
            if strobe + STROBE_MICROS <= wake + ON_MICROS || wake > last {
                return strobe + STROBE_MICROS;
            }
            wake += self.interval;
        }
    }

    /// Keeps the radio of a node on that has heard a strobe.
    fn stay_awake(&mut self, air: &mut Air<'_>, id: NodeId) {
        let now = air.now.as_micros();
        let interval = self.interval;
        let radio = self.radio(id);
        let next = radio.phase + (now.saturating_sub(radio.phase) / interval + 1) * interval;
        let since = radio.awake.filter(|awake| awake.until > now).map_or(now, |awake| awake.since);
        radio.awake = Some(Awake { since, until: next + ON_MICROS });
        air.wake_at(next, LAPSE, id.0.into());
    }

    /// Accounts for the listening until `until` of a node that is awake for a frame. The listening
    /// period after it is not included, because every node's account has its regular listening
    /// periods anyway.
    fn settle(&mut self, air: &mut Air<'_>, id: NodeId, until: u64) {
        if let Some(awake) = &mut self.radio(id).awake {
            let until = until.min(awake.until - ON_MICROS);
            air.energy.spend(id, Activity::Listen, until.saturating_sub(awake.since));
            awake.since = awake.since.max(until);
        }
    }

    /// Handles the beginning of the next listening period.
    fn end_of_listening(&mut self, air: &mut Air<'_>, id: NodeId) {
        let now = air.now.as_micros();
        if self.radio(id).awake.is_some_and(|awake| awake.until == now + ON_MICROS) {
            self.settle(air, id, now);
        }
    }

    /// How long strobes are repeated without an acknowledgement, in microseconds.
    const fn max_strobing_micros(&self) -> u64 {
        self.interval + 3 * ON_MICROS
    }

    /// Takes up the first frame of the queue, if there is one.
    fn begin(&mut self, air: &mut Air<'_>, id: NodeId) {
        let now = air.now.as_micros();
        let radio = self.radio(id);
        if radio.state != State::Off || radio.queue.is_empty() || radio.taken_until > now {
            return;
        }
        radio.busy_since = now;
        self.plan(air, id, now);
    }

    /// Plans to strobe at `at` or, if the receiver's listening periods are known, shortly before
    /// the next of them.
    fn plan(&mut self, air: &mut Air<'_>, id: NodeId, at: u64) {
        let radio = self.radio(id);
        let Some((to, _)) = radio.queue.front() else { return };
        let to = *to;
        // Two senders that do not hear each other and collided would collide again if both used the
        // receiver's phase on later tries as well.
        let is_first = radio.tries == 0;
        let at = match self.settings.phase_lock && is_first {
            true => at.max(self.listens_at(to, at).saturating_sub(GUARD_MICROS)),
            false => at,
        };
        self.radio(id).state = State::Waiting;
        air.wake_at(at, START, id.0.into());
    }

    /// Plans another try after a random delay.
    fn retry_after_random_delay(&mut self, air: &mut Air<'_>, id: NodeId) {
        let wait = 1 + air.random.below(self.interval);
        let at = air.now.as_micros().max(self.radio(id).taken_until) + wait;
        self.plan(air, id, at);
    }

    fn start(&mut self, air: &mut Air<'_>, id: NodeId) {
        let now = air.now.as_micros();
        let is_disturbed = self.is_disturbed(air.topology, id, id, now);
        let radio = self.radio(id);
        let Some((to, _)) = radio.queue.front() else { return };
        let to = *to;
        if is_disturbed || radio.taken_until > now {
            return self.retry_after_random_delay(air, id);
        }
        radio.state = State::Strobing(now);
        // A node that strobes no longer waits for other nodes' frames.
        self.settle(air, id, now);
        self.radio(id).awake = None;
        let at = self.heard_at(to, now, now);
        self.await_strobe(air, id, now, at);
    }

    /// Waits until a strobe may have been heard, or until the sender gives up.
    fn await_strobe(&self, air: &mut Air<'_>, id: NodeId, since: u64, at: u64) {
        air.wake_at(at.min(since + self.max_strobing_micros()), STROBE, id.0.into());
    }

    /// Handles the end of a strobe that the receiver may have heard, or of the last strobe.
    fn strobe(&mut self, air: &mut Air<'_>, id: NodeId) {
        let now = air.now.as_micros();
        let most = self.max_strobing_micros();
        let radio = self.radio(id);
        let (State::Strobing(since), Some((to, _))) = (radio.state, radio.queue.front()) else {
            return;
        };
        let to = *to;
        let is_over = now >= since + most;
        let there = &self.radios[usize::from(to.0)];
        let cannot_receive = matches!(there.state, State::Strobing(_) | State::Sending)
            || there.taken_until > now
            || self.is_disturbed(air.topology, to, id, now);
        if !is_over && !cannot_receive && air.signal(id, to, STROBE_BYTES) {
            self.stay_awake(air, to);
            air.energy.spend(to, Activity::Send, airtime_micros(ANSWER_BYTES));
            if air.answer(to, id, ANSWER_BYTES) {
                self.spend(air, id, since, now);
                return self.data(air, id, to, now + ANSWER_MICROS);
            }
        }
        if !is_over {
            let at = self.heard_at(to, since, now);
            return self.await_strobe(air, id, since, at);
        }
        self.spend(air, id, since, now);
        let radio = self.radio(id);
        radio.tries += 1;
        if radio.tries < TRIES {
            return self.retry_after_random_delay(air, id);
        }
        radio.tries = 0;
        radio.queue.pop_front();
        radio.state = State::Off;
        self.account_busy_wait(air, id);
        self.begin(air, id);
    }

    /// Sends the frame to a receiver that has acknowledged a strobe.
    fn data(&mut self, air: &mut Air<'_>, id: NodeId, to: NodeId, from: u64) {
        let radio = self.radio(id);
        let Some((_, frame)) = radio.queue.front() else { return };
        let airtime = airtime_micros(frame.len());
        let end = from + airtime;
        (radio.state, radio.tries, radio.taken_until) = (State::Sending, 0, end);
        self.radio(to).taken_until = end;
        air.energy.spend(id, Activity::Send, airtime);
        air.energy.spend(id, Activity::Listen, ANSWER_MICROS);
        air.energy.spend(to, Activity::Listen, airtime + 2 * TURNAROUND_MICROS);
        // Accounts for the listening before this strobe. The rest has been accounted for above.
        let strobed = from - ANSWER_MICROS;
        self.settle(air, to, strobed);
        if let Some(awake) = &mut self.radio(to).awake {
            awake.since = end;
        }
        air.wake_at(end, SENT, id.0.into());
        air.wake_at(end, FREE, to.0.into());
    }

    /// Handles the end of the frame.
    fn sent(&mut self, air: &mut Air<'_>, id: NodeId) {
        let now = air.now.as_micros();
        let Some((to, frame)) = self.radio(id).queue.pop_front() else { return };
        self.account_busy_wait(air, id);
        let start = now - airtime_micros(frame.len());
        let comes = air.frame(start, id, to, &frame);
        // A node that does not hear this sender may have begun to strobe meanwhile.
        if comes && !self.is_disturbed(air.topology, to, id, now) {
            self.radio(to).awake = None;
            air.arrive(now, to, frame);
        }
        self.radio(id).state = State::Off;
        self.begin(air, id);
    }

    /// Accounts for the processor's active waiting.
    fn account_busy_wait(&mut self, air: &mut Air<'_>, id: NodeId) {
        if self.settings.busy_wait {
            let waited = air.now.as_micros() - self.radio(id).busy_since;
            air.energy.spend(id, Activity::Compute, waited);
        }
    }

    /// Accounts for strobes, and for the listening between them.
    fn spend(&self, air: &mut Air<'_>, id: NodeId, since: u64, until: u64) {
        let strobes = (until - since) / PERIOD_MICROS;
        let sending = strobes * STROBE_MICROS;
        let listening = match self.settings.on_between_strobes {
            true => (until - since).saturating_sub(sending),
            false => strobes * airtime_micros(ANSWER_BYTES),
        };
        air.energy.spend(id, Activity::Send, sending);
        air.energy.spend(id, Activity::Listen, listening);
    }
}

impl LinkLayer for XMac {
    fn send(&mut self, air: &mut Air<'_>, from: NodeId, to: NodeId, frame: Vec<u8>) {
        self.radio(from).queue.push_back((to, frame));
        self.begin(air, from);
    }

    fn handle(&mut self, air: &mut Air<'_>, timer: Timer) {
        let id = NodeId(timer.owner as u16);
        match timer.kind {
            START => self.start(air, id),
            STROBE => self.strobe(air, id),
            SENT => self.sent(air, id),
            LAPSE => self.end_of_listening(air, id),
            _ => self.begin(air, id),
        }
    }

    fn idle(&self, _: &Topology, _: NodeId, micros: u64) -> Idle {
        Idle { listen_micros: micros * ON_MICROS / self.interval, slots: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshakes::{HandshakeRun, Profile};
    use crate::links::Layer;
    use crate::network::Network;

    fn radios(interval: u64) -> XMac {
        let settings = XMacSettings::contiki(interval as f64 / 1e3);
        let radio = || Radio {
            phase: 0,
            queue: VecDeque::new(),
            tries: 0,
            state: State::Off,
            busy_since: 0,
            taken_until: 0,
            awake: None,
        };
        XMac { settings, interval, radios: vec![radio(), radio()] }
    }

    #[test]
    fn one_strobe_falls_into_a_listening_period_and_the_next_into_the_next() {
        let xmac = radios(125_000);
        // The sender begins shortly before the second listening period, as with phase lock.
        let since = 125_000 - GUARD_MICROS;
        let first = xmac.heard_at(NodeId(1), since, since);
        assert_eq!(first, since + 3 * PERIOD_MICROS + STROBE_MICROS);
        assert!(first <= 125_000 + ON_MICROS);
        let second = xmac.heard_at(NodeId(1), since, first);
        assert!((250_000 + STROBE_MICROS..=250_000 + ON_MICROS).contains(&second), "{second}");
    }

    #[test]
    fn a_receiver_that_is_awake_hears_the_very_next_strobe() {
        let mut xmac = radios(125_000);
        let since = 125_000 - GUARD_MICROS;
        let first = xmac.heard_at(NodeId(1), since, since);
        xmac.radios[1].awake = Some(Awake { since: first, until: 250_000 + ON_MICROS });
        assert_eq!(xmac.heard_at(NodeId(1), since, first), first + PERIOD_MICROS);
    }

    /// Strobes with the same period as the listening periods between which they fall are never
    /// heard, and the sender has to give up.
    #[test]
    fn strobes_that_are_never_heard_end() {
        let xmac = radios(23 * PERIOD_MICROS);
        let since = 23 * PERIOD_MICROS - STROBE_MICROS / 2;
        let at = xmac.heard_at(NodeId(1), since - 3 * PERIOD_MICROS, since);
        assert!(at > since, "{at}");
    }

    /// How long a client listens in addition if frames to it are lost. Without loss it listens for
    /// 0.17 s at a check interval of 500 ms.
    #[test]
    fn a_lost_frame_costs_its_receiver_an_interval_of_listening() {
        let listening = |delivery| {
            let network = Network {
                // Strobes and their acknowledgements are short, so they are seldom lost.
                channel: crate::channels::ChannelModel::BitErrors {
                    floor: 0.0,
                    byte_errors: delivery,
                },
                ..Network::line(2, Layer::XMac(XMacSettings::contiki(500.0)))
            };
            let profile = Profile::by_name("tinydtls").expect("a known profile");
            let of = |seed| {
                let outcomes = HandshakeRun::single(&network, profile, seed)
                    .run()
                    .expect("the simulation runs");
                let outcome = outcomes[0];
                outcome.duration.map(|_| outcome.spent.of(Activity::Listen) as f64 / 1e6)
            };
            let all: Vec<f64> = (0..200).filter_map(of).collect();
            all.iter().sum::<f64>() / all.len() as f64
        };
        let (none, some) = (listening(0.0), listening(0.002));
        assert!(none < 0.3 && some > none + 0.1, "{none} {some}");
    }
}
