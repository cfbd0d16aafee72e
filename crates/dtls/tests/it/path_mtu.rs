//! Path MTU discovery with real engines in virtual time.

use lightseal_dtls::{ProtocolVersion, SendError, Sent};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use testkit::pair::{self, Configs, Direction, pass};

const LIMIT: usize = 1452;

/// Configurations of both ends with connection IDs, which probe for datagrams of up to [`LIMIT`].
fn searching() -> Configs {
    let mut configs = Configs::new();
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.path_mtu = Some(LIMIT);
        settings.connection_ids = lightseal_dtls::ConnectionIds::Bytes(4);
    }
    configs
}

/// A client and a server on a path that drops datagrams longer than `takes` bytes.
fn narrow<'a>(configs: Configs, takes: &Rc<Cell<usize>>) -> pair::Pair<'a> {
    let takes = Rc::clone(takes);
    configs.pair(1).with_rule(move |_, _, datagram| {
        if datagram.len() <= takes.get() { pass(datagram) } else { Vec::new() }
    })
}

/// A payload of EDNS's 1232 bytes, and one that fills the interface's MTU.
#[test]
fn a_long_payload_waits_one_round_trip_for_its_probe_in_every_layout() {
    for (what, configs) in layouts() {
        let takes = Rc::new(Cell::new(LIMIT));
        let mut pair = narrow(configs, &takes);
        pair.connect().assert_connected();
        pair.log.clear();
        let handle = pair.handle.unwrap();
        for bytes in [1232, 1232, 1350] {
            let payload = vec![bytes as u8; bytes];
            pair.client_send(&payload);
            let _ = pair
                .server
                .connection_mut(handle)
                .unwrap()
                .send(pair.now, &payload, &mut [])
                .unwrap();
            pair.run_for(Duration::from_millis(700));
            assert_eq!(pair.at_server.data.pop(), Some(payload.clone()), "{what}");
            assert_eq!(pair.at_client.data.pop(), Some(payload), "{what}");
        }
        assert_eq!(pair.client.path_mtu(), LIMIT, "{what}");
        let sent = pair.client.stats().sent;
        assert!(sent.mtu_probes <= 2, "{what}: {} probes", sent.mtu_probes);
        assert_eq!((sent.too_long, sent.black_holes), (0, 0), "{what}");
        assert!(pair.log.iter().all(|(_, datagram)| datagram.len() <= LIMIT));
    }
}

fn layouts() -> Vec<(&'static str, Configs)> {
    let mut shared = Configs::aggregated("agg:8");
    for settings in [&mut shared.client.settings, &mut shared.server.settings] {
        settings.path_mtu = Some(LIMIT);
        settings.connection_ids = lightseal_dtls::ConnectionIds::Bytes(4);
        settings.max_wait = Some(Duration::ZERO);
    }
    let mut older = searching();
    older.server.settings.versions = vec![ProtocolVersion::Dtls12];
    vec![("DTLS 1.3", searching()), ("shared tags", shared), ("DTLS 1.2", older)]
}

#[test]
fn nothing_is_probed_that_no_payload_needs() {
    let takes = Rc::new(Cell::new(LIMIT));
    let mut pair = narrow(searching(), &takes);
    pair.connect().assert_connected();
    pair.log.clear();
    for _ in 0..50 {
        pair.client_send(&[7; 1100]);
        pair.run_for(Duration::from_millis(700));
    }
    assert_eq!(pair.client.stats().sent.mtu_probes, 0);
    assert!(pair.log.iter().all(|(_, datagram)| datagram.len() <= 1200));
}

/// A payload that does not fit is dropped and counted, and refused from then on; shorter ones are
/// still sent.
#[test]
fn a_path_of_1280_bytes_gets_what_it_takes_and_the_rest_is_counted() {
    let takes = Rc::new(Cell::new(1232));
    let mut pair = narrow(searching(), &takes);
    pair.connect().assert_connected();
    pair.client_send(&[1; 1232]);
    pair.client_send(&[2; 100]);
    pair.run_for(Duration::from_secs(4));
    assert_eq!(pair.at_server.data, [vec![2; 100]]);
    assert_eq!(pair.client.stats().sent.too_long, 1);
    let most = pair.client.max_payload();
    assert_eq!(most, pair.client.path_mtu() - 24);
    assert!((1190..1232).contains(&most), "{most}");
    let refused = pair.client.send(pair.now, &[1; 1232], &mut []);
    assert_eq!(refused, Err(SendError::TooLong));
    pair.client_send(&vec![3; most]);
    pair.run_for(Duration::from_secs(4));
    assert_eq!(pair.at_server.data.pop(), Some(vec![3; most]));
    assert!((1224..=1232).contains(&pair.client.path_mtu()), "{}", pair.client.path_mtu());
    // Ten minutes later the path carries longer datagrams.
    takes.set(LIMIT);
    pair.run_for(Duration::from_secs(601));
    pair.client_send(&[4; 1232]);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data.pop(), Some(vec![4; 1232]));
}

/// A short payload does not overtake a long one that waits for its probe.
#[test]
fn payloads_behind_one_that_waits_for_its_probe_wait_with_it() {
    let takes = Rc::new(Cell::new(LIMIT));
    let mut pair = narrow(searching(), &takes);
    pair.connect().assert_connected();
    assert_eq!(pair.client_send_at_once(&[1; 1232]), Sent::Queued);
    assert_eq!(pair.client_send_at_once(b"short"), Sent::Queued);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data, [vec![1; 1232], b"short".to_vec()]);
    // The path is known now, so that a long payload goes out at once.
    assert!(matches!(pair.client_send_at_once(&[2; 1232]), Sent::Datagram { .. }));
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data.len(), 3);
    assert!(pair.log.iter().all(|(_, datagram)| datagram.len() <= LIMIT));
}

/// RFC 8899, section 4.3: a path that becomes narrower.
#[test]
fn a_black_hole_costs_long_payloads_at_most_some_seconds() {
    let takes = Rc::new(Cell::new(LIMIT));
    let mut pair = narrow(searching(), &takes);
    pair.connect().assert_connected();
    pair.client_send(&[0; 1232]);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data.len(), 1);
    takes.set(1280);
    let mut lost = 0;
    for n in 0..200u8 {
        pair.client_send(&[n; 1220]);
        let before = pair.at_server.data.len();
        pair.run_for(Duration::from_millis(100));
        // 1220 and its overhead still fit 1280; 1232 bytes of a longer datagram would not.
        lost += usize::from(pair.at_server.data.len() == before);
    }
    assert!(lost <= 2, "{lost}");
    takes.set(1250);
    let mut last_loss = 0;
    for n in 0..200u8 {
        if pair.client.send(pair.now, &[n; 1232], &mut []).is_err() {
            continue;
        }
        let before = pair.at_server.data.len();
        pair.run_for(Duration::from_millis(100));
        if pair.at_server.data.len() == before {
            last_loss = n;
        }
    }
    let stats = pair.client.stats().sent;
    assert!(stats.black_holes >= 1);
    assert!(last_loss <= 60, "silent losses for {} s", f64::from(last_loss) / 10.0);
    assert!(pair.client.path_mtu() <= 1250);
}

/// With a peer without return routability checks, or one that cannot pad, datagrams stay at the
/// assumed length.
#[test]
fn a_peer_that_cannot_answer_is_not_probed() {
    let mut no_checks = searching();
    no_checks.server.settings.return_routability = false;
    let mut no_ids = searching();
    no_ids.server.settings.connection_ids = lightseal_dtls::ConnectionIds::Off;
    let mut no_padding = searching();
    no_padding.server.settings.versions = vec![ProtocolVersion::Dtls12];
    no_padding.server.settings.connection_ids = lightseal_dtls::ConnectionIds::SendOnly;
    for configs in [no_checks, no_ids, no_padding] {
        let takes = Rc::new(Cell::new(LIMIT));
        let mut pair = narrow(configs, &takes);
        // The first message of a flow, before anything is known about the path.
        pair.client_send(&[1; 1232]);
        pair.connect().assert_connected();
        pair.run_for(Duration::from_secs(5));
        assert_eq!(pair.client.stats().sent.mtu_probes, 0);
        assert_eq!(pair.client.stats().sent.too_long, 1);
        assert!(pair.client.max_payload() < 1200);
        assert!(pair.log.iter().all(|(_, datagram)| datagram.len() <= 1200));
    }
}

/// Only a peer with the keys can answer: a datagram of junk confirms nothing.
#[test]
fn a_lost_probe_is_repeated_and_a_recorded_response_proves_nothing() {
    let dropped = Cell::new(0);
    let mut pair = searching().pair(1).with_rule(|direction, _, datagram| {
        let probe = direction == Direction::ToServer && datagram.len() > 1200;
        if probe && dropped.get() < 2 {
            dropped.set(dropped.get() + 1);
            return Vec::new();
        }
        pass(datagram)
    });
    pair.connect().assert_connected();
    pair.client_send(&[1; 1232]);
    pair.run_for(Duration::from_secs(3));
    assert_eq!(pair.at_server.data, [vec![1; 1232]]);
    assert_eq!(pair.client.path_mtu(), LIMIT);
}

#[test]
fn settings_know_the_longest_payload_that_is_certain_beforehand() {
    let versions = [vec![ProtocolVersion::Dtls13], vec![ProtocolVersion::Dtls12]];
    for (versions, ids, checks, path_mtu) in versions.into_iter().flat_map(|versions| {
        let all = [None, Some(0), Some(8)].into_iter().flat_map(|ids| {
            [(false, None), (true, None), (true, Some(1400))].map(|(c, mtu)| (ids, c, mtu))
        });
        all.map(move |(ids, checks, mtu)| (versions.clone(), ids, checks, mtu))
    }) {
        let mut configs = Configs::new();
        let settings = &mut configs.client.settings;
        settings.versions = versions;
        settings.connection_ids = pair::ids(ids);
        settings.return_routability = checks;
        settings.path_mtu = path_mtu;
        let expected = settings.longest_first_payload();
        let place = format!("{:?} {ids:?} {checks} {path_mtu:?}", settings.versions);
        assert_eq!(configs.pair(1).client.max_payload(), expected, "{place}");
    }
}
