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
    /// States of the last records, the next one's in `place`.
    states: [PrfState; SPAN],
    /// The index in `states` of the next record.
    place: u8,
    /// Number of later records after which a record needs no closing tag, unless some are lost.
    delay: u8,
    /// How many numbers before the next one the oldest and the newest data record are that still need a
    /// closing tag: at most `delay`. Zero if there is none.
    oldest: u8,
    newest: u8,
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
        oldest: 0,
        newest: 0,
    };

    /// Makes an empty sealer ready for tags with these dependency sets.
    pub(crate) fn set_up(&mut self, sets: &DependencySets) {
        self.tags.set_up(sets);
        self.delay = sets.delay(VERIFIED_LEVEL_BITS) as u8;
    }

    /// Continues an unused sealer at another record.
    pub(crate) const fn resume_at(&mut self, next: u64) {
        self.next = next;
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
        self.tags.write_next(number, &long_tag, tag);
        let place = usize::from(self.place);
        self.states[place] = state;
        self.place = if place + 1 < SPAN { self.place + 1 } else { 0 };
        self.age();
        if kind == RecordKind::Data {
            self.newest = 1;
            self.oldest = self.oldest.max(1);
        }
        Ok(())
    }

    /// Another record was sealed.
    const fn age(&mut self) {
        if self.oldest == 0 || self.newest == self.delay {
            self.oldest = 0;
            return;
        }
        self.newest += 1;
        if self.oldest < self.delay {
            self.oldest += 1;
        }
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
        (self.oldest > 0).then(|| self.next - u64::from(self.oldest))
    }

    pub(crate) fn close<P: Prf + ?Sized>(&mut self, prf: &P) -> Option<ClosingTag> {
        let first = self.open_since()?;
        let mut tag = 0;
        for behind in self.newest..=self.oldest {
            let place = (usize::from(self.place) + SPAN - usize::from(behind)) % SPAN;
            tag ^= u128::from_ne_bytes(prf.block(&self.states[place], CLOSING_BLOCK));
        }
        let count = self.oldest - self.newest + 1;
        self.oldest = 0;
        Some(ClosingTag { first, count, tag: tag.to_ne_bytes() })
    }
}

impl fmt::Debug for BitSealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BitSealer")
            .field("bytes", &self.tags.bytes())
            .field("next", &self.next)
            .field("open_since", &self.open_since())
            .finish_non_exhaustive()
    }
}
