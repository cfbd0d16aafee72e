//! A dead server is noticed, and a live one is not considered dead.

use lightseal_core::Engine;
use lightseal_dtls::{CookiePolicy, ProtocolVersion, Watch};
use std::time::Duration;
use testkit::pair::{Configs, Direction, pass, server_address};
use testkit::watched::{self, INTERVAL, Scenario, hints, restart};

const PATH: Duration = Duration::from_millis(10);
const TWICE_A_SECOND: Scenario =
    Scenario { one_way: PATH, loss_percent: 0, every: Duration::from_millis(500), echoes: true };
const HINT: [u8; 13] = [0xe3, 0xfe, 0xfd, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];

fn version(version: ProtocolVersion) -> Configs {
    let mut configs = Configs::new();
    configs.client.settings.versions = vec![version];
    configs
}

#[test]
fn an_hour_of_loss_brings_no_false_alarm() {
    for scenario in watched::lossy() {
        let (alarms, bytes) = scenario.false_alarms(1);
        assert_eq!(alarms, 0, "{scenario:?}");
        assert!(bytes < 100_000, "{bytes} bytes of probes: {scenario:?}");
    }
}

#[test]
fn a_path_of_three_seconds_brings_no_false_alarm() {
    for scenario in watched::slow() {
        let (alarms, _) = scenario.false_alarms(2);
        assert_eq!(alarms, 0, "{scenario:?}");
    }
}

#[test]
fn a_path_that_becomes_slow_brings_no_false_alarm() {
    for every in [500, 7_000, 45_000] {
        let scenario = Scenario { every: Duration::from_millis(every), ..TWICE_A_SECOND };
        let mut pair = scenario.pair(Configs::new(), 3);
        scenario.talk(&mut pair, Duration::from_secs(120));
        pair.rule =
            Box::new(|_, _, datagram| vec![(Duration::from_millis(1250), datagram.to_vec())]);
        scenario.talk(&mut pair, Duration::from_secs(600));
        assert_eq!(pair.client.stats().received.silences, 0, "{scenario:?}");
    }
}

#[test]
fn a_server_that_dies_is_noticed_in_four_seconds() {
    for (loss_percent, seed) in [(0, 4), (5, 5), (5, 6)] {
        for dtls in [ProtocolVersion::Dtls12, ProtocolVersion::Dtls13] {
            let scenario = Scenario { loss_percent, ..TWICE_A_SECOND };
            let took = scenario.until_noticed(version(dtls), seed, false);
            assert!(took <= Duration::from_secs(4), "{took:?}, {dtls:?}");
        }
    }
}

#[test]
fn a_one_way_flow_is_probed_at_most_once_in_an_interval() {
    let scenario = Scenario { echoes: false, ..TWICE_A_SECOND };
    let mut pair = scenario.pair(Configs::new(), 7);
    scenario.talk(&mut pair, 20 * INTERVAL);
    let sent = pair.client.stats().sent;
    assert!((18..=20).contains(&sent.probes), "{sent:?}");
    assert!(sent.probe_bytes >= 19 * sent.probes, "{sent:?}");
}

#[test]
fn an_answer_that_a_service_never_gives_is_asked_for_ever_less_often() {
    let mut pair = TWICE_A_SECOND.pair(Configs::new(), 8);
    TWICE_A_SECOND.talk(&mut pair, Duration::from_secs(10));
    assert_eq!(pair.client.stats().sent.probes, 0, "every message was answered");
    pair.echoes = false;
    TWICE_A_SECOND.talk(&mut pair, 20 * INTERVAL);
    let probes = pair.client.stats().sent.probes;
    assert!((20..=30).contains(&probes), "{probes}");
}

#[test]
fn a_server_that_was_restarted_hints_and_is_believed_nothing() {
    for dtls in [ProtocolVersion::Dtls12, ProtocolVersion::Dtls13] {
        let scenario = Scenario { echoes: false, ..TWICE_A_SECOND };
        let took = scenario.until_noticed(version(dtls), 9, true);
        // Without a hint it would take until the next probe, in up to 30 s.
        assert!(took <= Duration::from_secs(4), "{took:?}, {dtls:?}");

        let mut pair = scenario.pair(version(dtls), 9);
        restart(&mut pair, 9);
        let before = pair.log.len();
        pair.client_send(b"anybody?");
        pair.run_for(Duration::from_secs(1));
        let sent: usize = pair.log[before..]
            .iter()
            .filter(|(direction, _)| *direction == Direction::ToServer)
            .map(|(_, datagram)| datagram.len())
            .sum();
        assert!(hints(&pair).all(|hint| hint == HINT) && hints(&pair).count() > 0);
        assert!(hints(&pair).count() * HINT.len() <= sent);
        assert!(pair.client.is_connected() && pair.at_client.closed.is_none());
        assert!(pair.server.stats().hints > 0);
    }
}

#[test]
fn forged_hints_cost_a_probe_now_and_then() {
    let mut pair = TWICE_A_SECOND.pair(Configs::new(), 10);
    for _ in 0..6000 {
        pair.inject(Direction::ToClient, HINT.to_vec());
        pair.client.suspect(pair.now);
        pair.run_for(Duration::from_millis(10));
    }
    // Probes are sent after 0, 2, 6, 14, 30 and 60 s.
    let stats = pair.client.stats();
    assert_eq!((stats.sent.probes, stats.received.hints), (6, 6000));
    assert!(!pair.client.peer_is_silent() && stats.received.silences == 0);
    pair.client_send(b"still here");
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.at_client.data.last().unwrap(), b"still here");
}

#[test]
fn no_endpoint_answers_a_hint_nor_what_is_shorter_or_in_clear() {
    let mut pair = Configs::new().pair(11);
    let stranger = "[2001:db8::77]:7".parse().unwrap();
    let in_clear = [&[23, 0xfe, 0xfd, 0, 0][..], &[0; 6], &[0, 30], &[1; 30]].concat();
    for datagram in [HINT.to_vec(), in_clear, vec![0x2c, 1, 1, 1], vec![0x80; 40], vec![]] {
        pair.inject_from(stranger, datagram);
    }
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.server.stats().hints, 0);
    let record = [&[0x2f, 1, 2, 0, 17][..], &[7; 17]].concat();
    for _ in 0..1000 {
        pair.inject_from(stranger, record.clone());
    }
    pair.run_for(Duration::from_millis(500));
    assert_eq!(pair.server.stats().hints, 10);
}

#[test]
fn a_server_whose_habits_are_unknown_is_asked_once_and_one_that_never_answers_is_not_taken_for_dead()
 {
    for answers in [true, false] {
        let mut pair = Configs::new().pair(12).with_rule(|_, _, datagram| pass(datagram));
        (pair.answers_probes, pair.echoes) = (answers, true);
        pair.client.watch(pair.now, Watch { interval: INTERVAL, answers: None });
        pair.connect();
        pair.run_for(Duration::from_secs(5));
        assert_eq!(pair.client.stats().sent.probes, 1);
        assert_eq!(pair.client.peer_answers_probes(), answers);
        pair.run_for(10 * INTERVAL);
        assert_eq!(pair.client.stats().sent.probes, 1 + 10);
        assert_eq!(pair.client.stats().received.silences, 0);
    }
}

#[test]
fn neither_a_probe_nor_its_answer_waits_for_others_under_shared_tags() {
    let configs = Configs::aggregated("agg:8").waiting(Duration::from_secs(20));
    let scenario = Scenario { echoes: false, ..TWICE_A_SECOND };
    let mut pair = scenario.pair(configs, 13);
    pair.client_send(b"not answered");
    pair.client.suspect(pair.now);
    pair.run_for(3 * PATH);
    let stats = pair.client.stats();
    assert_eq!((stats.sent.probes, stats.received.delivered), (1, 1), "{stats:?}");
}

#[test]
fn a_peer_that_comes_back_is_silent_no_more() {
    let mut pair = TWICE_A_SECOND.pair(Configs::new(), 14);
    TWICE_A_SECOND.talk(&mut pair, Duration::from_secs(5));
    let rule = std::mem::replace(&mut pair.rule, Box::new(|_, _, _| Vec::new()));
    TWICE_A_SECOND.talk(&mut pair, Duration::from_secs(20));
    assert!(pair.client.peer_is_silent());
    pair.rule = rule;
    pair.client_send(b"and now?");
    pair.run_for(3 * PATH);
    assert!(!pair.client.peer_is_silent() && pair.at_client.data.len() == 1);
    assert_eq!(pair.client.stats().received.silences, 1);
}

/// How long after its death a server is noticed whose path was interrupted for a minute before.
fn until_noticed_after_an_outage(scenario: Scenario, seed: u64) -> Duration {
    let mut pair = scenario.pair(Configs::new(), seed);
    scenario.talk(&mut pair, Duration::from_secs(10));
    let rule = std::mem::replace(&mut pair.rule, Box::new(|_, _, _| Vec::new()));
    scenario.talk(&mut pair, Duration::from_secs(60));
    assert!(pair.client.peer_is_silent());
    pair.rule = rule;
    // At last a probe, or a message if there are answers, finds that the path works again.
    while pair.client.peer_is_silent() {
        scenario.talk(&mut pair, Duration::from_millis(500));
    }
    scenario.talk(&mut pair, Duration::from_secs(5));
    let died = pair.now;
    restart(&mut pair, seed);
    while !pair.client.peer_is_silent() {
        assert!(pair.now < died + Duration::from_secs(120), "it is not noticed: {scenario:?}");
        pair.client_send(b"how are you?");
        pair.run_for(Duration::from_millis(100));
    }
    pair.now - died
}

#[test]
fn an_outage_does_not_make_the_client_blind() {
    for (echoes, seed) in [(true, 15), (false, 16)] {
        let scenario = Scenario { echoes, ..TWICE_A_SECOND };
        let took = until_noticed_after_an_outage(scenario, seed);
        assert!(took <= Duration::from_secs(5), "{took:?}, {scenario:?}");
    }
}

/// The probe is answered first, and then the message whose answer the outage has delayed.
#[test]
fn an_answer_after_an_outage_is_no_measure_of_the_service() {
    let scenario = TWICE_A_SECOND;
    let mut pair = scenario.pair(Configs::new(), 17);
    scenario.talk(&mut pair, Duration::from_secs(10));
    let rule = std::mem::replace(&mut pair.rule, Box::new(|_, _, _| Vec::new()));
    pair.client_send(b"lost");
    pair.run_for(Duration::from_secs(60));
    pair.rule = rule;
    while pair.client.peer_is_silent() {
        pair.run_for(Duration::from_millis(100));
    }
    scenario.talk(&mut pair, Duration::from_secs(5));
    let died = pair.now;
    pair.rule = Box::new(|_, _, _| Vec::new());
    while !pair.client.peer_is_silent() {
        assert!(pair.now < died + Duration::from_secs(5), "it is not noticed");
        pair.client_send(b"how are you?");
        pair.run_for(Duration::from_millis(100));
    }
}

/// Without a HelloRetryRequest, no flight of such a handshake measures the round trip.
#[test]
fn a_handshake_that_had_to_wait_does_not_make_the_client_blind() {
    let mut configs = Configs::new();
    configs.client.settings.handshake_deadline = Duration::from_secs(300);
    configs.server.cookies = CookiePolicy::WhenRetrying;
    let mut pair = configs.pair(18).with_rule(|_, _, _| Vec::new());
    (pair.answers_probes, pair.echoes) = (true, true);
    pair.client.watch(pair.now, Watch { interval: INTERVAL, answers: Some(true) });
    pair.run_for(Duration::from_secs(60));
    pair.rule = Box::new(|_, _, datagram| pass(datagram));
    assert!(pair.run_until(|pair| pair.client.is_connected()));
    // The ACK of the client's Finished would be a measurement.
    pair.rule = Box::new(|_, _, _| Vec::new());
    let died = pair.now;
    pair.client.suspect(died);
    while !pair.client.peer_is_silent() {
        pair.run_for(Duration::from_millis(100));
        assert!(pair.now < died + Duration::from_secs(12), "it is not noticed");
    }
}

#[test]
fn forged_hints_bring_ever_fewer_probes_to_a_peer_that_does_not_answer_them() {
    let mut pair = Configs::new().pair(19);
    pair.client.watch(pair.now, Watch { interval: 20 * INTERVAL, answers: Some(false) });
    pair.connect();
    for _ in 0..6000 {
        pair.inject(Direction::ToClient, HINT.to_vec());
        pair.run_for(Duration::from_millis(10));
    }
    assert_eq!(pair.client.stats().sent.probes, 5, "after 0, 2, 6, 14 and 30 s");
}

/// A connection ID is not secret: anybody on the path sees it.
#[test]
fn a_hint_from_another_address_is_ignored_also_behind_a_connection_id() {
    let mut configs = Configs::new();
    configs.client.settings.connection_ids = lightseal_dtls::ConnectionIds::Bytes(4);
    configs.server.settings.connection_ids = lightseal_dtls::ConnectionIds::Bytes(4);
    let mut pair = configs.pair(20);
    pair.client.watch(pair.now, Watch { interval: INTERVAL, answers: Some(true) });
    pair.connect();
    pair.server_send(b"a record with our connection ID");
    pair.run_for(Duration::from_millis(100));
    let (_, record) = pair.log.iter().rfind(|(to, _)| *to == Direction::ToClient).unwrap();
    assert_eq!(record[0] & 0x10, 0x10, "it begins with a connection ID");
    // A record that states its length: otherwise the hint would be a part of it.
    let stated = [&[0x3f], &record[1..5], &[0, 9, 0, 17], &[7; 17]].concat();
    let mut datagram = [&stated[..], &HINT].concat();
    let stranger = "[2001:db8::77]:7".parse().unwrap();
    pair.client.handle_datagram(pair.now, stranger, &mut datagram.clone());
    pair.run_for(Duration::from_millis(100));
    let stats = pair.client.stats();
    assert_eq!((stats.received.hints, stats.sent.probes), (0, 0));
    pair.client.handle_datagram(pair.now, server_address(), &mut datagram);
    pair.run_for(Duration::from_millis(100));
    let stats = pair.client.stats();
    assert_eq!((stats.received.hints, stats.sent.probes), (1, 1));
}

#[test]
fn the_return_of_a_silent_server_is_noticed_before_an_eighth_of_its_absence_has_passed() {
    let scenario = Scenario { every: Duration::from_secs(1), ..TWICE_A_SECOND };
    for away in [3, 4, 7, 20, 60, 120, 200].map(Duration::from_secs) {
        let mut pair = scenario.pair(Configs::new(), 21);
        let rule = std::mem::replace(&mut pair.rule, Box::new(|_, _, _| Vec::new()));
        let died = pair.now;
        pair.client.suspect(died);
        pair.run_for(away);
        assert!(pair.client.peer_is_silent());
        pair.rule = rule;
        let until = died + away + (away / 8).max(Duration::from_millis(200)) + 3 * PATH;
        pair.run_for(until - pair.now);
        assert!(!pair.client.peer_is_silent(), "{away:?}");
    }
}

#[test]
fn probes_that_look_for_a_dead_server_become_as_rare_as_keepalives() {
    let mut pair = TWICE_A_SECOND.pair(Configs::new(), 22);
    pair.rule = Box::new(|_, _, _| Vec::new());
    let died = pair.now;
    pair.client.suspect(died);
    let mut times = Vec::new();
    for _ in 0..48 {
        let before = pair.client.stats().sent.probes;
        while pair.client.stats().sent.probes == before {
            pair.run_for(Duration::from_millis(10));
        }
        times.push(pair.now - died);
    }
    let gaps: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let precision = Duration::from_millis(10);
    assert!(gaps[..38].iter().all(|gap| *gap < INTERVAL - precision), "{gaps:?}");
    assert!(gaps[46..].iter().all(|gap| *gap >= INTERVAL - precision), "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap <= INTERVAL + precision), "{gaps:?}");
}

/// The times at which the client of a server that is away sends its ClientHello, in milliseconds.
/// The client is hurried at `hurried`, if it is given, and returns when the ClientHello leaves then.
fn hellos(millis: u64, hurried: Option<u64>) -> (Vec<u64>, Option<u64>) {
    let mut pair = Configs::new().pair(23).with_rule(|_, _, _| Vec::new());
    let (begin, mut times, mut leaves_at) = (pair.now, Vec::new(), None);
    for at in 0..millis {
        let before = pair.log.len();
        pair.run_for(begin + Duration::from_millis(at) - pair.now);
        if hurried == Some(at) {
            leaves_at = pair.client.hurry(pair.now);
            pair.run_for(Duration::ZERO);
        }
        times.extend(pair.log[before..].iter().map(|_| at));
    }
    (times, leaves_at.map(|at| (at - begin).as_micros().div_ceil(1_000) as u64))
}

#[test]
fn a_hurried_hello_leaves_as_soon_as_a_repetition_may_and_doubles_no_timeout() {
    assert_eq!(hellos(8_000, None), (vec![0, 1_000, 3_000, 7_000], None));
    // A third of the timeout must have passed, which is a second at first.
    assert_eq!(hellos(5_000, Some(100)), (vec![0, 334, 1_334, 3_334], Some(334)));
    assert_eq!(hellos(5_000, Some(1_600)), (vec![0, 1_000, 1_600, 3_600], Some(1_600)));
}
