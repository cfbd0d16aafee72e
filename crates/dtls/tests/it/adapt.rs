//! A receiver that chooses the aggregation scheme by itself.

use lightseal_core::Random;
use lightseal_dtls::{Adapt, AdaptRule, AggregationPolicy, ConnectionRef, Family, Scheme};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use testkit::pair::{Configs, Direction, Fate, Pair, pass};

/// Loss of data to the server, in percent; it can be changed while a pair exists.
type Loss = Rc<Cell<u64>>;

fn configs(adapt: Adapt) -> Configs {
    let mut configs = Configs::new();
    let policy = AggregationPolicy::family(adapt.family);
    configs.client.settings.aggregation = policy.clone();
    configs.server.settings.aggregation = policy;
    configs.server.settings.adapt = Some(adapt);
    // These tests are about losses, so waiting for others is fixed.
    configs.waiting(Duration::from_millis(200))
}

fn lossy(loss: &Loss, mut rng: Random) -> impl FnMut(Direction, usize, &[u8]) -> Fate + use<> {
    let loss = Rc::clone(loss);
    move |direction, _, datagram| {
        let lost = direction == Direction::ToServer && rng.below(100) < loss.get();
        if lost { vec![] } else { pass(datagram) }
    }
}

fn pair(configs: Configs, seed: u64) -> (Pair<'static>, Loss) {
    let loss = Loss::default();
    let rule = lossy(&loss, Random::insecure(seed));
    let mut pair = configs.pair(seed).with_rule(rule);
    pair.connect();
    pair.assert_connected();
    (pair, loss)
}

fn message(n: u32) -> Vec<u8> {
    let mut message = n.to_be_bytes().to_vec();
    message.resize(30, n as u8);
    message
}

/// Sends numbered messages of 30 bytes to the server, two milliseconds apart.
fn send(pair: &mut Pair<'_>, numbers: std::ops::Range<u32>) {
    for n in numbers {
        pair.client_send(&message(n));
        pair.run_for(Duration::from_millis(2));
    }
}

fn server<'a>(pair: &'a Pair<'_>) -> ConnectionRef<'a> {
    pair.server.connection(pair.handle.expect("connected")).unwrap()
}

/// The scheme of the records that the server receives, which both ends agree on.
#[track_caller]
fn in_use(pair: &Pair<'_>) -> Scheme {
    let scheme = server(pair).negotiated().unwrap().receive;
    assert_eq!(pair.client.negotiated().unwrap().send, scheme);
    scheme
}

#[track_caller]
fn assert_nothing_wrong(pair: &Pair<'_>) {
    for received in &pair.at_server.data {
        let n = u32::from_be_bytes(received[..4].try_into().unwrap());
        assert_eq!(*received, message(n));
    }
    let mut received = pair.at_server.data.clone();
    received.sort();
    received.dedup();
    assert_eq!(received.len(), pair.at_server.data.len());
}

#[test]
fn it_shares_less_when_records_are_lost_and_more_when_they_are_not() {
    for (seed, family) in (0..).zip(Family::ALL) {
        for rule in [AdaptRule::Hindsight, AdaptRule::LossRate] {
            let (mut pair, loss) = pair(configs(Adapt::within(family).with_rule(rule)), seed);
            let place = |pair: &Pair<'_>| family.index_of(in_use(pair)).unwrap();
            assert_eq!(place(&pair), 1);
            send(&mut pair, 0..1500);
            assert_eq!((place(&pair), server(&pair).observed_loss()), (0, Some(0)));
            loss.set(10);
            send(&mut pair, 1500..4000);
            assert!(place(&pair) >= 2, "{family:?} {rule:?}: {}", in_use(&pair));
            let seen = server(&pair).observed_loss().unwrap();
            assert!((0x0b00..0x2800).contains(&seen), "{seen:x}");
            let told = pair.client.reported_loss();
            assert!(told.is_some(), "{told:?}");
            loss.set(50);
            send(&mut pair, 4000..6000);
            assert_eq!(in_use(&pair), Scheme::Plain, "{family:?} {rule:?}");
            loss.set(0);
            send(&mut pair, 6000..9000);
            assert_eq!(place(&pair), 0, "{family:?} {rule:?}");
            assert_nothing_wrong(&pair);
            let changes = pair.at_server.schemes.len();
            assert!((3..16).contains(&changes), "{family:?} {rule:?}: {changes}");
        }
    }
}

#[test]
fn a_scheme_that_verifies_nothing_is_left_all_the_same() {
    let (mut pair, loss) = pair(configs(Adapt::within(Family::Agg)), 2);
    send(&mut pair, 0..1000);
    assert_eq!(in_use(&pair), "agg:16".parse().unwrap());
    loss.set(60);
    send(&mut pair, 1000..5000);
    assert_eq!(in_use(&pair), Scheme::Plain);
}

#[test]
fn it_goes_through_key_updates_of_either_end_and_reordering() {
    for (seed, family) in (3..).zip(Family::ALL) {
        let (mut pair, loss) = pair(configs(Adapt::within(family)), seed);
        let (mut rng, lost) = (Random::insecure(seed), Rc::clone(&loss));
        pair.rule = Box::new(move |_, _, datagram| {
            let delay = Duration::from_micros(5000 + rng.below(10_000));
            if rng.below(100) < lost.get() { vec![] } else { vec![(delay, datagram.to_vec())] }
        });
        let mut changes = 0;
        for round in 0..40 {
            if round % 10 == 0 {
                loss.set(if round % 20 == 10 { 20 } else { 0 });
                changes += usize::from(round > 0);
            }
            if round % 3 == 0 {
                pair.client.update_keys(pair.now);
            } else if round % 3 == 1 {
                let handle = pair.handle.unwrap();
                pair.server.connection_mut(handle).unwrap().update_keys(pair.now);
            }
            send(&mut pair, 200 * round..200 * (round + 1));
        }
        loss.set(0);
        pair.run_for(Duration::from_secs(60));
        in_use(&pair);
        pair.assert_connected();
        assert_nothing_wrong(&pair);
        assert!(pair.at_server.schemes.len() >= changes, "{:?}", pair.at_server.schemes);
        let before = pair.at_server.data.len();
        send(&mut pair, 8000..8160);
        pair.run_for(Duration::from_secs(1));
        assert_eq!(pair.at_server.data.len(), before + 160, "in step");
    }
}

#[test]
fn either_end_chooses_for_what_it_receives() {
    let mut configs = configs(Adapt::within(Family::Agg));
    configs.client.settings.adapt = Some(Adapt::within(Family::Agg));
    let (mut pair, loss) = pair(configs, 5);
    loss.set(30);
    for n in 0..2000 {
        pair.client_send(&message(n));
        pair.server_send(&message(n));
        pair.run_for(Duration::from_millis(2));
    }
    assert_eq!(in_use(&pair), Scheme::Plain);
    assert_eq!(pair.client.negotiated().unwrap().receive, "agg:16".parse().unwrap());
}

#[test]
fn nothing_happens_when_it_is_off_or_the_sender_knows_no_aggregation() {
    for off in [true, false] {
        let mut configs = configs(Adapt::within(Family::Agg));
        if off {
            configs.server.settings.adapt = None;
        } else {
            configs.client.settings.aggregation = AggregationPolicy::default();
        }
        let (mut pair, loss) = pair(configs, 6);
        let begun = in_use(&pair);
        assert_eq!(begun.aggregates(), off);
        send(&mut pair, 0..600);
        loss.set(20);
        send(&mut pair, 600..1800);
        assert_eq!(in_use(&pair), begun);
        assert!(pair.at_server.schemes.is_empty());
        let seen = server(&pair).observed_loss().unwrap();
        assert!((0x2000..0x4c00).contains(&seen), "{seen:x}");
    }
}

#[test]
fn only_what_was_offered_and_is_accepted_is_asked_for() {
    let list = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect();
    for (offered, accepted) in [
        (&["agg:4", "agg:5"][..], &["agg:4", "agg:16"][..]),
        (&["agg:4", "agg:16"], &["agg:4", "agg:5"]),
    ] {
        let mut configs = configs(Adapt::within(Family::Agg));
        configs.client.settings.aggregation.send = list(offered);
        configs.server.settings.aggregation.receive = list(accepted);
        let (mut pair, loss) = pair(configs, 7);
        send(&mut pair, 0..1500);
        assert_eq!(in_use(&pair), "agg:4".parse().unwrap());
        assert!(pair.at_server.schemes.is_empty());
        loss.set(20);
        send(&mut pair, 1500..3000);
        assert_eq!(in_use(&pair), Scheme::Plain);
        loss.set(0);
        send(&mut pair, 3000..5000);
        assert_eq!(in_use(&pair), "agg:4".parse().unwrap());
    }
}

#[test]
fn what_the_application_asks_for_is_where_it_goes_on_from() {
    let (mut pair, _) = pair(configs(Adapt::within(Family::Agg)), 8);
    send(&mut pair, 0..600);
    assert_eq!(in_use(&pair), "agg:16".parse().unwrap());
    let handle = pair.handle.unwrap();
    pair.server
        .connection_mut(handle)
        .unwrap()
        .request_aggregation(pair.now, Scheme::Plain)
        .unwrap();
    send(&mut pair, 600..700);
    assert_eq!(in_use(&pair), Scheme::Plain);
    send(&mut pair, 700..1600);
    assert_eq!(in_use(&pair), "agg:16".parse().unwrap());
}

/// An attacker near the receiver sends junk in the place of each lost record, so that a record with
/// every number arrives. Each set with such a record fails, and that is what counts.
#[test]
fn junk_in_the_place_of_lost_records_does_not_hide_them() {
    for (seed, family) in (9..).zip(Family::ALL) {
        let (mut pair, loss) = pair(configs(Adapt::within(family)), seed);
        send(&mut pair, 0..1000);
        assert_eq!(family.index_of(in_use(&pair)), Some(0));
        let (mut rng, lost) = (Random::insecure(seed), Rc::clone(&loss));
        pair.rule = Box::new(move |direction, _, datagram| {
            let mut fate = pass(datagram);
            if direction == Direction::ToServer && rng.below(100) < lost.get() {
                // The change is after the sample, so that the record number is that of the original
                // record.
                let last = fate[0].1.len() - 1;
                fate[0].1[last.min(24)] ^= 0x55;
            }
            fate
        });
        loss.set(12);
        send(&mut pair, 1000..5000);
        let place = family.index_of(in_use(&pair)).unwrap();
        assert!(place >= 2, "{family:?}: {}", in_use(&pair));
        assert_nothing_wrong(&pair);
    }
}

/// As many forged records as authentic ones, with numbers of all kinds, do not influence the rule.
#[test]
fn junk_beside_the_records_does_not_look_like_loss() {
    for (seed, family) in (11..).zip(Family::ALL) {
        let (mut pair, loss) = pair(configs(Adapt::within(family)), seed);
        send(&mut pair, 0..1000);
        let mut rng = Random::insecure(seed);
        pair.rule = Box::new(move |direction, _, datagram| {
            let mut fate = pass(datagram);
            if direction == Direction::ToServer {
                let mut junk = datagram.to_vec();
                for byte in &mut junk[1..] {
                    *byte = rng.below(256) as u8;
                }
                fate.push((Duration::from_millis(rng.below(20)), junk));
            }
            fate
        });
        loss.set(0);
        send(&mut pair, 1000..3000);
        assert_eq!(family.index_of(in_use(&pair)), Some(0), "{}", in_use(&pair));
        assert_nothing_wrong(&pair);
        assert_eq!(server(&pair).observed_loss(), Some(0));
    }
}
