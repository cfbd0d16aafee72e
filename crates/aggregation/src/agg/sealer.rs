//! The sending side of Agg(n).

use crate::prf::{CLOSING_BLOCK, ClosingTag, Prf, PrfState, TAG_BLOCK};
use crate::scheme::{SetSize, TAG_BYTES};
use crate::sealer::{Kind, SealError};
use core::fmt;
use zeroize::Zeroizing;

/// States kept: a set's last record ends it and needs none.
const KEPT: usize = SetSize::MAX.get() as usize - 1;

#[derive(Clone)]
pub(crate) struct AggSealer {
    n: u64,
    next: u64,
    /// XOR of block 0 of the current set's records so far.
    sum: Zeroizing<u128>,
    /// States of the current set's records, by their place in it.
    states: [Option<PrfState>; KEPT],
    /// Places of the first and last data record that no tag covers.
    open: Option<(usize, usize)>,
}

impl AggSealer {
    pub(crate) fn new(n: SetSize) -> Self {
        Self {
            n: u64::from(n.get()),
            next: 0,
            sum: Zeroizing::new(0),
            states: [const { None }; KEPT],
            open: None,
        }
    }

    pub(crate) fn seal<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        kind: Kind,
        state: PrfState,
        tag: &mut [u8],
    ) -> Result<(), SealError> {
        if number != self.next {
            return Err(SealError::OutOfOrder { expected: self.next });
        }
        let place = self.place(number);
        let last = place as u64 == self.n - 1;
        if tag.len() != if last { TAG_BYTES } else { 0 } {
            return Err(SealError::TagLength);
        }
        self.next += 1;
        *self.sum ^= u128::from_be_bytes(prf.block(&state, TAG_BLOCK));
        if last {
            tag.copy_from_slice(&self.sum.to_be_bytes());
            *self.sum = 0;
            self.states = [const { None }; KEPT];
            self.open = None;
        } else {
            self.states[place] = Some(state);
            if kind == Kind::Data {
                let first = self.open.map_or(place, |(first, _)| first);
                self.open = Some((first, place));
            }
        }
        Ok(())
    }

    pub(crate) fn open_since(&self) -> Option<u64> {
        self.open.map(|(first, _)| self.set_start() + first as u64)
    }

    pub(crate) fn close<P: Prf + ?Sized>(&mut self, prf: &P) -> Option<ClosingTag> {
        let (first, last) = self.open.take()?;
        let tag = self.states[first..=last]
            .iter()
            .flatten()
            .fold(0, |sum, state| sum ^ u128::from_be_bytes(prf.block(state, CLOSING_BLOCK)));
        Some(ClosingTag {
            first: self.set_start() + first as u64,
            count: (last - first) as u8 + 1,
            tag: tag.to_be_bytes(),
        })
    }

    fn place(&self, number: u64) -> usize {
        (number % self.n) as usize
    }

    /// First number of the set that the next record belongs to.
    fn set_start(&self) -> u64 {
        self.next - self.next % self.n
    }
}

impl fmt::Debug for AggSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AggSealer")
            .field("n", &self.n)
            .field("next", &self.next)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}
