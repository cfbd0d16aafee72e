//! Members of a multicast group that exchange numbered requests and responses.
//!
//! The first members send requests to the group, and every other member answers each. A payload
//! names its writer, so that a receiver notices also a genuine payload under another name. There is
//! no controller: all members compute the keys of the group from one seed ([`keys`]). A member keeps
//! its peers on the heap, or has memory of a fixed size ([`kind`]).
//!
//! A sender begins when every other member has answered it once, so that members may start in any
//! order. Only the requests after that are counted as such.

mod keys;
mod kind;
mod ledger;
mod options;

pub use options::{GroupOptions, PORT};

use crate::payload::{Label, SeenSerials};
use crate::step::Step;
use crate::{Exchange, Options, Request};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use keys::SharedKeys;
use kind::{GroupEngine, Wish};
use lightseal_core::{AddressPair, Engine, Instant, Output, Random};
use lightseal_group::directory::{Lookup, PAGE_SIZE};
use lightseal_group::member::{Delivery, Listener, Member, RequestKind, Stats};
use lightseal_group::policy::{Profile, Responses};
use lightseal_group::{ListenerId, SenderId};

/// The longest datagram in bytes.
const MOST_BYTES: usize = 1400;

/// The time between two requests before every member has answered.
const GATHERING: Duration = Duration::from_millis(100);

/// The time that a sender leaves for each other sender when every member has answered. Boards look
/// up one address in a second, and datagrams wait meanwhile.
const SETTLING: Duration = Duration::from_millis(1200);

/// How often the announcement of new keys is sent, one for each request.
const ANNOUNCEMENTS: usize = 10;

/// The kinds of payloads, which are a part of their index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A request before every member has answered.
    Early,
    /// A request that is counted.
    Counted,
    /// A request to one listener.
    Direct,
    /// A response, whose index names the listener.
    Response,
}

impl Kind {
    /// The index of a payload of this kind from the member `writer`.
    const fn index(self, writer: u8) -> u16 {
        (self as u16) << 8 | writer as u16
    }
}

/// What a member has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupCounters {
    /// Requests to the group that this member sent and that are counted.
    pub requests: u32,
    /// Requests to one listener that this member sent.
    pub direct: u32,
    /// Requests of others that were delivered and are counted.
    pub delivered: u32,
    /// Requests of others that were delivered before their sender had heard every member.
    pub early: u32,
    /// Requests to this member alone that were delivered.
    pub direct_delivered: u32,
    /// Responses to this member's requests.
    pub responses: u32,
    /// Delivered payloads that nobody sent, or another member than the one that is named.
    pub alien: u32,
    /// Payloads that were delivered twice.
    pub replayed: u32,
    /// Requests that could not be answered.
    pub unanswered: u32,
    /// New epochs.
    pub rekeyed: u32,
}

/// A member of the group.
pub struct GroupMember {
    member: GroupEngine,
    keys: SharedKeys,
    /// The member that seals announcements, at the first member.
    announcer: Option<Member>,
    options: Options,
    group: GroupOptions,
    now: Instant,
    /// When the last datagram arrived.
    active: Option<Instant>,
    began: Instant,
    /// When requests count, once every member has answered.
    counts_from: Option<Instant>,
    /// When the next request is due.
    due: Instant,
    serial: u32,
    /// Announcements of new keys that are still to be sent.
    announcements: VecDeque<Vec<u8>>,
    waiting: VecDeque<(SocketAddr, Vec<u8>)>,
    /// Serial numbers of requests, by sender.
    seen: BTreeMap<u8, SeenSerials>,
    /// Serial numbers of responses, by listener.
    answered: BTreeMap<u8, SeenSerials>,
    request: Option<Request>,
    counters: GroupCounters,
}

/// What was delivered, without a borrow of the datagram.
enum Received {
    Request { sender: u8, kind: RequestKind, content: Vec<u8> },
    Response { listener: Option<u8>, content: Vec<u8> },
}

impl GroupMember {
    /// A member; `None` if there is no such group or no such member. The number of payloads of each
    /// sender, their length, the time between two (`timeout`), and the times after which all is over
    /// (`quiet`, `deadline`) come from `options`.
    pub fn new(options: &Options, group: &GroupOptions, now: Instant) -> Option<Self> {
        let mut random = Random::insecure(options.seed);
        let keys = SharedKeys::new(group)?;
        let member = keys.engine(group, now, random.fork())?;
        let own = IpAddr::V4(group.address(group.member));
        let announces = group.member == 0 && group.rekey > 0;
        let announcer =
            if announces { Some(keys.announcer(own, now, random.fork())?) } else { None };
        let mut made = Self {
            member,
            keys,
            announcer,
            options: options.clone(),
            group: group.clone(),
            now,
            active: None,
            began: now,
            counts_from: None,
            due: now,
            serial: 0,
            announcements: VecDeque::new(),
            waiting: VecDeque::new(),
            seen: BTreeMap::new(),
            answered: BTreeMap::new(),
            request: None,
            counters: GroupCounters::default(),
        };
        made.learn_all();
        Some(made)
    }

    /// What the member has counted.
    pub const fn counters(&self) -> &GroupCounters {
        &self.counters
    }

    /// What the group's engine has counted.
    pub fn stats(&self) -> &Stats {
        self.member.stats()
    }

    const fn is_sender(&self) -> bool {
        self.group.member < self.group.senders
    }

    /// Whether this member has requests to send.
    fn has_requests(&self) -> bool {
        self.is_sender() && self.counters.requests < u32::from(self.options.payloads)
    }

    /// Whether every other member has answered.
    fn is_complete(&self) -> bool {
        self.answered.len() + 1 >= usize::from(self.group.members)
    }

    /// When the member stops unless something arrives.
    fn end(&self) -> Instant {
        let deadline = self.began + self.options.deadline;
        match self.active {
            Some(active) if !self.has_requests() => deadline.min(active + self.options.quiet),
            _ => deadline,
        }
    }

    /// Records that were dropped although they are of this group, epoch and member.
    fn refused(&self) -> u64 {
        let Stats { malformed, unknown_senders, replayed, unauthentic, .. } = *self.member.stats();
        let Stats { not_fresh, forged, unknown_keys, .. } = *self.member.stats();
        let Stats { refused_rekeys, unchecked, .. } = *self.member.stats();
        malformed
            + unknown_senders
            + replayed
            + unauthentic
            + not_fresh
            + forged
            + unknown_keys
            + refused_rekeys
            + unchecked
    }

    /// Dropped records that the form of the group does not explain.
    fn unexplained(&self) -> u64 {
        let Stats { strangers, unauthentic, .. } = *self.member.stats();
        let is_pairwise = self.group.responses == Responses::Pairwise;
        let has_rekeys = self.group.rekey > 0;
        // A request to one listener goes to the group until its address is known, and the
        // announcement of an epoch may be lost.
        let strangers = if is_pairwise || has_rekeys { 0 } else { strangers };
        // A sender acknowledges a listener's keys for each response that announces them. The engine
        // counts all acknowledgements after the first as wrong answers.
        let repeated = if is_pairwise { unauthentic } else { 0 };
        self.refused() + strangers - repeated
    }

    fn payload(&mut self, kind: Kind) -> Vec<u8> {
        let label = Label { serial: self.serial, index: kind.index(self.group.member) };
        self.serial += 1;
        label.payload(self.options.bytes)
    }

    /// Sends the requests that are due.
    fn send_requests(&mut self) {
        if !self.has_requests() || self.now < self.due {
            return;
        }
        let is_counted = self.counts_from.is_some_and(|from| from <= self.now);
        self.due = self.now + if is_counted { self.options.timeout } else { GATHERING };
        self.announce();
        let payload = self.payload(if is_counted { Kind::Counted } else { Kind::Early });
        let mut buf = [0; MOST_BYTES];
        let Ok(len) = self.member.request(self.now, &payload, &mut buf) else { return };
        self.counters.requests += u32::from(is_counted);
        self.queue(self.keys.policy().address, buf.get(..len));
        if is_counted && self.group.responses == Responses::Pairwise {
            self.send_direct_request();
        }
    }

    /// Sends a request to one of the other members, one after the other.
    fn send_direct_request(&mut self) {
        let others = (0..self.group.members).filter(|member| *member != self.group.member);
        let count = u32::from(self.group.members.saturating_sub(1)).max(1);
        let Some(to) = others.into_iter().nth((self.counters.requests % count) as usize) else {
            return;
        };
        let Some(listener) = ListenerId::new(to.into()) else { return };
        let payload = self.payload(Kind::Direct);
        let mut buf = [0; MOST_BYTES];
        if let Ok((to, len)) = self.member.request_to(self.now, listener, &payload, &mut buf) {
            self.counters.direct += 1;
            self.queue(to, buf.get(..len));
        }
    }

    /// Announces new keys when it is time, and repeats the announcement.
    fn announce(&mut self) {
        let Self { announcer, group, counters, keys, announcements, .. } = self;
        let is_time = group.rekey > 0 && counters.requests == group.rekey;
        if let Some(mut announcer) = announcer.take_if(|_| is_time)
            && let Some(datagrams) = keys.rekey(&mut announcer)
        {
            let copies = datagrams.iter().cycle().take(datagrams.len() * ANNOUNCEMENTS);
            announcements.extend(copies.cloned());
        }
        if let Some(mut datagram) = self.announcements.pop_front() {
            let to = self.keys.policy().address;
            self.queue(to, Some(&datagram));
            let from = SocketAddr::new(self.group.address(self.group.member).into(), PORT);
            self.member.receive(self.now, (from, true), &mut datagram);
        }
    }

    fn queue(&mut self, to: SocketAddr, datagram: Option<&[u8]>) {
        self.waiting.extend(datagram.map(|datagram| (to, datagram.to_vec())));
    }

    /// Takes a datagram to this member's own address or to the group's.
    fn received(&mut self, AddressPair { peer, local }: AddressPair, datagram: &mut [u8]) {
        let is_multicast = local.is_some_and(|local| local.is_multicast());
        for received in self.member.receive(self.now, (peer, is_multicast), datagram) {
            match received {
                Received::Request { sender, kind, content } => {
                    self.requested(sender, kind, &content);
                }
                Received::Response { listener, content } => {
                    self.responded(listener, peer, &content);
                }
            }
        }
    }

    /// Checks a request, and answers it.
    fn requested(&mut self, sender: u8, kind: RequestKind, content: &[u8]) {
        let label = Label::of(content);
        let is_of = |kind: Kind| label.is_some_and(|label| label.index == kind.index(sender));
        let Self { counters, seen, .. } = self;
        let counter = match kind {
            RequestKind::Group if is_of(Kind::Counted) => &mut counters.delivered,
            RequestKind::Group if is_of(Kind::Early) => &mut counters.early,
            RequestKind::Direct if is_of(Kind::Direct) => &mut counters.direct_delivered,
            _ => {
                counters.alien += 1;
                return;
            }
        };
        *counter += 1;
        let serial = label.map_or(0, |label| label.serial);
        if !seen.entry(sender).or_default().insert(serial) {
            counters.replayed += 1;
        }
        let label = Label { serial, index: Kind::Response.index(self.group.member) };
        let answer = label.payload(self.options.bytes);
        let mut buf = [0; MOST_BYTES];
        match self.member.respond(self.now, (SenderId(sender), kind), &answer, &mut buf) {
            Ok((to, len)) => self.queue(to, buf.get(..len)),
            Err(_) => self.counters.unanswered += 1,
        }
    }

    /// Checks a response.
    fn responded(&mut self, listener: Option<u8>, from: SocketAddr, content: &[u8]) {
        // In `axiom-1.2` the address identifies the listener.
        let by_address =
            || (0..self.group.members).find(|number| from.ip() == self.group.address(*number));
        let writer = match self.group.profile {
            Profile::Axiom12 => by_address(),
            Profile::Compact => listener,
        };
        let label = Label::of(content).filter(|label| label.serial < self.serial);
        let (Some(label), Some(writer)) = (label, writer) else {
            self.counters.alien += 1;
            return;
        };
        if label.index != Kind::Response.index(writer) {
            self.counters.alien += 1;
            return;
        }
        self.counters.responses += 1;
        if !self.answered.entry(writer).or_default().insert(label.serial) {
            self.counters.replayed += 1;
        }
        if self.is_complete() {
            let others = u32::from(self.group.senders.saturating_sub(1));
            self.counts_from.get_or_insert(self.now + SETTLING * others);
        }
    }

    /// Learns the public keys of all members, which a device would look up at its controller.
    fn learn_all(&mut self) {
        for first in (0..self.group.members).step_by(PAGE_SIZE as usize) {
            self.learn(Lookup::sender(SenderId(first)));
            if let Some(listener) = ListenerId::new(first.into()) {
                self.learn(Lookup::listener(listener));
            }
        }
    }

    fn learn(&mut self, lookup: Lookup) {
        let Self { member, keys, group, .. } = self;
        member.learn(self.now, |epoch| keys.page(lookup, epoch, group.senders));
    }

    /// Takes the member's events, and what it wants to send on its own.
    fn act(&mut self) {
        while let Some(wish) = self.member.next_wish(&mut self.counters.rekeyed) {
            match wish {
                Wish::Lookup(lookup) => self.learn(lookup),
                Wish::Keys(epoch) if self.group.rekey > 0 => {
                    if let Some(grant) = self.keys.grant_after(epoch, self.group.member) {
                        self.member.take_grant(self.now, &grant);
                    }
                }
                // The controller would have no other keys.
                Wish::Keys(_) => {}
            }
        }
        while let Some(transmit) = self.member.poll_transmit(self.now) {
            self.waiting.push_back(transmit);
        }
    }

    fn step(&mut self, buf: &mut [u8]) -> Step {
        if let Some((to, datagram)) = self.waiting.pop_front() {
            let Some(front) = buf.get_mut(..datagram.len()) else {
                let needed = datagram.len();
                self.waiting.push_front((to, datagram));
                return Step::BufferTooSmall { needed };
            };
            front.copy_from_slice(&datagram);
            return Step::Datagram { to, len: datagram.len() };
        }
        if let Some(request) = self.request.take() {
            return Step::Request(request);
        }
        let wake = self.member.wake_at(self.now).min(self.end());
        Step::WakeAt(if self.has_requests() { wake.min(self.due) } else { wake })
    }
}

impl From<Delivery<'_>> for Received {
    fn from(delivery: Delivery<'_>) -> Self {
        // The crate has no other members than those of one byte.
        let number = |listener: Listener| match listener {
            Listener::Id(id) => u8::try_from(id.get()).ok(),
            Listener::Address(_) => None,
        };
        match delivery {
            Delivery::Request { sender, content, .. } => {
                let kind = RequestKind::Group;
                Self::Request { sender: sender.0, kind, content: content.to_vec() }
            }
            Delivery::DirectRequest { sender, content, .. } => {
                let kind = RequestKind::Direct;
                Self::Request { sender: sender.0, kind, content: content.to_vec() }
            }
            Delivery::Response { listener, content, .. } => {
                Self::Response { listener: number(listener), content: content.to_vec() }
            }
        }
    }
}

impl Engine for GroupMember {
    type Event<'a> = Request;

    /// A datagram without its destination counts as sent to this member alone.
    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        self.handle_datagram_on(now, AddressPair::to(from), datagram);
    }

    fn handle_datagram_on(&mut self, now: Instant, way: AddressPair, datagram: &mut [u8]) {
        self.now = self.now.max(now);
        self.active = Some(self.now);
        self.received(way, datagram);
        self.handle_timeout(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.member.handle_timeout(self.now);
        self.send_requests();
        self.act();
        if self.end() <= self.now {
            self.request = Some(Request::End);
        }
    }

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Request> {
        self.step(buf).output(buf)
    }
}

impl Exchange for GroupMember {
    fn succeeded(&self) -> bool {
        let GroupCounters { alien, replayed, unanswered, .. } = self.counters;
        let has_done_all = !self.has_requests() && self.active.is_some();
        let has_lost_nothing = self.unexplained() == 0 && unanswered == 0;
        alien + replayed == 0 && has_done_all && (self.options.attacked || has_lost_nothing)
    }

    fn report(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let GroupCounters { requests, direct, delivered, early, direct_delivered, .. } =
            self.counters;
        let GroupCounters { responses, alien, replayed, unanswered, rekeyed, .. } = self.counters;
        write!(
            out,
            "\"role\": \"member\", \"member\": {}, \"requests\": {requests}, \"direct\": {direct}, \
             \"delivered\": {delivered}, \"early\": {early}, \
             \"direct_delivered\": {direct_delivered}, \"responses\": {responses}, \
             \"alien\": {alien}, \"replayed\": {replayed}, \"unanswered\": {unanswered}, \
             \"refused\": {}, \"strangers\": {}, \"rekeyed\": {rekeyed}",
            self.group.member,
            self.refused(),
            self.member.stats().strangers,
        )
    }
}
