//! Associations of an endpoint that sleep behave as if they were awake.

use crate::certificates::{RAW, X509, mutual};
use lightseal_core::{Engine, Random};
use lightseal_dtls::codepoints::PskKeyExchangeMode;
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::{Connection, ConnectionIds, ProtocolVersion, Watch};
use std::time::Duration;
use testkit::pair::{Configs, Direction, Pair, server_address};

const MINUTE: Duration = Duration::from_secs(60);
/// Longer than the keys of a handshake live.
const LONG: Duration = Duration::from_secs(600);

const WITHOUT_IDS: &str = "no connection IDs";

/// Configurations of each kind of association that can sleep.
fn kinds() -> Vec<(&'static str, Configs)> {
    let only = |mut configs: Configs, version| {
        configs.client.settings.versions = vec![version];
        configs
    };
    let suite = |id| Configs::new().suite(id);
    let mut alone = Configs::new();
    alone.client.settings.psk_modes = vec![PskKeyExchangeMode::PSK_KE];
    let mut with_protocol = Configs::new();
    for settings in [&mut with_protocol.client.settings, &mut with_protocol.server.settings] {
        settings.application_protocols = vec![b"co".to_vec()];
        settings.path_mtu = Some(1400);
    }
    let mut kinds = vec![
        ("GCM", suite(CipherSuiteId::AES_128_GCM_SHA256)),
        ("CCM_8", suite(CipherSuiteId::AES_128_CCM_8_SHA256)),
        ("ChaCha20", suite(CipherSuiteId::CHACHA20_POLY1305_SHA256)),
        ("PSK alone", alone),
        (WITHOUT_IDS, Configs::new()),
        ("a protocol", with_protocol),
        ("raw keys", mutual(RAW, RAW)),
        ("certificates", mutual(X509, X509)),
        ("1.2 CCM", only(suite(CipherSuiteId::PSK_WITH_AES_128_CCM), ProtocolVersion::Dtls12)),
        (
            "1.2 ChaCha20",
            only(suite(CipherSuiteId::PSK_WITH_CHACHA20_POLY1305_SHA256), ProtocolVersion::Dtls12),
        ),
    ];
    for (kind, configs) in &mut kinds {
        let ids = if *kind == WITHOUT_IDS { ConnectionIds::Off } else { ConnectionIds::Bytes(8) };
        configs.client.settings.connection_ids = ids;
        configs.server.settings.connection_ids = ids;
    }
    kinds
}

/// The configuration with a server whose associations sleep after this time.
fn sleeping(mut configs: Configs, after: Option<Duration>) -> Configs {
    configs.server.settings.sleep_after = after;
    configs
}

fn asleep(pair: &Pair<'_>) -> bool {
    pair.server.sleeping_connections() == 1
}

/// What is read of the server's association.
fn seen(pair: &Pair<'_>) -> String {
    let server = pair.server.connection(pair.handle.expect("connected")).expect("open");
    let mut exported = [0; 16];
    server.export_keying_material(b"test", b"", &mut exported).unwrap();
    format!(
        "{:?} {:?} {:?} {:?} {:?} {exported:?} {} {} {:?}",
        server.peer(),
        server.local(),
        server.negotiated(),
        server.security_level(),
        server.stats(),
        server.max_payload(),
        server.is_acknowledged(),
        (server.reported_loss(), server.observed_loss(), server.is_connected()),
    )
}

#[test]
fn an_idle_association_falls_asleep_and_wakes_for_either_end() {
    for (kind, configs) in kinds() {
        let mut pair = sleeping(configs, Some(MINUTE)).pair(1);
        pair.connect().assert_connected();
        pair.client_send(b"up");
        pair.server_send(b"down");
        pair.run_for(LONG);
        assert!(asleep(&pair), "{kind}");
        let before = seen(&pair);
        assert!(asleep(&pair), "{kind}: to be read it need not wake");
        assert_eq!(pair.server.totals(), pair.stats(Direction::ToServer).unwrap(), "{kind}");
        drop(pair.server.connection_mut(pair.handle.unwrap()));
        assert!(!asleep(&pair), "{kind}");
        assert_eq!(seen(&pair), before, "{kind}");
        pair.run_for(LONG);
        assert!(asleep(&pair), "{kind}: again");
        pair.client_send(b"up again");
        pair.run_for(Duration::from_secs(1));
        assert!(!asleep(&pair), "{kind}");
        pair.run_for(LONG);
        assert!(asleep(&pair), "{kind}");
        pair.server_send(b"down again");
        pair.run_for(LONG);
        assert_eq!(pair.at_server.data, [&b"up"[..], b"up again"], "{kind}");
        assert_eq!(pair.at_client.data, [&b"down"[..], b"down again"], "{kind}");
        assert_eq!((pair.at_server.closed, pair.at_client.closed), (None, None), "{kind}");
    }
}

/// A server whose associations sleep after a second sends, receives and counts the same bytes as one
/// whose associations never sleep.
#[test]
fn nobody_can_tell_whether_an_association_slept() {
    for (number, (kind, _)) in kinds().into_iter().enumerate() {
        let run = |after: Option<Duration>| {
            let (_, configs) = kinds().swap_remove(number);
            let mut pair = sleeping(configs, after).pair(7);
            pair.connect().assert_connected();
            let mut script = Random::insecure(number as u64);
            let mut slept = 0;
            for round in 0..120_u32 {
                let bytes = round.to_be_bytes();
                match script.below(12) {
                    0..=3 => pair.client_send(&bytes),
                    4..=6 => pair.server_send(&bytes),
                    7 => pair.update_keys(Direction::ToServer),
                    8 => pair.update_keys(Direction::ToClient),
                    9 => {
                        let now = pair.now;
                        pair.client.rotate_connection_id(now);
                        pair.client.request_connection_ids(now, 2);
                    }
                    10 => {
                        let at = pair.log.len() - 1;
                        let (direction, datagram) = pair.log[at].clone();
                        pair.inject(direction, datagram);
                    }
                    _ if kind == WITHOUT_IDS => {}
                    _ => pair.client_address.set_port(5000 + round as u16),
                }
                let pause = [0, 3, 400, 400][script.below(4) as usize];
                pair.run_for(Duration::from_secs(pause));
                slept += usize::from(asleep(&pair));
            }
            pair.run_for(LONG);
            let counted = pair.server.totals();
            let Pair { at_client, at_server, log, .. } = pair;
            (slept, log, at_client.data, at_server.data, at_server.moves, counted)
        };
        let (slept, awake) = (run(Some(Duration::from_secs(1))), run(None));
        assert!(slept.0 > 20, "{kind}: asleep in {} rounds", slept.0);
        assert_eq!(awake.0, 0, "{kind}");
        let heard = (slept.3.len(), slept.2.len());
        assert!(heard.0 > 10 && heard.1 > 10, "{kind}: {heard:?} payloads heard");
        assert!(slept.1 == awake.1, "{kind}: datagrams differ");
        assert_eq!((slept.2, slept.3), (awake.2, awake.3), "{kind}");
        assert_eq!((slept.4, slept.5), (awake.4, awake.5), "{kind}");
    }
}

#[test]
fn records_from_before_the_sleep_are_replays_after_it() {
    for (kind, configs) in kinds() {
        let mut pair = sleeping(configs, Some(MINUTE)).pair(2);
        pair.connect().assert_connected();
        pair.client_send(b"once");
        pair.run_for(LONG);
        let old: Vec<_> = pair.log.clone();
        assert!(asleep(&pair), "{kind}");
        for (direction, datagram) in old {
            if direction == Direction::ToServer {
                pair.inject(direction, datagram);
            }
        }
        pair.run_for(LONG);
        assert_eq!(pair.at_server.data, [b"once"], "{kind}");
        assert!(pair.stats(Direction::ToServer).unwrap().received.replayed > 0, "{kind}");
        assert!(asleep(&pair), "{kind}");
    }
}

#[test]
fn forged_records_count_against_the_key_across_sleep() {
    let mut pair =
        sleeping(Configs::new().suite(CipherSuiteId::AES_128_CCM_8_SHA256), Some(MINUTE)).pair(3);
    pair.connect().assert_connected();
    pair.client_send(b"a record");
    pair.run_for(LONG);
    let genuine = pair.log.iter().rfind(|(to, _)| *to == Direction::ToServer).unwrap().1.clone();
    // A KeyUpdate is due after 64 failures.
    for round in 0..70 {
        let mut forged = genuine.clone();
        // The record number is ahead of the window, in the encrypted bits.
        forged.extend_from_slice(&[round; 40]);
        let changed = forged.len() / 2;
        forged[changed] ^= round | 1;
        pair.inject(Direction::ToServer, forged);
        pair.run_for(LONG);
        assert!(asleep(&pair), "after {round} forgeries");
    }
    let level = pair.stats(Direction::ToServer).unwrap();
    assert!(level.received.unauthentic + level.received.replayed >= 70);
    let updated = pair.log.iter().filter(|(to, _)| *to == Direction::ToClient).count();
    assert!(level.received.unauthentic < 64 || updated > 4, "new keys were asked for");
}

#[test]
fn associations_with_shared_tags_or_without_rest_stay_awake() {
    let mut pair = sleeping(Configs::aggregated("agg:8"), Some(MINUTE)).pair(4);
    pair.connect().assert_connected();
    pair.client_send(b"up");
    pair.run_for(LONG);
    assert!(!asleep(&pair));
    // A server that waits for the ACK of its KeyUpdate is not idle.
    let mut pair = sleeping(Configs::new(), Some(MINUTE)).pair(5);
    pair.connect().assert_connected();
    pair.run_for(LONG);
    assert!(asleep(&pair));
    pair.rule = Box::new(|direction, _, datagram| match direction {
        Direction::ToServer => vec![],
        Direction::ToClient => testkit::pair::pass(datagram),
    });
    pair.update_keys(Direction::ToClient);
    pair.run_for(2 * MINUTE);
    assert!(!asleep(&pair));
}

#[test]
fn a_watched_association_sleeps_between_its_probes() {
    let mut pair = sleeping(Configs::new(), Some(Duration::from_secs(10))).pair(6);
    pair.answers_probes = true;
    pair.connect().assert_connected();
    let watch = Watch { interval: Duration::from_secs(100), answers: Some(true) };
    let now = pair.now;
    pair.server.connection_mut(pair.handle.unwrap()).unwrap().watch(now, watch);
    pair.run_for(LONG);
    let mut asleep_for = 0;
    for _ in 0..600 {
        pair.run_for(Duration::from_secs(1));
        asleep_for += usize::from(asleep(&pair));
    }
    let probes = pair.stats(Direction::ToServer).unwrap().sent.probes;
    assert!(probes >= 5, "{probes} probes");
    assert!((300..600).contains(&asleep_for), "asleep for {asleep_for} of 600 s");
    // A peer that has gone is noticed all the same.
    pair.rule = Box::new(|_, _, _| vec![]);
    pair.run_for(Duration::from_secs(200));
    assert_eq!(pair.stats(Direction::ToServer).unwrap().received.silences, 1);
}

#[test]
fn a_client_that_begins_anew_replaces_its_sleeping_association() {
    for (kind, configs) in kinds() {
        let mut pair = sleeping(configs, Some(MINUTE)).pair(8);
        pair.connect().assert_connected();
        pair.run_for(LONG);
        assert!(asleep(&pair), "{kind}");
        let (_, again) = kinds().into_iter().find(|(name, _)| *name == kind).unwrap();
        pair.replace_client(again.client.config(), 9);
        pair.connect().assert_connected();
        pair.run_for(LONG);
        assert_eq!(pair.server.open_connections(), 1, "{kind}");
        pair.client_send(b"anew");
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.at_server.data, [b"anew"], "{kind}");
    }
}

#[test]
fn an_endpoint_closes_associations_that_sleep() {
    let mut pair = sleeping(Configs::new(), Some(MINUTE)).pair(10);
    pair.connect().assert_connected();
    pair.run_for(LONG);
    assert!(asleep(&pair));
    let now = pair.now;
    pair.server.close_all(now);
    pair.run_for(Duration::from_secs(1));
    assert!(pair.at_client.closed.is_some() && pair.at_server.closed.is_some());
    assert_eq!(pair.server.open_connections(), 0);
    // Datagrams of strangers wake nobody.
    pair.server.handle_datagram(pair.now, server_address(), &mut [0x2f; 40]);
}

/// The last datagram of a handshake comes from the server. If it is lost, the client repeats its last
/// flight, and a server whose association sleeps by then answers as one whose association is awake.
#[test]
fn a_sleeping_association_answers_a_repeated_last_flight() {
    let after = Some(Duration::from_millis(100));
    for (number, (kind, _)) in kinds().into_iter().enumerate() {
        let run = |after, lost: Option<usize>| {
            let (_, configs) = kinds().swap_remove(number);
            let mut pair = sleeping(configs, after).pair(11);
            let mut sent = 0;
            pair.rule = Box::new(move |direction, _, datagram| {
                sent += usize::from(direction == Direction::ToClient);
                match direction {
                    Direction::ToClient if Some(sent) == lost => vec![],
                    _ => testkit::pair::pass(datagram),
                }
            });
            pair.run_for(Duration::from_millis(500));
            let slept = pair.server.sleeping_connections() == 1;
            let sent = pair.log.iter().filter(|(to, _)| *to == Direction::ToClient).count();
            pair.run_for(Duration::from_secs(100));
            pair.assert_connected();
            assert!(pair.client.is_acknowledged(), "{kind}");
            pair.client_send(b"up");
            pair.server_send(b"down");
            pair.run_for(Duration::from_secs(10));
            assert_eq!(pair.at_server.data, [b"up"], "{kind}");
            assert_eq!(pair.at_client.data, [b"down"], "{kind}");
            (slept, sent, pair.log)
        };
        let (slept, last, _) = run(after, None);
        assert!(slept, "{kind}: within the lifetime of the handshake's keys");
        let (asleep, awake) = (run(after, Some(last)), run(None, Some(last)));
        assert!(asleep.0 && !awake.0, "{kind}");
        assert!(asleep.2 == awake.2, "{kind}: datagrams differ");
    }
}

/// A program that keeps connections of its own lets them sleep between their events.
#[test]
fn a_connection_without_an_endpoint_sleeps() {
    for (kind, mut configs) in kinds() {
        // Clients that may still be given tickets stay awake.
        configs.client.settings.resumption = false;
        let mut pair = configs.pair(12);
        pair.connect().assert_connected();
        pair.run_for(Duration::from_secs(1));
        for round in 0..5_u8 {
            let placeholder = Connection::client(
                Configs::new().client.config(),
                server_address(),
                pair.now,
                Random::insecure(13),
            );
            let awake = Box::new(std::mem::replace(&mut pair.client, placeholder));
            let mut agreed = awake.negotiated().cloned().unwrap();
            // Only this is forgotten in sleep.
            agreed.key_check = None;
            let before = format!("{:?} {:?}", Some(agreed), awake.stats());
            let asleep = match awake.fall_asleep() {
                Ok(asleep) => asleep,
                Err(awake) => panic!("{kind}: {awake:?}"),
            };
            pair.client = *asleep.wake();
            assert_eq!(format!("{:?} {:?}", pair.client.negotiated(), pair.client.stats()), before);
            pair.client_send(&[round]);
            pair.server_send(&[round]);
            pair.run_for(Duration::from_secs(100));
        }
        assert_eq!(pair.at_server.data.concat(), [0, 1, 2, 3, 4], "{kind}");
        assert_eq!(pair.at_client.data.concat(), [0, 1, 2, 3, 4], "{kind}");
        // A handshake keeps an association awake.
        let begun = Connection::client(
            Configs::new().client.config(),
            server_address(),
            pair.now,
            Random::insecure(14),
        );
        assert!(Box::new(begun).fall_asleep().is_err());
    }
}
