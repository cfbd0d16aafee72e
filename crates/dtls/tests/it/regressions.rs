//! Former errors that do not belong to the topics of the other files.

use lightseal_core::{Engine, Instant, Output, Random};
use lightseal_dtls::codepoints::{HELLO_RETRY_REQUEST_RANDOM, PskKeyExchangeMode};
use lightseal_dtls::crypto::rustcrypto::PROVIDER;
use lightseal_dtls::crypto::{
    CipherSuite, CipherSuiteId, KeyDerivation, Keying, KnownAnswer, Limits, Protection, Provider,
};
use lightseal_dtls::error::{Limit, Misbehaviour};
use lightseal_dtls::{CloseReason, ConfigError, Connection, Endpoint, Event, Fault, SendError};
use std::time::Duration;
use testkit::drain;
use testkit::pair::{Configs, Direction, Pair, client_address, pass, server_address};

/// The epoch bits of the last datagram in a direction.
fn epoch_bits(pair: &Pair<'_>, direction: Direction) -> u8 {
    pair.log.iter().rev().find(|(d, _)| *d == direction).expect("sent something").1[0] & 3
}

#[test]
fn one_end_may_change_its_keys_again_and_again() {
    let mut pair = Configs::new().pair(1);
    pair.connect();
    for epoch in 4..12u8 {
        pair.client.update_keys(pair.now);
        pair.run_for(Duration::from_secs(1));
        pair.client_send(&[epoch]);
        pair.run_for(Duration::from_secs(1));
        assert_eq!(epoch_bits(&pair, Direction::ToServer), epoch & 3);
        assert_eq!(pair.at_server.data.last(), Some(&vec![epoch]));
    }
}

#[test]
fn crossing_key_updates_survive_the_loss_of_both_acks() {
    let mut pair = Configs::new().pair(2);
    pair.connect();
    let first = pair.log.len();
    pair.rule =
        Box::new(
            move |_, index, datagram| {
                if (first + 2..first + 4).contains(&index) { vec![] } else { pass(datagram) }
            },
        );
    pair.client.update_keys(pair.now);
    pair.server.connection_mut(pair.handle.unwrap()).unwrap().update_keys(pair.now);
    pair.run_for(Duration::from_secs(10));
    assert!(pair.log.len() < first + 12, "{} datagrams", pair.log.len() - first);
    pair.client_send(b"a");
    pair.server_send(b"b");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(epoch_bits(&pair, Direction::ToServer), 4 & 3);
    assert_eq!(epoch_bits(&pair, Direction::ToClient), 4 & 3);
    assert_eq!((pair.at_server.data.len(), pair.at_client.data.len()), (1, 1));
}

#[test]
fn old_keys_live_until_the_peer_has_used_the_new_ones() {
    for scheme in ["off", "agg:2"] {
        let mut pair = Configs::aggregated(scheme).pair(3);
        pair.connect();
        pair.rule = Box::new(|direction, _, datagram| match direction {
            Direction::ToServer => pass(datagram),
            Direction::ToClient => vec![],
        });
        pair.client.update_keys(pair.now);
        // No ACK arrives for ten minutes: the client has to continue with its old keys.
        pair.run_for(Duration::from_secs(600));
        pair.client_send(b"old keys");
        pair.client_send(b"old keys");
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.at_server.data.len(), 2, "{scheme}");
        pair.rule = Box::new(|_, _, datagram| pass(datagram));
        pair.run_for(Duration::from_secs(61));
        pair.client_send(b"new keys");
        pair.client_send(b"new keys");
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.at_server.data.len(), 4);
        assert_eq!(epoch_bits(&pair, Direction::ToServer), 4 & 3);
    }
}

#[test]
fn aggregated_data_proves_that_the_finished_arrived() {
    let mut configs = Configs::aggregated("agg:2");
    configs.client.settings.max_wait = Some(Duration::from_secs(600));
    configs.server.settings.max_wait = Some(Duration::from_secs(600));
    // After the client has answered, only short data reaches it: never an ACK.
    let mut finished = false;
    let mut pair = configs.pair(4).with_rule(move |direction, _, datagram| {
        finished |= direction == Direction::ToServer && datagram[0] & 0xe3 == 0x22;
        let lost = direction == Direction::ToClient && finished && datagram.len() > 37;
        if lost { vec![] } else { pass(datagram) }
    });
    pair.connect();
    for _ in 0..80 {
        pair.server_send(b"reading");
        pair.server_send(b"reading");
        pair.run_for(Duration::from_secs(1));
    }
    pair.assert_connected();
    assert!(pair.at_client.data.len() > 120, "{}", pair.at_client.data.len());
}

#[test]
fn a_close_is_answered_by_a_close() {
    let mut pair = Configs::new().pair(5);
    pair.connect();
    let before = pair.log.len();
    pair.client.close(pair.now);
    pair.run_for(Duration::from_secs(1));
    let directions: Vec<_> = pair.log[before..].iter().map(|(d, _)| *d).collect();
    assert_eq!(directions, [Direction::ToServer, Direction::ToClient]);
    assert_eq!(pair.at_server.closed, Some(CloseReason::Peer));
    assert_eq!(pair.server.open_connections(), 0);
}

/// Passes a plaintext ServerHello or HelloRetryRequest through `edit`; other datagrams stay
/// unchanged.
fn edit_hello(datagram: &[u8], retry: bool, edit: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    const RECORD: usize = 13;
    const MESSAGE: usize = RECORD + 12;
    let mut out = datagram.to_vec();
    if datagram[0] != 22 || datagram[RECORD] != 2 {
        return out;
    }
    let end = RECORD + usize::from(u16::from_be_bytes([datagram[11], datagram[12]]));
    let mut body = datagram[MESSAGE..end].to_vec();
    if (body[2..34] == HELLO_RETRY_REQUEST_RANDOM) != retry {
        return out;
    }
    edit(&mut body);
    let [high, low] = (body.len() as u16).to_be_bytes();
    out[RECORD + 1..RECORD + 4].copy_from_slice(&[0, high, low]);
    out[RECORD + 9..RECORD + 12].copy_from_slice(&[0, high, low]);
    out[11..13].copy_from_slice(&(body.len() as u16 + 12).to_be_bytes());
    out.splice(MESSAGE..end, body);
    out
}

/// The offset of the suite in a ServerHello without a session ID.
const SUITE: std::ops::Range<usize> = 35..37;

#[test]
fn a_server_hello_keeps_to_the_suite_of_its_retry_request() {
    let mut pair = Configs::new().pair(6).with_rule(move |_, _, datagram| {
        let other = CipherSuiteId::AES_128_CCM_SHA256.0.to_be_bytes();
        pass(&edit_hello(datagram, false, |body| body[SUITE].copy_from_slice(&other)))
    });
    pair.connect();
    let fault = Misbehaviour::IllegalParameter("cipher suite").into();
    assert_eq!(pair.at_client.closed, Some(CloseReason::Fault(fault)));
}

#[test]
fn hellos_answer_nothing_that_was_not_asked() {
    for retry in [false, true] {
        // The length of the extensions follows the suite and the compression method.
        let mut pair = Configs::new().pair(7).with_rule(move |_, _, datagram| {
            pass(&edit_hello(datagram, retry, |body| {
                body.extend([0x12, 0x34, 0, 1, 7]);
                body[39] += 5;
            }))
        });
        pair.connect();
        let fault = Misbehaviour::UnsolicitedExtension.into();
        assert_eq!(pair.at_client.closed, Some(CloseReason::Fault(fault)), "{retry}");
    }
}

#[test]
fn a_client_may_send_and_close_as_soon_as_it_is_connected() {
    let configs = Configs::new();
    let now = Instant::from_micros(1);
    let (client, server) = (configs.client.config(), configs.server.config());
    let mut client = Connection::client(client, server_address(), now, Random::insecure(8));
    let mut server = Endpoint::server(server, Random::insecure(9));
    let (mut buf, mut events) = ([0; 1500], Vec::new());
    for _ in 0..10 {
        loop {
            match client.poll_output(&mut buf) {
                Output::Datagram { payload, .. } => {
                    server.handle_datagram(now, client_address(), &mut payload.to_vec());
                }
                Output::Event(Event::Connected(_)) => {
                    let _ = client.send(now, b"one shot", &mut []).unwrap();
                    client.close(now);
                }
                Output::Event(_) => {}
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(_) | Output::Idle => break,
            }
        }
        let drained = drain(&mut server, |event| events.push(format!("{:?}", event.event)));
        for mut datagram in drained.payloads() {
            client.handle_datagram(now, server_address(), &mut datagram);
        }
    }
    assert_eq!(events.len(), 3, "{events:?}");
    assert_eq!(events[1], format!("{:?}", Event::Data(b"one shot")));
    assert_eq!(events[2], format!("{:?}", Event::Closed(CloseReason::Peer)));
}

/// An AES-128-GCM suite whose keys may seal `records` records.
fn short_lived(records: u64) -> &'static Provider {
    fn plain(keys: &KeyDerivation) -> Box<dyn Protection> {
        let gcm = PROVIDER.suite(CipherSuiteId::AES_128_GCM_SHA256).unwrap();
        gcm.keying.plain(keys)
    }
    let suite = Box::leak(Box::new(CipherSuite::new(
        CipherSuiteId::AES_128_GCM_SHA256,
        "SHORT_LIVED",
        Limits { sealed_records: records, ..Limits::GCM },
        Keying::Aead(plain),
        KnownAnswer::AES_128_GCM,
    )));
    Box::leak(Box::new(PROVIDER.with_suites(Box::leak(Box::new([&*suite])))))
}

fn with_short_lived_keys() -> Configs {
    let mut configs = Configs::new().suite(CipherSuiteId::AES_128_GCM_SHA256);
    configs.client.settings.provider = short_lived(20);
    configs
}

#[test]
fn keys_are_changed_before_they_are_used_up() {
    let mut pair = with_short_lived_keys().pair(10);
    pair.connect();
    for n in 0..200u8 {
        pair.client_send(&[n]);
        pair.run_for(Duration::from_millis(10));
    }
    assert_eq!(pair.at_server.data.len(), 200);
    pair.assert_connected();
}

#[test]
fn a_key_that_could_not_be_changed_in_time_ends_the_association() {
    let mut pair = with_short_lived_keys().pair(11);
    pair.connect();
    for n in 0..30u8 {
        pair.client_send(&[n]);
    }
    let mut closed = None;
    let drained = drain(&mut pair.client, |event| match event {
        Event::Closed(reason) => closed = Some(reason),
        event => panic!("{event:?}"),
    });
    assert_eq!(drained.datagrams.len(), 20, "the KeyUpdate among them");
    let fault = Fault::Limit(Limit::KeyExhausted);
    assert_eq!(closed, Some(CloseReason::Fault(fault)), "reported in the same drain");
}

#[test]
fn a_key_that_is_used_up_refuses_to_seal_at_once() {
    let mut pair = with_short_lived_keys().pair(12);
    pair.connect();
    let mut buf = [0; 1500];
    // No datagram reaches the server, so that it never acknowledges the KeyUpdate.
    let refused = (0..30u8).find_map(|n| {
        let sent = pair.client.send(pair.now, &[n], &mut buf);
        while let Output::Datagram { .. } = pair.client.poll_output(&mut buf) {}
        sent.err()
    });
    assert_eq!(refused, Some(SendError::Closed));
    assert!(pair.client.is_closed() || !pair.client.is_connected());
    assert_eq!(pair.client.send(pair.now, b"x", &mut buf), Err(SendError::Closed));
}

#[test]
fn what_a_small_buffer_cannot_take_waits_for_a_larger_one() {
    fn starve(client: &mut Connection, room: usize) {
        match client.poll_output(&mut vec![0; room]) {
            Output::BufferTooSmall { needed } => assert_eq!(needed, 1200),
            other => panic!("{other:?}"),
        }
    }
    for room in [0, 20, 79, 1199] {
        let mut pair = Configs::aggregated("agg:8").pair(12);
        pair.connect();
        for _ in 0..3 {
            pair.client_send(&[7; 100]);
        }
        starve(&mut pair.client, room);
        pair.run_for(Duration::from_millis(20));
        assert_eq!(pair.client.stats().sent.messages, 3);
        // Now a KeyUpdate and a closing tag are due.
        pair.now += Duration::from_millis(300);
        pair.client.update_keys(pair.now);
        pair.client.handle_timeout(pair.now);
        starve(&mut pair.client, room);
        pair.client_send(&[8; 100]);
        pair.client.close(pair.now);
        starve(&mut pair.client, room);
        assert!(!pair.client.is_closed());
        pair.run_for(Duration::from_millis(100));
        assert_eq!(pair.at_server.data.len(), 4, "a buffer of {room}");
        assert_eq!(pair.at_server.closed, Some(CloseReason::Peer));
        let ended = pair.client.poll_output(&mut []);
        assert!(matches!(ended, Output::Idle), "an ended association needs no buffer");
    }
}

#[test]
fn an_answer_without_state_waits_for_a_buffer_that_can_take_it() {
    let mut pair = Configs::new().pair(13);
    let mut buf = [0; 1500];
    let Output::Datagram { payload, .. } = pair.client.poll_output(&mut buf) else { panic!() };
    let mut hello = payload.to_vec();
    pair.server.handle_datagram(pair.now, pair.client_address, &mut hello);
    match pair.server.poll_output(&mut [0; 20]) {
        Output::BufferTooSmall { needed } => assert_eq!(needed, 1200),
        other => panic!("{other:?}"),
    }
    let answered = pair.server.poll_output(&mut buf);
    assert!(matches!(answered, Output::Datagram { .. }), "{answered:?}");
}

#[test]
fn the_buffer_must_hold_the_longest_datagram_that_the_path_may_carry() {
    let mut configs = Configs::new();
    configs.client.settings.path_mtu = Some(1472);
    let mut pair = configs.pair(14);
    match pair.client.poll_output(&mut [0; 1471]) {
        Output::BufferTooSmall { needed } => assert_eq!(needed, 1472),
        other => panic!("{other:?}"),
    }
    assert!(matches!(pair.client.poll_output(&mut [0; 1472]), Output::Datagram { .. }));
}

#[test]
fn settings_that_cannot_work_are_refused() {
    let check = |set: fn(&mut lightseal_dtls::Settings)| {
        let mut settings = Configs::new().client.settings;
        set(&mut settings);
        settings.check()
    };
    assert_eq!(check(|s| s.datagram_bytes = 80), Ok(()));
    assert_eq!(
        check(|s| s.datagram_bytes = 79),
        Err(ConfigError::DatagramSize { bytes: 79, least: 80 })
    );
    assert_eq!(check(|s| s.datagram_bytes = 65_535), Ok(()));
    assert_eq!(
        check(|s| s.datagram_bytes = 65_536),
        Err(ConfigError::DatagramSize { bytes: 65_536, least: 80 })
    );
    assert_eq!(check(|s| s.initial_timeout = Duration::from_millis(1)), Ok(()));
    assert_eq!(
        check(|s| s.initial_timeout = Duration::from_micros(999)),
        Err(ConfigError::Timeout)
    );
    assert_eq!(check(|s| s.handshake_deadline = Duration::ZERO), Err(ConfigError::Timeout));
    assert_eq!(check(|s| s.handshake_deadline = Duration::MAX), Ok(()));
    assert_eq!(check(|s| s.psk_modes = vec![PskKeyExchangeMode(7)]), Err(ConfigError::PskModes));
}

#[test]
fn the_end_of_time_passes() {
    let mut configs = Configs::new();
    configs.client.settings.initial_timeout = Duration::MAX;
    configs.client.settings.handshake_deadline = Duration::MAX;
    let mut pair = configs.pair(13);
    pair.run_for(Duration::from_millis(1));
    pair.client.handle_timeout(Instant::MAX);
    assert!(matches!(pair.client.poll_output(&mut [0; 1500]), Output::Idle));
}

#[test]
fn forgeries_under_keys_that_were_replaced_end_nothing() {
    let forge = |pair: &mut Pair<'_>, epoch: u8, rng: &mut Random| {
        for _ in 0..200 {
            let mut datagram = rng.array::<40>();
            datagram[0] = 0b0010_1000 | epoch & 3;
            pair.inject(Direction::ToServer, datagram.to_vec());
        }
        pair.run_for(Duration::from_secs(1));
    };
    let mut rng = Random::insecure(14);
    let mut pair = Configs::new().suite(CipherSuiteId::AES_128_CCM_8_SHA256).pair(14);
    pair.connect();
    let quiet = pair.log.len();
    forge(&mut pair, 2, &mut rng);
    pair.assert_connected();
    pair.client.update_keys(pair.now);
    pair.run_for(Duration::from_secs(1));
    pair.client_send(b"new keys");
    pair.run_for(Duration::from_secs(1));
    forge(&mut pair, 3, &mut rng);
    pair.assert_connected();
    assert_eq!(pair.log.len(), quiet + 3, "KeyUpdate, ACK, data: nobody asks for more");
    forge(&mut pair, 4, &mut rng);
    assert_eq!(pair.server.open_connections(), 0, "forgeries under the keys in use end it");
}

/// Both ends change keys at random while the network loses, duplicates and reorders datagrams. Then
/// the network recovers, and everything arrives again.
#[test]
fn key_updates_of_both_ends_converge_whatever_is_lost() {
    for seed in 0..60 {
        let scheme = ["off", "agg:2", "agg:8"][seed as usize % 3];
        let mut pair = Configs::aggregated(scheme).pair(seed);
        pair.connect();
        pair.assert_connected();
        let mut rng = Random::insecure(seed);
        let mut network = rng.fork();
        pair.rule = Box::new(move |_, _, datagram| {
            let copies = [0, 0, 1, 1, 1, 1, 1, 2][network.below(8) as usize];
            (0..copies)
                .map(|_| (Duration::from_micros(network.below(60_000)), datagram.to_vec()))
                .collect()
        });
        for n in 0..300u32 {
            if rng.below(10) == 0 {
                pair.client.update_keys(pair.now);
            }
            if rng.below(10) == 0 {
                pair.server.connection_mut(pair.handle.unwrap()).unwrap().update_keys(pair.now);
            }
            pair.client_send(&n.to_be_bytes());
            pair.server_send(&n.to_be_bytes());
            pair.run_for(Duration::from_millis(rng.below(400)));
            pair.assert_connected();
        }
        pair.rule = Box::new(|_, _, datagram| pass(datagram));
        pair.run_for(Duration::from_secs(90));
        let quiet = pair.log.len();
        pair.run_for(Duration::from_secs(600));
        assert_eq!(pair.log.len(), quiet, "seed {seed}: no datagram is left to send");
        for received in [&mut pair.at_client.data, &mut pair.at_server.data] {
            let count = received.len();
            received.sort();
            received.dedup();
            assert_eq!(received.len(), count, "seed {seed}: a payload was delivered twice");
            received.clear();
        }
        let before = [Direction::ToServer, Direction::ToClient].map(|d| epoch_bits(&pair, d));
        pair.client.update_keys(pair.now);
        pair.server.connection_mut(pair.handle.unwrap()).unwrap().update_keys(pair.now);
        pair.run_for(Duration::from_secs(1));
        for n in 0..40u32 {
            pair.client_send(&n.to_be_bytes());
            pair.server_send(&n.to_be_bytes());
        }
        pair.run_for(Duration::from_secs(1));
        let after = [Direction::ToServer, Direction::ToClient].map(|d| epoch_bits(&pair, d));
        assert_ne!(before[0], after[0], "seed {seed}");
        assert_ne!(before[1], after[1], "seed {seed}");
        assert_eq!(pair.at_server.data.len(), 40, "seed {seed}");
        assert_eq!(pair.at_client.data.len(), 40, "seed {seed}");
    }
}

/// The datagrams are small, so that every flight has several, over a bad network.
#[test]
fn fragmented_handshakes_complete_on_bad_networks() {
    for seed in 0..150 {
        let mut rng = Random::insecure(seed);
        let mut configs = Configs::aggregated(["off", "agg:4"][seed as usize % 2]);
        configs.client.settings.datagram_bytes = 80 + rng.below(120) as usize;
        // The HelloRetryRequest fits one datagram: two fragments with cookies of different secrets
        // would not form a message.
        configs.server.settings.datagram_bytes = 140 + rng.below(60) as usize;
        configs.client.settings.handshake_deadline = Duration::from_secs(600);
        configs.server.settings.handshake_deadline = Duration::from_secs(600);
        let loss = rng.below(5);
        let mut pair = configs.pair(seed).with_rule(move |_, _, datagram| {
            let copies = if rng.below(10) < loss { 0 } else { 1 + rng.below(10) / 9 };
            (0..copies)
                .map(|_| (Duration::from_micros(rng.below(80_000)), datagram.to_vec()))
                .collect()
        });
        let start = pair.now;
        while pair.at_client.connected.is_none() || pair.at_server.connected.is_none() {
            pair.run_for(Duration::from_millis(100));
            assert!(pair.now - start < Duration::from_secs(600), "seed {seed}, loss {loss}/10");
        }
        pair.rule = Box::new(|_, _, datagram| pass(datagram));
        pair.run_for(Duration::from_secs(60));
        pair.assert_connected();
        let sent = pair.log.len();
        pair.run_for(Duration::from_secs(1000));
        pair.assert_connected();
        assert_eq!(pair.log.len(), sent, "seed {seed}: quiet once it is done");
    }
}

#[test]
fn a_late_closing_tag_is_no_malformed_record() {
    let mut pair = Configs::aggregated("agg:4").pair(15);
    pair.connect();
    let server = pair.handle.unwrap();
    let malformed =
        |pair: &Pair<'_>| pair.server.connection(server).unwrap().stats().received.malformed;
    pair.rule = Box::new(|_, _, datagram| {
        // The closing tag is the longest record; it follows the aggregate of its set.
        let delay = if datagram.len() >= 36 { 500 } else { 10 };
        vec![(Duration::from_millis(delay), datagram.to_vec())]
    });
    for _ in 0..20 {
        pair.client_send(b"1");
        pair.run_for(Duration::from_millis(250));
        pair.client_send(b"2");
        pair.client_send(b"3");
        pair.client_send(b"4");
        pair.run_for(Duration::from_millis(100));
    }
    pair.run_for(Duration::from_secs(2));
    assert_eq!(pair.at_server.data.len(), 80);
    assert_eq!(malformed(&pair), 0);
}

#[test]
fn an_old_hello_played_again_does_not_end_a_newer_association() {
    let mut pair = Configs::new().pair(16);
    pair.connect();
    pair.assert_connected();
    let hello = |pair: &Pair<'_>, n: usize| {
        let hellos = pair.log.iter().filter(|(d, datagram)| {
            *d == Direction::ToServer && datagram[0] == 22 && datagram[13] == 1
        });
        hellos.clone().nth(n).unwrap().1.clone()
    };
    // The client restarts at the same address, and its first association ends for that reason.
    let config = Configs::new().client.config();
    pair.client = Connection::client(config, server_address(), pair.now, Random::insecure(17));
    pair.at_client.connected = None;
    pair.connect();
    pair.assert_connected();
    assert_eq!(pair.at_server.closed.take(), Some(CloseReason::Replaced));
    for n in [0, 1, 2, 3] {
        let replayed = hello(&pair, n);
        pair.inject(Direction::ToServer, replayed);
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.at_server.closed, None, "hello {n}");
        pair.client_send(b"still here");
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.at_server.data.len(), n + 1);
    }
}

#[test]
fn a_peer_that_is_gone_is_asked_ever_more_rarely() {
    let mut pair = Configs::new().pair(31);
    pair.connect();
    pair.assert_connected();
    pair.rule = Box::new(|_, _, _| vec![]);
    pair.client.update_keys(pair.now);
    let before = pair.log.len();
    pair.run_for(Duration::from_secs(3600));
    let sent = pair.log.len() - before;
    assert!((60..75).contains(&sent), "{sent} datagrams in an hour");
}
