//! Flows that a gateway receives, and the table of identifiers that it expects.

use super::messages::Register;
use super::uplink::{forget_one, recover};
use super::{BaseIdentifier, Limits, Needs, SaKey, Template};
use crate::bridge::PeerIndex;
use crate::bucket::Bucket;
use crate::counters::Reason;
use crate::hashing::{Keyed, Table};
use crate::tuning::{
    DERIVED, DERIVED_AT_ONCE, DROPPED, FLOWS_A_GROUP, OLD_EPOCH, REGISTERED, STEP,
};
use lightseal_core::{DecodeError, Instant, Random};
use lightseal_macsec::Header;
use std::collections::VecDeque;

/// Counts the management channels of a peer. Flows of an earlier channel have an earlier
/// generation, so their numbers do not collide with new ones.
type Generation = u32;

/// A flow number with its peer and channel, which make it unique.
type Number = (PeerIndex, Generation, u32);

/// A flow: an entry of the paper's downlink table.
#[derive(Debug)]
struct Flow {
    number: Number,
    group: (PeerIndex, Generation, SaKey),
    template: Template,
    secret: Option<BaseIdentifier>,
    /// The lowest packet number for which the flow has identifiers.
    start: u64,
    /// The identifiers of the packet numbers in `low..top` are in the table, except those that were
    /// received already.
    low: u64,
    top: u64,
    /// Which packet numbers in `low..top` were received.
    seen: Seen,
    /// When the flow is removed: set once its channel was replaced or its group was refused.
    until: Option<Instant>,
}

/// One bit for each packet number of a flow's window, as a ring.
#[derive(Debug)]
struct Seen(Box<[u64]>);

impl Seen {
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
struct Group {
    /// One more than the highest known packet number. The windows of flows may lag behind it.
    next: u64,
    flows: Vec<u32>,
}

/// An entry of the identifier table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    flow: u32,
    /// Mask for the TCI and SL in the datagram, which are outside of MACsec's encryption.
    mask: [u8; 2],
    pn: u64,
}

#[derive(Clone, Debug)]
struct Peer {
    generation: Generation,
    flows: usize,
    /// Flows that will be removed, each with its time, in the order of these times.
    old: VecDeque<(Instant, Number)>,
    /// Tokens for identifiers of flows that the peer registers.
    registered: Bucket,
    /// Tokens for identifiers of packet numbers for which no frame arrived.
    derived: Bucket,
}

impl Peer {
    fn new(now: Instant) -> Self {
        Self {
            generation: 0,
            flows: 0,
            old: VecDeque::new(),
            registered: Bucket::new(REGISTERED, DERIVED_AT_ONCE, now),
            derived: Bucket::new(DERIVED, DERIVED_AT_ONCE, now),
        }
    }
}

/// The tables of flows that are received.
pub struct Downlink {
    needs: Needs,
    limits: Limits,
    flows: Vec<Option<Flow>>,
    free: Vec<u32>,
    numbers: Table<Number, u32>,
    groups: Table<(PeerIndex, Generation, SaKey), Group>,
    identifiers: Table<u64, Place>,
    /// Groups that have windows which lag behind.
    lagging: VecDeque<(PeerIndex, Generation, SaKey)>,
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
    pub fn new(needs: Needs, limits: Limits, random: &mut Random) -> Self {
        let keyed = Keyed::new(random.array());
        Self {
            needs,
            limits,
            flows: Vec::new(),
            free: Vec::new(),
            numbers: Table::with_hasher(keyed),
            groups: Table::with_hasher(keyed),
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

    fn generation(&self, peer: PeerIndex) -> Generation {
        self.peers.get(usize::from(peer.0)).map_or(0, |peer| peer.generation)
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
        let generation = self.peer(now, peer).generation;
        let number = (peer, generation, number);
        if self.numbers.contains_key(&number) {
            return Err(DecodeError::Invalid("flow number: it is in use"));
        }
        if self.is_full(peer) {
            self.drop_old(usize::from(peer.0), DROPPED, |_| true);
        }
        if self.is_full(peer) {
            return Ok(false);
        }
        let header = *template.header();
        let group = (peer, generation, SaKey::of(&header));
        let (of_group, target) = match self.groups.get(&group) {
            Some(group) => (group.flows.len(), group.next.max(next)),
            None => (0, next),
        };
        if self.needs.beacons && of_group >= FLOWS_A_GROUP {
            return Ok(false);
        }
        let Needs { ahead, behind, derivation, .. } = self.needs;
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
            group,
            template,
            secret,
            start: next,
            low: next,
            top: next,
            // One word more, since the window may begin at any bit of its first word.
            seen: Seen::of(match self.needs.derivation {
                Some(_) => self.needs.ahead + self.needs.behind + 64,
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
        let entry = self.groups.entry(group).or_insert(Group { next, flows: Vec::new() });
        entry.flows.push(slot);
        self.slide_group(now, &group, target, 0);
        Ok(true)
    }

    fn is_full(&self, peer: PeerIndex) -> bool {
        let window = (self.needs.ahead + self.needs.behind) as usize;
        let identifiers = (self.len() + 1).saturating_mul(window);
        self.len() >= self.limits.received
            || self.peers[usize::from(peer.0)].flows >= self.limits.received_a_peer
            || self.needs.derivation.is_some() && identifiers > self.limits.identifiers
    }

    /// Removes a flow of `peer`.
    pub fn remove(&mut self, peer: PeerIndex, number: u32) {
        let number = (peer, self.generation(peer), number);
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
        forget_one(&mut self.pairs, &(header.source, header.destination));
        forget_one(&mut self.stations, &header.destination);
        if let Some(group) = self.groups.get_mut(&flow.group) {
            group.flows.retain(|&other| other != slot);
            if group.flows.is_empty() {
                self.groups.remove(&flow.group);
            }
        }
        let mut flow = flow;
        for pn in flow.low..flow.top {
            self.forget_identifier(&mut flow, slot, pn);
        }
    }

    /// Removes an identifier from the table. The identifier of a packet number that was received is
    /// gone already, and need not be derived.
    fn forget_identifier(&mut self, flow: &mut Flow, slot: u32, pn: u64) {
        if flow.seen.has(pn) {
            return;
        }
        let Some((key, place)) = identifier(&self.needs, flow, slot, pn) else { return };
        if self.identifiers.get(&key) == Some(&place) {
            self.identifiers.remove(&key);
        }
    }

    /// The management channel to `peer` is new. The flows of the old channel stay known for a
    /// while, and the new channel numbers its flows independently.
    pub fn restart(&mut self, now: Instant, peer: PeerIndex) {
        let state = self.peer(now, peer);
        state.generation = state.generation.wrapping_add(1);
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
    fn retire(&mut self, now: Instant, slot: u32) -> Option<Number> {
        let flow = self.flows.get_mut(slot as usize)?.as_mut()?;
        let number = flow.number;
        if flow.until.is_some() {
            return None;
        }
        let until = now + OLD_EPOCH;
        flow.until = Some(until);
        self.peer(now, number.0).old.push_back((until, number));
        Some(number)
    }

    /// Removes some of the flows that are due, and says whether more may be due.
    pub fn expire(&mut self, now: Instant) -> bool {
        let mut most = DROPPED;
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
    pub fn answers(&self, header: &Header) -> bool {
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
    pub fn take(
        &mut self,
        now: Instant,
        ridf: [u8; 8],
        [tci, sl]: [u8; 2],
        rest: usize,
    ) -> Result<(PeerIndex, Header), (Option<PeerIndex>, Reason)> {
        let unknown = (None, Reason::UnknownIdentifier);
        let key = u64::from_le_bytes(ridf);
        let place = *self.identifiers.get(&key).ok_or(unknown)?;
        let flow = self.flows.get_mut(place.flow as usize).and_then(Option::as_mut);
        let flow = flow.ok_or(unknown)?;
        if flow.until.is_some_and(|until| now >= until) {
            return Err(unknown);
        }
        let peer = flow.number.0;
        let malformed = (Some(peer), Reason::Malformed);
        let an = flow.template.header().tag.an.get();
        let octet = tci ^ place.mask[0];
        let header = (octet & 3 == 0)
            .then(|| flow.template.restore(octet | an, sl ^ place.mask[1], place.pn as u32))
            .flatten()
            .ok_or(malformed)?;
        header.secure_data_len(header.len() + rest).map_err(|_| malformed)?;
        let group = flow.group;
        flow.seen.set(place.pn, true);
        self.identifiers.remove(&key);
        self.slide_group(now, &group, place.pn.saturating_add(1), 1);
        Ok((peer, header))
    }

    /// The header fields that all frames of a flow have in common.
    ///
    /// # Errors
    /// [`Reason::UnknownFlow`].
    pub fn find(&self, peer: PeerIndex, number: u32) -> Result<&Template, Reason> {
        let newest = self.generation(peer);
        // A datagram may have been sent before the present channel was up.
        let found = [newest, newest.wrapping_sub(1)]
            .into_iter()
            .find_map(|generation| self.numbers.get(&(peer, generation, number)));
        let flow = found.and_then(|&slot| self.flows.get(slot as usize)?.as_ref());
        flow.map(|flow| &flow.template).ok_or(Reason::UnknownFlow)
    }

    /// Whether `peer` has a flow of the association with this SCI and AN.
    pub fn has_channel(&self, peer: PeerIndex, sci: [u8; 8], an: u8) -> bool {
        let newest = self.generation(peer);
        let key = SaKey::named(sci, an);
        [newest, newest.wrapping_sub(1)]
            .into_iter()
            .any(|generation| self.groups.contains_key(&(peer, generation, key)))
    }

    /// A frame of `peer` with this header arrived sealed. The windows of its association move on to
    /// the packet numbers after it.
    pub fn hear(&mut self, now: Instant, peer: PeerIndex, header: &Header) {
        let key = (peer, self.generation(peer), SaKey::of(header));
        let Some(group) = self.groups.get(&key) else { return };
        if let Some(pn) = recover(group.next, header.tag.pn) {
            self.slide_group(now, &key, pn.saturating_add(1), 1);
        }
    }

    /// The peer reports `pn` as the highest packet number of the association that its flow `number`
    /// belongs to.
    pub fn advance_to(&mut self, now: Instant, peer: PeerIndex, number: u32, pn: u64) {
        let number = (peer, self.generation(peer), number);
        let flow = self.numbers.get(&number).and_then(|&slot| self.flows[slot as usize].as_ref());
        if let Some(group) = flow.map(|flow| flow.group) {
            self.slide_group(now, &group, pn.saturating_add(1), 0);
        }
    }

    /// Moves the windows of all flows of an association forward to `next`, never backward, because
    /// of `frames` frames that arrived. A frame moves the windows by one packet number free of
    /// charge. A late frame moves nothing, and returns the tokens that were paid when its number
    /// was skipped. For any further packet number the peer's bucket pays; if that is empty, the
    /// group is refused.
    fn slide_group(
        &mut self,
        now: Instant,
        key: &(PeerIndex, Generation, SaKey),
        next: u64,
        frames: u64,
    ) {
        let Needs { ahead, behind, derivation, .. } = self.needs;
        let Some(group) = self.groups.get_mut(key) else { return };
        let moved = next.saturating_sub(group.next).min(ahead + behind);
        let next = group.next.max(next);
        if derivation.is_none() {
            group.next = next;
            return;
        }
        let many = group.flows.len() as u64;
        if let Some(peer) = self.peers.get_mut(usize::from(key.0.0)) {
            if moved < frames {
                peer.derived.give(tokens(frames - moved, many));
            } else if moved > frames && !peer.derived.take_all(now, tokens(moved - frames, many)) {
                self.refuse_group(now, key);
                return;
            }
        }
        group.next = next;
        if !self.slide_some(key) && !self.lagging.contains(key) {
            self.lagging.push_back(*key);
        }
    }

    /// Whether windows lag behind. Long moves are done in steps, since frames wait for the lock.
    pub fn lags(&self) -> bool {
        !self.lagging.is_empty()
    }

    /// Moves some of the windows that lag behind.
    pub fn catch_up(&mut self) {
        if let Some(key) = self.lagging.pop_front()
            && !self.slide_some(&key)
        {
            self.lagging.push_back(key);
        }
    }

    /// Moves some windows of a group, and says whether all of them have reached their position.
    fn slide_some(&mut self, key: &(PeerIndex, Generation, SaKey)) -> bool {
        let Some(group) = self.groups.get_mut(key) else { return true };
        let next = group.next;
        let flows = core::mem::take(&mut group.flows);
        // Per flow a frame adds and removes one identifier, so a group that did not lag before does
        // not lag after it.
        let most = STEP.max(2 * flows.len() as u64);
        let mut work = 0;
        let mut left = flows.iter();
        while work < most
            && let Some(&slot) = left.next()
        {
            work += self.slide(slot, next);
        }
        let done = left.as_slice().is_empty();
        if let Some(group) = self.groups.get_mut(key) {
            group.flows = flows;
        }
        done
    }

    /// Derives no more identifiers for the flows of this group, and has their sender told. Until
    /// the sender knows, it may use the identifiers that are in the table.
    fn refuse_group(&mut self, now: Instant, key: &(PeerIndex, Generation, SaKey)) {
        let Some(group) = self.groups.remove(key) else { return };
        for slot in group.flows {
            if let Some((peer, generation, number)) = self.retire(now, slot)
                && generation == self.generation(peer)
            {
                self.refused.push((peer, number));
            }
        }
    }

    /// Moves one window to `next`, and returns how many identifiers were added and removed.
    fn slide(&mut self, slot: u32, next: u64) -> u64 {
        let Needs { ahead, behind, .. } = self.needs;
        let Some(mut flow) = self.flows.get_mut(slot as usize).and_then(Option::take) else {
            return 0;
        };
        let low = flow.start.max(next.saturating_sub(behind)).max(flow.low);
        let top = next.saturating_add(ahead).max(flow.top);
        let (gone, fresh) = (flow.low..flow.top.min(low), flow.top.max(low)..top);
        let work = gone.end.saturating_sub(gone.start) + fresh.end.saturating_sub(fresh.start);
        for pn in gone {
            self.forget_identifier(&mut flow, slot, pn);
        }
        for pn in fresh {
            if let Some((key, place)) = identifier(&self.needs, &flow, slot, pn) {
                flow.seen.set(pn, false);
                self.identifiers.entry(key).or_insert(place);
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

fn identifier(needs: &Needs, flow: &Flow, slot: u32, pn: u64) -> Option<(u64, Place)> {
    let (how, secret) = needs.derivation.zip(flow.secret.as_ref())?;
    let derived = how.derive(secret, pn, flow.template.header().tag.an.get());
    Some((derived.key(), Place { flow: slot, mask: derived.mask, pn }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_ring_of_bits_forgets_what_left_the_window() {
        const SPAN: u64 = 130;
        let (mut seen, mut model) = (Seen::of(SPAN + 64), BTreeSet::new());
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
        let mut none = Seen::of(0);
        none.set(0, true);
        assert!(!none.has(0));
    }
}
