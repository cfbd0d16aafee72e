//! The sending side of schemes with a tag in every record.

use crate::prf::{CLOSING_BLOCK, ClosingTag, Prf, PrfState};
use crate::r2d2::board::VERIFIED_LEVEL_BITS;
#[cfg(feature = "fast")]
use crate::r2d2::delays::{DelayStages, LONGEST_DELAY};
#[cfg(not(feature = "fast"))]
use crate::r2d2::unfinished::UnfinishedTags;
use crate::sealing::{RecordKind, SealError};
use crate::table::{DependencySets, LongTag, SPAN};
use core::fmt;

#[cfg(feature = "fast")]
type Tags = DelayStages<LONGEST_DELAY>;
#[cfg(not(feature = "fast"))]
type Tags = UnfinishedTags;

#[derive(Clone)]
pub(crate) struct BitSealer {
    tags: Tags,
    next: u64,
    /// States of the last records, indexed by number modulo [`SPAN`].
    states: [PrfState; SPAN],
    /// The index in `states` of the next record.
    place: u8,
    /// Number of later records after which a record needs no closing tag, unless some are lost.
    delay: u8,
    /// The oldest and the newest data record that no closing tag covers, if there is any. Only data
    /// records of this range that are younger than `delay` records still need one.
    open: Option<(u64, u64)>,
}

impl BitSealer {
    pub(crate) const AVAILABLE: bool = true;

    /// A sealer without a scheme. All of its bytes are zero.
    pub(crate) const EMPTY: Self = Self {
        tags: Tags::EMPTY,
        next: 0,
        states: [const { PrfState::NONE }; SPAN],
        place: 0,
        delay: 0,
        open: None,
    };

    /// Makes an empty sealer ready for tags with these dependency sets.
    pub(crate) fn set_up(&mut self, sets: &DependencySets) {
        self.tags.set_up(sets);
        self.delay = sets.delay(VERIFIED_LEVEL_BITS) as u8;
    }

    /// Continues an unused sealer at another record.
    pub(crate) const fn resume_at(&mut self, next: u64) {
        self.next = next;
        self.place = place(next) as u8;
    }

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
        let bytes = self.tags.bytes();
        if tag.len() != bytes {
            return Err(SealError::TagLength);
        }
        self.next += 1;
        let long_tag = LongTag::compute(prf, &state, bytes);
        tag.copy_from_slice(&self.tags.step(number, &long_tag).to_be_bytes()[8 - bytes..]);
        let place = usize::from(self.place);
        self.states[place] = state;
        self.place = if place + 1 < SPAN { self.place + 1 } else { 0 };
        if kind == RecordKind::Data {
            let oldest = self.open_since().unwrap_or(number);
            self.open = Some((oldest, number));
        }
        Ok(())
    }

    pub(crate) const fn len_after(&self, _: usize) -> usize {
        self.tags.bytes()
    }

    pub(crate) const fn next_len(&self) -> usize {
        self.tags.bytes()
    }

    pub(crate) const fn largest_len(&self) -> usize {
        self.tags.bytes()
    }

    pub(crate) fn open_since(&self) -> Option<u64> {
        let (oldest, newest) = self.open?;
        let oldest = oldest.max(self.next.saturating_sub(self.delay.into()));
        (oldest <= newest).then_some(oldest)
    }

    pub(crate) fn close<P: Prf + ?Sized>(&mut self, prf: &P) -> Option<ClosingTag> {
        let first = self.open_since();
        let (_, last) = self.open.take()?;
        let first = first?;
        let tag = (first..=last)
            .map(|number| &self.states[place(number)])
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
            .field("bytes", &self.tags.bytes())
            .field("next", &self.next)
            .field("open", &self.open)
            .finish_non_exhaustive()
    }
}
