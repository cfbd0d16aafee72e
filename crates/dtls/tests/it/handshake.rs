//! Handshakes between our own client and server.

use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::{CipherSuiteId, NamedGroup};
use lightseal_dtls::{CookiePolicy, ProtocolVersion, Scheme};
use std::time::Duration;
use testkit::pair::{Configs, Direction, pass};

const SUITES: [CipherSuiteId; 6] = [
    CipherSuiteId::AES_128_GCM_SHA256,
    CipherSuiteId::CHACHA20_POLY1305_SHA256,
    CipherSuiteId::AES_128_CCM_SHA256,
    CipherSuiteId::AES_128_CCM_8_SHA256,
    CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256,
    CipherSuiteId::SHA256_SHA256,
];

#[test]
fn every_suite_mode_and_cookie_policy_connects_and_carries_data() {
    for suite in SUITES {
        for mode in [PskKeyExchangeMode::PSK_DHE_KE, PskKeyExchangeMode::PSK_KE] {
            for cookies in [CookiePolicy::Always, CookiePolicy::WhenRetrying] {
                let mut configs = Configs::new().suite(suite);
                configs.client.settings.psk_modes = vec![mode];
                configs.server.cookies = cookies;
                let mut pair = configs.pair(1);
                pair.connect();
                pair.assert_connected();
                let negotiated = pair.at_client.connected.clone().unwrap();
                assert_eq!(negotiated.suite, suite);
                assert_eq!(negotiated.psk_mode(), mode);
                for i in 0..20u8 {
                    pair.client_send(&[i; 7]);
                    pair.server_send(&[i; 9]);
                }
                pair.run_for(Duration::from_secs(1));
                assert_eq!(pair.at_server.data.len(), 20, "{suite:?}");
                assert_eq!(pair.at_client.data.len(), 20);
                assert!((0..20).all(|i| pair.at_server.data[usize::from(i)] == [i; 7]));
            }
        }
    }
}

#[test]
fn the_smallest_datagrams_hold_a_handshake_under_every_suite() {
    for suite in SUITES {
        for mode in [PskKeyExchangeMode::PSK_DHE_KE, PskKeyExchangeMode::PSK_KE] {
            let mut configs = Configs::new().suite(suite);
            configs.client.settings.psk_modes = vec![mode];
            configs.client.settings.datagram_bytes = 80;
            configs.server.settings.datagram_bytes = 80;
            let mut pair = configs.pair(1);
            pair.connect();
            pair.assert_connected();
            assert!(pair.log.iter().all(|(_, datagram)| datagram.len() <= 80), "{suite:?}");
        }
    }
}

#[test]
fn a_server_asks_in_a_retry_for_a_key_exchange_group_that_it_supports() {
    let mut configs = Configs::new();
    configs.server.settings.groups = vec![NamedGroup::P256];
    configs.server.cookies = CookiePolicy::WhenRetrying;
    let mut pair = configs.pair(2);
    pair.connect();
    pair.assert_connected();
    assert_eq!(pair.at_client.connected.as_ref().unwrap().group, Some(NamedGroup::P256));
    assert_eq!(pair.server.stats().retries, 1);
}

/// RFC 8446, section 4.1.2: of a second ClientHello only some extensions may differ.
#[test]
fn the_second_hello_offers_the_versions_and_suites_of_the_first() {
    let mut configs = Configs::new();
    configs.client.settings.versions = vec![ProtocolVersion::Dtls13, ProtocolVersion::Dtls12];
    configs.server.settings.versions = vec![ProtocolVersion::Dtls13];
    let mut pair = configs.pair(12);
    pair.connect().assert_connected();
    let version = pair.at_client.connected.as_ref().unwrap().version;
    assert_eq!(version, ProtocolVersion::Dtls13);
    // Record header, message header, version and random.
    let (record, message, random) = (13, 12, 34);
    let hellos: Vec<_> = pair
        .log
        .iter()
        .filter(|(way, datagram)| *way == Direction::ToServer && datagram[..1] == [22])
        .map(|(_, datagram)| {
            let body = &datagram[record + message..];
            let (session_id, cookie) = (body[random], body[random + 1]);
            assert_eq!((session_id, cookie), (0, 0));
            let len = usize::from(u16::from_be_bytes([body[random + 2], body[random + 3]]));
            body[..random + 4 + len].to_vec()
        })
        .collect();
    assert_eq!(hellos.len(), 2);
    let renegotiation = [0x00, 0xff];
    assert!(hellos[0].ends_with(&renegotiation), "DTLS 1.2 is offered");
    assert_eq!(hellos[0], hellos[1]);
}

#[test]
fn flights_are_packed() {
    let mut configs = Configs::new();
    configs.server.cookies = CookiePolicy::WhenRetrying;
    let mut pair = configs.pair(3);
    pair.connect();
    pair.assert_connected();
    let sizes: Vec<_> = pair.log.iter().map(|(d, bytes)| (*d, bytes.len())).collect();
    assert_eq!(sizes.len(), 4, "hello; server's flight; finished; ACK: {sizes:?}");
}

#[test]
fn small_datagrams_fragment_flights() {
    for bytes in [80, 100, 200] {
        let mut configs = Configs::new();
        configs.client.settings.datagram_bytes = bytes;
        configs.server.settings.datagram_bytes = bytes;
        let mut pair = configs.pair(4);
        pair.connect();
        pair.assert_connected();
        assert!(pair.log.iter().all(|(_, datagram)| datagram.len() <= bytes));
    }
}

#[test]
fn any_two_datagrams_of_a_handshake_may_be_lost() {
    let clean = {
        let mut pair = Configs::new().pair(5);
        pair.connect();
        pair.log.len()
    };
    for first in 0..clean + 3 {
        for second in first + 1..clean + 5 {
            let mut pair = Configs::new().pair(5).with_rule(move |_, index, datagram| {
                if index == first || index == second { vec![] } else { pass(datagram) }
            });
            pair.connect();
            pair.assert_connected();
            pair.rule = Box::new(|_, _, datagram| pass(datagram));
            pair.client_send(b"after all");
            pair.run_for(Duration::from_secs(30));
            assert_eq!(pair.at_server.data, [b"after all"], "lost {first} and {second}");
            assert!(pair.client.is_connected(), "the last flight was acknowledged");
        }
    }
}

#[test]
fn duplicates_and_reversal_do_not_multiply_answers() {
    let mut pair = Configs::new().pair(6).with_rule(|_, index, datagram| {
        let late = Duration::from_millis(if index % 2 == 0 { 30 } else { 5 });
        (0..5).map(|copy| (late + Duration::from_millis(copy), datagram.to_vec())).collect()
    });
    pair.connect();
    pair.assert_connected();
    pair.run_for(Duration::from_secs(10));
    assert!(pair.log.len() < 30, "{} datagrams", pair.log.len());
}

#[test]
fn data_that_overtakes_the_finished_waits_for_it() {
    let mut pair = Configs::new().pair(7).with_rule(|direction, _, datagram| {
        // A datagram of epoch 2 to the server contains the client's Finished.
        let finished = direction == Direction::ToServer && datagram[0] & 0xe3 == 0x22;
        let delay = if finished { 80 } else { 10 };
        vec![(Duration::from_millis(delay), datagram.to_vec())]
    });
    pair.client_send(b"early");
    pair.connect();
    pair.assert_connected();
    assert_eq!(pair.at_server.data, [b"early"]);
}

#[test]
fn exporters_agree() {
    let mut pair = Configs::new().pair(8);
    pair.connect();
    let (mut a, mut b) = ([0; 40], [1; 40]);
    pair.client.export_keying_material(b"EXPORTER-test", b"ctx", &mut a).unwrap();
    let server = pair.server.connection(pair.handle.unwrap()).unwrap();
    server.export_keying_material(b"EXPORTER-test", b"ctx", &mut b).unwrap();
    assert_eq!(a, b);
}

#[test]
fn aggregation_is_negotiated_for_each_direction() {
    let mut configs = Configs::new();
    let agg = |n| Scheme::agg(n).unwrap();
    configs.client.settings.aggregation.send = vec![agg(16), agg(8)];
    configs.client.settings.aggregation.receive = vec![agg(4)];
    configs.server.settings.aggregation.receive = vec![agg(8)];
    let mut pair = configs.pair(9);
    pair.connect();
    pair.assert_connected();
    let client = pair.at_client.connected.as_ref().unwrap();
    assert_eq!((client.send, client.receive), (agg(8), Scheme::Plain));
    let server = pair.at_server.connected.as_ref().unwrap();
    assert_eq!((server.send, server.receive), (Scheme::Plain, agg(8)));
}

#[test]
fn a_peer_without_the_extension_gets_plain_tags() {
    let mut configs = Configs::aggregated("agg:8");
    configs.server.settings.aggregation = Default::default();
    let mut pair = configs.pair(10);
    pair.connect();
    pair.assert_connected();
    assert_eq!(pair.at_client.connected.as_ref().unwrap().send, Scheme::Plain);
    let mut configs = Configs::aggregated("agg:8");
    configs.client.settings.aggregation = Default::default();
    let mut pair = configs.pair(10);
    pair.connect();
    pair.assert_connected();
    assert_eq!(pair.at_server.connected.as_ref().unwrap().receive, Scheme::Plain);
}

#[test]
fn aggregation_with_gcm_alone_is_refused_by_configuration() {
    let configs = Configs::aggregated("agg:8").suite(CipherSuiteId::AES_128_GCM_SHA256);
    assert_eq!(configs.client.settings.check(), Err(lightseal_dtls::ConfigError::AggregationSuite));
}

/// Anybody can forge an alert without encryption, so a client gives up only at the third one.
#[test]
fn the_third_refusal_ends_a_handshake() {
    let mut configs = Configs::new();
    let psk = lightseal_dtls::Psk::external(b"stranger", &[7; 32]).unwrap();
    configs.client.psk = Some(psk);
    let mut pair = configs.pair(11);
    pair.run_for(Duration::from_secs(5));
    let unknown = lightseal_dtls::codepoints::AlertDescription::UNKNOWN_PSK_IDENTITY;
    assert_eq!(pair.at_client.closed, Some(lightseal_dtls::CloseReason::PeerAlert(unknown)));
    assert_eq!(pair.server.stats().refused, 3);
    assert_eq!(pair.server.open_connections(), 0);
}

#[test]
fn two_forged_refusals_stop_no_handshake() {
    let mut forged = 0;
    let mut pair = Configs::new().pair(12).with_rule(move |direction, _, datagram| {
        let mut fate = pass(datagram);
        if direction == Direction::ToClient && forged < 2 {
            forged += 1;
            let alert = [21, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 2, 40];
            fate.insert(0, (Duration::from_millis(1), alert.to_vec()));
            fate.pop();
        }
        fate
    });
    pair.connect();
    pair.assert_connected();
}

#[test]
fn a_suite_without_encryption_is_used_only_if_both_ends_name_it() {
    let suite = CipherSuiteId::SHA256_SHA256;
    let mut configs = Configs::new();
    configs.client.settings.suites = vec![suite];
    let mut pair = configs.pair(7);
    pair.connect();
    assert!(pair.at_client.connected.is_none(), "the server's defaults do not have it");

    let mut pair = Configs::new().suite(suite).pair(8);
    pair.connect();
    pair.assert_connected();
    pair.client_send(b"for everybody to read");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data, [b"for everybody to read"]);
    let shows = |(_, datagram): &(Direction, Vec<u8>)| {
        datagram.windows(21).any(|bytes| bytes == b"for everybody to read")
    };
    assert!(pair.log.iter().any(shows));
}

/// An end that wants shared tags does not prefer a suite without encryption for their sake: the order
/// of its suites decides.
#[test]
fn aggregation_puts_no_clear_text_before_encryption() {
    let [clear, gcm, lightmac] = [
        CipherSuiteId::SHA256_SHA256,
        CipherSuiteId::AES_128_GCM_SHA256,
        CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256,
    ];
    // (both ends' suites, the negotiated one, whether tags are shared)
    let cases = [
        (&[gcm, lightmac, clear][..], lightmac, true),
        (&[gcm, clear], gcm, false),
        (&[clear, gcm], clear, true),
        (&[clear, lightmac], clear, true),
        (&[clear], clear, true),
    ];
    for (suites, expected, shared) in cases {
        let mut configs = Configs::aggregated("agg:4");
        configs.client.settings.suites = suites.to_vec();
        configs.server.settings.suites = suites.to_vec();
        let mut pair = configs.pair(9);
        pair.connect();
        pair.assert_connected();
        let negotiated = pair.at_client.connected.clone().unwrap();
        assert_eq!(negotiated.suite, expected, "{suites:?}");
        assert_eq!(negotiated.send != Scheme::Plain, shared, "{suites:?}");
    }
}
