//! A device that is a member of a group.
//!
//! A [`Station`] has two sockets on the group's network, an association with the controller when it
//! needs one ([`Link`]), and its applications behind a [`Port`]. What it must not forget is in its
//! [`MemberStore`].

mod datagram;
mod device;
mod error;
mod inside;
mod link;
mod place;
mod port;
pub mod relay;
#[cfg(target_os = "linux")]
mod tun;
mod waiting;

pub use datagram::{Datagram, HEADER};
use device::Begun;
pub use device::Device;
pub use error::StationError;
pub use inside::Inside;
pub use link::{Link, LinkError};
pub use port::{Destination, Origin, Port};
#[cfg(target_os = "linux")]
pub use tun::Tun;

use crate::store::{MemberStore, StoreError};
use dtls::crypto::rustcrypto;
use group::control::{Admitted, Answer, GroupName, Reason, Request, WantedRoles};
use group::directory::Lookup;
use group::member::{
    Delivery, Event, Listener, Member, Membership, Roles, SendError, Stats, Transmit,
};
use group::policy::{Authenticity, Profile, Responses};
use group::rekey::{Grant, KeyPath, Timing};
use group::{GroupId, SenderId, Start};
use net::Clock;
use net::address::Named;
use net::multicast::Interface;
use place::Place;
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::sync::mpsc;
use vocabulary::{Decode, Instant};
use waiting::Waiting;

/// The largest UDP payload.
const DATAGRAM_BYTES: usize = 65_535;
/// Datagrams taken from a socket before others get their turn.
const BATCH: usize = 32;
/// Before a controller that cannot be reached is asked again: twice as long each time.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MOST: Duration = Duration::from_secs(60);
/// How long a new member waits in groups where others must look its keys up first: they do so within
/// two seconds of hearing of it.
const INTRODUCTION: Duration = Duration::from_millis(2_500);
/// Before a controller that has noted that a new epoch is wanted, and begins none, is asked again.
/// It begins one every few seconds at most.
const RENEWAL: Duration = Duration::from_secs(10);
/// How long a member that sends once waits after a start that brought it into another epoch, so that
/// others hear of that epoch too,
const COMING_BACK: Duration = Duration::from_millis(2_500);
/// and after a crash: members that crashed with it may start a moment later, and a controller answers
/// such starts every five seconds.
const AFTER_A_CRASH: Duration = Duration::from_millis(5_500);
/// How long a start may be unanswered before a line says what the member waits for.
const SILENCE: Duration = Duration::from_secs(2);
/// How long a member that was away waits for what happened meanwhile before it sends.
const SETTLING: Duration = Duration::from_secs(5);

/// How a device is in a group.
#[derive(Clone, Debug)]
pub struct Options {
    /// Which group.
    pub group: GroupName,
    /// What it wants to be.
    pub roles: WantedRoles,
    /// The interface that the group is on.
    pub interface: Interface,
    /// The address that it sends from.
    pub address: IpAddr,
    /// How many hops its multicast takes.
    pub hops: u8,
    /// Whether it goes on with the keys it has when it is put out: to show what they are worth.
    pub stubborn: bool,
    /// Whether it joins though another instance of the device has taken its place.
    pub anew: bool,
    /// Whether it sends before the controller knows of this start. Where there is a copy of its
    /// state, both then use the same keys and numbers.
    pub unconfirmed: bool,
    /// Whether it waits, before it sends for the first time, until others have had the time to enter
    /// the epoch that it sends in: for who sends once.
    pub patient: bool,
}

/// A device in its place in a group.
pub struct Station {
    name: GroupName,
    member: Member,
    /// As it is stored, but for its keys.
    admitted: Stored,
    store: MemberStore,
    clock: Clock,
    address: IpAddr,
    stubborn: bool,
    patient: bool,
    start: Start,
    /// Whether this start follows a run that the controller knows and that ended in good order.
    resumes: bool,
    place: Place,
    requests: mpsc::Sender<Request>,
    answers: mpsc::Receiver<Answer>,
    /// What the controller was asked and has not answered.
    asked: BTreeSet<Kind>,
    /// Until then it sends nothing: others are still learning who it is.
    introduced_at: Instant,
    /// Until then it does not send before its controller has answered.
    settled_by: Instant,
    /// When the controller is asked for another epoch, as long as none has begun.
    renew_at: Option<Instant>,
    /// When the controller is told of this start again, which it could not take.
    start_again_at: Option<Instant>,
    /// Where its controller is, and when it is told that it waits for it.
    controller: String,
    tell_at: Option<Instant>,
    /// What applications have sent before it could be sealed.
    waiting: Waiting,
    /// Datagrams of applications to addresses that this member cannot speak to.
    unreachable: u64,
}

/// What a membership is stored with, beside its keys.
struct Stored {
    instance: u64,
    policy: group::Policy,
    roles: Roles,
    controller: group::rekey::ControllerKey,
    senders: BTreeSet<SenderId>,
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

impl Station {
    fn new(
        device: Device,
        options: Options,
        admitted: Admitted,
        begun: Begun,
    ) -> Result<Self, StationError> {
        let is_fresh = begun.is_fresh();
        let Begun { start, left } = begun;
        let Device { identity, store, link, clock, mut rng, .. } = device;
        let Options {
            group: name, interface, address, hops, stubborn, unconfirmed, patient, ..
        } = options;
        let Admitted { instance, policy, roles, controller, senders, grant } = admitted;
        let (own, at) = (controller.clone(), link.controller().to_owned());
        let stored = Stored { instance, policy: policy.clone(), roles, controller: own, senders };
        let (keys, _) = KeyPath::join(controller, grant);
        if is_fresh {
            save(&store, &name, &stored, &keys)?;
        }
        let place = Place::take(interface, policy.address, address, hops, clock.now())?;
        let membership =
            Membership { policy, roles, address, senders: stored.senders.clone(), keys, identity };
        let numbers = Box::new(store.numbers());
        let (provider, now) = (&rustcrypto::PROVIDER, clock.now());
        // Gone from the store since the start began.
        let member = match left {
            Some(left) => Member::resume(membership, &left, provider, numbers, now, rng.fork()),
            None => Member::new(membership, provider, numbers, now, rng.fork()),
        };
        let mut member = member.map_err(StationError::Member)?;
        let resumes = member.is_resumed();
        if !is_fresh {
            member.hold();
            if unconfirmed {
                member.dangerous_release();
            }
        }
        let (requests, to_ask) = mpsc::channel(8);
        let (tell, answers) = mpsc::channel(8);
        tokio::spawn(keep_asking(link, start, to_ask, tell));
        let asked = BTreeSet::new();
        let mut station = Self {
            name,
            member,
            admitted: stored,
            store,
            clock,
            address,
            stubborn,
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
            waiting: Waiting::default(),
            unreachable: 0,
        };
        if is_fresh && station.has_keys_of_its_own() {
            station.introduced_at = now + INTRODUCTION;
        }
        if !is_fresh {
            // Much may have happened while it was away, and another may have come in its place.
            station.ask(Kind::Start);
        }
        Ok(station)
    }

    /// The group's policy.
    pub const fn policy(&self) -> &group::Policy {
        &self.admitted.policy
    }

    /// What the member may do.
    pub const fn roles(&self) -> Roles {
        self.admitted.roles
    }

    /// This member as the others know it as a listener.
    pub fn listener(&self) -> Listener {
        match self.admitted.policy.profile {
            Profile::Axiom12 => Listener::Address(self.address),
            Profile::Compact => Listener::Id(self.member.listener()),
        }
    }

    /// The group's network inside of it.
    pub fn inside(&self) -> Inside {
        Inside::new(&self.admitted.policy.group, self.admitted.policy.address)
    }

    /// The engine.
    pub const fn member(&self) -> &Member {
        &self.member
    }

    /// What became of records so far.
    pub const fn stats(&self) -> &Stats {
        self.member.stats()
    }

    /// Datagrams of applications that were not sent: those to addresses of nobody that this member
    /// can speak to, and those that waited for the controller for too long or had to make room.
    pub const fn not_sent(&self) -> (u64, u64) {
        (self.unreachable, self.waiting.dropped())
    }

    /// The current epoch.
    pub fn epoch(&mut self) -> u64 {
        self.member.epoch(self.clock.now())
    }

    /// Whether others take what it writes only if they know its keys.
    fn has_keys_of_its_own(&self) -> bool {
        let group::Policy { authenticity, responses, .. } = &self.admitted.policy;
        (*authenticity, *responses) != (Authenticity::Group, Responses::Group)
    }

    /// Whether it knows what it should before it sends, or has waited for long enough.
    fn is_settled(&self, now: Instant) -> bool {
        if self.member.is_held() {
            return false;
        }
        let waits = self.asked.contains(&Kind::Pull)
            || self.asked.contains(&Kind::Start)
            || self.member.waits_for_keys()
            || self.patient && self.member.is_between_epochs(now);
        now >= self.introduced_at && (!waits || now >= self.settled_by)
    }

    /// Ends in good order: a later run goes on in the same epoch.
    ///
    /// # Errors
    /// The store cannot be written: the later run comes back as after a crash.
    pub fn close(self) -> Result<(), StationError> {
        let Self { name, member, store, .. } = self;
        let Some(left) = member.suspend() else { return Ok(()) };
        Ok(store.put_suspended(&name, &left)?)
    }

    /// Carries datagrams until it is evicted from the group or something fails. Dropped while it
    /// waits, it has lost nothing.
    ///
    /// # Errors
    /// See [`StationError`].
    pub async fn run(&mut self, port: &mut impl Port) -> Result<(), StationError> {
        let mut datagram = vec![0; DATAGRAM_BYTES];
        let mut sealed = vec![0; DATAGRAM_BYTES];
        loop {
            self.member.handle_timeout(self.clock.now());
            self.follow();
            self.act()?;
            if let Some(page) = port.names_wanted() {
                self.ask(Kind::Names(page));
            }
            let now = self.clock.now();
            let may_send = self.is_settled(now);
            if may_send {
                while let Some((to, waited)) = self.waiting.pop(now) {
                    self.say(to, &waited, &mut sealed, port);
                }
            }
            let is_asked = may_send || port.may_wait();
            let mut wake = self.member.wake_at(now);
            if !may_send && !self.member.is_held() {
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
                    ready.map_err(|error| StationError::Socket("the group's address", error))?;
                    self.hear_group(&mut datagram, port)?;
                }
                ready = self.place.own.readable() => {
                    ready.map_err(|error| StationError::Socket("this member's address", error))?;
                    self.hear_own(&mut datagram, port)?;
                }
                said = port.receive(&mut datagram), if is_asked => {
                    let (to, len) = said.map_err(StationError::Port)?;
                    if may_send {
                        self.say(to, &datagram[..len], &mut sealed, port);
                    } else {
                        self.waiting.push(now, to, &datagram[..len]);
                    }
                }
                Some(answer) = self.answers.recv() => self.learn(answer, port)?,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    fn tell_what_it_waits_for(&mut self, now: Instant) {
        if !self.member.is_held() {
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

    fn hear_group(&mut self, buf: &mut [u8], port: &mut impl Port) -> Result<(), StationError> {
        for _ in 0..BATCH {
            let Some((len, from)) = arrived(self.place.group.try_recv_from(buf))? else {
                return Ok(());
            };
            let now = self.clock.now();
            self.member.receive_multicast(now, from, &mut buf[..len], |d| hand_over(d, port));
        }
        Ok(())
    }

    fn hear_own(&mut self, buf: &mut [u8], port: &mut impl Port) -> Result<(), StationError> {
        for _ in 0..BATCH {
            let Some((len, from)) = arrived(self.place.own.try_recv_from(buf))? else {
                return Ok(());
            };
            let now = self.clock.now();
            self.member.receive_unicast(now, from, &mut buf[..len], |d| hand_over(d, port));
        }
        Ok(())
    }

    /// Follows the interface, and the address on it.
    fn follow(&mut self) {
        let Some(address) = self.place.look(self.clock.now()) else { return };
        match self.admitted.policy.profile {
            Profile::Compact => self.address = address,
            // Its keys go by its address, and only the controller knows whose that may still be.
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

    fn say(&mut self, to: Destination, datagram: &[u8], sealed: &mut [u8], port: &mut impl Port) {
        let now = self.clock.now();
        let done = match to {
            Destination::Group => {
                let len = self.member.request(now, datagram, sealed);
                len.map(|len| (self.admitted.policy.address, len))
            }
            Destination::Sender(sender) => self.member.respond(now, sender, datagram, sealed),
            Destination::Listener(listener) => {
                self.member.request_to(now, listener, datagram, sealed)
            }
            Destination::Nobody(_) => Err(SendError::NotAMember),
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

    /// Does what the engine wants.
    fn act(&mut self) -> Result<(), StationError> {
        while let Some(Transmit { to, datagram }) = self.member.poll_transmit() {
            self.send(to, &datagram);
        }
        while let Some(event) = self.member.next_event() {
            match event {
                Event::Rekeyed(epoch) => {
                    tracing::debug!("epoch {epoch}");
                    self.renew_at = None;
                    save(&self.store, &self.name, &self.admitted, self.member.keys())?;
                }
                Event::Pull(_) | Event::Excluded => self.ask(Kind::Pull),
                Event::SenderConflict(sender) => {
                    tracing::warn!("another member sends as {}", sender.0);
                    self.ask(Kind::Conflict);
                }
                Event::UnknownSender(_) => self.ask(Kind::Senders),
                Event::SendersChanged => {
                    self.admitted.senders.clone_from(self.member.senders());
                    save(&self.store, &self.name, &self.admitted, self.member.keys())?;
                }
                // Its start brings another epoch.
                Event::NewEpochNeeded if self.asked.contains(&Kind::Start) => {}
                Event::NewEpochNeeded => self.renew_at = Some(self.clock.now()),
                Event::Lookup(lookup) => self.ask(Kind::Lookup(lookup)),
            }
        }
        self.renew_when_due();
        Ok(())
    }

    /// The engine says once an epoch that it wants another. The controller may forget that when it
    /// is stopped, or hear it of an epoch that has ended.
    fn renew_when_due(&mut self) {
        let now = self.clock.now();
        if self.start_again_at.is_some_and(|at| at <= now) {
            self.start_again_at = None;
            self.ask(Kind::Start);
        }
        if self.renew_at.is_some_and(|at| at <= now) {
            // One that is under way may be for an earlier epoch.
            let again = if self.asked.contains(&Kind::Renew) { RETRY } else { RENEWAL };
            self.renew_at = Some(now + again);
            self.ask(Kind::Renew);
        }
    }

    fn ask(&mut self, kind: Kind) {
        let group: GroupId = self.admitted.policy.group;
        if self.asked.contains(&Kind::Start) {
            // Nothing else is answered before, and what is wanted is asked for again.
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
        // One of a kind at a time; what finds no room is asked for again by the engine.
        if !self.asked.contains(&kind) && self.requests.try_send(request).is_ok() {
            self.asked.insert(kind);
        }
    }

    fn learn(&mut self, answer: Answer, port: &mut impl Port) -> Result<(), StationError> {
        let now = self.clock.now();
        match answer {
            Answer::Granted(grant) => {
                self.asked.remove(&Kind::Pull);
                if let Err(refusal) = self.member.grant(now, grant) {
                    tracing::warn!("keys of the controller: {refusal}");
                }
            }
            Answer::Senders(senders) => {
                self.asked.remove(&Kind::Senders);
                self.admitted.senders.clone_from(&senders);
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
                // It has been restored from a backup.
                self.asked.clear();
                self.member.hold();
                self.resumes = false;
                self.ask(Kind::Start);
            }
            Answer::Refused(reason @ (Reason::Superseded | Reason::Copied)) => {
                self.store.replace(&self.name, self.start.instance)?;
                return Err(StationError::Replaced(reason));
            }
            Answer::Refused(Reason::NotAMember | Reason::NoSuchGroup | Reason::Evicted)
                if self.stubborn =>
            {
                self.asked.clear();
            }
            Answer::Refused(
                reason @ (Reason::NotAMember | Reason::NoSuchGroup | Reason::Evicted),
            ) => {
                self.store.remove_membership(&self.name)?;
                return Err(StationError::Excluded(reason));
            }
            Answer::Refused(reason) if self.asked.contains(&Kind::Start) => {
                tracing::warn!("the controller refuses: {reason}; it is asked again");
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
                port.learn_names(names);
            }
            Answer::Admitted(_) | Answer::Key(_) => {}
        }
        Ok(())
    }

    /// The controller knows of this start: from here on the member seals.
    fn take_start(
        &mut self,
        now: Instant,
        clones: u32,
        senders: BTreeSet<SenderId>,
        grant: Grant,
    ) -> Result<(), StationError> {
        if clones > 0 {
            tracing::warn!("the controller has refused copies of this device: {clones} times");
        }
        self.admitted.senders.clone_from(&senders);
        self.member.set_senders(senders);
        if self.patient && (!self.resumes || grant.epoch > self.member.keys().epoch()) {
            let wait = if self.resumes { COMING_BACK } else { AFTER_A_CRASH };
            self.introduced_at = self.introduced_at.max(now + wait);
            self.settled_by = self.settled_by.max(self.introduced_at + SETTLING);
        }
        if let Err(refusal) = self.member.started(now, grant) {
            tracing::warn!("keys of the controller: {refusal}");
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
        senders: stored.senders.clone(),
        grant: keys.to_grant(now.ok_or(StoreError::Damaged("a membership"))?),
    };
    store.put_membership(name, admitted)
}

fn hand_over(delivery: Delivery<'_>, port: &mut impl Port) {
    let (origin, content) = match delivery {
        Delivery::Request { sender, content, .. } => (Origin::Sender(sender), content),
        Delivery::DirectRequest { sender, content, .. } => (Origin::DirectSender(sender), content),
        Delivery::Response { listener, content, .. } => (Origin::Listener(listener), content),
    };
    // It is authentic; who wrote it is another program.
    match Datagram::decode(content) {
        Ok(datagram) => port.deliver(origin, datagram),
        Err(error) => tracing::debug!("not a datagram with ports: {error}"),
    }
}

/// A datagram, or none for now.
fn arrived(
    received: io::Result<(usize, SocketAddr)>,
) -> Result<Option<(usize, SocketAddr)>, StationError> {
    match received {
        Ok(arrived) => Ok(Some(arrived)),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
        // What an ICMP message says of another datagram.
        Err(error) if net::blocking::is_loss(&error) => Ok(None),
        Err(error) => Err(StationError::Socket("receiving", error)),
    }
}

/// Carries requests to the controller, one after the other, until the station is gone.
async fn keep_asking(
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
