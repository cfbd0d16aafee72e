//! What junk costs associations whose records share tags. An attacker on the path adds one junk
//! datagram to ten genuine ones, half of them ahead of the genuine record and under its number.
//!
//! The attacker is given more than it can have: it knows the masks, and the content type of a
//! record that was not sent yet.

use crate::forgery::SCHEMES;
use crate::onpath::{Captured, Masks, Payloads, number_len};
use crate::parallel::shared;
use crate::peer_with_keys::suite;
use crate::setup::{PRF_SUITES, Setup, pass};
use lightseal_aggregation::{Offer, Opener, Outcome, RecordKind, RulerOrder, Sealer};
use lightseal_core::Random;
use lightseal_dtls::crypto::{Keying, Record, Sha256, TrafficSecret};
use lightseal_dtls::record::number::nearest;
use lightseal_dtls::{Delivery, Resolution};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;
use testkit::pair::{Direction, Pair, ReportedEvents};

/// The direction under attack.
const WAY: Direction = Direction::ToServer;
/// Length in bytes of each payload.
pub const PAYLOAD: usize = 30;
/// Number of genuine datagrams for each junk datagram.
const RATE: u64 = 10;
/// The largest distance from the newest number at which junk is aimed.
const NEAR: u64 = 8;
/// The interval between two records.
const PERIOD: Duration = Duration::from_millis(10);

/// Two runs with the same lost records, one of them with junk.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Suite and scheme.
    pub setup: Setup,
    /// The share of records that is lost, in 1/100 000.
    pub loss: u64,
    /// The run without junk.
    pub clean: Run,
    /// The run with junk.
    pub junk: Run,
}

impl Cell {
    /// The share of the goodput that is lost because of junk, in percent.
    pub fn fall_percent(&self) -> f64 {
        100.0 * (1.0 - self.junk.goodput() / self.clean.goodput())
    }

    /// The average number of evaluations of tags that each junk datagram caused.
    pub fn evaluations_per_junk(&self) -> f64 {
        let more = self.junk.evaluations as f64 - self.clean.evaluations as f64;
        more / self.junk.junk.max(1) as f64
    }
}

/// The results of one association.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    /// Number of genuine payload bytes sent.
    pub sent: u64,
    /// Number of genuine payload bytes verified and delivered.
    pub verified: u64,
    /// Number of junk datagrams.
    pub junk: u64,
    /// Number of payloads delivered as verified that were never sent, or delivered twice.
    pub forged: u64,
    /// Number of junk payloads that were delivered provisionally.
    pub early: u64,
    /// How many of the junk payloads delivered provisionally were refuted afterwards.
    pub refuted: u64,
    /// Number of evaluations of shared tags: each counts its records.
    pub evaluations: u64,
    /// Number of records refused, because they had too many rivals or were of no use.
    pub refused: u64,
    /// The largest number of payload bytes held at once, overhead included.
    pub most_held: usize,
}

impl Run {
    /// The share of the payload bytes that was verified.
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
    /// Makes junk that is sent ahead of `genuine`, whose number is `number`.
    fn make(&mut self, genuine: &Captured, number: u64) -> Captured {
        let mut junk = genuine.clone();
        match self.rng.below(4) {
            // A random header and body.
            0 => {
                let end = 1 + number_len(&junk);
                self.rng.fill(&mut junk.header[1..end]);
                self.rng.fill(&mut junk.body);
            }
            // A nearby number and the right content type; all else is random.
            1 => {
                let by = 1 + self.rng.below(NEAR);
                let target =
                    if self.rng.below(2) == 0 { number + by } else { number.saturating_sub(by) };
                let bytes = number_len(&junk);
                junk.header[1..1 + bytes].copy_from_slice(&target.to_be_bytes()[8 - bytes..]);
                junk.body = self.data(target, &junk.header);
            }
            // The genuine header and type, which is the body's first byte.
            _ => {
                let at = 1 + self.rng.below(junk.body.len() as u64 - 1) as usize;
                junk.body[at] ^= 1 << self.rng.below(8);
            }
        }
        junk
    }

    /// A body that decrypts to data, with a random tag.
    fn data(&mut self, number: u64, header: &[u8]) -> Vec<u8> {
        let mut body = vec![0; 1 + PAYLOAD + self.setup.scheme.aggregate_len(number)];
        self.rng.fill(&mut body);
        body[0] = 23;
        if let Keying::Prf { aggregated, .. } = suite(self.setup).keying {
            let keys = aggregated(&self.secret.derivation(), self.setup.scheme.context());
            keys.seal(Record { number, header }, &mut body[..1 + PAYLOAD]);
        }
        body
    }
}

/// Sends `records` payloads, of which `loss` in 100 000 are lost, with junk or without it.
///
/// # Panics
/// If the handshake fails.
pub fn run(setup: &Setup, loss: u64, seed: u64, records: u64, with_junk: bool) -> Run {
    let mut rng = Random::insecure(seed);
    let [mut losses, mut other_losses, mut reverse_losses, mut payload_rng, junk_rng] =
        [(); 5].map(|()| rng.fork());
    let captured = Rc::new(RefCell::new(None::<Vec<Vec<u8>>>));
    let tap = Rc::clone(&captured);
    let mut pair = setup.pair(seed).with_rule(move |way, _, datagram| {
        let mut captured = tap.borrow_mut();
        match &mut *captured {
            Some(captured) if way == WAY => {
                captured.push(datagram.to_vec());
                vec![]
            }
            Some(_) if reverse_losses.below(100_000) < loss => vec![],
            _ => pass(datagram),
        }
    });
    pair.run_for(Duration::from_secs(1));
    assert!(pair.at_server.connected.is_some() && pair.at_client.connected.is_some(), "{setup:?}");
    let secret = pair
        .secrets
        .traffic(WAY, lightseal_dtls::record::epochs::APPLICATION_EPOCH)
        .expect("the handshake is complete");
    let masks = Masks::new(setup, &pair.secrets, WAY);
    let mut attacker = Junk { setup, secret, masks, rng: junk_rng };
    *captured.borrow_mut() = Some(Vec::new());
    let take = || captured.borrow_mut().replace(Vec::new()).unwrap_or_default();

    let mut payloads = Payloads::default();
    let mut run = Run::default();
    let (mut seen, mut next) = (0, 0);
    for i in 0..=records {
        if i < records {
            let payload = payloads.fresh(&mut payload_rng, PAYLOAD);
            pair.send(WAY, &payload);
            run.sent += PAYLOAD as u64;
            pair.drain();
        }
        let datagrams = take();
        let data = datagrams.len().saturating_sub(1);
        for (at, datagram) in datagrams.iter().enumerate() {
            // The data record is the last one; other pending records are sent before it.
            let lost = if at == data { &mut losses } else { &mut other_losses };
            let lost = lost.below(100_000) < loss;
            if let Some(record) = attacker.masks.capture(datagram) {
                let bytes = number_len(&record);
                let number = nearest(crate::onpath::number(&record), bytes, next);
                next = number + 1;
                if with_junk && attacker.rng.below(RATE) == 0 {
                    run.junk += 1;
                    let junk = attacker.make(&record, number);
                    pair.deliver(WAY, &attacker.masks.datagram(&junk));
                    pair.drain();
                }
            }
            if !lost {
                pair.deliver(WAY, datagram);
            }
        }
        pair.run_for(if i < records { PERIOD } else { Duration::from_secs(1) });
        pair.log.clear();
        run.count(&pair, &mut payloads, &mut seen);
    }
    // Deliver the records that the silence at the end causes.
    for datagram in take() {
        pair.deliver(WAY, &datagram);
    }
    pair.run_for(Duration::from_secs(1));
    run.count(&pair, &mut payloads, &mut seen);

    run.count_early(pair.events(WAY), &mut payloads);
    run.most_held = pair.most_held;
    if let Some(stats) = pair.stats(WAY) {
        run.evaluations = stats.received.evaluations;
        run.refused = stats.received.refused;
    }
    run
}

/// What a thousand forged records of one number, ahead of the genuine one, cost at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flood {
    /// The largest number of candidates held at once.
    pub held: usize,
    /// Number of forged records that were evaluated.
    pub evaluated: usize,
    /// Number of evaluations of tags: each counts its records.
    pub evaluations: u64,
    /// Whether all other records were verified.
    pub others_verified: bool,
    /// Size in bytes of an opener.
    pub opener_bytes: usize,
}

/// Number of records before and after the flooded one, which include its set, or all records that
/// share tags with it.
const AROUND: u64 = 80;
/// Number of forged records of one number.
const FLOOD: u32 = 1000;

/// Sends different forged records of one number: before all other records that share its tags if
/// `before` is set, else when all of them up to it have arrived.
///
/// # Panics
/// If the setup's scheme shares no tags.
pub fn flood(setup: &Setup, before: bool) -> Flood {
    let Keying::Prf { aggregated, .. } = suite(setup).keying else {
        panic!("{setup:?} has no aggregated tags")
    };
    let prf =
        aggregated(&TrafficSecret::new(&Sha256, &[7; 32]).derivation(), setup.scheme.context());
    let state = |number, payload: u32| {
        let mut content = [[23; 4], payload.to_be_bytes()].concat();
        prf.seal(Record { number, header: &[0x2b, 0, number as u8] }, &mut content)
    };
    let shares = "the scheme shares tags";
    let mut sealer = Sealer::new(setup.scheme, &RulerOrder::List).expect(shares);
    let mut opener = <Opener>::new(setup.scheme, &RulerOrder::List).expect(shares);
    let sent: Vec<_> = (0..2 * AROUND)
        .map(|number| {
            let mut tag = vec![0; setup.scheme.aggregate_len(number)];
            let state = state(number, 0);
            sealer
                .seal(&*prf, number, RecordKind::Data, state.clone(), &mut tag)
                .expect("records are sealed in order");
            (number, state, tag)
        })
        .collect();
    // The target is the last record of a set, which completes it.
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
        // Few slots are held for the flooded number, and all others are returned, so slot numbers
        // may wrap.
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
    /// Counts the payloads that were delivered as verified.
    fn count(&mut self, pair: &Pair<'_>, payloads: &mut Payloads, seen: &mut usize) {
        let told = &pair.events(WAY).data[*seen..];
        *seen += told.len();
        for data in told {
            if payloads.sent.remove(data) {
                self.verified += data.len() as u64;
            } else {
                self.forged += 1;
            }
        }
    }

    /// Counts the payloads that were delivered provisionally, and their resolutions.
    fn count_early(&mut self, told: &ReportedEvents, payloads: &mut Payloads) {
        let resolved: HashMap<_, _> = told.resolved.iter().copied().collect();
        for (record, _, data) in &told.early {
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

/// The loss rates of the campaign, in 1/100 000.
const LOSSES: [u64; 4] = [0, 500, 2000, 5000];
/// A scheme that verifies less than this share of the payload is unsuitable for such a loss. These
/// are Agg(8), Agg(16) and R2D2(8, 50) at 5 %.
const USABLE: f64 = 2.0 / 3.0;
/// Levels in bits from which data is delivered provisionally.
const THRESHOLDS: [u8; 2] = [16, 32];

/// The results of an association with provisional delivery.
#[derive(Clone, Debug)]
pub struct ProvisionalResults {
    /// Suite and scheme.
    pub setup: Setup,
    /// The level in bits from which data is delivered provisionally.
    pub bits: u8,
    /// The results.
    pub run: Run,
}

/// The results of the campaign.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The results for each suite and scheme at each loss rate.
    pub cells: Vec<Cell>,
    /// The results for each suite with R2D2 and provisional delivery, at a loss of 0.5 %.
    pub early: Vec<ProvisionalResults>,
    /// The results for each scheme with one number flooded.
    pub floods: Vec<(Setup, Flood)>,
}

impl Report {
    /// The greatest loss of goodput because of junk, in percent, among cells in which at least
    /// [`USABLE`] of the payload is verified without junk.
    pub fn worst_fall_percent(&self) -> f64 {
        let usable = self.cells.iter().filter(|cell| cell.clean.goodput() >= USABLE);
        usable.map(Cell::fall_percent).fold(f64::NEG_INFINITY, f64::max)
    }

    /// The greatest loss of goodput because of junk, in percent, among all cells.
    pub fn worst_fall_percent_of_all(&self) -> f64 {
        self.cells.iter().map(Cell::fall_percent).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Number of payloads delivered as verified that were never sent, or delivered twice.
    pub fn forged(&self) -> u64 {
        let cells = self.cells.iter().map(|cell| cell.clean.forged + cell.junk.forged);
        cells.chain(self.early.iter().map(|early| early.run.forged)).sum()
    }
}

/// Runs the whole campaign, with `records` records in each association.
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
        ProvisionalResults { setup, bits, run: run(&setup, 500, seed, records, true) }
    });
    let one_suite = setups.iter().take(SCHEMES.len());
    let floods = one_suite
        .flat_map(|setup| [true, false].map(|before| (*setup, flood(setup, before))))
        .collect();
    Report { cells, early, floods }
}
