//! A device on a LAN sends frames with invented source addresses.

use super::{Make, flows, introduce};
use crate::gateway::world::{Flow, World};
use core::time::Duration;
use lightseal_core::Random;
use std::collections::VecDeque;

/// Number of flows that existed before the flood.
const OLD: u8 = 8;
/// Number of frames that are on their way at the same time.
const BATCH: u32 = 500;

/// The size of the flood.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    pub seconds: u32,
    /// Number of frames a second; a multiple of [`BATCH`].
    pub frames_a_second: u32,
}

/// The result. The maxima are over both gateways, and are taken once a second.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub invented: u32,
    /// The most flows that are sent, and that are received.
    pub flows: (usize, usize),
    /// The most stations that are known in all, and at one port.
    pub stations: (usize, usize),
    /// Number of bytes allocated before the flood, with the old flows.
    pub bytes_before: usize,
    /// The most bytes allocated in the first half of the flood, and in the second.
    pub bytes: [usize; 2],
    /// Number of frames of old flows in both directions, and how many of them did not arrive
    /// unchanged.
    pub old: u32,
    pub old_lost: u32,
}

/// Floods site 0 with frames, each of a new source: half of them to a known station, half to
/// invented ones. `heap` returns the number of allocated bytes.
pub fn run(scheme: Make, flood: Flood, heap: impl Fn() -> usize) -> Outcome {
    let mut world = World::up(2, scheme);
    let old = flows(OLD);
    introduce(&mut world, &old, 1);
    forget(&mut world);
    let mut outcome = Outcome { bytes_before: heap(), ..Outcome::default() };
    let mut random = Random::insecure(9);
    for second in 0..flood.seconds {
        for _ in 0..flood.frames_a_second / BATCH {
            for _ in 0..BATCH {
                outcome.invented += 1;
                let [a, b, c, d] = outcome.invented.to_be_bytes();
                let known = Flow { source: [2, 9, a, b, c, d], ..Flow::between(0, 1) };
                let destination = [2, 8, a, b, c, d];
                let unknown = random.below(2) == 0;
                let flow = if unknown { Flow { destination, ..known } } else { known };
                world.frame(0, &flow.frame(1, 60));
            }
            world.deliver();
            world.sites.iter_mut().for_each(|site| site.lan.clear());
        }
        for flow in &old {
            for (from, flow) in [(0, *flow), (1, flow.back())] {
                let frame = flow.frame(3 + second, 60);
                world.carry(from, &frame);
                let lan = &mut world.sites[1 - from].lan;
                outcome.old += 1;
                outcome.old_lost +=
                    u32::from(lan.iter().filter(|seen| **seen == frame).count() != 1);
                lan.clear();
            }
        }
        outcome.look(&mut world, &heap, second >= flood.seconds / 2);
        world.advance(Duration::from_secs(1));
        world.deliver();
        forget(&mut world);
    }
    outcome
}

impl Outcome {
    fn look(&mut self, world: &mut World, heap: &impl Fn() -> usize, is_second_half: bool) {
        forget(world);
        let bytes = &mut self.bytes[usize::from(is_second_half)];
        *bytes = (*bytes).max(heap());
        for site in &world.sites {
            let gateway = &site.gateway;
            let (sent, received) = gateway.scheme().flow_counts();
            self.flows = (self.flows.0.max(sent), self.flows.1.max(received));
            let at = [
                lightseal_gateway::stations::Port::Lan,
                lightseal_gateway::stations::Port::Peer(lightseal_gateway::stations::PeerIndex(0)),
            ];
            let most =
                at.map(|port| gateway.stations().len_at(port)).into_iter().max().unwrap_or(0);
            self.stations =
                (self.stations.0.max(gateway.stations().len()), self.stations.1.max(most));
        }
    }
}

/// Frees what the trial itself keeps, so that it is not counted.
fn forget(world: &mut World) {
    world.wire = VecDeque::new();
    for site in &mut world.sites {
        site.lan = Vec::new();
        site.events = Vec::new();
    }
}
