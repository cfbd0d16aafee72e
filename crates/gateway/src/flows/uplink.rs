//! Flows that a gateway sends.

use super::messages::{Beacon, Message, Register};
use super::{AssociationId, BaseIdentifier, FLOW_NUMBERS, FlowLimits, FlowOptions, Template};
use crate::bucket::Bucket;
use crate::hashing::{Keyed, Table};
use crate::lock;
use crate::peer_set::PeerIndex;
use crate::tuning::{SKIPPED_BURST, SKIPPED_PER_SECOND};
use crate::window::Window;
use core::hash::BuildHasher;
use lightseal_core::{Instant, Random};
use lightseal_macsec::Header;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

/// How a frame is to be sent to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendForm {
    /// In short form: the peer knows the flow.
    Short(ShortForm),
    /// The flow is registered, and the peer has not acknowledged it yet.
    Registering,
    /// Without a flow: a limit is reached, the peer refused the flow, or the packet number is far
    /// behind the highest one.
    NoFlow,
}

/// A frame whose flow the peer knows.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShortForm {
    /// The flow's number.
    pub number: u32,
    /// The extended packet number of the frame; in schemes that do not follow packet numbers, the
    /// one in its tag.
    pub pn: u64,
    /// The flow's base identifier, in schemes that have them.
    pub secret: Option<BaseIdentifier>,
    /// Whether the peer should be told the packet number, since it was not told for long: if this
    /// frame is sent sealed, its header tells it.
    pub should_report_pn: bool,
}

/// Number of successive packet numbers far behind the highest one after which the association
/// counts as restarted: it has new keys under the same AN.
const RESTART_AFTER: u8 = 3;
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
    reported: Vec<ReportedPn>,
    flows: Vec<Flow>,
}

/// What a peer was told about the packet numbers of an association.
#[derive(Debug)]
struct ReportedPn {
    peer: PeerIndex,
    /// The highest packet number that the peer was told.
    pn: u64,
    /// Whether a beacon to this peer is due.
    due: bool,
    /// Whether a beacon becomes due with the next tick.
    awaits_tick: bool,
}

#[derive(Debug)]
struct Flow {
    template: Template,
    peer: PeerIndex,
    number: u32,
    secret: Option<BaseIdentifier>,
    state: FlowState,
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
    fn may_be_short(&self, pn: u64) -> bool {
        self.sent.as_ref().is_none_or(|sent| pn >= self.start && sent.check(pn))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlowState {
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
struct FlowCounts {
    all: usize,
    peers: Vec<usize>,
    sources: Table<[u8; 6], usize>,
    channels: Table<([u8; 8], bool), usize>,
    /// Tokens for new flows.
    new_flows: Bucket,
    /// The flow number to try next.
    next: u32,
    numbers: Table<(PeerIndex, u32), AssociationId>,
    random: Random,
}

/// The table of flows that are sent.
#[derive(Debug)]
pub struct Uplink {
    options: FlowOptions,
    limits: FlowLimits,
    keyed: Hashing,
    shards: [Mutex<Table<AssociationId, Association>>; SHARDS],
    counts: Mutex<FlowCounts>,
    /// Beacon entries that are due.
    due: Mutex<VecDeque<(PeerIndex, AssociationId)>>,
    /// Beacon entries that become due with the next tick.
    awaiting: Mutex<Vec<(PeerIndex, AssociationId)>>,
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
    pub(super) fn new(
        options: FlowOptions,
        limits: FlowLimits,
        random: &mut Random,
        now: Instant,
    ) -> Self {
        let keyed = Keyed::new(random.array());
        let counts = FlowCounts {
            all: 0,
            peers: Vec::new(),
            sources: Table::with_hasher(keyed),
            channels: Table::with_hasher(keyed),
            new_flows: Bucket::new(limits.new_a_second, limits.burst, now),
            // A gateway that restarts begins at a random number, so that its flows are unlikely to
            // have numbers that peers remember.
            next: random.below(u64::from(FLOW_NUMBERS)) as u32,
            numbers: Table::with_hasher(keyed),
            random: random.fork(),
        };
        Self {
            options,
            limits,
            keyed: Hashing(keyed),
            shards: core::array::from_fn(|_| Mutex::new(Table::with_hasher(keyed))),
            counts: Mutex::new(counts),
            due: Mutex::new(VecDeque::new()),
            awaiting: Mutex::new(Vec::new()),
            skips: Mutex::new(Bucket::new(SKIPPED_PER_SECOND, SKIPPED_BURST, now)),
        }
    }

    /// How many flows there are.
    pub fn len(&self) -> usize {
        lock(&self.counts).all
    }

    /// Whether there are no flows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn key(&self, header: &Header) -> (AssociationId, Template) {
        let template = Template::of(header, self.options.an);
        let key = if self.options.an { header } else { template.header() };
        (AssociationId::of(key), template)
    }

    fn shard(&self, key: &AssociationId) -> MutexGuard<'_, Table<AssociationId, Association>> {
        lock(&self.shards[self.keyed.0.hash_one(key) as usize % SHARDS])
    }

    /// See [`Flows::send_form`](super::Flows::send_form). `send` is called with each message that
    /// has to be sent to a peer.
    pub fn send_form(
        &self,
        now: Instant,
        peer: PeerIndex,
        header: &Header,
        send: &mut dyn FnMut(PeerIndex, Message),
    ) -> SendForm {
        let (key, template) = self.key(header);
        let mut shard = self.shard(&key);
        let mut pn = u64::from(header.tag.pn);
        if let Some(association) = shard.get_mut(&key) {
            if self.options.follows {
                let next = association.highest.saturating_add(1);
                match association.extend_pn(header.tag.pn, self.options.behind) {
                    PnStep::Extended(extended) => {
                        pn = extended;
                        if pn > next {
                            self.charge_skipped(now, association, pn - next, send);
                        }
                    }
                    PnStep::Late => return SendForm::NoFlow,
                    PnStep::Restarted => {
                        let mut counts = lock(&self.counts);
                        for flow in association.flows.drain(..) {
                            counts.remove_flow(&key, &flow);
                            send(flow.peer, Message::Remove(flow.number));
                        }
                        association.reported.clear();
                        association.highest = pn;
                    }
                }
                self.mark_due(&key, association);
            }
            if let Some(form) =
                self.known_send_form(now, peer, &key, association, &template, pn, send)
            {
                return form;
            }
        }
        let mut counts = lock(&self.counts);
        let Some((number, secret)) = self.try_count_flow(now, peer, &key, &template, &mut counts)
        else {
            return SendForm::NoFlow;
        };
        drop(counts);
        let association = shard.entry(key).or_insert_with(|| Association {
            highest: pn,
            late: 0,
            last_late: 0,
            reported: Vec::new(),
            flows: Vec::new(),
        });
        if !association.reported.iter().any(|reported| reported.peer == peer) {
            association.reported.push(ReportedPn { peer, pn, due: false, awaits_tick: false });
        }
        send(peer, register(number, pn, &secret, template));
        association.flows.push(Flow {
            template,
            peer,
            number,
            secret,
            state: FlowState::Registered,
            used: now,
            start: pn,
            sent: self.window(),
        });
        SendForm::Registering
    }

    #[expect(clippy::too_many_arguments, reason = "a part of `way`, called with the shard locked")]
    fn known_send_form(
        &self,
        now: Instant,
        peer: PeerIndex,
        key: &AssociationId,
        association: &mut Association,
        template: &Template,
        pn: u64,
        send: &mut dyn FnMut(PeerIndex, Message),
    ) -> Option<SendForm> {
        let Association { reported, flows, .. } = association;
        let of_flow = |flow: &&mut Flow| flow.peer == peer && flow.template == *template;
        let flow = flows.iter_mut().find(of_flow)?;
        if flow.state != FlowState::Refused {
            flow.used = now;
        }
        Some(match flow.state {
            FlowState::Known if !flow.may_be_short(pn) => SendForm::NoFlow,
            FlowState::Known => {
                if let Some(sent) = &mut flow.sent {
                    sent.commit(pn);
                }
                let reported = reported.iter_mut().find(|reported| reported.peer == peer);
                let should_report_pn = reported.is_some_and(|reported| {
                    let long =
                        self.options.beacons && pn > reported.pn + self.options.ahead / 4 * 3;
                    if long {
                        reported.pn = pn;
                    }
                    long
                });
                let secret = flow.secret.clone();
                SendForm::Short(ShortForm { number: flow.number, pn, secret, should_report_pn })
            }
            FlowState::Registered => SendForm::Registering,
            FlowState::Refused => SendForm::NoFlow,
            FlowState::Unregistered => {
                let mut counts = lock(&self.counts);
                counts.numbers.remove(&(peer, flow.number));
                (flow.number, flow.secret) = counts.draw_number(peer, key, &self.options);
                flow.state = FlowState::Registered;
                (flow.start, flow.sent) = (pn, self.window());
                send(peer, register(flow.number, pn, &flow.secret, flow.template));
                SendForm::Registering
            }
        })
    }

    /// See [`Flows::is_known`](super::Flows::is_known).
    pub fn is_known(&self, peer: PeerIndex, header: &Header) -> bool {
        let (key, template) = self.key(header);
        let shard = self.shard(&key);
        let Some(association) = shard.get(&key) else { return false };
        let low = header.tag.pn;
        let pn = if self.options.follows {
            nearest_pn(association.highest, low)
                .filter(|pn| pn + self.options.behind > association.highest)
        } else {
            Some(low.into())
        };
        let known = |flow: &Flow| {
            flow.peer == peer
                && flow.template == template
                && flow.state == FlowState::Known
                && pn.is_some_and(|pn| flow.may_be_short(pn))
        };
        association.flows.iter().any(known)
    }

    fn window(&self) -> Option<Box<Window>> {
        self.options.beacons.then(Box::default)
    }

    /// Counts one more flow and numbers it; `None` if a limit is reached.
    fn try_count_flow(
        &self,
        now: Instant,
        peer: PeerIndex,
        key: &AssociationId,
        template: &Template,
        counts: &mut FlowCounts,
    ) -> Option<(u32, Option<BaseIdentifier>)> {
        let source = template.header().source;
        let at = usize::from(peer.0);
        if counts.peers.len() <= at {
            counts.peers.resize(at + 1, 0);
        }
        let of_source = counts.sources.get(&source).copied().unwrap_or(0);
        let of_channel = counts.channels.get(&key.channel()).copied().unwrap_or(0);
        let full = counts.all >= self.limits.flows
            || counts.peers[at] >= self.limits.flows_a_peer
            || of_source >= self.limits.flows_a_source
            || of_channel >= self.limits.flows_an_sci;
        if full || !counts.new_flows.take(now) {
            return None;
        }
        counts.all += 1;
        counts.peers[at] += 1;
        *counts.sources.entry(source).or_default() += 1;
        *counts.channels.entry(key.channel()).or_default() += 1;
        Some(counts.draw_number(peer, key, &self.options))
    }

    /// Handles the answer of a peer to a registration: acknowledged if `took`, otherwise refused.
    pub fn handle_answer(&self, now: Instant, peer: PeerIndex, number: u32, took: bool) {
        let key = lock(&self.counts).numbers.get(&(peer, number)).copied();
        let Some(key) = key else { return };
        let mut shard = self.shard(&key);
        let flows = shard.get_mut(&key).map(|association| association.flows.iter_mut());
        let found = flows
            .and_then(|mut flows| flows.find(|flow| flow.peer == peer && flow.number == number));
        let Some(flow) = found else { return };
        flow.state = match (flow.state, took) {
            (FlowState::Registered, true) => FlowState::Known,
            // A peer may know a flow for a while and refuse it later.
            (FlowState::Registered | FlowState::Known, false) => FlowState::Refused,
            _ => return,
        };
        flow.used = now;
    }

    /// Notes that an association skipped packet numbers, for which peers derive identifiers that no
    /// frame uses. If they would have to derive too many, the association's frames are sent sealed
    /// for a while.
    fn charge_skipped(
        &self,
        now: Instant,
        association: &mut Association,
        skipped: u64,
        send: &mut dyn FnMut(PeerIndex, Message),
    ) {
        let FlowOptions { beacons, ahead, behind, .. } = self.options;
        let has_identifiers = |flow: &Flow| flow.state != FlowState::Refused;
        let flows = association.flows.iter().filter(|flow| has_identifiers(flow)).count();
        let derived = skipped.min(ahead + behind).saturating_mul(flows as u64);
        let derived = u32::try_from(derived).unwrap_or(u32::MAX);
        if !beacons || lock(&self.skips).take_all(now, derived) {
            return;
        }
        for flow in association.flows.iter_mut().filter(|flow| has_identifiers(flow)) {
            flow.state = FlowState::Refused;
            flow.used = now;
            send(flow.peer, Message::Remove(flow.number));
        }
    }

    /// Makes beacons due for peers that are `ahead / 2` packet numbers behind, and has the other
    /// peers told with the next tick.
    fn mark_due(&self, key: &AssociationId, association: &mut Association) {
        let every = self.options.ahead / 2;
        let highest = association.highest;
        let behind = |reported: &&mut ReportedPn| !reported.due && highest > reported.pn;
        for reported in association.reported.iter_mut().filter(behind) {
            if !self.options.beacons {
                return;
            }
            if highest >= reported.pn + every {
                reported.due = true;
                lock(&self.due).push_back((reported.peer, *key));
            } else if !reported.awaits_tick {
                reported.awaits_tick = true;
                lock(&self.awaiting).push((reported.peer, *key));
            }
        }
    }

    /// Makes beacons due for all associations whose packet numbers have advanced. To be called
    /// about ten times a second.
    pub fn make_due(&self) {
        let awaiting = core::mem::take(&mut *lock(&self.awaiting));
        for (peer, key) in awaiting {
            let mut shard = self.shard(&key);
            let Some(Association { highest, reported, .. }) = shard.get_mut(&key) else { continue };
            let Some(reported) = reported.iter_mut().find(|reported| reported.peer == peer) else {
                continue;
            };
            reported.awaits_tick = false;
            if !reported.due && *highest > reported.pn {
                reported.due = true;
                lock(&self.due).push_back((peer, key));
            }
        }
    }

    /// The next beacon to send, with the peer it is for.
    pub fn poll_beacon(&self) -> Option<(PeerIndex, Beacon)> {
        loop {
            let to = lock(&self.due).front().map(|(peer, _)| *peer)?;
            let mut entries = Vec::new();
            while entries.len() < Beacon::MAX_ENTRIES {
                let Some(key) = self.next_due(to) else { break };
                entries.extend(self.entry(to, &key));
            }
            if !entries.is_empty() {
                return Some((to, Beacon(entries)));
            }
        }
    }

    fn next_due(&self, peer: PeerIndex) -> Option<AssociationId> {
        let mut due = lock(&self.due);
        let same = due.front().is_some_and(|(to, _)| *to == peer);
        if same { due.pop_front().map(|(_, key)| key) } else { None }
    }

    /// The beacon entry that tells `peer` about an association.
    fn entry(&self, peer: PeerIndex, key: &AssociationId) -> Option<(u32, u64)> {
        let mut shard = self.shard(key);
        let Association { highest, reported, flows, .. } = shard.get_mut(key)?;
        let reported = reported.iter_mut().find(|reported| reported.peer == peer)?;
        reported.due = false;
        reported.pn = *highest;
        let known = |flow: &&Flow| flow.peer == peer && flow.state == FlowState::Known;
        flows.iter().find(known).map(|flow| (flow.number, *highest))
    }

    /// Has every flow to `peer` registered again with its next frame.
    pub fn restart(&self, peer: PeerIndex) {
        for shard in &self.shards {
            for association in lock(shard).values_mut() {
                let flows = association.flows.iter_mut().filter(|flow| flow.peer == peer);
                flows.for_each(|flow| flow.state = FlowState::Unregistered);
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
        let FlowLimits { timeout, probation, .. } = self.limits;
        for shard in &self.shards {
            lock(shard).retain(|key, association| {
                association.flows.retain(|flow| {
                    let idle = now - flow.used;
                    let refused = flow.state == FlowState::Refused;
                    let stays = idle <= probation
                        || !refused && idle <= timeout && answered(flow.template.header());
                    if !stays {
                        lock(&self.counts).remove_flow(key, flow);
                        gone(flow.peer, flow.number);
                    }
                    stays
                });
                let Association { reported, flows, .. } = association;
                reported.retain(|reported| flows.iter().any(|flow| flow.peer == reported.peer));
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

impl FlowCounts {
    /// Draws a number and a base identifier for a flow.
    fn draw_number(
        &mut self,
        peer: PeerIndex,
        key: &AssociationId,
        options: &FlowOptions,
    ) -> (u32, Option<BaseIdentifier>) {
        // Terminates, since there are far fewer flows than numbers.
        let number = loop {
            let number = self.next;
            self.next = (number + 1) % FLOW_NUMBERS;
            if !self.numbers.contains_key(&(peer, number)) {
                break number;
            }
        };
        self.numbers.insert((peer, number), *key);
        let secret = options.derivation.map(|_| BaseIdentifier::new(self.random.array()));
        (number, secret)
    }

    fn remove_flow(&mut self, key: &AssociationId, flow: &Flow) {
        self.all -= 1;
        if let Some(peer) = self.peers.get_mut(usize::from(flow.peer.0)) {
            *peer -= 1;
        }
        decrement(&mut self.sources, &flow.template.header().source);
        decrement(&mut self.channels, &key.channel());
        self.numbers.remove(&(flow.peer, flow.number));
    }
}

/// Decrements the count of `key`, and removes it at zero.
pub(super) fn decrement<K: Eq + core::hash::Hash>(counts: &mut Table<K, usize>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

enum PnStep {
    Extended(u64),
    Late,
    Restarted,
}

impl Association {
    /// Extends and records a packet number; `behind` is how far it may be behind the highest.
    fn extend_pn(&mut self, low: u32, behind: u64) -> PnStep {
        match nearest_pn(self.highest, low) {
            Some(pn) if pn + behind > self.highest => {
                self.late = 0;
                self.highest = self.highest.max(pn);
                PnStep::Extended(pn)
            }
            _ if self.late > 0 && self.last_late == low => PnStep::Late,
            _ if self.late + 1 < RESTART_AFTER => {
                (self.late, self.last_late) = (self.late + 1, low);
                PnStep::Late
            }
            _ => {
                self.late = 0;
                PnStep::Restarted
            }
        }
    }
}

/// The extended packet number that is nearest to `near` and has the low half `low`, as in IEEE
/// 802.1AE-2018, clause 10.6.2, but in both directions; `None` if it would be below zero.
pub(super) fn nearest_pn(near: u64, low: u32) -> Option<u64> {
    let ahead = low.wrapping_sub(near as u32) as i32;
    near.checked_add_signed(ahead.into())
}
