//! Payloads of all lengths in one association, under every scheme and suite.

use lightseal_core::Random;
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::{AggregationPolicy, Scheme};
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::pair::{Configs, Direction, Pair};

/// Payload lengths around a block, the shortest ones, and the one that fills a datagram.
const LENGTHS: [usize; 7] = [0, 1, 15, 16, 17, 200, 1200];

const SCHEMES: [&str; 9] =
    ["off", "agg:2", "agg:4", "agg:8", "agg:16", "r2d2:50", "r2d2:100", "r2d2:150", "r2d2:200"];

/// Suites whose tags can be shared; the last one does not encrypt.
const SHARING: [CipherSuiteId; 3] = [
    CipherSuiteId::AES_128_CCM_SHA256,
    CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256,
    CipherSuiteId::SHA256_SHA256,
];

const PLAIN: [CipherSuiteId; 3] = [
    CipherSuiteId::AES_128_GCM_SHA256,
    CipherSuiteId::CHACHA20_POLY1305_SHA256,
    CipherSuiteId::AES_128_CCM_8_SHA256,
];

/// Payload `n`, which has one of the lengths in irregular order.
fn payload(n: u32) -> Vec<u8> {
    let len = LENGTHS[(n.wrapping_mul(0x9e37_79b1) >> 16) as usize % LENGTHS.len()];
    n.to_le_bytes().iter().copied().cycle().take(len).collect()
}

fn counts(payloads: impl Iterator<Item = Vec<u8>>) -> BTreeMap<Vec<u8>, usize> {
    let mut counts = BTreeMap::new();
    payloads.for_each(|payload| *counts.entry(payload).or_default() += 1);
    counts
}

fn send(pair: &mut Pair<'_>, numbers: std::ops::Range<u32>) {
    for n in numbers {
        pair.client_send(&payload(n));
        pair.server_send(&payload(n));
        pair.run_for(Duration::from_millis(1));
    }
}

fn session(suite: CipherSuiteId, scheme: &str, seed: u64) {
    let name = format!("{suite:?} {scheme}");
    let scheme: Scheme = scheme.parse().unwrap();
    let mut configs = Configs::new().suite(suite);
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.datagram_bytes = 1300;
        if scheme.aggregates() {
            settings.aggregation = AggregationPolicy::both(scheme);
        }
    }
    let mut pair = configs.pair(seed);
    pair.connect();
    pair.assert_connected();
    let agreed = pair.client.negotiated().unwrap();
    assert_eq!((agreed.suite, agreed.send, agreed.receive), (suite, scheme, scheme), "{name}");

    let mut rng = Random::insecure(seed);
    pair.rule = Box::new(move |_, _, datagram| {
        let delay = Duration::from_micros(5000 + rng.below(10_000));
        if rng.below(100) < 4 { vec![] } else { vec![(delay, datagram.to_vec())] }
    });
    send(&mut pair, 0..700);
    pair.run_for(Duration::from_secs(5));
    let sent = counts((0..700).map(payload));
    for received in [&pair.at_client.data, &pair.at_server.data] {
        let some = received.len();
        for (payload, count) in counts(received.iter().cloned()) {
            let of = sent.get(&payload).copied().unwrap_or_default();
            assert!(count <= of, "{name}: {count} of {of}, {} bytes", payload.len());
        }
        assert!((200..700).contains(&some), "{name}: {some}");
        for len in LENGTHS {
            assert!(received.iter().any(|payload| payload.len() == len), "{name}: none of {len}");
        }
    }

    // All payloads, once there are no losses and the last gap is closed: at 4 % loss R2D2(8, 50)
    // falls behind.
    let mut rng = Random::insecure(seed + 1);
    pair.rule = Box::new(move |direction, _, datagram| {
        let spread = if direction == Direction::ToServer { 10_000 } else { 3000 };
        vec![(Duration::from_micros(5000 + rng.below(spread)), datagram.to_vec())]
    });
    send(&mut pair, 700..1200);
    pair.run_for(Duration::from_secs(5));
    pair.at_client.data.clear();
    pair.at_server.data.clear();
    send(&mut pair, 1200..1550);
    pair.run_for(Duration::from_secs(5));
    let sent = counts((1200..1550).map(payload));
    assert_eq!(counts(pair.at_client.data.drain(..)), sent, "{name}");
    assert_eq!(counts(pair.at_server.data.drain(..)), sent, "{name}");
}

#[test]
fn mixed_lengths_under_every_scheme_of_ccm() {
    SCHEMES.iter().zip(0..).for_each(|(scheme, seed)| session(SHARING[0], scheme, seed));
}

#[test]
fn mixed_lengths_under_every_scheme_of_lightmac() {
    SCHEMES.iter().zip(20..).for_each(|(scheme, seed)| session(SHARING[1], scheme, seed));
}

#[test]
fn mixed_lengths_under_every_scheme_of_hmac() {
    SCHEMES.iter().zip(40..).for_each(|(scheme, seed)| session(SHARING[2], scheme, seed));
}

#[test]
fn mixed_lengths_under_suites_that_share_nothing() {
    PLAIN.iter().zip(60..).for_each(|(suite, seed)| session(*suite, "off", seed));
}
