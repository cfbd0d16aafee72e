//! DTLS 1.2 between two ends of this crate, in virtual time.

use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::{ProtocolVersion, Settings};
use std::cell::Cell;
use std::time::Duration;
use testkit::pair::{Configs, Direction, Fate, Pair, pass};

const SUITES: [CipherSuiteId; 6] = [
    CipherSuiteId::PSK_WITH_AES_128_CCM_8,
    CipherSuiteId::PSK_WITH_AES_128_CCM,
    CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256,
    CipherSuiteId::PSK_WITH_CHACHA20_POLY1305_SHA256,
    CipherSuiteId::ECDHE_PSK_WITH_AES_128_GCM_SHA256,
    CipherSuiteId::ECDHE_PSK_WITH_AES_128_CCM_8_SHA256,
];

fn older(suite: CipherSuiteId) -> Configs {
    both(suite, |settings| settings.versions = vec![ProtocolVersion::Dtls12])
}

fn both(suite: CipherSuiteId, change: impl Fn(&mut Settings)) -> Configs {
    let mut configs = Configs::new().suite(suite);
    change(&mut configs.client.settings);
    change(&mut configs.server.settings);
    configs
}

fn exchange(pair: &mut Pair<'_>) {
    pair.client_send(b"ping");
    pair.server_send(b"pong");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data.last().unwrap(), b"ping");
    assert_eq!(pair.at_client.data.last().unwrap(), b"pong");
}

#[test]
fn every_suite_connects_and_carries_data() {
    for suite in SUITES {
        let mut pair = older(suite).pair(1);
        pair.connect().assert_connected();
        let agreed = pair.at_client.connected.clone().unwrap();
        assert_eq!((agreed.version, agreed.suite), (ProtocolVersion::Dtls12, suite));
        assert!(agreed.extended_master && !agreed.resumed);
        exchange(&mut pair);
    }
}

#[test]
fn both_speak_1_3_where_both_can() {
    for (client, server, agreed) in [
        (true, true, ProtocolVersion::Dtls13),
        (true, false, ProtocolVersion::Dtls12),
        (false, true, ProtocolVersion::Dtls12),
    ] {
        let versions = |newer| match newer {
            true => vec![ProtocolVersion::Dtls12, ProtocolVersion::Dtls13],
            false => vec![ProtocolVersion::Dtls12],
        };
        let mut configs = Configs::new();
        configs.client.settings.versions = versions(client);
        configs.server.settings.versions = versions(server);
        let mut pair = configs.pair(2);
        pair.connect().assert_connected();
        assert_eq!(pair.at_client.connected.as_ref().unwrap().version, agreed);
        assert_eq!(pair.at_server.connected.as_ref().unwrap().version, agreed);
        exchange(&mut pair);
    }
}

/// An on-path attacker that forces the older version: it removes the newer one from the client's
/// hello.
#[test]
fn a_downgrade_is_noticed() {
    let mut configs = Configs::new();
    configs.client.settings.handshake_deadline = Duration::from_secs(20);
    let mut pair = configs.pair(3).with_rule(|direction, _, datagram| {
        let mut datagram = datagram.to_vec();
        // supported_versions (43), 5 bytes: two versions.
        let versions = [0, 43, 0, 5, 4, 0xfe, 0xfc, 0xfe, 0xfd];
        let at = datagram.windows(versions.len()).position(|window| window == versions);
        if let (Direction::ToServer, Some(at)) = (direction, at) {
            datagram[at + 5..at + 7].copy_from_slice(&[0xfe, 0xfd]);
        }
        pass(&datagram)
    });
    pair.connect();
    assert!(pair.at_client.connected.is_none());
    let reason = pair.at_client.closed.unwrap();
    assert!(format!("{reason}").contains("downgrade"), "{reason}");
}

#[test]
fn the_smallest_handshake_is_small() {
    for (packing, expected) in
        [(lightseal_dtls::Packing::Full, 466), (lightseal_dtls::Packing::Auto, 479)]
    {
        let mut configs = both(CipherSuiteId::PSK_WITH_AES_128_CCM_8, |settings| {
            settings.versions = vec![ProtocolVersion::Dtls12];
            settings.resumption = false;
            settings.packing = packing;
        });
        let psk = lightseal_dtls::Psk::external(b"identity9", &[7; 16]).unwrap();
        configs.client.psk = Some(psk.clone());
        configs.server.psks = std::sync::Arc::new(psk);
        let mut pair = configs.pair(4);
        pair.connect().assert_connected();
        let bytes: usize = pair.log.iter().map(|(_, datagram)| datagram.len()).sum();
        assert_eq!((pair.log.len(), bytes), (6, expected), "{packing:?}");
    }
}

/// Two handshakes with the same server, the second with the first one's session.
fn resume(configs: impl Fn() -> Configs) -> (Pair<'static>, Pair<'static>) {
    let mut first = configs().pair(5);
    first.connect().assert_connected();
    let session = first.client.session().expect("a session to resume");
    let mut again = configs();
    again.client.session = Some(session);
    let second = first.reconnect(again.client, 6);
    (first, second)
}

#[test]
fn sessions_are_resumed_by_ticket_and_by_id() {
    for tickets in [true, false] {
        let (_, mut second) = resume(|| {
            let mut configs = older(CipherSuiteId::PSK_WITH_AES_128_CCM);
            configs.client.settings.session_tickets = tickets;
            configs
        });
        second.connect().assert_connected();
        assert!(second.at_client.connected.as_ref().unwrap().resumed, "tickets: {tickets}");
        assert!(second.at_server.connected.as_ref().unwrap().resumed);
        exchange(&mut second);
    }
}

/// Each pair of datagrams of a handshake is lost in turn: the handshake always completes.
#[test]
fn any_two_datagrams_may_be_lost() {
    for resumed in [false, true] {
        for first in 0..8 {
            for second in first + 1..9 {
                let lose = move |_: Direction, index: usize, datagram: &[u8]| -> Fate {
                    if index == first || index == second { Vec::new() } else { pass(datagram) }
                };
                let configs = || older(CipherSuiteId::PSK_WITH_AES_128_CCM_8);
                let mut pair = match resumed {
                    true => resume(configs).1.with_rule(lose),
                    false => configs().pair(7).with_rule(lose),
                };
                pair.connect();
                pair.rule = Box::new(|_, _, datagram| pass(datagram));
                pair.assert_connected();
                exchange(&mut pair);
            }
        }
    }
}

/// The number of bytes of a datagram that are plaintext records.
fn clear_len(datagram: &[u8]) -> usize {
    let mut len = 0;
    while let Some([_, _, _, 0, 0, _, _, _, _, _, _, high, low]) = datagram.get(len..len + 13) {
        len += 13 + usize::from(u16::from_be_bytes([*high, *low]));
    }
    len
}

/// pion retransmits its Finished under its old record number, which is a replay. The plaintext
/// records that it retransmits show that it wants the last flight again.
#[test]
fn the_last_flight_is_sent_again_for_a_repeated_flight_without_its_finished() {
    for resumed in [false, true] {
        let last = if resumed { Direction::ToServer } else { Direction::ToClient };
        let (finished, answers) = (Cell::new(0), Cell::new(0));
        let rule = |direction: Direction, _: usize, datagram: &[u8]| -> Fate {
            let clear = clear_len(datagram);
            let count = if direction == last { &answers } else { &finished };
            count.set(count.get() + usize::from(clear < datagram.len()));
            match count.get() {
                1 if direction == last => Vec::new(),
                // A burst of them gets one answer.
                2.. if direction != last => {
                    [pass(&datagram[..clear]), pass(&datagram[..clear])].concat()
                }
                _ => pass(datagram),
            }
        };
        let configs = || older(CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256);
        let mut pair = match resumed {
            true => resume(configs).1.with_rule(rule),
            false => configs().pair(8).with_rule(rule),
        };
        pair.connect().assert_connected();
        assert!(finished.get() > 1, "nothing was repeated");
        assert_eq!(answers.get(), 2, "one that was lost, and one for all repetitions");
        pair.rule = Box::new(|_, _, datagram| pass(datagram));
        exchange(&mut pair);
    }
}

#[test]
fn flights_come_one_record_a_datagram_if_asked_for() {
    let configs = both(CipherSuiteId::ECDHE_PSK_WITH_AES_128_GCM_SHA256, |settings| {
        settings.versions = vec![ProtocolVersion::Dtls12];
        settings.packing = lightseal_dtls::Packing::RecordPerDatagram;
    });
    let mut pair = configs.pair(8);
    pair.connect().assert_connected();
    for (_, datagram) in &pair.log {
        let length = usize::from(u16::from_be_bytes([datagram[11], datagram[12]]));
        assert_eq!(datagram.len(), 13 + length);
    }
    exchange(&mut pair);
}

#[test]
fn a_wrong_key_is_told_soon() {
    let mut configs = older(CipherSuiteId::PSK_WITH_AES_128_CCM_8);
    let psk = lightseal_dtls::Psk::external(b"Client_identity", &[0x1b; 32]).unwrap();
    configs.client.psk = Some(psk);
    let mut pair = configs.pair(9);
    pair.connect();
    let (client, server) = (pair.at_client.closed.unwrap(), pair.at_server.closed.unwrap());
    assert!(format!("{server}").contains("another key"), "{server}");
    assert!(format!("{client}").contains("another key"), "{client}");
}

#[test]
fn records_are_no_longer_than_the_peer_takes() {
    for limit in [64, 100, 512] {
        for version in [ProtocolVersion::Dtls12, ProtocolVersion::Dtls13] {
            let mut configs = Configs::new();
            configs.client.settings.versions = vec![version];
            configs.client.settings.record_size_limit = Some(limit);
            let mut pair = configs.pair(10);
            pair.connect().assert_connected();
            let agreed = pair.at_server.connected.clone().unwrap();
            let inner = u16::from(version == ProtocolVersion::Dtls13);
            assert_eq!(agreed.record_limit, usize::from(limit - inner));
            let handle = pair.handle.unwrap();
            let most = pair.server.connection(handle).unwrap().max_payload();
            assert_eq!(most, agreed.record_limit);
            pair.server_send(&vec![7; most]);
            pair.run_for(Duration::from_secs(1));
            assert_eq!(pair.at_client.data.last().unwrap().len(), most);
            assert_eq!(
                pair.server.connection_mut(handle).unwrap().send(
                    pair.now,
                    &vec![7; most + 1],
                    &mut []
                ),
                Err(lightseal_dtls::SendError::TooLong)
            );
        }
    }
}

#[test]
fn a_fragment_length_is_granted() {
    let mut configs = older(CipherSuiteId::PSK_WITH_AES_128_CCM_8);
    configs.client.settings.max_fragment_length = lightseal_dtls::MaxFragmentLength::of_bytes(512);
    let mut pair = configs.pair(11);
    pair.connect().assert_connected();
    assert_eq!(pair.at_client.connected.as_ref().unwrap().record_limit, 512);
    assert_eq!(pair.at_server.connected.as_ref().unwrap().record_limit, 512);
}

#[test]
fn exporters_and_key_logs_agree() {
    let mut pair = older(CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256).pair(12);
    pair.connect().assert_connected();
    let (mut ours, mut theirs) = ([0; 40], [0; 40]);
    let server = pair.server.connection(pair.handle.unwrap()).unwrap();
    pair.client.export_keying_material(b"EXPORTER-test", b"ctx", &mut ours).unwrap();
    server.export_keying_material(b"EXPORTER-test", b"ctx", &mut theirs).unwrap();
    assert_eq!(ours, theirs);
    assert_ne!(ours, [0; 40]);
}

/// Payloads queued before the handshake is complete may turn out to be too long.
#[test]
fn what_was_queued_for_longer_records_is_dropped_and_holds_nothing_up() {
    for version in [ProtocolVersion::Dtls12, ProtocolVersion::Dtls13] {
        for close in [false, true] {
            let mut configs = Configs::new();
            configs.client.settings.versions = vec![version];
            configs.server.settings.record_size_limit = Some(100);
            configs.client.settings.record_size_limit = Some(16_384);
            let mut pair = configs.pair(13);
            for len in [1, 500, pair.client.max_payload(), 50] {
                pair.client_send(&vec![7; len]);
            }
            while close && pair.at_client.connected.is_none() {
                pair.run_for(Duration::from_millis(1));
            }
            if close {
                pair.client.close(pair.now);
            }
            pair.connect();
            let lengths: Vec<_> = pair.at_server.data.iter().map(Vec::len).collect();
            assert_eq!(lengths, [1, 50], "{version}, closed: {close}");
            assert_eq!(pair.client.stats().sent.too_long, 2);
        }
    }
}

/// The longest ID in each record leaves little room in the smallest datagram.
#[test]
fn the_smallest_datagrams_hold_records_with_the_longest_ids() {
    for version in [ProtocolVersion::Dtls12, ProtocolVersion::Dtls13] {
        let ids = |bytes| {
            both(CipherSuiteId::PSK_WITH_CHACHA20_POLY1305_SHA256, |settings| {
                *settings = Settings::new(settings.provider);
                settings.versions = vec![version];
                settings.connection_ids = lightseal_dtls::ConnectionIds::Bytes(32);
                settings.datagram_bytes = bytes;
            })
        };
        let mut pair = ids(96).pair(14);
        pair.connect().assert_connected();
        exchange(&mut pair);
        assert!(pair.log.iter().all(|(_, datagram)| datagram.len() <= 96));
        // A server uses no ID if the client's is too long, and a client refuses one that is too
        // long.
        let mut pair = ids(95).pair(14);
        pair.connect().assert_connected();
        exchange(&mut pair);
        let handle = pair.handle.unwrap();
        let connection = pair.server.connection(handle).unwrap();
        let agreed = connection.negotiated().unwrap();
        assert!(agreed.send_cid.is_empty() && agreed.receive_cid.is_empty());
    }
}

/// Frames of IEEE 802.15.4.
#[test]
fn links_of_80_bytes_carry_handshakes_and_data_with_connection_ids() {
    for version in [ProtocolVersion::Dtls12, ProtocolVersion::Dtls13] {
        for id in [0, 4, 16] {
            let configs = both(CipherSuiteId::PSK_WITH_CHACHA20_POLY1305_SHA256, |settings| {
                *settings = Settings::new(settings.provider);
                settings.versions = vec![version];
                settings.connection_ids = lightseal_dtls::ConnectionIds::of_bytes(id);
                settings.datagram_bytes = 80;
            });
            let mut pair = configs.pair(14);
            pair.connect().assert_connected();
            let most = pair.client.max_payload();
            assert!(most >= 26, "{version}, IDs of {id} bytes: {most}");
            pair.client_send(&vec![5; most]);
            pair.run_for(Duration::from_secs(1));
            assert_eq!(pair.at_server.data, [vec![5; most]]);
            assert!(pair.log.iter().all(|(_, datagram)| datagram.len() <= 80));
        }
    }
}

/// RFC 7925, section 11: the first timeout is 9 s, and timeouts double up to 60 s.
#[test]
fn small_devices_ask_again_as_their_profile_says() {
    let mut configs = Configs::new();
    let provider = configs.client.settings.provider;
    configs.client.settings = Settings::rfc7925(provider);
    let mut pair = configs.pair(15).with_rule(|_, _, _| Vec::new());
    let start = pair.now;
    pair.run_for(Duration::ZERO);
    let mut sent = vec![pair.now];
    while pair.at_client.closed.is_none() {
        pair.run_for(Duration::from_secs(1));
        sent.resize(pair.log.len(), pair.now);
    }
    let times: Vec<_> = sent.iter().map(|at| (*at - start).as_secs()).collect();
    assert_eq!(times, [0, 9, 27, 63, 123, 183, 243]);
}
