//! Received payloads, held until they are verified and the application has taken them.

pub use super::received::{Origin, Received, RecordId, Resolution};
pub use super::slots::Slot;
use super::slots::Slots;
use crate::parts::{self, Part, PartState};
use crate::tuning::{GIVES_LISTS_BACK, IS_FOR_HOSTS, OPENER_CANDIDATES};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;
use lightseal_aggregation::tuning::HELD_PER_NUMBER;
use lightseal_aggregation::{DropReason, Outcome};
use lightseal_core::parts::PartState as InlineState;

/// Received payloads in reusable buffers. On hosts no record allocates once the buffers have grown. The
/// heap stays within twice the budget whatever is received.
///
/// A slot is free, waits for verification, is ready for the application, or both of the latter.
#[derive(Debug)]
pub struct ReceiveBuffer {
    slots: Slots,
    /// A verified payload for the application that comes before all of `ready`. Most associations never
    /// have another one.
    next: Option<Slot>,
    ready: ReadyQueue,
    /// Payload bytes in slots that are not free; each slot costs [`SLOT_COST`] more.
    bytes: usize,
    /// The heap memory of all slots in bytes, free ones included.
    capacity: usize,
    budget: usize,
    shared: PartState<parts::SharedReceiving, Shared>,
}

/// What is reported to the application. Without shared tags it is always verified data.
#[derive(Debug)]
enum Ready {
    Data(Slot),
    /// The next one of [`Early::reports`].
    Other(parts::EarlyDelivery),
}

/// What is to be reported, once there was more than one payload at a time.
#[expect(clippy::box_collection, reason = "it takes less memory while there is none")]
#[derive(Debug)]
struct ReadyQueue(Option<Box<VecDeque<Ready>>>);

impl ReadyQueue {
    fn list(&mut self) -> &mut VecDeque<Ready> {
        self.0.get_or_insert_default()
    }

    fn pop_front(&mut self) -> Option<Ready> {
        let front = self.0.as_mut()?.pop_front();
        self.give_back();
        front
    }

    /// Gives back the memory of an empty list: a small device with many sessions has none for it.
    fn give_back(&mut self) {
        if GIVES_LISTS_BACK && self.is_empty() {
            self.0 = None;
        }
    }

    fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |list| list.len())
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What only records under shared tags need, once the first one has come.
#[derive(Debug)]
struct Shared {
    early: InlineState<parts::EarlyDelivery, Early>,
    /// The longest payload that was verified by shared tags.
    longest: usize,
    /// Where records came from, once the origin of one may change where the peer is answered.
    origins: Option<Box<Origins>>,
    /// The highest record number authenticated since [`ReceiveBuffer::begin`], and its slot; `None`
    /// for the record being processed.
    newest: Option<(u64, Option<Slot>)>,
    /// What was delivered, of an association that is saved or was restored.
    deliveries: InlineState<parts::Persistence, Deliveries>,
}

impl Shared {
    fn new() -> Self {
        Self {
            early: InlineState::new(parts::EarlyDelivery::INCLUDED, |_| Early::default()),
            longest: 0,
            origins: None,
            newest: None,
            deliveries: InlineState::EMPTY,
        }
    }
}

/// What is delivered before it is verified.
#[derive(Debug, Default)]
struct Early {
    /// What the queue has for the application besides verified data, in the same order. The entries of
    /// the queue are small, because many payloads may be verified at once.
    reports: VecDeque<Received>,
    /// The number of entries in `reports` that are not verified.
    waiting: usize,
    /// Slots delivered to the application before they were verified, each with the number of bytes
    /// delivered before it.
    delivered: Vec<(Slot, u64)>,
    /// The number of bytes delivered to the application.
    given: u64,
}

/// The origins of records.
#[derive(Debug, Default)]
struct Origins {
    /// The origin of the record being processed, if it may change where the peer is answered.
    current: Option<Origin>,
    /// The origins of the records in slots, by slot. A slot beyond the end has no origin.
    by_slot: Vec<Option<SlotOrigin>>,
}

/// Which payloads were delivered.
#[derive(Clone, Copy, Debug, Default)]
struct Deliveries {
    /// Payloads of records before this one may have been delivered by a predecessor.
    floor: Option<RecordId>,
    /// The newest record whose payload was queued for the application.
    top: Option<RecordId>,
}

/// Where the record in a slot came from.
#[derive(Clone, Copy, Debug)]
struct SlotOrigin {
    origin: Origin,
    /// The record, while it waits for verification.
    waiting: Option<RecordId>,
}

impl Shared {
    /// Whether the payload of this record may be queued for the application: a predecessor has not
    /// delivered it.
    #[inline]
    fn admits(&mut self, record: RecordId) -> bool {
        let Some(Deliveries { floor, top }) = self.deliveries.get_mut() else { return true };
        let admitted = floor.is_none_or(|floor| floor <= record);
        if admitted {
            *top = (*top).max(Some(record));
        }
        admitted
    }

    fn note_newest(&mut self, number: u64, slot: Option<Slot>) {
        if self.newest.is_none_or(|(newest, _)| newest < number) {
            self.newest = Some((number, slot));
        }
    }

    fn note_origin(&mut self, slot: Slot) {
        let Some(origins) = &mut self.origins else { return };
        let Origins { current, by_slot } = &mut **origins;
        let at = usize::from(slot);
        if at >= by_slot.len() {
            by_slot.resize(at + 1, None);
        }
        if let Some(origin) = by_slot.get_mut(at) {
            *origin = current.map(|origin| SlotOrigin { origin, waiting: None });
        }
    }

    fn set_waiting(&mut self, slot: Slot, record: Option<RecordId>) {
        let Some(origins) = &mut self.origins else { return };
        if let Some(Some(origin)) = origins.by_slot.get_mut(usize::from(slot)) {
            origin.waiting = record;
        }
    }
}

/// What an occupied slot counts for besides its payload, so that the number of empty payloads is
/// bounded too.
const SLOT_COST: usize = 32;

impl ReceiveBuffer {
    /// A buffer of `budget` bytes, overhead included.
    pub const fn new(budget: usize) -> Self {
        Self {
            slots: Slots::new(),
            next: None,
            ready: ReadyQueue(None),
            bytes: 0,
            capacity: 0,
            budget,
            shared: PartState::EMPTY,
        }
    }

    /// Begins to process the next record under shared tags, which has this origin.
    pub fn begin(&mut self, origin: Option<Origin>) {
        if let Some(part) = parts::SharedReceiving::INCLUDED {
            let shared = self.shared.get_or_insert_with(part, Shared::new);
            shared.newest = None;
            if origin.is_some() || shared.origins.is_some() {
                shared.origins.get_or_insert_default().current = origin;
            }
        }
    }

    /// Notes from now on which payloads under shared tags are delivered. With `floor`, none before that
    /// record is: a predecessor may have delivered it.
    pub(crate) fn note_deliveries(&mut self, floor: Option<RecordId>) {
        if let Some(part) = parts::SharedReceiving::INCLUDED {
            let shared = self.shared.get_or_insert_with(part, Shared::new);
            let deliveries = |_| Deliveries { floor, top: None };
            shared.deliveries = InlineState::new(parts::Persistence::INCLUDED, deliveries);
        }
    }

    /// The newest record under shared tags whose payload was queued for the application.
    pub(crate) fn newest_delivered(&self) -> Option<RecordId> {
        self.shared.get()?.deliveries.get()?.top
    }

    /// The record being processed, which is one under shared tags, was authenticated by its own
    /// tag.
    pub fn authenticated(&mut self, number: u64) {
        if let Some(shared) = self.shared.get_mut() {
            shared.note_newest(number, None);
        }
    }

    /// The highest record number authenticated since [`begin`](Self::begin), and the origin of its
    /// record, which is seldom the record whose tag let others be verified.
    pub fn newest(&self) -> Option<(u64, Option<Origin>)> {
        let shared = self.shared.get()?;
        let (number, slot) = shared.newest?;
        let origin = shared.origins.as_ref().and_then(|origins| match slot {
            None => origins.current,
            Some(slot) => {
                let known = origins.by_slot.get(usize::from(slot)).copied().flatten()?;
                Some(known.origin)
            }
        });
        Some((number, origin))
    }

    /// The record in `slot` waits for verification until the slot is resolved or released.
    pub fn waits(&mut self, slot: Slot, record: RecordId) {
        if let Some(shared) = self.shared.get_mut() {
            shared.set_waiting(slot, Some(record));
        }
    }

    /// Whether a record that waits for verification came from `peer` and is newer than `record`.
    pub fn has_newer_from(&self, peer: SocketAddr, record: RecordId) -> bool {
        self.shared.get().is_some_and(|shared| {
            let origins = shared.origins.as_ref().map(|origins| origins.by_slot.iter().flatten());
            origins.into_iter().flatten().any(|known| {
                known.origin.way.peer == peer && known.waiting.is_some_and(|newer| newer > record)
            })
        })
    }

    /// How many bytes the records of a scheme may take, overhead included: for each of `numbers`
    /// record numbers as many candidates as the scheme holds, each as long as the longest verified
    /// payload; but at least one record of `longest` bytes for each number. Never more than the
    /// budget.
    pub fn shared_budget(&self, numbers: usize, longest: usize) -> usize {
        // Before the first payload is verified, payloads of any length may be the authentic ones.
        let seen = match self.shared.get().map_or(0, |shared| shared.longest) {
            0 => longest,
            seen => seen,
        };
        let rivals = (numbers * HELD_PER_NUMBER).min(OPENER_CANDIDATES) * (seen + SLOT_COST);
        rivals.max(Self::least_budget(numbers, longest)).min(self.budget)
    }

    /// The part of [`shared_budget`](Self::shared_budget) that does not depend on what was
    /// received, unless the budget is less.
    pub const fn least_budget(numbers: usize, longest: usize) -> usize {
        numbers * (longest + SLOT_COST)
    }

    /// Copies a payload in; `None` if it does not fit the budget.
    pub fn hold(&mut self, payload: &[u8]) -> Option<Slot> {
        self.hold_within(self.budget, payload)
    }

    /// As [`hold`](Self::hold), with a smaller budget.
    #[inline]
    pub fn hold_within(&mut self, budget: usize, payload: &[u8]) -> Option<Slot> {
        let cost = payload.len() + SLOT_COST;
        if self.bytes + cost > budget.min(self.budget) {
            return None;
        }
        let slot = self.slots.take()?;
        let buffer = self.slots.get_mut(slot)?;
        self.capacity -= buffer.capacity();
        buffer.clear();
        buffer.reserve_exact(payload.len());
        buffer.extend_from_slice(payload);
        self.capacity += buffer.capacity();
        self.bytes += cost;
        if let Some(shared) = self.shared.get_mut() {
            shared.note_origin(slot);
        }
        Some(slot)
    }

    /// Queues a verified payload for the application; returns its length in bytes.
    #[inline]
    pub fn deliver(&mut self, slot: Slot) -> usize {
        if self.next.is_none() && self.ready.is_empty() {
            self.next = Some(slot);
        } else {
            self.ready.list().push_back(Ready::Data(slot));
        }
        self.payload(slot).len()
    }

    /// Queues a payload for the application that is not verified yet.
    pub fn deliver_early(&mut self, slot: Slot, record: RecordId, bits: u8) {
        if let Some(shared) = self.shared.get_mut() {
            if !shared.admits(record) {
                return;
            }
            if let Some(early) = shared.early.get_mut() {
                early.waiting += 1;
            }
        }
        self.report(Received::Provisional { slot, record, bits });
    }

    fn report(&mut self, received: Received) {
        let Some(part) = parts::EarlyDelivery::INCLUDED else { return };
        if let Some(early) = self.shared.get_mut().and_then(|shared| shared.early.get_mut()) {
            early.reports.push_back(received);
            self.ready.list().push_back(Ready::Other(part));
        }
    }

    /// As [`resolve`](Self::resolve), for a payload that is verified. Returns also whether the payload is
    /// delivered: if a predecessor may have delivered it, it is dropped.
    #[inline]
    pub fn verified(&mut self, slot: Slot, record: RecordId) -> (usize, bool) {
        let len = self.payload(slot).len();
        let Some(shared) = self.shared.get_mut() else { return (self.deliver(slot), true) };
        shared.longest = shared.longest.max(len);
        if shared.origins.is_some() {
            shared.note_newest(record.number, Some(slot));
            shared.set_waiting(slot, None);
        }
        if !shared.admits(record) {
            self.release(slot);
            return (len, false);
        }
        match shared.early.get() {
            Some(early) if early.waiting > 0 || !early.delivered.is_empty() => {
                (self.resolve(slot, record, Outcome::Verified), true)
            }
            _ => (self.deliver(slot), true),
        }
    }

    /// Resolves a payload that waited for verification. The application is told if the payload was
    /// delivered, or is delivered now. Returns the length in bytes of the verified payload, 0
    /// otherwise.
    pub fn resolve(&mut self, slot: Slot, record: RecordId, outcome: Outcome) -> usize {
        let verified = outcome == Outcome::Verified;
        let len = if verified { self.payload(slot).len() } else { 0 };
        let early = self.shared.get_mut().and_then(|shared| shared.early.get_mut());
        let Some(early) = early else {
            if verified {
                return self.deliver(slot);
            }
            self.release(slot);
            return len;
        };
        // The search is skipped when there is none, because the queue may be long.
        if early.waiting > 0
            && let Some(at) = early.reports.iter().position(|report| report.is_provisional(slot))
        {
            // The application has not taken the provisional payload yet.
            early.waiting -= 1;
            early.reports.remove(at);
            let ready = self.ready.list();
            let mut others = ready.iter().enumerate().filter(|(_, e)| matches!(e, Ready::Other(_)));
            let Some((entry, _)) = others.nth(at) else { return len };
            if verified {
                ready[entry] = Ready::Data(slot);
                return len;
            }
            ready.remove(entry);
        }
        let delivered = early.delivered.iter().position(|(delivered, _)| *delivered == slot);
        if let Some((_, before)) = delivered.map(|at| early.delivered.swap_remove(at)) {
            let resolution = match outcome {
                Outcome::Verified => Resolution::Verified,
                Outcome::Dropped(DropReason::Failed) => {
                    Resolution::Refuted { bytes: early.given - before }
                }
                _ => Resolution::Unknown,
            };
            self.report(Received::Resolved(record, resolution));
        } else if verified {
            return self.deliver(slot);
        }
        self.release(slot);
        len
    }

    /// The slot of the next payload for the application, if that is verified.
    pub fn next_data(&mut self) -> Option<Slot> {
        let slot = match self.next.take() {
            Some(slot) => slot,
            None => {
                let ready = self.ready.0.as_mut()?;
                let &Ready::Data(slot) = ready.front()? else { return None };
                ready.pop_front();
                self.ready.give_back();
                slot
            }
        };
        self.note_given(slot);
        Some(slot)
    }

    /// The number of payloads for the application, where none comes before it is verified.
    pub fn ready_len(&self) -> usize {
        usize::from(self.next.is_some()) + self.ready.len()
    }

    /// Drops the oldest or the newest payload for the application. Returns whether there was one.
    pub fn drop_ready(&mut self, is_newest: bool) -> bool {
        let next = if is_newest && !self.ready.is_empty() { None } else { self.next.take() };
        let dropped = match (next, is_newest) {
            (Some(slot), _) => Some(Ready::Data(slot)),
            (None, true) => self.ready.0.as_mut().and_then(|list| list.pop_back()),
            (None, false) => self.ready.pop_front(),
        };
        match dropped {
            Some(Ready::Data(slot)) => self.release(slot),
            Some(Ready::Other(_)) => {
                let early = self.shared.get_mut().and_then(|shared| shared.early.get_mut());
                let Some(early) = early else { return true };
                let reports = &mut early.reports;
                let report = if is_newest { reports.pop_back() } else { reports.pop_front() };
                // The slot waits for its verdict.
                early.waiting -= usize::from(report.is_some_and(Received::is_early));
            }
            None => return false,
        }
        true
    }

    /// The next report for the application.
    pub fn next_ready(&mut self) -> Option<Received> {
        if let Some(slot) = self.next.take() {
            self.note_given(slot);
            return Some(Received::Data(slot));
        }
        let received = match self.ready.pop_front()? {
            Ready::Data(slot) => Received::Data(slot),
            Ready::Other(_) => self.shared.get_mut()?.early.get_mut()?.reports.pop_front()?,
        };
        match received {
            Received::Data(slot) => {
                self.note_given(slot);
            }
            Received::Provisional { slot, .. } => {
                let before = self.note_given(slot);
                let early = self.shared.get_mut().and_then(|shared| shared.early.get_mut());
                if let Some(early) = early {
                    early.waiting -= 1;
                    early.delivered.push((slot, before));
                }
            }
            Received::Resolved(..) => {}
        }
        Some(received)
    }

    /// Notes that the application gets a payload. Returns how many bytes it had before.
    fn note_given(&mut self, slot: Slot) -> u64 {
        if !parts::EarlyDelivery::IS_INCLUDED {
            return 0;
        }
        let len = self.payload(slot).len();
        let early = self.shared.get_mut().and_then(|shared| shared.early.get_mut());
        let Some(early) = early else { return 0 };
        let before = early.given;
        early.given += len as u64;
        before
    }

    /// A slot's payload.
    pub fn payload(&self, slot: Slot) -> &[u8] {
        self.slots.get(slot).map_or(&[], Vec::as_slice)
    }

    /// Frees a slot.
    pub fn release(&mut self, slot: Slot) {
        if let Some(buffer) = self.slots.get_mut(slot) {
            self.bytes -= buffer.len() + SLOT_COST;
            buffer.clear();
            // Slots that held large payloads one after the other must not all keep large buffers. On a
            // small device that has many sessions, no slot keeps one.
            if self.capacity > self.budget || !IS_FOR_HOSTS {
                self.capacity -= buffer.capacity();
                *buffer = Vec::new();
            }
            self.slots.free(slot);
            if let Some(shared) = self.shared.get_mut() {
                shared.set_waiting(slot, None);
            }
        }
    }

    /// Exchanges the memory for the next payload, if no payload is in it, for other memory: an endpoint
    /// lends what all of its associations use by turns.
    #[inline]
    pub fn exchange(&mut self, memory: &mut Vec<u8>) {
        let before = memory.capacity();
        self.slots.exchange_first(memory);
        self.capacity = self.capacity + before - memory.capacity();
    }

    /// Whether nothing is held, nothing is to be reported, and no record came under shared tags.
    pub(crate) fn is_unused(&self) -> bool {
        self.bytes == 0
            && self.next.is_none()
            && self.ready.is_empty()
            && self.shared.get().is_none()
    }

    /// The size of all payloads held, in bytes with overhead.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightseal_core::AddressPair;

    #[test]
    fn the_budget_holds_and_slots_are_reused() {
        let mut held = ReceiveBuffer::new(2 * (10 + SLOT_COST));
        let a = held.hold(&[1; 10]).unwrap();
        let b = held.hold(&[2; 10]).unwrap();
        assert_eq!(held.hold(&[]), None, "an empty payload has a cost too");
        held.deliver(b);
        held.deliver(a);
        assert_eq!(held.next_ready(), Some(Received::Data(b)));
        held.release(b);
        assert_eq!(held.hold(&[3; 10]), Some(b));
        assert_eq!(held.next_ready(), Some(Received::Data(a)));
        assert_eq!(held.payload(a), [1; 10]);
        held.release(a);
        held.release(b);
        assert_eq!(held.bytes(), 0);
    }

    #[test]
    fn memory_is_lent_while_no_payload_is_in_it() {
        let mut held = ReceiveBuffer::new(1000);
        let mut lent = Vec::with_capacity(100);
        held.exchange(&mut lent);
        assert_eq!((lent.capacity(), held.capacity), (0, held.slots.capacity()));
        let slot = held.hold(&[7; 100]).unwrap();
        held.exchange(&mut lent);
        assert_eq!((lent.capacity(), held.payload(slot)), (0, &[7; 100][..]));
        held.release(slot);
        held.exchange(&mut lent);
        assert!(lent.is_empty() && lent.capacity() >= 100);
        assert_eq!((held.capacity, held.slots.capacity()), (0, 0));
    }

    /// Against a queue: whatever is taken or dropped, the order stays.
    #[test]
    fn payloads_are_taken_in_their_order() {
        let mut rng = lightseal_core::Random::insecure(1);
        let (mut held, mut expected) = (ReceiveBuffer::new(100_000), VecDeque::new());
        for number in 0..10_000_u32 {
            match rng.below(5) {
                0 | 1 => {
                    let slot = held.hold(&number.to_be_bytes()).unwrap();
                    held.deliver(slot);
                    expected.push_back(number);
                }
                2 => assert_eq!(held.drop_ready(true), expected.pop_back().is_some()),
                3 => assert_eq!(held.drop_ready(false), expected.pop_front().is_some()),
                _ => {
                    let taken = match rng.below(2) {
                        0 => held.next_data(),
                        _ => match held.next_ready() {
                            Some(Received::Data(slot)) => Some(slot),
                            other => {
                                assert_eq!(other, None);
                                None
                            }
                        },
                    };
                    let payload = taken.map(|slot| held.payload(slot).to_vec());
                    assert_eq!(payload, expected.pop_front().map(|n| n.to_be_bytes().to_vec()));
                    taken.into_iter().for_each(|slot| held.release(slot));
                }
            }
            assert_eq!(held.ready_len(), expected.len());
        }
    }

    #[test]
    fn early_payloads_are_resolved_once() {
        let mut held = ReceiveBuffer::new(10_000);
        held.begin(None);
        let record = |number| RecordId { epoch: 3, number };
        let slots: Vec<Slot> = (1..=4).map(|n| held.hold(&[n; 10]).unwrap()).collect();
        for (number, slot) in (0..).zip(&slots[..3]) {
            held.deliver_early(*slot, record(number), 5);
        }
        let provisional =
            |number, slot| Some(Received::Provisional { slot, record: record(number), bits: 5 });
        assert_eq!(held.next_ready(), provisional(0, slots[0]));
        assert_eq!(held.next_ready(), provisional(1, slots[1]));
        // The third payload was not taken yet: it becomes ordinary data.
        assert_eq!(held.resolve(slots[2], record(2), Outcome::Verified), 10);
        assert_eq!(held.resolve(slots[3], record(3), Outcome::Verified), 10);
        assert_eq!(held.next_ready(), Some(Received::Data(slots[2])));
        held.release(slots[2]);
        assert_eq!(held.resolve(slots[1], record(1), Outcome::Dropped(DropReason::Failed)), 0);
        assert_eq!(held.resolve(slots[0], record(0), Outcome::Verified), 10);
        assert_eq!(held.next_ready(), Some(Received::Data(slots[3])));
        held.release(slots[3]);
        let refuted = Resolution::Refuted { bytes: 20 };
        assert_eq!(held.next_ready(), Some(Received::Resolved(record(1), refuted)));
        let verified = Resolution::Verified;
        assert_eq!(held.next_ready(), Some(Received::Resolved(record(0), verified)));
        assert_eq!((held.next_ready(), held.bytes()), (None, 0));
    }

    #[test]
    fn a_record_is_newer_only_while_it_waits_and_came_from_the_peer() {
        let peer: SocketAddr = "192.0.2.1:1000".parse().unwrap();
        let other: SocketAddr = "192.0.2.2:1000".parse().unwrap();
        let record = |epoch, number| RecordId { epoch, number };
        let mut held = ReceiveBuffer::new(10_000);
        held.begin(Some(Origin { way: AddressPair::to(peer), own_id: None }));
        let slot = held.hold(&[1; 10]).unwrap();
        assert!(!held.has_newer_from(peer, record(3, 7)), "it is not known which record it is");
        held.waits(slot, record(3, 8));
        assert!(held.has_newer_from(peer, record(3, 7)));
        assert!(!held.has_newer_from(peer, record(3, 8)));
        assert!(!held.has_newer_from(peer, record(4, 0)));
        assert!(!held.has_newer_from(other, record(3, 7)));
        held.verified(slot, record(3, 8));
        assert!(!held.has_newer_from(peer, record(3, 7)), "the application has not taken it yet");
        let slot = held.hold(&[2; 10]).unwrap();
        held.waits(slot, record(3, 9));
        held.release(slot);
        assert!(!held.has_newer_from(peer, record(3, 7)));
    }

    #[test]
    fn slots_that_were_large_in_turn_are_not_kept_large() {
        const BUDGET: usize = 64 * 1024;
        let mut held = ReceiveBuffer::new(BUDGET);
        let mut pinned = Vec::new();
        for _ in 0..1000 {
            let large = held.hold(&[0; 10_000]).unwrap();
            held.release(large);
            // Pins the slot just freed, so that the next large payload takes another one.
            pinned.push(held.hold(&[0; 1]).unwrap());
            assert!(held.capacity <= 2 * BUDGET, "{} bytes", held.capacity);
        }
        pinned.into_iter().for_each(|slot| held.release(slot));
        assert!(held.capacity <= BUDGET);
        assert_eq!(held.capacity, held.slots.capacity());
    }
}
