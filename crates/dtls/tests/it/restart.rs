//! Associations that outlive their processes: two ends that end at any point, in virtual time.

use lightseal_core::Random;
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::{ConnectionIds, ProtocolVersion};
use testkit::pair::Configs;
use testkit::restart::{ENDS, Plan, Report, World};

/// The kinds of associations that are saved, by name.
const KINDS: [&str; 4] = ["1.3", "1.3 without IDs", "1.2", "1.2 without IDs"];

fn configs(kind: &str) -> Configs {
    let (suite, version) = match kind.starts_with("1.3") {
        true => (CipherSuiteId::AES_128_GCM_SHA256, ProtocolVersion::Dtls13),
        false => (CipherSuiteId::PSK_WITH_AES_128_CCM, ProtocolVersion::Dtls12),
    };
    let mut configs = Configs::new();
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.versions = vec![version];
        settings.suites = vec![suite, CipherSuiteId::AES_128_GCM_SHA256];
        settings.psk_modes = vec![PskKeyExchangeMode::PSK_KE];
        settings.connection_ids =
            if kind.ends_with("IDs") { ConnectionIds::Off } else { ConnectionIds::Bytes(8) };
    }
    configs
}

fn run(kind: &str, plan: Plan) -> Report {
    World::new(configs(kind), plan).run().unwrap_or_else(|wrong| panic!("{kind}: {wrong}"))
}

#[test]
fn without_an_end_nothing_is_lost_and_nobody_waits() {
    for kind in KINDS {
        let plan = Plan { seed: 1, actions: 40, kills: vec![], faults: false };
        let report = run(kind, plan);
        assert_eq!((report.handshakes, report.lost), (1, 0), "{kind}: {report:?}");
        assert!(report.delivered > 50 && report.writes > 10, "{kind}: {report:?}");
    }
}

#[test]
fn one_run() {
    let Ok(args) = std::env::var("RUN") else { return };
    let mut args = args.split(' ');
    let kind = KINDS[args.next().unwrap().parse::<usize>().unwrap()];
    let seed = args.next().unwrap().parse().unwrap();
    let actions = args.next().unwrap().parse().unwrap();
    let kills = args.map(|a| a.parse().unwrap()).collect();
    std::println!("{:?}", run(kind, Plan { seed, actions, kills, faults: true }));
}

#[test]
fn an_end_at_any_point() {
    for (kind, seed) in KINDS.into_iter().flat_map(|kind| [1, 2].map(|seed| (kind, seed))) {
        let plan = |kills| Plan { seed, actions: 12, kills, faults: true };
        let points = run(kind, plan(vec![])).points;
        assert!(points > 100, "{kind}: {points} points");
        let mut restored = 0;
        for point in 0..points {
            restored += run(kind, plan(vec![point])).restored;
        }
        assert!(restored > points / 2, "{kind}: {restored} of {points}");
    }
}

#[test]
fn ends_at_random_points() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok());
    let mut totals = Report::default();
    for seed in seed.map_or(0..400, |seed| seed..seed + 1) {
        let kind = KINDS[seed as usize % KINDS.len()];
        let mut rng = Random::insecure(seed);
        let mut kills: Vec<u64> = (0..rng.below(8)).map(|_| rng.below(2000)).collect();
        kills.sort_unstable();
        let report = run(kind, Plan { seed, actions: 30, kills, faults: true });
        totals.restored += report.restored;
        totals.delivered += report.delivered;
    }
    assert!(totals.delivered > 0);
}

#[test]
fn many_restarts_while_the_peer_sleeps() {
    for (kind, end) in KINDS.into_iter().flat_map(|kind| ENDS.map(|end| (kind, end))) {
        let plan = Plan { seed: 3, actions: 8, kills: vec![], faults: true };
        let report = World::new(configs(kind), plan).restart_often(end, 20);
        let report = report.unwrap_or_else(|wrong| panic!("{kind}, {end}: {wrong}"));
        assert_eq!((report.kills, report.restored, report.handshakes), (20, 20, 1), "{kind}");
    }
}
