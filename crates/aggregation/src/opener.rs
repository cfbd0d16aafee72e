//! The receiving side: an [`Opener`] checks tags and decides which records are genuine.

#[cfg(not(all(feature = "agg-receiver", feature = "r2d2-receiver")))]
use crate::absent::Absent;
#[cfg(feature = "agg-receiver")]
use crate::agg::opener::AggOpener;
use crate::definition::Sharing;
use crate::on_stack::OnStack;
use crate::prf::{ClosingTag, Prf, PrfState};
#[cfg(feature = "r2d2-receiver")]
use crate::r2d2::receiver::BitReceiver;
use crate::scheme::{RulerOrder, Scheme};
use crate::threshold::Threshold;
use crate::tuning;
use crate::verdict::Tally;
pub use crate::verdict::{Counters, DropReason, Offer, Outcome, Refusal, Verdict};
use core::ops::DerefMut;

#[cfg(feature = "agg-receiver")]
type AggReceiver<const CANDIDATES: usize, const WINDOW: usize> = AggOpener<CANDIDATES, WINDOW>;
#[cfg(not(feature = "agg-receiver"))]
type AggReceiver<const CANDIDATES: usize, const WINDOW: usize> = Absent;

#[cfg(feature = "r2d2-receiver")]
type BitSideReceiver<const CANDIDATES: usize, const BOARD: usize> = BitReceiver<CANDIDATES, BOARD>;
#[cfg(not(feature = "r2d2-receiver"))]
type BitSideReceiver<const CANDIDATES: usize, const BOARD: usize> = Absent;

impl Scheme {
    /// Whether this build can receive under the scheme. Plain tags need nothing of this crate.
    pub const fn can_receive(self) -> bool {
        match self.sharing() {
            _ if self.lacks_check_bytes() => false,
            None => true,
            Some(Sharing::Sets) => {
                AggReceiver::<{ tuning::CANDIDATES }, { tuning::WINDOW }>::AVAILABLE
            }
            Some(Sharing::Bits) => {
                BitSideReceiver::<{ tuning::CANDIDATES }, { tuning::BOARD }>::AVAILABLE
            }
        }
    }
}

/// Checks the tags of one direction of an epoch and decides which records are genuine.
///
/// The caller holds the contents of records that are not decided yet, and names each by a slot
/// number of its choice. For every arriving record of the epoch it calls, in this order,
///
/// 1. [`admit`](Self::admit), before decrypting or evaluating anything;
/// 2. [`offer_data`](Self::offer_data), or, for a control record whose own full tag
///    it has checked, [`offer_verified`](Self::offer_verified), and, when that record
///    brings a closing tag, [`closing`](Self::closing);
/// 3. [`next_verdict`](Self::next_verdict) until it returns `None`. The slot of every
///    [`Held`](Offer::Held) record is returned with a final verdict exactly once, if the caller
///    [expires](Self::expire_below) what is left in the end.
///
/// Guarantees: each number is verified at most once. Verified records of one batch are returned in
/// ascending order (batches may overlap). A verified record was sealed by the peer, except with a
/// probability of 2^-96 for each check under injection and 2^-128 without. Over the 2^33
/// evaluations that a key's limits allow, an attacker has a chance of about 2^-67.
///
/// Memory is fixed and follows from the parameters: `CANDIDATES` is the number of records that are
/// held (at most 255), `WINDOW` the number of record numbers of which it keeps track under Agg
/// ([`tuning::LEAST_WINDOW`] to 256), and `BOARD` the same under R2D2 ([`tuning::LEAST_BOARD`] to
/// 256). By default it is 19 KB. Without the feature `fast`, `Opener<32, 32>` takes 0.9 KB where only
/// Agg is received (0.6 KB with 16 candidates, which suffice while no record is lost), and R2D2 takes
/// 4.9 KB with 64 candidates and a board of 112, or less with the feature `alloc`. The features `rivals` and `provisional` add 0.1 to
/// 0.6 KB. The smaller a window, the fewer records may be lost in a row before those that follow are
/// refused as too far ahead.
///
/// When candidates run out, one of the number with the most candidates is evicted, or else one of the
/// highest number.
#[derive(Clone, Debug)]
pub struct Opener<
    const CANDIDATES: usize = { tuning::CANDIDATES },
    const WINDOW: usize = { tuning::WINDOW },
    const BOARD: usize = { tuning::BOARD },
> {
    inner: Inner<CANDIDATES, WINDOW, BOARD>,
    threshold: Threshold,
}

#[derive(Clone, Debug)]
#[allow(clippy::large_enum_variant, reason = "no heap: the caller chooses where it lives")]
enum Inner<const CANDIDATES: usize, const WINDOW: usize, const BOARD: usize> {
    Agg(AggReceiver<CANDIDATES, WINDOW>),
    Bits(BitSideReceiver<CANDIDATES, BOARD>),
}

impl<const CANDIDATES: usize, const WINDOW: usize, const BOARD: usize>
    Opener<CANDIDATES, WINDOW, BOARD>
{
    /// An opener that expects record 0; `None` for [`Scheme::Plain`], which shares no tags, and for
    /// a scheme under which this build [cannot receive](Scheme::can_receive).
    ///
    /// It is on the stack first: [`new_in`](Self::new_in) makes one where it stays.
    pub fn new(scheme: Scheme, order: &RulerOrder) -> Option<Self> {
        Self::new_in(scheme, order, OnStack).map(|OnStack(opener)| opener)
    }

    /// As [`new`](Self::new), in memory that `place` provides: with `Box::new`, on the heap.
    ///
    /// `place` is given an opener that is not ready yet. It is a constant, so the compiler writes it
    /// into the memory without a copy on the stack. In a build that receives under one kind of
    /// scheme, and without the feature `fast`, all of its bytes are zero and take no flash.
    #[inline(always)]
    #[cfg_attr(
        not(any(feature = "agg-receiver", feature = "r2d2-receiver")),
        allow(unused_variables, unused_mut)
    )]
    pub fn new_in<B: DerefMut<Target = Self>>(
        scheme: Scheme,
        order: &RulerOrder,
        place: impl Fn(Self) -> B,
    ) -> Option<B> {
        if !scheme.can_receive() {
            return None;
        }
        let mut opener: B = match scheme.sharing()? {
            #[cfg(feature = "agg-receiver")]
            Sharing::Sets => place(Self::SETS),
            #[cfg(feature = "r2d2-receiver")]
            Sharing::Bits => place(Self::BITS),
            #[cfg(not(all(feature = "agg-receiver", feature = "r2d2-receiver")))]
            _ => return None,
        };
        opener.set_up(scheme, order)?;
        Some(opener)
    }

    #[cfg(feature = "agg-receiver")]
    const SETS: Self = Self::of(Inner::Agg(AggReceiver::<CANDIDATES, WINDOW>::EMPTY));
    #[cfg(feature = "r2d2-receiver")]
    const BITS: Self = Self::of(Inner::Bits(BitSideReceiver::<CANDIDATES, BOARD>::EMPTY));

    const fn of(inner: Inner<CANDIDATES, WINDOW, BOARD>) -> Self {
        Self { inner, threshold: Threshold::NONE }
    }

    /// Makes an empty opener ready for a scheme.
    #[inline(never)]
    fn set_up(&mut self, scheme: Scheme, order: &RulerOrder) -> Option<()> {
        match &mut self.inner {
            Inner::Agg(agg) => agg.set_up(scheme.set_size()?),
            Inner::Bits(bits) => bits.set_up(&scheme.dependency_sets(order)?),
        }
        Some(())
    }

    /// Sets the level in bits, 0 to 127, from which [`next_verdict`](Self::next_verdict) returns
    /// [`Outcome::Provisional`]; with 0 it does so on arrival. `None`, and any larger value,
    /// delivers data only once it is verified.
    ///
    /// After 2^(bits − 20) records were delivered provisionally and failed (below 21 bits: after
    /// the first), provisional delivery ends by itself, and [`threshold`](Self::threshold) is
    /// `None` again. A record that is never decided counts half, unless its level reached
    /// [`tuning::EXCUSED_BITS`] more than `bits`.
    ///
    /// Without the feature `provisional` it has no effect.
    pub fn set_threshold(&mut self, bits: Option<u8>) {
        if !Threshold::MAY_EXIST {
            return;
        }
        self.threshold = Threshold::new(bits.filter(|&bits| bits < 128));
        match &mut self.inner {
            Inner::Agg(agg) => agg.set_threshold(self.threshold),
            Inner::Bits(opener) => opener.set_threshold(self.threshold),
        }
    }

    /// Continues a new opener after a predecessor that has authenticated records up to `expected` − 1
    /// at most.
    ///
    /// Records before them are used, as far as they are too late. What the predecessor held counts as
    /// lost, and what it verified is not known: the caller must not deliver these records again. The
    /// peer may have gone on meanwhile, so three arrivals with numbers near each other move the window
    /// there, as in [`admit`](Self::admit), without a wait.
    pub fn resume_at(&mut self, expected: u64) {
        match &mut self.inner {
            Inner::Agg(agg) => agg.resume_at(expected),
            Inner::Bits(opener) => opener.resume_at(expected),
        }
    }

    /// The level in bits from which data is delivered before it is verified; `None` if it is not.
    pub const fn threshold(&self) -> Option<u8> {
        self.threshold.get()
    }

    /// The security level in bits, 0 to 128, of the data record held or verified under this number.
    /// `None` if there is none, or if checks speak against all candidates.
    pub fn level(&self, number: u64) -> Option<u8> {
        match &self.inner {
            Inner::Agg(agg) => agg.level(number),
            Inner::Bits(opener) => opener.level(number),
        }
    }

    /// Checks whether a record of this number could still be of use. It counts the arrival, so it
    /// is called once for each datagram.
    ///
    /// Numbers too far ahead are refused, because an unauthenticated number must not push genuine
    /// records out of the window. But when [`tuning::QUIET_ARRIVALS`] arrivals brought no
    /// verification, three of them within [`tuning::NEAR`] numbers move the window there. If a
    /// forger caused the move, genuine arrivals move the window back. Used numbers stay used
    /// wherever the window moves.
    ///
    /// # Errors
    /// [`Refusal::Used`]: the caller drops the record unread. [`Refusal::Ahead`] and
    /// [`Refusal::Behind`]: the record is of no use if it is data. A control record whose own full
    /// tag is correct may still be offered, and then moves the window.
    #[inline]
    pub fn admit(&mut self, number: u64) -> Result<(), Refusal> {
        match &mut self.inner {
            Inner::Agg(agg) => agg.admit(number),
            Inner::Bits(opener) => opener.admit(number),
        }
    }

    /// Takes a data record: its number, its state under the pseudorandom function, the aggregate it
    /// carried, and the caller's slot for its content.
    #[inline]
    pub fn offer_data<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        state: PrfState,
        tag: &[u8],
        slot: u16,
    ) -> Offer {
        let offer = match &mut self.inner {
            Inner::Agg(agg) => agg.offer_data(prf, number, state, tag, slot),
            Inner::Bits(opener) => opener.offer_data(prf, number, state, tag, slot),
        };
        if let Offer::Refused(_) = offer {
            self.count_refused();
        }
        offer
    }

    /// Gives up a candidate so that a record of `number` whose content takes `len` bytes has room
    /// in the caller's memory. `len_of` returns the bytes that the content in a slot takes. Returns
    /// whether a candidate was given up: its verdict, [`DropReason::Evicted`], follows, and further
    /// calls may be needed to free enough memory.
    ///
    /// The longest rival of the number with the most candidates is evicted first. The first two
    /// candidates of a number are never evicted for a third one.
    #[cold]
    pub fn evict<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        len: usize,
        len_of: &dyn Fn(u16) -> usize,
    ) -> bool {
        match &mut self.inner {
            Inner::Agg(agg) => agg.evict(number, len, len_of),
            Inner::Bits(opener) => opener.evict_with(prf, number, len, len_of),
        }
    }

    /// Takes a control record whose own full tag was correct. `Ok` means that it is the
    /// first of its number and may be acted on; there will be no verdict for it.
    ///
    /// # Errors
    /// If the number was used before, which means that the record is a replay and must be dropped;
    /// or if `tag` is not as long as the aggregate that the record must carry.
    pub fn offer_verified<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        number: u64,
        state: PrfState,
        tag: &[u8],
    ) -> Result<(), Refusal> {
        match &mut self.inner {
            Inner::Agg(agg) => agg.offer_verified(prf, number, state, tag),
            Inner::Bits(opener) => opener.offer_verified(prf, number, state, tag),
        }
    }

    /// Takes a closing tag from a record that was authenticated by its own full tag. It is kept for
    /// records it covers that arrive later.
    ///
    /// # Errors
    /// [`Refusal::Range`] if no sender makes such a range; another [`Refusal`] if the range lies
    /// outside the window.
    pub fn closing<P: Prf + ?Sized>(
        &mut self,
        prf: &P,
        closing: ClosingTag,
    ) -> Result<(), Refusal> {
        match &mut self.inner {
            Inner::Agg(agg) => agg.closing(prf, closing),
            Inner::Bits(opener) => opener.closing(prf, closing),
        }
    }

    /// The next decision on a held record: verified ones first, then all others, each in ascending
    /// order.
    #[inline(always)]
    pub fn next_verdict(&mut self) -> Option<Verdict> {
        let verdict = match &mut self.inner {
            Inner::Agg(agg) => agg.next_verdict(),
            Inner::Bits(opener) => opener.next_verdict(),
        };
        if let Some(Verdict { outcome: Outcome::Dropped(reason), .. }) = verdict {
            self.count_dropped(reason);
        }
        verdict
    }

    #[cold]
    #[inline(never)]
    const fn count_refused(&mut self) {
        self.counters_mut().records_refused.add(1);
    }

    /// Ends provisional delivery once too many of the records delivered have failed.
    #[cold]
    #[inline(never)]
    fn count_dropped(&mut self, reason: DropReason) {
        let refuted = &mut self.counters_mut().records_refuted;
        refuted.add((reason == DropReason::Failed).into());
        let refuted = refuted.get();
        let Some(bits) = self.threshold.get() else { return };
        let unresolved = match &self.inner {
            Inner::Agg(agg) => agg.unresolved(),
            Inner::Bits(opener) => opener.unresolved(),
        };
        let free = u32::from(bits).saturating_sub(tuning::PROVISIONAL_FREE_BITS);
        if refuted.saturating_mul(2).saturating_add(unresolved) >= 2 << free.min(62) {
            self.set_threshold(None);
        }
    }

    /// Gives up every set that lies wholly below `number`, and with `u64::MAX` all sets. Their
    /// numbers count as used from then on.
    pub fn expire_below(&mut self, number: u64) {
        match &mut self.inner {
            Inner::Agg(agg) => agg.expire_below(number),
            Inner::Bits(opener) => opener.expire_below(number),
        }
    }

    /// The number around which truncated numbers are reconstructed: the highest authenticated
    /// number plus 1, or the number to which the window was moved without authentication, plus 1.
    #[inline]
    pub fn expected(&self) -> u64 {
        match &self.inner {
            Inner::Agg(agg) => agg.expected(),
            Inner::Bits(opener) => opener.expected(),
        }
    }

    /// The highest authenticated number plus 1: [`expected`](Self::expected) where the window was not
    /// moved without authentication.
    pub fn authentic_end(&self) -> u64 {
        match &self.inner {
            Inner::Agg(agg) => agg.authentic_end(),
            Inner::Bits(opener) => opener.authentic_end(),
        }
    }

    /// The first number of the window. No verdict on a lower number will follow, unless the window
    /// moves back.
    pub fn window_start(&self) -> u64 {
        match &self.inner {
            Inner::Agg(agg) => agg.window_start(),
            Inner::Bits(opener) => opener.window_start(),
        }
    }

    /// The value of [`Counters::evaluations`].
    #[inline]
    pub fn evaluations(&self) -> u64 {
        match &self.inner {
            Inner::Agg(agg) => agg.evaluations(),
            Inner::Bits(opener) => opener.evaluations(),
        }
    }

    /// What has happened so far in this direction of the epoch.
    pub fn counters(&self) -> Counters {
        match &self.inner {
            Inner::Agg(agg) => agg.counters(),
            Inner::Bits(opener) => opener.counters(),
        }
    }

    const fn counters_mut(&mut self) -> &mut Tally {
        match &mut self.inner {
            Inner::Agg(agg) => agg.counters_mut(),
            Inner::Bits(opener) => opener.counters_mut(),
        }
    }
}
