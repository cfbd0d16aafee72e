//! A device that is a member of a group.
//!
//! A [`Station`] has two sockets on the group's network, an association with the controller when it
//! needs one ([`Link`]), and its applications behind a [`Port`]. What it must not forget is in its
//! [`MemberStore`].

mod datagram;
mod inside;
mod link;
mod port;
pub mod relay;
#[cfg(target_os = "linux")]
mod tun;

pub use datagram::{Datagram, HEADER};
pub use inside::Inside;
pub use link::{Link, LinkError};
pub use port::{Destination, Origin, Port};
#[cfg(target_os = "linux")]
pub use tun::Tun;

use crate::store::{MemberStore, StoreError};
use crate::token::Token;
use dtls::Psk;
use dtls::crypto::rustcrypto;
use group::control::{Admitted, Answer, GroupName, Reason, Request, WantedRoles};
use group::directory::Lookup;
use group::identity::Identity;
use group::member::{
    Delivery, Event, Listener, Member, MemberError, Membership, Roles, SendError, Stats, Transmit,
};
use group::policy::{Authenticity, Profile, Responses};
use group::rekey::{KeyPath, Timing};
use group::{GroupId, SenderId};
use net::multicast::{self, Interface};
use net::{Clock, socket};
use socket2::SockRef;
use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use vocabulary::{Decode, Instant, Random};
use zeroize::Zeroizing;

/// The largest UDP payload.
const DATAGRAM_BYTES: usize = 65_535;
/// Datagrams taken from a socket before others get their turn.
const BATCH: usize = 32;
/// Before a controller that cannot be reached is asked again: twice as long each time.
const RETRY: Duration = Duration::from_secs(1);
const RETRY_MOST: Duration = Duration::from_secs(60);
/// How often a device that is told to wait asks whether it is a member by now.
const REJOIN: Duration = Duration::from_secs(10);
/// Names of what a device's store says of itself.
const TOKEN: &str = "token";
const IDENTITY: &str = "identity";
/// How long a new member waits in groups where others must look its keys up first: they do so within
/// two seconds of hearing of it.
const INTRODUCTION: Duration = Duration::from_millis(2_500);
/// Before a controller that has noted that a new epoch is wanted, and begins none, is asked again.
/// It begins one every few seconds at most.
const RENEWAL: Duration = Duration::from_secs(10);
/// How long a member that was away waits for what happened meanwhile before it sends.
const SETTLING: Duration = Duration::from_secs(5);

/// Why a device is no member, or no longer.
#[derive(Debug)]
pub enum StationError {
    /// Its store.
    Store(StoreError),
    /// It was never enrolled: there is no token in its store, and none was given.
    NotEnrolled,
    /// It has the token of another device or controller in its store.
    OtherToken(String),
    /// Its controller.
    Link(LinkError),
    /// Its controller does not want it.
    Refused(Reason),
    /// Its controller speaks of something else.
    Answer,
    /// This program cannot be a member of such a group.
    Member(MemberError),
    /// A socket.
    Socket(&'static str, io::Error),
    /// Its applications cannot be heard any more.
    Port(io::Error),
    /// It was put out of the group.
    Excluded,
}

impl fmt::Display for StationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::NotEnrolled => f.write_str("this device is not enrolled: a token is needed"),
            Self::OtherToken(device) => {
                write!(f, "the state is that of device {device:?}, which has another token")
            }
            Self::Link(error) => error.fmt(f),
            Self::Refused(reason) => write!(f, "the controller refuses: {reason}"),
            Self::Answer => f.write_str("the controller's answer is of another kind"),
            Self::Member(error) => error.fmt(f),
            Self::Socket(which, error) => write!(f, "{which}: {error}"),
            Self::Port(error) => write!(f, "applications: {error}"),
            Self::Excluded => f.write_str("put out of the group by its controller"),
        }
    }
}

impl std::error::Error for StationError {}

impl From<StoreError> for StationError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<LinkError> for StationError {
    fn from(error: LinkError) -> Self {
        Self::Link(error)
    }
}

/// A device: its store, and its way to its controller.
pub struct Device {
    name: String,
    identity: Identity,
    store: MemberStore,
    link: Link,
    clock: Clock,
    rng: Random,
}

impl Device {
    /// The device whose state is in `directory`, which a token makes the first time.
    ///
    /// # Errors
    /// See [`StationError`].
    pub fn open(
        directory: &Path,
        token: Option<Token>,
        mut rng: Random,
    ) -> Result<Self, StationError> {
        let store = MemberStore::open(directory)?;
        let damaged = || StationError::Store(StoreError::Damaged("its token"));
        let known = match store.value(TOKEN)? {
            None => None,
            Some(text) => {
                let text = std::str::from_utf8(&text).map_err(|_| damaged())?;
                Some(Token::parse(text).map_err(|_| damaged())?)
            }
        };
        let token = match (known, token) {
            (None, None) => return Err(StationError::NotEnrolled),
            (Some(known), Some(given)) if known.device != given.device => {
                return Err(StationError::OtherToken(known.device));
            }
            (_, Some(given)) => {
                let text: Zeroizing<String> = given.to_text().ok_or_else(damaged)?;
                store.put_value(TOKEN, text.as_bytes())?;
                given
            }
            (Some(known), None) => known,
        };
        let clock = Clock::start();
        let psk = Psk::external(token.device.as_bytes(), &*token.key);
        let psk = psk.map_err(|error| StationError::Link(LinkError::Config(error)))?;
        let link = Link::new(token.controller, psk, clock, rng.fork());
        let identity = identity(&store, &mut rng)?;
        Ok(Self { name: token.device, identity, store, link, clock, rng })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address that packets to the controller leave from.
    ///
    /// # Errors
    /// There is no way there.
    pub fn address(&self) -> Result<IpAddr, StationError> {
        let controller = self.link.resolve()?;
        let socket = socket::connect(controller);
        let local = socket.and_then(|socket| socket.local_addr());
        Ok(local.map_err(|error| StationError::Link(LinkError::Socket(error)))?.ip())
    }

    /// Makes the device a member, if it is none yet, and takes up its place.
    ///
    /// # Errors
    /// See [`StationError`].
    pub async fn join(mut self, options: Options) -> Result<Station, StationError> {
        let Options { group, roles, .. } = &options;
        let stored = self.store.membership(group)?;
        let fits = stored.as_ref().is_some_and(|stored| is_as_wanted(&stored.roles, *roles));
        let (admitted, is_fresh) = match stored {
            Some(admitted) if fits => (admitted, false),
            _ => (self.ask_to_join(&options).await?, true),
        };
        Station::new(self, options, admitted, is_fresh)
    }

    async fn ask_to_join(&mut self, options: &Options) -> Result<Admitted, StationError> {
        let Options { group, roles, address, .. } = options;
        let nonce = self.store.join_nonce(group, self.rng.array())?;
        let request = Request::Join {
            nonce,
            name: group.clone(),
            roles: *roles,
            address: *address,
            keys: self.identity.public(),
        };
        loop {
            match self.link.ask(request.clone()).await? {
                Answer::Admitted(admitted) => return Ok(*admitted),
                // It has joined a moment ago, and lost that since. The same nonce is the same join.
                Answer::Refused(Reason::NotNow) => {
                    tracing::warn!("the controller has this device wait: it joins too often");
                    tokio::time::sleep(REJOIN).await;
                }
                Answer::Refused(reason) => return Err(StationError::Refused(reason)),
                _ => return Err(StationError::Answer),
            }
        }
    }

    /// Leaves a group, and forgets it.
    ///
    /// # Errors
    /// See [`StationError`].
    pub async fn leave(&mut self, group: &GroupName) -> Result<(), StationError> {
        let Some(stored) = self.store.membership(group)? else { return Ok(()) };
        match self.link.ask(Request::Leave(stored.policy.group)).await? {
            Answer::Noted | Answer::Refused(Reason::NotAMember | Reason::NoSuchGroup) => {}
            Answer::Refused(reason) => return Err(StationError::Refused(reason)),
            _ => return Err(StationError::Answer),
        }
        self.link.close();
        Ok(self.store.remove_membership(group)?)
    }
}

/// The keys of the device, which it makes the first time.
fn identity(store: &MemberStore, rng: &mut Random) -> Result<Identity, StoreError> {
    if let Some(bytes) = store.value(IDENTITY)? {
        let bytes = <&[u8; Identity::BYTES]>::try_from(&bytes[..]);
        return Ok(Identity::from_bytes(bytes.map_err(|_| StoreError::Damaged("its keys"))?));
    }
    let identity = Identity::generate(rng);
    store.put_value(IDENTITY, &*identity.to_bytes())?;
    Ok(identity)
}

fn is_as_wanted(roles: &Roles, wanted: WantedRoles) -> bool {
    (roles.sender.is_some(), roles.listener) == (wanted.sender, wanted.listener)
}

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
    /// What was sent to the group.
    group: UdpSocket,
    /// What was sent to this member, and where it sends from.
    own: UdpSocket,
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
}

/// What a membership is stored with, beside its keys.
struct Stored {
    policy: group::Policy,
    roles: Roles,
    controller: group::rekey::ControllerKey,
    senders: BTreeSet<SenderId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Pull,
    Renew,
    Senders,
    Conflict,
    Lookup(Lookup),
}

impl Station {
    fn new(
        device: Device,
        options: Options,
        admitted: Admitted,
        is_fresh: bool,
    ) -> Result<Self, StationError> {
        let Device { identity, store, link, clock, mut rng, .. } = device;
        let Options { group: name, interface, address, hops, stubborn, .. } = options;
        let Admitted { policy, roles, controller, senders, grant } = admitted;
        let stored =
            Stored { policy: policy.clone(), roles, controller: controller.clone(), senders };
        let (keys, _) = KeyPath::join(controller, grant);
        if is_fresh {
            save(&store, &name, &stored, &keys)?;
        }
        let group = multicast::listen(policy.address, &interface);
        let group = group.map_err(|error| StationError::Socket("the group's address", error))?;
        let local = match (policy.address, address) {
            (SocketAddr::V4(_), IpAddr::V6(_)) => Ipv4Addr::UNSPECIFIED.into(),
            _ => address,
        };
        let own = multicast::send_from(SocketAddr::new(local, 0), &interface, hops);
        let own = own.map_err(|error| StationError::Socket("this member's address", error))?;
        let membership =
            Membership { policy, roles, address, senders: stored.senders.clone(), keys, identity };
        let numbers = Box::new(store.numbers());
        let (provider, now) = (&rustcrypto::PROVIDER, clock.now());
        // Gone from the store before it is used.
        let member = match store.take_suspended(&name)?.filter(|_| !is_fresh) {
            Some(left) => Member::resume(membership, &left, provider, numbers, now, rng.fork()),
            None => Member::new(membership, provider, numbers, now, rng.fork()),
        };
        let member = member.map_err(StationError::Member)?;
        let (requests, to_ask) = mpsc::channel(8);
        let (tell, answers) = mpsc::channel(8);
        tokio::spawn(keep_asking(link, to_ask, tell));
        let asked = BTreeSet::new();
        let mut station = Self {
            name,
            member,
            admitted: stored,
            store,
            clock,
            address,
            stubborn,
            group,
            own,
            requests,
            answers,
            asked,
            introduced_at: now,
            settled_by: now + SETTLING,
            renew_at: None,
        };
        if is_fresh && station.has_keys_of_its_own() {
            station.introduced_at = now + INTRODUCTION;
        }
        if !is_fresh {
            // Much may have happened while it was away.
            station.ask(Kind::Pull);
            station.ask(Kind::Senders);
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
        let waits = self.asked.contains(&Kind::Pull) || self.member.waits_for_keys();
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

    /// Carries datagrams until it is put out of the group or something fails. Dropped while it
    /// waits, it has lost nothing.
    ///
    /// # Errors
    /// See [`StationError`].
    pub async fn run(&mut self, port: &mut impl Port) -> Result<(), StationError> {
        let mut datagram = vec![0; DATAGRAM_BYTES];
        let mut sealed = vec![0; DATAGRAM_BYTES];
        loop {
            self.member.handle_timeout(self.clock.now());
            self.act()?;
            let now = self.clock.now();
            let may_send = self.is_settled(now);
            let mut wake = self.member.wake_at(now);
            if !may_send {
                let settled =
                    if now < self.introduced_at { self.introduced_at } else { self.settled_by };
                wake = wake.min(settled);
            }
            wake = self.renew_at.map_or(wake, |at| wake.min(at));
            let wait = wake.saturating_since(now);
            tokio::select! {
                ready = self.group.readable() => {
                    ready.map_err(|error| StationError::Socket("the group's address", error))?;
                    self.hear_group(&mut datagram, port)?;
                }
                ready = self.own.readable() => {
                    ready.map_err(|error| StationError::Socket("this member's address", error))?;
                    self.hear_own(&mut datagram, port)?;
                }
                said = port.receive(&mut datagram), if may_send => {
                    let (to, len) = said.map_err(StationError::Port)?;
                    self.say(to, &datagram[..len], &mut sealed);
                }
                Some(answer) = self.answers.recv() => self.learn(answer)?,
                () = tokio::time::sleep(wait) => {}
            }
        }
    }

    fn hear_group(&mut self, buf: &mut [u8], port: &mut impl Port) -> Result<(), StationError> {
        for _ in 0..BATCH {
            let Some((len, from)) = arrived(self.group.try_recv_from(buf))? else { return Ok(()) };
            let now = self.clock.now();
            self.member.receive_multicast(now, from, &mut buf[..len], |d| hand_over(d, port));
        }
        Ok(())
    }

    fn hear_own(&mut self, buf: &mut [u8], port: &mut impl Port) -> Result<(), StationError> {
        for _ in 0..BATCH {
            let Some((len, from)) = arrived(self.own.try_recv_from(buf))? else { return Ok(()) };
            let now = self.clock.now();
            self.member.receive_unicast(now, from, &mut buf[..len], |d| hand_over(d, port));
        }
        Ok(())
    }

    fn send(&self, to: SocketAddr, datagram: &[u8]) {
        // Past the runtime, which has not heard yet that a fresh socket is writable.
        if let Err(error) = SockRef::from(&self.own).send_to(datagram, &to.into()) {
            tracing::warn!("{to}: {error}");
        }
    }

    fn say(&mut self, to: Destination, datagram: &[u8], sealed: &mut [u8]) {
        let now = self.clock.now();
        let done = match to {
            Destination::Group => {
                let len = self.member.request(now, datagram, sealed);
                len.map(|len| (self.admitted.policy.address, len))
            }
            Destination::Sender(sender) => self.member.respond(now, sender, datagram, sealed),
        };
        match done {
            Ok((to, len)) => self.send(to, &sealed[..len]),
            Err(error @ (SendError::UnknownSender | SendError::Role)) => {
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
        if self.renew_at.is_some_and(|at| at <= now) {
            // One that is under way may be for an earlier epoch.
            let again = if self.asked.contains(&Kind::Renew) { RETRY } else { RENEWAL };
            self.renew_at = Some(now + again);
            self.ask(Kind::Renew);
        }
    }

    fn ask(&mut self, kind: Kind) {
        let group: GroupId = self.admitted.policy.group;
        let request = match kind {
            Kind::Pull => Request::Pull(self.member.keys().pull_request()),
            Kind::Renew => Request::Renew(group, self.member.keys().epoch()),
            Kind::Senders => Request::Senders(group),
            Kind::Lookup(lookup) => Request::Lookup(group, lookup),
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

    fn learn(&mut self, answer: Answer) -> Result<(), StationError> {
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
            Answer::Refused(Reason::NotAMember | Reason::NoSuchGroup) if self.stubborn => {
                self.asked.clear();
            }
            Answer::Refused(Reason::NotAMember | Reason::NoSuchGroup) => {
                self.store.remove_membership(&self.name)?;
                return Err(StationError::Excluded);
            }
            Answer::Refused(reason) => {
                tracing::warn!("the controller refuses: {reason}");
                self.asked.clear();
            }
            Answer::Page(page) => {
                self.asked.remove(&Kind::Lookup(page.lookup));
                self.member.learn(now, &page);
            }
            Answer::Admitted(_) => {}
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
    mut requests: mpsc::Receiver<Request>,
    answers: mpsc::Sender<Answer>,
) {
    while let Some(request) = requests.recv().await {
        let mut wait = RETRY;
        let answer = loop {
            match link.ask(request.clone()).await {
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
