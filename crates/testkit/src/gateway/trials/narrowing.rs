//! A path becomes narrower while frames are sent over it.

use super::Make;
use crate::gateway::world::{Flow, World, index, quiet_with};
use core::time::Duration;

/// The path's MTU in bytes before and after it becomes narrower.
const MTUS: (usize, usize) = (1500, 1300);
/// The length of the IPv4 and UDP headers in bytes.
const HEADERS: usize = 28;
/// The length of a step of the trial: the interval at which a gateway checks its timers.
const STEP: Duration = Duration::from_millis(100);
/// Number of steps within which the path's MTU is found at the start.
const SEARCH_STEPS: u64 = 150;
/// Length of a frame that fits one datagram before, and is split afterwards.
const LONG: usize = 1300;

/// Number of steps from the narrowing of the path, which comes `offset` steps after the search,
/// until long frames arrive again.
pub fn steps(scheme: Make, offset: u64) -> u64 {
    let timing = quiet_with(|timing| timing.probe = true);
    let mut world = World::with(2, scheme, |_| {}, timing);
    world.carries = MTUS.0 - HEADERS;
    world.connect();
    let flow = Flow::between(0, 1);
    world.carry(1, &flow.back().frame(1, 100));
    let mut pn = 1;
    let mut step = |world: &mut World| {
        pn += 1;
        let frame = flow.frame(pn, LONG);
        world.advance(STEP);
        world.deliver();
        world.sites[1].lan.clear();
        world.carry(0, &frame);
        world.sites[1].lan.contains(&frame)
    };
    for _ in 0..SEARCH_STEPS + offset {
        step(&mut world);
    }
    let link = |world: &World| world.sites[0].gateway.links().get(index(0, 1)).unwrap().mtu();
    assert!(link(&world) >= MTUS.1 && step(&mut world), "the path's MTU is known and used");
    world.carries = MTUS.1 - HEADERS;
    (1..10_000).find(|_| step(&mut world)).expect("long frames arrive again")
}

/// The longest such time in seconds, over all moments within the period of the probes.
pub fn worst_seconds(scheme: Make) -> f64 {
    let worst = (0..25).map(|offset| steps(scheme, offset)).max().unwrap_or_default();
    worst as f64 * STEP.as_secs_f64()
}
