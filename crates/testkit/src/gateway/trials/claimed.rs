//! A device sends frames with the source address of a station of another LAN.

use super::Make;
use crate::gateway::world::{Flow, World, station};
use core::time::Duration;

/// The delay of a datagram, and the length of a step of the trial.
const DELAY: Duration = Duration::from_millis(20);
/// Number of steps before the first claim, and in all: a minute, after ten seconds in which the
/// stations become known.
const STEPS: (u32, u32) = (500, 3000);

/// The parameters of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Claimed {
    /// Interval between two frames of the station, in milliseconds.
    pub every: u64,
    /// Number of frames with the station's address, one a second.
    pub claims: u64,
}

/// The result: how many of 25 frames a second to the station arrive, from the first claim on.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    pub sent: usize,
    pub arrived: usize,
}

impl Outcome {
    pub fn lost(self) -> usize {
        self.sent - self.arrived
    }
}

/// A station of LAN 1 sends to a station of LAN 2. That station sends only to LAN 0, where another
/// device sends frames to LAN 1 with the station's address.
pub fn run(scheme: Make, Claimed { every, claims }: Claimed) -> Outcome {
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
        // A frame of an unknown flow may be held, and arrives in a later step.
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
            // The first frame registers the flow and is not counted.
            if !core::mem::take(&mut first) {
                outcome.sent += 1;
                under_way.push(frame);
            }
        }
    }
    outcome
}
