//! Flows that a gateway receives, and the table of identifiers that it expects.

use super::messages::Register;
use super::uplink::{decrement, nearest_pn};
use super::{AssociationId, BaseIdentifier, FlowLimits, FlowOptions, Template};
use crate::bucket::Bucket;
use crate::counters::Reason;
use crate::hashing::{Keyed, Table};
use crate::peer_set::PeerIndex;
use crate::tuning::{
    DERIVED_BURST, DERIVED_PER_SECOND, FLOWS_DROPPED_PER_STEP, IDENTIFIERS_PER_STEP,
    MAX_FLOWS_PER_ASSOCIATION, OLD_KEY_LIFETIME, REGISTERED_PER_SECOND,
};
use lightseal_core::{DecodeError, Instant, Random};
use lightseal_macsec::Header;
use std::collections::VecDeque;

/// Counts the management channels of a peer. Flows of an earlier channel have an earlier
/// generation, so their numbers do not collide with new ones.
type ChannelNumber = u32;

/// A flow number with its peer and channel, which make it unique.
type FlowId = (PeerIndex, ChannelNumber, u32);

/// An association with its peer and channel.
type BoundKey = (PeerIndex, ChannelNumber, AssociationId);

/// A flow: an entry of the paper's downlink table.
#[derive(Debug)]
struct Flow {
    number: FlowId,
    association: BoundKey,
    template: Template,
    secret: Option<BaseIdentifier>,
    /// The lowest packet number for which the flow has identifiers.
    start: u64,
    /// The identifiers of the packet numbers in `low..top` are in the table, except those that were
    /// received already.
    low: u64,
    top: u64,
    /// Which packet numbers in `low..top` were received.
    received: ReceivedBits,
    /// When the flow is removed: set once its channel was replaced or its association was refused.
    until: Option<Instant>,
}

/// One bit for each packet number of a flow's window, as a ring.
#[derive(Debug)]
struct ReceivedBits(Box<[u64]>);

impl ReceivedBits {
    /// A ring for `span` successive packet numbers.
    fn of(span: u64) -> Self {
        Self(vec![0; span.div_ceil(64) as usize].into_boxed_slice())
    }

    fn bit(&mut self, pn: u64) -> Option<(&mut u64, u64)> {
        let at = (pn / 64).checked_rem(self.0.len() as u64)?;
        Some((&mut self.0[at as usize], 1 << (pn % 64)))
    }

    fn set(&mut self, pn: u64, is_seen: bool) {
        if let Some((word, bit)) = self.bit(pn) {
            *word = if is_seen { *word | bit } else { *word & !bit };
        }
    }

    fn has(&mut self, pn: u64) -> bool {
        self.bit(pn).is_some_and(|(word, bit)| *word & bit != 0)
    }
}

/// The flows of one association. They share one sequence of packet numbers, so their windows move
/// together (*bound* flows in the paper).
#[derive(Debug)]
struct BoundFlows {
    /// One more than the highest known packet number. The windows of flows may lag behind it.
    next: u64,
    flows: Vec<u32>,
}

/// An entry of the identifier table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IdentifierEntry {
    flow: u32,
    /// Mask for the TCI and SL in the datagram, which are outside of MACsec's encryption.
    mask: [u8; 2],
    pn: u64,
}

#[derive(Clone, Debug)]
struct Peer {
    channel: ChannelNumber,
    flows: usize,
    /// Flows that will be removed, each with its time, in the order of these times.
    old: VecDeque<(Instant, FlowId)>,
    /// Tokens for identifiers of flows that the peer registers.
    registered: Bucket,
    /// Tokens for identifiers of packet numbers for which no frame arrived.
    derived: Bucket,
}

impl Peer {
    fn new(now: Instant) -> Self {
        Self {
            channel: 0,
            flows: 0,
            old: VecDeque::new(),
            registered: Bucket::new(REGISTERED_PER_SECOND, DERIVED_BURST, now),
            derived: Bucket::new(DERIVED_PER_SECOND, DERIVED_BURST, now),
        }
    }
}

/// The tables of flows that are received.
pub struct Downlink {
    options: FlowOptions,
    limits: FlowLimits,
    flows: Vec<Option<Flow>>,
    free: Vec<u32>,
    numbers: Table<FlowId, u32>,
    bound: Table<BoundKey, BoundFlows>,
    identifiers: Table<u64, IdentifierEntry>,
    /// Associations whose windows lag behind.
    lagging: VecDeque<BoundKey>,
    peers: Vec<Peer>,
    /// Flows that were known and are known no longer; their senders have to be told.
    refused: Vec<(PeerIndex, u32)>,
    /// How many flows there are from one station to another, and to a station in all.
    pairs: Table<([u8; 6], [u8; 6]), usize>,
    stations: Table<[u8; 6], usize>,
}

impl core::fmt::Debug for Downlink {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Downlink")
            .field("flows", &self.len())
            .field("identifiers", &self.identifiers.len())
            .finish_non_exhaustive()
    }
}

impl Downlink {
    /// Creates empty tables.
    pub(super) fn new(options: FlowOptions, limits: FlowLimits, random: &mut Random) -> Self {
        let keyed = Keyed::new(random.array());
        Self {
            options,
            limits,
            flows: Vec::new(),
            free: Vec::new(),
            numbers: Table::with_hasher(keyed),
            bound: Table::with_hasher(keyed),
            identifiers: Table::with_hasher(keyed),
            lagging: VecDeque::new(),
            peers: Vec::new(),
            refused: Vec::new(),
            pairs: Table::with_hasher(keyed),
            stations: Table::with_hasher(keyed),
        }
    }

    /// How many flows there are.
    pub fn len(&self) -> usize {
        self.flows.len() - self.free.len()
    }

    /// Whether there are no flows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many identifiers are expected.
    pub fn identifiers(&self) -> usize {
        self.identifiers.len()
    }

    fn peer(&mut self, now: Instant, peer: PeerIndex) -> &mut Peer {
        let at = usize::from(peer.0);
        if self.peers.len() <= at {
            self.peers.resize_with(at + 1, || Peer::new(now));
        }
        &mut self.peers[at]
    }

    fn channel(&self, peer: PeerIndex) -> ChannelNumber {
        self.peers.get(usize::from(peer.0)).map_or(0, |peer| peer.channel)
    }

    /// Accepts a flow; `false` if there is no room for it, or if the peer registers too many flows
    /// a second.
    ///
    /// # Errors
    /// If the flow number is in use.
    pub fn register(
        &mut self,
        now: Instant,
        peer: PeerIndex,
        register: Register,
    ) -> Result<bool, DecodeError> {
        let Register { number, next, secret, template } = register;
        let channel = self.peer(now, peer).channel;
        let number = (peer, channel, number);
        if self.numbers.contains_key(&number) {
            return Err(DecodeError::invalid("flow number: it is in use"));
        }
        if self.is_full(peer) {
            self.drop_old(usize::from(peer.0), FLOWS_DROPPED_PER_STEP, |_| true);
        }
        if self.is_full(peer) {
            return Ok(false);
        }
        let header = *template.header();
        let association = (peer, channel, AssociationId::of(&header));
        let (of_association, target) = match self.bound.get(&association) {
            Some(bound) => (bound.flows.len(), bound.next.max(next)),
            None => (0, next),
        };
        if self.options.beacons && of_association >= MAX_FLOWS_PER_ASSOCIATION {
            return Ok(false);
        }
        let FlowOptions { ahead, behind, derivation, .. } = self.options;
        let derived = if derivation.is_some() { ahead + behind.min(target - next) } else { 0 };
        let state = self.peer(now, peer);
        if !state.registered.take_all(now, tokens(derived, 1)) {
            return Ok(false);
        }
        state.flows += 1;
        *self.pairs.entry((header.source, header.destination)).or_default() += 1;
        *self.stations.entry(header.destination).or_default() += 1;
        let flow = Flow {
            number,
            association,
            template,
            secret,
            start: next,
            low: next,
            top: next,
            // One word more, since the window may begin at any bit of its first word.
            received: ReceivedBits::of(match self.options.derivation {
                Some(_) => self.options.ahead + self.options.behind + 64,
                None => 0,
            }),
            until: None,
        };
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.flows.push(None);
                // Flow slots are far fewer than 2^32, since the number of flows is limited.
                (self.flows.len() - 1) as u32
            }
        };
        self.flows[slot as usize] = Some(flow);
        self.numbers.insert(number, slot);
        let entry = self.bound.entry(association).or_insert(BoundFlows { next, flows: Vec::new() });
        entry.flows.push(slot);
        self.move_windows(now, &association, target, 0);
        Ok(true)
    }

    fn is_full(&self, peer: PeerIndex) -> bool {
        let window = (self.options.ahead + self.options.behind) as usize;
        let identifiers = (self.len() + 1).saturating_mul(window);
        self.len() >= self.limits.received
            || self.peers[usize::from(peer.0)].flows >= self.limits.received_a_peer
            || self.options.derivation.is_some() && identifiers > self.limits.identifiers
    }

    /// Removes a flow of `peer`.
    pub fn remove(&mut self, peer: PeerIndex, number: u32) {
        let number = (peer, self.channel(peer), number);
        if let Some(&slot) = self.numbers.get(&number) {
            self.drop_flow(slot);
        }
    }

    fn drop_flow(&mut self, slot: u32) {
        let Some(flow) = self.flows.get_mut(slot as usize).and_then(Option::take) else { return };
        self.free.push(slot);
        self.numbers.remove(&flow.number);
        if let Some(peer) = self.peers.get_mut(usize::from(flow.number.0.0)) {
            peer.flows -= 1;
        }
        let header = flow.template.header();
        decrement(&mut self.pairs, &(header.source, header.destination));
        decrement(&mut self.stations, &header.destination);
        if let Some(bound) = self.bound.get_mut(&flow.association) {
            bound.flows.retain(|&other| other != slot);
            if bound.flows.is_empty() {
                self.bound.remove(&flow.association);
            }
        }
        let mut flow = flow;
        for pn in flow.low..flow.top {
            self.remove_identifier(&mut flow, slot, pn);
        }
    }

    /// Removes an identifier from the table. The identifier of a packet number that was received is
    /// gone already, and need not be derived.
    fn remove_identifier(&mut self, flow: &mut Flow, slot: u32, pn: u64) {
        if flow.received.has(pn) {
            return;
        }
        let Some((key, entry)) = identifier(&self.options, flow, slot, pn) else { return };
        if self.identifiers.get(&key) == Some(&entry) {
            self.identifiers.remove(&key);
        }
    }

    /// The management channel to `peer` is new. The flows of the old channel stay known for a
    /// while, and the new channel numbers its flows independently.
    pub fn restart(&mut self, now: Instant, peer: PeerIndex) {
        let state = self.peer(now, peer);
        state.channel = state.channel.wrapping_add(1);
        self.refused.retain(|(to, _)| *to != peer);
        for slot in 0..self.flows.len() as u32 {
            let flow = self.flows.get(slot as usize).and_then(Option::as_ref);
            if flow.is_some_and(|flow| flow.number.0 == peer) {
                self.retire(now, slot);
            }
        }
    }

    /// Has a flow removed after a while, so that frames which are under way are still recognised.
    /// Returns the flow's number unless the flow was retired before.
    fn retire(&mut self, now: Instant, slot: u32) -> Option<FlowId> {
        let flow = self.flows.get_mut(slot as usize)?.as_mut()?;
        let number = flow.number;
        if flow.until.is_some() {
            return None;
        }
        let until = now + OLD_KEY_LIFETIME;
        flow.until = Some(until);
        self.peer(now, number.0).old.push_back((until, number));
        Some(number)
    }

    /// Removes some of the flows that are due, and says whether more may be due.
    pub fn expire(&mut self, now: Instant) -> bool {
        let mut most = FLOWS_DROPPED_PER_STEP;
        for peer in 0..self.peers.len() {
            most -= self.drop_old(peer, most, |until| now >= until);
        }
        most == 0
    }

    /// Removes at most `most` of a peer's retired flows, the oldest first, and says how many it
    /// removed.
    fn drop_old(&mut self, peer: usize, most: usize, due: impl Fn(Instant) -> bool) -> usize {
        let mut dropped = 0;
        while dropped < most
            && let Some(state) = self.peers.get_mut(peer)
            && let Some(&(until, number)) = state.old.front()
            && due(until)
        {
            state.old.pop_front();
            // The flow may have been removed meanwhile, and its number may belong to another flow.
            let slot = self.numbers.get(&number).copied();
            let flow = slot.and_then(|slot| self.flows.get(slot as usize)?.as_ref());
            if let Some(slot) = slot
                && flow.is_some_and(|flow| flow.until == Some(until))
            {
                self.drop_flow(slot);
                dropped += 1;
            }
        }
        dropped
    }

    /// The next flow that is known no longer, with the peer that sends it.
    pub fn poll_refused(&mut self) -> Option<(PeerIndex, u32)> {
        self.refused.pop()
    }

    /// Whether the destination of frames with this header sends frames to their source. For a group
    /// address: whether any station does.
    pub fn has_return_traffic(&self, header: &Header) -> bool {
        if header.destination[0] & 1 == 1 {
            self.stations.contains_key(&header.source)
        } else {
            self.pairs.contains_key(&(header.destination, header.source))
        }
    }

    /// Finds the frame to which an identifier belongs, and returns the peer that sent it and the
    /// frame's header. `[tci, sl]` are masked as in the datagram; `rest` is the number of bytes
    /// that follow them. The identifier is removed from the table.
    ///
    /// # Errors
    /// [`Reason::UnknownIdentifier`], or [`Reason::Malformed`] if a frame with this TCI and SL
    /// cannot have `rest` more bytes.
    pub fn take_identifier(
        &mut self,
        now: Instant,
        ridf: [u8; 8],
        [tci, sl]: [u8; 2],
        rest: usize,
    ) -> Result<(PeerIndex, Header), (Option<PeerIndex>, Reason)> {
        let unknown = (None, Reason::UnknownIdentifier);
        let key = u64::from_le_bytes(ridf);
        let entry = *self.identifiers.get(&key).ok_or(unknown)?;
        let flow = self.flows.get_mut(entry.flow as usize).and_then(Option::as_mut);
        let flow = flow.ok_or(unknown)?;
        if flow.until.is_some_and(|until| now >= until) {
            return Err(unknown);
        }
        let peer = flow.number.0;
        let malformed = (Some(peer), Reason::Malformed);
        let an = flow.template.header().tag.an.get();
        let octet = tci ^ entry.mask[0];
        let header = (octet & 3 == 0)
            .then(|| flow.template.restore(octet | an, sl ^ entry.mask[1], entry.pn as u32))
            .flatten()
            .ok_or(malformed)?;
        header.secure_data_len(header.len() + rest).map_err(|_| malformed)?;
        let association = flow.association;
        flow.received.set(entry.pn, true);
        self.identifiers.remove(&key);
        self.move_windows(now, &association, entry.pn.saturating_add(1), 1);
        Ok((peer, header))
    }

    /// The header fields that all frames of a flow have in common.
    ///
    /// # Errors
    /// [`Reason::UnknownFlow`].
    pub fn find(&self, peer: PeerIndex, number: u32) -> Result<&Template, Reason> {
        let newest = self.channel(peer);
        // A datagram may have been sent before the present channel was up.
        let found = [newest, newest.wrapping_sub(1)]
            .into_iter()
            .find_map(|channel| self.numbers.get(&(peer, channel, number)));
        let flow = found.and_then(|&slot| self.flows.get(slot as usize)?.as_ref());
        flow.map(|flow| &flow.template).ok_or(Reason::UnknownFlow)
    }

    /// Whether `peer` has a flow of the association with this SCI and AN.
    pub fn has_association(&self, peer: PeerIndex, sci: [u8; 8], an: u8) -> bool {
        let newest = self.channel(peer);
        let key = AssociationId::named(sci, an);
        [newest, newest.wrapping_sub(1)]
            .into_iter()
            .any(|channel| self.bound.contains_key(&(peer, channel, key)))
    }

    /// A frame of `peer` with this header arrived sealed. The windows of its association move on to
    /// the packet numbers after it.
    pub fn note_sealed_frame(&mut self, now: Instant, peer: PeerIndex, header: &Header) {
        let key = (peer, self.channel(peer), AssociationId::of(header));
        let Some(bound) = self.bound.get(&key) else { return };
        if let Some(pn) = nearest_pn(bound.next, header.tag.pn) {
            self.move_windows(now, &key, pn.saturating_add(1), 1);
        }
    }

    /// The peer reports `pn` as the highest packet number of the association that its flow `number`
    /// belongs to.
    pub fn advance_to(&mut self, now: Instant, peer: PeerIndex, number: u32, pn: u64) {
        let number = (peer, self.channel(peer), number);
        let flow = self.numbers.get(&number).and_then(|&slot| self.flows[slot as usize].as_ref());
        if let Some(association) = flow.map(|flow| flow.association) {
            self.move_windows(now, &association, pn.saturating_add(1), 0);
        }
    }

    /// Moves the windows of all flows of an association forward to `next`, never backward, because
    /// of `frames` frames that arrived. A frame moves the windows by one packet number free of
    /// charge. A late frame moves nothing, and returns the tokens that were paid when its number
    /// was skipped. For any further packet number the peer's bucket pays; if that is empty, the
    /// bound flows are refused.
    fn move_windows(&mut self, now: Instant, key: &BoundKey, next: u64, frames: u64) {
        let FlowOptions { ahead, behind, derivation, .. } = self.options;
        let Some(bound) = self.bound.get_mut(key) else { return };
        let moved = next.saturating_sub(bound.next).min(ahead + behind);
        let next = bound.next.max(next);
        if derivation.is_none() {
            bound.next = next;
            return;
        }
        let flows = bound.flows.len() as u64;
        if let Some(peer) = self.peers.get_mut(usize::from(key.0.0)) {
            if moved < frames {
                peer.derived.give(tokens(frames - moved, flows));
            } else if moved > frames && !peer.derived.take_all(now, tokens(moved - frames, flows)) {
                self.refuse_association(now, key);
                return;
            }
        }
        bound.next = next;
        if !self.move_some_windows(key) && !self.lagging.contains(key) {
            self.lagging.push_back(*key);
        }
    }

    /// Whether windows lag behind. Long moves are done in steps, since frames wait for the lock.
    pub fn has_lagging_windows(&self) -> bool {
        !self.lagging.is_empty()
    }

    /// Moves some of the windows that lag behind.
    pub fn move_lagging_windows(&mut self) {
        if let Some(key) = self.lagging.pop_front()
            && !self.move_some_windows(&key)
        {
            self.lagging.push_back(key);
        }
    }

    /// Moves some windows of bound flows, and says whether all of them have reached their position.
    fn move_some_windows(&mut self, key: &BoundKey) -> bool {
        let Some(bound) = self.bound.get_mut(key) else { return true };
        let next = bound.next;
        let flows = core::mem::take(&mut bound.flows);
        // Per flow a frame adds and removes one identifier, so bound flows that did not lag before
        // do not lag after it.
        let most = IDENTIFIERS_PER_STEP.max(2 * flows.len() as u64);
        let mut work = 0;
        let mut left = flows.iter();
        while work < most
            && let Some(&slot) = left.next()
        {
            work += self.move_window(slot, next);
        }
        let done = left.as_slice().is_empty();
        if let Some(bound) = self.bound.get_mut(key) {
            bound.flows = flows;
        }
        done
    }

    /// Derives no more identifiers for the flows of this association, and reports the refusal to
    /// their sender. Until the sender knows, it may use the identifiers that are in the table.
    fn refuse_association(&mut self, now: Instant, key: &BoundKey) {
        let Some(bound) = self.bound.remove(key) else { return };
        for slot in bound.flows {
            if let Some((peer, channel, number)) = self.retire(now, slot)
                && channel == self.channel(peer)
            {
                self.refused.push((peer, number));
            }
        }
    }

    /// Moves one window to `next`, and returns how many identifiers were added and removed.
    fn move_window(&mut self, slot: u32, next: u64) -> u64 {
        let FlowOptions { ahead, behind, .. } = self.options;
        let Some(mut flow) = self.flows.get_mut(slot as usize).and_then(Option::take) else {
            return 0;
        };
        let low = flow.start.max(next.saturating_sub(behind)).max(flow.low);
        let top = next.saturating_add(ahead).max(flow.top);
        let (gone, fresh) = (flow.low..flow.top.min(low), flow.top.max(low)..top);
        let work = gone.end.saturating_sub(gone.start) + fresh.end.saturating_sub(fresh.start);
        for pn in gone {
            self.remove_identifier(&mut flow, slot, pn);
        }
        for pn in fresh {
            if let Some((key, entry)) = identifier(&self.options, &flow, slot, pn) {
                flow.received.set(pn, false);
                self.identifiers.entry(key).or_insert(entry);
            }
        }
        (flow.low, flow.top) = (low, top);
        self.flows[slot as usize] = Some(flow);
        work
    }
}

/// The tokens for `numbers` identifiers in each of `flows` flows.
fn tokens(numbers: u64, flows: u64) -> u32 {
    u32::try_from(numbers.saturating_mul(flows)).unwrap_or(u32::MAX)
}

fn identifier(
    options: &FlowOptions,
    flow: &Flow,
    slot: u32,
    pn: u64,
) -> Option<(u64, IdentifierEntry)> {
    let (derive, secret) = options.derivation.zip(flow.secret.as_ref())?;
    let derived = derive(secret, pn, flow.template.header().tag.an.get());
    Some((derived.key(), IdentifierEntry { flow: slot, mask: derived.mask, pn }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_ring_of_bits_forgets_what_left_the_window() {
        const SPAN: u64 = 130;
        let (mut seen, mut model) = (ReceivedBits::of(SPAN + 64), BTreeSet::new());
        let mut random = Random::insecure(1);
        for top in SPAN..20 * SPAN {
            // The window moves on by one: its newest number was not received yet.
            seen.set(top - 1, false);
            let pn = top - 1 - random.below(SPAN);
            seen.set(pn, true);
            model.insert(pn);
            for pn in top - SPAN..top {
                assert_eq!(seen.has(pn), model.contains(&pn), "{pn} below {top}");
            }
        }
        let mut none = ReceivedBits::of(0);
        none.set(0, true);
        assert!(!none.has(0));
    }
}
