//! Members that are shut down cleanly, and suspended states that must not be used.

use lightseal_core::Decode;
use lightseal_group::member::{Member, Membership, Suspended};
use lightseal_group::policy::{Authenticity, Freshness, Profile, Responses};
use lightseal_group::rekey::KeyPath;
use lightseal_group::{Policy, SenderId};
use std::collections::BTreeSet;
use testkit::group::field::{self, Field, policy};

fn policies() -> Vec<Policy> {
    let compact = policy(Profile::Compact);
    let paired = Policy { responses: Responses::Pairwise, ..compact.clone() };
    let asking = Policy { freshness: Freshness::Challenge, ..paired.clone() };
    let signed = Policy { authenticity: Authenticity::Source, ..compact.clone() };
    vec![policy(Profile::Axiom12), compact, paired, asking, signed]
}

/// A group of a switch and two lights that know each other's keys.
fn room(policy: Policy) -> Field {
    let mut field = Field::with(policy, 1);
    field.add(Some(7), false);
    for _ in 0..2 {
        field.add(None, true);
    }
    field.wait(20);
    field.acquaint();
    transact(&mut field, b"hello");
    field.wait(2);
    field.carry();
    for device in &mut field.devices {
        device.events();
        device.got.clear();
    }
    field
}

fn transact(field: &mut Field, content: &[u8]) -> [Vec<u8>; 2] {
    let asked = field.ask(0, content);
    field.wait(2);
    field.carry();
    let Ok(answered) = field.devices[1].answer(field.now, SenderId(7), content) else {
        return [asked, Vec::new()];
    };
    let from = field.devices[1].address;
    field.devices[0].hear_alone(field.now, from, &answered);
    field.carry();
    [asked, answered]
}

fn got(field: &Field, index: usize) -> usize {
    field.devices[index].got.len()
}

/// The membership from which a device is started again.
fn membership(field: &Field, index: usize) -> Membership {
    let device = &field.devices[index];
    let grant = device.member.keys().to_grant(field::timing());
    let (keys, _) = KeyPath::join(field.keys.controller(), grant);
    Membership {
        policy: field.policy.clone(),
        roles: device.roles,
        address: device.address.ip(),
        senders: field.senders(),
        keys,
        identity: device.identity.clone(),
    }
}

fn start(field: &mut Field, membership: Membership, from: usize, suspended: &Suspended) -> Member {
    let ledger = Box::new(field.devices[from].disk.clone());
    let (provider, rng) = (&lightseal_dtls::crypto::rustcrypto::PROVIDER, field.rng.fork());
    Member::resume(membership, suspended, provider, ledger, field.now, rng).unwrap()
}

/// Shuts a device down, resumes it, and returns its suspended state.
fn nap(field: &mut Field, index: usize) -> Vec<u8> {
    let again = membership(field, index);
    let stand_in = field.stand_in(index);
    let member = std::mem::replace(&mut field.devices[index].member, stand_in);
    let left = member.suspend().unwrap().to_bytes();
    let suspended = Suspended::decode(&left).unwrap();
    assert_eq!(suspended.to_bytes(), left);
    field.devices[index].member = start(field, again, index, &suspended);
    left
}

#[test]
fn who_was_shut_down_in_good_order_goes_on_in_the_same_epoch() {
    for policy in policies() {
        let mut field = room(policy);
        let mut seen = BTreeSet::new();
        for n in 0..6 {
            seen.extend(transact(&mut field, &[n]));
            let (asked, answered) = (got(&field, 1), got(&field, 0));
            let (switch, light) = (field.devices[0].address, field.devices[1].address);
            nap(&mut field, 0);
            nap(&mut field, 1);
            field.acquaint();
            for device in &mut field.devices {
                assert!(device.events().is_empty(), "no new epoch is needed");
            }
            for datagram in &seen {
                field.devices[1].hear(field.now, switch, datagram);
                field.devices[0].hear_alone(field.now, light, datagram);
            }
            assert_eq!((got(&field, 1), got(&field, 0)), (asked, answered), "{n}");
        }
        let before = (got(&field, 1), got(&field, 0));
        for (n, datagram) in transact(&mut field, b"new").into_iter().enumerate() {
            assert!(seen.insert(datagram), "{n}");
        }
        assert_eq!((got(&field, 1), got(&field, 0)), (before.0 + 1, before.1 + 1));
        assert_eq!((before.0, before.1), (6, 6));
    }
}

#[test]
fn what_was_left_behind_is_of_use_once() {
    for policy in policies() {
        let mut field = room(policy);
        let left = nap(&mut field, 0);
        let mut seen = BTreeSet::new();
        for n in 0..3 {
            seen.extend(transact(&mut field, &[n]));
        }
        let answers = got(&field, 0);
        // The device crashes, and its host passes it the same suspended state again.
        let suspended = Suspended::decode(&left).unwrap();
        let again = membership(&field, 0);
        field.devices[0].member = start(&mut field, again, 0, &suspended);
        field.acquaint();
        assert_eq!(field.devices[0].events(), ["NewEpochNeeded"], "as after any crash");
        let light = field.devices[1].address;
        for datagram in &seen {
            field.devices[0].hear_alone(field.now, light, datagram);
        }
        assert_eq!(got(&field, 0), answers);
        for n in 0..3 {
            assert!(seen.insert(field.ask(0, &[n])), "no number twice");
        }
    }
}

#[test]
fn a_start_without_it_makes_it_void() {
    for policy in policies() {
        let mut field = room(policy);
        let again = membership(&field, 1);
        let stand_in = field.stand_in(1);
        let member = std::mem::replace(&mut field.devices[1].member, stand_in);
        let suspended = member.suspend().unwrap();
        // A run without the suspended state, which receives and sends nothing.
        let unaware = membership(&field, 2);
        let ledger = Box::new(field.devices[1].disk.clone());
        let (provider, rng) = (&lightseal_dtls::crypto::rustcrypto::PROVIDER, field.rng.fork());
        drop(Member::new(unaware, provider, ledger, field.now, rng).unwrap());
        let late = field.policy.freshness == Freshness::Challenge;
        field.devices[1].member = start(&mut field, again, 1, &suspended);
        field.acquaint();
        let events = field.devices[1].events();
        assert_eq!(events.len(), usize::from(!late), "{events:?}");
        field.ask(0, b"on");
        assert_eq!(got(&field, 1), 0);
    }
}

#[test]
fn what_another_left_behind_is_ignored() {
    let mut field = room(policy(Profile::Compact));
    let left: Vec<_> = (0..3).map(|index| nap(&mut field, index)).collect();
    for (of, left) in left.iter().enumerate() {
        for index in 0..3 {
            let again = membership(&field, index);
            let suspended = Suspended::decode(left).unwrap();
            field.devices[index].member = start(&mut field, again, index, &suspended);
            assert_eq!(field.devices[index].events(), ["NewEpochNeeded"], "{of} for {index}");
        }
    }
    // A suspended state of another epoch is not used either.
    let mut field = room(policy(Profile::Compact));
    let left = nap(&mut field, 1);
    field.change(&[], 0, |_| true);
    let again = membership(&field, 1);
    field.devices[1].member = start(&mut field, again, 1, &Suspended::decode(&left).unwrap());
    assert_eq!(field.devices[1].events(), ["NewEpochNeeded"]);
}

#[test]
fn without_a_ledger_there_is_nothing_to_resume() {
    let mut field = room(policy(Profile::Compact));
    let again = membership(&field, 1);
    field.devices[1].disk.0.lock().unwrap().fails = true;
    let ledger = Box::new(field.devices[1].disk.clone());
    let (provider, rng) = (&lightseal_dtls::crypto::rustcrypto::PROVIDER, field.rng.fork());
    let member = Member::new(again, provider, ledger, field.now, rng).unwrap();
    assert_eq!(member.suspend(), None);
}

#[test]
fn damage_is_noticed_or_does_not_matter() {
    let mut field = room(policy(Profile::Compact));
    transact(&mut field, b"x");
    let left = nap(&mut field, 0);
    for cut in 0..left.len() {
        assert!(Suspended::decode(&left[..cut]).is_err());
    }
    assert!(Suspended::decode(&[&left[..], &[0]].concat()).is_err());
    for at in 0..left.len() {
        let mut damaged = left.clone();
        damaged[at] ^= 0x40;
        // Decoding must not panic, and must not allocate memory for more entries than there are
        // bytes.
        let _ = Suspended::decode(&damaged);
    }
}
