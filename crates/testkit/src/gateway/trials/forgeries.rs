//! An attacker on the path sends forged datagrams in place of, or in addition to, those of a
//! gateway.

use super::{Make, captured, flows, introduce};
use crate::gateway::world::{Datagram, World};
use lightseal_core::Random;

/// The kinds of forgeries. All but the last are made of datagrams that were delivered before.
pub const KINDS: [&str; 6] = ["invented", "altered", "replayed", "cut", "swapped", "raced"];
/// Number of kinds that are made of delivered datagrams only.
pub const OF_DELIVERED: usize = 5;

/// Length in bytes of the secure data of a frame.
const LEN: usize = 100;
/// Number of datagrams of each key epoch that are kept, to make forgeries from.
const KEPT: usize = 100;

/// The result of a trial.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub tried: [u64; KINDS.len()],
    /// Number of forgeries of each kind that reached the LAN.
    pub passed: [u64; KINDS.len()],
    /// Number of true datagrams that arrived after a forgery made from them.
    pub raced: u64,
    /// Number of true datagrams that were dropped because the forgery had arrived first.
    pub burnt: u64,
}

impl Outcome {
    /// Number of forgeries made of delivered datagrams that reached the LAN.
    pub fn passed_of_delivered(&self) -> u64 {
        self.passed[..OF_DELIVERED].iter().sum()
    }

    /// Number of all forgeries that reached the LAN.
    pub fn passed(&self) -> u64 {
        self.passed.iter().sum()
    }
}

/// Sends `forgeries` forgeries, all kinds in turn, against four flows in two key epochs whose keys
/// both open datagrams.
pub fn run(scheme: Make, seed: u64, forgeries: u64) -> Outcome {
    let mut random = Random::insecure(seed);
    let mut world = World::up(2, scheme);
    let flows = flows(4);
    let mut pn = 1;
    let next = |world: &mut World, random: &mut Random, pn: &mut u32| {
        *pn += 1;
        let flow = flows[random.below(flows.len() as u64) as usize];
        captured(world, &flow.frame(*pn, LEN))
    };
    let mut seen = Vec::new();
    for epoch in 0..2 {
        if epoch > 0 {
            world.connect_two(0, 1, [0x66; 32]);
            world.settle();
        }
        introduce(&mut world, &flows, pn);
        pn += 2;
        for _ in 0..KEPT {
            let datagram = next(&mut world, &mut random, &mut pn);
            assert!(world.arrive(&datagram), "an unchanged datagram arrives");
            seen.push(datagram);
        }
    }
    let mut outcome = Outcome::default();
    for attempt in 0..forgeries {
        let kind = (attempt % KINDS.len() as u64) as usize;
        let [one, other] = [0, 1].map(|_| random.below(seen.len() as u64) as usize);
        let fresh = (kind == OF_DELIVERED).then(|| next(&mut world, &mut random, &mut pn));
        let of = fresh.as_ref().unwrap_or(&seen[one]);
        let forged = forge(kind, of, &seen[other], &mut random);
        outcome.tried[kind] += 1;
        outcome.passed[kind] += u64::from(world.arrive(&forged));
        if let Some(fresh) = fresh {
            outcome.raced += 1;
            outcome.burnt += u64::from(!world.arrive(&fresh));
            // Delivers beacons that have become due.
            world.settle();
            world.deliver();
        }
        world.sites.iter_mut().for_each(|site| site.lan.clear());
    }
    outcome
}

fn forge(kind: usize, of: &Datagram, other: &Datagram, random: &mut Random) -> Datagram {
    let mut forged = of.clone();
    let len = of.bytes.len();
    let mut below = |limit: usize| random.below(limit as u64) as usize;
    match KINDS[kind] {
        "invented" => random.fill(&mut forged.bytes[1..]),
        "altered" => {
            for _ in 0..=below(3) {
                forged.bytes[below(len)] ^= 1 << below(8);
            }
            if forged == *of {
                forged.bytes[len - 1] ^= 1;
            }
        }
        "replayed" => {}
        "cut" => forged.bytes.truncate(below(len)),
        "swapped" => {
            // Puts the front of another datagram, up to some position in or near the header, before
            // the rest of this one.
            let header = (8 + below(40)).min(len.min(other.bytes.len()));
            forged.bytes[..header].copy_from_slice(&other.bytes[..header]);
        }
        _ => {
            let data = len.min(other.bytes.len()) - LEN;
            let at = data + below(LEN / 2);
            forged.bytes[at..].copy_from_slice(&other.bytes[other.bytes.len() - (len - at)..]);
        }
    }
    forged
}
