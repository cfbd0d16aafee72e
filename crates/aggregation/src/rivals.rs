//! Which rivals of a number are held, and which candidate is evicted when memory is short.
//!
//! Junk may arrive before the genuine record of its number, and there may be more of it than is
//! held. The first [`FIRST_PER_NUMBER`] candidates of a number remain. The other places belong to
//! the candidates of least rank. The rank is an output block that is used for nothing else: without
//! the key nobody can tell which of its junk has a low rank, a repetition has the rank of the
//! original, and the receiver stores nothing for it. A genuine record behind k >= 4 rivals
//! therefore keeps a place with a probability of 2 / (k - 1).
//!
//! If there are too many candidates in total, or their contents take too many bytes, the third and
//! later candidates of the numbers with the most candidates are evicted before any others.

use crate::candidates::{Candidate, Handle, Pool};
use crate::prf::{Prf, PrfState, RANK_BLOCK, bound_block};
use crate::tuning::{FIRST_PER_NUMBER, HAS_RIVALS};

/// A new candidate that needs room.
#[derive(Clone, Copy)]
pub(crate) struct Newcomer {
    pub(crate) number: u64,
    /// Number of candidates of its number that are already held.
    pub(crate) siblings: u8,
    /// The bytes of the caller's memory that it needs.
    pub(crate) len: usize,
}

impl<const N: usize, const SHARE: usize> Pool<N, SHARE> {
    /// Whether one more candidate, besides those in `handles`, would be among the first of its
    /// number.
    pub(crate) fn has_first_place(&self, handles: &[Handle]) -> bool {
        !HAS_RIVALS
            || handles.iter().filter(|&&handle| self.get(handle).is_first()).count()
                < FIRST_PER_NUMBER
    }

    /// The candidate of greatest rank among `handles`, the candidates of a number, without those
    /// that arrived first; and whether a candidate with this state and share has a lesser rank. Where
    /// a number has one candidate, that one.
    #[cold]
    pub(crate) fn greatest_rank<P: Prf + ?Sized>(
        &self,
        prf: &P,
        handles: impl Iterator<Item = Handle>,
        share_of: impl Fn(Handle) -> u128,
        state: &PrfState,
        share: u128,
    ) -> Option<(Handle, bool)> {
        if !HAS_RIVALS {
            let mut handles = handles;
            return handles.next().map(|handle| (handle, false));
        }
        let rank = |state: &PrfState, share: u128| {
            u128::from_be_bytes(bound_block(prf, RANK_BLOCK, state, share.to_be_bytes()))
        };
        let later = handles.filter(|&handle| !self.get(handle).is_first());
        let ranked = later.map(|handle| (rank(&self.get(handle).state, share_of(handle)), handle));
        let (greatest, handle) = ranked.max_by_key(|(rank, _)| *rank)?;
        Some((handle, rank(state, share) < greatest))
    }

    /// The candidate that is evicted to make room for another one, and its number; `None` if none
    /// should be. The window begins at `base`. `count` returns the number of candidates that a number
    /// has, `len` the bytes that the record in a slot takes.
    ///
    /// - First choice: the longest of the third and later candidates of the number that has the
    ///   most candidates. A candidate no longer than the newcomer stays if its number would have
    ///   fewer candidates than the newcomer's.
    /// - Otherwise, if the newcomer is one of the first two of its number: a candidate of the
    ///   highest number above the newcomer's.
    /// - Otherwise, if the newcomer is the first of its number: the longest candidate of a number
    ///   with at least two, if it is longer than the newcomer.
    #[cold]
    pub(crate) fn victim(
        &self,
        new: Newcomer,
        base: u64,
        count: impl Fn(u64) -> u8,
        len: &dyn Fn(u16) -> usize,
    ) -> Option<(Handle, u64)> {
        let own = new.siblings + 1;
        // One loop for all choices: the first number says which choice a candidate belongs to.
        let rank = |candidate: &Candidate<SHARE>, len: usize| {
            let (number, len) = (candidate.number(base), len as u64);
            let rivals = count(number) + u8::from(number == new.number);
            let longer = len > new.len as u64;
            if !candidate.is_first() && (rivals > own || rivals == own && longer) {
                Some((3, u64::from(rivals) << 32 | len, number))
            } else if own <= 2 && number > new.number {
                Some((2, number, u64::from(!candidate.is_first()) << 32 | len))
            } else if own == 1 && rivals > 1 && longer {
                Some((1, len, number))
            } else {
                None
            }
        };
        let ranked = self.undecided_data().filter_map(|(handle, candidate, slot)| {
            let rank = rank(candidate, len(slot))?;
            Some((rank, (handle, candidate.number(base))))
        });
        ranked.max_by_key(|(rank, _)| *rank).map(|(_, victim)| victim)
    }
}
