//! How listeners that start in the middle of an epoch recognise fresh records, and how listeners
//! that missed many records catch up.

use lightseal_dtls::crypto::rustcrypto;
use lightseal_group::compact::{Challenge, EpochSecret, RecordKeys, SealedRecord, Suite};
use lightseal_group::member::Transmit;
use lightseal_group::policy::{Authenticity, Freshness, Profile, Responses};
use lightseal_group::{Policy, SenderId};
use std::time::Duration;
use testkit::group::field::{self, Field, Got, policy};

/// Policies with challenges: signed, pairwise, and signed with pairwise responses.
fn policies() -> [Policy; 3] {
    let asking = Policy { freshness: Freshness::Challenge, ..policy(Profile::Compact) };
    let signed = Policy { authenticity: Authenticity::Source, ..asking.clone() };
    let paired = Policy { responses: Responses::Pairwise, ..asking };
    [signed.clone(), paired.clone(), Policy { responses: paired.responses, ..signed }]
}

/// A group of a switch and two lights that have received records of each other.
fn room(policy: Policy) -> Field {
    let mut field = Field::with(policy, 1);
    field.add(Some(7), false);
    for _ in 0..2 {
        field.add(None, true);
    }
    field.wait(20);
    field.acquaint();
    field.ask(0, b"hello");
    field.wait(2);
    field.carry();
    for device in &mut field.devices {
        device.events();
        device.got.clear();
    }
    field
}

fn got(field: &Field, index: usize) -> usize {
    field.devices[index].got.len()
}

/// The datagrams that the device `index` sends on its own within `seconds`.
fn sent(field: &mut Field, index: usize, seconds: u64) -> Vec<Transmit> {
    field.wait(seconds);
    let member = &mut field.devices[index].member;
    std::iter::from_fn(|| member.poll_transmit()).collect()
}

#[test]
fn a_late_listener_asks_and_delivers_nothing_before_the_answer() {
    for policy in policies() {
        let mut field = room(policy);
        let early: Vec<_> = (0..3).map(|n| field.ask(0, &[n])).collect();
        field.restart(1);
        field.acquaint();
        field.devices[1].got.clear();
        let switch = field.devices[0].address;
        early.iter().for_each(|datagram| field.devices[1].hear(field.now, switch, datagram));
        field.ask(0, b"before");
        field.wait(2);
        let carried = field.carry();
        let [challenge, answer] = &carried[..] else { panic!("{}", carried.len()) };
        assert_eq!((challenge.to, answer.to), (switch, field.devices[1].address));
        assert!(answer.datagram.len() <= challenge.datagram.len(), "no amplification");
        assert_eq!(got(&field, 1), 0);
        early.iter().for_each(|datagram| field.devices[1].hear(field.now, switch, datagram));
        field.ask(0, b"after");
        assert_eq!(field.devices[1].got, [Got::Request(SenderId(7), b"after".into())]);
        field.answer(1, 0, b"is on");
        assert_eq!(got(&field, 0), 1);
    }
}

#[test]
fn one_challenge_is_outstanding_and_its_answer_counts_once() {
    for policy in policies() {
        let mut field = room(policy);
        field.restart(1);
        field.acquaint();
        for n in 0..50 {
            field.ask(0, &[n]);
        }
        let challenges = sent(&mut field, 1, 2);
        assert_eq!(challenges.len(), 1);
        let (switch, light) = (field.devices[0].address, field.devices[1].address);
        field.devices[0].hear_alone(field.now, light, &challenges[0].datagram);
        let answers = sent(&mut field, 0, 0);
        assert_eq!(answers.len(), 1);
        // A replayed challenge gets no second answer.
        field.devices[0].hear_alone(field.now, light, &challenges[0].datagram);
        assert!(sent(&mut field, 0, 0).is_empty());
        // The light restarts once more, so the answer belongs to an outdated challenge.
        field.restart(1);
        field.acquaint();
        field.devices[1].got.clear();
        field.devices[1].hear_alone(field.now, switch, &answers[0].datagram);
        field.ask(0, b"on");
        field.devices[1].hear_alone(field.now, switch, &answers[0].datagram);
        field.ask(0, b"on");
        let again = sent(&mut field, 1, 2);
        assert_eq!((got(&field, 1), again.len()), (0, 1));
        field.devices[1].hear_alone(field.now, switch, &answers[0].datagram);
        field.ask(0, b"on");
        assert_eq!(got(&field, 1), 0);
        field.devices[0].hear_alone(field.now, light, &again[0].datagram);
        let answer = sent(&mut field, 0, 0).remove(0);
        field.devices[1].hear_alone(field.now, switch, &answer.datagram);
        field.ask(0, b"on");
        assert_eq!(got(&field, 1), 1);
    }
}

#[test]
fn who_gets_no_answer_asks_again_and_ever_more_seldom() {
    let mut field = room(policies()[1].clone());
    field.restart(1);
    field.acquaint();
    let mut times = Vec::new();
    for second in 0..1000 {
        field.ask(0, &[0]);
        if !sent(&mut field, 1, 1).is_empty() {
            times.push(second);
        }
    }
    assert!((6..=9).contains(&times.len()), "{times:?}");
    assert!(times.windows(3).skip(1).all(|at| at[2] - at[1] + 2 > at[1] - at[0]), "{times:?}");
}

#[test]
fn another_member_cannot_answer() {
    for policy in policies() {
        let mut field = room(policy);
        let asked = field.ask(0, b"on");
        field.restart(1);
        field.acquaint();
        field.devices[1].got.clear();
        field.ask(0, b"on");
        let mut sent = sent(&mut field, 1, 2);
        assert_eq!(sent.len(), 1);
        // The attacker has the group's keys and an identity of its own.
        let key = field.keys.epoch_key().unwrap();
        let secret = EpochSecret::new(field::GROUP, field.keys.epoch(), key.as_bytes());
        let suite = Suite::find(&rustcrypto::PROVIDER, field.policy.suite).unwrap();
        let (listener, own) =
            (field.devices[1].member.listener(), field.devices[2].identity.clone());
        let known = field.devices[1].identity.public().exchange;
        // The attacker can read a challenge under group keys, but not one under pairwise keys.
        let mut challenge = Challenge([9; 8]);
        if field.policy.responses == Responses::Group {
            let stream = secret.responses(SenderId(7), listener);
            let keyed = secret.response_secret(SenderId(7), listener);
            let keys = RecordKeys::new(suite, stream, &keyed);
            let (record, _) = SealedRecord::response(&mut sent[0].datagram).unwrap();
            let verifier = field.devices[1].identity.signing().public();
            let opened = record.reveal(&keys, 0).open(&keys, Some(&verifier)).unwrap();
            challenge = Challenge::asked(keys.stream(), &opened).unwrap();
        }
        let stream = secret.requests(SenderId(7));
        let requests = RecordKeys::new(suite, stream, &secret.request_secret(SenderId(7)));
        let pair = secret.pair_for_sender((SenderId(7), own.exchange()), (listener, &known));
        let answers = secret.answers(SenderId(7), listener);
        let keyed = pair.unwrap().answer_secret(&challenge.0);
        let answers = RecordKeys::new(suite, answers, &keyed);
        let from = field.devices[0].address;
        let mut buf = [0; 200];
        let before = *field.devices[1].member.stats();
        for (keys, signer) in
            [(&requests, None), (&requests, Some(own.signing())), (&answers, None)]
        {
            let len = keys.seal(&challenge.answer(1 << 20, signer), &mut buf).unwrap();
            field.devices[1].hear_alone(field.now, from, &buf[..len]);
        }
        let after = field.devices[1].member.stats();
        let dropped = |stats: &lightseal_group::member::Stats| {
            stats.forged + stats.unauthentic + stats.strangers + stats.unknown_keys
        };
        assert_eq!(dropped(after) - dropped(&before), 3);
        field.devices[1].hear(field.now, from, &asked);
        assert_eq!(got(&field, 1), 0);
    }
}

#[test]
fn noise_makes_nobody_answer_nor_ask_often() {
    for policy in policies() {
        let mut field = room(policy);
        let mut noise = field.ask(0, b"on");
        *noise.last_mut().unwrap() ^= 1;
        field.restart(1);
        field.acquaint();
        let from = "[fd00::bad]:1".parse().unwrap();
        let mut challenges = 0;
        for _ in 0..1000 {
            field.devices[1].hear(field.now, from, &noise);
            field.devices[0].hear_alone(field.now, from, &noise);
            field.now += Duration::from_millis(20);
            challenges += sent(&mut field, 1, 0).len();
            assert!(sent(&mut field, 0, 0).is_empty());
        }
        assert!(challenges <= 3, "{challenges}");
        // An authentic record causes a challenge to the address that it came from.
        field.wait(300);
        field.ask(0, b"on");
        field.wait(2);
        assert_eq!(field.carry().len(), 2);
        field.devices[1].got.clear();
        field.ask(0, b"on");
        assert_eq!(got(&field, 1), 1);
    }
}

#[test]
fn noise_of_any_kind_is_dropped() {
    for policy in policies() {
        let mut field = room(policy);
        field.restart(2);
        field.acquaint();
        let asked = field.ask(0, b"on");
        let answered = field.answer(1, 0, b"is on");
        field.wait(2);
        let mut genuine = vec![asked, answered];
        genuine.extend(field.carry().into_iter().map(|sent| sent.datagram));
        let before = [0, 1, 2].map(|index| got(&field, index));
        let mut rng = lightseal_core::Random::insecure(3);
        let from = "[fd00::bad]:1".parse().unwrap();
        for _ in 0..10_000 {
            let mut noise = vec![0; rng.below(120) as usize];
            rng.fill(&mut noise);
            let copied = &genuine[rng.below(genuine.len() as u64) as usize];
            // The beginning of a genuine record, followed by random bytes.
            let shown = (rng.below(40) as usize).min(noise.len()).min(copied.len() - 1);
            noise[..shown].copy_from_slice(&copied[..shown]);
            for device in &mut field.devices {
                device.hear(field.now, from, &noise);
                device.hear_alone(field.now, from, &noise);
            }
        }
        assert_eq!([0, 1, 2].map(|index| got(&field, index)), before);
        field.wait(300);
        field.ask(0, b"wake");
        field.wait(2);
        field.carry();
        let before = [1, 2].map(|index| got(&field, index));
        field.ask(0, b"on");
        assert_eq!([1, 2].map(|index| got(&field, index)), before.map(|got| got + 1));
    }
}

#[test]
fn answers_come_at_a_bounded_rate() {
    let mut field = room(policies()[1].clone());
    field.ask(0, b"on");
    let mut answered = 0;
    for _ in 0..200 {
        field.answer(1, 0, b"is on");
        answered += sent(&mut field, 0, 0).len();
    }
    assert!((30..=40).contains(&answered), "{answered}");
}

#[test]
fn sync_records_bring_on_who_fell_behind() {
    for policy in [policy(Profile::Compact), policies()[0].clone()] {
        let mut field = room(policy);
        // More records than 16 bits can bridge, which one light does not receive.
        let mut syncs = Vec::new();
        for _ in 0..70_000_u32 {
            field.devices[0].ask(field.now, b"x").unwrap();
            syncs.extend(std::iter::from_fn(|| field.devices[0].member.poll_transmit()));
            if field.policy.authenticity == Authenticity::Source && syncs.len() == 2 {
                break;
            }
        }
        let by_source = field.policy.authenticity == Authenticity::Source;
        assert_eq!(syncs.len(), if by_source { 2 } else { 17 });
        assert!(syncs.iter().all(|sync| sync.to == field.policy.address));
        let switch = field.devices[0].address;
        let heard = got(&field, 1);
        if !by_source {
            field.ask(0, b"lost");
            assert_eq!(got(&field, 1), heard, "its number is reconstructed wrongly");
        }
        field.devices[1].hear(field.now, switch, &syncs.pop().unwrap().datagram);
        assert_eq!(got(&field, 1), heard, "a sync record is not delivered to the application");
        field.ask(0, b"on");
        assert_eq!(got(&field, 1), heard + 1);
    }
}

#[test]
fn a_sync_record_comes_ten_minutes_after_what_it_covers() {
    let mut field = room(policy(Profile::Compact));
    assert!(sent(&mut field, 0, 700).len() <= 1);
    assert!(sent(&mut field, 0, 3000).is_empty(), "nothing was sent since");
    field.ask(0, b"on");
    assert!(sent(&mut field, 0, 599).is_empty());
    let member = &field.devices[0].member;
    assert!(member.wake_at(field.now) <= field.now + Duration::from_secs(1));
    let mut sync = sent(&mut field, 0, 1);
    assert_eq!(sync.len(), 1);
    assert!(SealedRecord::request(&mut sync[0].datagram).is_ok());
}
