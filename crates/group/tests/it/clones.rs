//! Copies of a device: which of them can continue, and how the others are refused.

use lightseal_group::control::{Admitted, Answer, Reason, Request};
use lightseal_group::identity::PublicKeys;
use lightseal_group::member::SendError;
use lightseal_group::policy::Profile;
use lightseal_group::{SenderId, Start};
use testkit::group::field::GROUP;
use testkit::group::site::{self, BOTH, LISTENER, Site, ip};

fn each(test: impl Fn(Profile)) {
    Profile::ALL.iter().copied().for_each(test);
}

fn admitted(site: &mut Site, device: &str) -> Admitted {
    match site.last(device) {
        Some(Answer::Admitted(admitted)) => *admitted,
        other => panic!("{device}: {other:?}"),
    }
}

fn refusal(site: &mut Site, device: &str) -> Reason {
    match site.last(device) {
        Some(Answer::Refused(reason)) => reason,
        other => panic!("{device}: {other:?}"),
    }
}

#[test]
fn who_joins_again_shares_nothing_with_its_old_self_which_is_refused() {
    each(|profile| {
        let mut site = Site::new(profile);
        site.join("lamp", LISTENER);
        site.ask_to_join("switch", 1, BOTH, ip("switch"));
        site.wait(2000);
        let first = admitted(&mut site, "switch");
        let old = Start { instance: first.instance, counter: 0, nonce: [1; 8] };
        let (leaf, sender) = (first.grant.leaf, first.roles.sender);
        site.admit("switch", first, ip("switch"));
        // The second join of a device within a minute must wait.
        site.ask_to_join("switch", 2, BOTH, ip("switch"));
        assert_eq!(refusal(&mut site, "switch"), Reason::NotNow);
        site.wait(60_000);
        let second = admitted(&mut site, "switch");
        assert!(second.instance > old.instance);
        assert_ne!(second.grant.leaf, leaf);
        assert_ne!(second.roles.sender, sender);
        assert!(second.roles.sender.is_some_and(|sender| sender != SenderId::CONTROLLER));
        let pull = site.devices["switch"].member.keys().pull_request();
        for said in [
            Request::Pull(pull),
            Request::Renew(GROUP, 2),
            Request::Senders(GROUP),
            Request::Leave(GROUP),
            Request::Start { group: GROUP, resumes: true },
        ] {
            site.say_as(old, "switch", BOTH, said);
            assert_eq!(refusal(&mut site, "switch"), Reason::Superseded);
        }
        assert_eq!(site.clones.len(), 5);
        assert_eq!(site.controller.roster().get("switch").unwrap().clones, 5);
        assert_eq!(site.controller.roster().len(), 2);
    });
}

#[test]
fn an_administrator_lets_a_device_in_that_waits_because_it_joins_again() {
    let mut site = Site::new(Profile::Compact);
    site.join("lamp", LISTENER);
    site.ask_to_join("lamp", 2, LISTENER, ip("lamp"));
    assert_eq!(refusal(&mut site, "lamp"), Reason::NotNow);
    site.wait(2000);
    assert!(site.last("lamp").is_none());
    site.controller.readmit(site.now, "lamp");
    site.wait(2000);
    let first = admitted(&mut site, "lamp");
    // A device that asks only after it was readmitted need not wait either.
    site.controller.readmit(site.now, "lamp");
    site.ask_to_join("lamp", 3, LISTENER, ip("lamp"));
    site.wait(2000);
    assert!(admitted(&mut site, "lamp").instance > first.instance);
}

#[test]
fn each_counter_is_taken_once_and_a_lost_answer_locks_nobody_out() {
    each(|profile| {
        let mut site = Site::new(profile);
        site.join("lamp", LISTENER);
        site.join("switch", BOTH);
        let known = site.controller.roster().get("switch").unwrap().start;
        let start = |counter, nonce| Start { counter, nonce: [nonce; 8], ..known };
        let resume = || Request::Start { group: GROUP, resumes: true };
        let epoch = site.controller.epoch();
        site.say_as(start(1, 7), "switch", BOTH, Request::Senders(GROUP));
        assert_eq!(refusal(&mut site, "switch"), Reason::NotStarted);
        // A run that follows a clean shutdown continues in the same epoch. Its answer is lost
        // twice.
        for _ in 0..3 {
            site.say_as(start(1, 7), "switch", BOTH, resume());
            assert!(matches!(site.last("switch"), Some(Answer::Started { clones: 0, .. })));
            site.restart();
        }
        assert_eq!(site.controller.epoch(), epoch);
        site.say_as(start(1, 8), "switch", BOTH, resume());
        assert_eq!(refusal(&mut site, "switch"), Reason::Copied);
        site.say_as(known, "switch", BOTH, Request::Senders(GROUP));
        assert_eq!(refusal(&mut site, "switch"), Reason::Superseded);
        site.say_as(start(1, 7), "switch", BOTH, Request::Senders(GROUP));
        assert!(matches!(site.last("switch"), Some(Answer::Senders(_))));
        // A device whose instance is later than the restored controller knows is told to join
        // again.
        let later = Start { instance: known.instance + 9, ..known };
        site.say_as(later, "switch", BOTH, Request::Senders(GROUP));
        assert_eq!(refusal(&mut site, "switch"), Reason::NotAMember);
        site.say_as(start(2, 9), "switch", BOTH, Request::Leave(GROUP));
        site.wait(200);
        assert!(matches!(site.last("switch"), Some(Answer::Noted)));
    });
}

#[test]
fn after_a_crash_a_member_gets_keys_that_its_old_self_cannot_follow() {
    each(|profile| {
        let mut site = Site::new(profile);
        site.join("lamp", LISTENER);
        site.join("switch", BOTH);
        site.wait(13_000);
        let known = site.controller.roster().get("switch").unwrap().clone();
        let epoch = site.controller.epoch();
        let crashed = Request::Start { group: GROUP, resumes: false };
        for nonce in [3, 3] {
            let start = Start { counter: 1, nonce: [nonce; 8], ..known.start };
            site.say_as(start, "switch", BOTH, crashed.clone());
        }
        assert!(site.last("switch").is_none(), "it waits for the rekey");
        site.wait(6_000);
        let Some(Answer::Started { grant, .. }) = site.last("switch") else { panic!() };
        assert_eq!((grant.epoch, grant.leaf), (epoch + 1, known.leaf));
        assert_eq!(site.controller.roster().get("switch").unwrap().roles, known.roles);
        // The previous run has received the rekey but cannot follow it. The other members can.
        assert_eq!(site.devices["switch"].member.keys().epoch(), epoch);
        assert_eq!(site.devices["lamp"].member.keys().epoch(), epoch + 1);

        // A run that waits for the answer to its start receives all records, and seals only in the
        // new epoch.
        let device = site.devices.get_mut("switch").unwrap();
        device.member.receive_only();
        let mut buf = [0; 200];
        let refused = device.member.request(site.now, b"on", &mut buf);
        assert_eq!(refused, Err(SendError::NotStarted));
        device.member.started(site.now, grant).unwrap();
        assert_eq!(device.member.epoch(site.now), epoch + 1);
        assert_eq!(site.request("switch"), 1);
    });
}

/// Without the controller's answer, a resumed run would continue under keys that another run of the
/// same state may be using.
#[test]
fn a_run_that_was_never_answered_leaves_nothing_to_resume() {
    for answered in [false, true] {
        let mut site = Site::new(Profile::Compact);
        site.join("switch", BOTH);
        let crashed = Request::Start { group: GROUP, resumes: false };
        let known = site.controller.roster().get("switch").unwrap().clone();
        let start = Start { counter: 1, nonce: [3; 8], ..known.start };
        site.say_as(start, "switch", BOTH, crashed);
        site.wait(20_000);
        let Some(Answer::Started { grant, .. }) = site.last("switch") else { panic!() };
        let mut member = site.devices.remove("switch").unwrap().member;
        member.receive_only();
        member.dangerous_release();
        let mut buf = [0; 200];
        assert!(member.request(site.now, b"on", &mut buf).is_ok());
        if answered {
            member.started(site.now, grant).unwrap();
        }
        assert_eq!(member.suspend().is_some(), answered);
    }
}

#[test]
fn what_cannot_be_read_is_refused_and_not_only_dropped() {
    let mut site = Site::new(Profile::Compact);
    // A join with invalid public keys.
    let mut join = vec![2, 1, 0, 0, 0, 9];
    join.extend([5; 8]);
    join.extend(b"\x06lights\x02\x04\x7f\0\0\x01");
    let unfit = |byte: &u8| PublicKeys::from_bytes(&[*byte; 64]).is_err();
    let mut small_order = site::identity("lamp").public().to_bytes();
    small_order[32..].fill(0);
    for keys in [[(0..=255).find(unfit).unwrap(); 64], small_order] {
        let join = [&join[..], &keys].concat();
        site.controller.handle(site.now, "lamp", BOTH, &join);
        site.settle();
        assert_eq!(refusal(&mut site, "lamp"), Reason::NotUnderstood);
    }
}

/// Two crashes of one device while its start waits do not count as a copy. A copy that is alive is
/// refused and counted when it asks again.
#[test]
fn a_start_that_follows_one_that_waits_is_a_crash_until_the_earlier_run_speaks_up() {
    each(|profile| {
        for is_alive in [false, true] {
            let mut site = Site::new(profile);
            site.join("lamp", LISTENER);
            site.join("switch", BOTH);
            site.wait(13_000);
            let known = site.controller.roster().get("switch").unwrap().clone();
            let crashed = || Request::Start { group: GROUP, resumes: false };
            let start = |counter| Start { counter, nonce: [counter as u8; 8], ..known.start };
            for counter in [1, 2, 3] {
                site.say_as(start(counter), "switch", BOTH, crashed());
                assert!(site.last("switch").is_none(), "it waits for the rekey");
            }
            if is_alive {
                site.say_as(start(2), "switch", BOTH, crashed());
                assert_eq!(refusal(&mut site, "switch"), Reason::Superseded);
            }
            site.wait(6_000);
            let clones = u32::from(is_alive);
            let Some(Answer::Started { clones: told, .. }) = site.last("switch") else { panic!() };
            assert_eq!((told, site.clones.len()), (clones, clones as usize));
            // None of the earlier runs has got the new keys, and none gets them now.
            site.say_as(start(1), "switch", BOTH, Request::Senders(GROUP));
            assert_eq!(refusal(&mut site, "switch"), Reason::Superseded);
        }
    });
}

#[test]
fn a_device_that_starts_or_leaves_without_end_costs_the_controller_little() {
    let mut site = Site::new(Profile::Compact);
    site.join("lamp", LISTENER);
    site.join("switch", BOTH);
    let known = site.controller.roster().get("switch").unwrap().start;
    let mut taken = 0;
    for counter in 1..=300 {
        let start = Start { counter, nonce: [7; 8], ..known };
        site.say_as(start, "switch", BOTH, Request::Start { group: GROUP, resumes: true });
        taken += usize::from(matches!(site.last("switch"), Some(Answer::Started { .. })));
    }
    assert!((1..=20).contains(&taken), "{taken} of 300 at once");
    // After a short time the device can continue, with its current counter.
    site.wait(2000);
    let start = Start { counter: 301, nonce: [7; 8], ..known };
    site.say_as(start, "switch", BOTH, Request::Start { group: GROUP, resumes: true });
    assert!(matches!(site.last("switch"), Some(Answer::Started { .. })));
    site.answers.clear();
    for _ in 0..1000 {
        site.say_as(start, "switch", BOTH, Request::Leave(GROUP));
    }
    site.wait(5000);
    let answers = &site.answers["switch"];
    assert_eq!(answers.len(), 1, "one rekey, one answer: {answers:?}");
}
