//! An observer who sees all datagrams of a tunnel, searches them for hidden values, and tries to
//! sort them into flows.

use super::Make;
use crate::gateway::world::{Flow, World};
use lightseal_core::{Random, math};
use std::collections::BTreeMap;

pub const FLOWS: usize = 10;
/// Length in bytes of the secure data of every frame: no scheme hides lengths.
const LEN: usize = 64;
/// Number of bytes of a datagram that are examined: all headers, and a part of MACsec's ciphertext.
const SEEN: usize = 72;

struct Packet {
    /// The flow of the packet, below [`FLOWS`].
    flow: usize,
    pn: u32,
    bytes: Vec<u8>,
}

/// Datagrams, with the flow of each.
pub struct Capture {
    flows: Vec<Flow>,
    packets: Vec<Packet>,
    random: Random,
}

/// How many times values occur that should be hidden.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leaks {
    /// Occurrences of station addresses.
    pub addresses: usize,
    /// Occurrences of whole SCIs; also of SCI ports if there are more than by chance.
    pub scis: usize,
    /// Occurrences of whole packet numbers; also of their lower halves if there are more than by
    /// chance.
    pub pns: usize,
    /// Number of positions where two bits depend on the association number.
    pub ans: usize,
    /// Occurrences of MACsec's EtherType, if there are more than by chance.
    pub ethertypes: usize,
}

impl Leaks {
    pub fn total(&self) -> usize {
        self.addresses + self.scis + self.pns + self.ans + self.ethertypes
    }
}

/// The mutual information with the flow in bits, minus that with randomly assigned flows.
#[derive(Clone, Copy, Debug)]
pub struct Information {
    /// The highest value over all features of packets.
    pub most: f64,
    /// The highest value over all features with another random assignment of flows.
    pub chance: f64,
    /// Number of features that were examined.
    pub features: usize,
}

impl Capture {
    /// Captures frames of ten flows of five devices at site 0, in random order. No flow has packet
    /// numbers near those of another flow.
    pub fn of(scheme: Make, seed: u64, packets: usize) -> Self {
        let mut world = World::up_from(seed, 2, scheme);
        let flows: Vec<Flow> = (0..FLOWS as u8)
            .map(|number| Flow {
                source: [0x5a, 0x17, 0xc3, 0x90, 0x3e, 0x61 + number / 2],
                destination: [0xa6, 0x2d, 0x84, 0x7b, 0x55, 0xd0 + number],
                port: 0x9c01 + u16::from(number),
                an: number % 4,
            })
            .collect();
        let mut next: [u32; FLOWS] =
            core::array::from_fn(|flow| (flow as u32 + 3) << 20 | 0x5_4321);
        let mut random = Random::insecure(seed ^ 99);
        let mut seen = Vec::new();
        for at in 0..packets + 3 * FLOWS {
            // The first three frames of each flow register the flow.
            let of_all = |random: &mut Random| random.below(FLOWS as u64) as usize;
            let flow = if at < 3 * FLOWS { at % FLOWS } else { of_all(&mut random) };
            let (pn, frame) = (next[flow], flows[flow].frame(next[flow], LEN));
            world.wire.clear();
            world.frame(0, &frame);
            if let Some(datagram) = world.wire.front()
                && at >= 3 * FLOWS
            {
                seen.push(Packet { flow, pn, bytes: datagram.bytes.clone() });
            }
            next[flow] += 1;
            world.deliver();
            assert_eq!(world.sites[1].lan.pop(), Some(frame));
        }
        assert_eq!(seen.len(), packets);
        Self { flows, packets: seen, random }
    }

    /// Counts the occurrences of values that should be hidden.
    pub fn leaks(&self) -> Leaks {
        let mut leaks = Leaks { ans: self.an_places(), ..Leaks::default() };
        let (mut ports, mut halves, mut pairs) = (0, 0, 0);
        for Packet { flow, pn, bytes } in &self.packets {
            let Flow { source, destination, port, .. } = self.flows[*flow];
            let count = |what: &[u8]| bytes.windows(what.len()).filter(|at| *at == what).count();
            leaks.addresses += count(&source) + count(&destination);
            leaks.scis += count(&[&source[..], &port.to_be_bytes()].concat());
            leaks.pns += count(&pn.to_be_bytes());
            leaks.ethertypes += count(&[0x88, 0xe5]);
            ports += count(&port.to_be_bytes());
            halves += count(&pn.to_be_bytes()[2..]);
            pairs += bytes.len() - 1;
        }
        // Among some 1.2 million pairs of bytes each value occurs 18 times by chance.
        let expected = pairs as f64 / 65_536.0;
        let limit = (expected + 8.0 * expected.sqrt().max(1.0)) as usize;
        let beyond = |count: usize| if count > limit { count } else { 0 };
        leaks.ethertypes = beyond(leaks.ethertypes);
        leaks.scis += beyond(ports);
        leaks.pns += beyond(halves);
        leaks
    }

    /// Number of positions of two successive bits that depend on the AN.
    fn an_places(&self) -> usize {
        let ans: Vec<_> =
            self.packets.iter().map(|of| usize::from(self.flows[of.flow].an)).collect();
        // By chance, the scaled information is chi-squared distributed with nine degrees of
        // freedom: one position in 10^11 exceeds 70.
        let scale = 2.0 * core::f64::consts::LN_2 * self.packets.len() as f64;
        let tells = |(at, shift): &(usize, u32)| {
            let values: Vec<_> =
                self.packets.iter().map(|packet| packet.bytes[*at] >> shift & 3).collect();
            mutual(&values, &ans) * scale > 70.0
        };
        (0..SEEN).flat_map(|at| (0..7).map(move |shift| (at, shift))).filter(tells).count()
    }

    /// How much single bytes, differences of a byte from the packet before, and pairs of nearby
    /// bytes tell about the flow.
    pub fn information(&mut self) -> Information {
        let flows: Vec<_> = self.packets.iter().map(|packet| packet.flow).collect();
        let mut lot = || {
            let mut flows = flows.clone();
            for at in (1..flows.len()).rev() {
                flows.swap(at, self.random.below(at as u64 + 1) as usize);
            }
            flows
        };
        let lots = [lot(), lot()];
        let mut told = Information { most: f64::MIN, chance: f64::MIN, features: 0 };
        let mut feature = |of: &dyn Fn(&[u8], &[u8]) -> u8| {
            let pairs = self.packets.windows(2);
            let values: Vec<u8> = core::iter::once(0)
                .chain(pairs.map(|pair| of(&pair[1].bytes, &pair[0].bytes)))
                .collect();
            let by_lot = mutual(&values, &lots[0]);
            told.most = told.most.max(mutual(&values, &flows) - by_lot);
            told.chance = told.chance.max(mutual(&values, &lots[1]) - by_lot);
            told.features += 1;
        };
        for at in 0..SEEN {
            feature(&|bytes, _| bytes[at]);
            feature(&|bytes, before| bytes[at].wrapping_sub(before[at]));
        }
        for (at, other) in (0..40).flat_map(|at| (1..8).map(move |ahead| (at, at + ahead))) {
            feature(&|bytes, _| bytes[at] << 4 | bytes[other] & 15);
            feature(&|bytes, _| bytes[at] ^ bytes[other]);
        }
        told
    }

    /// Number of positions whose byte hardly changes within a flow, but differs between flows.
    pub fn constant_positions(&self) -> usize {
        let constant = |at: &usize| {
            let mut of_flow: [BTreeMap<u8, usize>; FLOWS] = Default::default();
            for packet in &self.packets {
                *of_flow[packet.flow].entry(packet.bytes[*at]).or_default() += 1;
            }
            let common: Vec<_> = of_flow
                .iter()
                .map(|counts| {
                    let most = counts.iter().max_by_key(|(_, count)| **count);
                    let (value, most) = most.map_or((0, 0), |(value, most)| (*value, *most));
                    (value, most * 10 > counts.values().sum::<usize>() * 9)
                })
                .collect();
            common.iter().all(|(_, steady)| *steady) && common.iter().any(|of| *of != common[0])
        };
        (0..SEEN).filter(constant).count()
    }

    /// How many times eight successive bytes within the first 48 equal those of an earlier packet,
    /// at positions where this occurs more often than by chance.
    pub fn repeats(&self) -> usize {
        let varies =
            |at: &usize| self.packets.iter().any(|of| of.bytes[*at] != self.packets[0].bytes[*at]);
        let of_place = |at: usize| {
            let mut seen = BTreeMap::<&[u8], usize>::new();
            for packet in &self.packets {
                *seen.entry(&packet.bytes[at..at + 8]).or_default() += 1;
            }
            let pairs: usize = seen.values().map(|count| count * (count - 1) / 2).sum();
            // If all packets have a common prefix, fewer bytes have to agree by chance.
            let varying = (at..at + 8).filter(varies).count();
            let n = self.packets.len() as f64;
            let expected = n * n / 2.0 / math::powi(256.0, varying as i32);
            let is_chance = pairs as f64 <= expected + 8.0 * expected.sqrt();
            if varying == 0 || is_chance { 0 } else { pairs }
        };
        (0..40).map(of_place).sum()
    }
}

/// The mutual information in bits.
fn mutual(values: &[u8], flows: &[usize]) -> f64 {
    let mut joint = [[0u32; FLOWS]; 256];
    for (value, flow) in values.iter().zip(flows) {
        joint[usize::from(*value)][*flow] += 1;
    }
    let n = values.len() as f64;
    let of_flow: [u32; FLOWS] =
        core::array::from_fn(|flow| joint.iter().map(|value| value[flow]).sum());
    let bits = |value: &[u32; FLOWS]| -> f64 {
        let of_value = f64::from(value.iter().sum::<u32>());
        let cell = |(count, flow): (&u32, &u32)| match f64::from(*count) {
            0.0 => 0.0,
            count => count / n * math::log2(count * n / (of_value * f64::from(*flow))),
        };
        value.iter().zip(&of_flow).map(cell).sum()
    };
    joint.iter().map(bits).sum()
}
