//! Groups whose members join, leave, are evicted, crash and miss datagrams, in random order. An
//! observer that knows all keys looks for events that must never happen.

use crate::parallel::shared;
use lightseal_core::Random;
use lightseal_dtls::crypto::rustcrypto;
use lightseal_group::compact::{EpochBits, EpochSecret, RecordKeys, SealedRecord, Suite};
use lightseal_group::member::{Event, Listener, Membership, RequestKind, Roles};
use lightseal_group::policy::{Authenticity, Freshness, Profile, Responses};
use lightseal_group::rekey::{Grant, KeyPath, KeyServer, KeyTree};
use lightseal_group::{Identity, Member, Policy, SenderId};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use testkit::group::field::{CONTROLLER, Device, Disk, Field, GROUP, Got, policy, timing};

/// Number of events in one history.
const STEPS: usize = 250;
/// The largest number of members.
const MOST_MEMBERS: usize = 9;
/// Number of SenderIDs in use: few, so that they are assigned again.
const SENDER_IDS: u64 = 4;
/// One datagram in this many is lost.
const LOSS: u64 = 5;

/// The results of histories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of histories.
    pub histories: u64,
    /// Number of epochs that began.
    pub epochs: u64,
    /// Number of records that were sealed.
    pub sealed: u64,
    /// Number of records that were delivered.
    pub delivered: u64,
    /// Number of restarts of members and controllers.
    pub restarts: u64,
    /// Number of times a member was shut down in an orderly way, or appeared to be.
    pub naps: u64,
    /// Number of members that left or were evicted.
    pub gone: u64,
    /// Events that must not happen, each with the seed of its history.
    pub violations: Vec<(u64, String)>,
}

/// A record as it was sent.
struct Sent {
    epoch: u64,
    from: SocketAddr,
    /// The receiver of a unicast record; `None` for multicast.
    to: Option<SocketAddr>,
    datagram: Vec<u8>,
}

/// The history of one device.
struct DeviceHistory {
    address: SocketAddr,
    /// The first and the last epoch whose keys it has.
    epochs: [u64; 2],
    /// All keys it ever held.
    memory: Vec<Grant>,
    roles: Roles,
    /// All contents that were ever delivered to it.
    got: BTreeSet<Vec<u8>>,
    identity: Identity,
    /// All suspended states that it ever left when it was shut down.
    left: Vec<Vec<u8>>,
}

/// A space of record numbers: epoch, sender, listener of responses, and the boot if the keys depend
/// on it.
type Stream = (u64, SenderId, Option<Listener>, Option<[u8; 8]>);

struct History {
    field: Field,
    rng: Random,
    sent: Vec<Sent>,
    lives: BTreeMap<SocketAddr, DeviceHistory>,
    /// Records in transit: the receiver's address and the index in `sent`.
    underway: Vec<(SocketAddr, usize)>,
    numbers: BTreeSet<(Stream, u64)>,
    highest: BTreeMap<Stream, u64>,
    /// The secrets of all epochs, by epoch.
    secrets: BTreeMap<u64, EpochSecret>,
    /// The boot that each listener stated last to each sender in each epoch.
    boots: BTreeMap<Stream, [u8; 8]>,
    report: Report,
    seed: u64,
}

impl History {
    fn new(policy: Policy, seed: u64) -> Self {
        Self {
            field: Field::with(policy, seed),
            rng: Random::insecure(seed ^ 0x5eed),
            sent: Vec::new(),
            lives: BTreeMap::new(),
            underway: Vec::new(),
            numbers: BTreeSet::new(),
            highest: BTreeMap::new(),
            secrets: BTreeMap::new(),
            boots: BTreeMap::new(),
            report: Report { histories: 1, ..Report::default() },
            seed,
        }
    }

    fn violation(&mut self, what: String) {
        self.report.violations.push((self.seed, what));
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.rng.below(one_in) == 0
    }

    /// Draws which members receive the next announcement.
    fn hearing(&mut self) -> impl Fn(usize) -> bool + use<> {
        let lost: Vec<bool> = (0..=MOST_MEMBERS).map(|_| self.chance(LOSS)).collect();
        move |index| !lost[index]
    }

    fn learn_epoch(&mut self) {
        let epoch = self.field.keys.epoch();
        if let Some(key) = self.field.keys.epoch_key() {
            self.secrets.insert(epoch, EpochSecret::new(GROUP, epoch, key.as_bytes()));
        }
        self.report.epochs += 1;
    }

    fn join(&mut self) {
        let taken = self.field.senders();
        let free = (0..SENDER_IDS as u8).map(SenderId).filter(|id| !taken.contains(*id));
        let free: Vec<_> = free.collect();
        let sender = match free.len() as u64 {
            0 => None,
            len => Some(free[self.rng.below(len) as usize]).filter(|_| !self.chance(3)),
        };
        let roles = Roles { sender, listener: sender.is_none() || self.chance(2) };
        let hears = self.hearing();
        let device = self.field.join_heard_by(roles, hears);
        self.learn_epoch();
        let epoch = self.field.keys.epoch();
        let memory = vec![device.member.keys().to_grant(timing())];
        let (address, identity) = (device.address, device.identity.clone());
        let (epochs, got, left) = ([epoch, u64::MAX], BTreeSet::new(), Vec::new());
        let life = DeviceHistory { address, epochs, memory, roles, got, identity, left };
        self.lives.insert(address, life);
        self.field.devices.push(device);
    }

    fn leave(&mut self, index: usize) {
        let last = self.field.keys.epoch();
        let hears = self.hearing();
        let gone = self.field.evict_heard_by(index, hears);
        self.learn_epoch();
        self.lives.get_mut(&gone.address).expect("the device existed").epochs[1] = last;
        self.report.gone += 1;
    }

    fn restart(&mut self, index: usize) {
        self.report.restarts += 1;
        let memory = &self.lives[&self.field.devices[index].address].memory;
        let newest = self.field.devices[index].member.keys().to_grant(timing());
        // The last state that the device stored may be an older one.
        let back = self.rng.below(memory.len() as u64) as usize;
        let grant = if self.rng.below(2) == 0 { newest } else { memory[back].clone() };
        self.field.restart_with(index, grant);
    }

    /// Shuts a member down in an orderly way and starts it again. Its host may restore an older
    /// suspended state, though it should have deleted it.
    fn nap(&mut self, index: usize) {
        self.report.naps += 1;
        let address = self.field.devices[index].address;
        let lefts = &self.lives[&address].left;
        let instead = match lefts.len() as u64 {
            len if len > 0 && self.rng.below(3) == 0 => {
                Some(lefts[self.rng.below(len) as usize].clone())
            }
            _ => None,
        };
        let left = self.field.nap(index, instead.as_deref());
        self.lives.get_mut(&address).expect("the device exists").left.extend(left.clone());
        // The restored state is restored once more, after the member has gone on for a while.
        if let Some(left) = left
            && self.chance(2)
        {
            for _ in 0..8 {
                self.ask(index);
                (0..6).for_each(|_| self.arrive());
                self.carry();
            }
            self.report.naps += 1;
            self.field.nap(index, Some(&left));
        }
    }

    fn restart_controller(&mut self) {
        self.report.restarts += 1;
        let keys = &self.field.keys;
        let tree = KeyTree::restore(keys.tree().depth(), keys.tree().nodes());
        let Some(tree) = tree else { return self.violation("a stored tree is refused".into()) };
        let (secret, chain) = (keys.secret().clone(), keys.chain().clone());
        self.field.keys = KeyServer::restore(GROUP, secret, keys.epoch(), chain, tree);
    }

    /// A content that occurs only once and identifies its record.
    fn content(&mut self) -> Vec<u8> {
        (self.sent.len() as u64).to_be_bytes().to_vec()
    }

    fn ask(&mut self, index: usize) {
        let content = self.content();
        let device = &mut self.field.devices[index];
        let Some(sender) = device.roles.sender else { return };
        let epoch = device.member.epoch(self.field.now);
        let Ok(datagram) = device.ask(self.field.now, &content) else { return };
        let from = device.address;
        self.check_number((epoch, sender, None, None), &datagram);
        self.send(Sent { epoch, from, to: None, datagram });
    }

    fn answer(&mut self, index: usize, sender: SenderId) {
        let content = self.content();
        let now = self.field.now;
        let device = &mut self.field.devices[index];
        let newest = device.member.keys().epoch();
        let sending = device.member.epoch(now);
        let mut buf = [0; 200];
        let kind = RequestKind::Group;
        let Ok((to, len)) = device.member.respond(now, sender, kind, &content, &mut buf) else {
            return;
        };
        if newest - sending > 3 {
            // Two bits of the epoch do not identify it any more, so the record is lost.
            return;
        }
        let (from, datagram) = (device.address, buf[..len].to_vec());
        let me = match self.field.policy.profile {
            Profile::Axiom12 => Listener::Address(from.ip()),
            Profile::Compact => Listener::Id(device.member.listener()),
        };
        let stream = self.stream_of((newest, sender, Some(me), None), &datagram);
        self.check_number(stream, &datagram);
        self.send(Sent { epoch: stream.0, from, to: Some(to), datagram });
    }

    /// The stream of a response, found from the epochs that its listener may hold and from its
    /// boot.
    fn stream_of(&mut self, stream: Stream, datagram: &[u8]) -> Stream {
        let (epoch, sender, me, _) = stream;
        if self.field.policy.profile == Profile::Axiom12 {
            // Two bytes of the epoch identify it, because no history has more than 2^16 epochs.
            return (u16::from_be_bytes([datagram[3], datagram[4]]).into(), sender, me, None);
        }
        let mut copy = datagram.to_vec();
        let (record, _) = SealedRecord::response(&mut copy).expect("it was just sealed");
        let epoch = match record.epoch() {
            EpochBits::Full(epoch) => epoch,
            EpochBits::Low(bits) => (epoch.saturating_sub(3)..=epoch)
                .find(|epoch| epoch & 3 == u64::from(bits))
                .expect("two bits name one of four epochs"),
        };
        let stream = (epoch, sender, me, None);
        if self.field.policy.responses == Responses::Group {
            return stream;
        }
        if let Some(boot) = record.boot() {
            self.boots.insert(stream, boot.nonce);
        }
        (epoch, sender, me, self.boots.get(&stream).copied())
    }

    /// Sends the datagrams that members send of their own accord, like all others.
    fn carry(&mut self) {
        for index in 0..self.field.devices.len() {
            while let Some(sent) = self.field.devices[index].member.poll_transmit() {
                let (from, roles) =
                    (self.field.devices[index].address, self.field.devices[index].roles);
                let to = Some(sent.to).filter(|to| *to != self.field.policy.address);
                let datagram = sent.datagram;
                let byte = |at: usize| datagram[at];
                let is_response = byte(0) & 3 >= 2;
                // All these datagrams contain epoch and number in full.
                let at = if is_response { 5 } else { 3 };
                let epoch = (at..at + 8).fold(0, |all, at| all << 8 | u64::from(byte(at)));
                let stream = if is_response {
                    let sender = self.field.devices.iter().find(|other| Some(other.address) == to);
                    let listener = Listener::Id(self.field.devices[index].member.listener());
                    let sender = sender.and_then(|sender| sender.roles.sender);
                    let Some(sender) = sender else { continue };
                    self.stream_of((epoch, sender, Some(listener), None), &datagram)
                } else {
                    let Some(own) = roles.sender else {
                        self.violation("a member that is no sender answers".into());
                        continue;
                    };
                    (epoch, own, None, None)
                };
                self.check_number(stream, &datagram);
                self.send(Sent { epoch, from, to, datagram });
            }
        }
    }

    /// Checks that no number is used twice under one key.
    fn check_number(&mut self, stream: Stream, datagram: &[u8]) {
        self.report.sealed += 1;
        let number = match self.field.policy.profile {
            Profile::Axiom12 => {
                let bytes: [u8; 8] =
                    std::array::from_fn(|i| if i < 3 { 0 } else { datagram[3 + i] });
                u64::from_be_bytes(bytes)
            }
            Profile::Compact if datagram[0] & 0xf8 == 0xf8 => {
                let at = if datagram[0] & 3 >= 2 { 13 } else { 11 };
                datagram[at..at + 6].iter().fold(0, |all, byte| all << 8 | u64::from(*byte))
            }
            Profile::Compact => self.hidden_number(stream, datagram),
        };
        if !self.numbers.insert((stream, number)) {
            self.violation(format!("number {number} was used twice in {stream:?}"));
        }
        let highest = self.highest.entry(stream).or_default();
        *highest = number.max(*highest);
    }

    fn hidden_number(&mut self, stream: Stream, datagram: &[u8]) -> u64 {
        let (epoch, sender, listener, boot) = stream;
        let expected = self.highest.get(&stream).map_or(0, |highest| highest + 1);
        let secret = &self.secrets[&epoch];
        let id = self.field.policy.suite;
        let suite = Suite::find(&rustcrypto::PROVIDER, id).expect("the suite of the policy");
        let mut copy = datagram.to_vec();
        match listener {
            None => {
                let keyed = secret.request_secret(sender);
                let keys = RecordKeys::new(suite, secret.requests(sender), &keyed);
                let (record, _) = SealedRecord::request(&mut copy).expect("it was just sealed");
                record.reveal(&keys, expected).number()
            }
            Some(Listener::Id(listener)) => {
                let (stream, keyed) = match boot {
                    None => (
                        secret.responses(sender, listener),
                        secret.response_secret(sender, listener),
                    ),
                    Some(boot) => {
                        let identity = |is: &dyn Fn(&Device) -> bool| {
                            let device = self.field.devices.iter().find(|device| is(device));
                            device.map(|device| device.identity.clone())
                        };
                        let own = identity(&|device| device.member.listener() == listener);
                        let peer = identity(&|device| device.roles.sender == Some(sender));
                        // The sender may have left since.
                        let (Some(own), Some(peer)) = (own, peer) else { return expected };
                        let own = (listener, own.exchange());
                        let peer = (sender, &peer.public().exchange);
                        let pair = secret.pair_for_listener(own, peer).expect("valid keys");
                        let stream = secret.pairwise_responses(sender, listener);
                        (stream, pair.response_secret(&boot))
                    }
                };
                let keys = RecordKeys::new(suite, stream, &keyed);
                let (record, _) = SealedRecord::response(&mut copy).expect("it was just sealed");
                record.reveal(&keys, expected).number()
            }
            Some(Listener::Address(_)) => unreachable!("listeners have IDs in this profile"),
        }
    }

    fn send(&mut self, sent: Sent) {
        let at = self.sent.len();
        let all: Vec<_> = self.field.devices.iter().map(|device| device.address).collect();
        self.sent.push(sent);
        let to = self.sent[at].to;
        for address in all.into_iter().filter(|address| to.is_none_or(|to| to == *address)) {
            if !self.chance(LOSS) {
                self.underway.push((address, at));
            }
            // The network duplicates the datagram, or an attacker replays it.
            if self.chance(LOSS) {
                self.underway.push((address, at));
            }
        }
    }

    /// Delivers a datagram in transit, or an old one once more.
    fn arrive(&mut self) {
        let (to, which) = if self.chance(4) && !self.sent.is_empty() {
            let all = self.sent.len() as u64;
            let recent = if self.chance(2) { all.min(40) } else { all };
            let which = (all - 1 - self.rng.below(recent)) as usize;
            let device = self.rng.below(self.field.devices.len() as u64) as usize;
            (self.field.devices[device].address, which)
        } else if self.underway.is_empty() {
            return;
        } else {
            let at = self.rng.below(self.underway.len() as u64) as usize;
            self.underway.swap_remove(at)
        };
        let now = self.field.now;
        let sent = &self.sent[which];
        let Some(device) = self.field.devices.iter_mut().find(|device| device.address == to) else {
            return;
        };
        match sent.to {
            None => device.hear(now, sent.from, &sent.datagram),
            Some(_) => drop(device.hear_alone(now, sent.from, &sent.datagram)),
        }
        let epoch = device.member.keys().epoch();
        let life = self.lives.get_mut(&to).expect("the device exists");
        if life.memory.last().is_none_or(|last| last.epoch < epoch) {
            life.memory.push(device.member.keys().to_grant(timing()));
        }
        let mut asked = Vec::new();
        let mut wrong = Vec::new();
        for got in device.got.drain(..) {
            let (content, by) = match got {
                Got::Request(sender, content) | Got::Direct(sender, content) => {
                    (content, Some(sender))
                }
                Got::Response(_, content) => (content, None),
            };
            self.report.delivered += 1;
            asked.extend(by);
            if !(life.epochs[0]..=life.epochs[1]).contains(&sent.epoch) {
                wrong.push(format!("{to} opened a record of epoch {}", sent.epoch));
            }
            if content != (which as u64).to_be_bytes() {
                wrong.push(format!("{to} received a content that was not sent"));
            }
            if !life.got.insert(content) {
                wrong.push(format!("{to} received a record twice"));
            }
        }
        wrong.into_iter().for_each(|what| self.violation(what));
        if let Some(index) = self.field.devices.iter().position(|device| device.address == to) {
            for sender in asked {
                self.answer(index, sender);
            }
        }
    }

    /// Handles the requests of devices to their controller, which may not reach it.
    fn serve(&mut self) {
        let mut renew = false;
        for index in 0..self.field.devices.len() {
            let device = &mut self.field.devices[index];
            let events: Vec<_> = std::iter::from_fn(|| device.member.next_event()).collect();
            for event in events {
                match event {
                    Event::Pull(_) if !self.chance(3) => self.field.grant(index),
                    Event::NewEpochNeeded => renew |= !self.chance(3),
                    Event::Lookup(lookup) if !self.chance(3) => {
                        let page = self.field.page(lookup);
                        self.field.devices[index].member.learn(self.field.now, &page);
                    }
                    Event::Excluded => self.violation(format!("member {index} was excluded")),
                    _ => {}
                }
            }
        }
        if renew {
            let hears = self.hearing();
            self.field.change(&[], 0, hears);
            self.learn_epoch();
        }
    }

    fn step(&mut self) {
        let members = self.field.devices.len() as u64;
        match self.rng.below(60) {
            0..2 if members < MOST_MEMBERS as u64 => self.join(),
            2 if members > 2 => {
                let index = self.rng.below(members) as usize;
                self.leave(index);
            }
            3 => {
                let index = self.rng.below(members) as usize;
                self.restart(index);
            }
            4 if self.chance(2) => self.restart_controller(),
            4 => {
                let index = self.rng.below(members) as usize;
                self.nap(index);
            }
            5 => {
                let hears = self.hearing();
                self.field.change(&[], 0, hears);
                self.learn_epoch();
            }
            6..10 => {
                let seconds = [1, 2, 5, 12][self.rng.below(4) as usize];
                self.field.wait(seconds);
                self.serve();
            }
            10..25 => {
                let index = self.rng.below(members) as usize;
                self.ask(index);
            }
            _ => (0..=self.rng.below(8)).for_each(|_| self.arrive()),
        }
        self.carry();
    }

    /// Without further loss all members must agree on the epoch and receive each other's records.
    fn settle(&mut self) {
        // Lookups without an answer wait for up to this time.
        self.field.wait(400);
        self.field.acquaint();
        self.field.change(&[], 0, |_| true);
        self.learn_epoch();
        for index in 0..self.field.devices.len() {
            self.field.grant(index);
        }
        self.field.wait(2);
        // A member that missed an epoch waits before it asks again.
        self.field.acquaint();
        self.field.acquaint();
        for index in 0..self.field.devices.len() {
            self.field.devices.iter_mut().for_each(|device| device.got.clear());
            if self.field.devices[index].roles.sender.is_none() {
                continue;
            }
            let content = self.content();
            self.field.ask(index, &content);
            for other in (0..self.field.devices.len()).filter(|other| *other != index) {
                let device = &self.field.devices[other];
                if device.roles.listener && device.got.len() != 1 {
                    let stats = *device.member.stats();
                    self.violation(format!("member {other} is out of step: {stats:?}"));
                }
            }
        }
    }

    /// Checks that no device can open, with any keys it ever held, records that were sent after it
    /// left or before it joined.
    fn look_back(&mut self) {
        let lives = std::mem::take(&mut self.lives);
        for life in lives.values() {
            let [first, last] = life.epochs;
            for grant in &life.memory {
                let mut member = self.with_memory(life, grant);
                let mut opened = Vec::new();
                // A record also counts as opened if the member lacks its sender's public key or
                // finds the signature wrong, because the group's keys did read it.
                let read = |member: &Member| member.stats().unknown_keys + member.stats().forged;
                let now = self.field.now;
                let mut announced = self.field.announced.iter().peekable();
                for sent in &self.sent {
                    while let Some((_, message)) = announced.next_if(|(at, _)| *at < sent.epoch) {
                        let from = CONTROLLER.parse().expect("an address");
                        member.receive_multicast(now, from, &mut message.clone(), |_| {});
                    }
                    let mut copy = sent.datagram.clone();
                    let mut any = false;
                    match sent.to {
                        None => {
                            let before = read(&member);
                            member.receive_multicast(now, sent.from, &mut copy, |_| any = true);
                            any |= read(&member) > before;
                        }
                        Some(_) => {
                            member.receive_unicast(now, sent.from, &mut copy, |_| any = true);
                        }
                    }
                    if any && !(first..=last).contains(&sent.epoch) {
                        opened.push(sent.epoch);
                    }
                }
                if !opened.is_empty() || member.keys().epoch() > last {
                    let (address, epoch) = (life.address, grant.epoch);
                    self.violation(format!(
                        "with its keys of epoch {epoch}, {address}, a member from epoch {first} to \
                         {last}, opened records of epochs {opened:?}"
                    ));
                }
            }
        }
    }

    /// A member with the keys of an earlier moment, which accepts every SenderID.
    fn with_memory(&mut self, life: &DeviceHistory, grant: &Grant) -> Member {
        let (keys, _) = KeyPath::join(self.field.keys.controller(), grant.clone());
        let roles = Roles { sender: life.roles.sender.or(Some(SenderId(0))), listener: true };
        let senders = (0..255).map(SenderId).collect();
        let policy = Policy { freshness: Freshness::NewEpoch, ..self.field.policy.clone() };
        let (address, identity) = (life.address.ip(), life.identity.clone());
        let membership = Membership { policy, roles, address, senders, keys, identity };
        let ledger = Box::new(Disk::default());
        let rng = self.rng.fork();
        Member::new(membership, &rustcrypto::PROVIDER, ledger, self.field.now, rng)
            .expect("a valid membership")
    }
}

/// The policies of the groups: both profiles with their defaults, and all options that need keys of
/// single members.
fn policies() -> Vec<Policy> {
    let compact = policy(Profile::Compact);
    let signed = Policy { authenticity: Authenticity::Source, ..compact.clone() };
    let paired = Policy { responses: Responses::Pairwise, ..compact.clone() };
    let both = Policy { responses: Responses::Pairwise, ..signed.clone() };
    let asking = |policy: &Policy| Policy { freshness: Freshness::Challenge, ..policy.clone() };
    let asking = [asking(&signed), asking(&paired)];
    let others = [signed, paired, both].into_iter().chain(asking);
    [policy(Profile::Axiom12), compact].into_iter().chain(others).collect()
}

fn history(policy: Policy, seed: u64) -> Report {
    let mut history = History::new(policy, seed);
    for _ in 0..3 {
        history.join();
    }
    for _ in 0..STEPS {
        history.step();
    }
    history.settle();
    history.look_back();
    history.report
}

/// Runs `count` histories, with each policy in turn.
pub fn run(seed: u64, count: u64) -> Report {
    let seeds: Vec<u64> = (0..count).map(|number| seed.wrapping_add(number)).collect();
    let policies = policies();
    let reports = shared(&seeds, |seed| {
        history(policies[(seed % policies.len() as u64) as usize].clone(), *seed)
    });
    reports.into_iter().fold(Report::default(), |mut sum, report| {
        sum.histories += report.histories;
        sum.epochs += report.epochs;
        sum.sealed += report.sealed;
        sum.delivered += report.delivered;
        sum.restarts += report.restarts;
        sum.naps += report.naps;
        sum.gone += report.gone;
        sum.violations.extend(report.violations);
        sum
    })
}
