//! A device that tries to prevent its eviction: it seals records under the controller's SenderID,
//! as every member can, and jams announcements.

use lightseal_core::{Instant, Random};
use lightseal_dtls::codepoints::ContentType;
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_group::codepoints::{GROUP_REKEY, GROUP_SENDERS, GROUP_SYNC};
use lightseal_group::member::{Member, Membership, POLLING_INTERVAL, Roles};
use lightseal_group::policy::{Authenticity, Profile};
use lightseal_group::rekey::checks::{BURST, INTERVAL};
use lightseal_group::rekey::{ControllerSecret, KeyPath, Timing};
use lightseal_group::{Policy, SenderId};
use std::time::Duration;
use testkit::group::field::{self, Disk, GROUP};
use testkit::group::site::{self, BOTH, LISTENER, SEED, Site, identity, ip};

const SUITES: [(Profile, &[CipherSuiteId]); 2] = [
    (
        Profile::Axiom12,
        &[
            CipherSuiteId::PSK_WITH_AES_128_CCM_8,
            CipherSuiteId::PSK_WITH_AES_128_CCM,
            CipherSuiteId::PSK_WITH_AES_128_GCM_SHA256,
            CipherSuiteId::PSK_WITH_CHACHA20_POLY1305_SHA256,
            CipherSuiteId::PSK_WITH_NULL_SHA256,
        ],
    ),
    (
        Profile::Compact,
        &[
            CipherSuiteId::AES_128_CCM_SHA256,
            CipherSuiteId::AES_128_CCM_8_SHA256,
            CipherSuiteId::AES_128_CTR_LIGHTMAC_SHA256,
            CipherSuiteId::AES_128_CTR_LIGHTMAC_8_SHA256,
            CipherSuiteId::AES_128_GCM_SHA256,
            CipherSuiteId::CHACHA20_POLY1305_SHA256,
        ],
    ),
];
const SENDERS: [&str; 2] = ["switch", "remote"];
const STAYING: [&str; 5] = ["switch", "remote", "a", "b", "c"];
const JAM: Duration = Duration::from_secs(1);

/// All combinations of profile, suite and authenticity.
fn policies() -> Vec<Policy> {
    let mut policies = Vec::new();
    for (profile, suites) in SUITES {
        for suite in suites {
            for authenticity in [Authenticity::Group, Authenticity::Source] {
                let policy = Policy { suite: *suite, authenticity, ..field::policy(profile) };
                policies.extend(policy.fault().is_none().then_some(policy));
            }
        }
    }
    policies
}

/// A group with two senders, three listeners, and a listener that is to be evicted.
fn room(policy: Policy, seed: u64) -> Site {
    let mut site = Site::with(policy, seed);
    for name in ["a", "b", "c", "mallory"] {
        site.join(name, LISTENER);
    }
    // The senders join last, so that the controller has announced the list of senders in this
    // epoch.
    for name in SENDERS {
        site.join(name, BOTH);
    }
    run(&mut site, Duration::from_secs(60));
    let epoch = site.controller.epoch();
    assert!(site.devices.values().all(|device| device.member.keys().epoch() == epoch));
    site
}

fn run(site: &mut Site, duration: Duration) {
    let end = site.now + duration;
    while site.now < end {
        site.wait(20);
        site.pull();
    }
}

/// A member that seals records under the controller's SenderID with the keys of an insider.
fn controllers_double(site: &mut Site) -> Member {
    let keys = site.devices["mallory"].member.keys();
    let now = Timing::new(Duration::ZERO, Duration::ZERO).unwrap();
    let (keys, _) = KeyPath::join(keys.controller().clone(), keys.to_grant(now));
    let membership = Membership {
        policy: site.policy.clone(),
        roles: Roles { sender: Some(SenderId::CONTROLLER), listener: false },
        address: ip("mallory"),
        senders: site.controller.roster().senders(),
        keys,
        identity: identity("mallory"),
    };
    let provider = &lightseal_dtls::crypto::rustcrypto::PROVIDER;
    let ledger = Box::new(Disk::default());
    Member::new(membership, provider, ledger, site.now, Random::insecure(5)).unwrap()
}

/// Delivers a record to all members except the attacker.
fn inject(site: &mut Site, double: &mut Member, kind: ContentType, content: &[u8]) {
    let mut buf = [0; 600];
    let len = double.seal_request(site.now, kind, content, &mut buf).unwrap();
    let from = field::CONTROLLER.parse().unwrap();
    for name in STAYING {
        let member = &mut site.devices.get_mut(name).unwrap().member;
        member.receive_multicast(site.now, from, &mut buf[..len].to_vec(), |_| {});
    }
}

/// Seals records with numbers far above the controller's: forged content, and content that the
/// controller itself has signed for this epoch.
fn burn_numbers(site: &mut Site) {
    let mut double = controllers_double(site);
    let mut buf = [0; 600];
    for _ in 0..5000 {
        double.seal_request(site.now, GROUP_SYNC, b"", &mut buf).unwrap();
    }
    let senders = site.controller.roster().senders();
    let epoch = site.controller.epoch();
    let secret = ControllerSecret::from_seed(&SEED);
    let list = secret.list_of_senders(&GROUP, epoch, &senders);
    for _ in 0..3 {
        inject(site, &mut double, GROUP_SYNC, b"");
        inject(site, &mut double, GROUP_SENDERS, &list);
        inject(site, &mut double, ContentType::APPLICATION_DATA, b"on");
        inject(site, &mut double, ContentType::CHANGE_CIPHER_SPEC, &[1; 65]);
        inject(site, &mut double, ContentType::CHANGE_CIPHER_SPEC, &[1]);
        inject(site, &mut double, GROUP_REKEY, &[1; 200]);
    }
}

/// The results of evictions.
#[derive(Default)]
struct Evicted {
    trials: u64,
    /// The time in seconds until the last sender, and until the last member, was in the new epoch.
    senders: f64,
    all: f64,
    /// The number of members that never entered the new epoch.
    behind: u64,
    /// The number of records sealed in the new epoch that the evicted device could read.
    opened: usize,
}

impl Evicted {
    fn add(&mut self, other: &Self) {
        self.trials += other.trials;
        self.senders = self.senders.max(other.senders);
        self.all = self.all.max(other.all);
        self.behind += other.behind;
        self.opened += other.opened;
    }

    fn report(&self) {
        let Self { trials, senders, all, behind, opened } = self;
        site::report(&format!(
            "{{\"trials\": {trials}, \"senders_seconds\": {senders}, \"all_seconds\": {all}, \
             \"behind\": {behind}, \"opened\": {opened}}}"
        ));
    }
}

/// Evicts the attacker. All announcements are lost during `jam`, and after it one in `loss` of
/// them.
fn evict(site: &mut Site, jam: Duration, loss: u64, patience: Duration) -> Evicted {
    let began = site.now;
    site.loss = if jam.is_zero() { loss } else { 1 };
    assert_eq!(site.controller.evict(site.now, "mallory"), Ok(true));
    site.settle();
    let epoch = site.controller.epoch();
    let mut evicted = Evicted { trials: 1, ..Evicted::default() };
    let mut entered = [None; STAYING.len()];
    loop {
        if site.now - began >= jam {
            site.loss = loss;
        }
        let now = site.now;
        for (name, entered) in STAYING.iter().zip(&mut entered) {
            let is_sender = SENDERS.contains(name);
            let member = &mut site.devices.get_mut(*name).unwrap().member;
            if entered.is_some() || member.epoch(now) != epoch {
                continue;
            }
            let seconds = (now - began).as_secs_f64();
            *entered = Some(seconds);
            evicted.all = evicted.all.max(seconds);
            if is_sender {
                evicted.senders = evicted.senders.max(seconds);
                // The evicted device must not be able to read this sender's records from now on.
                let before = site.devices["mallory"].got.len();
                site.request(name);
                evicted.opened += site.devices["mallory"].got.len() - before;
            }
        }
        evicted.behind = entered.iter().filter(|entered| entered.is_none()).count() as u64;
        if evicted.behind == 0 || now - began >= patience {
            break;
        }
        run(site, Duration::from_millis(20));
    }
    for name in SENDERS {
        let before = site.devices["mallory"].got.len();
        if site.devices.get_mut(name).unwrap().member.epoch(site.now) == epoch {
            site.request(name);
        }
        evicted.opened += site.devices["mallory"].got.len() - before;
    }
    assert!(site.devices["mallory"].member.keys().epoch() < epoch);
    evicted
}

#[test]
fn senders_leave_the_epoch_of_an_evicted_device_within_five_seconds() {
    let mut worst = Evicted::default();
    let first = site::setting("LIGHTSEAL_SEED", 100);
    for policy in policies() {
        for (jam, loss) in [(Duration::ZERO, 0), (Duration::ZERO, 5), (JAM, 0), (JAM, 5)] {
            for seed in first..first + site::setting("LIGHTSEAL_SEEDS", 2) {
                let mut site = room(policy.clone(), seed);
                burn_numbers(&mut site);
                let evicted = evict(&mut site, jam, loss, Duration::from_secs(60));
                if evicted.senders > 5.0 || evicted.behind > 0 {
                    println!("{policy:?}, jammed {jam:?}, loss 1 in {loss}, LIGHTSEAL_SEED={seed}");
                }
                worst.add(&evicted);
            }
        }
    }
    worst.report();
    assert_eq!((worst.behind, worst.opened), (0, 0));
    assert!(worst.senders <= 5.0, "senders stay behind for {} s", worst.senders);
    assert!(worst.all <= 20.0, "members stay behind for {} s", worst.all);
}

#[test]
fn where_nothing_of_the_controller_arrives_members_ask_it_from_time_to_time() {
    let mut worst = Evicted::default();
    let first = site::setting("LIGHTSEAL_SEED", 9);
    for policy in policies() {
        for seed in first..first + site::setting("LIGHTSEAL_SEEDS", 1) {
            let mut site = room(policy.clone(), seed);
            burn_numbers(&mut site);
            let forever = Duration::from_secs(3600);
            worst.add(&evict(&mut site, forever, 1, Duration::from_secs(400)));
        }
    }
    worst.report();
    assert_eq!((worst.behind, worst.opened), (0, 0));
    assert!(worst.all <= POLLING_INTERVAL.as_secs_f64(), "{} s", worst.all);
}

/// A device that was unreachable when an epoch began receives only the later reminders of the
/// controller.
#[test]
fn reminders_reach_who_was_away_for_minutes() {
    for policy in policies() {
        let mut site = room(policy.clone(), 11);
        let away = Duration::from_secs(100);
        let evicted = evict(&mut site, away, 0, Duration::from_secs(400));
        assert_eq!(evicted.behind, 0, "{policy:?}");
        assert!(evicted.all <= 140.0, "{} s: {policy:?}", evicted.all);
    }
}

/// Every announcement needs a signature of the controller, and the number of signature checks is
/// bounded.
#[test]
fn junk_under_the_controllers_sender_id_costs_a_bounded_number_of_checks() {
    for policy in policies() {
        let mut site = room(policy.clone(), 3);
        let mut double = controllers_double(&mut site);
        let epoch = site.controller.epoch();
        let before = *site.devices["a"].member.stats();
        let (began, records) = (site.now, 4000);
        for n in 0..records {
            // Forged lists of senders and ends of epochs, alternately, 4000 in 10 s.
            let kind = [GROUP_SENDERS, ContentType::CHANGE_CIPHER_SPEC][n % 2];
            inject(&mut site, &mut double, kind, &[1; 96][..if n % 2 == 0 { 96 } else { 65 }]);
            site.now += Duration::from_micros(2500);
        }
        let stats = *site.devices["a"].member.stats();
        let checked = stats.forged - before.forged;
        let bound =
            u64::from(BURST) + (site.now - began).as_micros() as u64 / INTERVAL.as_micros() as u64;
        assert!(checked <= bound + 1, "{checked} of {records}, {bound}: {policy:?}");
        assert!(stats.unchecked > before.unchecked);
        // The eviction takes effect nevertheless.
        let evicted = evict(&mut site, Duration::ZERO, 0, Duration::from_secs(10));
        assert_eq!((evicted.behind, evicted.all), (0, 0.0), "{policy:?}");
        assert_eq!(site.controller.epoch(), epoch + 1);
    }
}

/// An insider receives the rekey before the other members, and floods them with forged messages
/// that contain its element of the hash chain.
#[test]
fn junk_behind_a_genuine_element_has_members_ask_the_controller() {
    for policy in policies() {
        let mut site = room(policy.clone(), 3);
        let mut double = controllers_double(&mut site);
        let mut double_now = |site: &mut Site, element: &[u8; 16]| {
            let mut junk = vec![0; 200];
            junk[..4].copy_from_slice(&[1, 1, GROUP.alias(), 0]);
            junk[4..12].copy_from_slice(&site.controller.epoch().to_be_bytes());
            junk[12..28].copy_from_slice(element);
            // Depth 3, and a shape with only the root, wrapped under its own old key.
            junk[31] = 3;
            junk.truncate(32);
            junk.extend([0x00]);
            junk.extend([7; 24]);
            junk.extend([9; 64]);
            inject(site, &mut double, GROUP_REKEY, &junk);
        };
        site.loss = 1;
        assert_eq!(site.controller.evict(site.now, "mallory"), Ok(true));
        site.settle();
        let element = {
            let stored = site.shelf.0.lock().unwrap();
            let (seed, left) = stored.chain.unwrap();
            lightseal_group::rekey::Chain::restore(seed, left).unwrap().anchor(&GROUP)
        };
        let before = *site.devices["a"].member.stats();
        for _ in 0..1000 {
            double_now(&mut site, &element);
        }
        let refused = site.devices["a"].member.stats().refused_rekeys - before.refused_rekeys;
        assert_eq!(refused, 1000, "{policy:?}");
        let began: Instant = site.now;
        while site.devices["a"].member.keys().epoch() < site.controller.epoch() {
            assert!(site.now - began < Duration::from_secs(1), "{policy:?}");
            run(&mut site, Duration::from_millis(20));
        }
    }
}
