//! Early data (0-RTT) in DTLS 1.3, and its replays.

use lightseal_dtls::codepoints::{AlertDescription, CipherSuiteId};
use lightseal_dtls::error::EarlyDataError;
use lightseal_dtls::{
    CloseReason, ConfigError, Connection, ConnectionIds, CookiePolicy, ProtocolVersion, Session,
    Settings, WhenRejected,
};
use std::sync::Arc;
use std::time::Duration;
use testkit::pair::{ClientParts, Configs, Direction, Fate, Pair, ServerParts, pass, psk};

const MOST: u32 = 1000;

/// Both ends allow early data, and the server asks for no cookies.
fn configs(change: impl Fn(&mut Settings)) -> Configs {
    let mut configs = Configs::new();
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.psk_tickets = 2;
        settings.early_data = MOST;
        change(settings);
    }
    configs.client.settings.versions = vec![ProtocolVersion::Dtls13];
    configs.server.cookies = CookiePolicy::WhenRetrying;
    configs
}

fn client(session: &Session) -> ClientParts {
    let mut client = configs(|_| {}).client;
    client.session = Some(session.clone());
    client
}

/// A pair with a ticket.
fn with_session(configs: Configs) -> (Pair<'static>, Session) {
    let mut pair = configs.pair(1);
    pair.connect().assert_connected();
    assert!(!pair.at_client.connected.as_ref().unwrap().early_data);
    let session = pair.client.take_session().expect("a ticket");
    (pair, session)
}

/// Another client with the same server, from another port.
fn begin(pair: &mut Pair<'static>, client: ClientParts) -> Pair<'static> {
    let mut next = pair.reconnect(client, pair.now.as_micros());
    let port = 40_001 + (pair.now.as_micros() % 1000) as u16;
    next.client_address.set_port(port);
    next
}

/// A client that resumes a fresh session with a fresh server.
fn resuming() -> Pair<'static> {
    let (mut pair, session) = with_session(configs(|_| {}));
    begin(&mut pair, client(&session))
}

#[track_caller]
fn send_early(pair: &mut Pair<'_>, payload: &[u8], rejected: WhenRejected) {
    pair.client.send_early(pair.now, payload, rejected).unwrap();
}

fn accepted(pair: &Pair<'_>) -> bool {
    let [client, server] =
        [&pair.at_client, &pair.at_server].map(|end| end.connected.as_ref().unwrap());
    assert_eq!(client.early_data, server.early_data);
    client.early_data
}

/// Whether a datagram is a record of epoch 1.
fn is_early(datagram: &[u8]) -> bool {
    datagram[0] & 0xe3 == 0x21
}

fn early_exported(connection: &Connection) -> [u8; 32] {
    let mut out = [0; 32];
    connection.export_early_keying_material(b"label", b"context", &mut out).unwrap();
    out
}

#[test]
fn early_data_arrives_half_a_round_trip_after_the_start() {
    let mut pair = resuming();
    assert_eq!(pair.client.early_data_left(), MOST);
    send_early(&mut pair, b"one", WhenRejected::Drop);
    send_early(&mut pair, b"two", WhenRejected::SendAgain);
    assert_eq!(pair.client.early_data_left(), MOST - 6);
    pair.client_send(b"three");
    assert!(pair.run_until(|pair| pair.at_server.early_data.len() == 2));
    assert!(pair.at_server.connected.is_none() && pair.at_server.data.is_empty());
    let (handle, at_server) = pair.server.connections().last().unwrap();
    assert_eq!(early_exported(&pair.client), early_exported(&at_server));
    assert!(pair.server.connection(handle).unwrap().negotiated().is_none());
    pair.connect().assert_connected();
    assert!(accepted(&pair));
    assert!(pair.at_client.connected.as_ref().unwrap().resumed);
    assert_eq!(pair.at_server.early_data, [b"one", b"two"]);
    assert_eq!(pair.at_server.data, [b"three"], "early data is not sent again");
    let at_server = pair.server.connection(pair.handle.unwrap()).unwrap();
    assert_eq!(early_exported(&pair.client), early_exported(&at_server));
    let mut late = [0; 32];
    pair.client.export_keying_material(b"label", b"context", &mut late).unwrap();
    assert_ne!(late, early_exported(&pair.client));
    // RFC 9147 (draft bis, section 7): nothing else is sent in epoch 1, least of all ACKs.
    let early = pair.log.iter().filter(|(_, datagram)| is_early(datagram));
    assert_eq!(early.map(|(to, _)| *to).collect::<Vec<_>>(), [Direction::ToServer; 2]);
}

#[test]
fn both_ends_must_allow_it() {
    let refused = |pair: &mut Pair<'_>| {
        let sent = pair.client.send_early(pair.now, b"early", WhenRejected::Drop);
        assert_eq!(sent, Err(EarlyDataError::NotOffered));
        assert_eq!(pair.client.early_data_left(), 0);
        pair.connect().assert_connected();
        assert!(!accepted(pair) && pair.at_server.early_data.is_empty());
        let out = &mut [0; 16];
        assert!(pair.client.export_early_keying_material(b"label", b"", out).is_err());
    };
    // By default neither end does.
    assert_eq!(Configs::new().client.settings.early_data, 0);
    let mut unwilling = configs(|_| {});
    unwilling.server.settings.early_data = 0;
    let (mut pair, session) = with_session(unwilling);
    assert_eq!(session.max_early_data(), 0);
    refused(&mut begin(&mut pair, client(&session)));
    let (mut pair, session) = with_session(configs(|_| {}));
    assert_eq!(session.max_early_data(), MOST);
    let mut unwilling = client(&session);
    unwilling.settings.early_data = 0;
    refused(&mut begin(&mut pair, unwilling));
    // Without a session there is no key for it.
    refused(&mut configs(|_| {}).pair(3));
    // Early data needs the suite of the session.
    let (mut pair, session) = with_session(configs(|_| {}));
    let mut other = client(&session);
    other.settings.suites.retain(|suite| *suite != session.suite());
    assert!(other.settings.suites.contains(&CipherSuiteId::AES_128_CCM_SHA256));
    refused(&mut begin(&mut pair, other));
}

#[test]
fn it_is_not_combined_with_tickets_that_serve_more_than_once() {
    let mut settings = configs(|_| {}).server.settings;
    settings.reusable_tickets = true;
    assert_eq!(settings.check(), Err(ConfigError::EarlyData));
}

/// What becomes of early data that is rejected.
#[track_caller]
fn assert_rejected(pair: &mut Pair<'_>, resumed: bool) {
    send_early(pair, b"once", WhenRejected::Drop);
    send_early(pair, b"or later", WhenRejected::SendAgain);
    pair.client_send(b"ordinary");
    pair.connect().assert_connected();
    assert!(!accepted(pair));
    assert_eq!(pair.at_client.connected.as_ref().unwrap().resumed, resumed);
    assert!(pair.at_server.early_data.is_empty());
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data, [&b"ordinary"[..], b"or later"]);
    assert_eq!(pair.client.stats().sent.unsent, 1);
}

#[test]
fn a_server_that_asks_for_cookies_rejects_it() {
    let mut always = configs(|_| {});
    always.server.cookies = CookiePolicy::Always;
    let (mut pair, session) = with_session(always);
    assert_rejected(&mut begin(&mut pair, client(&session)), true);
}

#[test]
fn a_server_that_lost_its_keys_rejects_it() {
    let (_, session) = with_session(configs(|_| {}));
    let mut restarted = configs(|_| {}).pair(99);
    assert_rejected(&mut begin(&mut restarted, client(&session)), false);
}

#[test]
fn a_used_ticket_brings_no_early_data() {
    let (mut pair, session) = with_session(configs(|_| {}));
    let mut next = begin(&mut pair, client(&session));
    send_early(&mut next, b"early", WhenRejected::Drop);
    next.connect().assert_connected();
    assert!(accepted(&next));
    std::mem::swap(&mut pair.server, &mut next.server);
    pair.now = next.now + Duration::from_micros(7);
    assert_rejected(&mut begin(&mut pair, client(&session)), false);
}

#[test]
fn a_hello_that_was_held_back_is_not_fresh() {
    for (seconds, fresh) in [(9, true), (11, false)] {
        let mut pair = resuming().with_rule(move |direction, _, datagram| {
            let delay = match direction {
                Direction::ToServer => Duration::from_secs(seconds),
                Direction::ToClient => Duration::from_millis(10),
            };
            vec![(delay, datagram.to_vec())]
        });
        if fresh {
            send_early(&mut pair, b"early", WhenRejected::Drop);
            pair.connect().assert_connected();
            assert!(accepted(&pair));
        } else {
            assert!(pair.client.send_early(pair.now, b"once", WhenRejected::Drop).is_ok());
            pair.connect().assert_connected();
            assert!(!accepted(&pair) && pair.at_server.early_data.is_empty());
            assert!(pair.at_client.connected.as_ref().unwrap().resumed);
        }
    }
}

#[test]
fn the_answer_of_the_server_ends_it() {
    let mut pair = resuming();
    assert!(pair.run_until(|pair| pair.at_client.connected.is_some()));
    let late = pair.client.send_early(pair.now, b"late", WhenRejected::Drop);
    assert_eq!(late, Err(EarlyDataError::TooLate));
    assert_eq!(pair.client.early_data_left(), 0);
}

#[test]
fn a_client_sends_no_more_than_the_server_accepts() {
    let mut pair = resuming();
    let mut send = |len| pair.client.send_early(pair.now, &vec![7; len], WhenRejected::Drop);
    assert_eq!(send(0), Err(EarlyDataError::Length));
    assert_eq!(send(1001), Err(EarlyDataError::Full));
    assert_eq!(send(1000), Ok(()));
    assert_eq!(send(1), Err(EarlyDataError::Full));
    pair.connect().assert_connected();
    assert_eq!(pair.at_server.early_data, [vec![7; 1000]]);

    let (mut pair, session) = with_session(configs(|settings| settings.early_data = u32::MAX));
    let mut unlimited = client(&session);
    unlimited.settings.early_data = u32::MAX;
    let mut pair = begin(&mut pair, unlimited);
    let mut send = |len| pair.client.send_early(pair.now, &vec![7; len], WhenRejected::SendAgain);
    assert_eq!(send(1200), Err(EarlyDataError::Length));
    assert!((0..64).all(|_| send(1).is_ok()));
    assert_eq!(send(1), Err(EarlyDataError::Full), "MAX_EARLY_PAYLOADS");
    pair.connect().assert_connected();
    assert_eq!(pair.at_server.early_data.len(), 64);
}

/// RFC 8446, section 4.2.10.
#[test]
fn a_client_that_sends_more_than_it_may_is_told() {
    let (mut pair, session) = with_session(configs(|_| {}));
    let mut config = ServerParts::new(Arc::new(psk()));
    config.settings = configs(|settings| settings.early_data = 10).server.settings;
    config.cookies = CookiePolicy::WhenRetrying;
    pair.server.set_config(config.config()).unwrap();
    let mut next = begin(&mut pair, client(&session));
    send_early(&mut next, &[1; 10], WhenRejected::Drop);
    send_early(&mut next, &[2; 1], WhenRejected::Drop);
    next.run_for(Duration::from_secs(2));
    assert_eq!(next.at_server.early_data, [vec![1; 10]]);
    let alert = AlertDescription::UNEXPECTED_MESSAGE;
    assert_eq!(next.at_client.closed, Some(CloseReason::PeerAlert(alert)));
}

/// The whole first flight of a client, recorded.
fn first_flight(pair: &Pair<'_>) -> Vec<Vec<u8>> {
    let to_server = pair.log.iter().filter(|(to, _)| *to == Direction::ToServer);
    let flight = to_server.map(|(_, datagram)| datagram.clone());
    flight.filter(|datagram| datagram[0] == 22 || is_early(datagram)).collect()
}

#[test]
fn a_replay_brings_nothing() {
    let mut pair = resuming();
    send_early(&mut pair, b"open the door", WhenRejected::Drop);
    pair.connect().assert_connected();
    assert_eq!(pair.at_server.early_data.len(), 1);
    let flight = first_flight(&pair);
    assert_eq!(flight.len(), 2);
    let replay = |pair: &mut Pair<'_>, from: Option<&str>| {
        for datagram in &flight {
            match from {
                Some(from) => pair.inject_from(from.parse().unwrap(), datagram.clone()),
                None => pair.inject(Direction::ToServer, datagram.clone()),
            }
        }
        pair.run_for(Duration::from_secs(3));
        assert_eq!(pair.at_server.early_data.len(), 1);
    };
    // While the association lives, from its own address and from another one; and after it.
    replay(&mut pair, None);
    replay(&mut pair, Some("[2001:db8::bad]:1"));
    pair.client.close(pair.now);
    pair.run_for(Duration::from_secs(1));
    replay(&mut pair, None);
    replay(&mut pair, Some("[2001:db8::bad]:2"));
    // After a restart the ticket cannot be opened.
    let mut restarted = configs(|_| {}).pair(99);
    std::mem::swap(&mut restarted.server, &mut pair.server);
    replay(&mut pair, None);
}

#[test]
fn copies_of_early_records_are_dropped() {
    let mut pair = resuming().with_rule(|_, _, datagram| {
        let copies = if is_early(datagram) { 3 } else { 1 };
        vec![(Duration::from_millis(10), datagram.to_vec()); copies]
    });
    send_early(&mut pair, b"one", WhenRejected::Drop);
    send_early(&mut pair, b"two", WhenRejected::Drop);
    pair.connect().assert_connected();
    assert_eq!(pair.at_server.early_data, [b"one", b"two"]);
    let at_server = pair.server.connection(pair.handle.unwrap()).unwrap();
    assert_eq!(at_server.stats().received.replayed, 4);
}

#[test]
fn forged_early_records_are_dropped() {
    let mut pair = resuming();
    send_early(&mut pair, b"early", WhenRejected::Drop);
    pair.run_for(Duration::from_millis(5));
    for n in 0..20u8 {
        let mut forged = vec![0x29, 0, n];
        forged.extend([n; 40]);
        pair.inject(Direction::ToServer, forged);
    }
    pair.connect().assert_connected();
    assert!(accepted(&pair));
    assert_eq!(pair.at_server.early_data, [b"early"]);
    let mutated = resuming().with_rule(|_, _, datagram| {
        let mut altered = datagram.to_vec();
        if is_early(datagram) {
            let last = altered.len() - 1;
            altered[last] ^= 1;
        }
        pass(&altered)
    });
    let mut pair = mutated;
    send_early(&mut pair, b"early", WhenRejected::SendAgain);
    pair.connect().assert_connected();
    assert!(accepted(&pair), "which is no promise for each payload");
    assert!(pair.at_server.early_data.is_empty() && pair.at_server.data.is_empty());
}

/// Early data does not prove the address: a recorded flight makes the server send three times its
/// bytes at most.
#[test]
fn early_data_lifts_no_limit_of_an_unproved_address() {
    let mut half_rtt = configs(|_| {});
    half_rtt.server.send_half_rtt_data = true;
    let (mut pair, session) = with_session(half_rtt);
    let mut next = begin(&mut pair, client(&session)).with_rule(|direction, index, datagram| {
        // Only the first flight arrives.
        if direction == Direction::ToServer && index < 3 { pass(datagram) } else { Vec::new() }
    });
    next.sent_at_once = vec![vec![7; 900]; 20];
    send_early(&mut next, b"early", WhenRejected::Drop);
    next.run_for(Duration::from_secs(50));
    assert_eq!(next.at_server.early_data, [b"early"]);
    let bytes = |direction, most: usize| -> usize {
        let sent = next
            .log
            .iter()
            .enumerate()
            .filter(|(index, (to, _))| *to == direction && *index < most);
        sent.map(|(_, (_, datagram))| datagram.len()).sum()
    };
    let (arrived, answered) =
        (bytes(Direction::ToServer, 3), bytes(Direction::ToClient, usize::MAX));
    assert!(answered > 0 && answered <= 3 * arrived, "{answered} for {arrived}");
}

#[test]
fn all_complete_whatever_pair_of_datagrams_is_lost() {
    // The datagrams are numbered from 0. How many there are shows when some of them are lost.
    let (mut one, mut last) = (0, 5);
    while one <= last {
        let mut other = one;
        while other <= last {
            let mut pair = resuming().with_rule(move |_, index, datagram| {
                if index == one || index == other { Vec::new() } else { pass(datagram) }
            });
            send_early(&mut pair, b"early", WhenRejected::SendAgain);
            pair.connect().assert_connected();
            pair.run_for(Duration::from_secs(10));
            last = last.max(pair.log.len().min(9));
            let [early, ordinary] = [&pair.at_server.early_data, &pair.at_server.data];
            assert!(early.len() + ordinary.len() <= 1, "without {one} and {other}");
            assert!(ordinary.is_empty() || !accepted(&pair), "without {one} and {other}");
            if one > 1 {
                assert_eq!(*early, [b"early"], "without {one} and {other}");
            }
            other += 1;
        }
        one += 1;
    }
    assert_eq!(last, 9, "the loss of late datagrams was tried too");
}

#[test]
fn reordering_and_duplication_deliver_nothing_twice() {
    for seed in 0..40 {
        let mut random = lightseal_dtls::Random::insecure(seed);
        let rule = move |_: Direction, _: usize, datagram: &[u8]| -> Fate {
            let copies = 1 + random.below(2);
            let fate = |_| (Duration::from_millis(random.below(300)), datagram.to_vec());
            (0..copies).map(fate).collect()
        };
        let mut pair = resuming().with_rule(rule);
        for n in 0..5 {
            send_early(&mut pair, &[n; 20], WhenRejected::SendAgain);
        }
        pair.connect().assert_connected();
        pair.run_for(Duration::from_secs(5));
        let mut all = [&pair.at_server.early_data[..], &pair.at_server.data].concat();
        let received = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), received, "seed {seed}");
    }
}

#[test]
fn connection_ids_and_shared_tags_begin_after_it() {
    let mut with_ids = configs(|settings| settings.connection_ids = ConnectionIds::Bytes(4));
    let policy = lightseal_dtls::AggregationPolicy::both("agg:8".parse().unwrap());
    with_ids.client.settings.aggregation = policy.clone();
    with_ids.server.settings.aggregation = policy.clone();
    let (mut pair, session) = with_session(with_ids);
    let mut client = client(&session);
    client.settings.connection_ids = ConnectionIds::Bytes(4);
    client.settings.aggregation = policy;
    let mut pair = begin(&mut pair, client);
    send_early(&mut pair, b"early", WhenRejected::Drop);
    for n in 0..8 {
        pair.client_send(&[n; 10]);
    }
    pair.connect().assert_connected();
    pair.run_for(Duration::from_secs(1));
    assert!(accepted(&pair));
    assert_eq!((pair.at_server.early_data.len(), pair.at_server.data.len()), (1, 8));
}

#[test]
fn a_client_that_closes_at_once_sends_no_early_data() {
    let mut pair = resuming();
    send_early(&mut pair, b"early", WhenRejected::SendAgain);
    pair.client.close(pair.now);
    pair.run_for(Duration::from_secs(70));
    assert!(pair.at_server.early_data.is_empty() && pair.at_server.connected.is_none());
}

/// RFC 8446, section 4.2.10.
#[test]
fn early_data_keeps_to_the_application_protocol_of_its_session() {
    let protocols = |names: &[&str]| names.iter().map(|name| name.as_bytes().to_vec()).collect();
    for (offered, fits) in [(vec!["co"], true), (vec!["other"], false), (vec![], false)] {
        let mut configs = configs(|_| {});
        configs.client.settings.application_protocols = protocols(&["co"]);
        configs.server.settings.application_protocols = protocols(&["co", "other"]);
        let (mut pair, session) = with_session(configs);
        let mut client = client(&session);
        client.settings.application_protocols = protocols(&offered);
        let mut next = begin(&mut pair, client);
        if fits {
            send_early(&mut next, b"early", WhenRejected::Drop);
            next.connect().assert_connected();
            assert!(accepted(&next));
        } else {
            assert_rejected(&mut next, true);
        }
    }
}
