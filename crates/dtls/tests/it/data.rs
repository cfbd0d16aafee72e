//! Application data after the handshake: aggregates, closing tags, closing, key updates, limits.

use lightseal_core::Random;
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::{CloseReason, ConnectionIds, RecordLengths, RecordNumbers, SendError, Sent};
use std::time::Duration;
use testkit::pair::{Configs, Direction, Pair, pass};

const PRF_SUITES: [CipherSuiteId; 3] = [
    CipherSuiteId::AES_128_CCM_SHA256,
    CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256,
    CipherSuiteId::SHA256_SHA256,
];

fn numbered(n: u32) -> Vec<u8> {
    let mut message = n.to_be_bytes().to_vec();
    message.extend(std::iter::repeat_n(n as u8, n as usize % 40));
    message
}

/// Sends `count` numbered messages from the client, a millisecond apart.
fn send_numbered(pair: &mut Pair<'_>, from: u32, count: u32) {
    for n in from..from + count {
        pair.client_send(&numbered(n));
        pair.run_for(Duration::from_millis(1));
    }
}

#[test]
fn whole_aggregates_arrive_whole_in_both_directions() {
    for suite in PRF_SUITES {
        let agg = (2..=16).map(|n| format!("agg:{n}"));
        let r2d2 = [50, 100, 150, 200].map(|o| format!("r2d2:{o}"));
        let sliding = [50, 100, 150, 200].map(|o| format!("sliding:{o}"));
        for (seed, scheme) in (2..).zip(agg.chain(r2d2).chain(sliding)) {
            let mut pair = Configs::aggregated(&scheme).suite(suite).pair(seed);
            pair.connect();
            pair.assert_connected();
            for i in 0..100 {
                pair.client_send(&numbered(i));
                pair.server_send(&numbered(i));
            }
            pair.run_for(Duration::from_secs(2));
            let expected: Vec<_> = (0..100).map(numbered).collect();
            assert_eq!(pair.at_server.data, expected, "{suite} {scheme}");
            assert_eq!(pair.at_client.data, expected);
        }
    }
}

#[test]
fn a_lone_request_waits_for_silence_and_no_longer() {
    let mut pair = Configs::aggregated("agg:8").pair(1);
    pair.connect();
    pair.client_send(b"GET /time");
    pair.run_for(Duration::from_millis(205));
    assert!(pair.at_server.data.is_empty(), "nothing unverified is delivered");
    pair.run_for(Duration::from_millis(10));
    assert_eq!(pair.at_server.data, [b"GET /time"]);
    let before = pair.log.len();
    pair.run_for(Duration::from_secs(5));
    assert_eq!(pair.log.len(), before, "one closing tag is enough");
    // The set continues where it was.
    send_numbered(&mut pair, 0, 20);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data.len(), 21);
}

#[test]
fn closing_brings_the_open_tags_and_the_queue() {
    let mut pair = Configs::aggregated("agg:16").pair(2);
    pair.connect();
    for n in 0..5 {
        pair.client_send(&numbered(n));
    }
    pair.client.close(pair.now);
    pair.run_for(Duration::from_millis(50));
    assert_eq!(pair.at_server.data, (0..5).map(numbered).collect::<Vec<_>>());
    assert_eq!(pair.at_client.closed, Some(CloseReason::Local));
    assert_eq!(pair.at_server.closed, Some(CloseReason::Peer));
    assert_eq!(pair.server.open_connections(), 0);
    assert_eq!(pair.server.buffered_bytes(), 0);
    assert!(pair.client.is_closed());
}

#[test]
fn a_lost_record_costs_its_set_and_no_other() {
    let mut pair = Configs::aggregated("agg:8").pair(3);
    pair.connect();
    pair.assert_connected();
    let first = pair.log.len();
    pair.rule = Box::new(move |direction, index, datagram| {
        let lost = direction == Direction::ToServer && index == first + 11;
        if lost { vec![] } else { pass(datagram) }
    });
    send_numbered(&mut pair, 0, 400);
    pair.run_for(Duration::from_secs(1));
    assert!((392..400).contains(&pair.at_server.data.len()), "{}", pair.at_server.data.len());
    let expected: Vec<_> = (0..400).map(numbered).collect();
    assert!(pair.at_server.data.iter().all(|message| expected.contains(message)));
}

#[test]
fn reordering_and_duplication_lose_nothing() {
    for suite in PRF_SUITES {
        let mut rng = Random::insecure(4);
        let mut pair = Configs::aggregated("agg:8").suite(suite).pair(4);
        pair.connect();
        pair.rule = Box::new(move |_, _, datagram| {
            (0..=rng.below(2))
                .map(|_| (Duration::from_micros(rng.below(12_000)), datagram.to_vec()))
                .collect()
        });
        send_numbered(&mut pair, 0, 500);
        pair.run_for(Duration::from_secs(1));
        let mut received = pair.at_server.data.clone();
        received.sort();
        assert_eq!(received, (0..500).map(numbered).collect::<Vec<_>>());
    }
}

#[test]
fn records_are_as_short_as_they_can_be() {
    let mut configs = Configs::aggregated("agg:16");
    configs.client.settings.record_numbers = RecordNumbers::Auto;
    let mut pair = configs.pair(5);
    pair.connect();
    let first = pair.log.len();
    for n in 0..640u32 {
        pair.client_send(&[n as u8; 10]);
        pair.run_for(Duration::from_millis(1));
    }
    pair.run_for(Duration::from_millis(100));
    let sizes: Vec<_> = pair.log[first..]
        .iter()
        .filter(|(direction, _)| *direction == Direction::ToServer)
        .map(|(_, datagram)| datagram.len())
        .collect();
    assert_eq!(
        sizes[..16].iter().sum::<usize>(),
        16 * (3 + 1 + 10) + 16,
        "16-bit numbers at first"
    );
    let last = &sizes[sizes.len() - 16..];
    assert_eq!(last.iter().sum::<usize>(), 16 * (2 + 1 + 10) + 16, "8-bit once loss is known");
    assert_eq!(pair.at_server.data.len(), 640);
}

/// Splits datagrams of DTLS 1.3 into the first bytes of their encrypted records, by the records'
/// length fields; `None` if one has no length field or the lengths do not fill the datagram.
fn headers_by_length(mut datagram: &[u8]) -> Option<Vec<u8>> {
    let mut headers = Vec::new();
    while let [first, rest @ ..] = datagram {
        if first & 0xe0 != 0x20 {
            // A plaintext record (RFC 9147, section 4).
            let length = rest.get(10..12)?;
            datagram = rest.get(12 + usize::from(u16::from_be_bytes([length[0], length[1]]))..)?;
            continue;
        }
        // RFC 9147, section 4: the bits C, S and L. No connection IDs are used here.
        assert_eq!(first & 0x10, 0);
        if first & 0x04 == 0 {
            return None;
        }
        let number = if first & 0x08 == 0 { 1 } else { 2 };
        let length = rest.get(number..number + 2)?;
        let after = number + 2 + usize::from(u16::from_be_bytes([length[0], length[1]]));
        datagram = rest.get(after..)?;
        headers.push(*first);
    }
    Some(headers)
}

#[test]
fn all_records_have_a_length_field_if_that_is_asked_for() {
    for scheme in ["off", "agg:8"] {
        for bytes in [80, 200, 1200] {
            let sizes = [RecordLengths::Auto, RecordLengths::Always].map(|lengths| {
                let mut configs = Configs::aggregated(scheme);
                for settings in [&mut configs.client.settings, &mut configs.server.settings] {
                    settings.record_lengths = lengths;
                    settings.datagram_bytes = bytes;
                }
                let mut pair = configs.pair(9);
                pair.connect().assert_connected();
                let longest = vec![5; pair.client.max_payload()];
                for _ in 0..20 {
                    pair.client_send(b"up");
                    pair.client_send(&longest);
                    pair.server_send(b"down");
                }
                pair.update_keys(Direction::ToServer);
                pair.run_for(Duration::from_secs(1));
                assert_eq!(pair.at_server.data.len(), 40);
                assert_eq!(pair.at_client.data.len(), 20);
                pair.client.close(pair.now);
                pair.run_for(Duration::from_secs(1));
                let case = format!("{scheme} {bytes} {lengths:?}");
                assert!(pair.log.iter().all(|(_, datagram)| datagram.len() <= bytes), "{case}");
                let encrypted = pair.log.iter().filter(|(_, datagram)| datagram[0] & 0xe0 == 0x20);
                let with = encrypted.clone().filter(|(_, d)| headers_by_length(d).is_some());
                let (with, all) = (with.count(), encrypted.count());
                assert!(all >= 60, "{case}: {all}");
                // Otherwise the last record of a datagram has none, unless it was padded.
                let right =
                    if lengths == RecordLengths::Always { with == all } else { with < all / 4 };
                assert!(right, "{case}: {with} of {all}");
                longest.len()
            });
            assert_eq!(sizes[0], sizes[1] + 2, "{scheme}: the field is counted");
        }
    }
}

#[test]
fn keys_change_under_way_with_loss_and_nothing_is_lost_or_repeated() {
    for scheme in ["off", "agg:8"] {
        let mut rng = Random::insecure(6);
        let mut pair = Configs::aggregated(scheme).suite(PRF_SUITES[1]).pair(6);
        pair.connect();
        // Only datagrams longer than data are lost here: the updates, their ACKs, closing tags.
        pair.rule = Box::new(move |_, _, datagram| {
            if datagram.len() > 34 && rng.below(3) == 0 { vec![] } else { pass(datagram) }
        });
        let mut sent = Vec::new();
        for round in 0..30u8 {
            pair.client.update_keys(pair.now);
            for i in 0..10 {
                sent.push(vec![round, i]);
                pair.client_send(&[round, i]);
                pair.run_for(Duration::from_millis(40));
            }
        }
        pair.run_for(Duration::from_secs(20));
        let mut received = pair.at_server.data.clone();
        received.sort();
        let distinct = received.len();
        received.dedup();
        assert_eq!(received.len(), distinct, "no payload is delivered twice");
        assert!(received.iter().all(|message| sent.contains(message)));
        assert!(received.len() > 240, "{scheme}: {} of {}", received.len(), sent.len());
        pair.assert_connected();
    }
}

#[test]
fn a_replayed_datagram_is_delivered_once() {
    for scheme in ["off", "agg:4"] {
        let mut pair = Configs::aggregated(scheme).suite(PRF_SUITES[0]).pair(7);
        pair.connect();
        let first = pair.log.len();
        send_numbered(&mut pair, 0, 40);
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.at_server.data.len(), 40);
        let recorded = pair.log[first..].to_vec();
        for (direction, datagram) in recorded {
            pair.inject(direction, datagram);
        }
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.at_server.data.len(), 40);
    }
}

/// Datagrams that look like records of the application epoch but are forged.
fn junk(rng: &mut Random, len: usize) -> Vec<u8> {
    let mut datagram = vec![0; len];
    rng.fill(&mut datagram);
    datagram[0] = 0b0010_1011;
    datagram
}

#[test]
fn ccm_8_asks_for_new_keys_at_64_forgeries_and_ends_at_128() {
    let mut pair = Configs::new().suite(CipherSuiteId::AES_128_CCM_8_SHA256).pair(8);
    pair.connect();
    pair.assert_connected();
    let mut rng = Random::insecure(8);
    for _ in 0..63 {
        pair.inject(Direction::ToServer, junk(&mut rng, 40));
    }
    pair.run_for(Duration::from_secs(1));
    let quiet = pair.log.len();
    pair.inject(Direction::ToServer, junk(&mut rng, 40));
    pair.run_for(Duration::from_secs(1));
    assert!(pair.log.len() > quiet, "a KeyUpdate that asks for the client's");
    pair.assert_connected();
    // The counters of the client's next keys begin at zero, including that of failed
    // authentications.
    pair.client_send(b"new keys");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data, [b"new keys"]);
    for _ in 0..127 {
        let mut datagram = junk(&mut rng, 40);
        datagram[0] = 0b0010_1000;
        pair.inject(Direction::ToServer, datagram);
    }
    pair.rule = Box::new(|direction, _, datagram| match direction {
        Direction::ToServer => vec![],
        Direction::ToClient => pass(datagram),
    });
    pair.run_for(Duration::from_millis(1));
    assert_eq!(pair.server.open_connections(), 1);
    let mut datagram = junk(&mut rng, 40);
    datagram[0] = 0b0010_1000;
    pair.inject(Direction::ToServer, datagram);
    pair.run_for(Duration::from_millis(100));
    assert_eq!(pair.server.open_connections(), 0, "2^7 forgeries end the association");
}

#[test]
fn received_data_is_bounded() {
    let mut configs = Configs::new();
    configs.server.settings.receive_buffer_bytes = 1000;
    let mut pair = configs.pair(9);
    pair.connect();
    let server = pair.handle.unwrap();
    for _ in 0..5 {
        pair.client_send(&[7; 1100]);
        pair.client_send(&[7; 100]);
    }
    pair.run_for(Duration::from_secs(1));
    assert!(pair.server.buffered_bytes() <= 1000);
    assert_eq!(pair.server.connection(server).unwrap().stats().received.buffer_full, 5);
    assert_eq!(pair.at_server.data.len(), 5);
}

#[test]
fn payloads_up_to_the_limit_fit_and_one_byte_more_is_refused() {
    for scheme in ["off", "agg:8"] {
        let mut pair = Configs::aggregated(scheme).suite(PRF_SUITES[1]).pair(10);
        pair.connect();
        let most = pair.client.max_payload();
        for _ in 0..16 {
            pair.client_send(&vec![1; most]);
        }
        assert_eq!(
            pair.client.send(pair.now, &vec![1; most + 1], &mut []),
            Err(SendError::TooLong)
        );
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.at_server.data.len(), 16);
        assert!(pair.log.iter().all(|(_, datagram)| datagram.len() <= 1200));
    }
}

/// Both ends send, the server answers, and the keys change meanwhile.
fn conversation(
    scheme: &str,
    max_wait: Option<Duration>,
    mut send: impl FnMut(&mut Pair<'_>, u32),
) -> Vec<(Direction, Vec<u8>)> {
    let mut configs = Configs::aggregated(scheme);
    configs.client.settings.max_wait = max_wait;
    configs.server.settings.max_wait = max_wait;
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.connection_ids = ConnectionIds::Bytes(4);
    }
    let mut pair = configs.pair(11);
    pair.echoes = true;
    pair.connect().assert_connected();
    for n in 0..120 {
        match n {
            50 => pair.client.update_keys(pair.now),
            70 => pair.client.request_connection_ids(pair.now, 2),
            90 => pair.client.rotate_connection_id(pair.now),
            _ => {}
        }
        send(&mut pair, n);
        pair.run_for(Duration::from_millis(u64::from(n % 9) * 4));
    }
    pair.run_for(Duration::from_secs(1));
    let expected: Vec<_> = (0..120).map(numbered).collect();
    assert_eq!(pair.at_server.data, expected);
    pair.log.clone()
}

#[test]
fn a_payload_that_is_sealed_at_once_makes_the_datagrams_of_a_queued_one() {
    for scheme in ["off", "agg:4", "agg:4+check", "r2d2:100", "sliding:50"] {
        for max_wait in [None, Some(Duration::ZERO), Some(Duration::from_millis(20))] {
            let queued = conversation(scheme, max_wait, |pair, n| pair.client_send(&numbered(n)));
            let at_once = conversation(scheme, max_wait, |pair, n| {
                let _ = pair.client_send_at_once(&numbered(n));
            });
            assert!(queued == at_once, "{scheme} {max_wait:?}");
        }
    }
}

#[test]
fn buffers_that_just_fit_a_record_or_not_its_closing_tag_lose_nothing_and_keep_the_order() {
    for (scheme, overhead) in [("off", 15..40), ("agg:2", 5..60), ("r2d2:100", 5..60)] {
        for room in overhead {
            let max_wait = Some(Duration::ZERO);
            conversation(scheme, max_wait, |pair, n| {
                let payload = numbered(n);
                let room = payload.len() + room;
                let _ = pair.send_lending(Direction::ToServer, &payload, room).unwrap();
            });
        }
    }
}

#[test]
fn payloads_are_sealed_in_the_order_of_the_calls() {
    let mut pair = Configs::aggregated("off").pair(11);
    assert_eq!(pair.client_send_at_once(&numbered(0)), Sent::Queued, "before the handshake");
    pair.connect().assert_connected();
    let is_sealed = |sent| matches!(sent, Sent::Datagram { .. });
    assert!(is_sealed(pair.client_send_at_once(&numbered(1))));
    // Behind a queued payload.
    pair.client_send(&numbered(2));
    assert_eq!(pair.client_send_at_once(&numbered(3)), Sent::Queued);
    pair.run_for(Duration::ZERO);
    assert!(is_sealed(pair.client_send_at_once(&numbered(4))));
    // Behind a message of the association.
    pair.client.update_keys(pair.now);
    assert_eq!(pair.client_send_at_once(&numbered(5)), Sent::Queued);
    pair.run_for(Duration::from_secs(1));
    assert!(is_sealed(pair.client_send_at_once(&numbered(6))));
    // Into a buffer that is too short.
    let sent = pair.client.send(pair.now, &numbered(7), &mut [0; 90]);
    assert!(sent.is_ok_and(is_sealed));
    let sent = pair.client.send(pair.now, &[8; 80], &mut [0; 90]);
    assert_eq!(sent, Ok(Sent::Queued));
    pair.run_for(Duration::from_secs(1));
    let mut expected: Vec<_> = (0..7).map(numbered).collect();
    expected.push(vec![8; 80]);
    assert_eq!(pair.at_server.data, expected, "the seventh was sealed but not transmitted");
    // The guard of an endpoint's association.
    let handle = pair.handle.unwrap();
    let mut datagram = [0; 1500];
    let sent = pair.server.connection_mut(handle).unwrap().send(pair.now, b"x", &mut datagram);
    assert!(sent.is_ok_and(is_sealed));
    pair.client.close(pair.now);
    assert_eq!(pair.client.send(pair.now, b"x", &mut datagram), Err(SendError::Closed));
}

#[test]
fn long_bursts_of_loss_do_not_strand_short_numbers() {
    for (scheme, burst) in [("off", 200), ("off", 300), ("agg:2", 200), ("agg:16", 700)] {
        let mut configs = Configs::aggregated(scheme);
        configs.client.settings.record_numbers = RecordNumbers::Short;
        let mut pair = configs.suite(PRF_SUITES[1]).pair(12);
        pair.connect();
        send_numbered(&mut pair, 0, 100);
        pair.rule = Box::new(|direction, _, datagram| match direction {
            Direction::ToServer => vec![],
            Direction::ToClient => pass(datagram),
        });
        send_numbered(&mut pair, 100, burst);
        pair.rule = Box::new(|_, _, datagram| pass(datagram));
        send_numbered(&mut pair, 10_000, 1600);
        pair.run_for(Duration::from_secs(1));
        let late = (11_400..11_600).filter(|n| pair.at_server.data.contains(&numbered(*n)));
        assert_eq!(late.count(), 200, "{scheme} after a burst of {burst}");
    }
}
