//! X-MAC as in Contiki (Buettner et al., SenSys 2006; Contiki's cxmac): every node listens a little
//! once a check interval, and who has a frame repeats a short strobe until its receiver
//! acknowledges one.
//!
//! Data frames are not acknowledged: one that is lost stays lost. A receiver that has heard a strobe
//! keeps its radio on until the frame comes or its next listening period ends, so a lost frame costs
//! it about a check interval of listening. Strobes come 5.5 ms apart, so one falls into a listening
//! period: where that is lost, the frame waits for the next period. A missing acknowledgement of all
//! strobes leads to another try after a random while. Radios are half duplex: a node that strobes
//! hears nothing. Strobes are not captured.

use super::{Fault, Idle, LinkLayer, Setting, TURNAROUND_MICROS, Timer, airtime_micros};
use crate::energy::Use;
use crate::world::{Air, NodeId, Topology};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use vocabulary::Random;

/// For how long a node listens each check interval, in microseconds.
const ON_MICROS: u64 = 6_250;

/// How long before its receiver listens a sender begins that knows when that is.
const GUARD_MICROS: u64 = 2 * ON_MICROS;

/// Bytes of a strobe: a MAC header with 64-bit addresses, a type, and the checksum.
const STROBE_BYTES: usize = 24;

/// Bytes of its acknowledgement: the same.
const ANSWER_BYTES: usize = STROBE_BYTES;

/// How often a frame is tried.
const TRIES: u32 = 8;

const STROBE_MICROS: u64 = airtime_micros(STROBE_BYTES);
const ANSWER_MICROS: u64 = TURNAROUND_MICROS + airtime_micros(ANSWER_BYTES) + TURNAROUND_MICROS;

/// From the begin of one strobe to that of the next, and from the decision to strobe to the first
/// strobe: Contiki's `DEFAULT_STROBE_WAIT_TIME`, seven eighths of a listening period. The sender
/// listens in between.
const PERIOD_MICROS: u64 = ON_MICROS * 7 / 8;

/// How nodes go about it. Contiki as it ships has all three switches on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(inline)]
pub struct Settings {
    /// From one listening to the next.
    pub check_interval_ms: f64,
    /// Whether senders know when their neighbours listen, and begin shortly before.
    #[serde(default = "yes")]
    pub phase_lock: bool,
    /// Whether a sender's radio stays on between strobes, or only while an acknowledgement may
    /// come.
    #[serde(default = "yes")]
    pub on_between_strobes: bool,
    /// Whether a sender's processor waits actively, from taking a frame up until it is sent.
    #[serde(default = "yes")]
    pub busy_wait: bool,
}

const fn yes() -> bool {
    true
}

impl Settings {
    /// As in Contiki, with this check interval.
    pub const fn contiki(check_interval_ms: f64) -> Self {
        Self { check_interval_ms, phase_lock: true, on_between_strobes: true, busy_wait: true }
    }

    fn interval_micros(&self) -> u64 {
        (self.check_interval_ms * 1e3).round() as u64
    }
}

impl Setting for Settings {
    fn name(&self) -> &'static str {
        "x-mac"
    }

    fn build(&self, topology: &Topology, random: &mut Random) -> Result<Box<dyn LinkLayer>, Fault> {
        let least = 2 * ON_MICROS;
        if !(least as f64 / 1e3..=1e6).contains(&self.check_interval_ms) {
            return Err(Fault::new("check_interval_ms", "must be from 12.5 to 1000000"));
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

/// All radios.
#[derive(Debug)]
struct XMac {
    settings: Settings,
    interval: u64,
    radios: Vec<Radio>,
}

#[derive(Debug)]
struct Radio {
    /// When it listens first.
    phase: u64,
    queue: VecDeque<(NodeId, Vec<u8>)>,
    tries: u32,
    state: State,
    /// Since when its processor waits for the first frame to be sent.
    busy_since: u64,
    /// Until when it has a frame under way, sending or receiving.
    taken_until: u64,
    /// Its radio is on for a frame whose strobe it has heard.
    awake: Option<Awake>,
}

/// Why a radio is on between its listening periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Awake {
    /// From when on that is not on its account yet.
    since: u64,
    /// The end of the listening period after the strobe: Contiki waits no longer.
    until: u64,
}

/// What a radio does besides listening once an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Off,
    /// It will try to send.
    Waiting,
    /// It has repeated strobes since then.
    Strobing(u64),
    /// Its receiver listens for the frame.
    Sending,
}

/// Timers.
const START: u16 = 0;
const STROBE: u16 = 1;
const SENT: u16 = 2;
const FREE: u16 = 3;
const LAPSE: u16 = 4;

impl XMac {
    fn radio(&mut self, id: NodeId) -> &mut Radio {
        &mut self.radios[usize::from(id.0)]
    }

    /// Whether a neighbour of `id` other than `except` is on the air.
    fn is_disturbed(&self, topology: &Topology, id: NodeId, except: NodeId, now: u64) -> bool {
        topology.hears(id).iter().filter(|other| **other != except).any(|other| {
            match self.radios[usize::from(other.0)].state {
                State::Strobing(since) => since < now,
                State::Sending => true,
                State::Off | State::Waiting => false,
            }
        })
    }

    /// The first time at or after `at` that it begins to listen, unless it is taken then.
    fn listens_at(&self, id: NodeId, at: u64) -> u64 {
        let Radio { phase, taken_until, .. } = self.radios[usize::from(id.0)];
        let at = at.max(taken_until);
        phase + at.saturating_sub(phase).div_ceil(self.interval) * self.interval
    }

    /// When the first strobe at or after `from` is over that the receiver can hear whole while it
    /// listens, of those repeated since `since`; some time after the last of them if there is none.
    fn heard_at(&self, to: NodeId, since: u64, from: u64) -> u64 {
        let strobe_at = |earliest: u64| {
            since + (earliest - since).div_ceil(PERIOD_MICROS).max(1) * PERIOD_MICROS
        };
        let next = strobe_at(from) + STROBE_MICROS;
        if self.radios[usize::from(to.0)].awake.is_some_and(|awake| next <= awake.until) {
            return next;
        }
        // The last time it began to listen by then.
        let mut wake = self.listens_at(to, (from + 1).saturating_sub(self.interval));
        let last = since + self.most_micros();
        loop {
            let strobe = strobe_at(wake.max(from));
            if strobe + STROBE_MICROS <= wake + ON_MICROS || wake > last {
                return strobe + STROBE_MICROS;
            }
            wake += self.interval;
        }
    }

    /// A node has heard a strobe: it keeps its radio on.
    fn stay_awake(&mut self, air: &mut Air<'_>, id: NodeId) {
        let now = air.now.as_micros();
        let interval = self.interval;
        let radio = self.radio(id);
        let next = radio.phase + (now.saturating_sub(radio.phase) / interval + 1) * interval;
        let since = radio.awake.filter(|awake| awake.until > now).map_or(now, |awake| awake.since);
        radio.awake = Some(Awake { since, until: next + ON_MICROS });
        air.wake_at(next, LAPSE, id.0.into());
    }

    /// Puts listening until `until` on the account of a node that is awake for a frame, but for the
    /// listening period after it, which every node's account has anyway.
    fn settle(&mut self, air: &mut Air<'_>, id: NodeId, until: u64) {
        if let Some(awake) = &mut self.radio(id).awake {
            let until = until.min(awake.until - ON_MICROS);
            air.energy.spend(id, Use::Listen, until.saturating_sub(awake.since));
            awake.since = awake.since.max(until);
        }
    }

    /// The next listening period begins.
    fn lapse(&mut self, air: &mut Air<'_>, id: NodeId) {
        let now = air.now.as_micros();
        if self.radio(id).awake.is_some_and(|awake| awake.until == now + ON_MICROS) {
            self.settle(air, id, now);
        }
    }

    /// Strobes end after this long without an acknowledgement.
    const fn most_micros(&self) -> u64 {
        self.interval + 3 * ON_MICROS
    }

    /// Takes up the first frame, if there is one.
    fn begin(&mut self, air: &mut Air<'_>, id: NodeId) {
        let now = air.now.as_micros();
        let radio = self.radio(id);
        if radio.state != State::Off || radio.queue.is_empty() || radio.taken_until > now {
            return;
        }
        radio.busy_since = now;
        self.plan(air, id, now);
    }

    /// Sets out to strobe at `at` or, knowing when the receiver listens, shortly before that.
    fn plan(&mut self, air: &mut Air<'_>, id: NodeId, at: u64) {
        let radio = self.radio(id);
        let Some((to, _)) = radio.queue.front() else { return };
        let to = *to;
        // Two who do not hear each other and have tried at once would meet again.
        let is_first = radio.tries == 0;
        let at = match self.settings.phase_lock && is_first {
            true => at.max(self.listens_at(to, at).saturating_sub(GUARD_MICROS)),
            false => at,
        };
        self.radio(id).state = State::Waiting;
        air.wake_at(at, START, id.0.into());
    }

    /// Tries again after a random while.
    fn plan_later(&mut self, air: &mut Air<'_>, id: NodeId) {
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
            return self.plan_later(air, id);
        }
        radio.state = State::Strobing(now);
        // It waits for others no longer.
        self.settle(air, id, now);
        self.radio(id).awake = None;
        let at = self.heard_at(to, now, now);
        self.await_strobe(air, id, now, at);
    }

    /// Waits until a strobe may be heard, or until it is given up.
    fn await_strobe(&self, air: &mut Air<'_>, id: NodeId, since: u64, at: u64) {
        air.wake_at(at.min(since + self.most_micros()), STROBE, id.0.into());
    }

    /// A strobe ends that the receiver may have heard, or the last one does.
    fn strobe(&mut self, air: &mut Air<'_>, id: NodeId) {
        let now = air.now.as_micros();
        let most = self.most_micros();
        let radio = self.radio(id);
        let (State::Strobing(since), Some((to, _))) = (radio.state, radio.queue.front()) else {
            return;
        };
        let to = *to;
        let is_over = now >= since + most;
        let there = &self.radios[usize::from(to.0)];
        let is_deaf = matches!(there.state, State::Strobing(_) | State::Sending)
            || there.taken_until > now
            || self.is_disturbed(air.topology, to, id, now);
        if !is_over && !is_deaf && air.signal(id, to, STROBE_BYTES) {
            self.stay_awake(air, to);
            air.energy.spend(to, Use::Send, airtime_micros(ANSWER_BYTES));
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
            return self.plan_later(air, id);
        }
        radio.tries = 0;
        radio.queue.pop_front();
        radio.state = State::Off;
        self.wait_no_more(air, id);
        self.begin(air, id);
    }

    /// Sends the frame to a receiver that listens for it.
    fn data(&mut self, air: &mut Air<'_>, id: NodeId, to: NodeId, from: u64) {
        let radio = self.radio(id);
        let Some((_, frame)) = radio.queue.front() else { return };
        let airtime = airtime_micros(frame.len());
        let end = from + airtime;
        (radio.state, radio.tries, radio.taken_until) = (State::Sending, 0, end);
        self.radio(to).taken_until = end;
        air.energy.spend(id, Use::Send, airtime);
        air.energy.spend(id, Use::Listen, ANSWER_MICROS);
        air.energy.spend(to, Use::Listen, airtime + 2 * TURNAROUND_MICROS);
        // What it listened for before this strobe; the rest stands above.
        let strobed = from - ANSWER_MICROS;
        self.settle(air, to, strobed);
        if let Some(awake) = &mut self.radio(to).awake {
            awake.since = end;
        }
        air.wake_at(end, SENT, id.0.into());
        air.wake_at(end, FREE, to.0.into());
    }

    /// The frame has been sent.
    fn sent(&mut self, air: &mut Air<'_>, id: NodeId) {
        let now = air.now.as_micros();
        let Some((to, frame)) = self.radio(id).queue.pop_front() else { return };
        self.wait_no_more(air, id);
        let start = now - airtime_micros(frame.len());
        let comes = air.frame(start, id, to, &frame);
        // Who could not hear this sender may have begun to strobe meanwhile.
        if comes && !self.is_disturbed(air.topology, to, id, now) {
            self.radio(to).awake = None;
            air.arrive(now, to, frame);
        }
        self.radio(id).state = State::Off;
        self.begin(air, id);
    }

    /// Counts the processor's waiting.
    fn wait_no_more(&mut self, air: &mut Air<'_>, id: NodeId) {
        if self.settings.busy_wait {
            let waited = air.now.as_micros() - self.radio(id).busy_since;
            air.energy.spend(id, Use::Compute, waited);
        }
    }

    /// Counts strobes, and the listening between them.
    fn spend(&self, air: &mut Air<'_>, id: NodeId, since: u64, until: u64) {
        let strobes = (until - since) / PERIOD_MICROS;
        let sending = strobes * STROBE_MICROS;
        let listening = match self.settings.on_between_strobes {
            true => (until - since).saturating_sub(sending),
            false => strobes * airtime_micros(ANSWER_BYTES),
        };
        air.energy.spend(id, Use::Send, sending);
        air.energy.spend(id, Use::Listen, listening);
    }
}

impl LinkLayer for XMac {
    fn send(&mut self, air: &mut Air<'_>, from: NodeId, to: NodeId, frame: Vec<u8>) {
        self.radio(from).queue.push_back((to, frame));
        self.begin(air, from);
    }

    fn handle(&mut self, air: &mut Air<'_>, timer: Timer) {
        let id = NodeId(timer.whose as u16);
        match timer.kind {
            START => self.start(air, id),
            STROBE => self.strobe(air, id),
            SENT => self.sent(air, id),
            LAPSE => self.lapse(air, id),
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
    use crate::handshakes::{Course, Profile};
    use crate::links::Layer;
    use crate::network::Network;

    fn radios(interval: u64) -> XMac {
        let settings = Settings::contiki(interval as f64 / 1e3);
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
        // Shortly before the second period, as with phase lock.
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

    /// Strobes in step with the listening periods that fall between them never arrive.
    #[test]
    fn strobes_that_are_never_heard_end() {
        let xmac = radios(23 * PERIOD_MICROS);
        let since = 23 * PERIOD_MICROS - STROBE_MICROS / 2;
        let at = xmac.heard_at(NodeId(1), since - 3 * PERIOD_MICROS, since);
        assert!(at > since, "{at}");
    }

    /// What a client listens where frames to it are lost: without loss 0.17 s at 500 ms.
    #[test]
    fn a_lost_frame_costs_its_receiver_an_interval_of_listening() {
        let listening = |delivery| {
            let network = Network {
                // Strobes and their acknowledgements are short.
                channel: crate::channels::Model::BitErrors { floor: 0.0, byte_errors: delivery },
                ..Network::line(2, Layer::XMac(Settings::contiki(500.0)))
            };
            let profile = Profile::by_name("tinydtls").expect("it is known");
            let of = |seed| {
                let outcomes = Course::single(&network, profile, seed).run().expect("it runs");
                let outcome = outcomes[0];
                outcome.duration.map(|_| outcome.spent.of(Use::Listen) as f64 / 1e6)
            };
            let all: Vec<f64> = (0..200).filter_map(of).collect();
            all.iter().sum::<f64>() / all.len() as f64
        };
        let (none, some) = (listening(0.0), listening(0.002));
        assert!(none < 0.3 && some > none + 0.1, "{none} {some}");
    }
}
