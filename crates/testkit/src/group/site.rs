//! A simulated controller with its members: their requests and answers, and a store that can fail.
//! The clock is the test's.

use crate::group::field::{self, Disk, GROUP, policy};

use lightseal_core::{Decode, Encode, Instant, Random, Writer};
use lightseal_dtls::crypto::rustcrypto;
use lightseal_group::control::{
    Admitted, Answer, AnswerMessage, GroupName, Reason, Request, RequestMessage, RoleSet,
};
use lightseal_group::controller::{
    Controller, Group, Member, Output, Roster, Settings, Store, StoreFailed, StoreUpdate,
};
use lightseal_group::member::{Event, Membership};
use lightseal_group::policy::Profile;
use lightseal_group::rekey::{
    Chain, ControllerSecret, KeyPath, KeyServer, KeyTree, Node, NodeKey, PullRequest,
};
use lightseal_group::{Identity, Policy, Start};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const SEED: [u8; 32] = [3; 32];
pub const BOTH: RoleSet = RoleSet { sender: true, listener: true };
pub const LISTENER: RoleSet = RoleSet { sender: false, listener: true };

/// The content of a controller's store.
#[derive(Clone, Default)]
pub struct Shelf(pub Arc<Mutex<Stored>>);

#[derive(Clone, Default)]
pub struct Stored {
    pub epoch: u64,
    pub chain: Option<([u8; 16], u32)>,
    pub depth: u8,
    pub nodes: BTreeMap<Node, NodeKey>,
    pub members: BTreeMap<String, Member>,
    pub fails: bool,
}

impl Store for Shelf {
    fn commit(&mut self, changes: &StoreUpdate<'_>) -> Result<(), StoreFailed> {
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

impl Shelf {
    /// The group with which a controller starts: the stored one, or a new one.
    pub fn group(&self, policy: &Policy, rng: &mut Random) -> Group {
        let secret = ControllerSecret::from_seed(&SEED);
        let stored = self.0.lock().unwrap().clone();
        let keys = match stored.chain {
            None => KeyServer::new(GROUP, secret, rng),
            Some((seed, left)) => {
                let chain = Chain::restore(seed, left).unwrap();
                let tree = KeyTree::restore(stored.depth, stored.nodes).unwrap();
                KeyServer::restore(GROUP, secret, stored.epoch, chain, tree)
            }
        };
        let roster = Roster::restore(stored.members);
        Group { name: name(), policy: policy.clone(), keys, roster }
    }
}

pub struct Site {
    pub policy: Policy,
    pub now: Instant,
    pub rng: Random,
    pub shelf: Shelf,
    pub disk: Disk,
    pub controller: Controller,
    pub devices: BTreeMap<String, Device>,
    pub answers: BTreeMap<String, Vec<Answer>>,
    /// Each member loses one announcement in this many; 0: none.
    pub loss: u64,
    pub numbers: u32,
    /// The copies of devices that the controller has reported.
    pub clones: Vec<(String, Reason)>,
    /// Requests to the controller that are under way, with their time of arrival.
    pub asking: Vec<(Instant, String, PullRequest)>,
    /// The announcements, with the time at which each was sent.
    pub aired: Vec<(Instant, Vec<u8>)>,
}

pub struct Device {
    pub member: lightseal_group::Member,
    pub address: SocketAddr,
    pub got: Vec<Vec<u8>>,
}

pub fn settings() -> Settings {
    Settings { batch: Duration::from_millis(100), ..Settings::default() }
}

pub fn name() -> GroupName {
    GroupName::new("lights").unwrap()
}

impl Site {
    pub fn new(profile: Profile) -> Self {
        Self::with(policy(profile), 7)
    }

    pub fn with(policy: Policy, seed: u64) -> Self {
        let mut rng = Random::insecure(seed);
        let (shelf, disk) = (Shelf::default(), Disk::default());
        let now = Instant::from_micros(5_000_000);
        let controller = Self::start(&policy, &shelf, &disk, now, &mut rng);
        Self {
            policy,
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
            asking: Vec::new(),
            aired: Vec::new(),
        }
    }

    pub fn start(
        policy: &Policy,
        shelf: &Shelf,
        disk: &Disk,
        now: Instant,
        rng: &mut Random,
    ) -> Controller {
        let group = shelf.group(policy, rng);
        let (store, ledger) = (Box::new(shelf.clone()), Box::new(disk.clone()));
        let provider = &rustcrypto::PROVIDER;
        Controller::new(group, settings(), provider, store, ledger, now, rng.fork()).unwrap()
    }

    /// Restarts the controller from its store after a crash.
    pub fn restart(&mut self) {
        let Self { policy, shelf, disk, now, rng, .. } = self;
        self.controller = Self::start(policy, shelf, disk, *now, rng);
    }

    pub fn say(&mut self, device: &str, may: RoleSet, said: Request) {
        let known = self.controller.roster().get(device).map(|member| member.start);
        let start = known.unwrap_or(Start { instance: 0, counter: 0, nonce: [0; 8] });
        self.say_as(start, device, may, said);
    }

    /// Sends a request with the start `start`, which may differ from the one that the controller
    /// knows.
    pub fn say_as(&mut self, start: Start, device: &str, may: RoleSet, said: Request) {
        self.numbers += 1;
        let mut buf = [0; 700];
        let mut w = Writer::new(&mut buf);
        let asked = match said {
            Request::Join { .. } => RequestMessage::new(self.numbers, said),
            said => RequestMessage::by(start, self.numbers, said),
        };
        asked.write(&mut w).unwrap();
        let request = w.finish().to_vec();
        self.controller.handle(self.now, device, may, &request);
        self.settle();
    }

    /// Delivers the controller's outputs.
    pub fn settle(&mut self) {
        while let Some(output) = self.controller.poll() {
            match output {
                Output::Multicast(datagram) => {
                    self.aired.push((self.now, datagram.clone()));
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
                    let answer = AnswerMessage::decode(&answer).unwrap().answer;
                    self.answers.entry(device).or_default().push(answer);
                }
                Output::CopyDetected { device, reason } => self.clones.push((device, reason)),
                Output::Conflict(_) | Output::MalformedRequest(_) => {}
            }
        }
    }

    pub fn wait(&mut self, millis: u64) {
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

    pub fn last(&mut self, device: &str) -> Option<Answer> {
        self.answers.get_mut(device)?.pop()
    }

    pub fn ask_to_join(&mut self, device: &str, nonce: u8, roles: RoleSet, ip: IpAddr) {
        let keys = identity(device).public();
        let join = Request::Join { nonce: [nonce; 8], name: name(), roles, address: ip, keys };
        self.say(device, BOTH, join);
    }

    /// Creates the device of a new member.
    pub fn admit(&mut self, name: &str, admitted: Admitted, ip: IpAddr) {
        let Admitted { policy, roles, controller, senders, grant, .. } = admitted;
        let (keys, _) = KeyPath::join(controller, grant);
        let identity = identity(name);
        let membership = Membership { policy, roles, address: ip, senders, keys, identity };
        let ledger = Box::new(Disk::default());
        let rng = self.rng.fork();
        let provider = &rustcrypto::PROVIDER;
        let member =
            lightseal_group::Member::new(membership, provider, ledger, self.now, rng).unwrap();
        let address = SocketAddr::new(ip, 5684);
        self.devices.insert(name.into(), Device { member, address, got: Vec::new() });
    }

    pub fn join(&mut self, device: &str, roles: RoleSet) {
        let ip = ip(device);
        self.ask_to_join(device, 1, roles, ip);
        // Rekeys have a minimum interval, so a join may have to wait for the previous one's.
        for _ in 0..60 {
            self.wait(200);
            if self.answers.get(device).is_some_and(|answers| !answers.is_empty()) {
                break;
            }
        }
        let Some(Answer::Admitted(admitted)) = self.last(device) else { panic!("{device}") };
        self.admit(device, *admitted, ip);
        let senders = self.controller.roster().senders();
        for device in self.devices.values_mut() {
            device.member.set_senders(senders);
        }
    }

    /// Delivers a request of one device and returns the number of devices that received it.
    pub fn request(&mut self, from: &str) -> usize {
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

    /// Carries the requests of members that missed a rekey. If announcements are lost, requests and
    /// answers are lost as well: a member then asks again after 1 s, 2 s, 4 s, and then every 8 s.
    pub fn pull(&mut self) {
        let names: Vec<String> = self.devices.keys().cloned().collect();
        for name in names {
            let member = &mut self.devices.get_mut(&name).unwrap().member;
            let pull = std::iter::from_fn(|| member.next_event()).find_map(|event| match event {
                Event::Pull(pull) => Some(pull),
                _ => None,
            });
            if let Some(pull) = pull {
                let (mut at, mut again) = (self.now, Duration::from_secs(1));
                while self.loss > 1 && (0..2).any(|_| self.rng.below(self.loss) == 0) {
                    (at, again) = (at + again, (2 * again).min(Duration::from_secs(8)));
                }
                self.asking.push((at, name, pull));
            }
        }
        let due: Vec<_> = self.asking.extract_if(.., |(at, ..)| *at <= self.now).collect();
        for (_, name, pull) in due {
            self.say(&name, BOTH, Request::Pull(pull));
            if let Some(Answer::Granted(grant)) = self.last(&name) {
                let device = self.devices.get_mut(&name).unwrap();
                // A grant for an earlier epoch than the member's is refused.
                let _ = device.member.grant(self.now, grant);
            }
        }
    }
}

/// A number from an environment variable.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Prints a result, and writes it to the file that `LIGHTSEAL_REPORT` names.
pub fn report(json: &str) {
    println!("{json}");
    if let Ok(path) = std::env::var("LIGHTSEAL_REPORT") {
        std::fs::write(path, json).unwrap();
    }
}

pub fn identity(device: &str) -> Identity {
    let mut rng = Random::insecure(device.bytes().map(u64::from).sum());
    Identity::generate(&mut rng)
}

pub fn ip(device: &str) -> IpAddr {
    let last = device.bytes().fold(1_u16, |sum, byte| sum.wrapping_mul(31) + u16::from(byte));
    IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last])
}
