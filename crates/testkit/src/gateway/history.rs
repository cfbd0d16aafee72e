//! Random histories of three gateways, for all schemes. Whatever happens, no frame appears twice or
//! altered, and after the disturbances end all flows work.
//!
//! The environment variable `SEED` runs the history of one seed only; `HISTORIES` sets the number
//! of histories.

use crate::gateway::world::{Flow, World, quiet_with};
use core::time::Duration;
use lightseal_core::Random;
use lightseal_gateway::schemes::Scheme;
use std::collections::BTreeSet;

const SITES: usize = 3;
const HISTORIES: u64 = 40;
const STEPS: usize = 1500;

/// A flow of the history. The flows of one association share its AN and packet numbers.
#[derive(Clone)]
struct Sender {
    site: usize,
    to: usize,
    flow: Flow,
    association: usize,
}

struct History {
    world: World,
    make: fn(&mut Random) -> Box<dyn Scheme>,
    random: Random,
    senders: Vec<Sender>,
    /// AN and next packet number of each association.
    associations: Vec<(u8, u32)>,
    sent: BTreeSet<Vec<u8>>,
    /// The frames that appeared, with their sites.
    seen: BTreeSet<(usize, Vec<u8>)>,
    serial: u64,
}

impl History {
    fn new(make: fn(&mut Random) -> Box<dyn Scheme>, seed: u64) -> Self {
        let timing = quiet_with(|timing| timing.rekey = Duration::from_secs(2));
        let mut world = World::with(SITES, make, |_| {}, timing);
        world.connect();
        let mut senders = Vec::new();
        for site in 0..SITES {
            // Each site has one device, and therefore one association, which sends to all other
            // sites.
            for to in (0..SITES).filter(|&to| to != site) {
                let flow = Flow::between(site, to);
                senders.push(Sender { site, to, flow, association: site });
            }
            let flow = Flow { destination: [0xff; 6], ..Flow::between(site, site) };
            senders.push(Sender { site, to: (site + 1) % SITES, flow, association: site });
        }
        Self {
            world,
            make,
            random: Random::insecure(seed),
            senders,
            associations: vec![(0, 1); SITES],
            sent: BTreeSet::new(),
            seen: BTreeSet::new(),
            serial: 0,
        }
    }

    fn send(&mut self, sender: usize) -> Vec<u8> {
        let Sender { site, flow, association, .. } = self.senders[sender].clone();
        let (an, pn) = &mut self.associations[association];
        let flow = Flow { an: *an, ..flow };
        let len = 20 + self.random.below(1600) as usize;
        let mut frame = flow.frame(*pn, len);
        *pn += 1;
        self.serial += 1;
        frame[28..36].copy_from_slice(&self.serial.to_be_bytes());
        self.sent.insert(frame.clone());
        self.world.frame(site, &frame);
        frame
    }

    fn step(&mut self) {
        match self.random.below(1000) {
            0..450 => {
                let sender = self.random.below(self.senders.len() as u64) as usize;
                self.send(sender);
            }
            450..850 => {
                // Delivers the oldest datagram, or one that overtook it.
                let len = self.world.wire.len() as u64;
                if len > 0 {
                    let at = self.random.below(len.min(6)) as usize;
                    let datagram = self.world.wire.remove(at).unwrap();
                    self.world.arrive(&datagram);
                    if self.random.below(8) == 0 {
                        self.world.wire.push_back(datagram);
                    }
                }
            }
            850..920 => {
                self.world.wire.pop_front();
            }
            920..940 => {
                let millis = 1 + self.random.below(200);
                self.world.advance(Duration::from_millis(millis));
            }
            940..960 => self.world.settle(),
            960..965 => {
                // An outage: all datagrams are lost.
                self.world.wire.clear();
            }
            965..975 => {
                let association = self.random.below(SITES as u64) as usize;
                let (an, pn) = &mut self.associations[association];
                (*an, *pn) = ((*an + 1) % 4, 1);
            }
            975..980 => {
                let a = self.random.below(SITES as u64) as usize;
                let exported = self.random.array();
                self.world.connect_two(a, (a + 1) % SITES, exported);
                self.world.settle();
            }
            980..983 => {
                let site = self.random.below(SITES as u64) as usize;
                self.restart(site);
            }
            _ => self.world.deliver(),
        }
        self.check();
    }

    /// Restarts a gateway, with empty state.
    fn restart(&mut self, site: usize) {
        self.world.replace(site, self.make, &mut self.random);
        for other in (0..SITES).filter(|&other| other != site) {
            let exported = self.random.array();
            self.world.connect_two(site, other, exported);
        }
        self.world.settle();
    }

    fn check(&mut self) {
        for (at, site) in self.world.sites.iter_mut().enumerate() {
            for frame in site.lan.drain(..) {
                assert!(
                    self.sent.contains(&frame),
                    "an altered or invented frame at {at}: {frame:02x?}"
                );
                assert!(self.seen.insert((at, frame)), "a frame appeared twice at {at}");
            }
        }
    }

    /// Without further loss, every frame arrives after a while.
    fn calm(&mut self) {
        self.world.deliver();
        // Incomplete frames are dropped after half a second.
        for _ in 0..10 {
            self.world.advance(Duration::from_millis(100));
            self.world.deliver();
        }
        self.check();
        for round in 0..60 {
            for sender in 0..self.senders.len() {
                let frame = self.send(sender);
                self.world.deliver();
                self.check();
                let to = self.senders[sender].to;
                assert!(self.seen.contains(&(to, frame)), "round {round}, sender {sender}");
            }
        }
    }
}

/// Runs histories under a scheme. With `calm`, each ends without disturbances and all flows must work
/// again.
pub fn histories(make: fn(&mut Random) -> Box<dyn Scheme>, calm: bool) {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse().ok());
    let many: u64 = number("HISTORIES").unwrap_or(HISTORIES);
    let seeds = number("SEED").map_or(0..many, |seed: u64| seed..seed + 1);
    for seed in seeds {
        println!("SEED={seed}");
        let mut history = History::new(make, seed);
        for _ in 0..STEPS {
            history.step();
        }
        if calm {
            history.calm();
        }
    }
}
