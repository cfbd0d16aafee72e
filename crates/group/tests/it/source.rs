//! Source authentication: which member wrote a record.

use lightseal_core::Random;
use lightseal_dtls::codepoints::ContentType;
use lightseal_group::directory::Lookup;
use lightseal_group::member::{Listener, Member, Membership, RequestKind, Roles};
use lightseal_group::policy::{Authenticity, Profile};
use lightseal_group::rekey::KeyPath;
use lightseal_group::{Identity, Policy, SenderId};
use std::time::Duration;
use testkit::group::field::{self, CONTROLLER, Field, Got, got, policy};

fn signed() -> Policy {
    Policy { authenticity: Authenticity::Source, ..policy(Profile::Compact) }
}

/// A group of two switches, of which one is also a listener, and two lights, which know each
/// other's keys.
fn room() -> Field {
    field::acquainted(signed(), &[(Some(8), true), (None, true), (None, true)])
}

/// A member with another member's leaf and group keys, but with an identity of its own.
fn impostor(field: &mut Field, index: usize, roles: Roles) -> Member {
    let victim = &field.devices[index];
    let grant = field.keys.grant(victim.leaf, field::timing()).unwrap();
    let (keys, _) = KeyPath::join(field.keys.controller(), grant);
    let (policy, address) = (field.policy.clone(), victim.address.ip());
    let (senders, identity) = (field.senders(), Identity::generate(&mut field.rng));
    let membership = Membership { policy, roles, address, senders, keys, identity };
    let ledger = Box::new(field::Disk::default());
    let provider = &lightseal_dtls::crypto::rustcrypto::PROVIDER;
    Member::new(membership, provider, ledger, field.now, Random::insecure(5)).unwrap()
}

#[test]
fn requests_and_responses_are_signed_and_sixty_four_bytes_longer() {
    let mut field = room();
    assert_eq!(field.ask(0, b"on").len(), 2 + 14 + 64);
    assert_eq!(field.answer(2, 0, b"is on").len(), 5 + 16 + 64);
    assert_eq!(field.answer(3, 0, b"is on").len(), 5 + 16 + 64);
    assert_eq!([got(&field, 0), got(&field, 1), got(&field, 2)], [2, 1, 1]);
}

#[test]
fn nobody_forges_the_request_of_another_nor_moves_its_window() {
    let mut field = room();
    let roles = Roles { sender: Some(SenderId(7)), listener: false };
    let mut impostor = impostor(&mut field, 0, roles);
    let from = field.devices[0].address;
    let mut buf = [0; 200];
    for _ in 0..300 {
        let len = impostor.request(field.now, b"off", &mut buf).unwrap();
        field.devices[2].hear(field.now, from, &buf[..len]);
    }
    assert_eq!(got(&field, 2), 0);
    assert_eq!(field.devices[2].member.stats().forged, 300);
    // The genuine request has a number far below the forged ones.
    field.ask(0, b"on");
    assert_eq!(field.devices[2].got, [Got::Request(SenderId(7), b"on".into())]);
}

#[test]
fn nobody_forges_the_response_of_another() {
    let mut field = room();
    let asked = field.ask(0, b"on");
    let mut impostor = impostor(&mut field, 2, Roles { sender: None, listener: true });
    let switch = field.devices[0].address;
    impostor.learn(field.now, &field.page(Lookup::sender(SenderId(7))));
    impostor.receive_multicast(field.now, switch, &mut asked.clone(), |_| {});
    let mut buf = [0; 200];
    let (_, len) =
        impostor.respond(field.now, SenderId(7), RequestKind::Group, b"is off", &mut buf).unwrap();
    let from = field.devices[2].address;
    field.devices[0].hear_alone(field.now, from, &buf[..len]);
    assert_eq!((got(&field, 0), field.devices[0].member.stats().forged), (0, 1));
    field.answer(2, 0, b"is on");
    let listener = Listener::Id(field.devices[2].member.listener());
    assert_eq!(field.devices[0].got, [Got::Response(listener, b"is on".into())]);
}

#[test]
fn who_does_not_know_a_key_asks_for_it_once_a_member_wrote_the_record() {
    let mut field = Field::with(signed(), 2);
    field.add(Some(7), false);
    field.add(None, true);
    field.wait(20);
    // The lookup that was made in advance got no answer.
    field.devices[1].take_events();
    field.devices[1].lookups.clear();
    let mut noise = field.devices[0].ask(field.now, b"on").unwrap();
    *noise.last_mut().unwrap() ^= 1;
    let from = field.devices[0].address;
    field.devices[1].hear(field.now, from, &noise);
    assert_eq!(field.devices[1].member.stats().unknown_keys, 0);
    field.ask(0, b"on");
    assert_eq!((got(&field, 1), field.devices[1].member.stats().unknown_keys), (0, 1));
    field.wait(20);
    field.introduce();
    field.ask(0, b"on");
    assert_eq!(got(&field, 1), 1);
}

#[test]
fn a_sender_id_with_another_owner_is_not_the_old_ones() {
    let mut field = room();
    let mut evicted = field.evict(0);
    let now_at = field.add(Some(7), false);
    assert_eq!(field.devices[now_at].leaf, evicted.leaf, "the leaf is used again");
    field.wait(20);
    // An accomplice in the group gives the evicted member the group's keys.
    let roles = Roles { sender: Some(SenderId(7)), listener: false };
    let grant = field.keys.grant(field.devices[now_at].leaf, field::timing()).unwrap();
    let (keys, _) = KeyPath::join(field.keys.controller(), grant);
    let policy = field.policy.clone();
    let (address, senders) = (evicted.address.ip(), field.senders());
    let identity = evicted.identity.clone();
    let membership = Membership { policy, roles, address, senders, keys, identity };
    let provider = &lightseal_dtls::crypto::rustcrypto::PROVIDER;
    let ledger = Box::new(field::Disk::default());
    let rng = Random::insecure(5);
    evicted.member = Member::new(membership, provider, ledger, field.now, rng).unwrap();
    let posed = evicted.ask(field.now, b"off").unwrap();
    for index in [0, 1, 2] {
        field.devices[index].hear(field.now, evicted.address, &posed);
        assert_eq!(got(&field, index), 0, "its key is forgotten with its leaf");
    }
    field.acquaint();
    let posed = evicted.ask(field.now, b"off").unwrap();
    field.devices[1].hear(field.now, evicted.address, &posed);
    assert_eq!(got(&field, 1), 0);
    field.ask(now_at, b"on");
    assert_eq!((got(&field, 1), got(&field, 2)), (1, 1));
}

#[test]
fn keys_outlive_rekeys_that_do_not_concern_their_owners() {
    let mut field = room();
    field.change(&[], 0, |_| true);
    field.wait(2);
    field.ask(0, b"on");
    assert_eq!((got(&field, 1), got(&field, 2)), (1, 1));
    // A member at the other end of the tree joins and leaves.
    for _ in 0..4 {
        field.add(None, true);
    }
    field.wait(2);
    field.acquaint();
    let last = field.devices.len() - 1;
    let before = got(&field, 2);
    field.evict(last);
    field.wait(2);
    field.ask(0, b"off");
    assert_eq!(got(&field, 2), before + 1);
    // A member that missed a rekey does not know which members left in it.
    field.change(&[], 0, |index| index != 2);
    field.grant(2);
    field.wait(2);
    field.ask(0, b"on");
    assert_eq!(got(&field, 2), before + 1);
    field.acquaint();
    field.ask(0, b"on");
    assert_eq!(got(&field, 2), before + 2);
}

#[test]
fn an_epoch_is_ended_by_the_controller_alone() {
    let mut field = room();
    let before = field.devices[2].member.epoch(field.now);
    field.change(&[], 0, |_| true);
    let from = CONTROLLER.parse().unwrap();
    // Any member can seal a record under the controller's SenderID.
    let forged = field.say(ContentType::CHANGE_CIPHER_SPEC, &[1]);
    field.devices[2].hear(field.now, from, &forged);
    assert_eq!(field.devices[2].member.epoch(field.now), before);
    assert_eq!(field.devices[2].member.stats().forged, 1);
    let other = field.keys.secret().end_of_epoch(&field::GROUP, before - 1);
    let forged = field.say(ContentType::CHANGE_CIPHER_SPEC, &other);
    field.devices[2].hear(field.now, from, &forged);
    assert_eq!(field.devices[2].member.epoch(field.now), before);
    let end = field.keys.secret().end_of_epoch(&field::GROUP, before);
    let genuine = field.say(ContentType::CHANGE_CIPHER_SPEC, &end);
    field.devices[2].hear(field.now, from, &genuine);
    assert_eq!(field.devices[2].member.epoch(field.now), before + 1);
}

#[test]
fn made_up_listeners_cost_a_lookup_a_page_and_no_more() {
    let mut field = room();
    field.change(&[], 0, |_| true);
    field.wait(20);
    field.acquaint();
    field.ask(0, b"on");
    let from = field.devices[2].address;
    // A malicious member can write records with a right tag and an invented ListenerID.
    let secret = field.keys.epoch_key().unwrap();
    let secret = lightseal_group::compact::EpochSecret::new(
        field::GROUP,
        field.keys.epoch(),
        secret.as_bytes(),
    );
    let provider = &lightseal_dtls::crypto::rustcrypto::PROVIDER;
    let suite = lightseal_group::compact::Suite::find(provider, field.policy.suite).unwrap();
    let signer = lightseal_group::compact::SigningKey::new(&[1; 32]);
    let mut lookups = 0;
    for id in (0..4000).chain(0..4000) {
        let id = lightseal_group::ListenerId::new(id * 4001 % (1 << 24)).unwrap();
        let keyed = secret.response_secret(SenderId(7), id);
        let stream = secret.responses(SenderId(7), id);
        let keys = lightseal_group::compact::RecordKeys::new(suite, stream, &keyed);
        let data = lightseal_group::compact::PlainRecord::data(0, b"is off");
        let record = lightseal_group::compact::PlainRecord { signer: Some(&signer), ..data };
        let mut buf = [0; 200];
        let len = keys.seal(&record, &mut buf).unwrap();
        field.devices[0].hear_alone(field.now, from, &buf[..len]);
        field.now += Duration::from_millis(10);
        field.devices[0].member.handle_timeout(field.now);
        field.devices[0].take_events();
        lookups += field.devices[0].lookups.len();
        field.introduce();
    }
    // All eight leaves are on one page.
    assert!(lookups <= 1, "{lookups}");
    assert_eq!(got(&field, 0), 0);
    field.answer(2, 0, b"is on");
    assert_eq!(got(&field, 0), 1);
}
