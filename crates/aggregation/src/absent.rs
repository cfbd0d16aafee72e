//! A side of a scheme that this build lacks.

use crate::prf::{ClosingTag, Prf, PrfState};
use crate::sealing::{RecordKind, SealError};
use crate::verdict::{Counters, Offer, Refusal, Tally, Verdict};

/// The type of a side that a build lacks. It has the methods of a side and no values, so the
/// compiler leaves out all code that needs one.
#[derive(Clone, Debug)]
pub(crate) enum Absent {}

impl Absent {
    pub(crate) const AVAILABLE: bool = false;

    /// It is never called, because the side is not [`AVAILABLE`](Self::AVAILABLE).
    pub(crate) fn new<L>(_: L) -> Self {
        unreachable!("this build lacks the side")
    }
}

/// The methods of either side.
impl Absent {
    pub(crate) fn set_up<T>(&mut self, _: T) {
        match *self {}
    }
}

/// The methods of either side once it is ready.
impl Absent {
    pub(crate) fn resume_at(&mut self, _: u64) {
        match *self {}
    }
}

/// The methods of a sending side.
impl Absent {
    pub(crate) fn seal<P: Prf + ?Sized>(
        &mut self,
        _: &P,
        _: u64,
        _: RecordKind,
        _: PrfState,
        _: &mut [u8],
    ) -> Result<(), SealError> {
        match *self {}
    }

    pub(crate) const fn len_after(&self, _: usize) -> usize {
        match *self {}
    }

    pub(crate) const fn next_len(&self) -> usize {
        match *self {}
    }

    pub(crate) const fn largest_len(&self) -> usize {
        match *self {}
    }

    pub(crate) const fn open_since(&self) -> Option<u64> {
        match *self {}
    }

    pub(crate) fn close<P: Prf + ?Sized>(&mut self, _: &P) -> Option<ClosingTag> {
        match *self {}
    }
}

/// The methods of a receiver of records in order.
impl Absent {
    pub(crate) const fn fits(_: usize, _: usize) -> bool {
        false
    }

    pub(crate) fn try_admit(&mut self, _: u64) -> Option<Result<(), Refusal>> {
        match *self {}
    }

    pub(crate) fn try_offer<P: Prf + ?Sized>(
        &mut self,
        _: &P,
        _: u64,
        _: &PrfState,
        _: &[u8],
        _: u16,
    ) -> Option<Offer> {
        match *self {}
    }

    pub(crate) const fn is_ahead(&self, _: u64) -> bool {
        match *self {}
    }

    pub(crate) const fn to_opener<T>(&self) -> T {
        match *self {}
    }

    pub(crate) fn from_opener<T, P: Prf + ?Sized>(_: &mut T, _: &P) -> Option<Self> {
        None
    }
}

/// The methods of a receiving side.
impl Absent {
    pub(crate) fn set_threshold<T>(&mut self, _: T) {
        match *self {}
    }

    pub(crate) const fn level(&self, _: u64) -> Option<u8> {
        match *self {}
    }

    pub(crate) fn admit(&mut self, _: u64) -> Result<(), Refusal> {
        match *self {}
    }

    pub(crate) fn offer_data<P: Prf + ?Sized>(
        &mut self,
        _: &P,
        _: u64,
        _: PrfState,
        _: &[u8],
        _: u16,
    ) -> Offer {
        match *self {}
    }

    pub(crate) fn evict(&mut self, _: u64, _: usize, _: &dyn Fn(u16) -> usize) -> bool {
        match *self {}
    }

    pub(crate) fn evict_with<P: Prf + ?Sized>(
        &mut self,
        _: &P,
        _: u64,
        _: usize,
        _: &dyn Fn(u16) -> usize,
    ) -> bool {
        match *self {}
    }

    pub(crate) fn offer_verified<P: Prf + ?Sized>(
        &mut self,
        _: &P,
        _: u64,
        _: PrfState,
        _: &[u8],
    ) -> Result<(), Refusal> {
        match *self {}
    }

    pub(crate) fn closing<P: Prf + ?Sized>(&mut self, _: &P, _: ClosingTag) -> Result<(), Refusal> {
        match *self {}
    }

    pub(crate) fn next_verdict(&mut self) -> Option<Verdict> {
        match *self {}
    }

    pub(crate) fn expire_below(&mut self, _: u64) {
        match *self {}
    }

    pub(crate) const fn expected(&self) -> u64 {
        match *self {}
    }

    pub(crate) const fn authentic_end(&self) -> u64 {
        match *self {}
    }

    pub(crate) const fn window_start(&self) -> u64 {
        match *self {}
    }

    pub(crate) const fn evaluations(&self) -> u64 {
        match *self {}
    }

    pub(crate) const fn unresolved(&self) -> u64 {
        match *self {}
    }

    pub(crate) const fn counters(&self) -> Counters {
        match *self {}
    }

    pub(crate) const fn counters_mut(&mut self) -> &mut Tally {
        match *self {}
    }
}

/// In the place of an ordered set (`agg/ordered_set.rs`) where the opener's pool holds all records.
#[derive(Clone)]
pub(crate) struct NoOrderedSet;

impl NoOrderedSet {
    pub(crate) const AVAILABLE: bool = false;
    pub(crate) const EMPTY: Self = Self;

    pub(crate) const fn is_idle(&self) -> bool {
        true
    }

    pub(crate) const fn continues(&self, _: u64) -> bool {
        false
    }

    pub(crate) const fn holds(&self, _: u64) -> bool {
        false
    }

    pub(crate) const fn first(&self) -> u64 {
        0
    }

    pub(crate) const fn touch(&mut self, _: u64) {}

    pub(crate) const fn is_untouched(&self, _: u64) -> bool {
        false
    }

    pub(crate) const fn begin(&mut self, _: u64) {}

    pub(crate) const fn count(&self) -> usize {
        0
    }

    pub(crate) const fn closes(&self, _: u128) -> bool {
        false
    }

    pub(crate) fn push(&mut self, _: PrfState, _: u128, _: u16) {}

    pub(crate) const fn verify(&mut self) {}

    pub(crate) const fn next_verdict(&mut self) -> Option<Verdict> {
        None
    }

    pub(crate) fn move_out(&mut self, _: impl FnMut(u64, PrfState, u128, u16, bool)) {}
}

/// In the place of a candidate that was removed at once to make room (`candidates.rs`), where a number
/// has only one candidate and none makes room for another one.
#[derive(Clone, Copy)]
pub(crate) enum NoEvicted {}

impl NoEvicted {
    /// It is never called, because nothing makes room.
    pub(crate) fn new(_: u64, _: u16) -> Self {
        unreachable!("a number has one candidate")
    }

    pub(crate) const fn take(_: &mut Option<Self>) -> Option<Verdict> {
        None
    }
}

/// In the place of the set of numbers whose data was delivered early, where none is.
#[derive(Clone, Copy)]
pub(crate) struct NoBits;

impl NoBits {
    pub(crate) const EMPTY: Self = Self;

    pub(crate) const fn get(&self, _: u64) -> bool {
        false
    }

    pub(crate) const fn set(&mut self, _: u64) {}

    pub(crate) const fn clear(&mut self, _: u64) {}

    pub(crate) const fn is_empty(&self) -> bool {
        true
    }
}
