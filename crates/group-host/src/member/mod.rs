//! A device that is a member of a group.
//!
//! A [`MemberHost`] has two sockets on the group's network, a DTLS association with the controller
//! when it needs one ([`Link`]), and its applications behind an [`ApplicationPort`]. Its durable
//! state is in its [`MemberStore`].

mod datagram;
mod device;
mod error;
mod inside;
mod link;
mod options;
mod own_key;
mod place;
mod port;
pub mod relay;
#[cfg(target_os = "linux")]
mod tun;
mod waiting;

pub use datagram::{Datagram, HEADER};
use device::BegunStart;
pub use device::Device;
pub use error::MemberHostError;
pub use inside::InnerNetwork;
pub use link::{ClientCredentials, Link, LinkError};
pub use options::{AfterEviction, Options, UntilConfirmed, WhenReplaced};
pub use port::{ApplicationPort, Destination, Origin};
use port::{hand_over, take_names};
#[cfg(target_os = "linux")]
pub use tun::Tun;

use crate::provider::PROVIDER;
use crate::store::{MemberStore, StoreError};
use lightseal_core::{Decode, Instant};
use lightseal_group::control::{Admitted, Answer, GroupName, Reason, Request};
use lightseal_group::directory::Lookup;
use lightseal_group::member::{
    Delivery, Event, Listener, Member, Membership, RequestKind, Roles, SendError, Stats, Transmit,
};
use lightseal_group::policy::{Authenticity, Profile, Responses};
use lightseal_group::rekey::{Grant, KeyPath, Timing};
use lightseal_group::{GroupId, SenderSet, Start};
use lightseal_net::Clock;
use lightseal_net::address::Named;
use lightseal_net::blocking::DATAGRAM_BYTES;
use lightseal_net::socket::receive_batch;
use place::GroupSockets;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::sync::mpsc;
use waiting::SendBuffer;

/// The time before a request to a controller that cannot be reached is repeated. It doubles with
/// each attempt, up to `RETRY_MOST`.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MOST: Duration = Duration::from_secs(60);
/// How long a new member waits before it sends, in groups where other members must look up its
/// public keys first. They do so within two seconds after they learn of it.
const INTRODUCTION: Duration = Duration::from_millis(2_500);
/// The time before a request for a new epoch is repeated, if the controller has accepted it but not
/// begun a new epoch. A controller begins at most one epoch every few seconds.
const RENEWAL: Duration = Duration::from_secs(10);
/// How long a patient member waits after a start that brought it into another epoch, so that other
/// members can enter that epoch as well.
const COMING_BACK: Duration = Duration::from_millis(2_500);
/// How long a patient member waits after a start that follows a crash. Other members that crashed
/// at the same time may start a moment later, and a controller answers such starts every five
/// seconds.
const AFTER_A_CRASH: Duration = Duration::from_millis(5_500);
/// How long a start may be unanswered before the log says what the member waits for.
const SILENCE: Duration = Duration::from_secs(2);
/// The maximum time for which a started member waits for missed keys and lists before it sends.
const SETTLING: Duration = Duration::from_secs(5);

/// A running member of a group.
pub struct MemberHost {
    name: GroupName,
    member: Member,
    /// The stored membership, without its keys.
    admitted: Stored,
    store: MemberStore,
    clock: Clock,
    address: IpAddr,
    after_eviction: AfterEviction,
    patient: bool,
    start: Start,
    /// Whether this start follows a run that was shut down cleanly.
    resumes: bool,
    place: GroupSockets,
    requests: mpsc::Sender<Request>,
    answers: mpsc::Receiver<Answer>,
    /// The requests that the controller has not answered yet.
    asked: BTreeSet<Kind>,
    /// Until this time the member sends nothing, because other members are still looking up its
    /// keys.
    introduced_at: Instant,
    /// Until this time the member sends nothing before the controller has answered the outstanding
    /// requests.
    settled_by: Instant,
    /// When the controller is asked again for a new epoch, until one has begun.
    renew_at: Option<Instant>,
    /// When the controller is told of this start again, because it refused it temporarily.
    start_again_at: Option<Instant>,
    /// The controller's address, and when the log is to say that the member waits for it.
    controller: String,
    tell_at: Option<Instant>,
    /// Datagrams of applications that cannot be sealed yet.
    waiting: SendBuffer,
    /// The number of datagrams of applications to addresses that this member cannot send to.
    unreachable: u64,
}

/// The stored parts of a membership other than its keys.
struct Stored {
    instance: u64,
    policy: lightseal_group::Policy,
    roles: Roles,
    controller: lightseal_group::rekey::ControllerKey,
    senders: SenderSet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Start,
    Pull,
    Renew,
    Senders,
    Conflict,
    Lookup(Lookup),
    Names(Lookup),
}

impl MemberHost {
    fn new(
        device: Device,
        options: Options,
        admitted: Admitted,
        begun: BegunStart,
    ) -> Result<Self, MemberHostError> {
        let is_fresh = begun.is_fresh();
        let BegunStart { start, left } = begun;
        let Device { identity, store, link, clock, mut rng, .. } = device;
        let Options {
            group: name,
            interface,
            address,
            hops,
            after_eviction,
            until_confirmed,
            patient,
            ..
        } = options;
        let Admitted { instance, policy, roles, controller, senders, grant } = admitted;
        let (own, at) = (controller.clone(), link.controller().to_owned());
        let stored = Stored { instance, policy: policy.clone(), roles, controller: own, senders };
        let (keys, _) = KeyPath::join(controller, grant);
        if is_fresh {
            save(&store, &name, &stored, &keys)?;
        }
        let place = GroupSockets::take(interface, policy.address, address, hops, clock.now())?;
        let membership =
            Membership { policy, roles, address, senders: stored.senders, keys, identity };
        let numbers = Box::new(store.numbers());
        let (provider, now) = (&PROVIDER, clock.now());
        // `begin_start` has already deleted the suspended state from the store.
        let member = match left {
            Some(left) => Member::resume(membership, &left, provider, numbers, now, rng.fork()),
            None => Member::new(membership, provider, numbers, now, rng.fork()),
        };
        let mut member = member.map_err(MemberHostError::Member)?;
        let resumes = member.is_resumed();
        if !is_fresh {
            member.receive_only();
            if until_confirmed == UntilConfirmed::Send {
                member.dangerous_release();
            }
        }
        let (requests, to_ask) = mpsc::channel(8);
        let (tell, answers) = mpsc::channel(8);
        tokio::spawn(send_requests(link, start, to_ask, tell));
        let asked = BTreeSet::new();
        let mut host = Self {
            name,
            member,
            admitted: stored,
            store,
            clock,
            address,
            after_eviction,
            patient,
            start,
            resumes,
            place,
            requests,
            answers,
            asked,
            introduced_at: now,
            settled_by: now + SETTLING,
            renew_at: None,
            start_again_at: None,
            controller: at,
            tell_at: (!is_fresh).then_some(now + SILENCE),
            waiting: SendBuffer::default(),
            unreachable: 0,
        };
        if is_fresh && host.has_keys_of_its_own() {
            host.introduced_at = now + INTRODUCTION;
        }
        if !is_fresh {
            // While the member was not running, the group may have been rekeyed, or another
            // instance may have replaced it.
            host.ask(Kind::Start);
        }
        Ok(host)
    }

    /// The group's policy.
    pub const fn policy(&self) -> &lightseal_group::Policy {
        &self.admitted.policy
    }

    /// The member's roles.
    pub const fn roles(&self) -> Roles {
        self.admitted.roles
    }

    /// This member's identifier as a listener, by which other members know it.
    pub fn listener(&self) -> Listener {
        match self.admitted.policy.profile {
            Profile::Axiom12 => Listener::Address(self.address),
            Profile::Compact => Listener::Id(self.member.listener()),
        }
    }

    /// The group's inner network.
    pub fn inside(&self) -> InnerNetwork {
        InnerNetwork::new(&self.admitted.policy.group, self.admitted.policy.address)
    }

    /// The member engine.
    pub const fn member(&self) -> &Member {
        &self.member
    }

    /// Counters of records so far.
    pub const fn stats(&self) -> &Stats {
        self.member.stats()
    }

    /// The numbers of datagrams of applications that were not sent: first those to addresses that
    /// this member cannot send to, second those that waited for the controller for too long or
    /// found no room.
    pub const fn not_sent(&self) -> (u64, u64) {
        (self.unreachable, self.waiting.dropped())
    }

    /// The current epoch.
    pub fn epoch(&mut self) -> u64 {
        self.member.epoch(self.clock.now())
    }

    /// Whether other members accept this member's records only if they know its public keys.
    fn has_keys_of_its_own(&self) -> bool {
        let lightseal_group::Policy { authenticity, responses, .. } = &self.admitted.policy;
        (*authenticity, *responses) != (Authenticity::Group, Responses::Group)
    }

    /// Whether the member may send: it has all keys and lists that it has asked for, or has waited
    /// for the maximum time.
    fn is_settled(&self, now: Instant) -> bool {
        if self.member.is_receive_only() {
            return false;
        }
        let waits = self.asked.contains(&Kind::Pull)
            || self.asked.contains(&Kind::Start)
            || self.member.waits_for_keys()
            || self.patient && self.member.is_between_epochs(now);
        now >= self.introduced_at && (!waits || now >= self.settled_by)
    }

    /// Shuts the member down cleanly, so that a later run can continue in the same epoch.
    ///
    /// # Errors
    /// The store cannot be written. The later run then starts as after a crash.
    pub fn close(self) -> Result<(), MemberHostError> {
        let Self { name, member, store, .. } = self;
        let Some(left) = member.suspend() else { return Ok(()) };
        Ok(store.put_suspended(&name, &left)?)
    }

    /// Carries datagrams until the member is evicted from the group or an error occurs. If the
    /// future is dropped while it waits, nothing is lost.
    ///
    /// # Errors
    /// See [`MemberHostError`].
    pub async fn run(&mut self, port: &mut impl ApplicationPort) -> Result<(), MemberHostError> {
        let mut datagram = vec![0; DATAGRAM_BYTES];
        let mut sealed = vec![0; DATAGRAM_BYTES];
        loop {
            self.member.handle_timeout(self.clock.now());
            self.follow();
            self.process_events(port)?;
            if let Some(page) = port.names_wanted() {
                self.ask(Kind::Names(page));
            }
            let now = self.clock.now();
            let may_send = self.is_settled(now);
            if may_send {
                while let Some((to, waited)) = self.waiting.pop(now) {
                    self.send_datagram(to, &waited, &mut sealed, port);
                }
            }
            let is_asked = may_send || port.may_wait();
            let mut wake = self.member.wake_at(now);
            if !may_send && !self.member.is_receive_only() {
                let settled =
                    if now < self.introduced_at { self.introduced_at } else { self.settled_by };
                wake = wake.min(settled);
            }
            self.tell_what_it_waits_for(now);
            let look_at = Some(self.place.look_at());
            let dues = [self.renew_at, self.start_again_at, self.tell_at, look_at];
            wake = dues.into_iter().flatten().fold(wake, Instant::min);
            let wait = wake.saturating_since(now);
            tokio::select! {
                ready = self.place.group.readable() => {
                    ready.map_err(|error| MemberHostError::Socket("the group's address", error))?;
                    self.receive_group(&mut datagram, port)?;
                }
                ready = self.place.own.readable() => {
                    ready.map_err(|error| MemberHostError::Socket("this member's address", error))?;
                    self.receive_own(&mut datagram, port)?;
                }
                said = port.receive(&mut datagram), if is_asked => {
                    let (to, len) = said.map_err(MemberHostError::Port)?;
                    if may_send {
                        self.send_datagram(to, &datagram[..len], &mut sealed, port);
                    } else {
                        self.waiting.push(now, to, &datagram[..len]);
                    }
                }
                Some(answer) = self.answers.recv() => self.take_answer(answer, port)?,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    fn tell_what_it_waits_for(&mut self, now: Instant) {
        if !self.member.is_receive_only() {
            self.tell_at = None;
        } else if self.tell_at.is_some_and(|at| at <= now) {
            self.tell_at = None;
            tracing::info!(
                "waits for controller {} to confirm this start: until then it receives and sends \
                 nothing",
                self.controller
            );
        }
    }

    fn receive_group(
        &mut self,
        buf: &mut [u8],
        port: &mut impl ApplicationPort,
    ) -> Result<(), MemberHostError> {
        let Self { place, member, clock, .. } = self;
        let received = receive_batch(
            buf,
            |buf| place.group.try_recv_from(buf),
            |from, datagram| {
                let deliver = |delivery: Delivery<'_>| hand_over(delivery, port);
                member.receive_multicast(clock.now(), from, datagram, deliver);
            },
        );
        received.map_err(|error| MemberHostError::Socket("the group's address", error))
    }

    fn receive_own(
        &mut self,
        buf: &mut [u8],
        port: &mut impl ApplicationPort,
    ) -> Result<(), MemberHostError> {
        let Self { place, member, clock, .. } = self;
        let received = receive_batch(
            buf,
            |buf| place.own.try_recv_from(buf),
            |from, datagram| {
                let deliver = |delivery: Delivery<'_>| hand_over(delivery, port);
                member.receive_unicast(clock.now(), from, datagram, deliver);
            },
        );
        received.map_err(|error| MemberHostError::Socket("this member's address", error))
    }

    /// Adapts to changes of the interface and its address.
    fn follow(&mut self) {
        let Some(address) = self.place.look(self.clock.now()) else { return };
        match self.admitted.policy.profile {
            Profile::Compact => self.address = address,
            // The member's keys depend on its address, so only the controller can decide whether it
            // may have another one.
            Profile::Axiom12 => tracing::error!(
                "{} was this member's address, by which the group knows it: join again from \
                 {address}",
                self.address
            ),
        }
    }

    fn send(&mut self, to: SocketAddr, datagram: &[u8]) {
        if let Err(error) = self.place.send(to, datagram, self.clock.now()) {
            tracing::warn!("{}: {error}", Named(to));
        }
    }

    fn send_datagram(
        &mut self,
        to: Destination,
        datagram: &[u8],
        sealed: &mut [u8],
        port: &mut impl ApplicationPort,
    ) {
        let now = self.clock.now();
        let done = match to {
            Destination::Group => {
                let len = self.member.request(now, datagram, sealed);
                len.map(|len| (self.admitted.policy.address, len))
            }
            Destination::Sender(sender) => {
                self.member.respond(now, sender, RequestKind::Group, datagram, sealed)
            }
            Destination::DirectSender(sender) => {
                self.member.respond(now, sender, RequestKind::Direct, datagram, sealed)
            }
            Destination::Listener(listener) => {
                self.member.request_to(now, listener, datagram, sealed)
            }
            Destination::Unreachable(_) => Err(SendError::NotAMember),
        };
        match done {
            Ok((to, len)) => self.send(to, &sealed[..len]),
            Err(error @ (SendError::NotAMember | SendError::NoPairwiseKeys)) => {
                self.unreachable += 1;
                tracing::debug!("not sent: {error}");
                if let Ok(datagram) = Datagram::decode(datagram) {
                    port.refuse(to, datagram);
                }
            }
            Err(error @ (SendError::UnknownSender | SendError::Role | SendError::NoKey)) => {
                tracing::debug!("not sent: {error}");
            }
            Err(error) => tracing::warn!("not sent: {error}"),
        }
    }

    /// Processes the outputs of the engine.
    fn process_events(&mut self, port: &mut impl ApplicationPort) -> Result<(), MemberHostError> {
        while let Some(Transmit { to, datagram }) = self.member.poll_transmit() {
            self.send(to, &datagram);
        }
        while let Some(event) = self.member.next_event() {
            match event {
                Event::Rekeyed(epoch) => {
                    tracing::debug!("epoch {epoch}");
                    port.rekeyed();
                    self.renew_at = None;
                    save(&self.store, &self.name, &self.admitted, self.member.keys())?;
                }
                Event::Pull(_) | Event::Excluded => self.ask(Kind::Pull),
                Event::SenderConflict(sender) => {
                    tracing::warn!("another member sends under SenderID {}", sender.0);
                    self.ask(Kind::Conflict);
                }
                Event::UnknownSender(_) => self.ask(Kind::Senders),
                Event::SendersChanged => {
                    self.admitted.senders = *self.member.senders();
                    save(&self.store, &self.name, &self.admitted, self.member.keys())?;
                }
                // The start that is under way will bring a new epoch.
                Event::NewEpochNeeded if self.asked.contains(&Kind::Start) => {}
                Event::NewEpochNeeded => self.renew_at = Some(self.clock.now()),
                Event::Lookup(lookup) => self.ask(Kind::Lookup(lookup)),
                event => tracing::debug!("not handled: {event:?}"),
            }
        }
        self.renew_when_due();
        Ok(())
    }

    /// The engine asks for a new epoch only once in each epoch. The request is repeated here,
    /// because the controller may have been restarted, or may have received it for an epoch that
    /// has ended.
    fn renew_when_due(&mut self) {
        let now = self.clock.now();
        if self.start_again_at.is_some_and(|at| at <= now) {
            self.start_again_at = None;
            self.ask(Kind::Start);
        }
        if self.renew_at.is_some_and(|at| at <= now) {
            // An outstanding request may be for an earlier epoch.
            let again = if self.asked.contains(&Kind::Renew) { RETRY } else { RENEWAL };
            self.renew_at = Some(now + again);
            self.ask(Kind::Renew);
        }
    }

    fn ask(&mut self, kind: Kind) {
        let group: GroupId = self.admitted.policy.group;
        if self.asked.contains(&Kind::Start) {
            // The controller answers no other request before the start. The engine repeats its
            // requests later.
            return;
        }
        let request = match kind {
            Kind::Start => Request::Start { group, resumes: self.resumes },
            Kind::Pull => Request::Pull(self.member.keys().pull_request()),
            Kind::Renew => Request::Renew(group, self.member.keys().epoch()),
            Kind::Senders => Request::Senders(group),
            Kind::Lookup(lookup) => Request::Lookup(group, lookup),
            Kind::Names(lookup) => Request::Names(group, lookup),
            Kind::Conflict => match self.admitted.roles.sender {
                Some(sender) => Request::Conflict(group, sender),
                None => return,
            },
        };
        // At most one request of each kind is outstanding. If the queue is full, the engine repeats
        // the request later.
        if !self.asked.contains(&kind) && self.requests.try_send(request).is_ok() {
            self.asked.insert(kind);
        }
    }

    fn take_answer(
        &mut self,
        answer: Answer,
        port: &mut impl ApplicationPort,
    ) -> Result<(), MemberHostError> {
        let now = self.clock.now();
        match answer {
            Answer::Granted(grant) => {
                self.asked.remove(&Kind::Pull);
                if let Err(refusal) = self.member.grant(now, grant) {
                    tracing::warn!("the keys from the controller were refused: {refusal}");
                }
            }
            Answer::Senders(senders) => {
                self.asked.remove(&Kind::Senders);
                self.admitted.senders = senders;
                self.member.set_senders(senders);
            }
            Answer::Noted => {
                self.asked.remove(&Kind::Renew);
                self.asked.remove(&Kind::Conflict);
            }
            Answer::Started { clones, senders, grant } => {
                self.asked.remove(&Kind::Start);
                self.take_start(now, clones, senders, grant)?;
            }
            Answer::Refused(Reason::NotStarted) => {
                // The controller was restored from a backup, and does not know this start.
                self.asked.clear();
                self.member.receive_only();
                self.resumes = false;
                self.ask(Kind::Start);
            }
            Answer::Refused(reason @ (Reason::Superseded | Reason::Copied)) => {
                self.store.replace(&self.name, self.start.instance)?;
                return Err(MemberHostError::Replaced(reason));
            }
            Answer::Refused(Reason::NotAMember | Reason::NoSuchGroup | Reason::Evicted)
                if self.after_eviction == AfterEviction::Continue =>
            {
                self.asked.clear();
            }
            Answer::Refused(
                reason @ (Reason::NotAMember | Reason::NoSuchGroup | Reason::Evicted),
            ) => {
                self.store.remove_membership(&self.name)?;
                return Err(MemberHostError::Excluded(reason));
            }
            Answer::Refused(reason) if self.asked.contains(&Kind::Start) => {
                tracing::warn!("the controller refuses: {reason}; the request will be repeated");
                self.asked.clear();
                self.start_again_at = Some(now + RENEWAL);
            }
            Answer::Refused(reason) => {
                tracing::warn!("the controller refuses: {reason}");
                self.asked.clear();
            }
            Answer::Page(page) => {
                self.asked.remove(&Kind::Lookup(page.lookup));
                self.member.learn(now, &page);
            }
            Answer::Names(names) => {
                self.asked.remove(&Kind::Names(names.lookup));
                take_names(names, self.member.keys().epoch(), port);
            }
            Answer::Admitted(_) | Answer::Key(_) => {}
        }
        Ok(())
    }

    /// Takes the controller's answer to this start: from now on the member may seal records.
    fn take_start(
        &mut self,
        now: Instant,
        clones: u32,
        senders: SenderSet,
        grant: Grant,
    ) -> Result<(), MemberHostError> {
        if clones > 0 {
            tracing::warn!("the controller has refused copies of this device: {clones} times");
        }
        self.admitted.senders = senders;
        self.member.set_senders(senders);
        if self.patient && (!self.resumes || grant.epoch > self.member.keys().epoch()) {
            let wait = if self.resumes { COMING_BACK } else { AFTER_A_CRASH };
            self.introduced_at = self.introduced_at.max(now + wait);
            self.settled_by = self.settled_by.max(self.introduced_at + SETTLING);
        }
        if let Err(refusal) = self.member.started(now, grant) {
            tracing::warn!("the keys from the controller were refused: {refusal}");
            self.start_again_at = Some(now + RENEWAL);
        }
        Ok(())
    }
}

fn save(
    store: &MemberStore,
    name: &GroupName,
    stored: &Stored,
    keys: &KeyPath,
) -> Result<(), StoreError> {
    let now = Timing::new(Duration::ZERO, Duration::ZERO);
    let admitted = Admitted {
        instance: stored.instance,
        policy: stored.policy.clone(),
        roles: stored.roles,
        controller: stored.controller.clone(),
        senders: stored.senders,
        grant: keys.to_grant(now.ok_or(StoreError::Damaged("a membership"))?),
    };
    store.put_membership(name, admitted)
}

/// Sends requests to the controller one after the other, until the [`MemberHost`] is dropped.
async fn send_requests(
    mut link: Link,
    start: Start,
    mut requests: mpsc::Receiver<Request>,
    answers: mpsc::Sender<Answer>,
) {
    while let Some(request) = requests.recv().await {
        let mut wait = RETRY;
        let answer = loop {
            match link.ask(Some(start), request.clone()).await {
                Ok(answer) => break answer,
                Err(error) => tracing::warn!("{error}"),
            }
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = answers.closed() => return,
            }
            wait = (wait * 2).min(RETRY_MOST);
        };
        if answers.send(answer).await.is_err() {
            break;
        }
    }
    link.close();
}
