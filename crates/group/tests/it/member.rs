//! Members of a group in both profiles: what they deliver, and what they must never deliver.

use lightseal_core::Random;
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_group::member::{Listener, SendError};
use lightseal_group::numbers::{LedgerFailed, NoNumber};
use lightseal_group::policy::{Freshness, Profile};
use lightseal_group::{Policy, SenderId, SenderSet};
use std::collections::BTreeSet;
use testkit::group::field::{self, CONTROLLER, Field, Got, policy};

/// A group of a switch and two lights in the same epoch.
fn room(profile: Profile) -> Field {
    settled(Field::new(profile, 1))
}

fn settled(mut field: Field) -> Field {
    field.add(Some(7), false);
    field.add(None, true);
    field.add(None, true);
    field.wait(20);
    field.devices.iter_mut().for_each(|device| drop(device.events()));
    field
}

fn each(test: impl Fn(Profile)) {
    Profile::ALL.iter().copied().for_each(test);
}

fn got(field: &Field, index: usize) -> usize {
    field.devices[index].got.len()
}

#[test]
fn a_request_reaches_all_listeners_and_every_answer_the_sender() {
    each(|profile| {
        let mut field = room(profile);
        for round in 0..3 {
            field.ask(0, b"on");
            field.answer(1, 0, b"is on");
            field.answer(2, 0, b"is on too");
            for light in [1, 2] {
                assert_eq!(got(&field, light), round + 1);
                assert_eq!(
                    field.devices[light].got[round],
                    Got::Request(SenderId(7), b"on".into())
                );
            }
        }
        let answers: BTreeSet<_> = field.devices[0]
            .got
            .iter()
            .map(|got| match got {
                Got::Response(listener, _) => *listener,
                Got::Request(..) | Got::Direct(..) => panic!("only device 0 sends requests"),
            })
            .collect();
        let expected = |index: usize| match profile {
            Profile::Axiom12 => Listener::Address(field.devices[index].address.ip()),
            Profile::Compact => Listener::Id(field.devices[index].member.listener()),
        };
        assert_eq!(answers, [expected(1), expected(2)].into());
        assert_eq!(got(&field, 0), 6);
    });
}

#[test]
fn overheads_are_those_of_the_specification() {
    for (profile, request, response) in [(Profile::Axiom12, 29, 29), (Profile::Compact, 14, 16)] {
        let mut field = room(profile);
        assert_eq!(field.ask(0, b"dim to 40 %").len(), 11 + request);
        assert_eq!(field.answer(1, 0, b"yes").len(), 3 + response);
    }
}

#[test]
fn all_suites_of_both_profiles_work() {
    let suites = [
        (Profile::Axiom12, CipherSuiteId::PSK_WITH_AES_128_CCM),
        (Profile::Axiom12, CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256),
        (Profile::Axiom12, CipherSuiteId::PSK_WITH_NULL_SHA256),
        (Profile::Compact, CipherSuiteId::AES_128_CCM_SHA256),
        (Profile::Compact, CipherSuiteId::AES_128_GCM_SHA256),
        (Profile::Compact, CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256),
    ];
    for (profile, suite) in suites {
        let mut field = settled(Field::with(Policy { suite, ..policy(profile) }, 2));
        field.ask(0, b"on");
        field.answer(2, 0, b"is on");
        assert_eq!((got(&field, 1), got(&field, 0)), (1, 1), "{suite}");
    }
}

#[test]
fn nothing_is_delivered_twice() {
    each(|profile| {
        let mut field = room(profile);
        let asked: Vec<_> = (0..5).map(|n| field.ask(0, &[n])).collect();
        let answered: Vec<_> = (0..5).map(|n| field.answer(1, 0, &[n])).collect();
        let (switch, light) = (field.devices[0].address, field.devices[1].address);
        for datagram in asked.iter().rev() {
            field.devices[1].hear(field.now, switch, datagram);
        }
        for datagram in answered.iter().rev() {
            field.devices[0].hear_alone(field.now, light, datagram);
        }
        assert_eq!((got(&field, 1), got(&field, 0)), (5, 5));
        assert_eq!(field.devices[1].member.stats().replayed, 5);
    });
}

#[test]
fn what_comes_out_of_order_is_delivered_all_the_same() {
    each(|profile| {
        let mut field = room(profile);
        let switch = field.devices[0].address;
        let asked: Vec<_> =
            (0..20).map(|n| field.devices[0].ask(field.now, &[n]).unwrap()).collect();
        for datagram in asked.iter().rev() {
            field.devices[1].hear(field.now, switch, datagram);
        }
        assert_eq!(got(&field, 1), 20);
    });
}

#[test]
fn a_damaged_datagram_leaves_no_trace() {
    each(|profile| {
        let mut field = room(profile);
        let (switch, light) = (field.devices[0].address, field.devices[1].address);
        let asked = field.devices[0].ask(field.now, b"on").unwrap();
        for at in 0..asked.len() {
            for damaged in
                [[&asked[..at], &[asked[at] ^ 1], &asked[at + 1..]].concat(), asked[..at].into()]
            {
                field.devices[1].hear(field.now, switch, &damaged);
                field.devices[0].hear_alone(field.now, light, &damaged);
            }
        }
        assert_eq!((got(&field, 1), got(&field, 0)), (0, 0));
        field.devices[1].hear(field.now, switch, &asked);
        assert_eq!(got(&field, 1), 1);
    });
}

#[test]
fn noise_of_any_kind_is_dropped() {
    each(|profile| {
        let mut field = room(profile);
        let mut rng = Random::insecure(3);
        let from = "[fd00::bad]:1".parse().unwrap();
        field.ask(0, b"on");
        let true_one = field.answer(1, 0, b"is on");
        for _ in 0..20_000 {
            let len = rng.below(80) as usize;
            let mut noise = vec![0; len];
            rng.fill(&mut noise);
            // The beginning of a genuine record, followed by random bytes.
            let shown = (rng.below(14) as usize).min(len).min(true_one.len());
            noise[..shown].copy_from_slice(&true_one[..shown]);
            for device in &mut field.devices {
                device.hear(field.now, from, &noise);
                device.hear_alone(field.now, from, &noise);
            }
        }
        assert_eq!((got(&field, 0), got(&field, 1), got(&field, 2)), (1, 1, 1));
        field.ask(0, b"off");
        field.answer(2, 0, b"is off");
        assert_eq!((got(&field, 0), got(&field, 1), got(&field, 2)), (2, 2, 2));
    });
}

#[test]
fn who_is_no_sender_drops_responses_and_sends_no_requests() {
    each(|profile| {
        let mut field = room(profile);
        field.ask(0, b"on");
        let answer = field.devices[1].answer(field.now, SenderId(7), b"is on").unwrap();
        let from = field.devices[1].address;
        assert!(field.devices[2].hear_alone(field.now, from, &answer));
        assert_eq!(got(&field, 2), 1);
        assert_eq!(field.devices[1].ask(field.now, b"on"), Err(SendError::Role));
        assert_eq!(field.devices[0].answer(field.now, SenderId(7), b"x"), Err(SendError::Role));
        let nobody = field.devices[1].answer(field.now, SenderId(8), b"x");
        assert_eq!(nobody, Err(SendError::UnknownSender));
    });
}

#[test]
fn an_open_session_takes_precedence_for_responses() {
    each(|profile| {
        let mut field = room(profile);
        field.ask(0, b"on");
        let answer = field.devices[1].answer(field.now, SenderId(7), b"is on").unwrap();
        let (switch, light) = (field.devices[0].address, field.devices[1].address);
        field.devices[1].member.open_session(switch);
        let refused = field.devices[1].answer(field.now, SenderId(7), b"is on");
        assert_eq!(refused, Err(SendError::Session(switch)));
        field.devices[0].member.open_session(light);
        assert!(!field.devices[0].hear_alone(field.now, light, &answer), "the session's");
        field.devices[0].member.close_session(light);
        assert!(field.devices[0].hear_alone(field.now, light, &answer));
        assert_eq!(got(&field, 0), 1);
    });
}

#[test]
fn a_sender_that_is_not_on_the_list_is_not_heard() {
    each(|profile| {
        let mut field = room(profile);
        field.devices[1].member.set_senders(SenderSet::new());
        // A forged record under an unknown SenderID does not cause a request to the controller.
        let mut noise = field.devices[0].ask(field.now, b"on").unwrap();
        *noise.last_mut().unwrap() ^= 1;
        let switch = field.devices[0].address;
        field.devices[1].hear(field.now, switch, &noise);
        assert!(field.devices[1].events().is_empty());
        field.ask(0, b"on");
        assert_eq!((got(&field, 1), got(&field, 2)), (0, 1));
        assert_eq!(field.devices[1].events(), ["UnknownSender(SenderId(7))"]);
        assert_eq!(field.devices[1].member.stats().unknown_senders, 2);
    });
}

#[test]
fn two_senders_with_one_id_are_noticed() {
    each(|profile| {
        let mut field = room(profile);
        let other = field.add(Some(7), false);
        field.wait(20);
        field.devices[0].events();
        // The member's own request is looped back to it, which is not a conflict.
        field.ask(0, b"on");
        assert!(field.devices[0].events().is_empty());
        field.ask(other, b"one");
        field.ask(other, b"two");
        assert_eq!(field.devices[0].events(), ["SenderConflict(SenderId(7))"]);
    });
}

#[test]
fn who_is_evicted_hears_nothing_more_and_is_not_heard() {
    each(|profile| {
        let mut field = room(profile);
        field.add(Some(8), true);
        field.wait(20);
        let mut evicted = field.evict(3);
        field.wait(20);
        evicted.got.clear();
        assert!(evicted.events().iter().any(|event| event == "Excluded"));
        let before = got(&field, 1);
        let asked = field.ask(0, b"secret");
        let switch = field.devices[0].address;
        evicted.hear(field.now, switch, &asked);
        assert!(evicted.got.is_empty());
        assert_eq!(got(&field, 1), before + 1);
        let forged = evicted.ask(field.now, b"off").unwrap();
        field.devices[1].hear(field.now, evicted.address, &forged);
        assert_eq!(got(&field, 1), before + 1);
    });
}

#[test]
fn who_joins_opens_nothing_from_before() {
    each(|profile| {
        let mut field = room(profile);
        let early: Vec<_> = (0..4).map(|n| field.ask(0, &[n])).collect();
        let late = field.add(None, true);
        let switch = field.devices[0].address;
        // The other members still send in the old epoch.
        let between = field.ask(0, b"between");
        for datagram in early.iter().chain([&between]) {
            field.devices[late].hear(field.now, switch, datagram);
        }
        assert_eq!((got(&field, late), got(&field, 1)), (0, 5));
        field.wait(2);
        field.ask(0, b"after");
        assert_eq!((got(&field, late), got(&field, 1)), (1, 6));
    });
}

#[test]
fn the_old_epoch_is_heard_for_a_while_and_no_longer() {
    each(|profile| {
        let mut field = room(profile);
        let switch = field.devices[0].address;
        let old: Vec<_> = (0..2).map(|n| field.devices[0].ask(field.now, &[n]).unwrap()).collect();
        field.change(&[], 0, |_| true);
        field.wait(2);
        field.devices[1].hear(field.now, switch, &old[0]);
        assert_eq!(got(&field, 1), 1);
        field.wait(10);
        field.devices[1].hear(field.now, switch, &old[1]);
        assert_eq!(got(&field, 1), 1);
    });
}

#[test]
fn a_change_cipher_spec_of_the_controller_ends_an_epoch_at_once() {
    each(|profile| {
        let mut field = room(profile);
        let before = field.devices[0].member.epoch(field.now);
        field.change(&[], 0, |_| true);
        assert_eq!(field.devices[0].member.epoch(field.now), before);
        // The record is sealed while the controller still sends in the old epoch.
        let end = field.keys.secret().end_of_epoch(&field::GROUP, before);
        let now = field.say(ContentType::CHANGE_CIPHER_SPEC, &end);
        let from = CONTROLLER.parse().unwrap();
        field.devices.iter_mut().for_each(|device| device.hear(field.now, from, &now));
        assert_eq!(field.devices[0].member.epoch(field.now), before + 1);
        field.ask(0, b"on");
        assert_eq!(got(&field, 1), 1);
    });
}

/// The truncated epoch in its records could also be that of a later epoch.
#[test]
fn a_sender_that_stays_behind_makes_others_ask_nothing_for_a_while() {
    let mut field = Field::new(Profile::Compact, 5);
    let (behind, ahead) = (field.add(Some(1), true), field.add(Some(2), true));
    field.change(&[], 0, |index| index != behind);
    // After this time the old epoch is no longer received.
    field.wait(15);
    field.ask(behind, b"still here");
    field.wait(14);
    assert!(!field.devices[ahead].pulls());
    // By now that sender would have got the new keys, so the record is a sign of a missed rekey.
    field.wait(5);
    field.ask(behind, b"still here");
    field.wait(11);
    assert!(field.devices[ahead].pulls());
}

#[test]
fn who_missed_a_rekey_asks_once_and_goes_on() {
    each(|profile| {
        let mut field = room(profile);
        field.change(&[], 0, |index| index != 1);
        field.wait(2);
        for n in 0..50 {
            field.ask(0, &[n]);
        }
        assert_eq!((got(&field, 1), got(&field, 2)), (0, 50));
        field.wait(10);
        assert!(field.devices[1].pulls());
        field.ask(0, b"again");
        field.wait(1);
        assert!(!field.devices[1].pulls(), "the minimum time is not over");
        field.grant(1);
        field.ask(0, b"on");
        assert_eq!((got(&field, 1), got(&field, 2)), (1, 52));
    });
}

#[test]
fn a_restart_uses_no_number_again_and_delivers_nothing_again() {
    each(|profile| {
        let mut field = room(profile);
        let mut seen = BTreeSet::new();
        let switch = field.devices[0].address;
        let asked: Vec<_> = (0..3).map(|n| field.ask(0, &[n])).collect();
        let answered: Vec<_> = (0..3).map(|n| field.answer(1, 0, &[n])).collect();
        seen.extend(asked.iter().chain(&answered).cloned());
        field.restart(1);
        field.restart(0);
        assert_eq!(field.devices[0].events(), ["NewEpochNeeded"]);
        assert_eq!(field.devices[1].events(), ["NewEpochNeeded"]);
        let light = field.devices[1].address;
        let heard = (got(&field, 1), got(&field, 0));
        for (asked, answered) in asked.iter().zip(&answered) {
            field.devices[1].hear(field.now, switch, asked);
            field.devices[0].hear_alone(field.now, light, answered);
        }
        assert_eq!((got(&field, 1), got(&field, 0)), heard, "all of these are replays");
        // The switch continues in its epoch with unused numbers, so members that were not restarted
        // receive its requests.
        for n in 0..3 {
            assert!(seen.insert(field.ask(0, &[n])));
        }
        assert_eq!(got(&field, 2), 6);
        field.change(&[], 0, |_| true);
        field.wait(2);
        field.ask(0, b"on");
        field.answer(1, 0, b"is on");
        assert_eq!((got(&field, 1), got(&field, 0)), (heard.0 + 1, heard.1 + 1));
    });
}

#[test]
fn nothing_is_sent_without_a_ledger() {
    each(|profile| {
        let mut field = room(profile);
        field.ask(0, b"on");
        field.devices[1].disk.0.lock().unwrap().fails = true;
        let failed = field.devices[1].answer(field.now, SenderId(7), b"is on");
        assert_eq!(failed, Err(SendError::Number(NoNumber::Ledger(LedgerFailed))));
        field.restart(1);
        field.devices[1].disk.0.lock().unwrap().fails = false;
        field.change(&[], 0, |_| true);
        field.wait(2);
        field.ask(0, b"on");
        field.answer(1, 0, b"is on");
        assert_eq!(got(&field, 0), 1);
    });
}

/// The paper's method for listeners that start in the middle of an epoch (section 6.2).
#[test]
fn the_first_record_is_dropped_and_a_reference_if_the_policy_says_so() {
    let dropping = Policy { freshness: Freshness::DropFirst, ..policy(Profile::Axiom12) };
    let mut field = settled(Field::with(dropping, 4));
    let early: Vec<_> = (0..3).map(|n| field.ask(0, &[n])).collect();
    field.restart(1);
    assert!(field.devices[1].events().is_empty());
    let switch = field.devices[0].address;
    field.devices[1].got.clear();
    field.ask(0, b"first");
    assert_eq!(got(&field, 1), 0);
    field.ask(0, b"second");
    early.iter().for_each(|datagram| field.devices[1].hear(field.now, switch, datagram));
    assert_eq!(field.devices[1].got, [Got::Request(SenderId(7), b"second".into())]);
}

/// Section 6.4 of the paper leaves open that a newly created state would count from 0 again.
#[test]
fn who_is_idle_is_released_and_comes_back_without_a_number_used_twice() {
    each(|profile| {
        let mut field = room(profile);
        let mut seen = BTreeSet::new();
        for n in 0..4 {
            assert!(seen.insert(field.ask(0, &[n])));
            assert!(seen.insert(field.answer(1, 0, b"same")));
            let asked = field.ask(0, b"x");
            field.wait(1300);
            let switch = field.devices[0].address;
            field.devices[1].hear(field.now, switch, &asked);
        }
        assert_eq!((got(&field, 1), got(&field, 0)), (8, 4));
    });
}
