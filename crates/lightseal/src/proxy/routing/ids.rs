//! Which connection IDs a node of a fleet gives to its peers, and what they say to whoever routes
//! datagrams.
//!
//! ```text
//! in clear   | slot (1) | worker (1) | random (6) |
//! scrambled  | 7 (1) | encrypted: slot (1), worker (1), random (5) |
//! ```
//!
//! The second form is that of draft-ietf-quic-load-balancers, with slot and worker as server ID: the
//! first byte has the number of its configuration in three bits, and the length of what follows.

use super::scramble::{PLAIN, ScrambleKey};
use lightseal_dtls::{ConnectionId, ConnectionIdGenerator, Random};
use std::sync::{Arc, PoisonError, RwLock};

/// The slot of an association in a fleet, which one of its nodes has at a time.
pub(crate) type Slot = u8;

/// Where a datagram belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) slot: Slot,
    /// The number of the worker of that node, modulo the number of its workers.
    pub(crate) worker: u8,
}

/// The form of connection IDs.
#[derive(Debug)]
pub(crate) enum IdForm {
    /// They name the slot and the worker.
    Clear,
    /// They do so to those who have the key.
    Scrambled(Box<ScrambleKey>),
}

impl IdForm {
    /// IDs whose place is encrypted under a key that all nodes have.
    pub(crate) fn scrambled(key: &[u8; 16]) -> Self {
        Self::Scrambled(Box::new(ScrambleKey::new(key)))
    }

    /// The length of an ID in bytes.
    pub(crate) const BYTES: u8 = 8;

    /// The byte of an ID that names the worker, if it can be read without a key.
    pub(crate) const fn worker_at(&self) -> Option<u8> {
        match self {
            Self::Clear => Some(1),
            Self::Scrambled(_) => None,
        }
    }

    /// Writes a place into an ID of random bytes.
    fn write(&self, place: Place, id: &mut [u8]) {
        let Place { slot, worker } = place;
        match (self, id) {
            (Self::Clear, [first, second, ..]) => [*first, *second] = [slot, worker],
            (Self::Scrambled(key), [first, rest @ ..]) => {
                let Some(bytes) = rest.first_chunk_mut::<PLAIN>() else { return };
                *first = PLAIN as u8;
                [bytes[0], bytes[1]] = [slot, worker];
                key.encrypt(bytes);
            }
            _ => {}
        }
    }

    /// The place that an ID names; `None` if it names none.
    pub(crate) fn place(&self, id: &[u8]) -> Option<Place> {
        match (self, id) {
            (Self::Clear, [slot, worker, ..]) => Some(Place { slot: *slot, worker: *worker }),
            (Self::Scrambled(key), [first, rest @ ..]) if *first == PLAIN as u8 => {
                let mut bytes = *rest.first_chunk::<PLAIN>()?;
                key.decrypt(&mut bytes);
                Some(Place { slot: bytes[0], worker: bytes[1] })
            }
            _ => None,
        }
    }

    /// The place that the first record of a datagram names.
    pub(crate) fn place_of_datagram(&self, datagram: &[u8]) -> Option<Place> {
        self.place(ConnectionId::of_datagram(datagram, Self::BYTES.into())?)
    }
}

/// Draws the connection IDs of one worker.
#[derive(Debug)]
pub(crate) struct Ids {
    form: Arc<IdForm>,
    worker: usize,
    /// The number of the node's workers.
    workers: usize,
    /// The slots that are this node's.
    slots: Arc<RwLock<Vec<Slot>>>,
}

impl Ids {
    /// Draws the IDs of a node's first worker.
    pub(crate) fn new(form: Arc<IdForm>) -> Self {
        Self { form, worker: 0, workers: 1, slots: Arc::default() }
    }

    /// Draws the IDs of one of several workers of the node.
    pub(crate) fn of_worker(&self, worker: usize, workers: usize) -> Self {
        let (form, slots) = (Arc::clone(&self.form), Arc::clone(&self.slots));
        Self { form, worker, workers, slots }
    }

    /// Whether there is a slot for a new association.
    pub(crate) fn has_slots(&self) -> bool {
        !self.slots.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// New associations get one of these slots from now on.
    pub(crate) fn set_slots(&self, slots: Vec<Slot>) {
        *self.slots.write().unwrap_or_else(PoisonError::into_inner) = slots;
    }
}

impl ConnectionIdGenerator for Ids {
    fn generate(&self, rng: &mut Random, former: Option<&[u8]>, id: &mut [u8]) {
        rng.fill(id);
        // An association stays in its slot.
        let former = former.and_then(|former| self.form.place(former));
        let slot = match former {
            Some(place) => place.slot,
            None => {
                let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
                let at = rng.below(slots.len().max(1) as u64) as usize;
                slots.get(at).copied().unwrap_or_default()
            }
        };
        let worker = byte(former.map(|place| place.worker), self.worker, self.workers);
        self.form.write(Place { slot, worker }, id);
    }
}

/// The byte with which an ID names a worker: that of the association's ID before, if it leads to the
/// same one of `count` workers. It then also does where there are more workers.
pub(crate) fn byte(former: Option<u8>, worker: usize, count: usize) -> u8 {
    let same = former.filter(|former| usize::from(*former) % count == worker);
    same.unwrap_or(worker as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(ids: &Ids, rng: &mut Random, former: Option<&[u8]>) -> Vec<u8> {
        let mut id = vec![0; IdForm::BYTES.into()];
        ids.generate(rng, former, &mut id);
        id
    }

    #[test]
    fn an_id_names_its_place_and_those_after_it_the_same_slot() {
        let rng = &mut Random::insecure(1);
        for form in [IdForm::Clear, IdForm::scrambled(&[7; 16])] {
            let form = Arc::new(form);
            let ids = Ids::new(Arc::clone(&form)).of_worker(3, 8);
            ids.set_slots(vec![9, 200]);
            let mut slots = Vec::new();
            for _ in 0..50 {
                let id = drawn(&ids, rng, None);
                let place = form.place(&id).unwrap();
                assert_eq!(place.worker, 3);
                let next = drawn(&ids, rng, Some(&id));
                assert_ne!(next, id);
                assert_eq!(form.place(&next), Some(place));
                // A record of DTLS 1.3 with this ID, and one of 1.2.
                let newer = [&[0x3e][..], &id, &[0; 20]].concat();
                let older = [&[25, 0xfe, 0xfd][..], &[0; 8], &id, &[0, 20], &[0; 20]].concat();
                assert_eq!(form.place_of_datagram(&newer), Some(place));
                assert_eq!(form.place_of_datagram(&older), Some(place));
                slots.push(place.slot);
            }
            slots.sort_unstable();
            slots.dedup();
            assert_eq!(slots, [9, 200]);
        }
    }

    #[test]
    fn scrambled_ids_of_one_slot_have_nothing_in_common() {
        let rng = &mut Random::insecure(2);
        let ids = Ids::new(Arc::new(IdForm::scrambled(&[7; 16]))).of_worker(0, 1);
        ids.set_slots(vec![5]);
        let drawn: Vec<_> = (0..200).map(|_| drawn(&ids, rng, None)).collect();
        for at in 1..8 {
            let mut bytes: Vec<_> = drawn.iter().map(|id| id[at]).collect();
            bytes.sort_unstable();
            bytes.dedup();
            assert!(bytes.len() > 60, "byte {at} has {} values", bytes.len());
        }
        let other = IdForm::scrambled(&[8; 16]);
        let known = drawn.iter().filter(|id| other.place(id).is_some_and(|place| place.slot == 5));
        assert!(known.count() < 20, "not under another key");
    }

    #[test]
    fn hellos_and_records_without_an_id_name_nothing() {
        for datagram in [&[22; 60][..], &[0x2e; 60], &[], &[0x3e, 1]] {
            assert_eq!(IdForm::Clear.place_of_datagram(datagram), None);
        }
    }
}
