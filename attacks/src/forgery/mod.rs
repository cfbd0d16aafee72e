//! An attacker on the path that alters, swaps, truncates, replays and drops records that share
//! tags, through the whole engine.
//!
//! The attacker can count, so it knows every record's number. From the number it knows the mask
//! that hides it, and can move bodies to other numbers.

mod strike;

use crate::onpath::{Captured, Masks, Payloads};
use crate::parallel::shared;
use crate::setup::{Setup, pass};
use lightseal_core::Random;
use lightseal_dtls::{Delivery, RecordId, Resolution, Scheme};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;
use strike::{Attacker, Seen};
use testkit::pair::{Direction, Pair, ReportedEvents};

/// Names of the schemes attacked: those whose aggregates are sums of whole tags come first.
pub const SCHEMES: [&str; 8] =
    ["agg:2", "agg:4", "agg:8", "agg:16", "r2d2:50", "r2d2:100", "r2d2:150", "r2d2:200"];
/// Number of attempts on one association.
const PER_WORLD: usize = 32;

/// An alteration of the records of one burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attack {
    /// Flips the same bits at the same offset of two records, whose GHASH values then cancel.
    FlipTwo,
    /// As `FlipTwo`, in two records of different lengths at the same distance from the end.
    FlipTwoUnequal,
    /// Flips one bit in one record, another bit in a second one, and both bits in a third.
    FlipThree,
    /// Flips one bit of one record.
    FlipOne,
    /// Flips the same bit in a body and in the aggregate.
    FlipBodyAndTag,
    /// Exchanges two bodies, under each other's numbers.
    SwapBodies,
    /// Exchanges two contents, but not the tags after them.
    SwapContents,
    /// Exchanges the parts of two contents after the mask's sample.
    SwapTails,
    /// Truncates a record.
    Cut,
    /// Removes some bytes of an aggregate.
    CutTag,
    /// Truncates a content, so that the tag after it moves up.
    CutContent,
    /// Appends bytes to a record.
    Extend,
    /// Replays earlier records unchanged.
    Replay,
    /// Replays an earlier body under a new number.
    ReplayAimed,
    /// Replays records of epochs before a KeyUpdate, unchanged and under numbers of the new epoch.
    ReplayAcrossKeys,
    /// As `ReplayAcrossKeys`, across an AggregationUpdate.
    ReplayAcrossUpdate,
    /// Sends records of the other direction.
    Reflect,
    /// Exchanges or XORs the aggregates of two sets.
    MixTags,
    /// Changes the type of data to that of a control record, or of a control record to data.
    ChangeType,
    /// Changes flags or the number in the header.
    ChangeHeader,
    /// Sends up to three forged rivals before or after every record.
    Rivals,
    /// Forges one record, and holds back or drops records that might reveal it.
    Withhold,
    /// Sends variants of one record one after the other, each chosen after the verdict on the last
    /// one.
    Adaptive,
    /// Reorders unaltered records, repeats one and drops one.
    Shuffle,
}

/// The list of all attacks.
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

/// The results of a campaign.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of bursts attacked.
    pub attempts: usize,
    /// Number of attempts that delivered a payload never sent, or one payload twice.
    pub forged: usize,
    /// Number of genuine payloads sent.
    pub sent: usize,
    /// Number of genuine payloads delivered in spite of the attacks.
    pub delivered: usize,
    /// Number of forged payloads delivered provisionally, to applications that asked for that.
    pub early: usize,
    /// How many of the forged payloads delivered provisionally were refuted afterwards.
    pub refuted: usize,
    /// Descriptions of the first forgeries.
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

/// The payloads delivered to the application so far.
#[derive(Default)]
struct Deliveries {
    data: usize,
    early: usize,
    resolved: usize,
    /// Provisional payloads that are not resolved yet, by their records.
    open: HashMap<RecordId, Vec<u8>>,
}

impl Deliveries {
    /// Takes the new payloads. Returns whether a forged payload was verified, or a genuine one
    /// twice.
    fn take(
        &mut self,
        told: &ReportedEvents,
        payloads: &mut Payloads,
        report: &mut Report,
    ) -> bool {
        let mut forged = false;
        let mut verified = |payload: &Vec<u8>| {
            let genuine = payloads.sent.remove(payload);
            report.delivered += usize::from(genuine);
            forged |= !genuine;
        };
        told.data[self.data..].iter().for_each(&mut verified);
        self.data = told.data.len();
        for (record, _, payload) in &told.early[self.early..] {
            self.open.insert(*record, payload.clone());
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

/// The deliveries of successive pairs. One in four delivers data without any authentication, so
/// that forgeries are delivered and refuted later, and one in four from a level of 40 bits.
const DELIVERIES: [Delivery; 4] =
    [Delivery::Verified, Delivery::Verified, Delivery::Unauthenticated, Delivery::Progressive(40)];

/// Another scheme of the same family, to which an update leads.
fn neighbour(scheme: Scheme) -> Scheme {
    let other = match scheme {
        Scheme::Agg(n) => Scheme::agg(if n.get() == 16 { 8 } else { n.get() * 2 }),
        Scheme::R2d2(o) => Scheme::r2d2(if o.percent() == 200 { 50 } else { o.percent() + 50 }),
        _ => None,
    };
    other.unwrap_or(Scheme::Plain)
}

/// One association under attack.
struct AttackedAssociation<'a> {
    setup: &'a Setup,
    direction: Direction,
    pair: Pair<'a>,
    attacker: Attacker<'a>,
    /// The captured datagrams of the direction, while they are held back.
    capturing: Rc<RefCell<Option<Vec<Vec<u8>>>>>,
    payloads: Payloads,
    payload_rng: Random,
    given: Deliveries,
    earlier: Vec<Captured>,
    ancient: Vec<Captured>,
}

impl<'a> AttackedAssociation<'a> {
    fn new(setup: &'a Setup, direction: Direction, seed: u64, rng: &'a mut Random) -> Self {
        let capturing = Rc::new(RefCell::new(None::<Vec<_>>));
        let tap = Rc::clone(&capturing);
        let mut pair = setup.pair(seed).with_rule(move |way, _, datagram| {
            if way == direction
                && let Some(captured) = &mut *tap.borrow_mut()
            {
                captured.push(datagram.to_vec());
                return vec![];
            }
            pass(datagram)
        });
        pair.run_for(Duration::from_secs(1));
        assert!(
            pair.at_server.connected.is_some() && pair.at_client.connected.is_some(),
            "{setup:?}"
        );
        let payload_rng = rng.fork();
        let masks = Masks::new(setup, &pair.secrets, direction);
        let attacker = Attacker { masks, scheme: setup.scheme, rng, withheld: Vec::new() };
        Self {
            setup,
            direction,
            pair,
            attacker,
            capturing,
            payloads: Payloads::default(),
            payload_rng,
            given: Deliveries::default(),
            earlier: Vec::new(),
            ancient: Vec::new(),
        }
    }

    /// Sends a burst of genuine records and captures them.
    fn burst(&mut self, attack: Attack, report: &mut Report) -> Vec<Captured> {
        let size = usize::from(self.attacker.scheme.context()[1]);
        // Lengths are equal, because some attacks on linear tags would fail merely because of
        // different lengths.
        let equal = 8 + self.attacker.below(60);
        *self.capturing.borrow_mut() = Some(Vec::new());
        for _ in 0..2 * size + self.attacker.below(size) {
            let len = match attack {
                Attack::FlipTwoUnequal => 24 + self.attacker.below(60),
                _ => equal,
            };
            let payload = self.payloads.fresh(&mut self.payload_rng, len);
            // All records are queued, so that the sender knows that they belong together. It would
            // close the sets of records that it seals one by one, and attacks on linear tags would
            // fail merely because of that.
            let _ = self.pair.send_lending(self.direction, &payload, 0);
            report.sent += 1;
        }
        self.pair.drain();
        let captured = self.capturing.borrow_mut().take().unwrap_or_default();
        captured.iter().filter_map(|datagram| self.capture(datagram)).collect()
    }

    /// Captures a genuine datagram of the direction, which may be the first of another epoch.
    fn capture(&mut self, datagram: &[u8]) -> Option<Captured> {
        if self.attacker.masks.is_next(datagram)
            && let Some(scheme) = self.pair.send_scheme(self.direction)
        {
            self.attacker.masks.advance(self.setup, scheme);
            self.attacker.scheme = scheme;
        }
        self.attacker.masks.capture(datagram)
    }

    fn deliver(&mut self, record: &Captured) {
        let datagram = self.attacker.masks.datagram(record);
        self.pair.deliver(self.direction, &datagram);
        self.pair.drain();
    }

    /// Sends forged records one at a time, each chosen after the verdict on the last one.
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
                    // If the variant was accepted, it may remain alone or get a rival.
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
        let stats = self.pair.stats(self.direction).map(|stats| stats.received);
        stats.map_or(0, |s| s.unauthentic + s.unverified + s.refused + s.replayed + s.malformed)
    }

    /// Makes one attempt. Returns `false` if an earlier one has ended the association.
    fn attempt(&mut self, attack: Attack, seed: u64, report: &mut Report) -> bool {
        match attack {
            Attack::ReplayAcrossKeys => self.pair.update_keys(self.direction),
            Attack::ReplayAcrossUpdate => {
                let to = neighbour(self.attacker.scheme);
                self.pair.request_aggregation(self.direction, to);
            }
            _ => {}
        }
        if matches!(attack, Attack::ReplayAcrossKeys | Attack::ReplayAcrossUpdate) {
            self.pair.run_for(Duration::from_millis(50));
        }
        let mut records = self.burst(attack, report);
        if records.len() < 2 {
            return false;
        }
        let genuine = records.clone();
        let direction = self.direction;
        let reverse: Vec<_> = self
            .pair
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
        // The sender falls silent, and genuine tags close the records that are still open.
        self.pair.run_for(Duration::from_millis(500));
        let back = if direction == Direction::ToServer {
            Direction::ToClient
        } else {
            Direction::ToServer
        };
        self.pair.send(back, b"back");
        self.pair.run_for(Duration::from_millis(500));
        let sample = self.attacker.below(genuine.len());
        self.ancient.push(genuine[sample].clone());
        self.earlier = genuine;

        report.attempts += 1;
        if self.given.take(self.pair.events(direction), &mut self.payloads, report) {
            report.forged += 1;
            report.failures.push(format!("{:?} {direction:?} {attack:?} seed {seed}", self.setup));
        }
        true
    }
}

/// Makes attempts on one association. The last one may be across a change of schemes.
fn pair(
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
    let mut siege = AttackedAssociation::new(setup, direction, seed, &mut rng);
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

/// Makes at least `attempts` attacks on each of these schemes, in both directions.
///
/// # Panics
/// If a name is not that of a scheme.
pub fn run(
    base: &Setup,
    schemes: &[&str],
    attacks: &[Attack],
    seed: u64,
    attempts: usize,
) -> Report {
    let schemes: Vec<Scheme> =
        schemes.iter().map(|name| name.parse().expect("a scheme's name")).collect();
    // Further pairs replace those that end early. A round has jobs for each scheme.
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
            pair(&setup, direction, attacks, seed, attempts)
        });
        for ((at, ..), part) in jobs.iter().zip(reports) {
            done[*at] += part.attempts;
            report.add(part);
        }
    }
    report
}
