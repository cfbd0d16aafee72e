//! Trials of every scheme in the virtual [`world`](crate::gateway::world): small ones for the tests, and
//! full-size ones for the campaigns of the package `fuzz`.

pub mod claimed;
pub mod flood;
pub mod forgeries;
pub mod narrowing;
pub mod observer;

pub use crate::gateway::world::sealed;
use crate::gateway::world::{Datagram, Flow, World};
use lightseal_core::{Instant, Random};
use lightseal_gateway::flows::FlowLimits;
use lightseal_gateway::schemes::Scheme;
use lightseal_gateway::schemes::compressed::Compressed;
use lightseal_gateway::schemes::identifier::{Identifier, IdentifierSettings};
use lightseal_gateway::schemes::plain::Plain;
use lightseal_gateway_papers::PaperScheme;

const START: Instant = Instant::from_micros(1_000_000);

pub type Make = fn(&mut Random) -> Box<dyn Scheme>;

pub fn compressed(random: &mut Random) -> Box<dyn Scheme> {
    Box::new(Compressed::new(FlowLimits::default(), random, START).unwrap())
}

pub fn identifier(random: &mut Random) -> Box<dyn Scheme> {
    Box::new(Identifier::new(IdentifierSettings::default(), random, START).unwrap())
}

pub fn identifier_paper(random: &mut Random) -> Box<dyn Scheme> {
    PaperScheme::Identifier.make(FlowLimits::default(), random, START).unwrap()
}

pub fn encryption_paper(random: &mut Random) -> Box<dyn Scheme> {
    PaperScheme::Encryption.make(FlowLimits::default(), random, START).unwrap()
}

pub fn plain(_: &mut Random) -> Box<dyn Scheme> {
    Box::new(Plain::new(7))
}

pub const ALL: [(&str, Make); 6] = [
    ("sealed", sealed),
    ("compressed", compressed),
    ("identifier", identifier),
    ("identifier-paper", identifier_paper),
    ("encryption-paper", encryption_paper),
    ("plain", plain),
];

/// A world of two sites whose first stations have exchanged two frames.
pub fn acquainted(scheme: Make) -> World {
    let mut world = World::up(2, scheme);
    introduce(&mut world, &[Flow::between(0, 1)], 1);
    world
}

/// Exchanges two frames in each direction between the stations of these flows, which go from site 0
/// to site 1. Packet numbers begin with `first`.
pub fn introduce(world: &mut World, flows: &[Flow], first: u32) {
    for pn in first..first + 2 {
        for flow in flows {
            world.carry(0, &flow.frame(pn, 100));
            world.carry(1, &flow.back().frame(pn, 100));
        }
    }
    world.sites.iter_mut().for_each(|site| site.lan.clear());
    world.wire.clear();
}

/// Flows of `many` stations at site 0, each to another station at site 1.
pub fn flows(many: u8) -> Vec<Flow> {
    let flow = |number| {
        let Flow { mut source, mut destination, port, .. } = Flow::between(0, 1);
        source[5] += number;
        destination[5] += number;
        Flow { source, destination, port: port + u16::from(number), an: number % 4 }
    };
    (0..many).map(flow).collect()
}

/// Sends a frame and returns its datagram, which is not delivered.
pub fn captured(world: &mut World, frame: &[u8]) -> Datagram {
    world.frame(0, frame);
    world.wire.pop_back().expect("a datagram")
}

/// By how many bytes the datagram for a frame of a known flow is longer than the frame. The frame
/// has an SCI and `len` bytes of secure data.
pub fn growth(scheme: Make, len: usize) -> isize {
    let mut world = acquainted(scheme);
    let frame = Flow::between(0, 1).frame(3, len);
    captured(&mut world, &frame).bytes.len() as isize - frame.len() as isize
}
