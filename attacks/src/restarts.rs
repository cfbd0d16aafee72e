//! Associations whose processes end at any point, and go on from what they had written ahead.

use crate::credentials::Credentials;
use crate::parallel::shared;
use crate::setup::defaults;
use lightseal_core::Random;
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::{AggregationPolicy, ConnectionIds, Delivery, ProtocolVersion};
use std::sync::Arc;
use testkit::restart::{ENDS, Fault, Plan, Report, Watch, World, Wrong};

/// The random actions of a run in which processes end at random points.
const ACTIONS: u32 = 30;
/// The random actions of a run that is repeated with an end at each of its points.
const FEW_ACTIONS: u32 = 8;
/// How often an end is restarted while its peer sleeps.
const SLEEPS: u32 = 20;
/// The most descriptions of what went wrong.
const MOST_FAILURES: usize = 20;

/// A kind of association.
#[derive(Clone, Copy, Debug)]
struct Kind {
    version: ProtocolVersion,
    credentials: Credentials,
    has_ids: bool,
    /// The aggregation schemes for what goes to the server, and to the client. The first ones are
    /// used, and an end asks for the others.
    schemes: [&'static [&'static str]; 2],
}

/// Schemes of each family and set size in either direction or both.
const SHARED: [[&[&str]; 2]; 6] = [
    [&["agg:8", "agg:16", "agg:4", "agg:2"], &["agg:16", "agg:8"]],
    [&["r2d2:100", "r2d2:50", "r2d2:200"], &["r2d2:150", "r2d2:50"]],
    [&["agg:3", "r2d2:50+check"], &[]],
    [&[], &["r2d2:200", "agg:8"]],
    [&["sliding:50", "agg:15"], &["agg:5", "sliding:200"]],
    [&["agg:2+check", "agg:16+check"], &["r2d2:150+check", "agg:7"]],
];

/// What came of all runs.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Runs.
    pub runs: u64,
    /// Points at which a process ended.
    pub kills: u64,
    /// How often an association was restored.
    pub restored: u64,
    /// Payloads delivered.
    pub delivered: u64,
    /// Payloads that were not delivered: the network lost them, a process that ended had them, they
    /// were below a mark, or no tag verified them.
    pub lost: u64,
    /// Runs with shared tags.
    pub shared: u64,
    /// Payloads of these runs that were not delivered.
    pub shared_lost: u64,
    /// Payloads of these runs that were delivered.
    pub shared_delivered: u64,
    /// Changes of an aggregation scheme that an end has noticed.
    pub changes: u64,
    /// Points at which a process ended while such a change was under way.
    pub kills_in_changes: u64,
    /// Protected records that the observer has read.
    pub records: u64,
    /// Runs in which an end sealed two records under one number.
    pub numbers: u64,
    /// Runs in which a payload was delivered twice.
    pub payloads: u64,
    /// Runs in which shared tags seemed to prove that a record was forged.
    pub forgeries: u64,
    /// Runs in which another handshake was needed.
    pub handshakes: u64,
    /// Runs that did not end in an echo both ways, or in which an end did what it must not do.
    pub silences: u64,
    /// Descriptions of the first of these runs.
    pub failures: Vec<String>,
}

impl Kind {
    fn all() -> Vec<Self> {
        let versions = [ProtocolVersion::Dtls13, ProtocolVersion::Dtls12];
        let credentials = [Credentials::Psk, Credentials::RawKeys, Credentials::Certificates];
        let kinds = credentials.into_iter().flat_map(|credentials| {
            versions.into_iter().flat_map(move |version| {
                let schemes = [&[][..]; 2];
                [true, false].map(|has_ids| Self { version, credentials, has_ids, schemes })
            })
        });
        let version = ProtocolVersion::Dtls13;
        let shared = SHARED.into_iter().zip(credentials.into_iter().cycle());
        let shared = shared.flat_map(|(schemes, credentials)| {
            [true, false].map(|has_ids| Self { version, credentials, has_ids, schemes })
        });
        kinds.chain(shared).collect()
    }

    fn shares(self) -> bool {
        self.schemes.iter().any(|schemes| !schemes.is_empty())
    }

    fn world(self, plan: Plan) -> World {
        let watch = Watch::default();
        let mut settings = defaults();
        watch.watch(&mut settings);
        let is_psk = self.credentials == Credentials::Psk;
        let (suite, mode) = match (self.version, is_psk) {
            (ProtocolVersion::Dtls12, true) => {
                (CipherSuiteId::PSK_WITH_AES_128_CCM, PskKeyExchangeMode::PSK_KE)
            }
            (ProtocolVersion::Dtls12, false) => {
                (CipherSuiteId::ECDHE_ECDSA_WITH_AES_128_CCM_8, PskKeyExchangeMode::PSK_DHE_KE)
            }
            (_, true) => (CipherSuiteId::AES_128_CCM_SHA256, PskKeyExchangeMode::PSK_KE),
            (_, false) => (CipherSuiteId::AES_128_CCM_SHA256, PskKeyExchangeMode::PSK_DHE_KE),
        };
        settings.provider = self.credentials.provider();
        settings.versions = vec![self.version];
        // The observer takes the hash from a suite of DTLS 1.3.
        settings.suites = vec![suite, CipherSuiteId::AES_128_CCM_SHA256];
        settings.psk_modes = vec![mode];
        settings.connection_ids =
            if self.has_ids { ConnectionIds::Bytes(8) } else { ConnectionIds::Off };
        let schemes = self.schemes.map(|names| {
            names.iter().map(|name| name.parse().expect("the name of a scheme")).collect::<Vec<_>>()
        });
        let [up, down] = schemes;
        settings.aggregation = AggregationPolicy::new(up.clone(), down.clone());
        if self.shares() && !self.has_ids {
            // What is delivered before it is verified is not delivered again, either.
            settings.delivery = Delivery::Unauthenticated;
        }
        let mut of_server = settings.clone();
        of_server.aggregation = AggregationPolicy::new(down, up);
        let (client, _) = self.credentials.configs(settings);
        let (_, server) = self.credentials.configs(of_server);
        World::between(&watch, Arc::new(client), Arc::new(server), plan)
    }

    /// A run whose processes end at some of its points, all drawn from `seed`.
    fn random(self, seed: u64) -> Result<Report, Wrong> {
        let mut rng = Random::insecure(seed);
        let mut kills: Vec<u64> = (0..rng.below(8)).map(|_| rng.below(2000)).collect();
        kills.sort_unstable();
        // Without connection IDs a peer that moves needs another handshake.
        let moves = self.has_ids;
        self.world(Plan { seed, actions: ACTIONS, kills, faults: true, moves, stops: true }).run()
    }

    /// A short run, with these ends of processes.
    fn short(self, seed: u64, kills: Vec<u64>) -> Result<Report, Wrong> {
        self.world(Plan {
            seed,
            actions: FEW_ACTIONS,
            kills,
            faults: true,
            moves: self.has_ids,
            stops: true,
        })
        .run()
    }
}

impl Totals {
    fn count(&mut self, kind: Kind, result: Result<Report, Wrong>) {
        self.runs += 1;
        match result {
            Ok(report) => {
                self.kills += report.kills;
                self.restored += report.restored;
                self.delivered += report.delivered;
                self.records += report.records;
                self.lost += report.lost;
                self.changes += report.changes;
                self.kills_in_changes += report.kills_in_changes;
                if kind.shares() {
                    self.shared += 1;
                    self.shared_lost += report.lost;
                    self.shared_delivered += report.delivered;
                }
            }
            Err(wrong) => {
                match wrong.fault {
                    Fault::Number => self.numbers += 1,
                    Fault::Payload => self.payloads += 1,
                    Fault::Forgery => self.forgeries += 1,
                    Fault::Handshake => self.handshakes += 1,
                    Fault::Silence | Fault::Other => self.silences += 1,
                }
                if self.failures.len() < MOST_FAILURES {
                    self.failures.push(format!("{kind:?}: {wrong}"));
                }
            }
        }
    }
}

/// Runs of all kinds in turn, whose processes end at random points: `count` runs, with the seeds from
/// `seed` on.
pub fn random(seed: u64, count: u64) -> Totals {
    let kinds = Kind::all();
    let jobs: Vec<u64> = (seed..seed + count).collect();
    totals(shared(&jobs, |seed| {
        let kind = kinds[*seed as usize % kinds.len()];
        (kind, kind.random(*seed))
    }))
}

/// A short run of each kind, repeated with an end at every `stride`-th of its points; and for each end
/// of each kind, restarts while its peer sleeps.
pub fn every_point(seed: u64, stride: usize) -> Totals {
    let mut all = Vec::new();
    for kind in Kind::all() {
        let without = kind.short(seed, vec![]);
        let points = without.as_ref().map_or(0, |report| report.points);
        let jobs: Vec<u64> = (0..points).step_by(stride).collect();
        all.push((kind, without));
        all.extend(shared(&jobs, |point| (kind, kind.short(seed, vec![*point]))));
        for end in ENDS {
            let plan = Plan {
                seed,
                actions: FEW_ACTIONS,
                kills: vec![],
                faults: true,
                moves: false,
                stops: false,
            };
            all.push((kind, kind.world(plan).restart_often(end, SLEEPS)));
        }
    }
    totals(all)
}

fn totals(results: Vec<(Kind, Result<Report, Wrong>)>) -> Totals {
    let mut totals = Totals::default();
    for (kind, result) in results {
        totals.count(kind, result);
    }
    totals
}
