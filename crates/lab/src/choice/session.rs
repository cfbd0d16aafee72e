//! The rules at work on a channel, compared with the best fixed member in hindsight.

use super::SimulationParameters;
use super::channel::{ChannelFamily, uniform};
use super::survey::record_bytes;
use crate::parallel::parallel;
use ::lightseal_aggregation::choice::replay::{DELAY, Replay};
use ::lightseal_aggregation::choice::{Family, Hindsight, LossRate, MEMBERS, RecordFate};
use ::lightseal_aggregation::{Overprovision, Scheme};
use lightseal_core::Random;

/// Bytes that a change of parameters costs in the direction it applies to: a record with the
/// acknowledgement, a full tag and the closing tag.
const CHANGE_BYTES: f64 = 64.0;

/// Number of records from a rule's decision to the peer's first record that follows it.
const CHANGE_TAKES: usize = 2;

/// The rules that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// [`LossRate`], the rule of the paper.
    LossRate,
    /// [`Hindsight`], our own rule.
    Hindsight,
}

impl Rule {
    /// The two rules, in the order of results.
    pub const ALL: [Self; 2] = [Self::LossRate, Self::Hindsight];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LossRate => "loss-rate",
            Self::Hindsight => "hindsight",
        }
    }
}

/// The result of a session under a rule.
#[derive(Clone, Copy, Debug, Default)]
pub struct RuleResult {
    /// Bytes of verified payload divided by bytes sent.
    pub goodput: f64,
    /// Number of changes of parameters.
    pub changes: u32,
}

/// The results on one channel: those of every fixed member and of every rule.
#[derive(Clone, Copy, Debug)]
pub struct ChannelResult {
    /// Payload of each record, in bytes.
    pub payload_bytes: u16,
    /// The share of packets lost, from 0 to 1.
    pub loss: f64,
    /// Goodput of each member if it is kept throughout.
    pub fixed: [f64; MEMBERS],
    /// The results of each rule in [`Rule::ALL`].
    pub ruled: [RuleResult; Rule::ALL.len()],
}

impl ChannelResult {
    /// Goodput of the member that proved best.
    pub fn best(&self) -> f64 {
        self.fixed.into_iter().fold(0.0, f64::max)
    }
}

/// Runs the rules on every channel of the plan. Sessions begin with plain tags.
pub fn sessions(
    parameters: &SimulationParameters,
    channel_family: &ChannelFamily,
    family: Family,
) -> Vec<ChannelResult> {
    parallel(parameters.channels, |channel| {
        let mut random = Random::insecure(parameters.seed ^ (channel as u64 + 1) << 32);
        let range = f64::from(*parameters.payload_bytes.start())
            ..=f64::from(parameters.payload_bytes.end() + 1);
        let payload_bytes = uniform(&mut random, &range) as u16;
        let payload_bytes = payload_bytes.min(*parameters.payload_bytes.end());
        let arrived = channel_family.packets(&mut random, parameters.packets);
        let trial = ChannelTrial { parameters, family, arrived: &arrived, payload_bytes };
        ChannelResult {
            payload_bytes,
            loss: arrived.iter().filter(|arrived| !**arrived).count() as f64 / arrived.len() as f64,
            fixed: trial.fixed(),
            ruled: Rule::ALL.map(|rule| trial.ruled(rule)),
        }
    })
}

/// One channel with one payload length.
struct ChannelTrial<'a> {
    parameters: &'a SimulationParameters,
    family: Family,
    arrived: &'a [bool],
    payload_bytes: u16,
}

impl ChannelTrial<'_> {
    fn fixed(&self) -> [f64; MEMBERS] {
        let verified = super::survey::verified(self.family, self.arrived);
        std::array::from_fn(|member| {
            let record = record_bytes(self.parameters, self.family, member, self.payload_bytes);
            let share = verified[member] as f64 / self.arrived.len() as f64;
            share * f64::from(self.payload_bytes) / record
        })
    }

    fn ruled(&self, rule: Rule) -> RuleResult {
        let overhead = self.parameters.accounting.overhead_bytes();
        match rule {
            Rule::LossRate => {
                let mut rule = LossRate::new(self.family, Scheme::Plain);
                self.run(|seen| rule.note(seen))
            }
            Rule::Hindsight => {
                let mut rule = Hindsight::new(self.family, Scheme::Plain, overhead);
                self.run(|seen| rule.note(seen))
            }
        }
    }

    fn run(&self, mut note: impl FnMut(RecordFate) -> Option<Scheme>) -> RuleResult {
        let (mut member, mut first) = (MEMBERS - 1, 0);
        let (mut verified, mut bytes, mut changes) = (0, 0.0, 0);
        let mut pending = None;
        for (number, arrived) in self.arrived.iter().enumerate() {
            if let Some((when, next)) = pending
                && when == number
            {
                verified += self.epoch(first..number, member);
                (member, first, pending) = (next, number, None);
                bytes += CHANGE_BYTES;
                changes += 1;
            }
            bytes += record_bytes(self.parameters, self.family, member, self.payload_bytes);
            let seen =
                if *arrived { RecordFate::Arrived(self.payload_bytes) } else { RecordFate::Lost };
            if let Some(scheme) = note(seen)
                && let Some(place) = self.family.index_of(scheme)
            {
                pending = Some((number + CHANGE_TAKES, place));
            }
        }
        verified += self.epoch(first..self.arrived.len(), member);
        let goodput = verified as f64 * f64::from(self.payload_bytes) / bytes;
        RuleResult { goodput, changes }
    }

    /// Number of records of an epoch that are verified, with a closing tag at its end.
    fn epoch(&self, records: std::ops::Range<usize>, member: usize) -> usize {
        let arrived = &self.arrived[records];
        let open = match self.family.members()[member] {
            Scheme::Agg(n) => arrived.len() % usize::from(n.get()),
            Scheme::R2d2(o) => delay(o).min(arrived.len()),
            _ => 0,
        };
        let closed = arrived[arrived.len() - open..].iter().all(|arrived| *arrived);
        let mut replay = Replay::new(self.family);
        let mut count = 0;
        for (number, now) in arrived.iter().copied().chain([false; DELAY]).enumerate() {
            let Some(decided) = replay.note(now) else { continue };
            let closed = closed && number - DELAY >= arrived.len() - open;
            count += usize::from(decided[member] || closed);
        }
        count
    }
}

/// Number of records that await verification at any time if none is lost.
const fn delay(o: Overprovision) -> usize {
    match o.percent() {
        50 => 26,
        100 => 17,
        150 => 12,
        _ => 9,
    }
}
