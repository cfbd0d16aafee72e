//! Flows that a gateway sends.

use super::messages::{Beacon, Message, Register};
use super::{BaseIdentifier, Limits, NUMBERS, Needs, SaKey, Template};
use crate::bridge::PeerIndex;
use crate::bucket::Bucket;
use crate::hashing::{Keyed, Table};
use crate::lock;
use crate::tuning::{SKIPPED, SKIPPED_AT_ONCE};
use crate::window::Window;
use core::hash::BuildHasher;
use lightseal_core::{Instant, Random};
use lightseal_macsec::Header;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

/// How a frame is to be sent to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// In short form: the peer knows the flow.
    Short(Known),
    /// The flow is registered, and the peer has not acknowledged it yet.
    NotYet,
    /// Without a flow: a limit is reached, the peer refused the flow, or the packet number is far
    /// behind the highest one.
    Over,
}

/// A frame whose flow the peer knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The flow's number.
    pub number: u32,
    /// The extended packet number of the frame; in schemes that do not follow packet numbers, the
    /// one in its tag.
    pub pn: u64,
    /// The flow's base identifier, in schemes that have them.
    pub secret: Option<BaseIdentifier>,
    /// Whether the peer should be told the packet number, since it was not told for long: if this
    /// frame is sent sealed, its header tells it.
    pub should_tell: bool,
}

/// Number of successive packet numbers far behind the highest one after which the association
/// counts as restarted: it has new keys under the same AN.
const ANEW: u8 = 3;
const SHARDS: usize = 16;

/// One association: an entry of the paper's uplink table.
#[derive(Debug)]
struct Association {
    /// The highest extended packet number so far.
    highest: u64,
    /// How many successive packet numbers were far behind, and the last of them. A frame to several
    /// peers is looked up once for each of them, and counts once.
    late: u8,
    last_late: u32,
    /// What each peer with a flow was told.
    told: Vec<Told>,
    flows: Vec<Flow>,
}

/// What a peer was told about the packet numbers of an association.
#[derive(Debug)]
struct Told {
    peer: PeerIndex,
    /// The highest packet number that the peer was told.
    pn: u64,
    /// Whether a beacon to this peer is due.
    due: bool,
    /// Whether a beacon becomes due with the next tick.
    awaits: bool,
}

#[derive(Debug)]
struct Flow {
    template: Template,
    peer: PeerIndex,
    number: u32,
    secret: Option<BaseIdentifier>,
    standing: Standing,
    /// When the flow's last frame was sent, or its state changed.
    used: Instant,
    /// The packet number at the registration: the peer has no identifiers for lower numbers.
    start: u64,
    /// Packet numbers that were sent in short form. An association may restart with a number inside
    /// of the window, and no identifier may be sent twice.
    sent: Option<Box<Window>>,
}

impl Flow {
    /// Whether the peer is expected to have the identifier of `pn` in its table.
    fn may_go_short(&self, pn: u64) -> bool {
        self.sent.as_ref().is_none_or(|sent| pn >= self.start && sent.check(pn))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// The management channel is new: the next frame registers the flow again.
    Unregistered,
    /// The registration was sent, and there is no answer yet.
    Registered,
    /// The peer has acknowledged the flow.
    Known,
    /// The peer has refused the flow, or its association has skipped too many packet numbers.
    Refused,
}

/// How many flows each peer, source address and SCI has, and the numbers in use.
#[derive(Debug)]
struct Census {
    all: usize,
    peers: Vec<usize>,
    sources: Table<[u8; 6], usize>,
    channels: Table<([u8; 8], bool), usize>,
    /// Tokens for new flows.
    fresh: Bucket,
    /// The flow number to try next.
    next: u32,
    numbers: Table<(PeerIndex, u32), SaKey>,
    random: Random,
}

/// The table of flows that are sent.
#[derive(Debug)]
pub struct Uplink {
    needs: Needs,
    limits: Limits,
    keyed: Hashing,
    shards: [Mutex<Table<SaKey, Association>>; SHARDS],
    census: Mutex<Census>,
    /// Beacon entries that are due.
    due: Mutex<VecDeque<(PeerIndex, SaKey)>>,
    /// Beacon entries that become due with the next tick.
    awaiting: Mutex<Vec<(PeerIndex, SaKey)>>,
    /// Tokens for identifiers of skipped packet numbers.
    skips: Mutex<Bucket>,
}

/// A keyed hash function, whose key `Debug` does not show.
struct Hashing(Keyed);

impl core::fmt::Debug for Hashing {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Hashing")
    }
}

impl Uplink {
    /// Creates empty tables.
    pub fn new(needs: Needs, limits: Limits, random: &mut Random, now: Instant) -> Self {
        let keyed = Keyed::new(random.array());
        let census = Census {
            all: 0,
            peers: Vec::new(),
            sources: Table::with_hasher(keyed),
            channels: Table::with_hasher(keyed),
            fresh: Bucket::new(limits.new_a_second, limits.burst, now),
            // A gateway that restarts begins at a random number, so that its flows are unlikely to
            // have numbers that peers remember.
            next: random.below(u64::from(NUMBERS)) as u32,
            numbers: Table::with_hasher(keyed),
            random: random.fork(),
        };
        Self {
            needs,
            limits,
            keyed: Hashing(keyed),
            shards: core::array::from_fn(|_| Mutex::new(Table::with_hasher(keyed))),
            census: Mutex::new(census),
            due: Mutex::new(VecDeque::new()),
            awaiting: Mutex::new(Vec::new()),
            skips: Mutex::new(Bucket::new(SKIPPED, SKIPPED_AT_ONCE, now)),
        }
    }

    /// How many flows there are.
    pub fn len(&self) -> usize {
        lock(&self.census).all
    }

    /// Whether there are no flows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn key(&self, header: &Header) -> (SaKey, Template) {
        let template = Template::of(header, self.needs.an);
        let key = if self.needs.an { header } else { template.header() };
        (SaKey::of(key), template)
    }

    fn shard(&self, key: &SaKey) -> MutexGuard<'_, Table<SaKey, Association>> {
        lock(&self.shards[self.keyed.0.hash_one(key) as usize % SHARDS])
    }

    /// See [`Flows::way`](super::Flows::way). `say` is called with each message that has to be sent
    /// to a peer.
    pub fn way(
        &self,
        now: Instant,
        peer: PeerIndex,
        header: &Header,
        say: &mut dyn FnMut(PeerIndex, Message),
    ) -> Way {
        let (key, template) = self.key(header);
        let mut shard = self.shard(&key);
        let mut pn = u64::from(header.tag.pn);
        if let Some(association) = shard.get_mut(&key) {
            if self.needs.follows {
                let next = association.highest.saturating_add(1);
                match association.follow(header.tag.pn, self.needs.behind) {
                    Follow::In(extended) => {
                        pn = extended;
                        if pn > next {
                            self.skip(now, association, pn - next, say);
                        }
                    }
                    Follow::Late => return Way::Over,
                    Follow::Anew => {
                        let mut census = lock(&self.census);
                        for flow in association.flows.drain(..) {
                            census.leave(&key, &flow);
                            say(flow.peer, Message::Remove(flow.number));
                        }
                        association.told.clear();
                        association.highest = pn;
                    }
                }
                self.mark_due(&key, association);
            }
            if let Some(way) = self.known_way(now, peer, &key, association, &template, pn, say) {
                return way;
            }
        }
        let mut census = lock(&self.census);
        let Some((number, secret)) = self.admit(now, peer, &key, &template, &mut census) else {
            return Way::Over;
        };
        drop(census);
        let association = shard.entry(key).or_insert_with(|| Association {
            highest: pn,
            late: 0,
            last_late: 0,
            told: Vec::new(),
            flows: Vec::new(),
        });
        if !association.told.iter().any(|told| told.peer == peer) {
            association.told.push(Told { peer, pn, due: false, awaits: false });
        }
        say(peer, register(number, pn, &secret, template));
        association.flows.push(Flow {
            template,
            peer,
            number,
            secret,
            standing: Standing::Registered,
            used: now,
            start: pn,
            sent: self.window(),
        });
        Way::NotYet
    }

    #[expect(clippy::too_many_arguments, reason = "a part of `way`, called with the shard locked")]
    fn known_way(
        &self,
        now: Instant,
        peer: PeerIndex,
        key: &SaKey,
        association: &mut Association,
        template: &Template,
        pn: u64,
        say: &mut dyn FnMut(PeerIndex, Message),
    ) -> Option<Way> {
        let Association { told, flows, .. } = association;
        let of_flow = |flow: &&mut Flow| flow.peer == peer && flow.template == *template;
        let flow = flows.iter_mut().find(of_flow)?;
        if flow.standing != Standing::Refused {
            flow.used = now;
        }
        Some(match flow.standing {
            Standing::Known if !flow.may_go_short(pn) => Way::Over,
            Standing::Known => {
                if let Some(sent) = &mut flow.sent {
                    sent.commit(pn);
                }
                let told = told.iter_mut().find(|told| told.peer == peer);
                let should_tell = told.is_some_and(|told| {
                    let long = self.needs.beacons && pn > told.pn + self.needs.ahead / 4 * 3;
                    if long {
                        told.pn = pn;
                    }
                    long
                });
                let secret = flow.secret.clone();
                Way::Short(Known { number: flow.number, pn, secret, should_tell })
            }
            Standing::Registered => Way::NotYet,
            Standing::Refused => Way::Over,
            Standing::Unregistered => {
                let mut census = lock(&self.census);
                census.numbers.remove(&(peer, flow.number));
                (flow.number, flow.secret) = census.number(peer, key, &self.needs);
                flow.standing = Standing::Registered;
                (flow.start, flow.sent) = (pn, self.window());
                say(peer, register(flow.number, pn, &flow.secret, flow.template));
                Way::NotYet
            }
        })
    }

    /// See [`Flows::is_known`](super::Flows::is_known).
    pub fn is_known(&self, peer: PeerIndex, header: &Header) -> bool {
        let (key, template) = self.key(header);
        let shard = self.shard(&key);
        let Some(association) = shard.get(&key) else { return false };
        let low = header.tag.pn;
        let pn = if self.needs.follows {
            recover(association.highest, low)
                .filter(|pn| pn + self.needs.behind > association.highest)
        } else {
            Some(low.into())
        };
        let known = |flow: &Flow| {
            flow.peer == peer
                && flow.template == template
                && flow.standing == Standing::Known
                && pn.is_some_and(|pn| flow.may_go_short(pn))
        };
        association.flows.iter().any(known)
    }

    fn window(&self) -> Option<Box<Window>> {
        self.needs.beacons.then(Box::default)
    }

    /// Counts one more flow and numbers it; `None` if a limit is reached.
    fn admit(
        &self,
        now: Instant,
        peer: PeerIndex,
        key: &SaKey,
        template: &Template,
        census: &mut Census,
    ) -> Option<(u32, Option<BaseIdentifier>)> {
        let source = template.header().source;
        let at = usize::from(peer.0);
        if census.peers.len() <= at {
            census.peers.resize(at + 1, 0);
        }
        let of_source = census.sources.get(&source).copied().unwrap_or(0);
        let of_channel = census.channels.get(&key.channel()).copied().unwrap_or(0);
        let full = census.all >= self.limits.flows
            || census.peers[at] >= self.limits.flows_a_peer
            || of_source >= self.limits.flows_a_source
            || of_channel >= self.limits.flows_an_sci;
        if full || !census.fresh.take(now) {
            return None;
        }
        census.all += 1;
        census.peers[at] += 1;
        *census.sources.entry(source).or_default() += 1;
        *census.channels.entry(key.channel()).or_default() += 1;
        Some(census.number(peer, key, &self.needs))
    }

    /// Handles the answer of a peer to a registration: acknowledged if `took`, otherwise refused.
    pub fn handle_answer(&self, now: Instant, peer: PeerIndex, number: u32, took: bool) {
        let key = lock(&self.census).numbers.get(&(peer, number)).copied();
        let Some(key) = key else { return };
        let mut shard = self.shard(&key);
        let flows = shard.get_mut(&key).map(|association| association.flows.iter_mut());
        let found = flows
            .and_then(|mut flows| flows.find(|flow| flow.peer == peer && flow.number == number));
        let Some(flow) = found else { return };
        flow.standing = match (flow.standing, took) {
            (Standing::Registered, true) => Standing::Known,
            // A peer may know a flow for a while and refuse it later.
            (Standing::Registered | Standing::Known, false) => Standing::Refused,
            _ => return,
        };
        flow.used = now;
    }

    /// Notes that an association skipped packet numbers, for which peers derive identifiers that no
    /// frame uses. If they would have to derive too many, the association's frames are sent sealed
    /// for a while.
    fn skip(
        &self,
        now: Instant,
        association: &mut Association,
        skipped: u64,
        say: &mut dyn FnMut(PeerIndex, Message),
    ) {
        let Needs { beacons, ahead, behind, .. } = self.needs;
        let has_identifiers = |flow: &Flow| flow.standing != Standing::Refused;
        let flows = association.flows.iter().filter(|flow| has_identifiers(flow)).count();
        let derived = skipped.min(ahead + behind).saturating_mul(flows as u64);
        let derived = u32::try_from(derived).unwrap_or(u32::MAX);
        if !beacons || lock(&self.skips).take_all(now, derived) {
            return;
        }
        for flow in association.flows.iter_mut().filter(|flow| has_identifiers(flow)) {
            flow.standing = Standing::Refused;
            flow.used = now;
            say(flow.peer, Message::Remove(flow.number));
        }
    }

    /// Makes beacons due for peers that are `ahead / 2` packet numbers behind, and has the other
    /// peers told with the next tick.
    fn mark_due(&self, key: &SaKey, association: &mut Association) {
        let every = self.needs.ahead / 2;
        let highest = association.highest;
        let behind = |told: &&mut Told| !told.due && highest > told.pn;
        for told in association.told.iter_mut().filter(behind) {
            if !self.needs.beacons {
                return;
            }
            if highest >= told.pn + every {
                told.due = true;
                lock(&self.due).push_back((told.peer, *key));
            } else if !told.awaits {
                told.awaits = true;
                lock(&self.awaiting).push((told.peer, *key));
            }
        }
    }

    /// Makes beacons due for all associations whose packet numbers have advanced. To be called
    /// about ten times a second.
    pub fn make_due(&self) {
        let awaiting = core::mem::take(&mut *lock(&self.awaiting));
        for (peer, key) in awaiting {
            let mut shard = self.shard(&key);
            let Some(Association { highest, told, .. }) = shard.get_mut(&key) else { continue };
            let Some(told) = told.iter_mut().find(|told| told.peer == peer) else { continue };
            told.awaits = false;
            if !told.due && *highest > told.pn {
                told.due = true;
                lock(&self.due).push_back((peer, key));
            }
        }
    }

    /// The next beacon to send, with the peer it is for.
    pub fn poll_beacon(&self) -> Option<(PeerIndex, Beacon)> {
        loop {
            let to = lock(&self.due).front().map(|(peer, _)| *peer)?;
            let mut entries = Vec::new();
            while entries.len() < Beacon::MOST {
                let Some(key) = self.next_due(to) else { break };
                entries.extend(self.entry(to, &key));
            }
            if !entries.is_empty() {
                return Some((to, Beacon(entries)));
            }
        }
    }

    fn next_due(&self, peer: PeerIndex) -> Option<SaKey> {
        let mut due = lock(&self.due);
        let same = due.front().is_some_and(|(to, _)| *to == peer);
        if same { due.pop_front().map(|(_, key)| key) } else { None }
    }

    /// The beacon entry that tells `peer` about an association.
    fn entry(&self, peer: PeerIndex, key: &SaKey) -> Option<(u32, u64)> {
        let mut shard = self.shard(key);
        let Association { highest, told, flows, .. } = shard.get_mut(key)?;
        let told = told.iter_mut().find(|told| told.peer == peer)?;
        told.due = false;
        told.pn = *highest;
        let known = |flow: &&Flow| flow.peer == peer && flow.standing == Standing::Known;
        flows.iter().find(known).map(|flow| (flow.number, *highest))
    }

    /// Has every flow to `peer` registered again with its next frame.
    pub fn restart(&self, peer: PeerIndex) {
        for shard in &self.shards {
            for association in lock(shard).values_mut() {
                let flows = association.flows.iter_mut().filter(|flow| flow.peer == peer);
                flows.for_each(|flow| flow.standing = Standing::Unregistered);
            }
        }
    }

    /// Removes idle flows, and calls `gone` with the peer and number of each. `answered` says
    /// whether the destination of a header sends frames to its source.
    pub fn expire(
        &self,
        now: Instant,
        answered: &dyn Fn(&Header) -> bool,
        gone: &mut dyn FnMut(PeerIndex, u32),
    ) {
        let Limits { timeout, probation, .. } = self.limits;
        for shard in &self.shards {
            lock(shard).retain(|key, association| {
                association.flows.retain(|flow| {
                    let idle = now - flow.used;
                    let refused = flow.standing == Standing::Refused;
                    let stays = idle <= probation
                        || !refused && idle <= timeout && answered(flow.template.header());
                    if !stays {
                        lock(&self.census).leave(key, flow);
                        gone(flow.peer, flow.number);
                    }
                    stays
                });
                let Association { told, flows, .. } = association;
                told.retain(|told| flows.iter().any(|flow| flow.peer == told.peer));
                !flows.is_empty()
            });
        }
    }
}

fn register(
    number: u32,
    next: u64,
    secret: &Option<BaseIdentifier>,
    template: Template,
) -> Message {
    Message::Register(Register { number, next, secret: secret.clone(), template })
}

impl Census {
    /// Draws a number and a base identifier for a flow.
    fn number(
        &mut self,
        peer: PeerIndex,
        key: &SaKey,
        needs: &Needs,
    ) -> (u32, Option<BaseIdentifier>) {
        // Terminates, since there are far fewer flows than numbers.
        let number = loop {
            let number = self.next;
            self.next = (number + 1) % NUMBERS;
            if !self.numbers.contains_key(&(peer, number)) {
                break number;
            }
        };
        self.numbers.insert((peer, number), *key);
        let secret = needs.derivation.map(|_| BaseIdentifier::new(self.random.array()));
        (number, secret)
    }

    fn leave(&mut self, key: &SaKey, flow: &Flow) {
        self.all -= 1;
        if let Some(peer) = self.peers.get_mut(usize::from(flow.peer.0)) {
            *peer -= 1;
        }
        forget_one(&mut self.sources, &flow.template.header().source);
        forget_one(&mut self.channels, &key.channel());
        self.numbers.remove(&(flow.peer, flow.number));
    }
}

/// Decrements the count of `key`, and removes it at zero.
pub(super) fn forget_one<K: Eq + core::hash::Hash>(counts: &mut Table<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

enum Follow {
    In(u64),
    Late,
    Anew,
}

impl Association {
    /// Extends and records a packet number; `behind` is how far it may be behind the highest.
    fn follow(&mut self, low: u32, behind: u64) -> Follow {
        match recover(self.highest, low) {
            Some(pn) if pn + behind > self.highest => {
                self.late = 0;
                self.highest = self.highest.max(pn);
                Follow::In(pn)
            }
            _ if self.late > 0 && self.last_late == low => Follow::Late,
            _ if self.late + 1 < ANEW => {
                (self.late, self.last_late) = (self.late + 1, low);
                Follow::Late
            }
            _ => {
                self.late = 0;
                Follow::Anew
            }
        }
    }
}

/// The extended packet number that is nearest to `near` and has the low half `low`, as in IEEE
/// 802.1AE-2018, clause 10.6.2, but in both directions; `None` if it would be below zero.
pub(super) fn recover(near: u64, low: u32) -> Option<u64> {
    let ahead = low.wrapping_sub(near as u32) as i32;
    near.checked_add_signed(ahead.into())
}
