//! Handshakes with certificates over networks that lose, repeat, reorder and damage datagrams.

use crate::certificates::{RAW, X509, mutual, with_chain};
use lightseal_dtls::{CookiePolicy, Random};
use std::time::Duration;
use testkit::pair::{Configs, Direction, LoggedSecrets, pass};

/// Handshakes whose flights take several datagrams each.
fn handshakes() -> Vec<fn() -> Configs> {
    vec![
        || with_chain(mutual(X509, X509), 4),
        || mutual(RAW, RAW),
        || {
            let mut configs = with_chain(mutual(X509, RAW), 2);
            configs.server.cookies = CookiePolicy::WhenRetrying;
            configs
        },
        || {
            let mut configs = mutual(RAW, X509);
            configs.client.settings.datagram_bytes = 300;
            configs.server.settings.datagram_bytes = 300;
            configs
        },
    ]
}

#[test]
fn any_two_datagrams_may_be_lost() {
    for (which, handshake) in handshakes().into_iter().enumerate() {
        let mut pair = handshake().pair(1);
        pair.connect().assert_connected();
        let sent = pair.log.len();
        assert!(sent >= 4);
        for first in 0..sent {
            for second in first..sent + 1 {
                let mut pair = handshake().pair(1).with_rule(move |_, index, datagram| {
                    if index == first || index == second { vec![] } else { pass(datagram) }
                });
                pair.connect();
                pair.assert_connected();
                pair.rule = Box::new(|_, _, datagram| pass(datagram));
                pair.client_send(b"after all");
                pair.server_send(b"and back");
                pair.run_for(Duration::from_secs(20));
                let case = format!("handshake {which}, lost {first} and {second} of {sent}");
                assert_eq!(pair.at_server.data, [b"after all"], "{case}");
                assert_eq!(pair.at_client.data, [b"and back"], "{case}");
                assert_eq!(pair.server.stats().accepted, 1, "{case}");
            }
        }
    }
}

#[test]
fn datagrams_may_be_repeated_and_reordered() {
    for (which, handshake) in handshakes().into_iter().enumerate() {
        for (even, odd) in [(30, 5), (5, 30), (10, 10)] {
            let mut pair = handshake().pair(6).with_rule(|_, index, datagram| {
                let late = Duration::from_millis(if index % 2 == 0 { even } else { odd });
                (0..5).map(|copy| (late + Duration::from_millis(copy), datagram.to_vec())).collect()
            });
            pair.connect().assert_connected();
            pair.run_for(Duration::from_secs(10));
            assert_eq!(pair.server.stats().accepted, 1);
            // Answers do not multiply.
            assert!(pair.log.len() < 60, "handshake {which}: {} datagrams", pair.log.len());
        }
    }
}

#[test]
fn each_datagram_may_come_twice_or_late() {
    for handshake in handshakes() {
        let mut pair = handshake().pair(1);
        pair.connect().assert_connected();
        for which in 0..pair.log.len() {
            for late in [11, 200, 3000] {
                let mut pair = handshake().pair(1).with_rule(move |_, index, datagram| {
                    let mut fate = pass(datagram);
                    if index == which {
                        fate.push((Duration::from_millis(late), datagram.to_vec()));
                    }
                    fate
                });
                pair.connect().assert_connected();
                let mut pair = handshake().pair(1).with_rule(move |_, index, datagram| {
                    let delay = if index == which { late } else { 10 };
                    vec![(Duration::from_millis(delay), datagram.to_vec())]
                });
                pair.connect().assert_connected();
            }
        }
    }
}

/// Bytes of some datagrams are changed. Nothing wrong is delivered, and nothing panics.
#[test]
fn damaged_datagrams_deliver_nothing() {
    for seed in 0..400 {
        let handshake = handshakes()[seed as usize % 4];
        let mut rng = Random::insecure(seed);
        let mut pair = handshake().pair(seed).with_rule(move |_, index, datagram| {
            let mut datagram = datagram.to_vec();
            if index < 30 && rng.below(4) == 0 {
                for _ in 0..=rng.below(3) {
                    let at = rng.below(datagram.len() as u64) as usize;
                    datagram[at] ^= 1 << rng.below(8);
                }
            }
            if index < 30 && rng.below(16) == 0 {
                datagram.truncate(rng.below(datagram.len() as u64) as usize);
            }
            pass(&datagram)
        });
        pair.client_send(b"up");
        pair.run_for(Duration::from_secs(70));
        assert!(pair.at_server.data.iter().all(|data| data == b"up"), "seed {seed}");
        assert!(pair.at_client.data.is_empty(), "seed {seed}");
        if let Some(negotiated) = &pair.at_server.connected {
            assert!(negotiated.peer_key().is_some(), "seed {seed}");
        }
    }
}

#[test]
fn both_ends_log_equal_secrets() {
    let secrets = LoggedSecrets::default();
    let mut configs = mutual(X509, RAW);
    configs.client.settings.key_log = Some(secrets.log());
    configs.server.settings.key_log = Some(secrets.log());
    let mut pair = configs.pair(1);
    pair.connect().assert_connected();
    let text = secrets.text();
    let mut lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2 * 4, "four secrets at each end:\n{text}");
    lines.sort_unstable();
    assert!(lines.chunks(2).all(|twice| twice[0] == twice[1]), "{text}");
}

#[test]
fn an_endpoint_forgets_handshakes_that_are_not_completed() {
    for handshake in handshakes() {
        // The client's certificate never arrives.
        let mut pair = handshake().pair(1).with_rule(|direction, _, datagram| {
            let protected = datagram[0] & 0xe0 == 0x20;
            if direction == Direction::ToServer && protected { vec![] } else { pass(datagram) }
        });
        pair.run_for(Duration::from_secs(130));
        assert!(pair.at_server.connected.is_none());
        assert_eq!((pair.server.open_connections(), pair.server.buffered_bytes()), (0, 0));
    }
}
