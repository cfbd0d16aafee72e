//! The eviction of one member. All others move to new keys, although datagrams are lost.

use super::coap;
use super::members::{Memory, policy};
use crate::Error;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use core::time::Duration;
use lightseal_core::{Decode, Encode, Instant, Random, Writer};
use lightseal_dtls::crypto::rustcrypto;
use lightseal_group::control::{
    Answer, AnswerMessage, GroupName, Request, RequestMessage, RoleSet,
};
use lightseal_group::controller::{
    Controller, Group, Output, Roster, Settings, Store, StoreFailed, StoreUpdate,
};
use lightseal_group::member::{Event, Membership};
use lightseal_group::policy::Profile;
use lightseal_group::rekey::{ControllerSecret, KeyPath, KeyServer};
use lightseal_group::{Identity, Member, Start};
use std::collections::{BTreeMap, VecDeque};

/// The step in which virtual time advances.
const STEP: Duration = Duration::from_millis(10);
/// How long a datagram travels.
const DELAY: Duration = Duration::from_millis(20);
/// The interval of requests, which two members send in turn. Other members learn from them that
/// they missed a rekey.
const REQUEST_INTERVAL: Duration = Duration::from_secs(1);
/// How long a member waits for its controller's answer before it asks again.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// How long the remaining members have to move to the new keys.
const REKEY_TIMEOUT: Duration = Duration::from_secs(120);
/// How long all members join before the eviction. Their epoch is in use by then.
const JOIN_DURATION: Duration = Duration::from_secs(30);

/// The number of members that send requests. A single sender would learn from nobody that it missed
/// a rekey.
const SENDERS: usize = 2;

const PORT: u16 = 5684;
const REQUEST_BYTES: usize = 700;

/// The parameters of an eviction.
#[derive(Clone, Copy, Debug)]
pub struct Eviction {
    /// The profile of the group's records.
    pub profile: Profile,
    /// Number of members before the eviction.
    pub members: usize,
    /// The share of datagrams that each receiver loses, from 0 to 1.
    pub loss: f64,
    /// Seed of all randomness.
    pub seed: u64,
}

/// The result of an eviction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvictionResult {
    /// Remaining members that never moved to the new keys.
    pub out_of_step: usize,
    /// Virtual time from the eviction until the last remaining member had the new keys.
    pub duration: Duration,
    /// Remaining members that received the new keys by the announcement or its repetitions.
    pub by_announcement: usize,
    /// Number of times that remaining members asked the controller, repetitions included.
    pub pulls: usize,
    /// Number of datagrams of announcements.
    pub announcements: usize,
    /// Length of the longest of these datagrams, in bytes.
    pub announcement_bytes: usize,
    /// Requests in the new epoch that the evicted member opened.
    pub opened_by_evicted: usize,
}

/// A store that keeps nothing, because nothing is restored here.
struct DiscardingStore;

impl Store for DiscardingStore {
    fn commit(&mut self, _: &StoreUpdate<'_>) -> Result<(), StoreFailed> {
        Ok(())
    }
}

/// A member and the state of its device.
struct Device {
    member: Member,
    start: Start,
    /// The request that waits for an answer, and when it is sent next.
    asking: Option<(Vec<u8>, Instant)>,
    in_step: bool,
}

/// A datagram on its way.
enum Datagram {
    ControlRequest {
        from: usize,
        request: Vec<u8>,
    },
    ControlAnswer {
        to: usize,
        answer: Vec<u8>,
    },
    /// A record of the group. `is_new`: it is in the new epoch, which the evicted member must not
    /// open.
    Multicast {
        from: SocketAddr,
        bytes: Vec<u8>,
        is_new: bool,
    },
}

struct EvictionWorld {
    now: Instant,
    controller: Controller,
    devices: Vec<Device>,
    queue: VecDeque<(Instant, Datagram)>,
    random: Random,
    loss: u64,
    asked: u32,
    result: EvictionResult,
    evicted: Option<usize>,
}

/// The unit of loss probabilities: this many stand for 1.
const WHOLE: u64 = 1_000_000;

fn name(index: usize) -> String {
    format!("{index:06}")
}

fn at(index: usize) -> SocketAddr {
    let (high, low) = ((index >> 16) as u16, index as u16);
    SocketAddr::new(IpAddr::from(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, high, low)), PORT)
}

const CONTROLLER: usize = 0x00ff_ffff;

fn roles(index: usize) -> RoleSet {
    RoleSet { sender: index < SENDERS, listener: true }
}

fn written(asked: &RequestMessage) -> Vec<u8> {
    let mut buf = vec![0; REQUEST_BYTES];
    let mut w = Writer::new(&mut buf);
    asked.write(&mut w).expect("the buffer holds the longest request");
    w.finish().to_vec()
}

impl Eviction {
    /// Lets all members join, evicts the last one, and waits until the others have the new keys.
    ///
    /// # Errors
    ///
    /// Fails when the engine refuses a member.
    pub fn run(&self) -> Result<EvictionResult, Error> {
        let mut world = EvictionWorld::new(self)?;
        world.admit(self)?;
        world.wait(JOIN_DURATION, |_| false);
        let last = self.members - 1;
        let evicted_at = world.now;
        world.loss = (self.loss * WHOLE as f64) as u64;
        world.evicted = Some(last);
        world.result = EvictionResult { out_of_step: self.members - 1, ..NO_RESULT };
        world.devices.iter_mut().for_each(|device| device.in_step = false);
        if world.controller.evict(world.now, &name(last)) != Ok(true) {
            return Err(Error::Stream("the controller evicted no member"));
        }
        world.carry();
        world.wait(REKEY_TIMEOUT, |world| world.result.out_of_step == 0);
        world.result.duration = world.now - evicted_at;
        // Lets the evicted member receive requests of the new epoch, which it must not open.
        world.wait(3 * REQUEST_INTERVAL, |_| false);
        let duration = world.result.duration;
        Ok(EvictionResult { duration, ..world.result })
    }
}

const NO_RESULT: EvictionResult = EvictionResult {
    out_of_step: 0,
    duration: Duration::ZERO,
    by_announcement: 0,
    pulls: 0,
    announcements: 0,
    announcement_bytes: 0,
    opened_by_evicted: 0,
};

impl EvictionWorld {
    fn new(eviction: &Eviction) -> Result<Self, Error> {
        let mut random = Random::insecure(eviction.seed);
        let policy = policy(eviction.profile);
        let secret = ControllerSecret::from_seed(&random.array());
        let keys = KeyServer::new(policy.group, secret, &mut random);
        let name = GroupName::new("lights").ok_or(Error::Stream("the group's name is invalid"))?;
        let group = Group { name, policy, keys, roster: Roster::default() };
        let controller = Controller::new(
            group,
            Settings::default(),
            &rustcrypto::PROVIDER,
            Box::new(DiscardingStore),
            Box::new(Memory::default()),
            Instant::ZERO,
            random.fork(),
        );
        let controller = controller.map_err(|_| REFUSED)?;
        Ok(Self {
            now: Instant::ZERO,
            controller,
            devices: Vec::new(),
            queue: VecDeque::new(),
            random,
            loss: 0,
            asked: 0,
            result: NO_RESULT,
            evicted: None,
        })
    }

    /// Lets all members join in one rekey.
    fn admit(&mut self, eviction: &Eviction) -> Result<(), Error> {
        let mut identities: Vec<_> =
            (0..eviction.members).map(|_| Identity::generate(&mut self.random)).collect();
        let group = self.controller.name().clone();
        for (index, identity) in identities.iter().enumerate() {
            let (name, address) = (group.clone(), at(index).ip());
            let (nonce, keys) = ([0; 8], identity.public());
            let join = Request::Join { nonce, name, roles: roles(index), address, keys };
            let request = written(&RequestMessage::new(0, join));
            self.controller.handle(self.now, &self::name(index), roles(index), &request);
        }
        self.now += Settings::default().batch;
        self.controller.handle_timeout(self.now);
        let mut admitted = BTreeMap::new();
        while let Some(output) = self.controller.poll() {
            if let Output::Answer { device, answer } = output
                && let Ok(AnswerMessage { answer: Answer::Admitted(one), .. }) =
                    AnswerMessage::decode(&answer)
            {
                admitted.insert(device, *one);
            }
        }
        for (device, identity) in admitted.into_values().zip(identities.drain(..)) {
            let (keys, _) = KeyPath::join(device.controller, device.grant);
            let address = at(self.devices.len()).ip();
            let (policy, roles, senders) = (device.policy, device.roles, device.senders);
            let start = Start { instance: device.instance, counter: 0, nonce: [0; 8] };
            let membership = Membership { policy, roles, address, senders, keys, identity };
            let ledger = Box::new(Memory::default());
            let (provider, rng) = (&rustcrypto::PROVIDER, self.random.fork());
            let member = Member::new(membership, provider, ledger, self.now, rng);
            let member = member.map_err(|_| REFUSED)?;
            self.devices.push(Device { member, start, asking: None, in_step: true });
        }
        let all = self.devices.len() == eviction.members;
        all.then_some(()).ok_or(Error::Stream("the controller did not admit all members"))
    }

    /// Lets virtual time pass until `done` holds, or for `at_most`.
    fn wait(&mut self, at_most: Duration, done: impl Fn(&Self) -> bool) {
        let end = self.now + at_most;
        while self.now < end && !done(self) {
            self.now += STEP;
            self.controller.handle_timeout(self.now);
            self.carry();
            while let Some((at, _)) = self.queue.front()
                && *at <= self.now
                && let Some((_, datagram)) = self.queue.pop_front()
            {
                self.deliver(datagram);
            }
            for index in 0..self.devices.len() {
                self.look_after(index);
            }
            let micros = lightseal_core::time::micros(REQUEST_INTERVAL);
            if self.now.as_micros() % micros < lightseal_core::time::micros(STEP) {
                self.request();
            }
        }
    }

    /// Sends what the controller has to send.
    fn carry(&mut self) {
        while let Some(output) = self.controller.poll() {
            let datagram = match output {
                Output::Multicast(bytes) => {
                    self.result.announcements += 1;
                    let longest = &mut self.result.announcement_bytes;
                    *longest = bytes.len().max(*longest);
                    Datagram::Multicast { from: at(CONTROLLER), bytes, is_new: false }
                }
                Output::Answer { device, answer } => {
                    let Ok(to) = device.parse() else { continue };
                    Datagram::ControlAnswer { to, answer: answer.to_vec() }
                }
                Output::Conflict(_) | Output::CopyDetected { .. } | Output::MalformedRequest(_) => {
                    continue;
                }
            };
            self.queue.push_back((self.now + DELAY, datagram));
        }
    }

    fn is_lost(&mut self) -> bool {
        self.random.below(WHOLE) < self.loss
    }

    fn deliver(&mut self, datagram: Datagram) {
        match datagram {
            Datagram::ControlRequest { from, request } => {
                if !self.is_lost() {
                    self.controller.handle(self.now, &name(from), roles(from), &request);
                    self.carry();
                }
            }
            Datagram::ControlAnswer { to, answer } => {
                let is_lost = self.is_lost();
                let (Ok(AnswerMessage { answer: said, .. }), Some(device)) =
                    (AnswerMessage::decode(&answer), self.devices.get_mut(to))
                else {
                    return;
                };
                if is_lost {
                    return;
                }
                device.asking = None;
                if let Answer::Granted(grant) = said {
                    // The grant may be older than the member's keys. It is then of no use and is
                    // refused.
                    let _ = device.member.grant(self.now, grant);
                    self.step(to, false);
                }
            }
            Datagram::Multicast { from, bytes, is_new } => {
                for index in 0..self.devices.len() {
                    if self.is_lost() || from == at(index) {
                        continue;
                    }
                    let mut opened = 0;
                    let member = &mut self.devices[index].member;
                    let mut copy = bytes.clone();
                    member.receive_multicast(self.now, from, &mut copy, |_| opened += 1);
                    if self.evicted == Some(index) && is_new {
                        self.result.opened_by_evicted += opened;
                    }
                    self.step(index, true);
                }
            }
        }
    }

    /// Notes that a member has the controller's current epoch, if it now has.
    fn step(&mut self, index: usize, by_announcement: bool) {
        let device = &mut self.devices[index];
        let is_there = device.member.keys().epoch() == self.controller.epoch();
        if is_there && !core::mem::replace(&mut device.in_step, true) && self.evicted != Some(index)
        {
            self.result.out_of_step -= 1;
            self.result.by_announcement += usize::from(by_announcement);
        }
    }

    /// Handles a member's timers and its questions to the controller.
    fn look_after(&mut self, index: usize) {
        let device = &mut self.devices[index];
        if device.member.wake_at(self.now) <= self.now {
            device.member.handle_timeout(self.now);
        }
        while let Some(event) = device.member.next_event() {
            if let Event::Pull(pull) = event {
                self.asked += 1;
                let asked = RequestMessage::by(device.start, self.asked, Request::Pull(pull));
                device.asking = Some((written(&asked), self.now));
            }
        }
        if let Some((request, again)) = &mut device.asking
            && *again <= self.now
        {
            *again = self.now + ASK_AGAIN;
            self.result.pulls += usize::from(self.evicted != Some(index));
            let datagram = Datagram::ControlRequest { from: index, request: request.clone() };
            self.queue.push_back((self.now + DELAY, datagram));
        }
    }

    /// Lets the sender whose turn it is send a request to all members.
    fn request(&mut self) {
        let request = coap::request(1, self.random.array());
        let turn = self.now.as_micros() / lightseal_core::time::micros(REQUEST_INTERVAL);
        let index = turn as usize % SENDERS;
        let mut buf = [0; 200];
        let Some(sender) = self.devices.get_mut(index) else { return };
        let is_new = sender.in_step;
        if let Ok(len) = sender.member.request(self.now, &request, &mut buf) {
            let (from, bytes) = (at(index), buf[..len].to_vec());
            self.queue.push_back((self.now + DELAY, Datagram::Multicast { from, bytes, is_new }));
        }
    }
}

const REFUSED: Error = Error::Stream("the group engine refused a member");

#[cfg(test)]
mod tests {
    use super::*;

    fn run(members: usize, loss: f64, seed: u64) -> EvictionResult {
        Eviction { profile: Profile::Axiom12, members, loss, seed }.run().unwrap()
    }

    #[test]
    fn without_loss_one_announcement_is_enough() {
        let result = run(12, 0.0, 1);
        assert_eq!((result.out_of_step, result.by_announcement, result.pulls), (0, 11, 0));
        assert!(result.duration <= DELAY + STEP, "{result:?}");
    }

    /// The loss is so high that many members have to ask the controller.
    #[test]
    fn who_missed_all_repetitions_asks() {
        for profile in Profile::ALL {
            let result = Eviction { profile: *profile, members: 40, loss: 0.7, seed: 2 }.run();
            let result = result.unwrap();
            assert_eq!((result.out_of_step, result.opened_by_evicted), (0, 0), "{result:?}");
            assert!(result.pulls > 0 && result.by_announcement < 39, "{result:?}");
        }
        assert_eq!(run(30, 0.5, 9), run(30, 0.5, 9));
    }
}
