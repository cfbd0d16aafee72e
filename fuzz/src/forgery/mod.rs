//! An attacker on the path who alters, swaps, cuts, replays and drops records
//! that share tags, through the whole engine.
//!
//! The attacker can count, so it knows every record's number; with the number
//! it knows the mask that hides it, and can move bodies to other numbers.

mod strike;

use crate::onpath::{Captured, Masks, Payloads};
use crate::parallel::shared;
use crate::world::{Direction, Setup, Told, World};
use dtls::{Delivery, RecordId, Resolution, Scheme};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;
use strike::{Attacker, Seen};
use vocabulary::Random;

/// Names of the schemes attacked: those whose aggregates are sums of whole tags come first.
pub const SCHEMES: [&str; 8] =
    ["agg:2", "agg:4", "agg:8", "agg:16", "r2d2:50", "r2d2:100", "r2d2:150", "r2d2:200"];
/// Attempts on one association.
const PER_WORLD: usize = 32;

/// What an attack does with the records of one burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// The same bits at the same place of two records: their GHASHes cancel.
    FlipTwo,
    /// The same where they are of different lengths, at the same distance from the end.
    FlipTwoUnequal,
    /// The same bits in two records, others in two, and both in a third pair.
    FlipThree,
    /// One bit of one record.
    FlipOne,
    /// The same bit in a body and in the aggregate.
    FlipBodyAndTag,
    /// Two bodies under each other's numbers.
    SwapBodies,
    /// Two contents, but not the tags behind them.
    SwapContents,
    /// The parts of two contents behind the mask's sample.
    SwapTails,
    /// A record loses its end.
    Cut,
    /// An aggregate loses some of its bytes.
    CutTag,
    /// A content loses its end, and the tag behind it moves up.
    CutContent,
    /// A record gains an end.
    Extend,
    /// Earlier records come again, as they are.
    Replay,
    /// An earlier body under a new number.
    ReplayAimed,
    /// Records of epochs before a KeyUpdate, as they are and under the new epoch's numbers.
    ReplayAcrossKeys,
    /// The same across an AggregationUpdate.
    ReplayAcrossUpdate,
    /// The other direction's records.
    Reflect,
    /// Aggregates of two sets are exchanged or added.
    MixTags,
    /// Data becomes a control record, or a control record data.
    ChangeType,
    /// Other flags in the header.
    ChangeHeader,
    /// Three forged rivals for every record, before or behind it.
    Rivals,
    /// One forged record, and what might tell of it is held back or dropped.
    Withhold,
    /// Variants of one record after the other, each chosen when the verdict on the last is seen.
    Adaptive,
    /// Nothing but records in any order, some twice, some never.
    Shuffle,
}

/// All of them.
pub const ATTACKS: [Attack; 24] = [
    Attack::FlipTwo,
    Attack::FlipTwoUnequal,
    Attack::FlipThree,
    Attack::FlipOne,
    Attack::FlipBodyAndTag,
    Attack::SwapBodies,
    Attack::SwapContents,
    Attack::SwapTails,
    Attack::Cut,
    Attack::CutTag,
    Attack::CutContent,
    Attack::Extend,
    Attack::Replay,
    Attack::ReplayAimed,
    Attack::ReplayAcrossKeys,
    Attack::ReplayAcrossUpdate,
    Attack::Reflect,
    Attack::MixTags,
    Attack::ChangeType,
    Attack::ChangeHeader,
    Attack::Rivals,
    Attack::Withhold,
    Attack::Adaptive,
    Attack::Shuffle,
];

/// What a campaign found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Bursts attacked.
    pub attempts: usize,
    /// Attempts that delivered a payload never sent, or one payload twice.
    pub forged: usize,
    /// Genuine payloads sent.
    pub sent: usize,
    /// Genuine payloads delivered in spite of the attacks.
    pub delivered: usize,
    /// Forged payloads given to the application before they were verified, where it asked for that.
    pub early: usize,
    /// Of them, said to be forged afterwards.
    pub refuted: usize,
    /// The first forgeries, to be looked at.
    pub failures: Vec<String>,
}

impl Report {
    fn add(&mut self, other: Self) {
        self.attempts += other.attempts;
        self.forged += other.forged;
        self.sent += other.sent;
        self.delivered += other.delivered;
        self.early += other.early;
        self.refuted += other.refuted;
        self.failures.extend(other.failures);
        self.failures.truncate(20);
    }
}

/// What the application was given.
#[derive(Default)]
struct Given {
    data: usize,
    early: usize,
    resolved: usize,
    /// Payloads that are not verified, by their records.
    open: HashMap<RecordId, Vec<u8>>,
}

impl Given {
    /// Takes what is new. Returns whether something forged, or something twice, was verified.
    fn take(&mut self, told: &Told, payloads: &mut Payloads, report: &mut Report) -> bool {
        let mut forged = false;
        let mut verified = |payload: &Vec<u8>| {
            let genuine = payloads.sent.remove(payload);
            report.delivered += usize::from(genuine);
            forged |= !genuine;
        };
        told.data[self.data..].iter().for_each(&mut verified);
        self.data = told.data.len();
        self.open.extend(told.early[self.early..].iter().cloned());
        for (_, payload) in &told.early[self.early..] {
            report.early += usize::from(!payloads.all.contains(payload));
        }
        self.early = told.early.len();
        for (record, how) in &told.resolved[self.resolved..] {
            let Some(payload) = self.open.remove(record) else { continue };
            match how {
                Resolution::Verified => {
                    let genuine = payloads.sent.remove(&payload);
                    report.delivered += usize::from(genuine);
                    forged |= !genuine;
                }
                Resolution::Refuted { .. } => {
                    report.refuted += usize::from(!payloads.all.contains(&payload));
                }
                Resolution::Unknown => {}
            }
        }
        self.resolved = told.resolved.len();
        forged
    }
}

/// Every fourth world delivers from no bits on, so that what is forged comes through and is found
/// out, and another from some.
const DELIVERIES: [Delivery; 4] =
    [Delivery::Verified, Delivery::Verified, Delivery::Unauthenticated, Delivery::Progressive(40)];

/// Another scheme of the same kind, for an update to lead to.
fn neighbour(scheme: Scheme) -> Scheme {
    let other = match scheme {
        Scheme::Agg(n) => Scheme::agg(if n.get() == 16 { 8 } else { n.get() * 2 }),
        Scheme::R2d2(o) => Scheme::r2d2(if o.percent() == 200 { 50 } else { o.percent() + 50 }),
        _ => None,
    };
    other.unwrap_or(Scheme::Plain)
}

/// One association under attack.
struct Siege<'a> {
    setup: &'a Setup,
    direction: Direction,
    world: World<'a>,
    attacker: Attacker<'a>,
    /// Datagrams of the direction, while they are held.
    capturing: Rc<RefCell<Option<Vec<Vec<u8>>>>>,
    payloads: Payloads,
    payload_rng: Random,
    given: Given,
    earlier: Vec<Captured>,
    ancient: Vec<Captured>,
}

impl<'a> Siege<'a> {
    fn new(setup: &'a Setup, direction: Direction, seed: u64, rng: &'a mut Random) -> Self {
        let capturing = Rc::new(RefCell::new(None::<Vec<_>>));
        let tap = Rc::clone(&capturing);
        let mut world = World::new(setup, seed).with_rule(move |way, _, datagram| {
            if way == direction
                && let Some(captured) = &mut *tap.borrow_mut()
            {
                captured.push(datagram.to_vec());
                return vec![];
            }
            vec![datagram.to_vec()]
        });
        world.connect();
        assert!(world.server_told.connected && world.client_told.connected, "{setup:?}");
        let payload_rng = rng.fork();
        let masks = Masks::new(setup, &world.secrets, direction);
        let attacker = Attacker { masks, scheme: setup.scheme, rng, withheld: Vec::new() };
        Self {
            setup,
            direction,
            world,
            attacker,
            capturing,
            payloads: Payloads::default(),
            payload_rng,
            given: Given::default(),
            earlier: Vec::new(),
            ancient: Vec::new(),
        }
    }

    /// A burst of genuine records, held on their way.
    fn burst(&mut self, attack: Attack, report: &mut Report) -> Vec<Captured> {
        let size = usize::from(self.attacker.scheme.context()[1]);
        // Equal lengths, else some attacks on linear tags would fail for that reason alone.
        let equal = 8 + self.attacker.below(60);
        *self.capturing.borrow_mut() = Some(Vec::new());
        for _ in 0..2 * size + self.attacker.below(size) {
            let len = match attack {
                Attack::FlipTwoUnequal => 24 + self.attacker.below(60),
                _ => equal,
            };
            let payload = self.payloads.fresh(&mut self.payload_rng, len);
            self.world.send(self.direction, &payload);
            report.sent += 1;
        }
        self.world.drain();
        let captured = self.capturing.borrow_mut().take().unwrap_or_default();
        captured.iter().filter_map(|datagram| self.capture(datagram)).collect()
    }

    /// Reads a genuine datagram of the direction, which may be the first of another epoch.
    fn capture(&mut self, datagram: &[u8]) -> Option<Captured> {
        if self.attacker.masks.is_next(datagram)
            && let Some(scheme) = self.world.send_scheme(self.direction)
        {
            self.attacker.masks.advance(self.setup, scheme);
            self.attacker.scheme = scheme;
        }
        self.attacker.masks.capture(datagram)
    }

    fn deliver(&mut self, record: &Captured) {
        let datagram = self.attacker.masks.datagram(record);
        self.world.deliver(self.direction, &datagram);
        self.world.drain();
    }

    /// Sends forged records one at a time, and the next one by what became of the last.
    fn adapt(&mut self, records: &[Captured]) {
        const TRIES: usize = 6;
        for genuine in records {
            let mut stands = false;
            if self.attacker.below(3) == 0 {
                for tries in 0..TRIES {
                    let before = self.refusals();
                    let variant = self.attacker.variant(genuine, tries);
                    self.deliver(&variant);
                    stands = self.refusals() == before;
                    // What stands may be left there, or be joined by a rival.
                    if stands && self.attacker.below(2) == 0 {
                        break;
                    }
                }
            }
            if !stands || self.attacker.below(2) == 0 {
                self.deliver(genuine);
            }
        }
    }

    fn refusals(&self) -> u64 {
        let stats = self.world.stats(self.direction).map(|stats| stats.received);
        stats.map_or(0, |s| s.unauthentic + s.unverified + s.refused + s.replayed + s.malformed)
    }

    /// One attempt; `false` when an earlier one has ended the association.
    fn attempt(&mut self, attack: Attack, seed: u64, report: &mut Report) -> bool {
        match attack {
            Attack::ReplayAcrossKeys => self.world.update_keys(self.direction),
            Attack::ReplayAcrossUpdate => {
                let to = neighbour(self.attacker.scheme);
                self.world.request_aggregation(self.direction, to);
            }
            _ => {}
        }
        if matches!(attack, Attack::ReplayAcrossKeys | Attack::ReplayAcrossUpdate) {
            self.world.run_for(Duration::from_millis(50));
        }
        let mut records = self.burst(attack, report);
        if records.len() < 2 {
            return false;
        }
        let genuine = records.clone();
        let direction = self.direction;
        let reverse: Vec<_> = self
            .world
            .log
            .iter()
            .filter(|(way, datagram)| *way != direction && datagram[0] & 0xe3 == 0x23)
            .filter_map(|(_, datagram)| self.attacker.masks.capture(datagram))
            .collect();
        records.append(&mut self.attacker.withheld);
        let seen = Seen { earlier: &self.earlier, ancient: &self.ancient, reverse: &reverse };
        self.attacker.strike(attack, &mut records, seen);
        if attack == Attack::Adaptive {
            self.adapt(&records);
        } else {
            for record in &records {
                self.deliver(record);
            }
        }
        // Silence: what is still open is closed by genuine tags.
        self.world.run_for(Duration::from_millis(500));
        let back = if direction == Direction::ToServer {
            Direction::ToClient
        } else {
            Direction::ToServer
        };
        self.world.send(back, b"back");
        self.world.run_for(Duration::from_millis(500));
        let sample = self.attacker.below(genuine.len());
        self.ancient.push(genuine[sample].clone());
        self.earlier = genuine;

        report.attempts += 1;
        if self.given.take(self.world.told(direction), &mut self.payloads, report) {
            report.forged += 1;
            report.failures.push(format!("{:?} {direction:?} {attack:?} seed {seed}", self.setup));
        }
        true
    }
}

/// Attempts on one association, of which the last may be one across a change of schemes.
fn world(
    setup: &Setup,
    direction: Direction,
    attacks: &[Attack],
    seed: u64,
    attempts: usize,
) -> Report {
    let mut report = Report::default();
    let mut rng = Random::insecure(seed);
    let mut choice = rng.fork();
    let across = Attack::ReplayAcrossUpdate;
    let others: Vec<_> = attacks.iter().copied().filter(|attack| *attack != across).collect();
    let mut siege = Siege::new(setup, direction, seed, &mut rng);
    for left in (0..attempts).rev() {
        let attack = match left {
            0 if attacks.contains(&across) => across,
            _ => others[choice.below(others.len() as u64) as usize],
        };
        if !siege.attempt(attack, seed, &mut report) {
            break;
        }
    }
    report
}

/// At least `attempts` attacks on each of these schemes, in both directions.
///
/// # Panics
/// If a name is none of a scheme's.
pub fn run(
    base: &Setup,
    schemes: &[&str],
    attacks: &[Attack],
    seed: u64,
    attempts: usize,
) -> Report {
    let schemes: Vec<Scheme> =
        schemes.iter().map(|name| name.parse().expect("a scheme's name")).collect();
    // Worlds that end early are made up for by others; a round is one for each scheme.
    const ROUND: usize = 256;
    let mut report = Report::default();
    let mut done = vec![0; schemes.len()];
    for round in 0.. {
        let jobs: Vec<_> = (0..schemes.len())
            .flat_map(|at| {
                let left = attempts.saturating_sub(done[at]);
                (0..left.div_ceil(PER_WORLD).min(ROUND))
                    .map(move |i| (at, round * ROUND + i, (left - i * PER_WORLD).min(PER_WORLD)))
            })
            .collect();
        if jobs.is_empty() {
            break;
        }
        let reports = shared(&jobs, |&(at, turn, attempts)| {
            let scheme = schemes[at];
            let also = neighbour(scheme);
            let delivery = DELIVERIES[turn % DELIVERIES.len()];
            let setup = Setup { scheme, also, delivery, ..*base };
            let direction = Direction::BOTH[turn / DELIVERIES.len() % 2];
            let turn = (turn * schemes.len() + at) as u64;
            let seed = seed.wrapping_mul(1 << 32).wrapping_add(turn);
            world(&setup, direction, attacks, seed, attempts)
        });
        for ((at, ..), part) in jobs.iter().zip(reports) {
            done[*at] += part.attempts;
            report.add(part);
        }
    }
    report
}
