//! Record number masks of records shorter than a mask's sample, in all three forms.

use lightseal_core::Random;
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::{CipherSuiteId, Sha256, TrafficSecret, rustcrypto};
use lightseal_dtls::record::epochs::APPLICATION_EPOCH;
use lightseal_dtls::record::seal::HeaderFormat;
use lightseal_dtls::record::{NumberLength, SendEpoch};
use lightseal_dtls::{AggregationPolicy, NumberMasks};
use std::time::Duration;
use testkit::pair::{Configs, pass};

const FORMS: [NumberMasks; 3] = [NumberMasks::Standard, NumberMasks::Paper, NumberMasks::Strong];

const SUITES: [CipherSuiteId; 3] = [
    CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256,
    CipherSuiteId::AES_128_CCM_SHA256,
    CipherSuiteId::SHA256_SHA256,
];

fn configs(scheme: &str, client: NumberMasks, server: NumberMasks) -> Configs {
    let list: Vec<_> = ["agg:16", "r2d2:50", "agg:2"].map(|name| name.parse().unwrap()).into();
    let mut configs = Configs::aggregated(scheme);
    for (settings, masks) in
        [(&mut configs.client.settings, client), (&mut configs.server.settings, server)]
    {
        settings.aggregation.send.extend_from_slice(&list);
        settings.aggregation.receive.extend_from_slice(&list);
        settings.number_masks = masks;
    }
    configs
}

/// Payloads of 0 to 20 bytes: records shorter and longer than a sample.
fn payload(n: u32) -> Vec<u8> {
    n.to_be_bytes().iter().copied().cycle().take(n as usize % 21).collect()
}

#[test]
fn sessions_go_on_under_every_form_through_updates_and_losses() {
    for (seed, masks) in (0..).zip(FORMS) {
        for suite in SUITES {
            let mut rng = Random::insecure(seed);
            let mut pair = configs("agg:4", masks, masks).suite(suite).pair(seed);
            pair.connect();
            pair.assert_connected();
            pair.rule = Box::new(move |_, _, datagram| match rng.below(50) {
                0 => vec![],
                delay => vec![(Duration::from_micros(8000 + 100 * delay), datagram.to_vec())],
            });
            for round in 0..4 {
                for n in 0..250 {
                    pair.client_send(&payload(n));
                    pair.run_for(Duration::from_millis(1));
                }
                if round % 2 == 0 {
                    pair.client.update_keys(pair.now);
                } else {
                    let scheme = ["agg:16", "r2d2:50"][round / 2].parse().unwrap();
                    let handle = pair.handle.unwrap();
                    pair.server
                        .connection_mut(handle)
                        .unwrap()
                        .request_aggregation(pair.now, scheme)
                        .unwrap();
                }
            }
            pair.run_for(Duration::from_secs(10));
            pair.rule = Box::new(|_, _, datagram| pass(datagram));
            for _ in 0..60 {
                pair.client_send(b"new");
                pair.run_for(Duration::from_millis(1));
            }
            pair.at_server.data.clear();
            for n in 0..160 {
                pair.client_send(&payload(n));
                pair.run_for(Duration::from_millis(1));
            }
            pair.run_for(Duration::from_secs(1));
            let mut received = pair.at_server.data.clone();
            received.retain(|payload| payload != b"new");
            received.sort();
            let mut sent: Vec<_> = (0..160).map(payload).collect();
            sent.sort();
            assert_eq!(received, sent, "{masks:?} {suite:?}");
        }
    }
}

#[test]
fn ends_with_different_forms_understand_no_short_record() {
    for client in FORMS {
        for server in FORMS.into_iter().filter(|server| *server != client) {
            let mut pair = configs("agg:2", client, server).suite(SUITES[0]).pair(7);
            pair.connect();
            pair.assert_connected();
            for _ in 0..40 {
                pair.client_send(b"1");
                pair.run_for(Duration::from_millis(1));
            }
            pair.run_for(Duration::from_secs(1));
            assert!(pair.at_server.data.is_empty(), "{client:?} {server:?}");
        }
    }
}

fn sealed(
    masks: NumberMasks,
    suite: CipherSuiteId,
    number: NumberLength,
    payload: &[u8],
) -> Vec<u8> {
    let suite = rustcrypto::PROVIDER.suite(suite).unwrap();
    let secret = TrafficSecret::new(&Sha256, &core::array::from_fn::<u8, 32, _>(|i| i as u8));
    let scheme = AggregationPolicy::both("agg:16".parse().unwrap()).send[0];
    let mut epoch = SendEpoch::with_masks(APPLICATION_EPOCH, suite, scheme, &secret, masks);
    let shape = HeaderFormat { number, last: true };
    let mut buf = [0; 64];
    let mut seal = |payload: &[u8]| {
        let sealed =
            epoch.seal(&mut buf, ContentType::APPLICATION_DATA, shape, |w| w.bytes(payload));
        buf[..sealed.unwrap().len].to_vec()
    };
    (0..5).for_each(|_| drop(seal(b"before")));
    seal(payload)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Record 5 of epoch 3 under AES-128-CTR with LightMAC and the traffic secret 00 01 … 1f, as
/// another implementation computes it.
#[test]
fn records_look_as_the_specification_says() {
    let (one, two) = (NumberLength::One, NumberLength::Two);
    for (masks, number, payload, expected) in [
        (NumberMasks::Standard, one, &b"0123456789"[..], "2338ac58e56910f2bbf2df7cd9"),
        (NumberMasks::Standard, two, b"0123456789", "2b3d3fac58e56910f2bbf2df7cd9"),
        (NumberMasks::Standard, one, b"7", "23f7ac5f"),
        (NumberMasks::Standard, two, b"7", "2bf2d1ac5f"),
        (NumberMasks::Paper, one, b"0123456789", "238cac58e56910f2bbf2df7cd9"),
        (NumberMasks::Paper, two, b"0123456789", "2b8959ac58e56910f2bbf2df7cd9"),
        (NumberMasks::Paper, one, b"7", "23a2ac5f"),
        (NumberMasks::Paper, two, b"7", "2ba71cac5f"),
        (NumberMasks::Strong, one, b"0123456789", "2338ad2d9c98f970134609ba30"),
        (NumberMasks::Strong, two, b"0123456789", "2b3d3fc8357dd1bdb0208c7bbfe1"),
        (NumberMasks::Strong, one, b"7", "23f7115a"),
        (NumberMasks::Strong, two, b"7", "2bf2d1358d"),
    ] {
        assert_eq!(hex(&sealed(masks, SUITES[0], number, payload)), expected, "{masks:?}");
    }
}

#[test]
fn long_records_and_records_without_encryption_look_the_same_in_the_strong_form() {
    let both = |suite, payload: &[u8]| {
        [NumberMasks::Standard, NumberMasks::Strong]
            .map(|masks| sealed(masks, suite, NumberLength::Two, payload))
    };
    for suite in SUITES {
        let [standard, strong] = both(suite, &[7; 15]);
        assert_eq!(standard, strong, "16 bytes behind the header");
        let [standard, strong] = both(suite, &[7; 14]);
        let encrypts = suite != CipherSuiteId::SHA256_SHA256;
        assert_eq!(standard[3..] != strong[3..], encrypts);
        assert_eq!(standard[..3], strong[..3], "the number is encrypted as before");
    }
}
