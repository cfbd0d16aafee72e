//! What an opener decides about records, and what it counts.

#[cfg(doc)]
use crate::tuning;
use core::fmt;

/// The result of offering a data record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    /// It is held, or decided already: a verdict for its slot follows.
    Held,
    /// An identical record is held already. The slot is free again.
    Duplicate,
    /// It is of no use. The slot is free again.
    Refused(Refusal),
}

/// Why a record or a closing tag was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The record's number was verified or has expired.
    Used,
    /// The number is below a window that was moved without authentication.
    Behind,
    /// The number is beyond the window, or above the highest record number.
    Ahead,
    /// Its number already holds [`tuning::HELD_PER_NUMBER`] candidates.
    TooManyCandidates,
    /// Already [`tuning::EVALUATED_PER_NUMBER`] candidates of its number were evaluated.
    TooManyEvaluations,
    /// There is no room for another candidate.
    Memory,
    /// The aggregate does not have the length that the scheme prescribes for the record's number.
    TagLength,
    /// A closing tag covers a range that no sender makes.
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
    /// The caller's slot for the record's content.
    pub slot: u16,
    /// The record's number.
    pub number: u64,
    /// The decision.
    pub outcome: Outcome,
}

/// The possible decisions on a held record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The record is not decided yet: its level reached the threshold, but not 128 bits. This comes
    /// at most once, only if a threshold was set, and another verdict follows.
    Provisional {
        /// The record's security level in bits, 0 to 127.
        bits: u8,
    },
    /// The record is genuine.
    Verified,
    /// The record is forged, or it will never be known whether it is.
    Dropped(DropReason),
}

/// Why a held record was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropReason {
    /// Another record of this number is genuine, so this one was forged.
    Rival,
    /// It was delivered provisionally, and later checks spoke against it.
    Failed,
    /// It was not verified in time.
    Expired,
    /// It was evicted to make room for another record.
    Evicted,
}

/// Counters of one direction of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of sets of which every record was verified.
    pub sets_verified: u64,
    /// Number of sets given up with records still unverified.
    pub sets_failed: u64,
    /// Number of data records verified.
    pub records_verified: u64,
    /// Number of data records that were delivered provisionally and failed afterwards.
    pub records_refuted: u64,
    /// Number of data records given up: rivals, failed, expired and evicted ones.
    pub records_dropped: u64,
    /// Number of data records refused on arrival.
    pub records_refused: u64,
    /// Number of evaluations, for the key's limits: each check of a tag over r unverified records
    /// counts r.
    pub evaluations: u64,
}

/// The [`Counters`] as an opener keeps them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally {
    pub(crate) sets_verified: Count,
    pub(crate) sets_failed: Count,
    pub(crate) records_verified: Count,
    pub(crate) records_refuted: Count,
    pub(crate) records_dropped: Count,
    pub(crate) records_refused: Count,
    pub(crate) evaluations: u64,
}

impl Tally {
    pub(crate) const ZERO: Self = Self {
        sets_verified: Count(0),
        sets_failed: Count(0),
        records_verified: Count(0),
        records_refuted: Count(0),
        records_dropped: Count(0),
        records_refused: Count(0),
        evaluations: 0,
    };

    pub(crate) const fn counters(&self) -> Counters {
        Counters {
            sets_verified: self.sets_verified.get(),
            sets_failed: self.sets_failed.get(),
            records_verified: self.records_verified.get(),
            records_refuted: self.records_refuted.get(),
            records_dropped: self.records_dropped.get(),
            records_refused: self.records_refused.get(),
            evaluations: self.evaluations,
        }
    }
}

/// A count of a [`Tally`], modulo 2^32 without the feature `fast`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub(crate) struct Count(Word);

#[cfg(feature = "fast")]
type Word = u64;
#[cfg(not(feature = "fast"))]
type Word = u32;

#[allow(clippy::unnecessary_cast, reason = "a word has fewer bits without the feature `fast`")]
impl Count {
    pub(crate) const fn get(self) -> u64 {
        self.0 as u64
    }

    pub(crate) const fn add(&mut self, more: u64) {
        self.0 = self.0.wrapping_add(more as Word);
    }
}
