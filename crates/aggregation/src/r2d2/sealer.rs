//! The sending side.

use crate::prf::{CLOSING_BLOCK, ClosingTag, Prf, PrfState};
use crate::r2d2::board::FULL;
use crate::r2d2::table::{REACH, SPAN, Table};
use crate::sealer::{Kind, SealError};
use core::fmt;
use zeroize::Zeroizing;

#[derive(Clone)]
pub(crate) struct BitSealer {
    table: Table,
    /// Records after which a record needs no closing tag, unless some are lost.
    delay: u64,
    next: u64,
    /// What the records so far add to the next tags, the next record's first.
    sums: Zeroizing<[u64; SPAN]>,
    /// States of the last records, by number modulo [`SPAN`].
    states: [Option<PrfState>; SPAN],
    /// The oldest and the newest data record that no closing tag covers, the oldest of those
    /// that need one when silence follows.
    open: Option<(u64, u64)>,
}

impl BitSealer {
    pub(crate) fn new(table: Table) -> Self {
        Self {
            delay: table.delay(FULL) as u64,
            table,
            next: 0,
            sums: Zeroizing::new([0; SPAN]),
            states: [const { None }; SPAN],
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
        if tag.len() != self.table.bytes() {
            return Err(SealError::TagLength);
        }
        self.next += 1;
        let words = self.table.words(prf, &state);
        self.table.deal(&words, &mut self.sums);
        tag.copy_from_slice(&self.sums[0].to_be_bytes()[8 - self.table.bytes()..]);
        self.sums.copy_within(1.., 0);
        self.sums[REACH] = 0;
        self.states[place(number)] = Some(state);
        if kind == Kind::Data {
            let oldest = self.open_since().unwrap_or(number);
            self.open = Some((oldest, number));
        }
        Ok(())
    }

    pub(crate) const fn next_len(&self) -> usize {
        self.table.bytes()
    }

    pub(crate) fn open_since(&self) -> Option<u64> {
        let (oldest, newest) = self.open?;
        let oldest = oldest.max(self.next.saturating_sub(self.delay));
        (oldest <= newest).then_some(oldest)
    }

    pub(crate) fn close<P: Prf + ?Sized>(&mut self, prf: &P) -> Option<ClosingTag> {
        let first = self.open_since();
        let (_, last) = self.open.take()?;
        let first = first?;
        let tag = (first..=last)
            .filter_map(|number| self.states[place(number)].as_ref())
            .fold(0, |sum, state| sum ^ u128::from_be_bytes(prf.block(state, CLOSING_BLOCK)));
        let count = (last - first) as u8 + 1;
        Some(ClosingTag { first, count, tag: tag.to_be_bytes() })
    }
}

const fn place(number: u64) -> usize {
    (number % SPAN as u64) as usize
}

impl fmt::Debug for BitSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BitSealer")
            .field("bytes", &self.table.bytes())
            .field("next", &self.next)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}
