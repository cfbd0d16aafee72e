//! The receiving side: a [`Run`] while records arrive in order, otherwise a [`BitOpener`].

use crate::opener::{Counters, Offer, Refusal, Verdict};
use crate::prf::{ClosingTag, Prf, PrfState};
use crate::r2d2::opener::BitOpener;
use crate::r2d2::run::Run;
use crate::r2d2::table::Table;

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "no heap: the caller chooses where it lives")]
pub(crate) enum BitReceiver<const CANDIDATES: usize> {
    Run(Run),
    Any(BitOpener<CANDIDATES>),
}

impl<const CANDIDATES: usize> BitReceiver<CANDIDATES> {
    pub(crate) fn new(table: Table) -> Self {
        if Run::fits(CANDIDATES) {
            Self::Run(Run::new(table))
        } else {
            Self::Any(BitOpener::new(table))
        }
    }

    /// The opener for records in any order; a run is unfolded into it.
    fn any(&mut self) -> &mut BitOpener<CANDIDATES> {
        if let Self::Run(run) = self {
            *self = Self::Any(BitOpener::unfolded(run));
        }
        match self {
            Self::Any(opener) => opener,
            Self::Run(_) => unreachable!("a run was unfolded"),
        }
    }

    pub(crate) fn set_threshold(&mut self, bits: Option<u8>) {
        // A run delivers nothing before it is verified.
        if bits.is_some() || !matches!(self, Self::Run(_)) {
            self.any().set_threshold(bits);
        }
    }

    pub(crate) fn level(&self, number: u64) -> Option<u8> {
        match self {
            Self::Run(run) => run.level(number),
            Self::Any(opener) => opener.level(number),
        }
    }

    #[inline(never)]
    pub(crate) fn admit(&mut self, number: u64) -> Result<(), Refusal> {
        if let Self::Run(run) = self
            && let Some(admitted) = run.admit(number)
        {
            return admitted;
        }
        self.any().admit(number)
    }

    #[inline(never)]
    pub(crate) fn offer_data<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        state: PrfState,
        tag: &[u8],
        slot: u16,
    ) -> Offer {
        if let Self::Run(run) = self
            && let Some(offer) = run.offer_data(prf, number, &state, tag, slot)
        {
            return offer;
        }
        self.offer_any(prf, number, state, tag, slot)
    }

    #[inline(never)]
    fn offer_any<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        state: PrfState,
        tag: &[u8],
        slot: u16,
    ) -> Offer {
        if let Self::Any(opener) = self
            && Run::fits(CANDIDATES)
            && opener.may_fold()
            && let Some(run) = Run::fold(prf, opener)
        {
            *self = Self::Run(run);
            return self.offer_data(prf, number, state, tag, slot);
        }
        self.any().offer_data(prf, number, state, tag, slot)
    }

    pub(crate) fn evict<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        len: usize,
        len_of: &dyn Fn(u16) -> usize,
    ) -> bool {
        match self {
            // A run has no rivals and holds nothing above the next number.
            Self::Run(run) if number >= run.next => false,
            _ => self.any().evict(prf, number, len, len_of),
        }
    }

    pub(crate) const fn unresolved(&self) -> u64 {
        match self {
            Self::Run(_) => 0,
            Self::Any(opener) => opener.unresolved(),
        }
    }

    pub(crate) fn offer_verified<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        state: PrfState,
        tag: &[u8],
    ) -> Result<(), Refusal> {
        self.any().offer_verified(prf, number, state, tag)
    }

    pub(crate) fn closing<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        closing: ClosingTag,
    ) -> Result<(), Refusal> {
        self.any().closing(prf, closing)
    }

    #[inline]
    pub(crate) fn next_verdict(&mut self) -> Option<Verdict> {
        match self {
            Self::Run(run) => run.next_verdict(),
            Self::Any(opener) => opener.next_verdict(),
        }
    }

    pub(crate) fn expire_below(&mut self, number: u64) {
        self.any().expire_below(number);
    }

    #[inline]
    pub(crate) fn expected(&self) -> u64 {
        match self {
            Self::Run(run) => run.expected(),
            Self::Any(opener) => opener.expected(),
        }
    }

    pub(crate) const fn window_start(&self) -> u64 {
        match self {
            Self::Run(run) => run.window_start(),
            Self::Any(opener) => opener.window_start(),
        }
    }

    #[inline]
    pub(crate) const fn evaluations(&self) -> u64 {
        match self {
            Self::Run(run) => run.evaluations(),
            Self::Any(opener) => opener.evaluations(),
        }
    }

    pub(crate) const fn counters(&self) -> Counters {
        match self {
            Self::Run(run) => run.counters(),
            Self::Any(opener) => opener.counters(),
        }
    }
}
