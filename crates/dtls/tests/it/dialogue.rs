//! The delay that shared tags cause: none in dialogues, and little in streams compared with what
//! they save.

use lightseal_dtls::Scheme;
use std::time::Duration;
use testkit::pace::{LONG_SETS, SCHEMES, STEADY, bytes, configs, exchanges, pair};

#[test]
fn a_dialogue_takes_as_long_as_under_plain_tags() {
    for path in [Duration::from_micros(500), Duration::from_millis(10), Duration::from_millis(20)] {
        // A block-wise transfer on a new association, and a long one.
        for (count, window) in [(1, 1), (20, 1), (2000, 1), (2000, 4)] {
            let plain = exchanges(&mut pair(configs("off"), path, 1), count, window);
            for scheme in SCHEMES {
                let took = exchanges(&mut pair(configs(scheme), path, 1), count, window);
                let most = plain.mul_f64(1.05);
                assert!(
                    took <= most,
                    "{scheme}, path {path:?}, {count} exchanges, {window} at a time: {took:?}, \
                     not {plain:?}"
                );
            }
        }
    }
}

#[test]
fn a_dialogue_leads_auto_to_plain_tags() {
    let mut pair = pair(configs("auto"), Duration::from_millis(5), 2);
    assert!(pair.client.negotiated().unwrap().send.aggregates());
    exchanges(&mut pair, 600, 1);
    let agreed = pair.client.negotiated().unwrap();
    assert_eq!((agreed.send, agreed.receive), (Scheme::Plain, Scheme::Plain));
    // A one-way stream leads back to shared tags.
    for _ in 0..2000 {
        pair.client_send(&[4; 12]);
        pair.run_for(Duration::from_millis(1));
    }
    assert!(pair.client.negotiated().unwrap().send.aggregates());
}

#[test]
fn a_steady_stream_shares_as_if_it_always_waited() {
    let never = Duration::from_secs(3600);
    for scheme in STEADY {
        let fast = Duration::from_millis(1);
        let fixed = bytes(configs(scheme).waiting(never), fast, 3000);
        let learnt = bytes(configs(scheme), fast, 3000);
        assert!(fixed / learnt >= 0.98, "{scheme}: {learnt} bytes, not {fixed}");
    }
    for scheme in LONG_SETS {
        let slow = Duration::from_secs(1);
        let fixed = bytes(configs(scheme).waiting(never), slow, 320);
        let waiting = configs(scheme).waiting(Duration::from_secs(20));
        let waiting = bytes(waiting, slow, 320);
        assert!(fixed / waiting >= 0.98, "{scheme}: {waiting} bytes, not {fixed}");
    }
}

#[test]
fn no_message_of_a_stream_waits_longer_than_200_ms() {
    for gap in [1, 7, 30, 60, 99, 101, 250, 1000].map(Duration::from_millis) {
        for scheme in SCHEMES {
            let mut pair = pair(configs(scheme), Duration::from_millis(10), 4);
            let mut sent_at = Vec::new();
            let mut seen = 0;
            for _ in 0..300 {
                pair.client_send(&[6; 20]);
                sent_at.push(pair.now);
                let until = pair.now + gap;
                while pair.now < until {
                    pair.run_for(Duration::from_micros(500).min(until - pair.now));
                    for at in &sent_at[seen..pair.at_server.data.len()] {
                        let took = pair.now - *at;
                        assert!(took <= Duration::from_millis(212), "{scheme} {gap:?}: {took:?}");
                    }
                    seen = pair.at_server.data.len();
                }
            }
        }
    }
}

#[test]
fn a_message_and_its_closing_tag_share_a_datagram() {
    for scheme in ["agg:8", "r2d2:100"] {
        let mut pair = pair(configs(scheme), Duration::from_millis(10), 5);
        let before = pair.log.len();
        pair.client_send(b"GET /time");
        pair.run_for(Duration::from_millis(11));
        assert_eq!(pair.at_server.data, [b"GET /time"], "{scheme}");
        assert_eq!(pair.log.len(), before + 1, "{scheme}");
        // The longest message leaves no room for the closing tag.
        let longest = vec![7; pair.client.max_payload()];
        pair.client_send(&longest);
        pair.run_for(Duration::from_millis(11));
        assert_eq!(pair.at_server.data[1..], [longest], "{scheme}");
        assert_eq!(pair.log.len(), before + 3, "{scheme}");
    }
}
