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
    /// XOR of closing blocks of records in the range.
    sum: Sum,
    /// XOR of closing blocks of control records after the range, which belong to it as soon as
    /// another data record follows.
    after: Sum,
    /// States of records whose closing block is in neither sum, by their place in the set.
    states: [PrfState; KEPT],
    /// The places of the range's first and last record.
    places: Option<(u8, u8)>,
}

/// XOR of output blocks.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
struct Sum(u128);

impl OpenRange {
    const EMPTY: Self = Self {
        last: 0,
        place: 0,
        sum: Sum(0),
        after: Sum(0),
        states: [const { PrfState::NONE }; KEPT],
        places: None,
    };

    #[inline(always)]
    fn add<P: Prf + ?Sized>(&mut self, prf: &P, place: usize, kind: RecordKind, state: PrfState) {
        if kind == RecordKind::Data {
            let first = self.places.map_or(place as u8, |(first, _)| first);
            self.places = Some((first, place as u8));
        }
        if let Some(kept) = self.states.get_mut(place) {
            *kept = state;
        } else if self.places.is_some() {
            self.after.0 ^= closing_block(prf, &state);
            if kind == RecordKind::Data {
                self.sum.0 ^= core::mem::take(&mut self.after.0);
            }
        }
    }

    fn close<P: Prf + ?Sized>(&mut self, prf: &P) -> Option<(u8, u8, u128)> {
        let (first, last) = self.places.take()?;
        let kept = self.states.iter().take(usize::from(last) + 1).skip(first.into());
        let sum = kept.fold(self.sum.0, |sum, state| sum ^ closing_block(prf, state));
        (self.sum.0, self.after.0) = (0, 0);
        Some((first, last, sum))
    }

    /// Ends the set of whose records `count` have been added.
    fn end(&mut self, count: usize) {
        self.states.iter_mut().take(count).for_each(Zeroize::zeroize);
        if KEPT == 0 {
            (self.sum.0, self.after.0) = (0, 0);
        }
        self.places = None;
    }
}

fn closing_block<P: Prf + ?Sized>(prf: &P, state: &PrfState) -> u128 {
    u128::from_be_bytes(prf.block(state, CLOSING_BLOCK))
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
        self.sum.0 ^= u128::from_ne_bytes(prf.block(&state, TAG_BLOCK));
        if len > 0 {
            tag.copy_from_slice(&self.sum.0.to_ne_bytes());
            self.sum.0 = 0;
            self.closing.end(self.closing.place.into());
            self.closing.place = 0;
        } else {
            self.closing.add(prf, self.closing.place.into(), kind, state);
            self.closing.place += 1;
        }
        Ok(())
    }

    pub(crate) const fn next_len(&self) -> usize {
        if self.closing.place == self.closing.last { TAG_BYTES } else { 0 }
    }

    pub(crate) fn open_since(&self) -> Option<u64> {
        self.closing.places.map(|(first, _)| self.set_start() + u64::from(first))
    }

    pub(crate) fn close<P: Prf + ?Sized>(&mut self, prf: &P) -> Option<ClosingTag> {
        let (first, last, tag) = self.closing.close(prf)?;
        Some(ClosingTag {
            first: self.set_start() + u64::from(first),
            count: last - first + 1,
            tag: tag.to_be_bytes(),
        })
    }

    /// First number of the set that the next record belongs to.
    fn set_start(&self) -> u64 {
        self.next - u64::from(self.closing.place)
    }
}

impl fmt::Debug for AggSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AggSealer")
            .field("n", &(self.closing.last + 1))
            .field("next", &self.next)
            .field("open", &self.closing.places)
            .finish_non_exhaustive()
    }
}
