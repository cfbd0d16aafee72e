//! Whether an observer can sort the tunnel's datagrams into flows, or find what they hide.

mod world;

use gateway::flows::Limits;
use gateway::schemes::Scheme;
use gateway::schemes::compressed::Compressed;
use gateway::schemes::encryption::{self, Encryption};
use gateway::schemes::identifier::{Identifier, Settings};
use gateway::schemes::plain::Plain;
use gateway::schemes::sealed::Sealed;
use std::collections::BTreeMap;
use vocabulary::{Instant, Random};
use world::{Flow, World};

const START: Instant = Instant::from_micros(1_000_000);
const FLOWS: usize = 10;
const PACKETS: usize = 10_000;
/// Secure data of a frame, all alike: lengths are no secret of any scheme.
const LEN: usize = 64;
/// Bytes that are looked at: all headers, and some of what MACsec encrypted.
const SEEN: usize = 72;

/// A capture: datagrams, and of which flow each is.
struct Capture {
    flows: Vec<Flow>,
    packets: Vec<(usize, u32, Vec<u8>)>,
}

/// Ten flows of five devices, half of them from 0 and none with a PN near another's, in random order.
fn capture(scheme: fn(&mut Random) -> Box<dyn Scheme>) -> Capture {
    let mut world = World::up(2, scheme);
    let flows: Vec<Flow> = (0..FLOWS as u8)
        .map(|number| Flow {
            source: [0x5a, 0x17, 0xc3, 0x90, 0x3e, 0x61 + number / 2],
            destination: [0xa6, 0x2d, 0x84, 0x7b, 0x55, 0xd0 + number],
            port: 0x9c01 + u16::from(number),
            an: number % 4,
        })
        .collect();
    let mut next: [u32; FLOWS] = core::array::from_fn(|flow| (flow as u32 + 3) << 20 | 0x5_4321);
    let mut random = Random::insecure(99);
    let mut packets = Vec::new();
    for at in 0..PACKETS + 3 * FLOWS {
        // The first three of each make the flow known.
        let flow = if at < 3 * FLOWS { at % FLOWS } else { random.below(FLOWS as u64) as usize };
        let frame = flows[flow].frame(next[flow], LEN);
        world.wire.clear();
        world.frame(0, &frame);
        if let Some(datagram) = world.wire.front()
            && at >= 3 * FLOWS
        {
            packets.push((flow, next[flow], datagram.bytes.clone()));
        }
        next[flow] += 1;
        world.deliver();
        assert_eq!(world.sites[1].lan.pop(), Some(frame));
    }
    assert_eq!(packets.len(), PACKETS);
    Capture { flows, packets }
}

impl Capture {
    /// Finds what should be hidden: addresses, SCIs, whole PNs, and MACsec's EtherType more often
    /// than chance has it.
    fn leaks(&self) -> usize {
        let mut leaks = 0;
        let mut ethertypes = 0;
        for (flow, pn, bytes) in &self.packets {
            let Flow { source, destination, .. } = self.flows[*flow];
            leaks += bytes.windows(6).filter(|at| *at == source || *at == destination).count();
            leaks += bytes.windows(4).filter(|at| *at == pn.to_be_bytes()).count();
            ethertypes += bytes.windows(2).filter(|at| *at == [0x88, 0xe5]).count();
        }
        // Some 1.2 million pairs of bytes have it 18 times by chance.
        leaks + if ethertypes > 50 { ethertypes } else { 0 }
    }

    /// Mutual information with the flow, in thousandths of a bit, of whatever `feature` makes of a
    /// packet and the one before, less what the same feature has with flows by lot.
    fn information(&self, feature: impl Fn(&[u8], &[u8]) -> u8) -> i64 {
        let mut values: Vec<u8> = vec![0];
        let pairs = self.packets.windows(2);
        values.extend(pairs.map(|pair| feature(&pair[1].2, &pair[0].2)));
        let flows: Vec<usize> = self.packets.iter().map(|(flow, ..)| *flow).collect();
        let mut by_lot = flows.clone();
        let mut random = Random::insecure(3);
        for at in (1..by_lot.len()).rev() {
            by_lot.swap(at, random.below(at as u64 + 1) as usize);
        }
        ((mutual(&values, &flows) - mutual(&values, &by_lot)) * 1000.0) as i64
    }

    /// The most that any byte, any byte's step from the packet before, or two bytes near each
    /// other tell of the flow.
    fn most_information(&self) -> i64 {
        let alone = (0..SEEN).flat_map(|at| {
            [
                self.information(|bytes, _| bytes[at]),
                self.information(|bytes, before| bytes[at].wrapping_sub(before[at])),
            ]
        });
        let pairs = (0..40).flat_map(|at| (1..8).map(move |ahead| (at, at + ahead)));
        let pairs = pairs.flat_map(|(at, other)| {
            [
                self.information(|bytes, _| bytes[at] << 4 | bytes[other] & 15),
                self.information(|bytes, _| bytes[at] ^ bytes[other]),
            ]
        });
        alone.chain(pairs).max().unwrap_or(0)
    }

    /// Positions whose byte hardly changes within any one flow, and does from flow to flow.
    fn constant_positions(&self) -> usize {
        let constant = |at: &usize| {
            let mut of_flow: [BTreeMap<u8, usize>; FLOWS] = Default::default();
            for (flow, _, bytes) in &self.packets {
                *of_flow[*flow].entry(bytes[*at]).or_default() += 1;
            }
            let common: Vec<_> = of_flow
                .iter()
                .map(|counts| {
                    let (value, most) = counts.iter().max_by_key(|(_, count)| **count).unwrap();
                    (*value, most * 10 > counts.values().sum::<usize>() * 9)
                })
                .collect();
            common.iter().all(|(_, steady)| *steady) && common.iter().any(|of| *of != common[0])
        };
        (0..SEEN).filter(constant).count()
    }

    /// Values of eight bytes in a row that come twice anywhere in the capture's first 48 bytes,
    /// and are not in every packet.
    fn repeats(&self) -> usize {
        let mut count: BTreeMap<(usize, [u8; 8]), usize> = BTreeMap::new();
        for (_, _, bytes) in &self.packets {
            for at in 0..40 {
                *count.entry((at, bytes[at..at + 8].try_into().unwrap())).or_default() += 1;
            }
        }
        count.values().filter(|&&count| count > 1 && count < PACKETS).count()
    }
}

/// Mutual information in bits.
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
            count => count / n * (count * n / (of_value * f64::from(*flow))).log2(),
        };
        value.iter().zip(&of_flow).map(cell).sum()
    };
    joint.iter().map(bits).sum()
}

/// In thousandths of a bit, of 3.3 bits that a flow has. Two lots differ by some seven of them
/// at 10 000 packets, and the most of 700 is some five times that.
const CHANCE: i64 = 60;

fn hidden(scheme: fn(&mut Random) -> Box<dyn Scheme>) {
    let capture = capture(scheme);
    assert_eq!(capture.leaks(), 0);
    assert_eq!(capture.constant_positions(), 0);
    let most = capture.most_information();
    println!("at most {most} thousandths of a bit");
    assert!(most < CHANCE, "{most}");
}

#[test]
fn plain_is_sorted_into_flows_at_sight() {
    let capture = capture(|_| Box::new(Plain::new(7)));
    assert!(capture.leaks() >= 3 * PACKETS);
    assert!(capture.constant_positions() >= 3);
    assert!(capture.repeats() > 0);
    let most = capture.most_information();
    assert!(most > 3000, "{most}");
}

#[test]
fn sealed_tells_nothing_of_flows() {
    hidden(|_| Box::new(Sealed));
}

#[test]
fn short_headers_tell_nothing_of_flows() {
    hidden(|random| Box::new(Compressed::new(Limits::default(), random, START)));
}

#[test]
fn identifiers_tell_nothing_of_flows_and_never_repeat() {
    let make = |random: &mut Random| -> Box<dyn Scheme> {
        Box::new(Identifier::new(Settings::default(), random, START))
    };
    hidden(make);
    assert_eq!(capture(make).repeats(), 0);
}

#[test]
fn the_papers_encryption_tells_nothing_of_flows_and_never_repeats() {
    let make = |random: &mut Random| -> Box<dyn Scheme> {
        Box::new(Encryption::new(encryption::Settings::default(), random, START))
    };
    hidden(make);
}
