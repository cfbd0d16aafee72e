//! The sending side of Agg(n).

use crate::definition::{SetSize, TAG_BYTES};
use crate::prf::{CLOSING_BLOCK, ClosingTag, Prf, PrfState, TAG_BLOCK};
use crate::sealing::{RecordKind, SealError};
use core::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Number of states of which the closing block is computed only when a closing tag needs it. A set's
/// last record carries the aggregate, so its state is never needed.
const KEPT: usize = if cfg!(feature = "fast") { SetSize::MAX.get() as usize - 1 } else { 0 };

#[derive(Clone)]
pub(crate) struct AggSealer {
    next: u64,
    /// XOR of output block 0 of the current set's records so far.
    sum: Sum,
    /// The closing tag over the open range.
    closing: OpenRange,
}

/// The current set, and its records from the first to the last data record that no tag covers.
#[derive(Clone)]
struct OpenRange {
    /// The index of a set's last record: n − 1.
    last: u8,
    /// The next record's place in its set.
    place: u8,
    /// The place of the range's first record, and the number of records in the range.
    first: u8,
    count: u8,
    /// XOR of closing blocks of records from the first one of the range on.
    sum: Sum,
    /// XOR of closing blocks of control records after the range, which belong to it as soon as
    /// another data record follows.
    after: Sum,
    /// States of records whose closing block is in neither sum, by their place in the set.
    states: [PrfState; KEPT],
}

/// XOR of output blocks.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
struct Sum(u128);

impl OpenRange {
    const EMPTY: Self = Self {
        last: 0,
        place: 0,
        first: 0,
        count: 0,
        sum: Sum(0),
        after: Sum(0),
        states: [const { PrfState::NONE }; KEPT],
    };

    #[inline(always)]
    fn add<P: Prf + ?Sized>(&mut self, prf: &P, kind: RecordKind, state: PrfState) {
        let place = self.place;
        self.place += 1;
        if kind == RecordKind::Data {
            if self.count == 0 {
                self.first = place;
            }
            self.count = self.place - self.first;
        }
        if let Some(kept) = self.states.get_mut(usize::from(place)) {
            *kept = state;
        } else if self.count > 0 {
            let block = block(prf, &state, CLOSING_BLOCK);
            self.sum.0 ^= block;
            self.after.0 = if kind == RecordKind::Data { 0 } else { self.after.0 ^ block };
        }
    }

    /// XOR of the closing blocks of the range's records.
    fn tag<P: Prf + ?Sized>(&self, prf: &P) -> u128 {
        let kept = self.states.iter().skip(self.first.into()).take(self.count.into());
        let sum = self.sum.0 ^ self.after.0;
        kept.fold(sum, |sum, state| sum ^ block(prf, state, CLOSING_BLOCK))
    }

    /// Leaves no record in the range.
    const fn clear(&mut self) {
        (self.sum.0, self.after.0) = (0, 0);
        self.count = 0;
    }

    /// Ends the set.
    fn end(&mut self) {
        self.states.iter_mut().take(self.place.into()).for_each(Zeroize::zeroize);
        self.clear();
        self.place = 0;
    }
}

fn block<P: Prf + ?Sized>(prf: &P, state: &PrfState, index: u8) -> u128 {
    u128::from_ne_bytes(prf.block(state, index))
}

impl AggSealer {
    pub(crate) const AVAILABLE: bool = true;

    /// A sealer without a scheme. All of its bytes are zero.
    pub(crate) const EMPTY: Self = Self { next: 0, sum: Sum(0), closing: OpenRange::EMPTY };

    /// Makes an empty sealer ready for Agg(n).
    pub(crate) fn set_up(&mut self, n: SetSize) {
        self.closing.last = n.get() - 1;
    }

    /// Continues an unused sealer at another record.
    pub(crate) const fn resume_at(&mut self, next: u64) {
        self.next = next;
        if let Some(n) = SetSize::new(self.closing.last + 1) {
            self.closing.place = n.place(next);
        }
    }

    #[inline]
    pub(crate) fn seal<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        kind: RecordKind,
        state: PrfState,
        tag: &mut [u8],
    ) -> Result<(), SealError> {
        if number != self.next {
            return Err(SealError::OutOfOrder { expected: self.next });
        }
        let len = self.next_len();
        if tag.len() != len {
            return Err(SealError::TagLength);
        }
        self.next += 1;
        self.sum.0 ^= block(prf, &state, TAG_BLOCK);
        if len > 0 {
            tag.copy_from_slice(&self.sum.0.to_ne_bytes());
            self.sum.0 = 0;
            self.closing.end();
        } else {
            self.closing.add(prf, kind, state);
        }
        Ok(())
    }

    #[inline]
    pub(crate) const fn len_after(&self, records: usize) -> usize {
        let (place, last) = (self.closing.place as usize + records, self.closing.last as usize);
        if place % (last + 1) == last { TAG_BYTES } else { 0 }
    }

    #[inline]
    pub(crate) const fn next_len(&self) -> usize {
        if self.closing.place == self.closing.last { TAG_BYTES } else { 0 }
    }

    pub(crate) const fn largest_len(&self) -> usize {
        TAG_BYTES
    }

    pub(crate) fn open_since(&self) -> Option<u64> {
        let OpenRange { place, first, count, .. } = &self.closing;
        (*count > 0).then(|| self.next - u64::from(place - first))
    }

    pub(crate) fn close<P: Prf + ?Sized>(&mut self, prf: &P) -> Option<ClosingTag> {
        let (first, count) = (self.open_since()?, self.closing.count);
        let tag = self.closing.tag(prf).to_ne_bytes();
        self.closing.clear();
        Some(ClosingTag { first, count, tag })
    }
}

impl fmt::Debug for AggSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AggSealer")
            .field("n", &(self.closing.last + 1))
            .field("next", &self.next)
            .field("open_since", &self.open_since())
            .finish_non_exhaustive()
    }
}
