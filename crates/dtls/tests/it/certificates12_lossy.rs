//! Handshakes of DTLS 1.2 with certificates over networks that lose, repeat, reorder and damage
//! datagrams, and long chains.

use crate::certificates12::*;
use lightseal_dtls::codepoints::{AlertDescription, CertificateType, HandshakeType};
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::tuning;
use lightseal_dtls::{CookiePolicy, Psk, Random};
use std::sync::Arc;
use std::time::Duration;
use testkit::pair::{Configs, Direction, Fate, pass, psk};
use testkit::toy_signature::{ToyKey, ToyVerifier};

/// Configurations whose handshakes have all messages, and short flights.
fn losing(kind: CertificateType, datagram_bytes: usize) -> Configs {
    let mut configs = mutual(kind, kind);
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.datagram_bytes = datagram_bytes;
    }
    configs
}

/// The number of datagrams of a handshake without losses.
fn handshake_datagrams(configs: Configs) -> usize {
    let mut pair = configs.pair(1);
    pair.connect();
    pair.assert_connected();
    pair.log.len()
}

#[test]
fn any_two_datagrams_may_be_lost() {
    for (kind, bytes) in [(RAW, 1200), (X509, 700)] {
        let sent = handshake_datagrams(losing(kind, bytes));
        for first in 0..sent {
            for second in first..sent {
                let lose = move |_: Direction, index: usize, datagram: &[u8]| -> Fate {
                    if index == first || index == second { Vec::new() } else { pass(datagram) }
                };
                let mut pair = losing(kind, bytes).pair(1).with_rule(lose);
                pair.run_for(Duration::from_secs(40));
                assert!(pair.at_client.connected.is_some(), "{kind} {first} {second}");
                assert!(pair.at_server.connected.is_some(), "{kind} {first} {second}");
                exchange(&mut pair);
            }
        }
    }
}

#[test]
fn any_datagram_may_come_twice_or_late_in_turn() {
    for (kind, bytes) in [(RAW, 160), (X509, 300)] {
        let sent = handshake_datagrams(losing(kind, bytes));
        for which in 0..sent {
            for delays in [&[10, 10][..], &[10, 500], &[35], &[500], &[4000]] {
                let disturb = move |_: Direction, index: usize, datagram: &[u8]| -> Fate {
                    let delays = if index == which { delays } else { &[10] };
                    let copies = delays.iter().map(|delay| Duration::from_millis(*delay));
                    copies.map(|delay| (delay, datagram.to_vec())).collect()
                };
                let mut pair = losing(kind, bytes).pair(1).with_rule(disturb);
                pair.run_for(Duration::from_secs(20));
                let case = format!("{kind} {which} {delays:?}");
                assert!(pair.at_client.connected.is_some(), "{case}");
                assert!(pair.at_server.connected.is_some(), "{case}");
                assert_eq!(pair.server.stats().accepted, 1, "{case}");
                exchange(&mut pair);
            }
        }
    }
}

/// Datagrams that are changed at random: nobody panics, and whoever is connected has the keys of the
/// right peer.
#[test]
fn mutated_datagrams_connect_nobody_with_another_peer() {
    let seed = std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x5eed);
    let mut connections = 0;
    for round in 0..400 {
        let seed = seed + round;
        let mut rng = Random::insecure(seed);
        let kind = if round % 2 == 0 { X509 } else { RAW };
        let mutate = move |_: Direction, _: usize, datagram: &[u8]| -> Fate {
            let mut datagram = datagram.to_vec();
            if rng.below(4) == 0 {
                for _ in 0..=rng.below(3) {
                    let at = rng.below(datagram.len() as u64) as usize;
                    match rng.below(4) {
                        0 => datagram.truncate(at + 1),
                        1 => datagram[at] = rng.below(256) as u8,
                        _ => datagram[at] ^= 1 << rng.below(8),
                    }
                }
            }
            pass(&datagram)
        };
        let mut pair = losing(kind, 600).pair(seed).with_rule(mutate);
        pair.run_for(Duration::from_secs(30));
        let pin = |end: &testkit::pair::ReportedEvents| {
            let agreed = end.connected.as_ref()?;
            Some(agreed.peer_key().expect("a verified key").spki_sha256)
        };
        if let Some(pin) = pin(&pair.at_client) {
            assert_eq!(pin, ToyKey::new(1).pin(), "seed {seed}");
            connections += 1;
        }
        if let Some(pin) = pin(&pair.at_server) {
            assert_eq!(pin, ToyKey::new(2).pin(), "seed {seed}");
        }
        assert!(pair.at_server.data.is_empty() && pair.at_client.data.is_empty(), "seed {seed}");
    }
    assert!(connections > 50, "{connections} of 400 handshakes complete");
}

#[test]
fn a_server_asks_for_a_cookie_before_it_sends_a_long_chain() {
    // Without cookies it may send at most three times what came from the client.
    for (more, asked) in [(0, false), (9, true)] {
        let mut configs = configs(X509);
        configs.server.cookies = CookiePolicy::WhenRetrying;
        configs.server.keys = Some(Arc::new(ToyKey::new(1).x509(NAME, more)));
        // This makes the hello long enough for a short chain.
        let mut long = ToyVerifier::new(&[X509]);
        long.authorities = vec![vec![0x30; 400]];
        configs.client.verifier = Some(Arc::new(long));
        let pair = connected(configs, 1);
        let verifies = |datagram: &[u8]| {
            messages(datagram).iter().any(|(kind, _)| *kind == HandshakeType::HELLO_VERIFY_REQUEST)
        };
        assert_eq!(pair.log.iter().any(|(_, datagram)| verifies(datagram)), asked);
    }
}

#[test]
fn a_chain_that_is_too_long_is_refused() {
    for (more, accepted) in
        [(tuning::MAX_CERTIFICATES - 1, true), (tuning::MAX_CERTIFICATES, false)]
    {
        let mut configs = configs(X509);
        configs.server.keys = Some(Arc::new(ToyKey::new(1).x509(NAME, more)));
        let mut pair = configs.pair(1);
        pair.run_for(Duration::from_secs(61));
        assert_eq!(pair.at_client.connected.is_some(), accepted);
    }
}

#[test]
fn a_wrong_psk_is_not_replaced_by_a_certificate() {
    let mut configs = configs(X509);
    configs.server.psks = Arc::new(psk());
    configs.client.psk = Some(Psk::external(psk().identity(), &[7; 32]).unwrap());
    let suites = vec![CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256, SUITES[0]];
    configs.server.settings.suites = suites;
    let (client, _) = refused(configs);
    assert_eq!(client, alert(AlertDescription::DECRYPT_ERROR));
}
