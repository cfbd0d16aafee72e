//! Which rivals of a number are held, and which candidate goes where room is short.
//!
//! Junk may come before the genuine record of its number, and more of it than is held. The first
//! [`FIRST_PER_NUMBER`] of a number stay. The other places belong to the candidates of least
//! rank, an output block that serves nothing else: nobody without the key can tell which of its
//! junk has a low one, a repetition has the rank of the original, and nothing is remembered. A
//! genuine record behind k >= 4 rivals so keeps a place with a chance of 2 / (k - 1).
//!
//! Where candidates, or the bytes behind them, are too many altogether, the third and later
//! candidates of numbers that have the most of them go before any other.

use crate::candidates::{Handle, Pool};
use crate::prf::{Prf, PrfState, RANK_BLOCK, bound_block};
use crate::tuning::FIRST_PER_NUMBER;

/// A candidate that wants room.
#[derive(Clone, Copy)]
pub(crate) struct Newcomer {
    pub(crate) number: u64,
    /// Candidates of its number that are held.
    pub(crate) siblings: u8,
    /// What it takes of the room.
    pub(crate) len: usize,
}

impl<const N: usize> Pool<N> {
    /// Whether one more candidate beside these of its number would be among the first.
    pub(crate) fn has_first_place(&self, handles: &[Handle]) -> bool {
        handles.iter().filter(|&&handle| self.get(handle).first).count() < FIRST_PER_NUMBER
    }

    /// The candidate of greatest rank among those of a number, without the candidates that came
    /// first, and whether a candidate of this state and share has a lesser rank.
    #[cold]
    pub(crate) fn greatest_rank<P: Prf + ?Sized>(
        &self,
        prf: &P,
        handles: impl Iterator<Item = Handle>,
        state: &PrfState,
        share: u128,
    ) -> Option<(Handle, bool)> {
        let rank = |state: &PrfState, share: u128| {
            u128::from_be_bytes(bound_block(prf, RANK_BLOCK, state, share.to_be_bytes()))
        };
        let later = handles.filter(|&handle| !self.get(handle).first);
        let ranked = later.map(|handle| {
            let held = self.get(handle);
            (rank(&held.state, *held.share), handle)
        });
        let (greatest, handle) = ranked.max_by_key(|(rank, _)| *rank)?;
        Some((handle, rank(state, share) < greatest))
    }

    /// The candidate that goes so that another has room, and its number; `None`: none should.
    /// `count` says how many candidates a number has, `len` what the one in a slot takes.
    ///
    /// - First the longest of the third and later candidates of the number that has the most. One
    ///   that is no longer than the newcomer stays if its number would have fewer than the
    ///   newcomer's.
    /// - For one of the first two of its number, then, a candidate of the highest number beyond it.
    /// - For the first of its number, then, the longest of two, if it is longer than the newcomer.
    #[cold]
    pub(crate) fn victim(
        &self,
        new: Newcomer,
        count: impl Fn(u64) -> u8,
        len: impl Fn(u16) -> usize,
    ) -> Option<(Handle, u64)> {
        let rivals = |number| count(number) + u8::from(number == new.number);
        let open = || self.open_data().map(|(handle, c, slot)| (handle, c, len(slot)));
        let own = new.siblings + 1;
        let later = open().filter(|(_, c, len)| {
            let rivals = rivals(c.number);
            !c.first && (rivals > own || rivals == own && *len > new.len)
        });
        let victim = later
            .max_by_key(|(_, c, len)| (rivals(c.number), *len, c.number))
            .or_else(|| {
                let beyond = open().filter(|(_, c, _)| own <= 2 && c.number > new.number);
                beyond.max_by_key(|(_, c, len)| (c.number, !c.first, *len))
            })
            .or_else(|| {
                let twos =
                    open().filter(|(_, c, len)| own == 1 && rivals(c.number) > 1 && *len > new.len);
                twos.max_by_key(|(_, c, len)| (*len, c.number))
            });
        victim.map(|(handle, c, _)| (handle, c.number))
    }
}
