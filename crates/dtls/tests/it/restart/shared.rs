//! Restored associations with shared tags.

use super::{SHARED, configs, restore, saved_pair, schemes};
use lightseal_core::Random;
use lightseal_dtls::tuning::MOST_UNHEARD_TRIES;
use lightseal_dtls::{AggregationPolicy, Connection, Endpoint, Marks, RestoreError, SendError};
use std::time::Duration;
use testkit::pair::{Pair, pass};

/// Payloads of both ends arrive, and nothing counted as forged so far.
fn exchange(kind: &str, pair: &mut Pair<'_>) {
    let (up, down) = (pair.at_server.data.len(), pair.at_client.data.len());
    pair.client_send(b"up again");
    pair.run_for(Duration::from_secs(10));
    pair.server_send(b"down again");
    pair.run_for(Duration::from_secs(10));
    assert_eq!(pair.at_server.data[up..], [b"up again"], "{kind}");
    assert_eq!(pair.at_client.data[down..], [b"down again"], "{kind}");
    let totals = [pair.server.totals(), pair.client.stats()];
    let forged =
        totals.map(|of| of.received.forged + of.received.refuted + of.received.unauthentic);
    assert_eq!(forged, [0; 2], "{kind}");
}

#[test]
fn data_under_shared_tags_waits_one_round_trip_after_a_clean_save() {
    for kind in SHARED {
        let (mut pair, saved) = saved_pair(kind);
        let before = pair.log.len();
        restore(kind, &mut pair, &saved);
        pair.run_for(Duration::from_secs(3600));
        assert_eq!(pair.log.len(), before, "{kind}: nothing is sent before there is something");
        let began = pair.now;
        pair.client_send(b"first");
        assert!(pair.run_until(|pair| pair.at_server.data.len() == 2), "{kind}");
        let [up, _] = schemes(kind);
        // A datagram takes ten milliseconds.
        let trips = if up.is_empty() { 1 } else { 3 };
        let most = began + Duration::from_millis(10) * trips + Duration::from_millis(2);
        assert!(pair.now <= most, "{kind}: {:?}", pair.now.saturating_since(began));
        pair.run_for(Duration::from_secs(1));
        exchange(kind, &mut pair);
        // What came before is not delivered again.
        let delivered = (pair.at_server.data.len(), pair.at_client.data.len());
        for (direction, datagram) in pair.log.clone() {
            pair.inject(direction, datagram);
        }
        pair.run_for(Duration::from_secs(10));
        assert_eq!((pair.at_server.data.len(), pair.at_client.data.len()), delivered, "{kind}");
    }
}

/// A peer that has moved is followed although it sends little and its records are below what the
/// server had reserved for deliveries.
#[test]
fn a_peer_that_has_moved_is_followed_below_what_was_reserved() {
    for kind in SHARED.into_iter().filter(|kind| !kind.ends_with("IDs")) {
        let (mut pair, [client, server]) = saved_pair(kind);
        let Marks { deliver_below, .. } = server.marks;
        let busy = Marks { deliver_below: deliver_below + 8192, ..server.marks };
        restore(kind, &mut pair, &[client, server.with(busy)]);
        pair.client_address.set_port(7);
        // New keys show that the server answers.
        pair.client_send(b"lost in a direction with plain tags");
        pair.run_for(Duration::from_secs(20));
        exchange(kind, &mut pair);
    }
}

/// What is left of a peer's set after a restart is lost, and counts as no forgery.
#[test]
fn the_set_of_a_peer_that_goes_on_dies_with_the_predecessor() {
    for kind in SHARED {
        for clean in [true, false] {
            let mut configs = configs(kind);
            configs.client.settings.max_wait = Some(Duration::from_secs(5));
            let mut pair = configs.pair(5);
            pair.connect().assert_connected();
            for _ in 0..3 {
                pair.client_send(b"before");
            }
            pair.run_for(Duration::from_millis(100));
            let (now, handle) = (pair.now, pair.handle.unwrap());
            let waiting = pair.server.connection(handle).unwrap().security_level();
            let waiting = waiting.expect("it is connected").waiting;
            let delivered = pair.at_server.data.len();
            assert_eq!(delivered + usize::from(waiting), 3, "{kind}");
            let saved = pair.server.save(now, handle).unwrap().unwrap();
            let Marks { deliver_below, .. } = saved.marks;
            let later = Marks { deliver_below: deliver_below + 20, ..saved.marks };
            let saved = if clean { saved } else { saved.with(later) };
            pair.server =
                Endpoint::server(super::configs(kind).server.config(), Random::insecure(9));
            pair.handle = Some(pair.server.restore(now, &saved).unwrap());
            // The rest of the set, and its tag.
            for _ in 0..10 {
                pair.client_send(b"rest");
            }
            pair.run_for(Duration::from_secs(20));
            exchange(kind, &mut pair);
            let before = pair.at_server.data.iter().filter(|data| **data == b"before").count();
            assert_eq!(before, delivered, "{kind}, {clean}");
        }
    }
}

/// The client sends payloads that get lost.
fn lose(pair: &mut Pair<'_>, count: u32) {
    pair.rule = Box::new(|_, _, _| Vec::new());
    for _ in 0..count {
        let _ = pair.client_send_at_once(b"lost");
        pair.log.clear();
    }
    pair.run_for(Duration::from_secs(30));
    pair.rule = Box::new(|_, _, datagram| pass(datagram));
}

/// While nobody listened, the peer has counted further than its record numbers show.
#[test]
fn a_peer_that_has_counted_on_is_understood() {
    for kind in ["1.3", SHARED[0], SHARED[2], SHARED[3]] {
        for missed in [300, 40_000, 200_000] {
            let mut pair = configs(kind).pair(5);
            pair.connect().assert_connected();
            // Numbers from 2^16 on have others below them that end with the same bits.
            for _ in 0..3 {
                lose(&mut pair, 30_000);
                pair.client_send(b"heard");
                pair.run_for(Duration::from_secs(1));
            }
            let (now, handle) = (pair.now, pair.handle.unwrap());
            let server = pair.server.save(now, handle).unwrap().unwrap();
            lose(&mut pair, missed);
            pair.server = Endpoint::server(configs(kind).server.config(), Random::insecure(9));
            pair.handle = Some(pair.server.restore(pair.now, &server).unwrap());
            for _ in 0..200 {
                pair.client_send(b"heard?");
                pair.run_for(Duration::from_millis(50));
            }
            pair.run_for(Duration::from_secs(10));
            let heard = pair.at_server.data.iter().filter(|data| **data == b"heard?").count();
            assert!(heard > 50, "{kind}, {missed}: {heard} of 200");
            pair.server_send(b"and answered");
            pair.run_for(Duration::from_secs(1));
            assert_eq!(pair.at_client.data.last().unwrap(), b"and answered", "{kind}");
        }
    }
}

#[test]
fn shared_tags_that_are_not_configured_any_more_are_not_restored() {
    for kind in SHARED {
        let (pair, [client, server]) = saved_pair(kind);
        let mut plain = configs(kind);
        plain.client.settings.aggregation = AggregationPolicy::default();
        plain.server.settings.aggregation = AggregationPolicy::default();
        let mut endpoint = Endpoint::server(plain.server.config(), Random::insecure(2));
        let restored = endpoint.restore(pair.now, &server).map(|_| ());
        assert_eq!(restored, Err(RestoreError::SharedTags), "{kind}");
        let restored =
            Connection::restore(plain.client.config(), &client, pair.now, Random::insecure(2));
        assert_eq!(restored.map(|_| ()), Err(RestoreError::SharedTags), "{kind}");
    }
}

/// The peer is away, the application sends, and the process ends, again and again: each successor leaves
/// out record numbers, and in the end the peer still finds the right ones.
#[test]
fn twenty_restarts_that_nobody_hears_leave_out_no_more_numbers_than_the_peer_can_follow() {
    for kind in SHARED.into_iter().filter(|kind| !schemes(kind)[0].is_empty()) {
        let (mut pair, [mut client, server]) = saved_pair(kind);
        pair.server = Endpoint::server(configs(kind).server.config(), Random::insecure(9));
        pair.handle = Some(pair.server.restore(pair.now, &server).unwrap());
        for round in 0..20 {
            pair.rule = Box::new(|_, _, _| Vec::new());
            let config = configs(kind).client.config();
            let restored = Connection::restore(config, &client, pair.now, Random::insecure(round));
            pair.client = restored.unwrap_or_else(|error| panic!("{kind}, {round}: {error}"));
            pair.client_send(b"unheard");
            pair.run_for(Duration::from_secs(600));
            // A payload that waits keeps it from being saved: the successor has the marks of a write.
            assert_eq!(pair.client.save(pair.now), Err(lightseal_dtls::SaveError::Busy), "{kind}");
            let Marks { version, send_below, skipped, .. } = client.marks;
            let next = Marks {
                version: version + 1,
                // What a write reserves at least, and what a successor leaves out at most.
                send_below: send_below + 511 + 64,
                skipped: skipped + 511 + 64,
                ..client.marks
            };
            client = client.with(next);
        }
        pair.rule = Box::new(|_, _, datagram| pass(datagram));
        let config = configs(kind).client.config();
        pair.client = Connection::restore(config, &client, pair.now, Random::insecure(21)).unwrap();
        exchange(kind, &mut pair);
    }
}

/// A peer that never answers costs some datagrams for each message, and no more memory than the queue
/// has.
#[test]
fn data_that_waits_for_a_peer_that_is_gone_is_bounded() {
    for kind in SHARED.into_iter().filter(|kind| !schemes(kind)[0].is_empty()) {
        let (mut pair, saved) = saved_pair(kind);
        restore(kind, &mut pair, &saved);
        pair.rule = Box::new(|_, _, _| Vec::new());
        for _ in 0..3 {
            let before = pair.log.len();
            pair.client_send(b"unheard");
            pair.run_for(Duration::from_secs(3600));
            let sent = pair.log.len() - before;
            assert!((1..=usize::from(MOST_UNHEARD_TRIES) + 1).contains(&sent), "{kind}: {sent}");
        }
        let full = (0..).find_map(|_| {
            let sent = pair.client.send(pair.now, &[7; 1000], &mut []);
            sent.err()
        });
        assert_eq!(full, Some(SendError::QueueFull), "{kind}");
        // All of it arrives when the peer is there again.
        pair.rule = Box::new(|_, _, datagram| pass(datagram));
        let _ = pair.client.send(pair.now, &[], &mut []);
        pair.server_send(b"here");
        pair.run_for(Duration::from_secs(60));
        assert_eq!(pair.at_server.data.iter().filter(|data| **data == b"unheard").count(), 3);
        exchange(kind, &mut pair);
    }
}
