//! What junk costs those whose records share tags: an attacker on the path adds one datagram to
//! ten genuine ones, half of them ahead of the true record under its very number.
//!
//! The attacker is given more than it can have: it knows masks, and what type of content a record
//! will say that was not sent yet.

use crate::fleet::PRF_SUITES;
use crate::forgery::SCHEMES;
use crate::onpath::{Captured, Masks, Payloads, number_len};
use crate::parallel::shared;
use crate::secrets::suite;
use crate::world::{Direction, Setup, Told, World};
use aggregation::{Kind, Offer, Opener, Order, Outcome, Sealer};
use dtls::crypto::{Keying, Record, TrafficSecret};
use dtls::record::number::nearest;
use dtls::{Delivery, Resolution};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;
use vocabulary::Random;

/// The direction under attack.
const WAY: Direction = Direction::ToServer;
/// Bytes of each payload.
pub const PAYLOAD: usize = 30;
/// One junk datagram for so many genuine ones.
const RATE: u64 = 10;
/// How far from the newest number junk is aimed.
const NEAR: u64 = 8;
/// Between two records.
const PERIOD: Duration = Duration::from_millis(10);

/// Goodput with and without junk, the same records lost.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Suite and scheme.
    pub setup: Setup,
    /// Records lost, in 1/100 000.
    pub loss: u64,
    /// Without junk.
    pub clean: Run,
    /// With it.
    pub junk: Run,
}

impl Cell {
    /// What junk took of the goodput, in percent of it.
    pub fn fall_percent(&self) -> f64 {
        100.0 * (1.0 - self.junk.goodput() / self.clean.goodput())
    }

    /// Evaluations of tags that each junk datagram caused.
    pub fn evaluations_per_junk(&self) -> f64 {
        let more = self.junk.evaluations as f64 - self.clean.evaluations as f64;
        more / self.junk.junk.max(1) as f64
    }
}

/// One association.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// Genuine payload bytes sent.
    pub sent: u64,
    /// Of them, verified and delivered.
    pub verified: u64,
    /// Junk datagrams.
    pub junk: u64,
    /// Payloads delivered as verified that were never sent, or twice.
    pub forged: u64,
    /// Junk payloads given to the application before they were verified.
    pub early: u64,
    /// Of them, said to be forged afterwards.
    pub refuted: u64,
    /// Evaluations of shared tags, by records each.
    pub evaluations: u64,
    /// Records refused: too many rivals, or of no use.
    pub refused: u64,
    /// The most payload bytes held at once, overhead included.
    pub most_held: usize,
}

impl Run {
    /// Share of the payload that was verified.
    pub fn goodput(&self) -> f64 {
        self.verified as f64 / self.sent.max(1) as f64
    }
}

struct Junk<'a> {
    setup: &'a Setup,
    secret: TrafficSecret,
    masks: Masks,
    rng: Random,
}

impl Junk<'_> {
    /// What goes ahead of `genuine`, whose number is `number`.
    fn make(&mut self, genuine: &Captured, number: u64) -> Captured {
        let mut junk = genuine.clone();
        match self.rng.below(4) {
            // A header of chance.
            0 => {
                let end = 1 + number_len(&junk);
                self.rng.fill(&mut junk.header[1..end]);
                self.rng.fill(&mut junk.body);
            }
            // Another number near it: the type is right, all else is chance.
            1 => {
                let by = 1 + self.rng.below(NEAR);
                let target =
                    if self.rng.below(2) == 0 { number + by } else { number.saturating_sub(by) };
                let bytes = number_len(&junk);
                junk.header[1..1 + bytes].copy_from_slice(&target.to_be_bytes()[8 - bytes..]);
                junk.body = self.data(target, &junk.header);
            }
            // The true header; the first byte is the type.
            _ => {
                let at = 1 + self.rng.below(junk.body.len() as u64 - 1) as usize;
                junk.body[at] ^= 1 << self.rng.below(8);
            }
        }
        junk
    }

    /// A body that decrypts to data, with a tag of chance.
    fn data(&mut self, number: u64, header: &[u8]) -> Vec<u8> {
        let mut body = vec![0; 1 + PAYLOAD + self.setup.scheme.aggregate_len(number)];
        self.rng.fill(&mut body);
        body[0] = 23;
        if let Keying::Prf { aggregated, .. } = suite(self.setup).keying {
            let keys = aggregated(&self.secret, self.setup.scheme.context());
            keys.seal(Record { number, header }, &mut body[..1 + PAYLOAD]);
        }
        body
    }
}

/// Sends `records` payloads, of which `loss` in 100 000 are lost, with junk or without.
///
/// # Panics
/// If the ends do not come together.
pub fn run(setup: &Setup, loss: u64, seed: u64, records: u64, with_junk: bool) -> Run {
    let mut rng = Random::insecure(seed);
    let [mut losses, mut other_losses, mut reverse_losses, mut payload_rng, junk_rng] =
        [(); 5].map(|()| rng.fork());
    let captured = Rc::new(RefCell::new(None::<Vec<Vec<u8>>>));
    let tap = Rc::clone(&captured);
    let mut world = World::new(setup, seed).with_rule(move |way, _, datagram| {
        let mut captured = tap.borrow_mut();
        match &mut *captured {
            Some(captured) if way == WAY => {
                captured.push(datagram.to_vec());
                vec![]
            }
            Some(_) if reverse_losses.below(100_000) < loss => vec![],
            _ => vec![datagram.to_vec()],
        }
    });
    world.connect();
    assert!(world.server_told.connected && world.client_told.connected, "{setup:?}");
    let secret = world
        .secrets
        .traffic(WAY, dtls::record::epochs::APPLICATION_EPOCH)
        .expect("the handshake is complete");
    let masks = Masks::new(setup, &world.secrets, WAY);
    let mut attacker = Junk { setup, secret, masks, rng: junk_rng };
    *captured.borrow_mut() = Some(Vec::new());
    let take = || captured.borrow_mut().replace(Vec::new()).unwrap_or_default();

    let mut payloads = Payloads::default();
    let mut run = Run::default();
    let (mut seen, mut next) = (0, 0);
    for i in 0..=records {
        if i < records {
            let payload = payloads.fresh(&mut payload_rng, PAYLOAD);
            world.send(WAY, &payload);
            run.sent += PAYLOAD as u64;
            world.drain();
        }
        let datagrams = take();
        let data = datagrams.len().saturating_sub(1);
        for (at, datagram) in datagrams.iter().enumerate() {
            // The data is the last one: what else is due goes first.
            let lost = if at == data { &mut losses } else { &mut other_losses };
            let lost = lost.below(100_000) < loss;
            if let Some(record) = attacker.masks.capture(datagram) {
                let bytes = number_len(&record);
                let number = nearest(crate::onpath::number(&record), bytes, next);
                next = number + 1;
                if with_junk && attacker.rng.below(RATE) == 0 {
                    run.junk += 1;
                    let junk = attacker.make(&record, number);
                    world.deliver(WAY, &attacker.masks.datagram(&junk));
                    world.drain();
                }
            }
            if !lost {
                world.deliver(WAY, datagram);
            }
        }
        world.run_for(if i < records { PERIOD } else { Duration::from_secs(1) });
        world.log.clear();
        run.count(&world, &mut payloads, &mut seen);
    }
    // What silence at the end brings.
    for datagram in take() {
        world.deliver(WAY, &datagram);
    }
    world.run_for(Duration::from_secs(1));
    run.count(&world, &mut payloads, &mut seen);

    run.count_early(world.told(WAY), &mut payloads);
    run.most_held = world.most_held;
    if let Some(stats) = world.stats(WAY) {
        run.evaluations = stats.received.evaluations;
        run.refused = stats.received.refused;
    }
    run
}

/// What one number costs at most, with a thousand forged records ahead of the true one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flood {
    /// The most candidates held at once.
    pub held: usize,
    /// Of the forged records, those that were evaluated.
    pub evaluated: usize,
    /// Evaluations of tags, by records each.
    pub evaluations: u64,
    /// Whether all other records were verified.
    pub others_verified: bool,
    /// Bytes of an opener.
    pub opener_bytes: usize,
}

/// Records before and after the one that is flooded: its set, or all that it shares tags with.
const AROUND: u64 = 80;
/// Forged records of one number.
const FLOOD: u32 = 1000;

/// Forged records of one number, each different, when all that its tags share with it has come
/// but it, or nothing of it.
///
/// # Panics
/// If the setup's scheme shares no tags.
pub fn flood(setup: &Setup, before: bool) -> Flood {
    let Keying::Prf { aggregated, .. } = suite(setup).keying else {
        panic!("{setup:?} has no aggregated tags")
    };
    let prf = aggregated(&TrafficSecret::new([7; 32]), setup.scheme.context());
    let state = |number, payload: u32| {
        let mut content = [[23; 4], payload.to_be_bytes()].concat();
        prf.seal(Record { number, header: &[0x2b, 0, number as u8] }, &mut content)
    };
    let shares = "the scheme shares tags";
    let mut sealer = Sealer::new(setup.scheme, &Order::List).expect(shares);
    let mut opener = <Opener>::new(setup.scheme, &Order::List).expect(shares);
    let sent: Vec<_> = (0..2 * AROUND)
        .map(|number| {
            let mut tag = vec![0; setup.scheme.aggregate_len(number)];
            let state = state(number, 0);
            sealer.seal(&*prf, number, Kind::Data, state.clone(), &mut tag).expect("in order");
            (number, state, tag)
        })
        .collect();
    // The last of a set is what an attack on sets waits for.
    let target = AROUND - 1;
    let (mut slots, mut next) = (HashSet::new(), 0);
    let mut flood = Flood { opener_bytes: size_of::<Opener>(), ..Flood::default() };
    let mut verified = HashSet::new();
    let mut offer = |number: u64, state, tag: &[u8], forged: bool| {
        let before = opener.counters().evaluations;
        let _refusal = opener.admit(number);
        let offered = opener.offer_data(&*prf, number, state, tag, next);
        let evaluations = opener.counters().evaluations - before;
        if forged {
            flood.evaluated += usize::from(evaluations > 0 || offered == Offer::Held);
            flood.evaluations += evaluations;
            if offered == Offer::Held {
                slots.insert(next);
            }
        }
        while let Some(verdict) = opener.next_verdict() {
            slots.remove(&verdict.slot);
            if verdict.outcome == Outcome::Verified {
                verified.insert(verdict.number);
            }
        }
        flood.held = flood.held.max(slots.len());
        // The flooded number's own slots are few; all others come back.
        next = next.wrapping_add(1);
        offered
    };
    let forge = |offer: &mut dyn FnMut(u64, _, &[u8], bool) -> Offer| {
        for i in 1..=FLOOD {
            let mut tag = vec![0; setup.scheme.aggregate_len(target)];
            Random::insecure(i.into()).fill(&mut tag);
            offer(target, state(target, i), &tag, true);
        }
    };
    if before {
        forge(&mut offer);
    }
    for (number, state, tag) in &sent {
        if !before && *number == target {
            forge(&mut offer);
        }
        offer(*number, state.clone(), tag, false);
    }
    flood.others_verified =
        (0..AROUND + 16).all(|number| number == target || verified.contains(&number));
    flood
}

impl Run {
    /// Takes what was told as verified.
    fn count(&mut self, world: &World<'_>, payloads: &mut Payloads, seen: &mut usize) {
        let told = &world.told(WAY).data[*seen..];
        *seen += told.len();
        for data in told {
            if payloads.sent.remove(data) {
                self.verified += data.len() as u64;
            } else {
                self.forged += 1;
            }
        }
    }

    /// Takes what was told before it was verified, and what became of it.
    fn count_early(&mut self, told: &Told, payloads: &mut Payloads) {
        let resolved: HashMap<_, _> = told.resolved.iter().copied().collect();
        for (record, data) in &told.early {
            let how = resolved.get(record);
            let genuine = payloads.all.contains(data);
            self.early += u64::from(!genuine);
            match how {
                Some(Resolution::Verified) if payloads.sent.remove(data) => {
                    self.verified += data.len() as u64;
                }
                Some(Resolution::Verified) => self.forged += 1,
                Some(Resolution::Refuted { .. }) => self.refuted += u64::from(!genuine),
                _ => {}
            }
        }
    }
}

/// Losses of the campaign, in 1/100 000.
const LOSSES: [u64; 4] = [0, 500, 2000, 5000];
/// A scheme that verifies less than this of the payload is no choice for such a loss: of our cells,
/// those of Agg(8), Agg(16) and R2D2(8, 50) at 5 %.
const USABLE: f64 = 2.0 / 3.0;
/// Thresholds of early delivery, in bits.
const THRESHOLDS: [u8; 2] = [16, 32];

/// An association that delivers early.
#[derive(Clone, Debug)]
pub struct Early {
    /// Suite and scheme.
    pub setup: Setup,
    /// From so many bits on.
    pub bits: u8,
    /// What came of it.
    pub run: Run,
}

/// What the campaign found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Each suite and scheme at each loss.
    pub cells: Vec<Cell>,
    /// Each suite with R2D2, delivering early, at a loss of 0.5 %.
    pub early: Vec<Early>,
    /// Each scheme, one number of it flooded.
    pub floods: Vec<(Setup, Flood)>,
}

impl Report {
    /// The greatest loss of goodput, in percent of it, where at least [`USABLE`] of the payload is
    /// verified without junk.
    pub fn worst_fall_percent(&self) -> f64 {
        let usable = self.cells.iter().filter(|cell| cell.clean.goodput() >= USABLE);
        usable.map(Cell::fall_percent).fold(f64::NEG_INFINITY, f64::max)
    }

    /// The same of all cells.
    pub fn worst_fall_percent_of_all(&self) -> f64 {
        self.cells.iter().map(Cell::fall_percent).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Payloads delivered as verified that were never sent, or twice.
    pub fn forged(&self) -> u64 {
        let cells = self.cells.iter().map(|cell| cell.clean.forged + cell.junk.forged);
        cells.chain(self.early.iter().map(|early| early.run.forged)).sum()
    }
}

/// The whole campaign, `records` an association.
pub fn campaign(seed: u64, records: u64) -> Report {
    let setups =
        |suite| SCHEMES.map(|scheme| Setup::new(suite, scheme.parse().expect("a scheme's name")));
    let setups: Vec<Setup> = PRF_SUITES.into_iter().flat_map(setups).collect();
    let jobs: Vec<_> = setups.iter().flat_map(|setup| LOSSES.map(|loss| (*setup, loss))).collect();
    let cells = shared(&jobs, |&(setup, loss)| {
        let [clean, junk] = [false, true].map(|junk| run(&setup, loss, seed, records, junk));
        Cell { setup, loss, clean, junk }
    });
    let bits = |setup: &&Setup| setup.scheme.largest_aggregate_len() < 16;
    let jobs: Vec<_> = setups
        .iter()
        .filter(bits)
        .flat_map(|setup| THRESHOLDS.map(|bits| (*setup, bits)))
        .collect();
    let early = shared(&jobs, |&(setup, bits)| {
        let setup = Setup { delivery: Delivery::Progressive(bits), ..setup };
        Early { setup, bits, run: run(&setup, 500, seed, records, true) }
    });
    let one_suite = setups.iter().take(SCHEMES.len());
    let floods = one_suite
        .flat_map(|setup| [true, false].map(|before| (*setup, flood(setup, before))))
        .collect();
    Report { cells, early, floods }
}
