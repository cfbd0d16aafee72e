//! Somebody sends under the address of a station of another LAN.

use super::super::world::{Flow, World, station};
use super::Make;
use core::time::Duration;

/// How long a datagram is under way, and the step of the trial.
const DELAY: Duration = Duration::from_millis(20);
/// Steps before the first claim, and in all: a minute, with ten seconds for all to know each other.
const STEPS: (u32, u32) = (500, 3000);

/// What is tried.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claimed {
    /// Milliseconds between two frames of the station.
    pub(crate) every: u64,
    /// Frames under its address, a second apart.
    pub(crate) claims: u64,
}

/// What of 25 frames a second to the station arrives, from the first claim on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) sent: usize,
    pub(crate) arrived: usize,
}

impl Outcome {
    pub(crate) fn lost(self) -> usize {
        self.sent - self.arrived
    }
}

/// A station of LAN 1 sends to a station of LAN 2, which sends to LAN 0 alone, where somebody sends to LAN 1 under
/// its address.
pub(crate) fn run(scheme: Make, Claimed { every, claims }: Claimed) -> Outcome {
    let mut world = World::up(3, scheme);
    let victim = Flow::between(2, 0);
    let broadcast = Flow { destination: [0xff; 6], ..victim };
    let writer = Flow { source: station(1, 2), destination: victim.source, ..victim };
    let (claim, known) = (Flow { port: 9, ..Flow::between(2, 1) }, Flow::between(1, 0));
    world.carry(2, &broadcast.frame(1, 100));
    world.carry(0, &victim.back().frame(1, 100));
    world.carry(1, &known.frame(1, 100));
    let mut outcome = Outcome::default();
    let mut under_way = Vec::new();
    let mut first = true;
    for step in 0..STEPS.1 {
        let millis = u64::from(step) * DELAY.as_millis() as u64;
        world.advance(DELAY);
        world.sites[2].lan.clear();
        world.deliver_once();
        // A frame of an unknown flow waits for keys: it has until it is answered.
        under_way.retain(|frame| {
            let arrived = world.sites[2].lan.contains(frame);
            outcome.arrived += usize::from(arrived);
            !arrived
        });
        if millis.is_multiple_of(every) {
            world.frame(2, &victim.frame(step + 2, 100));
        }
        if step > STEPS.0 && millis.is_multiple_of(1000) && millis / 1000 <= claims + 10 {
            world.frame(0, &claim.frame(step, 100));
        }
        if step >= STEPS.0 && millis.is_multiple_of(40) && step + 50 < STEPS.1 {
            let frame = writer.frame(step + 1, 100);
            world.frame(1, &frame);
            // The first one makes the flow known.
            if !core::mem::take(&mut first) {
                outcome.sent += 1;
                under_way.push(frame);
            }
        }
    }
    outcome
}
