//! Every kind of scheme over a path that loses records and changes their order, under every suite
//! whose tags may be shared.

use lightseal_dtls::crypto::CipherSuiteId;
use std::time::Duration;
use testkit::pair::{Configs, Direction, pass};

const SUITES: [CipherSuiteId; 3] = [
    CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256,
    CipherSuiteId::AES_128_CCM_SHA256,
    CipherSuiteId::SHA256_SHA256,
];

fn message(n: u32) -> Vec<u8> {
    let mut message = n.to_be_bytes().to_vec();
    message.extend(std::iter::repeat_n(n as u8, n as usize % 23));
    message
}

/// In 1000 messages, 20 are lost and 20 are overtaken. Messages that share a tag with a lost one
/// may not be delivered; none is altered or delivered twice.
#[test]
fn lossy_paths_lose_what_they_may_and_alter_nothing() {
    // The largest number of records lost with one: its set, the records for which R2D2 cannot
    // compensate, or half a window on either side of it.
    let schemes = [("agg:8", 8), ("r2d2:200", 2), ("sliding:50", 11), ("sliding:200", 5)];
    for suite in SUITES {
        for (scheme, share) in schemes {
            let mut pair = Configs::aggregated(scheme).suite(suite).pair(3);
            pair.connect();
            pair.assert_connected();
            let mut sent = 0u32;
            pair.rule = Box::new(move |direction, _, datagram| {
                if direction == Direction::ToClient {
                    return pass(datagram);
                }
                sent += 1;
                match sent % 50 {
                    20 => vec![],
                    45 => vec![(Duration::from_millis(15), datagram.to_vec())],
                    _ => pass(datagram),
                }
            });
            for n in 0..1000 {
                pair.client_send(&message(n));
                pair.run_for(Duration::from_millis(5));
            }
            pair.run_for(Duration::from_secs(1));
            let mut received = pair.at_server.data.clone();
            assert!(received.len() >= 1000 - 21 * share, "{suite} {scheme}: {}", received.len());
            received.sort();
            let mut expected = (0..1000).map(message);
            assert!(received.iter().all(|got| expected.any(|sent| sent == *got)), "{scheme}");
        }
    }
}
