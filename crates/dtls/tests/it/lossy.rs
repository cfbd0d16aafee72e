//! Networks that lose, duplicate and replay datagrams; numbers that wrap.

use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::{CloseReason, CookiePolicy, ProtocolVersion, RecordNumbers};
use std::time::Duration;
use testkit::pair::{self, Configs, Direction, pass};

fn is_finished(datagram: &[u8]) -> bool {
    datagram[0] & 0xe3 == 0x22
}

/// A server whose associations may sleep keeps the secret of the handshake's epoch instead of its keys.
#[test]
fn a_repeated_last_flight_is_answered_and_a_burst_of_it_once() {
    for sleep_after in [None, Some(Duration::from_secs(3600))] {
        repeat_last_flight(|| {
            let mut configs = Configs::new();
            configs.server.settings.sleep_after = sleep_after;
            configs
        });
    }
}

fn repeat_last_flight(configs: impl Fn() -> Configs) {
    let mut pair = configs().pair(1);
    pair.connect();
    let finished = pair
        .log
        .iter()
        .find(|(direction, datagram)| *direction == Direction::ToServer && is_finished(datagram))
        .map(|(_, datagram)| datagram.clone())
        .expect("a Finished");
    // A copy is a replay, but a client that missed the ACK seals its Finished again. The ACKs are
    // lost.
    let before = pair.log.len();
    for _ in 0..100 {
        pair.inject(Direction::ToServer, finished.clone());
    }
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.log.len(), before, "copies are replays");
    assert_eq!(pair.stats(Direction::ToServer).unwrap().received.replayed, 100);

    let mut acks = 0;
    let mut pair = configs().pair(1).with_rule(move |direction, _, datagram| {
        acks += usize::from(direction == Direction::ToClient && datagram[0] & 0xe3 == 0x23);
        if acks > 0 && acks < 4 && direction == Direction::ToClient {
            vec![]
        } else {
            pass(datagram)
        }
    });
    pair.connect();
    pair.run_for(Duration::from_secs(20));
    let sent = |way| pair.log.iter().filter(|(direction, _)| *direction == way).count();
    assert_eq!(pair.client.stats().sent.retransmissions, 3, "one for each lost ACK");
    assert_eq!(sent(Direction::ToClient), 2 + 4, "hello retry, flight, four ACKs");
    pair.assert_connected();
}

#[test]
fn a_client_whose_finished_was_acknowledged_has_no_keys_of_the_handshake() {
    let mut pair = Configs::new().pair(1);
    pair.connect();
    // It begins with the ServerHello, in clear.
    let is_flight = |datagram: &[u8]| datagram[0] == 22;
    let flight = pair.log.iter().rfind(|(to, sent)| *to == Direction::ToClient && is_flight(sent));
    let (_, flight) = flight.expect("the server's flight").clone();
    pair.inject(Direction::ToClient, flight);
    pair.run_for(Duration::from_secs(1));
    let received = pair.client.stats().received;
    assert_eq!((received.unknown_epoch, received.replayed), (1, 0), "{received:?}");
    pair.client_send(b"still connected");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data, [b"still connected"]);
}

#[test]
fn a_burst_of_duplicates_gets_one_answer() {
    let mut pair = Configs::new().pair(2).with_rule(|direction, _, datagram| {
        let copies = if direction == Direction::ToServer { 50 } else { 1 };
        (0..copies).map(|_| (Duration::from_millis(10), datagram.to_vec())).collect()
    });
    pair.connect();
    pair.assert_connected();
    // A stateless server answers every copy of a first hello; only its flight has further records
    // after the plaintext one.
    let is_flight = |datagram: &[u8]| {
        datagram[0] == 22
            && datagram.len() > 13 + usize::from(datagram[12]) + 256 * usize::from(datagram[11])
    };
    let flights = pair
        .log
        .iter()
        .filter(|(direction, datagram)| *direction == Direction::ToClient && is_flight(datagram))
        .count();
    assert_eq!(flights, 1);
}

#[test]
fn without_a_network_a_client_gives_up_on_time_and_in_few_datagrams() {
    let mut pair = Configs::new().pair(3).with_rule(|_, _, _| vec![]);
    let start = pair.now;
    // The pair wakes the engine only at the times that it requested.
    pair.run_for(Duration::from_micros(59_999_999));
    assert_eq!(pair.at_client.closed, None);
    pair.run_for(Duration::from_micros(1));
    assert_eq!(pair.at_client.closed, Some(CloseReason::HandshakeTimeout));
    assert_eq!(pair.now, start + Duration::from_secs(60));
    assert!((8..16).contains(&pair.log.len()), "{}", pair.log.len());
    let before = pair.log.len();
    pair.run_for(Duration::from_secs(100));
    assert_eq!(pair.log.len(), before, "and nothing is sent afterwards");
}

#[test]
fn a_server_forgets_a_client_that_went_away() {
    let mut pair = Configs::new().pair(4).with_rule(|direction, _, datagram| {
        let gone = direction == Direction::ToServer && is_finished(datagram);
        if gone { vec![] } else { pass(datagram) }
    });
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.server.open_connections(), 1);
    let before = pair.log.len();
    pair.run_for(Duration::from_secs(61));
    assert_eq!(pair.server.open_connections(), 0);
    assert_eq!(pair.at_server.closed, Some(CloseReason::HandshakeTimeout));
    assert!(pair.log.len() - before < 60, "{} datagrams", pair.log.len() - before);
}

#[test]
fn record_numbers_wrap_on_the_wire() {
    for (numbers, scheme, count) in [
        (RecordNumbers::Short, "off", 2_000u32),
        (RecordNumbers::Long, "off", 140_000),
        (RecordNumbers::Auto, "agg:16", 140_000),
    ] {
        let mut configs = Configs::aggregated(scheme);
        configs.client.settings.record_numbers = numbers;
        let mut pair = configs.pair(5);
        pair.connect();
        pair.assert_connected();
        let mut next = 0;
        while next < count {
            for _ in 0..100 {
                pair.client_send(&next.to_be_bytes());
                next += 1;
            }
            pair.run_for(Duration::from_millis(11));
            // Payloads that were compared are not kept.
            pair.log.clear();
        }
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.at_server.data.len(), count as usize, "{numbers:?} {scheme}");
        let in_order =
            pair.at_server.data.iter().zip(0u32..).all(|(got, n)| *got == n.to_be_bytes());
        assert!(in_order, "{numbers:?} {scheme}");
    }
}

#[test]
fn message_numbers_and_epochs_wrap() {
    let mut pair = Configs::new().pair(6);
    pair.connect();
    // More KeyUpdates than 16 bits can count, and many times the number of epochs that two bits
    // distinguish.
    for round in 0..66_000u32 {
        pair.client.update_keys(pair.now);
        if round % 1000 == 0 {
            pair.client_send(&round.to_be_bytes());
        }
        pair.run_for(Duration::from_millis(20));
        pair.log.clear();
    }
    pair.client_send(b"the last");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data.len(), 66 + 1);
    assert_eq!(pair.client.stats().sent.retransmissions, 0);
    pair.assert_connected();
}

#[test]
fn short_numbers_do_not_lead_a_receiver_of_shared_tags_astray_for_long() {
    for scheme in ["agg:16", "agg:2", "r2d2:50", "r2d2:200"] {
        for gap in [130, 160, 300] {
            let mut pair = Configs::aggregated(scheme).pair(7);
            pair.connect();
            let send = |pair: &mut pair::Pair<'_>, count| {
                for _ in 0..count {
                    pair.client_send(b"17 C");
                    pair.run_for(Duration::from_millis(1));
                }
            };
            send(&mut pair, 400);
            let short = pair.log.last().map(|(_, datagram)| datagram[0] & 0x08);
            assert_eq!(short, Some(0), "the number has 8 bits");
            pair.rule = Box::new(|_, _, _| vec![]);
            send(&mut pair, gap);
            pair.rule = Box::new(|_, _, datagram| pass(datagram));
            let before = pair.at_server.data.len();
            send(&mut pair, 400);
            let found = pair.at_server.data.len() - before;
            assert!(found >= 150, "{scheme}, {gap} lost: {found} of 400");
        }
    }
}

/// The ServerHello shows that the hello arrived. The rest of the flight takes longer than the
/// timeout of the hello, which is not retransmitted.
#[test]
fn a_hello_whose_answer_has_begun_to_arrive_is_not_sent_again() {
    let mut configs = Configs::new();
    configs.client.settings.versions = vec![ProtocolVersion::Dtls13];
    configs.client.settings.psk_modes = vec![PskKeyExchangeMode::PSK_KE];
    configs.server.settings.datagram_bytes = 95;
    configs.server.cookies = CookiePolicy::WhenRetrying;
    let mut pair = configs.pair(31).with_rule(|direction, _, datagram| {
        let delay = match (direction, datagram[0]) {
            (Direction::ToServer, _) => 10,
            (Direction::ToClient, 22) => 700,
            (Direction::ToClient, _) => 1500,
        };
        vec![(Duration::from_millis(delay), datagram.to_vec())]
    });
    pair.run_for(Duration::from_secs(5));
    pair.assert_connected();
    let hellos = pair.log.iter().filter(|(_, datagram)| datagram[0] == 22 && datagram[13] == 1);
    assert_eq!(hellos.count(), 1);
}
