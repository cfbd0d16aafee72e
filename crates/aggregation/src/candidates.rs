//! Received records that are not decided yet, or whose share is still needed.

use crate::opener::{DropReason, Outcome, Verdict};
use crate::prf::PrfState;
use zeroize::Zeroizing;

/// Words with a bit for each place.
const WORDS: usize = 4;

/// Place of a candidate in the pool.
pub(crate) type Handle = u8;

#[derive(Clone)]
pub(crate) struct Candidate {
    pub(crate) number: u64,
    pub(crate) state: PrfState,
    /// Agg: block 0 ⊕ the aggregate carried, so that the shares of a set's genuine records sum
    /// to 0. Schemes with a tag in every record: that tag.
    pub(crate) share: Zeroizing<u128>,
    /// The caller's slot; a control record has none.
    slot: Option<u16>,
    /// What the caller has not been told yet.
    untold: Option<Outcome>,
    /// The caller has been told of it before it was decided.
    early: bool,
    /// Came among the first of its number.
    pub(crate) first: bool,
    /// Not decided yet, or verified in a set that still needs the share.
    needed: bool,
    /// Not decided yet.
    pub(crate) open: bool,
}

impl Candidate {
    /// The caller's slot; a control record has none.
    pub(crate) const fn slot(&self) -> Option<u16> {
        self.slot
    }
}

/// A fixed number of candidates.
#[derive(Clone)]
pub(crate) struct Pool<const N: usize> {
    places: [Option<Candidate>; N],
    /// Places that are free, one bit each.
    free: [u64; WORDS],
    /// How many are not.
    used: usize,
    /// Candidates with an untold outcome, in the order of telling: verified ones first,
    /// then ascending. Only the first `untold` are in use.
    order: [Handle; N],
    untold: usize,
    /// Candidates that the caller was told of before they were decided, and that never were.
    unresolved: u64,
}

impl<const N: usize> Pool<N> {
    pub(crate) fn new() -> Self {
        const { assert!(N > 0 && N <= Handle::MAX as usize) };
        let mut free = [0; WORDS];
        for place in 0..N {
            free[place / 64] |= 1 << (place % 64);
        }
        Self { places: [const { None }; N], free, used: 0, order: [0; N], untold: 0, unresolved: 0 }
    }

    /// Adds an undecided candidate, if there is room. `first`: it is among the first of its number.
    pub(crate) fn add(
        &mut self,
        number: u64,
        state: PrfState,
        share: u128,
        slot: Option<u16>,
        first: bool,
    ) -> Option<Handle> {
        let word = self.free.iter().position(|word| *word != 0)?;
        let place = word * 64 + self.free[word].trailing_zeros() as usize;
        self.free[word] &= self.free[word] - 1;
        self.used += 1;
        self.places[place] = Some(Candidate {
            number,
            state,
            share: Zeroizing::new(share),
            slot,
            untold: None,
            early: false,
            first,
            needed: true,
            open: true,
        });
        Some(place as Handle)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.used == N
    }

    /// Places that are free.
    pub(crate) const fn room(&self) -> usize {
        N - self.used
    }

    /// Candidates held, verified ones whose share is needed included.
    pub(crate) const fn used(&self) -> usize {
        self.used
    }

    /// Whether the caller has been told everything.
    pub(crate) const fn is_told(&self) -> bool {
        self.untold == 0
    }

    /// Empties a place.
    fn vacate(&mut self, handle: Handle) -> Option<Candidate> {
        let place = usize::from(handle);
        let candidate = self.places[place].take()?;
        self.free[place / 64] |= 1 << (place % 64);
        self.used -= 1;
        Some(candidate)
    }

    pub(crate) fn get(&self, handle: Handle) -> &Candidate {
        self.places[usize::from(handle)].as_ref().expect("numbers name live candidates")
    }

    fn get_mut(&mut self, handle: Handle) -> &mut Candidate {
        self.places[usize::from(handle)].as_mut().expect("numbers name live candidates")
    }

    /// The undecided data candidates, each with its slot.
    pub(crate) fn open_data(&self) -> impl Iterator<Item = (Handle, &Candidate, u16)> {
        (0..).zip(&self.places).filter_map(|(handle, place)| {
            let candidate = place.as_ref().filter(|candidate| candidate.open)?;
            Some((handle, candidate, candidate.slot?))
        })
    }

    /// Candidates that were delivered before they were decided, and that never were.
    pub(crate) const fn unresolved(&self) -> u64 {
        self.unresolved
    }

    /// Notes that a candidate has enough bits in its favour: its expiry without a verdict is no sign
    /// of forgery.
    pub(crate) fn excuse(&mut self, handle: Handle) {
        self.get_mut(handle).early = false;
    }

    /// Decides a candidate as genuine; its share stays. Returns whether it was
    /// undecided data until now.
    pub(crate) fn verify(&mut self, handle: Handle) -> bool {
        let candidate = self.get_mut(handle);
        let news = candidate.open && candidate.slot.is_some();
        candidate.open = false;
        if news {
            self.tell(handle, Outcome::Verified);
        }
        news
    }

    /// Gives up an undecided candidate, or lets go of a verified one's share.
    /// Returns whether undecided data was given up. What was told of early and is not merely
    /// late has failed.
    pub(crate) fn release(&mut self, handle: Handle, reason: DropReason) -> bool {
        let candidate = self.get_mut(handle);
        let reason = match reason {
            DropReason::Rival | DropReason::Failed if candidate.early => DropReason::Failed,
            DropReason::Failed => DropReason::Rival,
            reason => reason,
        };
        let news = candidate.open && candidate.slot.is_some();
        candidate.open = false;
        candidate.needed = false;
        let unresolved = news && candidate.early && reason != DropReason::Failed;
        let told = candidate.untold.is_none();
        self.unresolved += u64::from(unresolved);
        if news {
            self.tell(handle, Outcome::Dropped(reason));
        } else if told {
            self.vacate(handle);
        }
        news
    }

    /// Says that an undecided candidate has reached `bits`.
    pub(crate) fn tell_provisional(&mut self, handle: Handle, bits: u8) {
        if self.get(handle).slot.is_some() {
            self.tell(handle, Outcome::Provisional { bits });
        }
    }

    /// Takes a candidate out without a verdict to come; returns its slot.
    pub(crate) fn remove(&mut self, handle: Handle) -> Option<u16> {
        self.forget_untold(handle);
        let candidate = self.vacate(handle)?;
        self.unresolved += u64::from(candidate.early);
        candidate.slot
    }

    /// The next untold outcome.
    #[inline]
    pub(crate) fn next_verdict(&mut self) -> Option<Verdict> {
        if self.untold == 0 { None } else { self.take_verdict() }
    }

    fn take_verdict(&mut self) -> Option<Verdict> {
        let handle = *self.order[..self.untold].first()?;
        self.order[..self.untold].rotate_left(1);
        self.untold -= 1;
        let candidate = self.get_mut(handle);
        let (number, slot) = (candidate.number, candidate.slot?);
        let outcome = candidate.untold.take()?;
        candidate.early |= matches!(outcome, Outcome::Provisional { .. });
        if !candidate.needed {
            self.vacate(handle);
        }
        Some(Verdict { slot, number, outcome })
    }

    /// Queues an outcome. Outcomes come nearly in order, so the search is short.
    fn tell(&mut self, handle: Handle, outcome: Outcome) {
        self.forget_untold(handle);
        self.get_mut(handle).untold = Some(outcome);
        let key =
            |candidate: &Candidate| (candidate.untold != Some(Outcome::Verified), candidate.number);
        let new = key(self.get(handle));
        let mut at = self.untold;
        while at > 0 && key(self.get(self.order[at - 1])) > new {
            at -= 1;
        }
        self.order[at..=self.untold].rotate_right(1);
        self.order[at] = handle;
        self.untold += 1;
    }

    /// Takes back an outcome that was not told.
    fn forget_untold(&mut self, handle: Handle) {
        if self.get_mut(handle).untold.take().is_some()
            && let Some(at) = self.order[..self.untold].iter().position(|&told| told == handle)
        {
            self.order[at..self.untold].rotate_left(1);
            self.untold -= 1;
        }
    }
}
