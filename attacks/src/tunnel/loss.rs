//! Datagrams that are lost in bursts, or reordered.

use super::rows;
use core::time::Duration;
use lightseal_core::Random;
use lightseal_gateway::schemes::identifier::IdentifierSettings;
use serde_json::{Value, json};
use testkit::gateway::trials::{Make, captured, flows, introduce};
use testkit::gateway::world::{Flow, World};

/// Length in bytes of a frame's secure data.
const LEN: usize = 60;
/// Lengths of bursts of loss, in frames.
const BURSTS: [u32; 3] = [1, 10, 1000];
/// Number of frames that are watched after a burst.
const AFTER: u32 = 50;
/// Length in frames of a burst as long as the window of `identifier-paper`.
const STALLING: u32 = 64;

/// Several flows and their next packet numbers.
struct Senders {
    world: World,
    flows: Vec<Flow>,
    next: Vec<u32>,
    random: Random,
}

impl Senders {
    fn new(make: Make, seed: u64, many: u8) -> Self {
        let mut world = World::up_from(seed, 2, make);
        let flows = flows(many);
        introduce(&mut world, &flows, 1);
        let next = vec![3; flows.len()];
        Self { world, flows, next, random: Random::insecure(seed) }
    }

    /// The next frame of a randomly chosen flow.
    fn frame(&mut self) -> Vec<u8> {
        let flow = self.random.below(self.flows.len() as u64) as usize;
        self.next[flow] += 1;
        self.flows[flow].frame(self.next[flow] - 1, LEN)
    }

    /// Sends `frames` frames and loses all datagrams that leave the gateway meanwhile, beacons too.
    fn lose(&mut self, frames: u32) {
        for _ in 0..frames {
            let frame = self.frame();
            self.world.frame(0, &frame);
            self.world.settle();
            self.world.wire.clear();
        }
    }

    /// Sends `frames` frames without loss. Returns how many of them did not arrive as exactly one
    /// unchanged frame.
    fn missing(&mut self, frames: u32) -> u32 {
        let mut missing = 0;
        for _ in 0..frames {
            let frame = self.frame();
            self.world.carry(0, &frame);
            missing += u32::from(self.world.sites[1].lan != [frame]);
            self.world.sites[1].lan.clear();
        }
        missing
    }

    /// Sends a window of frames, delivers their datagrams in random order, and returns how many
    /// frames do not arrive.
    fn missing_of_reordered(&mut self, window: u32) -> u32 {
        let mut frames = Vec::new();
        let mut datagrams = Vec::new();
        for _ in 0..window {
            let frame = self.frame();
            datagrams.push(captured(&mut self.world, &frame));
            frames.push(frame);
        }
        for at in (1..datagrams.len()).rev() {
            datagrams.swap(at, self.random.below(at as u64 + 1) as usize);
        }
        self.world.wire.extend(datagrams);
        self.world.deliver();
        let mut seen = core::mem::take(&mut self.world.sites[1].lan);
        seen.sort();
        frames.sort();
        let found = frames.iter().filter(|frame| seen.binary_search(frame).is_ok()).count();
        // Frames that arrived twice or altered count as missing as well.
        (frames.len().max(seen.len()) - found) as u32
    }
}

/// For each scheme: how many frames are missing after `rounds` bursts of loss of each length, in a
/// single flow and in ten; how many are missing of `rounds` windows of reordered frames; and how
/// many of 10 000 frames are missing after a burst of 64.
pub fn loss(seed: u64, names: &[String], rounds: u32) -> Value {
    rows(names, |scheme, make| {
        let mut bursts = Vec::new();
        let (mut missing, mut out_of_order) = (0, 0);
        for many in [1, 10] {
            for burst in BURSTS {
                let mut senders = Senders::new(make, seed, many);
                let mut lost = 0;
                for _ in 0..rounds {
                    senders.lose(burst);
                    lost += senders.missing(AFTER);
                }
                missing += lost;
                bursts.push(json!({
                    "flows": many,
                    "burst": burst,
                    "bursts": rounds,
                    "sent_after": rounds * AFTER,
                    "missing": lost,
                }));
            }
        }
        let window = window(scheme);
        for many in [1, 10] {
            let mut senders = Senders::new(make, seed, many);
            out_of_order += (0..rounds).map(|_| senders.missing_of_reordered(window)).sum::<u32>();
        }
        json!({
            "scheme": scheme,
            "bursts": bursts,
            "missing": missing,
            "window": window,
            "reordered": 2 * rounds * window,
            "reordered_missing": out_of_order,
            "stalling_burst": STALLING,
            "after_stall": AFTER_STALL,
            "after_stall_missing": after_stall(make, seed),
        })
    })
}

/// Number of frames that may be reordered under this scheme.
fn window(scheme: &str) -> u32 {
    let window = match scheme {
        "identifier" => IdentifierSettings::default().behind,
        lightseal_gateway_papers::identifier::NAME => lightseal_gateway_papers::identifier::WINDOW,
        _ => lightseal_gateway::tuning::REPLAY_WINDOW,
    };
    window as u32
}

const AFTER_STALL: u32 = 10_000;

/// How many frames do not arrive after a burst of loss as long as the paper's window, if one frame
/// is sent each millisecond.
fn after_stall(make: Make, seed: u64) -> u32 {
    let mut senders = Senders::new(make, seed, 1);
    senders.lose(STALLING);
    let mut missing = 0;
    for _ in 0..AFTER_STALL {
        missing += senders.missing(1);
        senders.world.advance(Duration::from_millis(1));
        senders.world.deliver();
        senders.world.sites[1].lan.clear();
    }
    missing
}
