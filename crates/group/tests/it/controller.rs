//! A controller and its members, with a network that loses datagrams and a store that fails.

use lightseal_core::Instant;
use lightseal_group::SenderId;
use lightseal_group::control::{Answer, GroupName, Reason, Request, RoleSet};
use lightseal_group::controller::{Activation, Output};
use lightseal_group::directory::Lookup;
use lightseal_group::policy::Profile;
use std::collections::BTreeMap;
use std::time::Duration;
use testkit::group::field::GROUP;
use testkit::group::site::{BOTH, LISTENER, Site, identity, ip, name};

fn each(test: impl Fn(Profile)) {
    Profile::ALL.iter().copied().for_each(test);
}

#[test]
fn who_joins_is_heard_by_who_was_there() {
    each(|profile| {
        let mut site = Site::new(profile);
        site.join("switch", BOTH);
        for name in ["a", "b", "c"] {
            site.join(name, LISTENER);
        }
        site.wait(3000);
        assert_eq!(site.request("switch"), 3);
        assert_eq!(site.controller.roster().len(), 4);
        assert_eq!(site.controller.roster().senders(), [SenderId(0)].into());
    });
}

#[test]
fn joins_that_come_together_are_one_rekey_and_the_same_join_twice_is_one() {
    each(|profile| {
        let mut site = Site::new(profile);
        for n in 0..20 {
            let device = format!("light {n}");
            site.ask_to_join(&device, 1, LISTENER, ip(&device));
            site.ask_to_join(&device, 1, LISTENER, ip(&device));
        }
        assert!(site.answers.is_empty());
        site.wait(200);
        assert_eq!((site.controller.epoch(), site.controller.roster().len()), (1, 20));
        site.ask_to_join("light 3", 1, LISTENER, ip("light 3"));
        assert_eq!(site.controller.epoch(), 1);
        let again: Vec<_> =
            site.answers["light 3"].iter().map(|answer| format!("{answer:?}")).collect();
        assert_eq!(again.len(), 2);
        // A join with another nonce means that the device has lost its state.
        site.ask_to_join("light 3", 2, LISTENER, ip("light 3"));
        site.wait(61_000);
        assert_eq!((site.controller.epoch(), site.controller.roster().len()), (2, 20));
    });
}

#[test]
fn what_may_not_be_is_refused_with_its_reason() {
    let mut site = Site::new(Profile::Axiom12);
    site.join("switch", BOTH);
    let refusal = |site: &mut Site, device: &str| match site.last(device) {
        Some(Answer::Refused(reason)) => reason,
        other => panic!("{other:?}"),
    };
    let other = GroupName::new("doors").unwrap();
    let keys = identity("x").public();
    let (nonce, address) = ([1; 8], ip("x"));
    let join = Request::Join { nonce, name: other, roles: LISTENER, address, keys };
    site.say("x", BOTH, join);
    assert_eq!(refusal(&mut site, "x"), Reason::NoSuchGroup);
    site.ask_to_join("x", 1, LISTENER, ip("switch"));
    assert_eq!(refusal(&mut site, "x"), Reason::AddressTaken);
    let join = Request::Join { nonce, name: name(), roles: BOTH, address, keys };
    site.say("x", LISTENER, join);
    assert_eq!(refusal(&mut site, "x"), Reason::Roles);
    site.say("x", BOTH, Request::Leave(GROUP));
    assert_eq!(refusal(&mut site, "x"), Reason::NotAMember);
    site.shelf.0.lock().unwrap().fails = true;
    site.ask_to_join("x", 1, LISTENER, ip("x"));
    site.wait(2000);
    assert_eq!(refusal(&mut site, "x"), Reason::NotNow);
    assert!(site.controller.has_failed());
    site.shelf.0.lock().unwrap().fails = false;
    site.restart();
    site.join("x", LISTENER);
    // A malformed datagram is not answered.
    site.controller.handle(site.now, "x", BOTH, &[1, 9, 9]);
    assert!(site.controller.poll().is_none());
}

#[test]
fn who_is_evicted_is_out_at_once() {
    each(|profile| {
        let mut site = Site::new(profile);
        site.join("switch", BOTH);
        site.join("a", LISTENER);
        site.join("b", BOTH);
        site.wait(13_000);
        let epoch = site.controller.epoch();
        assert_eq!(site.controller.evict(site.now, "b"), Ok(true));
        site.settle();
        assert_eq!(site.controller.epoch(), epoch + 1);
        assert_eq!(site.controller.evict(site.now, "b"), Ok(false));
        // The evicted member still listens, but only the other member receives the request.
        assert_eq!(site.request("switch"), 1);
        assert_eq!(site.request("b"), 0);
        site.say("b", BOTH, Request::Leave(GROUP));
        assert!(matches!(site.last("b"), Some(Answer::Refused(Reason::NotAMember))));
    });
}

#[test]
fn a_controller_comes_back_where_it_was() {
    each(|profile| {
        let mut site = Site::new(profile);
        site.join("switch", BOTH);
        for n in 0..9 {
            site.join(&format!("light {n}"), LISTENER);
            site.restart();
        }
        site.say("light 4", BOTH, Request::Leave(GROUP));
        site.wait(200);
        assert!(matches!(site.last("light 4"), Some(Answer::Noted)));
        site.restart();
        site.devices.remove("light 4");
        site.wait(15_000);
        assert_eq!(site.request("switch"), 8);
        assert_eq!(site.controller.roster().len(), 9);
    });
}

#[test]
fn half_of_all_announcements_may_be_lost() {
    each(|profile| {
        let mut site = Site::new(profile);
        site.join("switch", BOTH);
        for n in 0..12 {
            site.join(&format!("light {n}"), LISTENER);
        }
        site.wait(3000);
        site.loss = 2;
        for round in 0..10 {
            let activation =
                if round % 2 == 0 { Activation::AtOnce } else { Activation::Scheduled };
            site.controller.rekey(site.now, activation).unwrap();
            site.settle();
            site.wait(3000);
            // A record of the new epoch shows members that they have missed the rekey.
            site.request("switch");
            site.wait(25_000);
            site.pull();
            // Requests to the controller may also be lost, and are repeated.
            while !site.asking.is_empty() {
                site.wait(1000);
                site.pull();
            }
            assert_eq!(site.request("switch"), 12, "round {round}");
        }
    });
}

#[test]
fn keys_are_renewed_though_nobody_comes_or_goes() {
    let mut site = Site::new(Profile::Compact);
    site.join("switch", BOTH);
    let epoch = site.controller.epoch();
    site.wait(3 * 24 * 3600 * 1000 + 10_000);
    assert_eq!(site.controller.epoch(), epoch + 3);
}

#[test]
fn members_cannot_wear_the_controller_out() {
    each(|profile| {
        let mut site = Site::new(profile);
        site.join("switch", BOTH);
        let epoch = site.controller.epoch();
        for _ in 0..200 {
            let current = site.controller.epoch();
            site.say("switch", BOTH, Request::Renew(GROUP, current));
            site.wait(100);
        }
        // Members have asked for 20 seconds.
        let renewals = site.controller.epoch() - epoch;
        assert!((3..=5).contains(&renewals), "{renewals}");
        // A join does not have to wait for the interval between renewals.
        site.join("a", LISTENER);
    });
}

#[test]
fn all_that_is_said_is_repeated_in_its_time() {
    let mut site = Site::new(Profile::Compact);
    site.join("switch", BOTH);
    for n in 0..40 {
        site.ask_to_join(&format!("light {n}"), 1, LISTENER, ip(&format!("light {n}")));
    }
    site.wait(5000);
    // Many members leave at once, so the rekey needs several datagrams.
    for n in (0..40).step_by(2) {
        site.say(&format!("light {n}"), BOTH, Request::Leave(GROUP));
    }
    let mut said: BTreeMap<Vec<u8>, Vec<Instant>> = BTreeMap::new();
    // The time ends before the first reminder.
    let end = site.now + Duration::from_millis(1900);
    while let Some(at) = site.controller.wake_at().filter(|at| *at <= end) {
        site.controller.handle_timeout(at);
        while let Some(output) = site.controller.poll() {
            if let Output::Multicast(datagram) = output {
                said.entry(datagram).or_default().push(at);
            }
        }
    }
    assert!(said.len() > 1, "{}", said.len());
    let times: Vec<_> = said.values().collect();
    assert!(times.iter().all(|at| at.len() == 4 && at == &times[0]), "{times:?}");
    assert_eq!(site.controller.roster().len(), 21);
}

#[test]
fn members_are_told_each_others_keys() {
    let mut site = Site::new(Profile::Compact);
    site.join("switch", RoleSet { sender: true, listener: false });
    site.join("a", LISTENER);
    site.join("b", BOTH);
    let listener = site.controller.roster().get("a").unwrap().leaf.into();
    let page = |site: &mut Site, device: &str, lookup| {
        site.say(device, BOTH, Request::Lookup(GROUP, lookup));
        match site.last(device) {
            Some(Answer::Page(page)) => {
                assert_eq!((page.lookup, page.epoch), (lookup, site.controller.epoch()));
                page.members.iter().map(|member| member.keys).collect()
            }
            Some(Answer::Refused(Reason::NotAMember)) => Vec::new(),
            other => panic!("{other:?}"),
        }
    };
    let keys = |devices: &[&str]| -> Vec<_> {
        devices.iter().map(|device| identity(device).public()).collect()
    };
    let (senders, listeners) = (Lookup::sender(SenderId(1)), Lookup::listener(listener));
    assert_eq!(page(&mut site, "a", senders), keys(&["switch", "b"]));
    assert_eq!(page(&mut site, "switch", listeners), keys(&["a", "b"]));
    assert_eq!(page(&mut site, "a", Lookup::sender(SenderId(40))), []);
    assert_eq!(page(&mut site, "stranger", senders), []);
    site.restart();
    assert_eq!(site.controller.evict(site.now, "b"), Ok(true));
    site.settle();
    assert_eq!(page(&mut site, "a", senders), keys(&["switch"]));
    assert_eq!(page(&mut site, "b", senders), [], "it is told nothing more");
}

#[test]
fn only_senders_are_told_the_names_of_devices_and_the_epoch_of_these_names() {
    let mut site = Site::new(Profile::Compact);
    site.join("switch", RoleSet { sender: true, listener: false });
    site.join("a", LISTENER);
    let listener = site.controller.roster().get("a").unwrap().leaf;
    let lookup = Lookup::listener(listener.into());
    for _ in 0..2 {
        site.say("switch", BOTH, Request::Names(GROUP, lookup));
        let Some(Answer::Names(names)) = site.last("switch") else { panic!("no names") };
        assert_eq!((names.lookup, names.epoch), (lookup, site.controller.epoch()));
        assert_eq!(names.get(listener.get()), Some("a"));
        // The names of the next epoch state that epoch.
        site.join("b", LISTENER);
    }
    site.say("a", BOTH, Request::Names(GROUP, lookup));
    assert!(matches!(site.last("a"), Some(Answer::Refused(Reason::Roles))));
}
