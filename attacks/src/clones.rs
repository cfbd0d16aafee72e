//! Copies of devices in a group: several machines have one token, or copies of one state directory.
//! They crash, stop, start and join in random order, over a lossy network. The cipher suites are
//! wrapped and record every key and nonce that is used to seal.

use lightseal_core::{Decode, Encode, Instant, Random, Writer};
use lightseal_dtls::crypto::{
    Aead, Block, CipherSuite, CipherSuite12, CipherSuiteId, KeyDerivation, Keying, Protection,
    Provider, Record, Unauthentic, rustcrypto,
};
use lightseal_group::control::{
    Admitted, Answer, AnswerMessage, Reason, Request, RequestMessage, RoleSet,
};
use lightseal_group::controller::{Activation, Controller, Output, Settings};
use lightseal_group::member::{Delivery, Event, Membership, RequestKind, Suspended};
use lightseal_group::policy::{Authenticity, Freshness, Profile, Responses};
use lightseal_group::rekey::{KeyPath, Timing, epoch_after_restoration};
use lightseal_group::{Identity, Member, Policy, SenderId, Start};
use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use testkit::group::field::{CONTROLLER, Disk, GROUP, policy};
use testkit::group::site::{Shelf, Stored};

/// One datagram in this many is lost.
const LOSS: u64 = 10;
const STEP: Duration = Duration::from_millis(100);
/// The interval after which an unanswered request is sent again.
const AGAIN: Duration = Duration::from_secs(1);

/// What is copied from one machine to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Copied {
    /// The token: each machine joins for itself, again and again.
    Token,
    /// The state directory: that of one machine is copied to another one at any moment.
    State,
}

/// The results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of requests that were sealed.
    pub requests: u64,
    /// Number of distinct pairs of key and nonce with which records were sealed.
    pub sealed: u64,
    /// Number of records that were sealed with a key and nonce used before.
    pub repeated: u64,
    /// Number of requests and responses that were delivered.
    pub delivered: u64,
    /// Number of joins that were admitted.
    pub joins: u64,
    /// Number of starts that were accepted.
    pub starts: u64,
    /// Number of times a state was copied.
    pub copies: u64,
    /// Number of times a machine was told that another one has taken its place.
    pub refused: u64,
    /// Number of restarts and restorations of the controller.
    pub restarts: u64,
}

/// Pairs of key and number that sealed a record, and how often such a pair was used again.
type Sealed = (BTreeSet<([u8; 32], u64)>, u64);

thread_local! {
    static SEALED: RefCell<Sealed> = RefCell::default();
}

fn note(key: [u8; 32], number: u64) {
    SEALED.with_borrow_mut(|(seen, repeated)| *repeated += u64::from(!seen.insert((key, number))));
}

/// A protection that records every key and number with which it seals.
struct RecordingProtection<T: ?Sized> {
    key: [u8; 32],
    inner: Box<T>,
}

impl Aead for RecordingProtection<dyn Protection> {
    fn seal(&self, record: Record<'_>, content: &mut [u8], tag: &mut [u8]) {
        note(self.key, record.number);
        self.inner.seal(record, content, tag);
    }

    fn open(&self, record: Record<'_>, content: &mut [u8], tag: &[u8]) -> Result<(), Unauthentic> {
        self.inner.open(record, content, tag)
    }
}

impl Protection for RecordingProtection<dyn Protection> {
    fn mask(&self, sample: &Block) -> [u8; 2] {
        self.inner.mask(sample)
    }
}

impl Aead for RecordingProtection<dyn Aead> {
    fn seal(&self, record: Record<'_>, content: &mut [u8], tag: &mut [u8]) {
        note(self.key, record.number);
        self.inner.seal(record, content, tag);
    }

    fn open(&self, record: Record<'_>, content: &mut [u8], tag: &[u8]) -> Result<(), Unauthentic> {
        self.inner.open(record, content, tag)
    }
}

fn noting_13(keys: &KeyDerivation) -> Box<dyn Protection> {
    let suite =
        rustcrypto::PROVIDER.suite(CipherSuiteId::AES_128_CCM_8_SHA256).expect("a known suite");
    let mut key = [0; 32];
    // A value derived from the secret stands for key and IV, which also follow from it.
    keys.expand("noted", &[], &mut key);
    Box::new(RecordingProtection { key, inner: suite.keying.plain(keys) })
}

fn noting_12(key: &[u8], iv: &[u8]) -> Box<dyn Aead> {
    let suite = rustcrypto::PROVIDER
        .suite_12(CipherSuiteId::PSK_WITH_AES_128_CCM_8)
        .expect("a known suite");
    let mut noted = [0; 32];
    noted[..key.len()].copy_from_slice(key);
    noted[key.len()..key.len() + iv.len()].copy_from_slice(iv);
    Box::new(RecordingProtection { key: noted, inner: (suite.aead)(key, iv) })
}

/// A provider with the wrapped suites of these groups, made once.
fn provider() -> &'static Provider {
    static MADE: std::sync::OnceLock<&'static Provider> = std::sync::OnceLock::new();
    MADE.get_or_init(|| {
        let real = &rustcrypto::PROVIDER;
        let new = real.suite(CipherSuiteId::AES_128_CCM_8_SHA256).expect("a known suite");
        let known =
            lightseal_dtls::crypto::KnownAnswer { plain: &[], mask: [0; 2], aggregated: None };
        let new = Box::leak(Box::new(
            CipherSuite::new(new.id, new.name, new.limits, Keying::Aead(noting_13), known)
                .with_tag_len(new.tag_len),
        ));
        let old = *real.suite_12(CipherSuiteId::PSK_WITH_AES_128_CCM_8).expect("a known suite");
        let old = Box::leak(Box::new(old.with_aead(noting_12)));
        let suites: &'static [&'static CipherSuite] = Box::leak(Box::new([&*new]));
        let suites_12: &'static [&'static CipherSuite12] = Box::leak(Box::new([&*old]));
        Box::leak(Box::new(real.with_suites(suites).with_suites_12(suites_12)))
    })
}

/// The contents of a state directory.
#[derive(Clone)]
struct State {
    /// The controller's answer with the current keys, as a host stores it.
    membership: Vec<u8>,
    counter: u32,
    numbers: Disk,
    left: Option<Vec<u8>>,
    identity: Identity,
}

/// A running program of a device.
struct DeviceProgram {
    /// `None` until it has joined.
    member: Option<Member>,
    start: Start,
    resumes: bool,
    wants: VecDeque<Request>,
    /// The request that waits for an answer, its number, and the time to send it again.
    asking: Option<(Vec<u8>, u32, Instant)>,
}

struct Machine {
    device: usize,
    state: Option<State>,
    run: Option<DeviceProgram>,
}

struct Device {
    name: &'static str,
    roles: RoleSet,
    address: SocketAddr,
}

struct World {
    policy: Policy,
    now: Instant,
    rng: Random,
    shelf: Shelf,
    ledger: Disk,
    backup: Option<(Stored, Disk)>,
    controller: Controller,
    devices: [Device; 3],
    machines: Vec<Machine>,
    number: u32,
    report: Report,
}

fn controller(
    policy: &Policy,
    shelf: &Shelf,
    ledger: &Disk,
    now: Instant,
    rng: &mut Random,
) -> Controller {
    let group = shelf.group(policy, rng);
    let (store, ledger) = (Box::new(shelf.clone()), Box::new(ledger.clone()));
    Controller::new(group, Settings::default(), provider(), store, ledger, now, rng.fork())
        .expect("a valid policy")
}

impl World {
    fn new(policy: Policy, clones: usize, seed: u64) -> Self {
        let mut rng = Random::insecure(seed);
        let (shelf, ledger) = (Shelf::default(), Disk::default());
        let now = Instant::from_micros(5_000_000);
        let controller = controller(&policy, &shelf, &ledger, now, &mut rng);
        let roles = |sender, listener| RoleSet { sender, listener };
        let at = |last| SocketAddr::new(IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, last]), 5684);
        let device = |name, roles, last| Device { name, roles, address: at(last) };
        let devices = [
            device("switch", roles(true, false), 1),
            device("lamp", roles(true, true), 2),
            device("other", roles(false, true), 3),
        ];
        let machine = |device| Machine { device, state: None, run: None };
        let mut machines: Vec<_> = (0..2 * clones).map(|at| machine(at % 2)).collect();
        machines.push(machine(2));
        Self {
            policy,
            now,
            rng,
            shelf,
            ledger,
            backup: None,
            controller,
            devices,
            machines,
            number: 0,
            report: Report::default(),
        }
    }

    fn is_lost(&mut self) -> bool {
        self.rng.below(LOSS) == 0
    }

    /// Starts the program of a machine. It joins, or continues with the state of its machine.
    fn start(&mut self, at: usize) {
        if self.machines[at].run.is_some() {
            return;
        }
        let nonce = self.rng.array();
        let device = &self.devices[self.machines[at].device];
        let (ip, roles) = (device.address.ip(), device.roles);
        let Some(state) = &mut self.machines[at].state else {
            let keys = Identity::generate(&mut Random::insecure(at as u64)).public();
            let name = self.controller.name().clone();
            let start = Start { instance: 0, counter: 0, nonce };
            let join = Request::Join { nonce, name, roles, address: ip, keys };
            let wants = [join].into();
            let run = DeviceProgram { member: None, start, resumes: false, wants, asking: None };
            self.machines[at].run = Some(run);
            return;
        };
        state.counter += 1;
        let left = state.left.take();
        let answer = AnswerMessage::decode(&state.membership).expect("the stored state is valid");
        let Answer::Admitted(admitted) = answer.answer else { return };
        let start = Start { instance: admitted.instance, counter: state.counter, nonce };
        let left = left.map(|left| Suspended::decode(&left).expect("the suspended state is valid"));
        let (disk, identity) = (state.numbers.clone(), state.identity.clone());
        let mut member = self.member(*admitted, ip, disk, identity, left.as_ref());
        member.receive_only();
        let resumes = member.is_resumed();
        let wants = [Request::Start { group: GROUP, resumes }].into();
        let run = DeviceProgram { member: Some(member), start, resumes, wants, asking: None };
        self.machines[at].run = Some(run);
    }

    fn member(
        &mut self,
        admitted: Admitted,
        address: IpAddr,
        disk: Disk,
        identity: Identity,
        left: Option<&Suspended>,
    ) -> Member {
        let Admitted { policy, roles, controller, senders, grant, .. } = admitted;
        let (keys, _) = KeyPath::join(controller, grant);
        let membership = Membership { policy, roles, address, senders, keys, identity };
        let (now, rng, ledger) = (self.now, self.rng.fork(), Box::new(disk));
        let member = match left {
            Some(left) => Member::resume(membership, left, provider(), ledger, now, rng),
            None => Member::new(membership, provider(), ledger, now, rng),
        };
        member.expect("a valid group")
    }

    /// Ends a program, in an orderly way or by a crash.
    fn end(&mut self, at: usize, in_order: bool) {
        let Some(run) = self.machines[at].run.take() else { return };
        if let (true, Some(member), Some(state)) =
            (in_order, run.member, &mut self.machines[at].state)
        {
            state.left = member.suspend().map(|left| left.to_bytes());
        }
    }

    /// Copies the present state of a machine to another machine of the same device.
    fn copy(&mut self, from: usize, to: usize) {
        let is_possible = from != to && self.machines[from].device == self.machines[to].device;
        let Some(state) = self.machines[from].state.clone().filter(|_| is_possible) else { return };
        self.end(to, false);
        let numbers = state.numbers.copy();
        self.machines[to].state = Some(State { numbers, ..state });
        self.report.copies += 1;
    }

    /// Restarts the controller, or restores it from a backup.
    fn restart(&mut self, is_restored: bool) {
        if is_restored {
            let Some((stored, ledger)) = &self.backup else { return };
            let mut stored = stored.clone();
            let unix_time = Duration::from_micros(self.now.as_micros());
            stored.epoch = epoch_after_restoration(stored.epoch, unix_time, &mut self.rng);
            *self.shelf.0.lock().expect("no thread panicked") = stored;
            self.ledger = ledger.copy();
        }
        self.report.restarts += 1;
        let Self { policy, shelf, ledger, now, rng, .. } = self;
        self.controller = controller(policy, shelf, ledger, *now, rng);
        self.rekey(Activation::Scheduled);
    }

    fn rekey(&mut self, activation: Activation) {
        self.controller.rekey(self.now, activation).expect("this store never fails");
    }

    /// Carries the requests of all machines to the controller, and its messages back.
    fn carry(&mut self) {
        for at in 0..self.machines.len() {
            self.ask(at);
        }
        let mut answers = Vec::new();
        self.controller.handle_timeout(self.now);
        while let Some(output) = self.controller.poll() {
            match output {
                Output::Multicast(datagram) => {
                    let from = CONTROLLER.parse().expect("an address");
                    self.multicast(None, from, &datagram);
                }
                Output::Answer { answer, .. } => answers.push(answer),
                _ => {}
            }
        }
        for answer in answers {
            let AnswerMessage { number, answer: said } =
                AnswerMessage::decode(&answer).expect("the controller encodes valid answers");
            let asked = |machine: &Machine| {
                let asking = machine.run.as_ref().and_then(|run| run.asking.as_ref());
                asking.is_some_and(|(_, asked, _)| *asked == number)
            };
            if let Some(at) = self.machines.iter().position(asked)
                && !self.is_lost()
            {
                self.answered(at, said);
            }
        }
    }

    fn ask(&mut self, at: usize) {
        let machine = &mut self.machines[at];
        let (device, Some(run)) = (&self.devices[machine.device], &mut machine.run) else { return };
        if let Some(member) = &mut run.member {
            member.handle_timeout(self.now);
            while member.poll_transmit().is_some() {}
            while let Some(event) = member.next_event() {
                let wanted = match event {
                    Event::Pull(pull) => Request::Pull(pull),
                    Event::Excluded => Request::Pull(member.keys().pull_request()),
                    Event::UnknownSender(_) => Request::Senders(GROUP),
                    Event::NewEpochNeeded => Request::Renew(GROUP, member.keys().epoch()),
                    Event::Lookup(lookup) => Request::Lookup(GROUP, lookup),
                    Event::Rekeyed(_) => {
                        if let Some(state) = &mut machine.state {
                            state.membership = stored(run.start.instance, member);
                        }
                        continue;
                    }
                    _ => continue,
                };
                if run.wants.len() < 8 {
                    run.wants.push_back(wanted);
                }
            }
        }
        if run.asking.is_none()
            && let Some(said) = run.wants.pop_front()
        {
            self.number += 1;
            let asked = match said {
                Request::Join { .. } => RequestMessage::new(self.number, said),
                said => RequestMessage::by(run.start, self.number, said),
            };
            let mut buf = [0; 700];
            let mut w = Writer::new(&mut buf);
            asked.write(&mut w).expect("requests are short");
            run.asking = Some((w.finish().to_vec(), self.number, self.now));
        }
        if let Some((request, _, next)) = &mut run.asking
            && *next <= self.now
        {
            *next = self.now + AGAIN;
            let request = request.clone();
            if self.rng.below(LOSS) > 0 {
                self.controller.handle(self.now, device.name, device.roles, &request);
            }
        }
    }

    fn answered(&mut self, at: usize, said: Answer) {
        let address = self.devices[self.machines[at].device].address.ip();
        let Some(mut run) = self.machines[at].run.take() else { return };
        run.asking = None;
        match said {
            Answer::Admitted(admitted) => {
                let identity = Identity::generate(&mut Random::insecure(at as u64));
                let disk = Disk::default();
                run.start.instance = admitted.instance;
                let member = self.member(*admitted, address, disk.clone(), identity.clone(), None);
                let membership = stored(run.start.instance, &member);
                let state = State { membership, counter: 0, numbers: disk, left: None, identity };
                self.machines[at].state = Some(state);
                run.member = Some(member);
                self.report.joins += 1;
            }
            Answer::Started { senders, grant, .. } => {
                if let Some(member) = &mut run.member {
                    member.set_senders(senders);
                    self.report.starts += u64::from(member.started(self.now, grant).is_ok());
                }
            }
            Answer::Granted(grant) => {
                if let Some(member) = &mut run.member {
                    let _ = member.grant(self.now, grant);
                }
            }
            Answer::Senders(senders) => {
                if let Some(member) = &mut run.member {
                    member.set_senders(senders);
                }
            }
            Answer::Page(page) => {
                if let Some(member) = &mut run.member {
                    member.learn(self.now, &page);
                }
            }
            Answer::Refused(Reason::NotStarted) => {
                if let Some(member) = &mut run.member {
                    member.receive_only();
                }
                (run.resumes, run.wants) =
                    (false, [Request::Start { group: GROUP, resumes: false }].into());
            }
            Answer::Refused(Reason::Superseded | Reason::Copied | Reason::NotAMember) => {
                self.machines[at].state = None;
                self.report.refused += 1;
                return;
            }
            // A join that came too early, or a request that no longer applies.
            Answer::Refused(_) if run.member.is_none() => return,
            _ => {}
        }
        self.machines[at].run = Some(run);
    }

    /// Sends a datagram to all programs but the sender's.
    fn multicast(&mut self, sender: Option<usize>, from: SocketAddr, datagram: &[u8]) {
        for at in 0..self.machines.len() {
            if Some(at) == sender || self.is_lost() {
                continue;
            }
            let Some(member) = self.machines[at].run.as_mut().and_then(|run| run.member.as_mut())
            else {
                continue;
            };
            let mut heard: Vec<SenderId> = Vec::new();
            member.receive_multicast(self.now, from, &mut datagram.to_vec(), |delivery| {
                if let Delivery::Request { sender, .. } = delivery {
                    heard.push(sender);
                }
            });
            self.report.delivered += heard.len() as u64;
            let mut answers = Vec::new();
            for sender in heard {
                let mut buf = [0; 300];
                let kind = RequestKind::Group;
                if let Ok((to, len)) = member.respond(self.now, sender, kind, b"done", &mut buf) {
                    answers.push((to, buf[..len].to_vec()));
                }
            }
            let own = self.devices[self.machines[at].device].address;
            for (to, answer) in answers {
                self.unicast(own, to, &answer);
            }
        }
    }

    fn unicast(&mut self, from: SocketAddr, to: SocketAddr, datagram: &[u8]) {
        for at in 0..self.machines.len() {
            if self.devices[self.machines[at].device].address != to {
                continue;
            }
            let Some(member) = self.machines[at].run.as_mut().and_then(|run| run.member.as_mut())
            else {
                continue;
            };
            let delivered = &mut self.report.delivered;
            member.receive_unicast(self.now, from, &mut datagram.to_vec(), |_| {
                *delivered += 1;
            });
        }
    }

    fn request(&mut self, at: usize) {
        let address = self.devices[self.machines[at].device].address;
        let Some(member) = self.machines[at].run.as_mut().and_then(|run| run.member.as_mut())
        else {
            return;
        };
        let mut buf = [0; 300];
        if let Ok(len) = member.request(self.now, b"on", &mut buf) {
            self.report.requests += 1;
            self.multicast(Some(at), address, &buf[..len]);
        }
    }

    fn step(&mut self, copied: Copied) {
        let count = self.machines.len() as u64;
        let (at, other) = (self.rng.below(count) as usize, self.rng.below(count) as usize);
        match self.rng.below(400) {
            0..12 => self.end(at, true),
            12..24 => self.end(at, false),
            24..30 if copied == Copied::State => self.copy(at, other),
            24..30 => {
                // A machine that has lost its state joins with the token again.
                self.end(at, false);
                self.machines[at].state = None;
            }
            30 => {
                let at_once = self.rng.below(2) == 0;
                self.rekey(if at_once { Activation::AtOnce } else { Activation::Scheduled });
            }
            31 => self.restart(false),
            32 => {
                let stored = self.shelf.0.lock().expect("no thread panicked").clone();
                self.backup = stored.chain.is_some().then(|| (stored, self.ledger.copy()));
            }
            33 if self.rng.below(4) == 0 => self.restart(true),
            34..100 => {
                let is_first = self.machines[..at]
                    .iter()
                    .all(|machine| machine.device != self.machines[at].device);
                // If states are copied, only the first machine of each device joins, and the others
                // get copies of its state.
                if copied == Copied::Token || is_first || self.machines[at].state.is_some() {
                    self.start(at);
                }
            }
            _ => self.request(at),
        }
        for _ in 0..self.rng.below(4) {
            self.now += STEP;
            self.carry();
        }
    }
}

/// The membership as a host would store it.
fn stored(instance: u64, member: &Member) -> Vec<u8> {
    let timing = Timing::new(Duration::ZERO, Duration::ZERO).expect("zero is a valid timing");
    let keys = member.keys();
    let admitted = Admitted {
        instance,
        policy: member.policy().clone(),
        roles: member.roles(),
        controller: keys.controller().clone(),
        senders: *member.senders(),
        grant: keys.to_grant(timing),
    };
    let mut buf = [0; lightseal_group::control::MAX_MESSAGE];
    let mut w = Writer::new(&mut buf);
    let answer = AnswerMessage { number: 0, answer: Answer::Admitted(Box::new(admitted)) };
    answer.write(&mut w).expect("an answer");
    w.finish().to_vec()
}

/// The policies of the groups that are tried, one after the other.
fn policies() -> Vec<Policy> {
    let compact = policy(Profile::Compact);
    let pairwise = Policy {
        authenticity: Authenticity::Source,
        responses: Responses::Pairwise,
        freshness: Freshness::Challenge,
        ..compact.clone()
    };
    let axiom = policy(Profile::Axiom12);
    let first = Policy { freshness: Freshness::DropFirst, ..axiom.clone() };
    vec![compact, axiom, pairwise, first]
}

/// Runs copies of two devices until they have sealed `requests` requests.
pub fn run(copied: Copied, clones: usize, seed: u64, requests: u64) -> Report {
    let policies = policies();
    let each = requests.div_ceil(policies.len() as u64);
    let mut total = Report::default();
    for (policy, seed) in policies.into_iter().zip(seed..) {
        SEALED.with_borrow_mut(|noted| *noted = Default::default());
        let mut world = World::new(policy, clones, seed);
        let mut steps = 0;
        while world.report.requests < each && steps < 200 * each {
            world.step(copied);
            steps += 1;
        }
        let (sealed, repeated) =
            SEALED.with_borrow(|(seen, repeated)| (seen.len() as u64, *repeated));
        let report = world.report;
        total.requests += report.requests;
        total.sealed += sealed;
        total.repeated += repeated;
        total.delivered += report.delivered;
        total.joins += report.joins;
        total.starts += report.starts;
        total.copies += report.copies;
        total.refused += report.refused;
        total.restarts += report.restarts;
    }
    total
}
