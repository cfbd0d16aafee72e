//! The sending side of Agg(n).

use crate::definition::{SetSize, TAG_BYTES};
use crate::prf::{CLOSING_BLOCK, ClosingTag, Prf, PrfState, TAG_BLOCK};
use crate::sealing::{RecordKind, SealError};
use core::fmt;
use zeroize::{Zeroize, Zeroizing};

/// Number of states kept. A set's last record carries the aggregate, so its state is not needed.
const KEPT: usize = SetSize::MAX.get() as usize - 1;

#[derive(Clone)]
pub(crate) struct AggSealer {
    /// The index of a set's last record: n − 1.
    last: usize,
    next: u64,
    /// XOR of output block 0 of the current set's records so far.
    sum: Zeroizing<u128>,
    /// States of the current set's records, indexed by their place in the set.
    states: [PrfState; KEPT],
    /// The next record's place in its set.
    place: usize,
    /// The places of the first and the last data record that no tag covers.
    open: Option<(u8, u8)>,
}

impl AggSealer {
    pub(crate) fn new(n: SetSize) -> Self {
        Self {
            last: usize::from(n.get()) - 1,
            next: 0,
            sum: Zeroizing::new(0),
            states: [const { PrfState::NONE }; KEPT],
            place: 0,
            open: None,
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
        let place = self.place;
        let len = self.next_len();
        if tag.len() != len {
            return Err(SealError::TagLength);
        }
        self.next += 1;
        *self.sum ^= u128::from_ne_bytes(prf.block(&state, TAG_BLOCK));
        if len > 0 {
            tag.copy_from_slice(&self.sum.to_ne_bytes());
            *self.sum = 0;
            self.states[..place].iter_mut().for_each(Zeroize::zeroize);
            self.place = 0;
            self.open = None;
        } else {
            self.states[place] = state;
            self.place = place + 1;
            if kind == RecordKind::Data {
                let first = self.open.map_or(place as u8, |(first, _)| first);
                self.open = Some((first, place as u8));
            }
        }
        Ok(())
    }

    pub(crate) const fn next_len(&self) -> usize {
        if self.place == self.last { TAG_BYTES } else { 0 }
    }

    pub(crate) fn open_since(&self) -> Option<u64> {
        self.open.map(|(first, _)| self.set_start() + u64::from(first))
    }

    pub(crate) fn close<P: Prf + ?Sized>(&mut self, prf: &P) -> Option<ClosingTag> {
        let (first, last) = self.open.take()?;
        let tag = self.states[usize::from(first)..=usize::from(last)]
            .iter()
            .fold(0, |sum, state| sum ^ u128::from_be_bytes(prf.block(state, CLOSING_BLOCK)));
        Some(ClosingTag {
            first: self.set_start() + u64::from(first),
            count: last - first + 1,
            tag: tag.to_be_bytes(),
        })
    }

    /// First number of the set that the next record belongs to.
    fn set_start(&self) -> u64 {
        self.next - self.place as u64
    }
}

impl fmt::Debug for AggSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AggSealer")
            .field("n", &(self.last + 1))
            .field("next", &self.next)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}
