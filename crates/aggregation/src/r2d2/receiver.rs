//! The receiving side: an [`OrderedReceiver`] while records arrive in order, otherwise a
//! [`BitOpener`].

#[cfg(not(feature = "fast"))]
use crate::absent::Absent;
use crate::prf::{ClosingTag, Prf, PrfState};
#[cfg(feature = "fast")]
use crate::r2d2::in_order::OrderedReceiver;
use crate::r2d2::opener::BitOpener;
use crate::table::DependencySets;
use crate::threshold::Threshold;
use crate::verdict::{Counters, Offer, Refusal, Tally, Verdict};

#[cfg(feature = "fast")]
type InOrder = OrderedReceiver;
#[cfg(not(feature = "fast"))]
type InOrder = Absent;

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "no heap: the caller chooses where it lives")]
pub(crate) enum BitReceiver<const CANDIDATES: usize, const BOARD: usize> {
    Ordered(InOrder),
    General(BitOpener<CANDIDATES, BOARD>),
}

impl<const CANDIDATES: usize, const BOARD: usize> BitReceiver<CANDIDATES, BOARD> {
    pub(crate) const AVAILABLE: bool = true;

    /// Whether records in order have a receiver of their own.
    const ORDERED: bool = InOrder::fits(CANDIDATES, BOARD);

    /// A receiver without a scheme. Without the feature `fast` all of its bytes are zero.
    pub(crate) const EMPTY: Self = Self::General(BitOpener::EMPTY);

    /// Makes an empty receiver ready for tags with these dependency sets.
    pub(crate) fn set_up(&mut self, sets: &DependencySets) {
        if Self::ORDERED {
            *self = Self::Ordered(InOrder::new(sets));
        } else {
            self.general().set_up(sets);
        }
    }

    /// The opener for records in any order; an ordered receiver is converted into it.
    fn general(&mut self) -> &mut BitOpener<CANDIDATES, BOARD> {
        if let Self::Ordered(_) = self {
            self.convert();
        }
        match self {
            Self::General(opener) => opener,
            Self::Ordered(_) => unreachable!("an ordered receiver was converted"),
        }
    }

    /// A function of its own because it has both receivers on the stack.
    #[cold]
    #[inline(never)]
    fn convert(&mut self) {
        if let Self::Ordered(ordered) = self {
            *self = Self::General(ordered.to_opener());
        }
    }

    pub(crate) fn set_threshold(&mut self, threshold: Threshold) {
        // An ordered receiver delivers nothing before it is verified.
        if threshold.get().is_some() || !matches!(self, Self::Ordered(_)) {
            self.general().set_threshold(threshold);
        }
    }

    pub(crate) fn level(&self, number: u64) -> Option<u8> {
        match self {
            Self::Ordered(ordered) => ordered.level(number),
            Self::General(opener) => opener.level(number),
        }
    }

    #[inline(never)]
    pub(crate) fn admit(&mut self, number: u64) -> Result<(), Refusal> {
        if let Self::Ordered(ordered) = self
            && let Some(admitted) = ordered.try_admit(number)
        {
            return admitted;
        }
        self.general().admit(number)
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
        if let Self::Ordered(ordered) = self
            && let Some(offer) = ordered.try_offer(prf, number, &state, tag, slot)
        {
            return offer;
        }
        self.offer_general(prf, number, state, tag, slot)
    }

    #[inline(never)]
    fn offer_general<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        state: PrfState,
        tag: &[u8],
        slot: u16,
    ) -> Offer {
        if let Self::General(opener) = self
            && Self::ORDERED
            && opener.may_convert()
            && let Some(ordered) = InOrder::from_opener(opener, prf)
        {
            *self = Self::Ordered(ordered);
            return self.offer_data(prf, number, state, tag, slot);
        }
        self.general().offer_data(prf, number, state, tag, slot)
    }

    pub(crate) fn evict_with<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        len: usize,
        len_of: &dyn Fn(u16) -> usize,
    ) -> bool {
        match self {
            // An ordered receiver has no rivals and holds nothing above the next number.
            Self::Ordered(ordered) if ordered.is_ahead(number) => false,
            _ => self.general().evict(prf, number, len, len_of),
        }
    }

    pub(crate) const fn unresolved(&self) -> u64 {
        match self {
            Self::Ordered(_) => 0,
            Self::General(opener) => opener.unresolved(),
        }
    }

    pub(crate) fn offer_verified<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        state: PrfState,
        tag: &[u8],
    ) -> Result<(), Refusal> {
        self.general().offer_verified(prf, number, state, tag)
    }

    pub(crate) fn closing<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        closing: ClosingTag,
    ) -> Result<(), Refusal> {
        self.general().closing(prf, closing)
    }

    #[inline(always)]
    pub(crate) fn next_verdict(&mut self) -> Option<Verdict> {
        match self {
            Self::Ordered(ordered) => ordered.next_verdict(),
            Self::General(opener) => opener.next_verdict(),
        }
    }

    pub(crate) fn expire_below(&mut self, number: u64) {
        self.general().expire_below(number);
    }

    #[inline]
    pub(crate) fn expected(&self) -> u64 {
        match self {
            Self::Ordered(ordered) => ordered.expected(),
            Self::General(opener) => opener.expected(),
        }
    }

    /// Continues an unused receiver at another record.
    pub(crate) fn resume_at(&mut self, expected: u64) {
        self.general().resume_at(expected);
    }

    pub(crate) const fn authentic_end(&self) -> u64 {
        match self {
            Self::Ordered(ordered) => ordered.authentic_end(),
            Self::General(opener) => opener.window.authentic_end(),
        }
    }

    pub(crate) const fn window_start(&self) -> u64 {
        match self {
            Self::Ordered(ordered) => ordered.window_start(),
            Self::General(opener) => opener.window_start(),
        }
    }

    #[inline]
    pub(crate) const fn evaluations(&self) -> u64 {
        match self {
            Self::Ordered(ordered) => ordered.evaluations(),
            Self::General(opener) => opener.evaluations(),
        }
    }

    pub(crate) const fn counters_mut(&mut self) -> &mut Tally {
        match self {
            Self::Ordered(ordered) => ordered.counters_mut(),
            Self::General(opener) => opener.counters_mut(),
        }
    }

    pub(crate) const fn counters(&self) -> Counters {
        match self {
            Self::Ordered(ordered) => ordered.counters(),
            Self::General(opener) => opener.counters(),
        }
    }
}
