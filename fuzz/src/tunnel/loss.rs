//! Datagrams that are lost in a row, or overtake each other.

use super::rows;
use super::trials::{Make, captured, flows, introduce};
use super::world::{Flow, World};
use core::time::Duration;
use gateway::schemes::identifier::Settings;
use serde_json::{Value, json};
use vocabulary::Random;

/// Secure data of a frame.
const LEN: usize = 60;
/// Frames that are lost in a row.
const BURSTS: [u32; 3] = [1, 10, 1000];
/// Frames that are watched after a burst.
const AFTER: u32 = 50;
/// As many as the window of `identifier-paper`.
const STALLING: u32 = 64;

/// Several flows, and where their packet numbers are.
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

    /// The next frame of any flow.
    fn frame(&mut self) -> Vec<u8> {
        let flow = self.random.below(self.flows.len() as u64) as usize;
        self.next[flow] += 1;
        self.flows[flow].frame(self.next[flow] - 1, LEN)
    }

    /// So many frames are sent, and all that leaves the gateway meanwhile is lost, beacons too.
    fn lose(&mut self, frames: u32) {
        for _ in 0..frames {
            let frame = self.frame();
            self.world.frame(0, &frame);
            self.world.settle();
            self.world.wire.clear();
        }
    }

    /// So many frames are sent, and none lost: of how many the like did not appear once, and
    /// nothing else.
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

    /// As many frames as the window has overtake each other in any order: how many do not appear.
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
        // What came twice or altered counts as well.
        (frames.len().max(seen.len()) - found) as u32
    }
}

/// Bursts of loss of each length, so many of each, in a lone flow and in ten; as many times a
/// window of frames in another order; and what becomes of 10 000 frames after a burst of 64.
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

/// Frames that may overtake each other.
fn window(scheme: &str) -> u32 {
    let window = match scheme {
        "identifier" => Settings::default().behind,
        "identifier-paper" => Settings::paper().behind,
        _ => gateway::tuning::WINDOW,
    };
    window as u32
}

const AFTER_STALL: u32 = 10_000;

/// Of the frames after a burst as long as the paper's window, a millisecond between them, those
/// that do not arrive.
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
