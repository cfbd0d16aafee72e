//! A controller and its members, over a network that loses, and a store that fails.

#[path = "field/mod.rs"]
mod field;

use dtls::crypto::rustcrypto;
use field::{Disk, GROUP, policy};
use group::control::{Admitted, Answer, Asked, GroupName, Numbered, Reason, Request, WantedRoles};
use group::controller::{
    Changes, Controller, Group, Member, Output, Roster, Settings, Store, StoreFailed,
};
use group::directory::Lookup;
use group::member::{Event, Membership};
use group::policy::Profile;
use group::rekey::{Chain, ControllerSecret, KeyPath, KeyServer, KeyTree, Node, NodeKey};
use group::{Identity, SenderId, Start};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use vocabulary::{Decode, Encode, Instant, Random, Writer};

const SEED: [u8; 32] = [3; 32];
const BOTH: WantedRoles = WantedRoles { sender: true, listener: true };
const LISTENER: WantedRoles = WantedRoles { sender: false, listener: true };

/// What a store holds.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Stored>>);

#[derive(Default)]
struct Stored {
    epoch: u64,
    chain: Option<([u8; 16], u32)>,
    depth: u8,
    nodes: BTreeMap<Node, NodeKey>,
    members: BTreeMap<String, Member>,
    fails: bool,
}

impl Store for Shelf {
    fn commit(&mut self, changes: &Changes<'_>) -> Result<(), StoreFailed> {
        let mut stored = self.0.lock().unwrap();
        if stored.fails {
            return Err(StoreFailed);
        }
        stored.epoch = changes.epoch;
        stored.chain = Some((*changes.chain.seed(), changes.chain.left()));
        stored.depth = changes.tree.depth();
        for node in changes.nodes {
            match changes.tree.key(*node) {
                Some(key) => drop(stored.nodes.insert(*node, key)),
                None => drop(stored.nodes.remove(node)),
            }
        }
        for name in changes.left {
            stored.members.remove(name);
        }
        for (name, member) in &changes.joined {
            stored.members.insert((*name).into(), (*member).clone());
        }
        Ok(())
    }
}

struct Site {
    profile: Profile,
    now: Instant,
    rng: Random,
    shelf: Shelf,
    disk: Disk,
    controller: Controller,
    devices: BTreeMap<String, Device>,
    answers: BTreeMap<String, Vec<Answer>>,
    /// One announcement in so many is lost, of each member.
    loss: u64,
    numbers: u32,
    /// What the controller says of copies.
    clones: Vec<(String, Reason)>,
}

struct Device {
    member: group::Member,
    address: SocketAddr,
    got: Vec<Vec<u8>>,
}

fn settings() -> Settings {
    Settings { batch: Duration::from_millis(100), ..Settings::default() }
}

fn name() -> GroupName {
    GroupName::new("lights").unwrap()
}

impl Site {
    fn new(profile: Profile) -> Self {
        let mut rng = Random::insecure(7);
        let keys = KeyServer::new(GROUP, ControllerSecret::from_seed(&SEED), &mut rng);
        let (shelf, disk) = (Shelf::default(), Disk::default());
        let now = Instant::from_micros(5_000_000);
        let group =
            Group { name: name(), policy: policy(profile), keys, roster: Roster::default() };
        let controller = Self::start(group, &shelf, &disk, now, &mut rng);
        Self {
            profile,
            now,
            rng,
            shelf,
            disk,
            controller,
            devices: BTreeMap::new(),
            answers: BTreeMap::new(),
            loss: 0,
            numbers: 0,
            clones: Vec::new(),
        }
    }

    fn start(
        group: Group,
        shelf: &Shelf,
        disk: &Disk,
        now: Instant,
        rng: &mut Random,
    ) -> Controller {
        let (store, ledger) = (Box::new(shelf.clone()), Box::new(disk.clone()));
        let provider = &rustcrypto::PROVIDER;
        Controller::new(group, settings(), provider, store, ledger, now, rng.fork()).unwrap()
    }

    /// The controller crashes and comes back with what it stored.
    fn restart(&mut self) {
        let stored = self.shelf.0.lock().unwrap();
        let secret = ControllerSecret::from_seed(&SEED);
        let (seed, left) = stored.chain.expect("it stored something");
        let chain = Chain::restore(seed, left).unwrap();
        let nodes = stored.nodes.iter().map(|(node, key)| (*node, key.clone()));
        let tree = KeyTree::restore(stored.depth, nodes).unwrap();
        let keys = KeyServer::restore(GROUP, secret, stored.epoch, chain, tree);
        let roster = Roster::restore(stored.members.clone());
        drop(stored);
        let group = Group { name: name(), policy: policy(self.profile), keys, roster };
        self.controller = Self::start(group, &self.shelf, &self.disk, self.now, &mut self.rng);
    }

    fn say(&mut self, device: &str, may: WantedRoles, said: Request) {
        let known = self.controller.roster().get(device).map(|member| member.start);
        let start = known.unwrap_or(Start { instance: 0, counter: 0, nonce: [0; 8] });
        self.say_as(start, device, may, said);
    }

    fn say_as(&mut self, start: Start, device: &str, may: WantedRoles, said: Request) {
        self.numbers += 1;
        let mut buf = [0; 700];
        let mut w = Writer::new(&mut buf);
        let asked = match said {
            Request::Join { .. } => Asked::new(self.numbers, said),
            said => Asked::by(start, self.numbers, said),
        };
        asked.write(&mut w).unwrap();
        let request = w.finish().to_vec();
        self.controller.handle(self.now, device, may, &request);
        self.settle();
    }

    /// Carries what the controller wants carried.
    fn settle(&mut self) {
        while let Some(output) = self.controller.poll() {
            match output {
                Output::Multicast(datagram) => {
                    for device in self.devices.values_mut() {
                        if self.loss > 0 && self.rng.below(self.loss) == 0 {
                            continue;
                        }
                        let from = field::CONTROLLER.parse().unwrap();
                        let mut datagram = datagram.clone();
                        device.member.receive_multicast(self.now, from, &mut datagram, |_| {});
                    }
                }
                Output::Answer { device, answer } => {
                    let answer = Numbered::<Answer>::decode(&answer).unwrap().said;
                    self.answers.entry(device).or_default().push(answer);
                }
                Output::Clone { device, reason } => self.clones.push((device, reason)),
                Output::Conflict(_) | Output::Unfit(_) => {}
            }
        }
    }

    fn wait(&mut self, millis: u64) {
        let end = self.now + Duration::from_millis(millis);
        while let Some(at) = self.controller.wake_at().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.controller.handle_timeout(self.now);
            self.settle();
        }
        self.now = end;
        for device in self.devices.values_mut() {
            device.member.handle_timeout(end);
        }
    }

    fn last(&mut self, device: &str) -> Option<Answer> {
        self.answers.get_mut(device)?.pop()
    }

    fn ask_to_join(&mut self, device: &str, nonce: u8, roles: WantedRoles, ip: IpAddr) {
        let keys = identity(device).public();
        let join = Request::Join { nonce: [nonce; 8], name: name(), roles, address: ip, keys };
        self.say(device, BOTH, join);
    }

    /// What an admitted device is.
    fn admit(&mut self, name: &str, admitted: Admitted, ip: IpAddr) {
        let Admitted { policy, roles, controller, senders, grant, .. } = admitted;
        let (keys, _) = KeyPath::join(controller, grant);
        let identity = identity(name);
        let membership = Membership { policy, roles, address: ip, senders, keys, identity };
        let ledger = Box::new(Disk::default());
        let rng = self.rng.fork();
        let provider = &rustcrypto::PROVIDER;
        let member = group::Member::new(membership, provider, ledger, self.now, rng).unwrap();
        let address = SocketAddr::new(ip, 5684);
        self.devices.insert(name.into(), Device { member, address, got: Vec::new() });
    }

    fn join(&mut self, device: &str, roles: WantedRoles) {
        let ip = ip(device);
        self.ask_to_join(device, 1, roles, ip);
        self.wait(200);
        let Some(Answer::Admitted(admitted)) = self.last(device) else { panic!("{device}") };
        self.admit(device, *admitted, ip);
        let senders = self.controller.roster().senders();
        for device in self.devices.values_mut() {
            device.member.set_senders(senders.clone());
        }
    }

    /// A request of one device, and who gets it.
    fn request(&mut self, from: &str) -> usize {
        let mut buf = [0; 200];
        let sender = self.devices.get_mut(from).unwrap();
        let len = sender.member.request(self.now, b"on", &mut buf).unwrap();
        let address = sender.address;
        let mut heard = 0;
        for device in self.devices.values_mut() {
            let before = device.got.len();
            let got = &mut device.got;
            let mut datagram = buf[..len].to_vec();
            device.member.receive_multicast(self.now, address, &mut datagram, |delivery| {
                got.push(format!("{delivery:?}").into_bytes());
            });
            heard += device.got.len() - before;
        }
        heard
    }

    /// Who missed a rekey asks for it.
    fn pull(&mut self) {
        let names: Vec<String> = self.devices.keys().cloned().collect();
        for name in names {
            let member = &mut self.devices.get_mut(&name).unwrap().member;
            let pull = std::iter::from_fn(|| member.next_event()).find_map(|event| match event {
                Event::Pull(pull) => Some(pull),
                _ => None,
            });
            if let Some(pull) = pull {
                self.say(&name, BOTH, Request::Pull(pull));
                if let Some(Answer::Granted(grant)) = self.last(&name) {
                    let device = self.devices.get_mut(&name).unwrap();
                    device.member.grant(self.now, grant).unwrap();
                }
            }
        }
    }
}

fn identity(device: &str) -> Identity {
    let mut rng = Random::insecure(device.bytes().map(u64::from).sum());
    Identity::generate(&mut rng)
}

fn ip(device: &str) -> IpAddr {
    let last = device.bytes().fold(1_u16, |sum, byte| sum.wrapping_mul(31) + u16::from(byte));
    IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last])
}

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
        // With another nonce it is a device that has lost everything.
        site.ask_to_join("light 3", 2, LISTENER, ip("light 3"));
        site.wait(200);
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
    site.wait(200);
    assert_eq!(refusal(&mut site, "x"), Reason::NotNow);
    assert!(site.controller.has_failed());
    site.shelf.0.lock().unwrap().fails = false;
    site.restart();
    site.join("x", LISTENER);
    // Noise is not even answered.
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
        // It listens on, but only the other hears.
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
            assert!(site.controller.rekey(site.now, round % 2 == 0));
            site.settle();
            site.wait(3000);
            // What they hear of the new epoch tells those who missed its beginning.
            site.request("switch");
            site.wait(25_000);
            site.pull();
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
        // 20 seconds of asking.
        let renewals = site.controller.epoch() - epoch;
        assert!((3..=5).contains(&renewals), "{renewals}");
        // Who joins does not wait for that.
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
    // Many leave at once, which takes several datagrams.
    for n in (0..40).step_by(2) {
        site.say(&format!("light {n}"), BOTH, Request::Leave(GROUP));
    }
    let mut said: BTreeMap<Vec<u8>, Vec<Instant>> = BTreeMap::new();
    let end = site.now + Duration::from_secs(4);
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
    site.join("switch", WantedRoles { sender: true, listener: false });
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
