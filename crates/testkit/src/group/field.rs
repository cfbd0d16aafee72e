//! A simulated group: a controller's key server, its members, and the datagrams between them. The
//! clock is the test's.

use lightseal_core::{Decode, Instant, Random};
use lightseal_dtls::crypto::{CipherSuiteId, rustcrypto};
use lightseal_group::compact::EpochSecret;
use lightseal_group::directory::{DirectoryEntry, Lookup, Page};
use lightseal_group::member::{
    DatagramOrigin, Delivery, Event, Listener, Member, Membership, RequestKind, Roles, SendError,
    Suspended, Transmit,
};
use lightseal_group::numbers::{KEPT_EPOCHS, Ledger, LedgerFailed};
use lightseal_group::policy::{Authenticity, Freshness, Profile, Responses};
use lightseal_group::rekey::{
    Change, ControllerSecret, Grant, KeyPath, KeyServer, Leaf, Rekeying, Timing,
};
use lightseal_group::{GroupId, Identity, ListenerId, Policy, SenderId, SenderSet};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub const GROUP: GroupId = GroupId(*b"lights of room 1");

/// A ledger in memory, which survives the restart of its member.
#[derive(Clone, Debug, Default)]
pub struct Disk(pub Arc<Mutex<Written>>);

#[derive(Debug, Default)]
pub struct Written {
    below: BTreeMap<(GroupId, u64), u64>,
    pub fails: bool,
}

impl Disk {
    /// A copy of the current entries on a separate disk.
    pub fn copy(&self) -> Self {
        let below = self.0.lock().unwrap().below.clone();
        Self(Arc::new(Mutex::new(Written { below, fails: false })))
    }
}

impl Ledger for Disk {
    fn newest(&self, group: &GroupId) -> Result<Option<u64>, LedgerFailed> {
        let written = self.0.lock().unwrap();
        if written.fails {
            return Err(LedgerFailed);
        }
        let epochs = written.below.keys().filter(|(of, _)| of == group);
        Ok(epochs.map(|(_, epoch)| *epoch).max())
    }

    fn reserved(&self, group: &GroupId, epoch: u64) -> Result<Option<u64>, LedgerFailed> {
        Ok(self.0.lock().unwrap().below.get(&(*group, epoch)).copied())
    }

    fn reserve(&mut self, group: &GroupId, epoch: u64, below: u64) -> Result<(), LedgerFailed> {
        let mut written = self.0.lock().unwrap();
        if written.fails {
            return Err(LedgerFailed);
        }
        written.below.insert((*group, epoch), below);
        // Keeps as few entries as a ledger may.
        while written.below.len() > 1 + KEPT_EPOCHS {
            written.below.pop_first();
        }
        Ok(())
    }
}

pub fn policy(profile: Profile) -> Policy {
    let suite = match profile {
        Profile::Axiom12 => CipherSuiteId::PSK_WITH_AES_128_CCM_8,
        Profile::Compact => CipherSuiteId::AES_128_CCM_8_SHA256,
    };
    Policy {
        group: GROUP,
        address: "[ff15::abcd]:5684".parse().unwrap(),
        profile,
        suite,
        authenticity: Authenticity::Group,
        responses: Responses::Group,
        freshness: Freshness::NewEpoch,
        client_random: [1; 32],
        server_random: [2; 32],
    }
}

/// A policy with pairwise responses.
pub fn paired() -> Policy {
    Policy { responses: Responses::Pairwise, ..policy(Profile::Compact) }
}

/// A group of a switch and three lights that know each other's keys.
pub fn room(policy: Policy) -> Field {
    acquainted(policy, &[(None, true); 3])
}

/// A group of a switch and other members that know each other's keys. Each of the others may be a
/// sender and a listener.
pub fn acquainted(policy: Policy, others: &[(Option<u8>, bool)]) -> Field {
    let mut field = Field::with(policy, 1);
    field.add(Some(7), false);
    for (sender, listener) in others {
        field.add(*sender, *listener);
    }
    field.wait(20);
    field.acquaint();
    field.devices.iter_mut().for_each(|device| drop(device.events()));
    field
}

/// The number of records that were delivered to a device.
pub fn got(field: &Field, index: usize) -> usize {
    field.devices[index].got.len()
}

/// A payload that was delivered to a member's application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    Request(SenderId, Vec<u8>),
    Direct(SenderId, Vec<u8>),
    Response(Listener, Vec<u8>),
}

pub struct Device {
    pub member: Member,
    pub leaf: Leaf,
    pub roles: Roles,
    pub address: SocketAddr,
    pub disk: Disk,
    pub identity: Identity,
    pub got: Vec<Got>,
    /// Events that the test has not taken yet.
    pub told: Vec<Event>,
    /// The pages that it looked up.
    pub lookups: Vec<Lookup>,
}

impl Device {
    pub fn hear(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) {
        let (got, mut datagram) = (&mut self.got, datagram.to_vec());
        self.member.receive_multicast(now, from, &mut datagram, |delivery| got.push(own(delivery)));
    }

    /// Returns false if the datagram belongs to a unicast session.
    pub fn hear_alone(&mut self, now: Instant, from: SocketAddr, datagram: &[u8]) -> bool {
        let (got, mut datagram) = (&mut self.got, datagram.to_vec());
        let deliver = |delivery: Delivery<'_>| got.push(own(delivery));
        let origin = self.member.receive_unicast(now, from, &mut datagram, deliver);
        origin != DatagramOrigin::UnicastSession
    }

    pub fn ask(&mut self, now: Instant, content: &[u8]) -> Result<Vec<u8>, SendError> {
        let mut buf = [0; 2000];
        let len = self.member.request(now, content, &mut buf)?;
        Ok(buf[..len].to_vec())
    }

    /// Seals a direct request to one listener. Returns its destination and its datagram.
    pub fn ask_one(
        &mut self,
        now: Instant,
        listener: ListenerId,
        content: &[u8],
    ) -> Result<(SocketAddr, Vec<u8>), SendError> {
        let mut buf = [0; 2000];
        let (to, len) = self.member.request_to(now, listener, content, &mut buf)?;
        Ok((to, buf[..len].to_vec()))
    }

    pub fn answer(
        &mut self,
        now: Instant,
        sender: SenderId,
        content: &[u8],
    ) -> Result<Vec<u8>, SendError> {
        let mut buf = [0; 2000];
        let (_, len) = self.member.respond(now, sender, RequestKind::Group, content, &mut buf)?;
        Ok(buf[..len].to_vec())
    }

    /// Seals a response to a direct request. Returns its destination and its datagram.
    pub fn answer_direct(
        &mut self,
        now: Instant,
        sender: SenderId,
        content: &[u8],
    ) -> Result<(SocketAddr, Vec<u8>), SendError> {
        let mut buf = [0; 2000];
        let (to, len) = self.member.respond(now, sender, RequestKind::Direct, content, &mut buf)?;
        Ok((to, buf[..len].to_vec()))
    }

    pub fn events(&mut self) -> Vec<String> {
        self.take_events();
        self.told.drain(..).map(|event| format!("{event:?}")).collect()
    }

    pub fn pulls(&mut self) -> bool {
        self.take_events();
        self.told.drain(..).filter(|event| matches!(event, Event::Pull(_))).count() > 0
    }

    /// Lookups are stored separately.
    pub fn take_events(&mut self) {
        while let Some(event) = self.member.next_event() {
            match event {
                Event::Lookup(page) => self.lookups.push(page),
                event => self.told.push(event),
            }
        }
    }
}

fn own(delivery: Delivery<'_>) -> Got {
    match delivery {
        Delivery::Request { sender, content, .. } => Got::Request(sender, content.to_vec()),
        Delivery::DirectRequest { sender, content, .. } => Got::Direct(sender, content.to_vec()),
        Delivery::Response { listener, content, .. } => Got::Response(listener, content.to_vec()),
    }
}

/// A group with its controller (a key server, and a member that seals its records) and its devices.
pub struct Field {
    pub policy: Policy,
    pub now: Instant,
    pub keys: KeyServer,
    pub rng: Random,
    pub devices: Vec<Device>,
    /// Seals the controller's records. Unlike a real controller, it has a leaf of its own.
    voice: Option<Device>,
    next_port: u16,
    /// The controller's announcements, each with the epoch in which it was sealed.
    pub announced: Vec<(u64, Vec<u8>)>,
}

/// Epochs become active one second after their message, and the old epoch is received for another
/// ten seconds.
pub fn timing() -> Timing {
    Timing::new(Duration::from_secs(1), Duration::from_secs(10)).unwrap()
}

pub const CONTROLLER: &str = "[fd00::ffff]:5684";

impl Field {
    pub fn new(profile: Profile, seed: u64) -> Self {
        Self::with(policy(profile), seed)
    }

    pub fn with(policy: Policy, seed: u64) -> Self {
        let mut rng = Random::insecure(seed);
        let keys =
            KeyServer::new(policy.group, ControllerSecret::from_seed(&rng.array()), &mut rng);
        let now = Instant::from_micros(1_000_000_000);
        let mut field = Self {
            policy,
            now,
            keys,
            rng,
            devices: Vec::new(),
            voice: None,
            next_port: 1,
            announced: Vec::new(),
        };
        let roles = Roles { sender: Some(SenderId::CONTROLLER), listener: false };
        let voice = field.join(roles);
        field.devices.clear();
        field.voice = Some(voice);
        field
    }

    pub fn senders(&self) -> SenderSet {
        self.devices.iter().filter_map(|device| device.roles.sender).collect()
    }

    fn device(
        &mut self,
        roles: Roles,
        grant: Grant,
        disk: Disk,
        address: SocketAddr,
        identity: Identity,
        suspended: Option<&Suspended>,
    ) -> Device {
        let leaf = grant.leaf;
        let (keys, _) = KeyPath::join(self.keys.controller(), grant);
        let senders = self.senders().iter().chain(roles.sender).collect();
        let (policy, ip) = (self.policy.clone(), address.ip());
        let own = identity.clone();
        let membership = Membership { policy, roles, address: ip, senders, keys, identity: own };
        let ledger = Box::new(disk.clone());
        let rng = self.rng.fork();
        let (provider, now) = (&rustcrypto::PROVIDER, self.now);
        let member = match suspended {
            None => Member::new(membership, provider, ledger, now, rng),
            Some(left) => Member::resume(membership, left, provider, ledger, now, rng),
        };
        let member = member.unwrap();
        Device {
            member,
            leaf,
            roles,
            address,
            disk,
            identity,
            got: Vec::new(),
            told: Vec::new(),
            lookups: Vec::new(),
        }
    }

    /// Adds a member. The other members receive the rekey message first.
    pub fn join(&mut self, roles: Roles) -> Device {
        self.join_heard_by(roles, |_| true)
    }

    pub fn join_heard_by(&mut self, roles: Roles, hears: impl Fn(usize) -> bool) -> Device {
        let rekeying = self.change(&[], 1, hears);
        let grant = self.keys.grant(rekeying.joined[0], timing()).unwrap();
        let address = SocketAddr::new([0xfd00, 0, 0, 0, 0, 0, 0, self.next_port].into(), 5684);
        self.next_port += 1;
        let identity = Identity::generate(&mut self.rng);
        let device = self.device(roles, grant, Disk::default(), address, identity, None);
        let senders: SenderSet = self.senders().iter().chain(roles.sender).collect();
        self.devices.iter_mut().for_each(|other| other.member.set_senders(senders));
        device
    }

    /// The secret of the current epoch.
    pub fn secret(&self) -> EpochSecret {
        let key = self.keys.epoch_key().unwrap();
        EpochSecret::new(GROUP, self.keys.epoch(), key.as_bytes())
    }

    pub fn add(&mut self, sender: Option<u8>, listener: bool) -> usize {
        let device = self.join(Roles { sender: sender.map(SenderId), listener });
        self.devices.push(device);
        self.devices.len() - 1
    }

    /// Changes the membership. `hears` tells whether the device at an index receives the message.
    pub fn change(&mut self, leave: &[Leaf], join: u32, hears: impl Fn(usize) -> bool) -> Rekeying {
        let change = Change { leave, join, ..Change::default() };
        let rekeying = self.keys.rekey(&change, timing(), 1200, &mut self.rng).unwrap();
        for message in &rekeying.messages {
            let datagram = self.announce(message);
            self.announced.push((rekeying.epoch - 1, datagram.clone()));
            let from = CONTROLLER.parse().unwrap();
            for (at, device) in self.devices.iter_mut().enumerate() {
                if hears(at) {
                    device.hear(self.now, from, &datagram);
                }
            }
            if let Some(voice) = &mut self.voice {
                let grant = self.keys.grant(voice.leaf, timing()).unwrap();
                voice.member.grant(self.now, grant).unwrap();
            }
        }
        rekeying
    }

    fn announce(&mut self, message: &[u8]) -> Vec<u8> {
        let voice = self.voice.as_mut().expect("there is a controller before there are members");
        let mut buf = [0; 4000];
        let kind = lightseal_group::codepoints::GROUP_REKEY;
        let len = voice.member.announce(kind, message, &mut buf).unwrap();
        buf[..len].to_vec()
    }

    /// Seals a record of the controller.
    pub fn say(
        &mut self,
        kind: lightseal_dtls::codepoints::ContentType,
        content: &[u8],
    ) -> Vec<u8> {
        let voice = self.voice.as_mut().expect("there is a controller before there are members");
        let mut buf = [0; 4000];
        let len = voice.member.seal_request(self.now, kind, content, &mut buf).unwrap();
        buf[..len].to_vec()
    }

    /// Evicts a member, which also receives the message, and returns its device.
    pub fn evict(&mut self, index: usize) -> Device {
        self.evict_heard_by(index, |_| true)
    }

    pub fn evict_heard_by(&mut self, index: usize, hears: impl Fn(usize) -> bool) -> Device {
        self.change(&[self.devices[index].leaf], 0, hears);
        let evicted = self.devices.remove(index);
        self.tell_senders();
        evicted
    }

    fn tell_senders(&mut self) {
        let senders = self.senders();
        self.devices.iter_mut().for_each(|device| device.member.set_senders(senders));
    }

    /// A replacement for a device's member, with a ledger of its own.
    pub fn stand_in(&mut self, index: usize) -> Member {
        let device = &self.devices[index];
        let grant = device.member.keys().to_grant(timing());
        let (roles, address, identity) = (device.roles, device.address, device.identity.clone());
        self.device(roles, grant, Disk::default(), address, identity, None).member
    }

    /// Restarts a device after a crash, with its disk and its current keys.
    pub fn restart(&mut self, index: usize) {
        let grant = self.devices[index].member.keys().to_grant(timing());
        self.restart_with(index, grant);
    }

    /// Restarts a device after a crash, with keys that may be outdated.
    pub fn restart_with(&mut self, index: usize, grant: Grant) {
        let old = self.devices.remove(index);
        let (disk, identity) = (old.disk.clone(), old.identity);
        let device = self.device(old.roles, grant, disk, old.address, identity, None);
        self.devices.insert(index, Device { got: old.got, ..device });
    }

    /// Shuts a device down cleanly and resumes it from its suspended state, or from `instead`.
    /// Returns its suspended state.
    pub fn nap(&mut self, index: usize, instead: Option<&[u8]>) -> Option<Vec<u8>> {
        let Device { member, roles, address, disk, identity, got, .. } = self.devices.remove(index);
        let grant = member.keys().to_grant(timing());
        let left = member.suspend().map(|left| left.to_bytes());
        let taken = instead.or(left.as_deref());
        let taken = taken.map(|left| Suspended::decode(left).expect("a valid suspended state"));
        let device = self.device(roles, grant, disk, address, identity, taken.as_ref());
        self.devices.insert(index, Device { got, ..device });
        left
    }

    /// Shuts a device down cleanly and resumes it from its suspended state, converted by `before`
    /// to the format of an earlier version.
    pub fn nap_as(&mut self, index: usize, before: impl FnOnce(&[u8]) -> Vec<u8>) {
        let Device { member, roles, address, disk, identity, got, .. } = self.devices.remove(index);
        let grant = member.keys().to_grant(timing());
        let left = before(&member.suspend().expect("a suspended state").to_bytes());
        let taken = Suspended::decode(&left).expect("a valid state of the earlier version");
        let device = self.device(roles, grant, disk, address, identity, Some(&taken));
        self.devices.insert(index, Device { got, ..device });
    }

    /// Gives a device the current keys.
    pub fn grant(&mut self, index: usize) {
        let grant = self.keys.grant(self.devices[index].leaf, timing()).unwrap();
        self.devices[index].member.grant(self.now, grant).unwrap();
    }

    pub fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        for device in self.devices.iter_mut().chain(&mut self.voice) {
            device.member.handle_timeout(self.now);
        }
    }

    /// Delivers the datagrams that members send on their own until there are none left, and returns
    /// them.
    pub fn carry(&mut self) -> Vec<Transmit> {
        let mut carried = Vec::new();
        let mut carried_before = usize::MAX;
        while carried_before != carried.len() {
            carried_before = carried.len();
            for index in 0..self.devices.len() {
                while let Some(transmit) = self.devices[index].member.poll_transmit() {
                    let (from, Transmit { to, datagram }) =
                        (self.devices[index].address, &transmit);
                    for device in &mut self.devices {
                        if *to == self.policy.address {
                            device.hear(self.now, from, datagram);
                        } else if *to == device.address {
                            assert!(device.hear_alone(self.now, from, datagram));
                        }
                    }
                    carried.push(transmit);
                }
            }
        }
        carried
    }

    /// The page that the controller would answer with.
    pub fn page(&self, lookup: Lookup) -> Page {
        let mut members: Vec<_> = self
            .devices
            .iter()
            .map(|device| DirectoryEntry {
                sender: device.roles.sender,
                leaf: device.leaf,
                keys: device.identity.public(),
            })
            .filter(|entry| match lookup {
                Lookup::Senders(_) => {
                    entry.sender.is_some_and(|sender| Lookup::sender(sender) == lookup)
                }
                Lookup::Listeners(_) => Lookup::listener(entry.leaf.into()) == lookup,
            })
            .collect();
        members.sort_by_key(|entry| match lookup {
            Lookup::Senders(_) => entry.sender.map_or(0, |sender| sender.0.into()),
            Lookup::Listeners(_) => entry.leaf.get(),
        });
        Page { lookup, epoch: self.keys.epoch(), members }
    }

    /// Answers the lookups of all devices.
    pub fn introduce(&mut self) {
        for index in 0..self.devices.len() {
            self.devices[index].take_events();
            for lookup in std::mem::take(&mut self.devices[index].lookups) {
                let page = self.page(lookup);
                self.devices[index].member.learn(self.now, &page);
            }
        }
    }

    /// Advances the time until no device has an unanswered lookup.
    pub fn acquaint(&mut self) {
        for _ in 0..60 {
            self.now += Duration::from_millis(100);
            for device in self.devices.iter_mut().chain(&mut self.voice) {
                device.member.handle_timeout(self.now);
            }
            self.introduce();
        }
    }

    /// Delivers a request of one device to all others, and returns its datagram.
    pub fn ask(&mut self, index: usize, content: &[u8]) -> Vec<u8> {
        let datagram = self.devices[index].ask(self.now, content).unwrap();
        let from = self.devices[index].address;
        self.devices.iter_mut().for_each(|device| device.hear(self.now, from, &datagram));
        datagram
    }

    /// Delivers a direct request of one device to another one, and returns its datagram. It reaches
    /// all devices that receive at its destination address.
    pub fn ask_one(&mut self, index: usize, to: usize, content: &[u8]) -> Vec<u8> {
        let listener = self.devices[to].member.listener();
        let (to, datagram) = self.devices[index].ask_one(self.now, listener, content).unwrap();
        self.deliver(index, to, &datagram);
        datagram
    }

    /// Delivers a device's datagram to all devices that receive at the address `to`.
    pub fn deliver(&mut self, index: usize, to: SocketAddr, datagram: &[u8]) {
        let from = self.devices[index].address;
        for device in &mut self.devices {
            if to == self.policy.address {
                device.hear(self.now, from, datagram);
            } else if to == device.address {
                assert!(device.hear_alone(self.now, from, datagram));
            }
        }
    }

    /// Delivers a response of one device to the requesting device, and returns its datagram.
    pub fn answer(&mut self, index: usize, to: usize, content: &[u8]) -> Vec<u8> {
        let sender = self.devices[to].roles.sender.unwrap();
        let datagram = self.devices[index].answer(self.now, sender, content).unwrap();
        let from = self.devices[index].address;
        assert!(self.devices[to].hear_alone(self.now, from, &datagram));
        datagram
    }

    /// Delivers a device's response to a direct request at its destination, and returns its
    /// datagram.
    pub fn answer_direct(&mut self, index: usize, to: usize, content: &[u8]) -> Vec<u8> {
        let sender = self.devices[to].roles.sender.unwrap();
        let (to, datagram) = self.devices[index].answer_direct(self.now, sender, content).unwrap();
        self.deliver(index, to, &datagram);
        datagram
    }
}
