//! The receiving side.

use crate::agg::opener::AggOpener;
use crate::definition::Layout;
use crate::prf::{ClosingTag, Prf, PrfState};
use crate::r2d2::receiver::BitReceiver;
use crate::scheme::{Order, Scheme};
use crate::tuning;
use core::fmt;

/// Checks the tags of one direction of an epoch and says which records are genuine.
///
/// The caller holds the bodies of records under way and names each by a slot of its
/// choice. For every arriving record of the epoch it calls, in this order,
///
/// 1. [`admit`](Self::admit), before decrypting or evaluating anything;
/// 2. [`offer_data`](Self::offer_data), or, for a control record whose own full tag
///    it has checked, [`offer_verified`](Self::offer_verified), and, when that record
///    brings a closing tag, [`closing`](Self::closing);
/// 3. [`next_verdict`](Self::next_verdict) until it is empty. Every slot of a
///    [`Held`](Offer::Held) record comes back exactly once.
///
/// Guarantees: each number is verified at most once; verified records of one batch
/// come in ascending order (batches may overlap); what is verified was sealed, but
/// for a chance of 2^-96 a check under injection and 2^-128 without. Over the 2^33
/// evaluations that a key's limits allow an attacker comes to about 2^-67.
///
/// Memory is fixed: 13 KiB and 66 bytes for each of `CANDIDATES`, at most 255, so 25 KiB as it
/// stands. When candidates run out, the one with the highest number goes.
#[derive(Clone, Debug)]
pub struct Opener<const CANDIDATES: usize = { tuning::CANDIDATES }> {
    inner: Inner<CANDIDATES>,
    /// Bits at which data is delivered, if before it is verified.
    threshold: Option<u8>,
    /// Records that were delivered so and failed.
    refuted: u64,
    /// Data records refused on arrival.
    refused: u64,
}

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "no heap: the caller chooses where it lives")]
enum Inner<const CANDIDATES: usize> {
    Agg(AggOpener<CANDIDATES>),
    Bits(BitReceiver<CANDIDATES>),
}

impl<const CANDIDATES: usize> Opener<CANDIDATES> {
    /// An opener at record 0; `None` for [`Scheme::Plain`], which shares no tags.
    pub fn new(scheme: Scheme, order: &Order) -> Option<Self> {
        let inner = match scheme.layout(order)? {
            Layout::Sets(n) => Inner::Agg(AggOpener::new(n)),
            Layout::Bits(table) => Inner::Bits(BitReceiver::new(table)),
        };
        Some(Self { inner, threshold: None, refuted: 0, refused: 0 })
    }

    /// Gives verdicts of [`Outcome::Provisional`] from `bits` on, 0 to 127: with 0 on arrival.
    /// Without, data waits until it is verified.
    ///
    /// After 2^(bits − 20) records that were delivered so and failed (below 21 bits: the first)
    /// this ends by itself, and [`threshold`](Self::threshold) is `None` again. One that is never
    /// decided counts half, unless [`tuning::EXCUSED_BITS`] more than `bits` spoke for it.
    pub fn set_threshold(&mut self, bits: Option<u8>) {
        self.threshold = bits.filter(|&bits| bits < 128);
        match &mut self.inner {
            Inner::Agg(agg) => agg.set_threshold(self.threshold),
            Inner::Bits(opener) => opener.set_threshold(self.threshold),
        }
    }

    /// The level at which data is delivered before it is verified.
    pub const fn threshold(&self) -> Option<u8> {
        self.threshold
    }

    /// The security level in bits, 0 to 128, of the data record held under this number, or of
    /// the one verified; `None` if there is none, or none that checks allow.
    pub fn level(&self, number: u64) -> Option<u8> {
        match &self.inner {
            Inner::Agg(agg) => agg.level(number),
            Inner::Bits(opener) => opener.level(number),
        }
    }

    /// Whether a record of this number could still be of use. Counts the arrival,
    /// so it is called once for each datagram.
    ///
    /// Numbers too far ahead are refused, because an unauthenticated one must not
    /// push genuine records out. But when [`tuning::QUIET_ARRIVALS`] arrivals brought
    /// no verification, three of them within [`tuning::NEAR`] numbers move the window
    /// there; should that have been a forger's doing, genuine arrivals move it back.
    /// Numbers once used stay used whatever moves.
    ///
    /// # Errors
    /// [`Refusal::Used`]: drop the record unread. [`Refusal::Ahead`] and
    /// [`Refusal::Behind`]: of no use if it is data; a control record whose own full tag
    /// is correct may still be offered and takes the window along.
    #[inline]
    pub fn admit(&mut self, number: u64) -> Result<(), Refusal> {
        match &mut self.inner {
            Inner::Agg(agg) => agg.admit(number),
            Inner::Bits(opener) => opener.admit(number),
        }
    }

    /// Takes a data record: its number, its state under the pseudorandom function, the
    /// aggregate it carried, and the caller's slot for its body.
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
            self.refused += 1;
        }
        offer
    }

    /// Gives up a candidate so that a record of `number` whose body takes `len` bytes has room in the
    /// caller's memory; `len_of` says what the body in a slot takes. Returns whether one was: its
    /// verdict, [`DropReason::Evicted`], is to come, and there may be need for more.
    ///
    /// The longest rival of the number with the most of them goes first. The first candidates of a
    /// number never go for a third one.
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
            Inner::Bits(opener) => opener.evict(prf, number, len, len_of),
        }
    }

    /// Takes a control record whose own full tag was correct. `Ok` means that it is the
    /// first of its number and may be acted on; there will be no verdict for it.
    ///
    /// # Errors
    /// When the number was used before (a replay: drop it), or when `tag` is not as long
    /// as the aggregate the record must carry.
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

    /// Takes a closing tag from a record that was authenticated by its own full tag.
    /// It waits for records it covers that come later.
    ///
    /// # Errors
    /// When no sender makes such a range, or when it lies outside the window.
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

    /// The next decision on a held record: verified ones first, each kind ascending.
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

    /// Ends delivery before verification once too much of what was delivered has failed.
    #[cold]
    #[inline(never)]
    fn count_dropped(&mut self, reason: DropReason) {
        self.refuted += u64::from(reason == DropReason::Failed);
        let Some(bits) = self.threshold else { return };
        let unresolved = match &self.inner {
            Inner::Agg(agg) => agg.unresolved(),
            Inner::Bits(opener) => opener.unresolved(),
        };
        let free = u32::from(bits).saturating_sub(tuning::PROVISIONAL_FREE_BITS);
        if self.refuted.saturating_mul(2).saturating_add(unresolved) >= 2 << free.min(62) {
            self.set_threshold(None);
        }
    }

    /// Gives up every set that lies wholly below `number`, and with
    /// `u64::MAX` all of them. For good: their numbers count as used.
    pub fn expire_below(&mut self, number: u64) {
        match &mut self.inner {
            Inner::Agg(agg) => agg.expire_below(number),
            Inner::Bits(opener) => opener.expire_below(number),
        }
    }

    /// The number around which truncated numbers are reconstructed: one more than the
    /// highest authenticated, or where the window was moved without authentication.
    #[inline]
    pub fn expected(&self) -> u64 {
        match &self.inner {
            Inner::Agg(agg) => agg.expected(),
            Inner::Bits(opener) => opener.expected(),
        }
    }

    /// The first number that the window holds: no verdict on a lower one is to come, unless the
    /// window moves back.
    pub fn window_start(&self) -> u64 {
        match &self.inner {
            Inner::Agg(agg) => agg.window_start(),
            Inner::Bits(opener) => opener.window_start(),
        }
    }

    /// As [`Counters::evaluations`].
    #[inline]
    pub fn evaluations(&self) -> u64 {
        match &self.inner {
            Inner::Agg(agg) => agg.evaluations(),
            Inner::Bits(opener) => opener.evaluations(),
        }
    }

    /// What has happened so far.
    pub fn counters(&self) -> Counters {
        let counters = match &self.inner {
            Inner::Agg(agg) => agg.counters(),
            Inner::Bits(opener) => opener.counters(),
        };
        Counters { records_refuted: self.refuted, records_refused: self.refused, ..counters }
    }
}

/// What became of an offered data record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It is under way, or decided already: a verdict for its slot will come.
    Held,
    /// The same record is under way; the slot is free again.
    Duplicate,
    /// It is of no use; the slot is free again.
    Refused(Refusal),
}

/// Why a record or a closing tag was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// Its number was verified or has expired.
    Used,
    /// Below a window that moved without authentication.
    Behind,
    /// Beyond the window, or no record number.
    Ahead,
    /// As many rivals of its number are held as may be.
    TooManyCandidates,
    /// As many rivals of its number were evaluated as may be.
    TooManyEvaluations,
    /// No room for another candidate.
    Memory,
    /// The aggregate has another length than its number asks for.
    TagLength,
    /// A closing tag over a range that no sender makes.
    Range,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Used => "record number already used",
            Self::Behind => "record number below the window",
            Self::Ahead => "record number beyond the window",
            Self::TooManyCandidates => "too many candidates held for this number",
            Self::TooManyEvaluations => "too many candidates evaluated for this number",
            Self::Memory => "no room for another candidate",
            Self::TagLength => "aggregate of the wrong length",
            Self::Range => "closing tag over an impossible range",
        })
    }
}

impl core::error::Error for Refusal {}

/// A decision on a held record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The caller's slot of the body.
    pub slot: u16,
    /// The record's number.
    pub number: u64,
    /// What is decided.
    pub outcome: Outcome,
}

/// Decided outcomes of a held record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Not decided: this many bits speak for it, fewer than make it verified. Comes at most once,
    /// where a threshold was set, and another verdict follows.
    Provisional {
        /// Its security level in bits, 0 to 127.
        bits: u8,
    },
    /// Genuine.
    Verified,
    /// Forged, or never to be known.
    Dropped(DropReason),
}

/// Why a held record was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropReason {
    /// Another record of this number is genuine: this one was forged.
    Rival,
    /// It was delivered before it was verified, and checks speak against it.
    Failed,
    /// It was not verified in time.
    Expired,
    /// Its room went to another record.
    Evicted,
}

/// Running totals of one direction of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sets of which every record was verified.
    pub sets_verified: u64,
    /// Sets given up with records still unverified.
    pub sets_failed: u64,
    /// Data records verified.
    pub records_verified: u64,
    /// Data records that were delivered provisionally and failed afterwards.
    pub records_refuted: u64,
    /// Data records given up: rivals, failed, expired and evicted.
    pub records_dropped: u64,
    /// Data records refused on arrival.
    pub records_refused: u64,
    /// Evaluations, for the key's limits: each check of a tag over r unverified
    /// records counts r.
    pub evaluations: u64,
}
