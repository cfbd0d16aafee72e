//! Data that is delivered before it is verified, and the consequences if it was forged.

use lightseal_dtls::error::Limit;
use lightseal_dtls::{CloseReason, Delivery, Fault, OnForgery, Resolution};
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::pair::{Configs, Direction, Fate, Pair, pass};

const SCHEMES: [&str; 6] = ["agg:2", "agg:16", "r2d2:50", "r2d2:100", "r2d2:150", "r2d2:200"];

fn configs(scheme: &str, delivery: Delivery) -> Configs {
    let mut configs = Configs::aggregated(scheme);
    configs.server.settings.delivery = delivery;
    configs
}

fn payload(n: u8) -> Vec<u8> {
    vec![n; 10]
}

fn send(pair: &mut Pair<'_>, numbers: std::ops::Range<u8>) {
    for n in numbers {
        pair.client_send(&payload(n));
        pair.run_for(Duration::from_millis(20));
    }
}

/// All data is delivered early, in order, and is verified later, including the last data before a
/// pause.
#[test]
fn genuine_data_is_given_early_and_confirmed() {
    for scheme in SCHEMES {
        for delivery in [Delivery::Unauthenticated, Delivery::Progressive(20)] {
            let mut pair = configs(scheme, delivery).pair(1);
            pair.connect();
            send(&mut pair, 0..100);
            pair.run_for(Duration::from_secs(1));
            // Under Agg the security level of a record is either zero or full.
            let early = match delivery {
                Delivery::Progressive(_) if scheme.starts_with("agg") => 0,
                _ => 100 - pair.at_server.data.len(),
            };
            assert_eq!(pair.at_server.early.len(), early, "{scheme} {delivery:?}");
            assert_eq!(pair.at_server.resolved.len(), early, "{scheme} {delivery:?}");
            assert!(pair.at_server.resolved.iter().all(|(_, how)| *how == Resolution::Verified));
            let mut all: Vec<_> =
                pair.at_server.early.iter().map(|early| early.2.clone()).collect();
            all.extend(pair.at_server.data.iter().cloned());
            all.sort();
            assert_eq!(all, (0..100).map(payload).collect::<Vec<_>>(), "{scheme} {delivery:?}");
            if scheme.starts_with("r2d2") {
                assert!(early > 90, "{scheme} {delivery:?}: {early}");
            }
        }
    }
}

/// Data records 20 to 59 are late, and record 60 is altered: at that time no check speaks against
/// it.
fn with_a_forgery(scheme: &str, delivery: Delivery, on_forgery: OnForgery) -> Pair<'static> {
    // No set is closed before it is full, because closing tags use record numbers of the window,
    // too.
    let mut configs = configs(scheme, delivery).waiting(Duration::from_secs(2));
    configs.server.settings.on_forgery = on_forgery;
    let mut data = 0;
    let mut pair = configs.pair(2).with_rule(move |direction, _, datagram| -> Fate {
        if direction == Direction::ToClient || datagram[0] & 0xe3 != 0x23 {
            return pass(datagram);
        }
        data += 1;
        let mut datagram = datagram.to_vec();
        match data {
            20..60 => vec![(Duration::from_millis(500), datagram)],
            60 => {
                // The change is after the input of the mask, so that the record number stays the
                // same.
                datagram[3 + 17] ^= 1;
                pass(&datagram)
            }
            _ => pass(&datagram),
        }
    });
    pair.connect();
    for n in 0..150u8 {
        if pair.at_client.closed.is_some() {
            break;
        }
        pair.client_send(&[n; 30]);
        pair.run_for(Duration::from_millis(20));
    }
    pair.run_for(Duration::from_secs(2));
    pair
}

#[test]
fn forged_data_is_refuted_with_the_bytes_given_since() {
    for scheme in SCHEMES {
        let pair = with_a_forgery(scheme, Delivery::Unauthenticated, OnForgery::Drop);
        let forged: Vec<_> = pair
            .at_server
            .early
            .iter()
            .filter(|early| early.2.iter().any(|b| *b != early.2[0]))
            .collect();
        assert_eq!(forged.len(), 1, "{scheme}");
        let resolved: BTreeMap<_, _> = pair.at_server.resolved.iter().copied().collect();
        let Resolution::Refuted { bytes } = resolved[&forged[0].0] else {
            panic!("{scheme}: {:?}", resolved[&forged[0].0])
        };
        assert!(bytes >= 30 && bytes % 30 == 0, "{scheme}: {bytes}");
        let refuted = resolved.values().filter(|how| matches!(how, Resolution::Refuted { .. }));
        if scheme.starts_with("r2d2") {
            assert_eq!(refuted.count(), 1, "{scheme}: the blame falls on one");
        } else {
            assert!(refuted.count() >= 1, "{scheme}: it falls on the set");
        }
        // Under Agg the other records of its set are refuted with it; R2D2 identifies the altered
        // record.
        let genuine = pair.at_server.data.len()
            + resolved.values().filter(|how| **how == Resolution::Verified).count();
        assert!(genuine >= if scheme == "agg:16" { 134 } else { 145 }, "{scheme}: {genuine}");
        assert!(pair.at_server.closed.is_none());
    }
}

#[test]
fn nothing_forged_is_given_to_who_wants_bits() {
    for scheme in SCHEMES {
        for delivery in [Delivery::Verified, Delivery::Progressive(64)] {
            let pair = with_a_forgery(scheme, delivery, OnForgery::CloseWhenRefuted);
            let early = pair.at_server.early.iter().map(|early| &early.2);
            assert!(
                early.chain(&pair.at_server.data).all(|data| data.iter().all(|b| *b == data[0])),
                "{scheme} {delivery:?}"
            );
            assert!(pair.at_server.closed.is_none(), "{scheme} {delivery:?}");
        }
    }
}

#[test]
fn a_forgery_ends_the_association_where_that_is_wanted() {
    let forged = Some(CloseReason::Fault(Fault::Limit(Limit::Forgery)));
    for scheme in SCHEMES {
        let refuted = OnForgery::CloseWhenRefuted;
        let pair = with_a_forgery(scheme, Delivery::Unauthenticated, refuted);
        assert_eq!(pair.at_server.closed, forged, "{scheme}");
        assert!(pair.at_client.closed.is_some(), "{scheme}: the alert arrived");
        let pair = with_a_forgery(scheme, Delivery::Verified, OnForgery::Close);
        assert_eq!(pair.at_server.closed, forged, "{scheme}");
    }
    // With plain tags the forgery is found immediately.
    let pair = with_a_forgery("off", Delivery::Verified, OnForgery::Close);
    assert_eq!(pair.at_server.closed, forged);
}
