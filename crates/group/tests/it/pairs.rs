//! Pairwise responses, which only the requesting sender can read and only the listener can have
//! written.

use lightseal_dtls::crypto::{CipherSuiteId, rustcrypto};
use lightseal_group::compact::{
    Boot, HeaderForm, PlainRecord, PrivateKey, PublicKey, RecordKeys, SealedRecord, Suite,
};
use lightseal_group::member::{Listener, SendError};
use lightseal_group::policy::Authenticity;
use lightseal_group::{ListenerId, Policy, SenderId};
use std::time::Duration;
use testkit::group::field::{Field, Got, got, paired, room};

fn suite(field: &Field) -> Suite {
    Suite::find(&rustcrypto::PROVIDER, field.policy.suite).unwrap()
}

/// A response in the name of `listener`, written by the owner of another private key `key`.
fn forged(field: &Field, listener: ListenerId, key: &PrivateKey, boot: Boot) -> Vec<u8> {
    let secret = field.secret();
    let sender = (SenderId(7), &field.devices[0].identity.public().exchange);
    let pair = secret.pair_for_listener((listener, key), sender).unwrap();
    let stream = secret.pairwise_responses(SenderId(7), listener);
    let keys = RecordKeys::new(suite(field), stream, &pair.response_secret(&boot.nonce));
    let mut buf = [0; 200];
    let record = PlainRecord { form: HeaderForm::Boot(boot), ..PlainRecord::data(0, b"is off") };
    let len = keys.seal(&record, &mut buf).unwrap();
    buf[..len].to_vec()
}

#[test]
fn responses_are_short_once_the_boot_is_known() {
    for suite in [CipherSuiteId::AES_128_CCM_8_SHA256, CipherSuiteId::AES_128_CCM_SHA256] {
        let tag = if suite == CipherSuiteId::AES_128_CCM_SHA256 { 16 } else { 8 };
        let mut field = room(Policy { suite, ..paired() });
        field.ask(0, b"on");
        assert_eq!(field.answer(1, 0, b"is on").len(), 5 + 34 + tag);
        let acknowledged = field.carry();
        assert_eq!(acknowledged.len(), 1);
        assert!(acknowledged[0].datagram.len() < 5 + 34 + tag);
        assert_eq!(field.answer(1, 0, b"is on").len(), 5 + 8 + tag);
        let listener = Listener::Id(field.devices[1].member.listener());
        assert_eq!(
            field.devices[0].got,
            [(); 2].map(|()| Got::Response(listener, b"is on".into()))
        );
        // In a new epoch the sender may have lost its state, so the listener states its boot again.
        field.change(&[], 0, |_| true);
        field.wait(2);
        field.ask(0, b"on");
        assert_eq!(field.answer(1, 0, b"is on").len(), 5 + 34 + tag);
        field.carry();
        assert_eq!(field.answer(1, 0, b"is on").len(), 5 + 8 + tag);
        assert_eq!(got(&field, 0), 4);
    }
}

#[test]
fn another_member_reads_no_response_and_writes_none() {
    let mut field = room(paired());
    field.ask(0, b"on");
    let answer = field.devices[1].answer(field.now, SenderId(7), b"is on").unwrap();
    // The attacker has the group's keys, and the identity of another member.
    let secret = field.secret();
    let listener = field.devices[1].member.listener();
    let own = field.devices[2].identity.exchange();
    let peers = [0, 1].map(|index: usize| field.devices[index].identity.public().exchange);
    let boot = SealedRecord::response(&mut answer.clone()).unwrap().0.boot().unwrap();
    let mut secrets = vec![secret.response_secret(SenderId(7), listener)];
    for peer in peers {
        let pairs = [
            secret.pair_for_listener((listener, own), (SenderId(7), &peer)),
            secret.pair_for_sender((SenderId(7), own), (listener, &peer)),
        ];
        secrets.extend(pairs.map(|pair| pair.unwrap().response_secret(&boot.nonce)));
    }
    for keyed in secrets {
        let stream = secret.pairwise_responses(SenderId(7), listener);
        let keys = RecordKeys::new(suite(&field), stream, &keyed);
        let mut copy = answer.clone();
        let (record, _) = SealedRecord::response(&mut copy).unwrap();
        assert!(record.reveal(&keys, 0).open(&keys, None).is_err());
    }
    let forged = forged(&field, listener, own, Boot { nonce: [5; 8], request: 0 });
    let from = field.devices[2].address;
    field.devices[0].hear_alone(field.now, from, &forged);
    assert_eq!((got(&field, 0), field.devices[0].member.stats().unauthentic), (0, 1));
    field.devices[0].hear_alone(field.now, from, &answer);
    assert_eq!(got(&field, 0), 1);
}

#[test]
fn what_is_repeated_is_delivered_once_across_boots_too() {
    let mut field = room(paired());
    let light = field.devices[1].address;
    let mut answers = Vec::new();
    for round in 0..4 {
        field.ask(0, b"on");
        answers.push(field.answer(1, 0, &[round]));
        field.carry();
        answers.push(field.answer(1, 0, &[round]));
        // The listener restarts, with a ledger that already knows the epoch.
        field.restart(1);
        field.acquaint();
        let before = got(&field, 0);
        for answer in &answers {
            field.devices[0].hear_alone(field.now, light, answer);
        }
        assert_eq!(got(&field, 0), before, "round {round}");
        field.change(&[], 0, |_| true);
        field.wait(2);
    }
    assert_eq!(got(&field, 0), 8);
}

#[test]
fn listeners_that_do_not_exist_cost_neither_keys_nor_many_lookups() {
    let mut field = room(paired());
    field.change(&[], 0, |_| true);
    field.wait(2);
    field.ask(0, b"on");
    let from = "[fd00::bad]:1".parse().unwrap();
    let key = PrivateKey::new(&[3; 32]);
    let mut lookups = 0;
    for id in 0..3000 {
        let id = ListenerId::new(id * 5591 % (1 << 24)).unwrap();
        let noise = forged(&field, id, &key, Boot { nonce: [5; 8], request: 0 });
        field.devices[0].hear_alone(field.now, from, &noise);
        field.now += Duration::from_millis(10);
        field.devices[0].member.handle_timeout(field.now);
        field.devices[0].take_events();
        lookups += field.devices[0].lookups.len();
        assert!(field.devices[0].lookups.len() <= 1, "one at a time");
        field.introduce();
    }
    assert!(lookups <= 1, "{lookups}: all four leaves are on one page");
    assert_eq!(got(&field, 0), 0);
    field.answer(1, 0, b"is on");
    assert_eq!(got(&field, 0), 1);
}

#[test]
fn an_evicted_listener_is_not_heard_with_the_keys_of_an_accomplice() {
    let mut field = room(paired());
    field.ask(0, b"on");
    field.answer(1, 0, b"is on");
    let evicted = field.evict(1);
    let follower = field.add(None, true);
    assert_eq!(field.devices[follower].leaf, evicted.leaf, "the leaf is used again");
    field.wait(20);
    field.ask(0, b"on");
    let listener = evicted.leaf.into();
    let boot = Boot { nonce: [6; 8], request: 0 };
    let posed = forged(&field, listener, evicted.identity.exchange(), boot);
    let before = got(&field, 0);
    field.devices[0].hear_alone(field.now, evicted.address, &posed);
    field.acquaint();
    field.devices[0].hear_alone(field.now, evicted.address, &posed);
    assert_eq!(got(&field, 0), before);
    field.ask(0, b"on");
    field.answer(follower, 0, b"is on");
    assert_eq!(got(&field, 0), before + 1);
}

#[test]
fn a_response_needs_the_senders_key_and_has_it_asked_for() {
    let mut field = Field::with(paired(), 3);
    field.add(Some(7), false);
    field.add(None, true);
    field.wait(3);
    field.ask(0, b"on");
    let refused = field.devices[1].answer(field.now, SenderId(7), b"is on");
    assert_eq!(refused, Err(SendError::NoKey));
    field.acquaint();
    field.answer(1, 0, b"is on");
    assert_eq!(got(&field, 0), 1);
}

#[test]
fn requests_may_be_signed_and_responses_paired() {
    let both = Policy { authenticity: Authenticity::Source, ..paired() };
    let mut field = room(both);
    assert_eq!(field.ask(0, b"on").len(), 2 + 14 + 64);
    assert_eq!(field.answer(1, 0, b"is on").len(), 5 + 42, "the key proves who wrote it");
    field.carry();
    assert_eq!(field.answer(1, 0, b"is on").len(), 5 + 16);
    assert_eq!((got(&field, 0), got(&field, 1)), (2, 1));
}

#[test]
fn a_listener_whose_key_is_of_small_order_is_not_heard() {
    let mut field = room(paired());
    let listener = field.devices[1].member.listener();
    let mut page = field.page(lightseal_group::directory::Lookup::listener(listener));
    for entry in &mut page.members {
        entry.keys.exchange = PublicKey([0; 32]);
    }
    field.change(&[field.devices[2].leaf], 0, |_| true);
    field.wait(2);
    page.epoch = field.keys.epoch();
    field.devices[0].member.learn(field.now, &page);
    field.ask(0, b"on");
    field.answer(1, 0, b"is on");
    assert_eq!(got(&field, 0), 0);
}
