//! Junk: random, altered and replayed datagrams.

use crate::mutate;
use crate::setup::{Setup, clear_len, client_address, pass};
use lightseal_core::{Engine, Random};
use lightseal_dtls::codepoints::AlertDescription;
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::record::UnifiedHeader;
use lightseal_dtls::{CloseReason, CookiePolicy, Scheme};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use testkit::pair::{Direction, Pair};

/// The state of the two ends when the junk arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing has arrived yet.
    Fresh,
    /// The client has received the ServerHello and nothing after it.
    HalfAClient,
    /// The server waits for the client's Finished.
    HalfAServer,
    /// Both ends are connected and have exchanged data.
    Established,
}

const STAGES: [Stage; 6] = [
    Stage::Fresh,
    Stage::HalfAClient,
    Stage::HalfAServer,
    Stage::Established,
    Stage::Established,
    Stage::Established,
];

/// Number of junk datagrams that one pair of ends receives.
const PER_ROUND: usize = 500;
/// Number of records in each direction before and after the junk: whole aggregates of any size.
const RECORDS: u32 = 32;

/// The effects of the junk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of junk datagrams.
    pub datagrams: usize,
    /// Number of rounds in which an engine panicked.
    pub panics: usize,
    /// Number of payloads delivered that were never sent, or delivered twice.
    pub deliveries: usize,
    /// Number of established associations that carried no data afterwards.
    pub killed: usize,
    /// The largest number of payload bytes that an end ever held.
    pub most_held: usize,
    /// The largest number of associations of a server at once.
    pub most_open: usize,
    /// Descriptions of the first failures.
    pub failures: Vec<String>,
}

impl Stage {
    fn reach<'a>(self, setup: &Setup, seed: u64) -> Pair<'a> {
        let mut pair = setup.pair(seed);
        let protected = |datagram: &[u8]| UnifiedHeader::begins_with(datagram[0]);
        match self {
            Self::Fresh => {
                pair.rule = Box::new(|_, _, _| vec![]);
                pair.drain();
            }
            Self::HalfAClient => {
                pair.rule = Box::new(|direction, _, datagram| {
                    // Only the unprotected record of the server's flight arrives.
                    let len = match direction {
                        Direction::ToClient => clear_len(datagram),
                        Direction::ToServer => datagram.len(),
                    };
                    if len == 0 { vec![] } else { pass(&datagram[..len]) }
                });
                pair.run_for(Duration::from_millis(40));
            }
            Self::HalfAServer => {
                pair.rule = Box::new(move |direction, _, datagram| {
                    let lost = direction == Direction::ToServer && protected(datagram);
                    if lost { vec![] } else { pass(datagram) }
                });
                pair.run_for(Duration::from_millis(40));
            }
            Self::Established => {
                pair.run_for(Duration::from_secs(1));
                exchange(&mut pair, 0);
            }
        }
        pair
    }
}

fn exchange(pair: &mut Pair<'_>, from: u32) {
    for index in from..from + RECORDS {
        for direction in Direction::BOTH {
            let mut payload = index.to_be_bytes().to_vec();
            payload.resize(if index.is_multiple_of(3) { 1000 } else { 4 }, 0);
            pair.send(direction, &payload);
        }
        pair.run_for(Duration::from_millis(1));
    }
    pair.run_for(Duration::from_secs(1));
}

/// Whether the association ended because CCM_8's keys may be used for 2^7 forgeries only (RFC 9147,
/// section 4.5.3).
fn ends_by_limit(setup: &Setup, pair: &Pair<'_>) -> bool {
    setup.suite == CipherSuiteId::AES_128_CCM_8_SHA256
        && Direction::BOTH.into_iter().any(|way| {
            matches!(
                pair.events(way).closed,
                Some(
                    CloseReason::Fault(_)
                        | CloseReason::PeerAlert(AlertDescription::BAD_RECORD_MAC)
                )
            )
        })
}

/// A genuine datagram whose masked record number is changed a little. The mask stays the same, so
/// the attacker chooses the number.
fn aimed(rng: &mut Random, corpus: &[Vec<u8>]) -> Vec<u8> {
    let newest = corpus.len() - 1 - rng.below(corpus.len().min(40) as u64) as usize;
    let mut datagram = corpus[newest].clone();
    let low = if datagram[0] & 8 != 0 { 2 } else { 1 };
    if let Some(byte) = datagram.get_mut(low) {
        *byte ^= rng.below(128) as u8;
    }
    // This byte is after the sample from which the mask is computed.
    if let Some(byte) = datagram.get_mut(low + 17) {
        *byte ^= rng.below(256) as u8;
    }
    datagram
}

fn stranger(rng: &mut Random) -> SocketAddr {
    let [a, b] = rng.array();
    ([198, 51, 100, a], 1024 + u16::from(b)).into()
}

/// Sends junk to one pair of ends at one stage.
fn round(setup: &Setup, stage: Stage, seed: u64, report: &mut Report) {
    let mut rng = Random::insecure(seed);
    let mut pair = stage.reach(setup, seed);
    let other = Stage::Established.reach(setup, seed ^ 1);
    // The newest datagrams of the attacked association are last.
    let corpus: Vec<_> =
        other.log.iter().chain(&pair.log).map(|(_, datagram)| datagram.clone()).collect();
    let before = Direction::BOTH.map(|way| pair.events(way).data.len());
    pair.rule = Box::new(|_, _, _| vec![]);

    for _ in 0..PER_ROUND {
        let mut datagram = match rng.below(8) {
            0..3 => mutate::noise(&mut rng),
            // An unchanged datagram: a replay, or one of another association.
            3 => corpus[rng.below(corpus.len() as u64) as usize].clone(),
            4 => aimed(&mut rng, &corpus),
            _ => mutate::altered(&mut rng, &corpus),
        };
        match rng.below(5) {
            0 | 1 => pair.deliver(Direction::ToClient, &datagram),
            2 | 3 => pair.deliver(Direction::ToServer, &datagram),
            _ => {
                let from = stranger(&mut rng);
                assert_ne!(from, client_address());
                pair.server.handle_datagram(pair.now, from, &mut datagram);
            }
        }
        report.datagrams += 1;
        if rng.below(4) == 0 {
            pair.run_for(Duration::from_millis(rng.below(20)));
        } else {
            pair.drain();
        }
    }

    let after = Direction::BOTH.map(|way| pair.events(way).data.len());
    let delivered = after[0] + after[1] - before[0] - before[1];
    report.deliveries += delivered;
    report.most_held = report.most_held.max(pair.most_held);
    report.most_open = report.most_open.max(pair.most_open);
    let mut killed = false;
    if stage == Stage::Established {
        pair.rule = Box::new(|_, _, datagram| pass(datagram));
        exchange(&mut pair, RECORDS);
        let dead = |pair: &Pair<'_>| {
            Direction::BOTH.into_iter().any(|way| pair.events(way).data.len() == before[0])
        };
        // Under R2D2 no record is verified among numbers that were much tried, so further records
        // must follow.
        if matches!(setup.scheme, Scheme::R2d2(_)) && dead(&pair) {
            (2..=4).for_each(|turn| exchange(&mut pair, turn * RECORDS));
        }
        killed = dead(&pair) && !ends_by_limit(setup, &pair);
        report.killed += usize::from(killed);
    }
    if (delivered > 0 || killed) && report.failures.len() < 20 {
        let closed = Direction::BOTH.map(|way| pair.events(way).closed);
        report
            .failures
            .push(format!("{setup:?} {stage:?} seed {seed}: {delivered} delivered, {closed:?}"));
    }
}

/// Sends at least `datagrams` of junk, to each of the setups at every stage in turn.
pub fn run(mut setups: Vec<Setup>, seed: u64, datagrams: usize) -> Report {
    setups.iter_mut().for_each(|setup| setup.cookies = CookiePolicy::Always);
    let mut report = Report::default();
    let turns = (0..).map(|turn: u64| {
        let setup = setups[turn as usize % setups.len()];
        (turn, setup, STAGES[turn as usize / setups.len() % STAGES.len()])
    });
    for (turn, setup, stage) in turns {
        if report.datagrams >= datagrams {
            break;
        }
        // Seeds are used in pairs: the one with the lowest bit set is for the other association.
        let seed = seed.wrapping_mul(1 << 32).wrapping_add(turn * 2);
        let attempt = AssertUnwindSafe(|| round(&setup, stage, seed, &mut report));
        if catch_unwind(attempt).is_err() {
            report.panics += 1;
            report.failures.push(format!("{setup:?} {stage:?} seed {seed}: panic"));
        }
    }
    report
}
