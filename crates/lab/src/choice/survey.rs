//! The best member of each family on many channels.

use super::SimulationParameters;
use super::channel::{ChannelFamily, uniform};
use crate::parallel::parallel;
use ::lightseal_aggregation::choice::replay::{DELAY, Replay};
use ::lightseal_aggregation::choice::{Family, MEMBERS, tag_sixteenths};
use lightseal_core::Random;

/// One channel with one payload length.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The channel's number. Together with the seed it determines the channel.
    pub channel: usize,
    /// Payload of each record, in bytes.
    pub payload_bytes: u16,
    /// The share of packets lost, from 0 to 1.
    pub loss: f64,
    /// The mean number of packets lost in a row.
    pub burst: f64,
    /// Bytes of verified payload divided by bytes sent, by family and member.
    pub goodput: [[f64; MEMBERS]; 2],
}

impl Sample {
    /// The index of the family's best member. If two are equal, it is the one whose tags cover
    /// fewer records.
    pub fn best(&self, family: Family) -> usize {
        let goodput = &self.goodput[family as usize];
        (0..MEMBERS).max_by(|a, b| goodput[*a].total_cmp(&goodput[*b])).unwrap_or(0)
    }
}

/// Samples every channel of the plan.
pub fn survey(parameters: &SimulationParameters, channel_family: &ChannelFamily) -> Vec<Sample> {
    parallel(parameters.channels, |channel| sample(parameters, channel_family, channel))
}

fn sample(
    parameters: &SimulationParameters,
    channel_family: &ChannelFamily,
    channel: usize,
) -> Sample {
    let mut random = Random::insecure(parameters.seed ^ (channel as u64 + 1) << 32);
    let payload_bytes = uniform_payload(&mut random, parameters);
    let arrived = channel_family.packets(&mut random, parameters.packets);
    let lost = arrived.iter().filter(|arrived| !**arrived).count();
    let first = usize::from(arrived.first() == Some(&false));
    let bursts = first + arrived.windows(2).filter(|pair| pair[0] && !pair[1]).count();
    let goodput = Family::ALL.map(|family| {
        let verified = verified(family, &arrived);
        std::array::from_fn(|member| {
            let record = record_bytes(parameters, family, member, payload_bytes);
            let share = verified[member] as f64 / arrived.len() as f64;
            share * f64::from(payload_bytes) / record
        })
    });
    Sample {
        channel,
        payload_bytes,
        loss: lost as f64 / arrived.len() as f64,
        burst: if bursts == 0 { 0.0 } else { lost as f64 / bursts as f64 },
        goodput,
    }
}

fn uniform_payload(random: &mut Random, parameters: &SimulationParameters) -> u16 {
    let range = f64::from(*parameters.payload_bytes.start())
        ..=f64::from(parameters.payload_bytes.end() + 1);
    (uniform(random, &range) as u16).min(*parameters.payload_bytes.end())
}

/// The mean length of a record, in bytes.
pub fn record_bytes(
    parameters: &SimulationParameters,
    family: Family,
    member: usize,
    payload_bytes: u16,
) -> f64 {
    let tag = f64::from(tag_sixteenths(family.members()[member])) / 16.0;
    f64::from(payload_bytes) + f64::from(parameters.accounting.overhead_bytes()) + tag
}

/// The number of an epoch's records that each member verifies.
pub fn verified(family: Family, arrived: &[bool]) -> [usize; MEMBERS] {
    let mut replay = Replay::new(family);
    let mut count = [0; MEMBERS];
    for arrived in arrived.iter().copied().chain([false; DELAY]) {
        if let Some(verified) = replay.note(arrived) {
            for (count, verified) in count.iter_mut().zip(verified) {
                *count += usize::from(verified);
            }
        }
    }
    count
}
