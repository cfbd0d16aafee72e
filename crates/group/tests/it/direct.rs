//! Direct requests of a sender to one listener: tests against forging, reading, replaying and
//! suppressing them.

use lightseal_dtls::codepoints::MAX_RECORD_NUMBER;
use lightseal_dtls::crypto::rustcrypto;
use lightseal_group::compact::{HeaderForm, PlainRecord, PrivateKey, RecordKeys, Suite};
use lightseal_group::directory::Lookup;
use lightseal_group::member::SendError;
use lightseal_group::policy::{Freshness, Profile};
use lightseal_group::{ListenerId, Policy, SenderId};
use std::net::SocketAddr;
use testkit::group::field::{self, Field, Got, got, paired, policy, room};

fn listener(field: &Field, index: usize) -> ListenerId {
    field.devices[index].member.listener()
}

/// A direct request to a listener in the name of the switch, written by the owner of the private
/// key `own`.
fn forged(field: &Field, to: usize, own: &PrivateKey, number: u64) -> Vec<u8> {
    let secret = field.secret();
    let key = field.devices[to].identity.public().exchange;
    let listener = listener(field, to);
    let pair = secret.pair_for_sender((SenderId(7), own), (listener, &key)).unwrap();
    let suite = Suite::find(&rustcrypto::PROVIDER, field.policy.suite).unwrap();
    let stream = secret.direct_requests(SenderId(7), listener);
    let keys = RecordKeys::new(suite, stream, &pair.direct_secret());
    let mut buf = [0; 100];
    let record = PlainRecord { form: HeaderForm::Full, ..PlainRecord::data(number, b"off") };
    let len = keys.seal(&record, &mut buf).unwrap();
    buf[..len].to_vec()
}

/// A group request in the name of the switch, which any member can write.
fn forged_group_request(field: &Field, number: u64) -> Vec<u8> {
    let secret = field.secret();
    let suite = Suite::find(&rustcrypto::PROVIDER, field.policy.suite).unwrap();
    let stream = secret.requests(SenderId(7));
    let keys = RecordKeys::new(suite, stream, &secret.request_secret(SenderId(7)));
    let mut buf = [0; 100];
    let record = PlainRecord { form: HeaderForm::Full, ..PlainRecord::data(number, b"on") };
    let len = keys.seal(&record, &mut buf).unwrap();
    buf[..len].to_vec()
}

#[test]
fn a_direct_request_is_delivered_once_to_its_listener_and_answered() {
    let mut field = room(paired());
    let request = field.ask_one(0, 2, b"on");
    assert_eq!(request.len(), 2 + 29);
    assert_eq!(field.devices[2].got, [Got::Direct(SenderId(7), b"on".into())]);
    assert_eq!((got(&field, 1), got(&field, 3)), (0, 0));
    assert_eq!(field.devices[1].member.stats().strangers, 1, "for another member");
    field.answer_direct(2, 0, b"is on");
    assert_eq!(got(&field, 0), 1);
    let from = field.devices[0].address;
    for by_multicast in [true, false] {
        if by_multicast {
            field.devices[2].hear(field.now, from, &request);
        } else {
            field.devices[2].hear_alone(field.now, from, &request);
        }
    }
    assert_eq!((got(&field, 2), field.devices[2].member.stats().replayed), (1, 2));
}

/// The first direct request goes to the group's address. After the listener has responded they go
/// to the address of its response, and to the group's address again after two that are not
/// answered.
#[test]
fn direct_requests_follow_a_listener_to_another_port() {
    let mut field = room(paired());
    let to = listener(&field, 1);
    let ask = |field: &mut Field| {
        let (at, datagram) = field.devices[0].ask_one(field.now, to, b"on").unwrap();
        field.deliver(0, at, &datagram);
        at
    };
    let group = field.policy.address;
    assert_eq!(ask(&mut field), group);
    field.answer_direct(1, 0, b"is on");
    let own = field.devices[1].address;
    assert_eq!(ask(&mut field), own);
    let answer = field.answer_direct(1, 0, b"is on");
    // The listener restarts at another port, and its response is replayed from a third address.
    let moved: SocketAddr = "[fd00::2]:6000".parse().unwrap();
    field.devices[1].address = moved;
    let elsewhere = "[fd00::bad]:1".parse().unwrap();
    field.devices[0].hear_alone(field.now, elsewhere, &answer);
    assert_eq!([ask(&mut field), ask(&mut field)], [own; 2]);
    assert_eq!(ask(&mut field), group);
    assert_eq!(got(&field, 1), 3);
    field.answer_direct(1, 0, b"is on");
    assert_eq!(ask(&mut field), moved);
    assert_eq!(got(&field, 1), 4);
}

#[test]
fn no_other_member_reads_writes_or_suppresses_a_direct_request() {
    let mut field = room(paired());
    let from = field.devices[3].address;
    let own = field.devices[3].identity.exchange().clone();
    let wrong = forged(&field, 1, &own, 5);
    field.devices[1].hear(field.now, from, &wrong);
    assert_eq!((got(&field, 1), field.devices[1].member.stats().unauthentic), (0, 1));
    // A forged group request with the highest number blocks the sender's own group requests, but
    // not its direct requests.
    let forged = forged_group_request(&field, MAX_RECORD_NUMBER);
    field.devices[1].hear(field.now, from, &forged);
    assert_eq!(got(&field, 1), 1);
    field.ask(0, b"on");
    assert_eq!(got(&field, 1), 1, "suppressed");
    field.ask_one(0, 1, b"on");
    assert_eq!(field.devices[1].got[1..], [Got::Direct(SenderId(7), b"on".into())]);
    // The response states the number of the direct request. The sender would drop one that states
    // the forged number, because it has not sent that request.
    field.answer_direct(1, 0, b"is on");
    assert_eq!(got(&field, 0), 1);
    // A record with the number and the header of a direct request, but sealed under the group's
    // keys.
    let mut posed = field.ask_one(0, 1, b"on");
    let tail = posed.len() - 11;
    let sealed = forged_group_request(&field, 9);
    posed[tail..].copy_from_slice(&sealed[sealed.len() - 11..]);
    let before = field.devices[1].member.stats().unauthentic;
    let heard = got(&field, 1);
    posed[19] ^= 0x40;
    field.devices[1].hear(field.now, from, &posed);
    assert_eq!(field.devices[1].member.stats().unauthentic, before + 1);
    assert_eq!(got(&field, 1), heard);
}

/// Another member forges a group request after the direct request, before the application answers.
#[test]
fn the_response_to_a_direct_request_goes_to_the_address_that_it_came_from() {
    let mut field = room(paired());
    field.ask_one(0, 1, b"on");
    let forger = field.devices[3].address;
    for number in [5, MAX_RECORD_NUMBER] {
        let forged = forged_group_request(&field, number);
        field.devices[1].hear(field.now, forger, &forged);
    }
    assert_eq!(got(&field, 1), 3);
    let (now, switch) = (field.now, field.devices[0].address);
    let (to, answer) = field.devices[1].answer_direct(now, SenderId(7), b"is on").unwrap();
    assert_eq!(to, switch);
    field.deliver(1, to, &answer);
    assert_eq!(got(&field, 0), 1);
    // A listener that has received no direct request has no address for a response to one.
    let refused = field.devices[2].answer_direct(now, SenderId(7), b"is on");
    assert_eq!(refused, Err(SendError::UnknownSender));
}

/// The number of a direct request from before the restart lies below the first request that the
/// sender sent after it had last heard the listener, and must not be stated.
#[test]
fn a_resumed_listener_states_the_number_of_the_request_that_it_answers() {
    let mut field = room(paired());
    field.ask_one(0, 1, b"on");
    field.answer_direct(1, 0, b"is on");
    field.ask(0, b"on");
    assert!(field.nap(1, None).is_some());
    field.acquaint();
    let now = field.now;
    let refused = field.devices[1].answer_direct(now, SenderId(7), b"is on");
    assert_eq!(refused, Err(SendError::UnknownSender), "no request since the restart");
    field.ask(0, b"on");
    field.answer(1, 0, b"is on");
    assert_eq!(got(&field, 0), 2);
    field.ask_one(0, 1, b"on");
    field.answer_direct(1, 0, b"is on");
    assert_eq!(got(&field, 0), 3);
}

#[test]
fn junk_in_the_name_of_a_sender_changes_nothing_that_is_state_for_tests() {
    let mut field = room(paired());
    field.ask_one(0, 1, b"on");
    let record = field.ask_one(0, 1, b"on");
    let before = field.devices[1].member.state_for_tests();
    let from = "[fd00::bad]:1".parse().unwrap();
    for at in 0..record.len() {
        for bit in [1, 0x80] {
            let mut junk = record.clone();
            junk[at] ^= bit;
            field.devices[1].hear(field.now, from, &junk);
            field.devices[1].hear_alone(field.now, from, &junk);
            field.devices[1].hear(field.now, from, &record[..at]);
        }
    }
    assert_eq!(field.devices[1].member.state_for_tests(), before);
    assert_eq!(got(&field, 1), 2);
}

#[test]
fn an_evicted_member_neither_reads_nor_writes_and_its_leafs_next_owner_reads_nothing_of_it() {
    let mut field = room(paired());
    field.ask_one(0, 3, b"on");
    let old = field.ask_one(0, 3, b"on");
    let mut evicted = field.evict(3);
    // No member has the leaf: the sender gets an error as soon as it has the controller's page.
    let gone = evicted.member.listener();
    let now = field.now;
    assert!(matches!(
        field.devices[0].ask_one(now, gone, b"on"),
        Err(SendError::NoKey | SendError::NotAMember)
    ));
    field.acquaint();
    let now = field.now;
    assert_eq!(field.devices[0].ask_one(now, gone, b"on"), Err(SendError::NotAMember));
    let follower = field.add(None, true);
    assert_eq!(field.devices[follower].leaf, evicted.leaf, "the leaf is used again");
    field.acquaint();
    field.wait(2);
    let new = field.ask_one(0, follower, b"on");
    assert_eq!(got(&field, follower), 1);
    let heard = evicted.got.len();
    let from = field.devices[0].address;
    evicted.hear(field.now, from, &new);
    assert_eq!(evicted.got.len(), heard);
    field.devices[follower].hear(field.now, from, &old);
    assert_eq!(got(&field, follower), 1);
    // An accomplice gives the evicted member the key of the new epoch, but it does not have the
    // private key of the leaf's new owner.
    let posed = forged(&field, follower, evicted.identity.exchange(), 500);
    field.devices[follower].hear(field.now, evicted.address, &posed);
    assert_eq!(got(&field, follower), 1);
}

#[test]
fn direct_requests_go_on_in_a_new_epoch_and_reach_one_that_has_just_joined() {
    let mut field = room(paired());
    let old = field.ask_one(0, 1, b"on");
    field.change(&[], 0, |_| true);
    field.wait(2);
    field.ask_one(0, 1, b"on");
    assert_eq!(got(&field, 1), 2);
    let from = field.devices[0].address;
    field.devices[1].hear(field.now, from, &old);
    assert_eq!(got(&field, 1), 2);
    // The epoch of the new member is not active for any member yet.
    let joined = field.add(None, true);
    let page = field.page(Lookup::listener(listener(&field, joined)));
    field.devices[0].member.learn(field.now, &page);
    let page = field.page(Lookup::sender(SenderId(7)));
    field.devices[joined].member.learn(field.now, &page);
    field.ask_one(0, joined, b"welcome");
    assert_eq!(field.devices[joined].got, [Got::Direct(SenderId(7), b"welcome".into())]);
}

/// A listener that has looked up the new owner of a SenderID does not accept records of that owner
/// in an epoch before it had the SenderID.
#[test]
fn the_next_owner_of_a_sender_id_is_not_heard_in_an_epoch_before_it_had_the_id() {
    let mut field = room(paired());
    let second = field.add(Some(8), false);
    field.wait(2);
    field.acquaint();
    let epoch = field.keys.epoch();
    let accomplice = field.devices[second].identity.exchange().clone();
    let before = field.secret();
    // The switch leaves, and the second sender gets its SenderID in the next epoch.
    let owner = field.devices[second].identity.public();
    field.change(&[], 0, |_| true);
    let mut page = field.page(Lookup::sender(SenderId(7)));
    page.members.retain(|entry| entry.sender == Some(SenderId(7)));
    page.members[0].keys = owner;
    let grant = field.devices[1].member.keys().to_grant(field::timing());
    let _ = field.devices[1].member.grant(field.now, grant);
    field.devices[1].member.learn(field.now, &page);
    let key = field.devices[1].identity.public().exchange;
    let id = listener(&field, 1);
    let pair = before.pair_for_sender((SenderId(7), &accomplice), (id, &key)).unwrap();
    let suite = Suite::find(&rustcrypto::PROVIDER, field.policy.suite).unwrap();
    let stream = before.direct_requests(SenderId(7), id);
    let keys = RecordKeys::new(suite, stream, &pair.direct_secret());
    let mut buf = [0; 100];
    let record = PlainRecord { form: HeaderForm::Full, ..PlainRecord::data(900, b"off") };
    let len = keys.seal(&record, &mut buf).unwrap();
    assert_eq!(before.epoch(), epoch);
    let heard = got(&field, 1);
    let from = field.devices[second].address;
    field.devices[1].hear(field.now, from, &buf[..len]);
    assert_eq!(got(&field, 1), heard);
}

#[test]
fn nothing_is_delivered_twice_across_restarts_of_the_listener() {
    for freshness in [Freshness::NewEpoch, Freshness::Challenge] {
        let mut field = room(Policy { freshness, ..paired() });
        let mut seen = Vec::new();
        for round in 0..4_u8 {
            seen.push(field.ask_one(0, 1, &[round]));
            let before = got(&field, 1);
            assert_eq!(before, 1 + usize::from(round), "{freshness} {round}");
            field.answer_direct(1, 0, b"is on");
            field.carry();
            match round {
                0 | 1 => assert!(field.nap(1, None).is_some()),
                _ => field.restart(1),
            }
            field.acquaint();
            let from = field.devices[0].address;
            for record in &seen {
                field.devices[1].hear(field.now, from, record);
            }
            assert_eq!(got(&field, 1), before, "{freshness} {round}");
            if round >= 2 && freshness == Freshness::NewEpoch {
                field.change(&[], 0, |_| true);
                field.wait(2);
            } else {
                // The replayed request makes the listener challenge the sender.
                field.wait(2);
                field.carry();
            }
        }
        for record in &seen {
            let from = field.devices[0].address;
            field.devices[1].hear(field.now, from, record);
        }
        assert_eq!(got(&field, 1), 4);
        field.ask_one(0, 1, b"new");
        assert_eq!(got(&field, 1), 5, "{freshness}");
    }
}

#[test]
fn no_number_is_used_twice_across_restarts_of_the_sender() {
    let mut field = room(paired());
    let mut seen = std::collections::BTreeSet::new();
    let number = |record: &[u8]| record[6..20].to_vec();
    for round in 0..6 {
        for to in [1, 2, 1] {
            assert!(seen.insert(number(&field.ask_one(0, to, b"on"))), "{round}");
        }
        if round % 2 == 0 {
            field.restart(0);
        } else {
            field.nap(0, None).unwrap();
        }
        field.acquaint();
    }
    assert_eq!(got(&field, 1), 12);
}

/// Direct requests to one listener use up record numbers, but other listeners can still open the
/// sender's group requests.
#[test]
fn thousands_of_direct_requests_to_one_leave_the_others_in_step() {
    let mut field = room(paired());
    field.ask(0, b"on");
    let to = listener(&field, 1);
    for _ in 0..70_000 {
        field.devices[0].ask_one(field.now, to, b"on").unwrap();
        field.carry();
    }
    field.ask(0, b"off");
    assert_eq!(field.devices[2].got.len(), 2);
}

#[test]
fn a_group_without_pairwise_keys_and_a_stranger_are_told_apart_from_members() {
    for profile in Profile::ALL.iter().copied() {
        let mut field = room(policy(profile));
        let now = field.now;
        let refused = field.devices[0].ask_one(now, ListenerId::new(1).unwrap(), b"on");
        assert_eq!(refused, Err(SendError::NoPairwiseKeys), "{profile}");
    }
    let mut field = room(paired());
    let now = field.now;
    for nobody in [63, 64, 70_000, (1 << 24) - 1] {
        let refused = field.devices[0].ask_one(now, ListenerId::new(nobody).unwrap(), b"on");
        assert_eq!(refused, Err(SendError::NotAMember), "{nobody}");
    }
    let own = listener(&field, 0);
    assert_eq!(field.devices[0].ask_one(now, own, b"on"), Err(SendError::NotAMember));
    let refused = field.devices[1].ask_one(now, own, b"on");
    assert_eq!(refused, Err(SendError::Role));
    field.devices[0].member.receive_only();
    let to = listener(&field, 1);
    assert_eq!(field.devices[0].ask_one(now, to, b"on"), Err(SendError::NotStarted));
}

/// Converts a suspended state to version 1, which has no second window for each sender.
fn without_direct_requests(left: &[u8]) -> Vec<u8> {
    const COUNT: usize = 62;
    const ENTRY: usize = 1 + 8 + 2 * 24;
    let (head, entries) = left.split_at(COUNT + 2);
    let senders = usize::from(u16::from_be_bytes([left[COUNT], left[COUNT + 1]]));
    let (senders, rest) = entries.split_at(senders * ENTRY);
    let mut old = head.to_vec();
    old[0] = 1;
    senders.chunks(ENTRY).for_each(|sender| old.extend(&sender[..ENTRY - 24]));
    old.extend(rest);
    old
}

/// A member whose program was updated between two runs, from a version without direct requests.
#[test]
fn what_the_version_before_left_behind_is_resumed_and_direct_requests_are_taken_once() {
    let mut field = room(paired());
    let asked = field.ask(0, b"on");
    field.nap_as(1, without_direct_requests);
    field.acquaint();
    assert!(field.devices[1].events().is_empty(), "no new epoch is needed");
    let from = field.devices[0].address;
    field.devices[1].hear(field.now, from, &asked);
    assert_eq!(got(&field, 1), 1);
    let direct = field.ask_one(0, 1, b"off");
    field.devices[1].hear(field.now, from, &direct);
    assert_eq!(field.devices[1].got[1..], [Got::Direct(SenderId(7), b"off".into())]);
}

/// A listener that still receives an earlier epoch does not hear a sender there whose SenderID the
/// controller has given to another member, or to no member, since.
#[test]
fn the_former_owner_of_a_sender_id_is_not_heard_in_an_epoch_before() {
    for is_given_away in [true, false] {
        let mut field = room(paired());
        let second = field.add(Some(8), false);
        field.wait(2);
        field.acquaint();
        field.ask_one(0, 1, b"on");
        let former = field.devices[0].identity.exchange().clone();
        let old = [70, 71].map(|number| forged(&field, 1, &former, number));
        let (now, from) = (field.now, field.devices[0].address);
        field.change(&[], 0, |_| true);
        // Until the controller says otherwise the SenderID belongs to the same member.
        field.devices[1].hear(now, from, &old[0]);
        assert_eq!(got(&field, 1), 2);
        let owner = (field.devices[second].identity.public(), field.devices[second].leaf);
        let mut page = field.page(Lookup::sender(SenderId(7)));
        page.members.retain(|entry| entry.sender == Some(SenderId(7)) && is_given_away);
        for entry in &mut page.members {
            (entry.keys, entry.leaf) = owner;
        }
        field.devices[1].member.learn(now, &page);
        field.devices[1].hear(now, from, &old[1]);
        assert_eq!(got(&field, 1), 2, "given away: {is_given_away}");
        assert!(field.devices[1].member.stats().unknown_keys >= 1);
    }
}
