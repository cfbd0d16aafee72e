//! Data that a server sends before it has the client's Finished (RFC 8446, section 2).

use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::{CloseReason, CookiePolicy, ExportError, ProtocolVersion};
use std::time::Duration;
use testkit::pair::{Configs, Direction, Fate, Pair, pass};

/// The payloads that a server sends as soon as it may.
fn payloads() -> Vec<Vec<u8>> {
    (0..3).map(|n| vec![n; 20]).collect()
}

fn configs() -> Configs {
    let mut configs = Configs::new();
    configs.server.send_half_rtt_data = true;
    configs
}

fn without_cookie(mut configs: Configs) -> Configs {
    configs.server.cookies = CookiePolicy::WhenRetrying;
    configs.client.settings.psk_modes = vec![PskKeyExchangeMode::PSK_KE];
    configs.client.settings.versions = vec![ProtocolVersion::Dtls13];
    configs
}

/// A pair whose server sends data as soon as it may.
fn pair<'a>(configs: Configs, seed: u64) -> Pair<'a> {
    let mut pair = configs.pair(seed);
    pair.sent_at_once = payloads();
    pair
}

/// Whether a datagram is one record of epoch 3.
fn is_data(datagram: &[u8]) -> bool {
    datagram[0] >> 5 == 1 && datagram[0] & 3 == 3
}

/// Whether a datagram to the client begins with a ServerHello that is not a HelloRetryRequest.
fn is_flight(direction: Direction, datagram: &[u8]) -> bool {
    const RETRY: [u8; 4] = [0xcf, 0x21, 0xad, 0x74];
    direction == Direction::ToClient && datagram[0] == 22 && datagram[27..31] != RETRY
}

/// Whether a datagram begins with a record of epoch 2, as the client's Finished does.
fn is_finished(direction: Direction, datagram: &[u8]) -> bool {
    direction == Direction::ToServer && datagram[0] & 0xe3 == 0x22
}

/// Delivers the client's Finished after `delay` milliseconds, and everything else after ten.
fn late_finished(delay: u64) -> impl FnMut(Direction, usize, &[u8]) -> Fate {
    move |direction, _, datagram| {
        let delay = if is_finished(direction, datagram) { delay } else { 10 };
        vec![(Duration::from_millis(delay), datagram.to_vec())]
    }
}

fn sent(pair: &Pair<'_>, direction: Direction) -> usize {
    pair.log.iter().filter(|(to, _)| *to == direction).map(|(_, datagram)| datagram.len()).sum()
}

#[test]
fn data_arrives_with_the_flight_and_the_finished_is_still_acknowledged() {
    for configs in [configs(), without_cookie(configs())] {
        let mut pair = pair(configs, 1).with_rule(late_finished(400));
        pair.client_send(b"early bird");
        pair.run_for(Duration::from_millis(300));
        assert!(pair.at_client.connected.is_some() && pair.at_server.connected.is_none());
        assert_eq!(pair.at_client.data, payloads());
        assert!(pair.at_server.data.is_empty(), "nothing is delivered before Finished");
        pair.connect();
        pair.assert_connected();
        assert_eq!(pair.at_server.data, [b"early bird"]);
        let (handle, told) = pair.server_may_send.clone().unwrap();
        assert_eq!(Some(handle), pair.handle);
        assert_eq!(Some(&told), pair.at_server.connected.as_ref());
        // The Finished is acknowledged: the client retransmits nothing from now on, and keys can be
        // changed.
        let before = pair.client.stats().sent.retransmissions;
        pair.run_for(Duration::from_secs(100));
        assert_eq!(pair.client.stats().sent.retransmissions, before);
        pair.assert_connected();
        pair.client.update_keys(pair.now);
        pair.server.connection_mut(handle).unwrap().update_keys(pair.now);
        pair.run_for(Duration::from_secs(1));
        pair.server_send(b"on");
        pair.client_send(b"and on");
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.at_client.data.last().unwrap(), b"on");
        assert_eq!(pair.at_server.data.last().unwrap(), b"and on");
        let exported = |connection: &lightseal_dtls::Connection| {
            let mut out = [0; 32];
            connection.export_keying_material(b"label", b"", &mut out).unwrap();
            out
        };
        assert_eq!(exported(&pair.client), exported(&pair.server.connection(handle).unwrap()));
    }
}

#[test]
fn the_server_s_state_is_not_complete_before_finished() {
    let mut pair = pair(configs(), 2).with_rule(|direction, _, datagram| {
        if is_finished(direction, datagram) { Vec::new() } else { pass(datagram) }
    });
    pair.run_for(Duration::from_secs(30));
    let (handle, _) = pair.server_may_send.clone().unwrap();
    let connection = pair.server.connection(handle).unwrap();
    assert!(connection.may_send() && !connection.is_connected());
    assert!(connection.negotiated().is_none());
    assert_eq!(
        connection.export_keying_material(b"label", b"", &mut [0; 16]),
        Err(ExportError::NotConnected)
    );
    assert_eq!(connection.stats().received.delivered, 0);
    // The server's handshake deadline is the same as if it had sent no data.
    pair.run_for(Duration::from_secs(40));
    assert_eq!(pair.at_server.closed, Some(CloseReason::HandshakeTimeout));
    assert!(pair.at_server.connected.is_none());
}

/// Data of the server does not prove that the client's Finished arrived.
#[test]
fn a_client_that_is_not_heard_gives_up_though_data_comes() {
    let mut pair = pair(configs(), 3).with_rule(|direction, _, datagram| {
        let is_protected = direction == Direction::ToServer && datagram[0] >> 5 == 1;
        if is_protected { Vec::new() } else { pass(datagram) }
    });
    pair.run_for(Duration::from_secs(2));
    let (handle, _) = pair.server_may_send.clone().unwrap();
    for _ in 0..200 {
        if let Some(mut connection) = pair.server.connection_mut(handle) {
            connection.send(pair.now, b"still here", &mut []).ok();
        }
        pair.run_for(Duration::from_secs(1));
    }
    assert!(pair.at_client.data.len() > 50);
    assert_eq!(pair.at_server.closed, Some(CloseReason::HandshakeTimeout));
    assert_eq!(pair.at_client.closed, Some(CloseReason::HandshakeTimeout));
}

#[test]
fn data_outlives_a_lost_flight() {
    for configs in [configs(), without_cookie(configs())] {
        let mut flights = 0;
        let mut pair = pair(configs, 4).with_rule(move |direction, _, datagram| {
            let lost = is_flight(direction, datagram) && flights == 0;
            flights += u32::from(is_flight(direction, datagram));
            if lost { Vec::new() } else { pass(datagram) }
        });
        pair.connect();
        pair.assert_connected();
        let flights = pair.log.iter().filter(|(to, datagram)| is_flight(*to, datagram)).count();
        assert_eq!(flights, 2);
        assert_eq!(pair.at_client.data, payloads(), "kept until there were keys");
        assert_eq!(pair.client.stats().received.unknown_epoch, 0);
    }
}

#[test]
fn data_that_overtakes_the_flight_waits_for_finished_and_more_than_a_few_is_dropped() {
    let mut pair = configs().pair(5).with_rule(|direction, _, datagram| {
        let late = direction == Direction::ToClient && !is_data(datagram);
        vec![(Duration::from_millis(if late { 100 } else { 10 }), datagram.to_vec())]
    });
    pair.sent_at_once = (0..100).map(|n| vec![n; 50]).collect();
    pair.connect();
    pair.assert_connected();
    let received = pair.at_client.data.len();
    assert_eq!(received, 8, "MAX_EARLY_RECORDS");
    assert_eq!(pair.at_client.data, pair.sent_at_once[..received]);
    assert_eq!(pair.client.stats().received.unknown_epoch, 100 - received as u64);
}

/// Records that look like data from the server, and a forged flight.
#[test]
fn forged_data_before_the_flight_is_dropped() {
    let mut pair = pair(configs(), 6).with_rule(|direction, _, datagram| {
        let late = direction == Direction::ToClient && !is_data(datagram);
        vec![(Duration::from_millis(if late { 100 } else { 10 }), datagram.to_vec())]
    });
    for n in 0..5u8 {
        let mut forged = vec![0x2f, n, n, 0, 40];
        forged.extend([n; 40]);
        pair.inject(Direction::ToClient, forged);
    }
    pair.connect();
    pair.assert_connected();
    assert!(payloads().starts_with(&pair.at_client.data), "{:?}", pair.at_client.data);
    assert_eq!(pair.at_client.data.len(), 3);
    assert_eq!(pair.client.stats().received.unauthentic, 5);
}

/// Data of a server whose Finished is wrong is not delivered.
#[test]
fn data_behind_a_wrong_finished_is_not_delivered() {
    let mut pair = pair(configs(), 7).with_rule(|direction, _, datagram| {
        let mut altered = datagram.to_vec();
        if direction == Direction::ToClient && !is_data(datagram) {
            let last = altered.len() - 1;
            altered[last] ^= 1;
        }
        pass(&altered)
    });
    pair.run_for(Duration::from_secs(70));
    assert!(pair.at_client.connected.is_none() && pair.at_client.data.is_empty());
}

/// The client's hello is a recording: no client answers.
#[test]
fn a_replayed_hello_brings_forth_three_times_its_bytes_at_most() {
    for long in [1, 60, 100] {
        let mut first = without_cookie(configs()).pair(8);
        first.run_for(Duration::from_millis(5));
        let hello = first.log[0].1.clone();

        let mut configs = without_cookie(configs());
        configs.server.settings.datagram_bytes = 300;
        let mut pair = configs.pair(9).with_rule(|_, _, _| Vec::new());
        pair.sent_at_once = vec![vec![7; long]; 50];
        pair.inject(Direction::ToServer, hello.clone());
        pair.run_for(Duration::from_secs(59));
        let first = sent(&pair, Direction::ToClient);
        assert!(first > hello.len(), "a flight and data");
        assert!(first <= 3 * hello.len(), "{first} of {}", hello.len());
        assert!(pair.log.iter().any(|(to, data)| *to == Direction::ToClient && is_data(data)));

        pair.run_for(Duration::from_secs(10));
        assert_eq!(pair.at_server.closed, Some(CloseReason::HandshakeTimeout));
        // The association has ended; the same hello opens another one, with the same limit.
        pair.inject(Direction::ToServer, hello.clone());
        pair.run_for(Duration::from_secs(70));
        let second = sent(&pair, Direction::ToClient) - first;
        assert!(second <= 3 * hello.len(), "{second} of {}", hello.len());
    }
}

/// The retransmission of a flight is held back too, until the client is heard.
#[test]
fn what_the_allowance_held_back_follows_when_the_client_is_heard() {
    let mut configs = without_cookie(configs());
    configs.client.settings.initial_timeout = Duration::from_secs(20);
    let mut pair = configs.pair(10);
    pair.sent_at_once = vec![vec![7; 100]; 10];
    pair.run_for(Duration::from_millis(15));
    let before = pair.log.len();
    assert!(sent(&pair, Direction::ToClient) <= 3 * sent(&pair, Direction::ToServer));
    pair.connect();
    pair.assert_connected();
    assert!(pair.log.len() > before);
    assert_eq!(pair.at_client.data.len(), 10, "all data follows");
}

/// An association can end even if nothing may be sent any more.
#[test]
fn an_association_closes_though_nothing_may_be_sent() {
    let mut configs = without_cookie(configs());
    configs.server.settings.datagram_bytes = 100;
    let mut pair = configs.pair(11);
    pair.sent_at_once = vec![vec![7; 60]; 20];
    let mut first = true;
    pair.rule = Box::new(move |direction, _, datagram| {
        let passes = direction == Direction::ToServer && core::mem::take(&mut first);
        if passes { pass(datagram) } else { Vec::new() }
    });
    pair.run_for(Duration::from_millis(500));
    let (handle, _) = pair.server_may_send.clone().unwrap();
    pair.server.connection_mut(handle).unwrap().close(pair.now);
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.at_server.closed, Some(CloseReason::Local));
    assert_eq!(pair.server.open_connections(), 0);
    let [to_client, to_server] =
        [Direction::ToClient, Direction::ToServer].map(|direction| sent(&pair, direction));
    assert!(to_client <= 3 * to_server, "{to_client} of {to_server}");
}

#[test]
fn aggregated_data_is_verified_before_the_client_is_heard() {
    for scheme in ["agg:2", "agg:16", "r2d2:50", "r2d2:100", "r2d2:200"] {
        let mut configs = Configs::aggregated(scheme);
        configs.server.send_half_rtt_data = true;
        let mut pair = pair(configs, 12).with_rule(late_finished(900));
        pair.run_for(Duration::from_millis(700));
        assert!(pair.at_server.connected.is_none(), "{scheme}");
        assert_eq!(pair.at_client.data, payloads(), "{scheme}: silence closes the aggregate");
        pair.connect();
        pair.assert_connected();
        for n in 0..20 {
            pair.server_send(&[n; 9]);
            pair.client_send(&[n; 9]);
        }
        pair.run_for(Duration::from_secs(1));
        assert_eq!((pair.at_client.data.len(), pair.at_server.data.len()), (23, 20), "{scheme}");
    }
}

/// Closing tag and close_notify follow the data under the same keys.
#[test]
fn a_server_that_closes_before_finished_is_understood() {
    for scheme in [None, Some("agg:16"), Some("r2d2:100")] {
        let mut configs = scheme.map_or_else(Configs::new, Configs::aggregated);
        configs.server.send_half_rtt_data = true;
        let mut pair = pair(configs, 13).with_rule(|direction, _, datagram| {
            if is_finished(direction, datagram) { Vec::new() } else { pass(datagram) }
        });
        pair.run_for(Duration::from_millis(100));
        let (handle, _) = pair.server_may_send.clone().unwrap();
        pair.server.connection_mut(handle).unwrap().close(pair.now);
        pair.run_for(Duration::from_millis(100));
        assert_eq!(pair.at_client.data, payloads(), "{scheme:?}");
        assert_eq!(pair.at_client.closed, Some(CloseReason::Peer), "{scheme:?}");
    }
}

#[test]
fn a_client_that_closes_at_once_is_heard() {
    let mut pair = pair(configs(), 14);
    pair.connect();
    pair.client.close(pair.now);
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.at_server.closed, Some(CloseReason::Peer));
}

#[test]
fn connection_ids_are_in_such_records_too() {
    let mut configs = configs();
    configs.client.settings.connection_ids = lightseal_dtls::ConnectionIds::Bytes(3);
    configs.server.settings.connection_ids = lightseal_dtls::ConnectionIds::Bytes(5);
    let mut pair = pair(configs, 15);
    pair.connect();
    pair.assert_connected();
    assert_eq!(pair.at_client.data, payloads());
}

#[test]
fn dtls_12_has_no_such_data() {
    let mut configs = configs();
    configs.client.settings.versions = vec![ProtocolVersion::Dtls12];
    let mut pair = pair(configs, 16);
    pair.connect();
    pair.assert_connected();
    assert!(pair.server_may_send.is_none() && pair.at_client.data.is_empty());
}

/// All of this under loss and reordering, and the association continues.
#[test]
fn data_arrives_in_part_and_handshakes_end_under_loss() {
    for seed in 0..60 {
        let mut random = lightseal_core::Random::insecure(seed);
        let configs = if seed % 2 == 0 { configs() } else { without_cookie(configs()) };
        let mut pair = pair(configs, seed).with_rule(move |_, _, datagram| {
            if random.below(5) == 0 {
                return Vec::new();
            }
            vec![(Duration::from_millis(random.below(60)), datagram.to_vec())]
        });
        pair.connect();
        pair.assert_connected();
        assert!(pair.at_client.data.iter().all(|payload| payloads().contains(payload)));
    }
}

/// If the setting is off, no byte changes, and payloads queued early wait.
#[test]
fn without_the_setting_data_waits_for_finished() {
    let mut logs = Vec::new();
    for on in [false, true] {
        let mut configs = Configs::new();
        configs.server.send_half_rtt_data = on;
        let mut pair = configs.pair(17);
        pair.connect();
        pair.assert_connected();
        assert_eq!(pair.server_may_send.is_some(), on);
        logs.push(pair.log);
    }
    // If there is nothing to send, the handshake is the same with and without the setting.
    assert_eq!(logs[0], logs[1]);

    let mut configs = Configs::new();
    configs.server.send_half_rtt_data = false;
    let mut pair = configs.pair(17).with_rule(late_finished(400));
    pair.run_for(Duration::from_millis(100));
    let (handle, connection) = pair.server.connections().next().unwrap();
    assert!(!connection.may_send());
    let _ =
        pair.server.connection_mut(handle).unwrap().send(pair.now, b"not yet", &mut []).unwrap();
    pair.run_for(Duration::from_millis(200));
    assert!(pair.at_client.data.is_empty());
    pair.connect();
    assert_eq!(pair.at_client.data, [b"not yet"]);
}
