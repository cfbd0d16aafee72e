//! Attacks of a single member on its group, and their effects.

use lightseal_core::{Instant, Random};
use lightseal_group::compact::{EpochSecret, PlainRecord, RecordKeys, Suite};
use lightseal_group::control::{Answer, Request};
use lightseal_group::member::{Member, Membership, RequestKind, Roles};
use lightseal_group::policy::Profile;
use lightseal_group::rekey::{KeyPath, Timing};
use lightseal_group::{ListenerId, SenderId};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use testkit::group::field::{self, Disk, GROUP};
use testkit::group::site::{self, BOTH, LISTENER, Site, identity, ip, name};

fn room(profile: Profile, attackers: usize) -> Site {
    let mut site = Site::with(field::policy(profile), 7);
    for name in ["a", "b"] {
        site.join(name, LISTENER);
    }
    for n in 0..attackers {
        site.join(&format!("mallory {n}"), LISTENER);
    }
    site.join("switch", BOTH);
    for _ in 0..600 {
        site.wait(100);
        site.pull();
    }
    site
}

fn ask_to_join(site: &mut Site, device: &str, n: u32) {
    let mut nonce = [9; 8];
    nonce[..4].copy_from_slice(&n.to_be_bytes());
    let (keys, address) = (identity(device).public(), ip(device));
    let join = Request::Join { nonce, name: name(), roles: LISTENER, address, keys };
    site.say(device, LISTENER, join);
}

/// Runs a group for ten minutes in which devices join repeatedly, each as if it had lost its state,
/// while one announcement in twenty is lost. Returns the average number of epochs in a minute, how
/// many deliveries of the sender's requests to the two listeners were due, and how many took place.
fn rejoins(profile: Profile, attackers: usize) -> (f64, u64, u64) {
    let mut site = room(profile, attackers);
    let before = site.controller.epoch();
    site.loss = 20;
    let (mut sent, mut heard) = (0, 0);
    let minutes = 10;
    for n in 0..600 * minutes {
        if attackers > 0 {
            ask_to_join(&mut site, &format!("mallory {}", n as usize % attackers), n);
        }
        site.wait(100);
        if n % 10 == 0 {
            let before = ["a", "b"].map(|name| site.devices[name].got.len());
            site.request("switch");
            sent += 2;
            let after = ["a", "b"].map(|name| site.devices[name].got.len());
            heard += (after.iter().sum::<usize>() - before.iter().sum::<usize>()) as u64;
        }
        site.pull();
    }
    ((site.controller.epoch() - before) as f64 / f64::from(minutes), sent, heard)
}

#[test]
fn devices_that_join_again_and_again_keep_nobody_from_hearing() {
    let (mut worst, mut lines) = (100.0_f64, Vec::new());
    for profile in Profile::ALL.iter().copied() {
        for (attackers, most) in [(0, 0.0), (1, 0.5), (8, 4.0)] {
            let (epochs, sent, heard) = rejoins(profile, attackers);
            lines.push(format!(
                "\"{profile}, {attackers} devices join without end: {epochs:.1} epochs a minute, \
                 {heard} of {sent} requests heard\""
            ));
            worst = worst.min(heard as f64 * 100.0 / sent as f64);
            assert!(epochs <= most, "{epochs} epochs a minute");
        }
    }
    site::report(&format!("{{\"heard_percent\": {worst}, \"lines\": [{}]}}", lines.join(", ")));
    assert!(worst >= 99.0, "{worst} % heard");
}

/// A device may have lost its permission by the time its join is carried out.
#[test]
fn rights_are_looked_at_again_when_a_join_is_carried_out() {
    let mut site = room(Profile::Compact, 0);
    let allowed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let asked = std::sync::Arc::clone(&allowed);
    site.controller.set_admission(Box::new(move |_| {
        asked.load(std::sync::atomic::Ordering::Relaxed).then_some(LISTENER)
    }));
    ask_to_join(&mut site, "mallory", 1);
    allowed.store(false, std::sync::atomic::Ordering::Relaxed);
    site.wait(5000);
    assert!(matches!(site.last("mallory"), Some(Answer::Refused(_))));
    assert!(site.controller.roster().get("mallory").is_none());
    allowed.store(true, std::sync::atomic::Ordering::Relaxed);
    ask_to_join(&mut site, "mallory", 1);
    site.wait(5000);
    assert!(matches!(site.last("mallory"), Some(Answer::Admitted(_))));
}

/// The second join of a device must wait, and is carried out after a minute.
#[test]
fn a_second_join_within_a_minute_waits_for_its_end_and_an_eviction_for_nothing() {
    let mut site = room(Profile::Compact, 0);
    ask_to_join(&mut site, "lamp", 1);
    site.wait(200);
    assert!(matches!(site.last("lamp"), Some(Answer::Admitted(_))));
    let epoch = site.controller.epoch();
    ask_to_join(&mut site, "lamp", 2);
    assert!(matches!(
        site.last("lamp"),
        Some(Answer::Refused(lightseal_group::control::Reason::NotNow))
    ));
    site.wait(59_000);
    assert!(site.last("lamp").is_none());
    assert_eq!(site.controller.epoch(), epoch);
    site.wait(2000);
    assert!(matches!(site.last("lamp"), Some(Answer::Admitted(_))));
    // Another join would have to wait for two minutes. But the device is evicted at once, and its
    // waiting join is refused.
    ask_to_join(&mut site, "lamp", 3);
    site.last("lamp");
    let epoch = site.controller.epoch();
    assert_eq!(site.controller.evict(site.now, "lamp"), Ok(true));
    site.settle();
    assert_eq!(site.controller.epoch(), epoch + 1);
    assert!(matches!(site.last("lamp"), Some(Answer::Refused(_))));
    site.wait(600_000);
    assert_eq!(site.controller.epoch(), epoch + 1);
    assert!(site.controller.roster().get("lamp").is_none());
}

/// Sends responses of invented ListenerIDs, as a member of a `compact` group can, and returns how
/// many were delivered.
fn made_up_ids(site: &mut Site) -> usize {
    let keys = site.devices["mallory 0"].member.keys();
    let (epoch, root) = (keys.epoch(), keys.epoch_key());
    let secret = EpochSecret::new(GROUP, epoch, root.as_bytes());
    let suite =
        Suite::find(&lightseal_dtls::crypto::rustcrypto::PROVIDER, site.policy.suite).unwrap();
    let (from, now) = (site.devices["mallory 0"].address, site.now);
    let mut taken = 0;
    for id in 0..20_000_u32 {
        let id = ListenerId::new(id * 37 % (1 << 24)).unwrap();
        let keyed = secret.response_secret(SenderId(0), id);
        let keys = RecordKeys::new(suite, secret.responses(SenderId(0), id), &keyed);
        let mut buf = [0; 100];
        let len = keys.seal(&PlainRecord::data(0, b"x"), &mut buf).unwrap();
        let switch = &mut site.devices.get_mut("switch").unwrap().member;
        switch.receive_unicast(now, from, &mut buf[..len], |_| taken += 1);
    }
    taken
}

/// Sends responses from spoofed addresses, as a member of an `axiom-1.2` group can, and returns how
/// many were delivered.
fn made_up_addresses(site: &mut Site) -> usize {
    let mut asked = [0; 200];
    let now = site.now;
    let switch = site.devices.get_mut("switch").unwrap();
    let len = switch.member.request(now, b"on", &mut asked).unwrap();
    let from = switch.address;
    let mut taken = 0;
    for n in 0..500_u16 {
        let keys = site.devices["mallory 0"].member.keys();
        let over = Timing::new(Duration::ZERO, Duration::ZERO).unwrap();
        let (keys, _) = KeyPath::join(keys.controller().clone(), keys.to_grant(over));
        let address = IpAddr::from([0xfd00, 0, 0, 7, 0, 0, 0, n]);
        let membership = Membership {
            policy: site.policy.clone(),
            roles: Roles { sender: None, listener: true },
            address,
            senders: [SenderId(0)].into(),
            keys,
            identity: identity("mallory 0"),
        };
        let provider = &lightseal_dtls::crypto::rustcrypto::PROVIDER;
        let ledger = Box::new(Disk::default());
        let rng = Random::insecure(n.into());
        let mut posing = Member::new(membership, provider, ledger, Instant::ZERO, rng).unwrap();
        posing.receive_multicast(now, from, &mut asked[..len].to_vec(), |_| {});
        let mut buf = [0; 200];
        let (_, len) =
            posing.respond(now, SenderId(0), RequestKind::Group, b"x", &mut buf).unwrap();
        let switch = &mut site.devices.get_mut("switch").unwrap().member;
        let from = SocketAddr::new(address, 5684);
        switch.receive_unicast(now, from, &mut buf[..len], |_| taken += 1);
    }
    taken
}

#[test]
fn a_sender_remembers_no_more_listeners_than_its_tree_has_leaves() {
    for profile in Profile::ALL.iter().copied() {
        let mut site = room(profile, 1);
        let taken = match profile {
            Profile::Compact => made_up_ids(&mut site),
            Profile::Axiom12 => made_up_addresses(&mut site),
        };
        // The group has four members.
        assert!(taken <= 4, "{profile}: {taken} delivered");
        let known = site.devices["switch"].member.state_for_tests();
        let listeners = known.matches("Address(").count() + known.matches("Id(ListenerId").count();
        assert!(listeners <= 4, "{profile}: {known}");
        assert!(site.devices["switch"].member.stats().strangers >= 400);
    }
}
