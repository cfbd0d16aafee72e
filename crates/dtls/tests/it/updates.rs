//! Changes of the aggregation scheme: AggregationUpdate, its answer, and the messages that cross
//! them.

use lightseal_core::Random;
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::tuning::RECORDS_BETWEEN_UPDATES;
use lightseal_dtls::{
    AggregationError, AggregationPolicy, CloseReason, Fault, RecordNumbers, Scheme,
};
use std::time::Duration;
use testkit::pair::{self, Configs, Direction, Pair, pass};

const PRF_SUITES: [CipherSuiteId; 3] = [
    CipherSuiteId::AES_128_CCM_SHA256,
    CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256,
    CipherSuiteId::SHA256_SHA256,
];

const LADDER: [&str; 7] = ["agg:8", "agg:16", "agg:4", "agg:2", "agg:5", "r2d2:50", "r2d2:200"];

fn scheme(name: &str) -> Scheme {
    name.parse().unwrap()
}

/// Both ends accept every scheme of the ladder for both directions, and negotiate its first.
fn configs() -> Configs {
    let mut configs = Configs::new();
    let list: Vec<_> = LADDER.iter().map(|name| scheme(name)).collect();
    let policy = AggregationPolicy::new(list.clone(), list);
    configs.client.settings.aggregation = policy.clone();
    configs.server.settings.aggregation = policy;
    configs.waiting(Duration::from_millis(200))
}

fn pair<'a>(seed: u64) -> Pair<'a> {
    let mut pair = configs().suite(PRF_SUITES[seed as usize % 3]).pair(seed);
    pair.connect();
    pair.assert_connected();
    pair
}

fn server_requests(pair: &mut Pair<'_>, name: &str) {
    let handle = pair.handle.expect("connected");
    pair.server
        .connection_mut(handle)
        .unwrap()
        .request_aggregation(pair.now, scheme(name))
        .unwrap();
}

fn client_requests(pair: &mut Pair<'_>, name: &str) {
    pair.client.request_aggregation(pair.now, scheme(name)).unwrap();
}

/// The scheme with which the client sends, as either end sees it.
fn to_server(pair: &Pair<'_>) -> (Scheme, Scheme) {
    let server = pair.server.connection(pair.handle.unwrap()).unwrap();
    (pair.client.negotiated().unwrap().send, server.negotiated().unwrap().receive)
}

/// The scheme with which the server sends, as either end sees it.
fn to_client(pair: &Pair<'_>) -> (Scheme, Scheme) {
    let server = pair.server.connection(pair.handle.unwrap()).unwrap();
    (server.negotiated().unwrap().send, pair.client.negotiated().unwrap().receive)
}

#[track_caller]
fn assert_to_server(pair: &Pair<'_>, name: &str) {
    assert_eq!(to_server(pair), (scheme(name), scheme(name)));
}

fn message(n: u32) -> Vec<u8> {
    let mut message = n.to_be_bytes().to_vec();
    message.extend(std::iter::repeat_n(n as u8, n as usize % 23));
    message
}

/// Sends numbered messages from the client, a millisecond apart.
fn client_sends(pair: &mut Pair<'_>, from: u32, count: u32) {
    for n in from..from + count {
        pair.client_send(&message(n));
        pair.run_for(Duration::from_millis(1));
    }
}

/// The epoch bits of the records sent in one direction since `first`.
fn epochs(pair: &Pair<'_>, direction: Direction, first: usize) -> Vec<u8> {
    let sent = pair.log[first..].iter().filter(|(d, _)| *d == direction);
    sent.map(|(_, datagram)| datagram[0] & 3).collect()
}

#[test]
fn a_receiver_chooses_other_schemes_and_not_a_message_is_lost() {
    for seed in 0..3 {
        let mut pair = pair(seed);
        let names =
            ["agg:16", "off", "r2d2:50", "agg:2", "r2d2:200", "r2d2:50", "off", "agg:5", "agg:8"];
        let mut next = 0;
        for name in names {
            server_requests(&mut pair, name);
            // The number is no multiple of a set, so that each epoch ends with open data.
            client_sends(&mut pair, next, 307);
            next += 307;
            assert_to_server(&pair, name);
        }
        pair.run_for(Duration::from_secs(1));
        let mut received = pair.at_server.data.clone();
        received.sort();
        assert_eq!(received, (0..next).map(message).collect::<Vec<_>>());
        let told: Vec<_> = names.iter().map(|name| scheme(name)).collect();
        let heard = |list: &[(Scheme, Scheme)], client: bool| -> Vec<Scheme> {
            list.iter().map(|(send, receive)| if client { *send } else { *receive }).collect()
        };
        assert_eq!(heard(&pair.at_client.schemes, true), told);
        assert_eq!(heard(&pair.at_server.schemes, false), told);
        assert_eq!(to_client(&pair), (scheme("agg:8"), scheme("agg:8")), "the other direction");
        assert_eq!(pair.client.stats().sent.retransmissions, 0);
    }
}

#[test]
fn an_idle_peer_answers_in_one_datagram_and_its_open_data_is_verified_by_that() {
    let mut configs = configs();
    configs.client.settings.max_wait = Some(Duration::from_secs(600));
    let mut pair = configs.pair(3);
    pair.connect();
    client_sends(&mut pair, 0, 3);
    assert!(pair.at_server.data.is_empty());
    let before = pair.log.len();
    server_requests(&mut pair, "off");
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.at_server.data, (0..3).map(message).collect::<Vec<_>>());
    assert_eq!(pair.log.len(), before + 2, "the update and its answer");
    assert_to_server(&pair, "off");
}

#[test]
fn either_message_may_be_lost_and_late_data_still_counts() {
    for (lost_update, lost_answer, late) in
        [(1, 0, false), (3, 0, false), (0, 1, false), (0, 3, false), (2, 2, true), (0, 0, true)]
    {
        let mut configs = configs();
        configs.client.settings.max_wait = Some(Duration::from_secs(600));
        let mut pair = configs.pair(4);
        pair.connect();
        let first = pair.log.len();
        let (mut updates, mut answers) = (lost_update, lost_answer);
        pair.rule = Box::new(move |direction, index, datagram| {
            let count = match direction {
                Direction::ToClient => &mut updates,
                Direction::ToServer if index >= first + 5 => &mut answers,
                // Data of the old epoch arrives after the report of its end.
                Direction::ToServer if late && index == first + 2 => {
                    return vec![(Duration::from_secs(30), datagram.to_vec())];
                }
                Direction::ToServer => return pass(datagram),
            };
            if *count > 0 {
                *count -= 1;
                return vec![];
            }
            pass(datagram)
        });
        client_sends(&mut pair, 0, 5);
        server_requests(&mut pair, "agg:4");
        pair.run_for(Duration::from_secs(20));
        let expected = if late { 0 } else { 5 };
        assert_eq!(pair.at_server.data.len(), expected, "{lost_update} {lost_answer} {late}");
        pair.run_for(Duration::from_secs(20));
        assert_eq!(pair.at_server.data, (0..5).map(message).collect::<Vec<_>>());
        assert_to_server(&pair, "agg:4");
        let quiet = pair.log.len();
        pair.run_for(Duration::from_secs(600));
        assert_eq!(pair.log.len(), quiet);
    }
}

#[test]
fn the_answer_is_repeated_until_it_comes_though_new_data_came_before() {
    let mut pair = configs().waiting(Duration::from_secs(600)).pair(5);
    pair.connect();
    client_sends(&mut pair, 0, 4);
    let first = pair.log.len();
    pair.rule = Box::new(move |_, index, datagram| {
        // The update is delivered, its first answers are lost.
        if index > first && datagram.len() > 60 && index < first + 20 {
            vec![]
        } else {
            pass(datagram)
        }
    });
    server_requests(&mut pair, "off");
    for n in 4..12 {
        pair.run_for(Duration::from_millis(25));
        pair.client_send(&message(n));
    }
    pair.run_for(Duration::from_millis(11));
    assert_to_server(&pair, "off");
    assert!(pair.at_server.data.iter().all(|m| !(0..4).map(message).any(|old| old == *m)));
    pair.run_for(Duration::from_secs(10));
    let mut received = pair.at_server.data.clone();
    received.sort();
    assert_eq!(received, (0..12).map(message).collect::<Vec<_>>());
}

#[test]
fn without_its_answer_an_update_is_settled_by_use_when_nothing_waits() {
    let mut pair = pair(6);
    client_sends(&mut pair, 0, 8);
    pair.run_for(Duration::from_secs(1));
    let first = pair.log.len();
    pair.rule = Box::new(
        move |_, index, datagram| {
            if index == first + 1 { vec![] } else { pass(datagram) }
        },
    );
    server_requests(&mut pair, "off");
    pair.run_for(Duration::from_millis(20));
    client_sends(&mut pair, 8, 8);
    pair.run_for(Duration::from_secs(30));
    assert_eq!(pair.at_server.data.len(), 16);
    let server = pair.server.connection(pair.handle.unwrap()).unwrap();
    assert_eq!(server.stats().sent.retransmissions, 0);
    assert_to_server(&pair, "off");
}

#[test]
fn data_overtakes_the_answer_and_is_overtaken_by_it() {
    for seed in 0..6 {
        let mut pair = pair(seed);
        let mut rng = Random::insecure(seed);
        pair.rule = Box::new(move |_, _, datagram| {
            (0..=rng.below(2))
                .map(|_| (Duration::from_micros(rng.below(15_000)), datagram.to_vec()))
                .collect()
        });
        let mut next = 0;
        for name in ["agg:16", "off", "r2d2:50", "agg:2", "agg:4"] {
            server_requests(&mut pair, name);
            client_sends(&mut pair, next, 230);
            next += 230;
        }
        pair.run_for(Duration::from_secs(2));
        let mut received = pair.at_server.data.clone();
        received.sort();
        assert_eq!(received, (0..next).map(message).collect::<Vec<_>>(), "seed {seed}");
        assert_to_server(&pair, "agg:4");
    }
}

#[test]
fn an_end_that_comes_far_ahead_of_its_epoch_waits_for_it() {
    let mut pair = pair(16);
    let first = pair.log.len();
    pair.rule = Box::new(move |direction, index, datagram| {
        let slow = direction == Direction::ToServer && index < first + 300;
        vec![(Duration::from_millis(if slow { 1000 } else { 10 }), datagram.to_vec())]
    });
    client_sends(&mut pair, 0, 300);
    server_requests(&mut pair, "off");
    pair.run_for(Duration::from_millis(100));
    assert_to_server(&pair, "off");
    assert!(pair.at_server.data.is_empty());
    pair.client_send(b"new");
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.at_server.data[0], b"new");
    assert_eq!(pair.at_server.data[1..], (0..300).map(message).collect::<Vec<_>>());
}

#[test]
fn both_directions_change_at_once() {
    for lost in [None, Some(0), Some(1), Some(2), Some(3)] {
        let mut pair = pair(7);
        for n in 0..3 {
            pair.client_send(&message(n));
            pair.server_send(&message(n));
        }
        pair.run_for(Duration::from_millis(20));
        let first = pair.log.len();
        pair.rule = Box::new(move |_, index, datagram| {
            if lost.is_some_and(|lost| index == first + lost) { vec![] } else { pass(datagram) }
        });
        client_requests(&mut pair, "agg:16");
        server_requests(&mut pair, "off");
        pair.run_for(Duration::from_secs(10));
        assert!(pair.log.len() - first <= 8, "{lost:?}: {} datagrams", pair.log.len() - first);
        for n in 3..30 {
            pair.client_send(&message(n));
            pair.server_send(&message(n));
        }
        pair.run_for(Duration::from_secs(10));
        let expected: Vec<_> = (0..30).map(message).collect();
        assert_eq!(pair.at_server.data, expected, "{lost:?}");
        if lost == Some(2) {
            // The lost answer was in the new epoch's first set, which now lacks a record.
            assert_eq!(pair.at_client.data[..3], expected[..3]);
            assert_eq!(pair.at_client.data[3..], expected[15..]);
        } else {
            assert_eq!(pair.at_client.data, expected, "{lost:?}");
        }
        assert_to_server(&pair, "off");
        assert_eq!(to_client(&pair), (scheme("agg:16"), scheme("agg:16")));
    }
}

#[test]
fn key_updates_of_either_end_cross_an_update() {
    for seed in 0..60 {
        let mut rng = Random::insecure(seed);
        let mut pair = pair(seed);
        let mut network = rng.fork();
        pair.rule = Box::new(move |_, _, datagram| {
            let delay = Duration::from_micros(1000 + network.below(30_000));
            if network.below(4) == 0 { vec![] } else { vec![(delay, datagram.to_vec())] }
        });
        for _ in 0..6 {
            let handle = pair.handle.unwrap();
            if rng.below(2) == 0 {
                pair.client.update_keys(pair.now);
            }
            if rng.below(2) == 0 {
                pair.server.connection_mut(handle).unwrap().update_keys(pair.now);
            }
            if rng.below(3) == 0 {
                pair.run_for(Duration::from_millis(rng.below(40)));
            }
            server_requests(&mut pair, LADDER[rng.below(7) as usize]);
            if rng.below(2) == 0 {
                client_requests(&mut pair, LADDER[rng.below(7) as usize]);
            }
            for n in 0..210 {
                pair.client_send(&message(n));
                if rng.below(2) == 0 {
                    pair.server_send(&message(n));
                }
                pair.run_for(Duration::from_millis(2));
            }
        }
        pair.rule = Box::new(|_, _, datagram| pass(datagram));
        pair.run_for(Duration::from_secs(200));
        pair.assert_connected();
        let (sent, received) = to_server(&pair);
        assert_eq!(sent, received, "seed {seed}");
        let (sent, received) = to_client(&pair);
        assert_eq!(sent, received, "seed {seed}");
        pair.at_server.data.clear();
        pair.at_client.data.clear();
        for n in 0..400 {
            pair.client_send(&message(n));
            pair.server_send(&message(n));
            pair.run_for(Duration::from_millis(20));
        }
        pair.run_for(Duration::from_secs(1));
        // The first messages may share tags with lost ones, and a receiver that could verify
        // nothing for a long time first has to determine the current record number.
        let heard = |received: &[Vec<u8>]| (300..400).all(|n| received.contains(&message(n)));
        assert!(heard(&pair.at_server.data), "seed {seed}");
        assert!(heard(&pair.at_client.data), "seed {seed}");
    }
}

#[test]
fn a_key_update_that_crosses_is_sent_again_in_the_new_epoch() {
    let mut pair = pair(8);
    let first = pair.log.len();
    pair.client.update_keys(pair.now);
    server_requests(&mut pair, "agg:2");
    pair.run_for(Duration::from_secs(10));
    client_sends(&mut pair, 0, 20);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data.len(), 20);
    assert_to_server(&pair, "agg:2");
    let epochs = epochs(&pair, Direction::ToServer, first);
    assert_eq!((epochs.first(), epochs.last()), (Some(&3), Some(&1)), "{epochs:?}");
    assert!(epochs.contains(&0), "the update's epoch, and then the KeyUpdate's");
}

#[test]
fn a_second_request_waits_for_two_hundred_records_and_a_newer_one_takes_its_place() {
    let mut pair = pair(9);
    server_requests(&mut pair, "agg:2");
    pair.run_for(Duration::from_millis(100));
    assert_to_server(&pair, "agg:2");
    server_requests(&mut pair, "agg:16");
    server_requests(&mut pair, "off");
    client_sends(&mut pair, 0, 150);
    pair.run_for(Duration::from_secs(1));
    assert_to_server(&pair, "agg:2");
    client_sends(&mut pair, 150, RECORDS_BETWEEN_UPDATES as u32 - 150);
    pair.run_for(Duration::from_secs(1));
    assert_to_server(&pair, "off");
    // A scheme that is already in use is not requested.
    let before = pair.log.len();
    server_requests(&mut pair, "off");
    client_sends(&mut pair, 1000, 250);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(epochs(&pair, Direction::ToServer, before), [1; 250]);
}

#[test]
fn requests_are_bounded_by_what_was_offered() {
    let mut pair = configs().pair(10);
    let early = pair.client.request_aggregation(pair.now, Scheme::Plain);
    assert_eq!(early, Err(AggregationError::NotConnected));
    pair.connect();
    let not_offered = pair.client.request_aggregation(pair.now, scheme("agg:7"));
    assert_eq!(not_offered, Err(AggregationError::NotOffered));
    pair.client.close(pair.now);
    let late = pair.client.request_aggregation(pair.now, Scheme::Plain);
    assert_eq!(late, Err(AggregationError::NotConnected));

    // Both ends may use only the client's lists, even if the server would accept more.
    let mut configs = configs();
    configs.client.settings.aggregation = AggregationPolicy::new(vec![scheme("agg:4")], vec![]);
    let mut pair = configs.pair(11);
    pair.connect();
    let handle = pair.handle.unwrap();
    let mut ask = |name| {
        pair.server.connection_mut(handle).unwrap().request_aggregation(pair.now, scheme(name))
    };
    assert_eq!(ask("agg:8"), Err(AggregationError::NotOffered));
    assert_eq!(ask("off"), Ok(()));
    let none = pair.client.request_aggregation(pair.now, Scheme::Plain);
    assert_eq!(none, Err(AggregationError::NotNegotiated));
    pair.run_for(Duration::from_secs(1));
    assert_to_server(&pair, "off");
}

#[test]
fn short_numbers_and_loss_reports_begin_anew() {
    let mut configs = configs();
    configs.client.settings.record_numbers = RecordNumbers::Auto;
    let mut pair = configs.pair(12);
    pair.connect();
    let send = |pair: &mut Pair<'_>, count: usize| {
        for _ in 0..count {
            pair.client_send(&[7; 10]);
            pair.run_for(Duration::from_millis(1));
        }
        // The bytes besides flags, type and payload; records without a tag are the shortest.
        let sent = &pair.log[pair.log.len() - count.min(16)..];
        sent.iter().map(|(_, datagram)| datagram.len()).min().unwrap() - 12
    };
    assert_eq!(send(&mut pair, 97), 1, "8 bits");
    for (name, tag) in [("agg:4", 0), ("off", 16), ("agg:16", 0)] {
        server_requests(&mut pair, name);
        pair.run_for(Duration::from_millis(100));
        assert_eq!(send(&mut pair, 2), 2 + tag, "16 bits in {name}");
        pair.run_for(Duration::from_millis(500));
        let number = if tag == 0 { 1 } else { 2 };
        assert_eq!(send(&mut pair, 298), number + tag, "{name}");
        pair.run_for(Duration::from_millis(500));
    }
    assert_eq!(pair.at_server.data.len(), 97 + 900);
}

#[test]
fn closing_during_an_update_brings_what_is_open() {
    let mut pair = pair(13);
    client_sends(&mut pair, 0, 5);
    server_requests(&mut pair, "agg:16");
    // The update arrives, and the association is closed before the answer is sent.
    pair.run_for(Duration::from_millis(1));
    let update = pair.log.last().unwrap().clone();
    assert_eq!(update.0, Direction::ToClient);
    pair.rule = Box::new(|_, _, datagram| pass(datagram));
    let mut copy = update.1;
    lightseal_core::Engine::handle_datagram(
        &mut pair.client,
        pair.now,
        pair::server_address(),
        &mut copy,
    );
    pair.client_send(b"in the new epoch");
    pair.client.close(pair.now);
    pair.run_for(Duration::from_secs(1));
    let mut expected: Vec<_> = (0..5).map(message).collect();
    expected.push(b"in the new epoch".to_vec());
    assert_eq!(pair.at_server.data, expected);
    assert_eq!(pair.at_server.closed, Some(CloseReason::Peer));
    assert_eq!(pair.server.buffered_bytes(), 0);
}

#[test]
fn an_update_to_a_peer_that_is_gone_is_repeated_ever_less_often() {
    let mut pair = pair(14);
    pair.rule = Box::new(|direction, _, datagram| match direction {
        Direction::ToServer => pass(datagram),
        Direction::ToClient => vec![],
    });
    let before = pair.log.len();
    server_requests(&mut pair, "agg:2");
    pair.run_for(Duration::from_secs(600));
    assert!((8..30).contains(&(pair.log.len() - before)), "{}", pair.log.len() - before);
    // The old keys are used all the time.
    client_sends(&mut pair, 0, 16);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data.len(), 16);
    pair.rule = Box::new(|_, _, datagram| pass(datagram));
    pair.run_for(Duration::from_secs(61));
    assert_to_server(&pair, "agg:2");
    client_sends(&mut pair, 16, 4);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data.len(), 20);
}

#[test]
fn connection_ids_change_with_the_schemes() {
    let mut configs = configs();
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.connection_ids = lightseal_dtls::ConnectionIds::Bytes(4);
    }
    let mut rng = Random::insecure(15);
    let mut pair = configs
        .pair(15)
        .with_rule(move |_, _, datagram| if rng.below(5) == 0 { vec![] } else { pass(datagram) });
    pair.connect();
    pair.assert_connected();
    for (round, name) in ["agg:2", "off", "agg:16", "agg:4"].into_iter().enumerate() {
        let handle = pair.handle.unwrap();
        server_requests(&mut pair, name);
        pair.server.connection_mut(handle).unwrap().rotate_connection_id(pair.now);
        pair.client.rotate_connection_id(pair.now);
        client_requests(&mut pair, name);
        for n in 0..260 {
            pair.client_send(&message(n));
            pair.server_send(&message(n));
            pair.run_for(Duration::from_millis(2));
        }
        pair.run_for(Duration::from_secs(120));
        pair.client_address.set_port(41_000 + round as u16);
    }
    pair.client_send(b"moved");
    pair.run_for(Duration::from_secs(60));
    pair.rule = Box::new(|_, _, datagram| pass(datagram));
    pair.run_for(Duration::from_secs(60));
    pair.assert_connected();
    assert_to_server(&pair, "agg:4");
    assert_eq!(to_client(&pair), (scheme("agg:4"), scheme("agg:4")));
    assert!(pair.at_server.data.len() > 400 && pair.at_client.data.len() > 400);
    let fault = |reason: &Option<CloseReason>| {
        matches!(reason, Some(CloseReason::Fault(Fault::Misbehaved(_))))
    };
    assert!(!fault(&pair.at_client.closed) && !fault(&pair.at_server.closed));
}
