//! An attacker on the path who alters, swaps, cuts, replays and drops records
//! that share tags, through the whole engine.
//!
//! The attacker can count, so it knows every record's number; with the number
//! it knows the mask that hides it, and can move bodies to other numbers.

use crate::onpath::{Captured, Masks, Payloads, SAMPLE, number};
use crate::world::{Direction, Setup, World};
use dtls::Scheme;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
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
    /// The same bits in two records, others in two, and both in a third pair.
    FlipThree,
    /// One bit of one record.
    FlipOne,
    /// The same bit in a body and in the aggregate.
    FlipBodyAndTag,
    /// Two bodies under each other's numbers.
    SwapBodies,
    /// The parts of two bodies behind the mask's sample.
    SwapTails,
    /// A record loses its end.
    Cut,
    /// A record gains an end.
    Extend,
    /// Earlier records come again, as they are.
    Replay,
    /// An earlier body under a new number.
    ReplayAimed,
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
    /// Nothing but records in any order, some twice, some never.
    Shuffle,
}

/// All of them.
pub const ATTACKS: [Attack; 16] = [
    Attack::FlipTwo,
    Attack::FlipThree,
    Attack::FlipOne,
    Attack::FlipBodyAndTag,
    Attack::SwapBodies,
    Attack::SwapTails,
    Attack::Cut,
    Attack::Extend,
    Attack::Replay,
    Attack::ReplayAimed,
    Attack::Reflect,
    Attack::MixTags,
    Attack::ChangeType,
    Attack::ChangeHeader,
    Attack::Rivals,
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
    /// The first forgeries, to be looked at.
    pub failures: Vec<String>,
}

struct Attacker<'a> {
    masks: Masks,
    scheme: Scheme,
    rng: &'a mut Random,
}

impl Attacker<'_> {
    fn below(&mut self, bound: usize) -> usize {
        self.rng.below(bound.max(1) as u64) as usize
    }

    fn two(&mut self, len: usize) -> (usize, usize) {
        let one = self.below(len);
        (one, (one + 1 + self.below(len - 1)) % len)
    }

    /// Two neighbours of one set that lies wholly in the burst: only the set's
    /// own aggregate covers them.
    fn two_of_a_set(&mut self, records: &[Captured]) -> (usize, usize) {
        let size = usize::from(self.scheme.context()[1]);
        let first = number(&records[0]) as usize % size;
        let sets = (records.len() - (size - first) % size) / size;
        let start = (size - first) % size + size * self.below(sets);
        let one = start + self.below(size - 1);
        (one, one + 1)
    }

    /// A place in the encrypted payload, behind the type.
    fn place(&mut self, records: &[Captured], at: &[usize]) -> usize {
        let payload = |at: &usize| {
            let record = &records[*at];
            record.body.len() - self.scheme.aggregate_len(number(record))
        };
        let shortest = at.iter().map(payload).min().unwrap_or(2);
        1 + self.below(shortest.saturating_sub(1))
    }

    /// Changes a burst; `earlier` was delivered before, `reverse` went the other way.
    fn strike(
        &mut self,
        attack: Attack,
        records: &mut Vec<Captured>,
        earlier: &[Captured],
        reverse: &[Captured],
    ) {
        let (a, b) = self.two(records.len());
        let bit = 1 << self.below(8);
        match attack {
            Attack::FlipTwo => {
                let (a, b) = self.two_of_a_set(records);
                let at = self.place(records, &[a, b]);
                for record in [a, b] {
                    records[record].body[at] ^= bit;
                }
            }
            Attack::FlipThree => {
                let c = self.below(records.len());
                let at = self.place(records, &[a, b, c]);
                let other = 1 << self.below(8);
                for (record, bits) in [(a, bit), (b, other), (c, bit ^ other)] {
                    records[record].body[at] ^= bits;
                }
            }
            Attack::FlipOne => {
                let at = self.below(records[a].body.len());
                records[a].body[at] ^= bit;
            }
            Attack::FlipBodyAndTag => {
                let at = self.place(records, &[a]);
                records[a].body[at] ^= bit;
                let scheme = self.scheme;
                let tag_len = |r: &Captured| scheme.aggregate_len(number(r));
                let tagged = |r: &&mut Captured| tag_len(r) > 0 && r.body.len() > tag_len(r);
                if let Some(last) = records.iter_mut().rfind(tagged) {
                    let tag = last.body.len() - 1 - at % tag_len(last);
                    last.body[tag] ^= bit;
                }
            }
            Attack::SwapBodies => {
                let body = records[a].body.clone();
                records[a].body = core::mem::replace(&mut records[b].body, body);
            }
            Attack::SwapTails => {
                let end = |record: &Captured| {
                    record.body.len() - self.scheme.aggregate_len(number(record))
                };
                let end = end(&records[a]).min(end(&records[b]));
                if end > SAMPLE {
                    let tail = records[a].body[SAMPLE..end].to_vec();
                    let other = records[b].body[SAMPLE..end].to_vec();
                    records[a].body[SAMPLE..end].copy_from_slice(&other);
                    records[b].body[SAMPLE..end].copy_from_slice(&tail);
                }
            }
            Attack::Cut => {
                let len = self.below(records[a].body.len());
                records[a].body.truncate(len);
            }
            Attack::Extend => {
                let more = 1 + self.below(20);
                let mut tail = vec![0; more];
                self.rng.fill(&mut tail);
                records[a].body.extend(tail);
            }
            Attack::Replay => {
                for _ in 0..4 {
                    let at = self.below(records.len() + 1);
                    if !earlier.is_empty() {
                        let again = earlier[self.below(earlier.len())].clone();
                        records.insert(at, again);
                    }
                }
            }
            Attack::ReplayAimed => {
                if !earlier.is_empty() {
                    records[a].body = earlier[self.below(earlier.len())].body.clone();
                }
            }
            Attack::Reflect => {
                if !reverse.is_empty() {
                    let other = reverse[self.below(reverse.len())].clone();
                    records[a].body = other.body.clone();
                    records.push(other);
                }
            }
            Attack::MixTags => {
                let scheme = self.scheme;
                let len = |r: &Captured| scheme.aggregate_len(number(r));
                let has_tag = |r: &&mut Captured| len(r) > 0;
                let mut tagged: Vec<_> = records.iter_mut().filter(has_tag).collect();
                if let [one, .., other] = &mut tagged[..]
                    && one.body.len().min(other.body.len()) >= len(one)
                {
                    let (x, y) = (one.body.len() - len(one), other.body.len() - len(one));
                    for i in 0..len(one) {
                        let (p, q) = (one.body[x + i], other.body[y + i]);
                        (one.body[x + i], other.body[y + i]) =
                            if bit < 16 { (q, p) } else { (p ^ q, q ^ p) };
                    }
                }
            }
            Attack::ChangeType => {
                let types = [23 ^ 22, 23 ^ 26, 23 ^ 21, 23 ^ 0xe0, 23 ^ 0xe1];
                if let Some(first) = records[a].body.first_mut() {
                    *first ^= types[b % types.len()];
                }
            }
            Attack::ChangeHeader => {
                let record = &mut records[a];
                match b % 4 {
                    // A short number instead of a long one, and the reverse.
                    0 if record.header.len() == 3 => {
                        record.header[0] ^= 8;
                        record.header.remove(1);
                    }
                    0 | 1 => record.header[0] ^= 3 & bit,
                    2 => {
                        let length = (record.body.len() as u16).to_be_bytes();
                        record.header[0] |= 4;
                        record.header.extend(length);
                    }
                    _ => record.header[1] ^= bit,
                }
            }
            Attack::Rivals => {
                let mut all = Vec::new();
                for genuine in records.drain(..) {
                    let rivals = 1 + self.below(3);
                    let place = self.below(rivals + 1);
                    for i in 0..=rivals {
                        let mut rival = genuine.clone();
                        if i != place && rival.body.len() > 1 {
                            let at = 1 + self.below(rival.body.len() - 1);
                            rival.body[at] ^= 1 << self.below(8);
                        }
                        all.push(rival);
                    }
                }
                *records = all;
            }
            Attack::Shuffle => {
                for i in (1..records.len()).rev() {
                    let j = self.below(i + 1);
                    records.swap(i, j);
                }
                let copy = records[a].clone();
                records.push(copy);
                records.remove(b);
            }
        }
    }
}

/// One association under attack.
fn world(
    setup: &Setup,
    direction: Direction,
    attacks: &[Attack],
    seed: u64,
    attempts: usize,
    report: &mut Report,
) {
    let mut rng = Random::insecure(seed);
    let capturing = Rc::new(RefCell::new((false, Vec::new())));
    let tap = Rc::clone(&capturing);
    let mut world = World::new(setup, seed).with_rule(move |way, _, datagram| {
        let (on, captured) = &mut *tap.borrow_mut();
        if *on && way == direction {
            captured.push(datagram.to_vec());
            return vec![];
        }
        vec![datagram.to_vec()]
    });
    world.connect();
    assert!(world.server_told.connected && world.client_told.connected, "{setup:?}");
    let mut rng_of_payloads = rng.fork();
    let mut attacker = Attacker {
        masks: Masks::new(setup, &world.secrets, direction),
        scheme: setup.scheme,
        rng: &mut rng,
    };
    let size = usize::from(setup.scheme.context()[1]);
    let mut payloads = Payloads::default();
    let mut earlier = Vec::new();
    let mut seen = 0;
    for _ in 0..attempts {
        let attack = attacks[attacker.below(attacks.len())];
        // Equal lengths, else some attacks on linear tags would fail for that reason alone.
        let len = 8 + attacker.below(60);
        capturing.borrow_mut().0 = true;
        for _ in 0..2 * size + attacker.below(size) {
            let payload = payloads.fresh(&mut rng_of_payloads, len);
            world.send(direction, &payload);
            report.sent += 1;
        }
        world.drain();
        let (_, captured) = capturing.replace((false, Vec::new()));
        let mut records: Vec<_> =
            captured.iter().filter_map(|datagram| attacker.masks.capture(datagram)).collect();
        let genuine = records.clone();
        let reverse: Vec<_> = world
            .log
            .iter()
            .filter(|(way, datagram)| *way != direction && datagram[0] & 0xe3 == 0x23)
            .filter_map(|(_, datagram)| attacker.masks.capture(datagram))
            .collect();
        if records.len() < 2 {
            // An earlier attack has ended the association, as a control record may.
            break;
        }
        attacker.strike(attack, &mut records, &earlier, &reverse);
        let datagrams: Vec<_> =
            records.iter().map(|record| attacker.masks.datagram(record)).collect();
        for datagram in datagrams {
            world.deliver(direction, &datagram);
            world.drain();
        }
        // Silence: what is still open is closed by genuine tags.
        world.run_for(Duration::from_millis(500));
        world.send(
            if direction == Direction::ToServer {
                Direction::ToClient
            } else {
                Direction::ToServer
            },
            b"back",
        );
        world.run_for(Duration::from_millis(500));
        earlier = genuine;

        report.attempts += 1;
        let told = &world.told(direction).data[seen..];
        seen += told.len();
        let forged = told.iter().filter(|data| !payloads.sent.remove(*data)).count();
        report.delivered += told.len() - forged;
        if forged > 0 {
            report.forged += 1;
            if report.failures.len() < 20 {
                report.failures.push(format!("{setup:?} {direction:?} {attack:?} seed {seed}"));
            }
        }
    }
}

/// `attempts` attacks on each of these schemes, in both directions.
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
    let mut report = Report::default();
    for turn in 0.. {
        if report.attempts >= attempts {
            break;
        }
        let scheme = schemes[turn as usize % schemes.len()].parse().expect("a scheme's name");
        let setup = Setup { scheme, ..*base };
        let direction = Direction::BOTH[turn as usize / schemes.len() % 2];
        let left = (attempts - report.attempts).min(PER_WORLD);
        let seed = seed.wrapping_mul(1 << 32).wrapping_add(turn);
        world(&setup, direction, attacks, seed, left, &mut report);
    }
    report
}
