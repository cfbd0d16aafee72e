//! What became of received records, as values: the connection acts on them, and one function counts
//! them.

use super::epochs::EpochNumber;
use super::fates::{Fate, Fates};
use crate::codepoints::ContentType;
use crate::crypto::{Count, OpenUsage, ShortCount};
use crate::parts::{Adaptation, PartState};
use crate::stats::ReceiveStats;
use core::ops::AddAssign;
use lightseal_core::wire::BufferFull;
use lightseal_core::{DecodeError, Reader, Writer};

/// An authenticated record that the connection has to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inner<'a> {
    /// The record's content type.
    pub kind: ContentType,
    /// The record number.
    pub number: u64,
    /// The record's content.
    pub content: &'a [u8],
}

/// What opening a record brought.
#[derive(Debug)]
pub struct OpenedRecord<'a> {
    /// The record, if it is authentic and the connection has to act on it.
    pub inner: Option<Inner<'a>>,
    /// What became of the record, and of earlier ones that it decided about.
    pub outcomes: Outcomes,
}

/// Declares the outcomes that [`ReceiveStats`] counts.
macro_rules! outcomes {
    ($($field:ident: $count:ty),* $(,)?) => {
        /// What became of a record, and of earlier ones whose shared tags it carried: of no more than
        /// a window has.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Outcomes {
            $(
                #[doc = concat!("To be added to [`ReceiveStats::", stringify!($field), "`].")]
                pub $field: $count,
            )*
        }

        impl AddAssign for Outcomes {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }

        impl ReceiveStats {
            /// Counts what became of records.
            pub fn count(&mut self, outcomes: &Outcomes) {
                // Few fields change with a record. Reading all of them as vectors would wait for
                // the writes of single fields just before.
                $(if outcomes.$field > 0 {
                    self.$field += u64::from(outcomes.$field);
                })*
            }
        }
    };
}

outcomes! {
    records: u16,
    delivered: u16,
    delivered_bytes: u32,
    malformed: u16,
    replayed: u16,
    unauthentic: u16,
    check_failed: u16,
    provisional: u16,
    refuted: u16,
    unverified: u16,
    forged: u16,
    refused: u16,
    closing_tags: u16,
    evaluations: u32,
    buffer_full: u16,
    exhausted: u16,
}

impl Outcomes {
    /// Notes a payload of `len` bytes that was delivered.
    pub(crate) const fn deliver(&mut self, len: usize) {
        self.delivered += 1;
        self.delivered_bytes += len as u32;
    }

    /// Whether a record proved to be forged.
    pub(crate) const fn has_forgery(&self) -> bool {
        (self.refuted | self.forged | self.unauthentic) != 0
    }
}

/// How well received data is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SecurityLevel {
    /// The security level in bits, 0 to 128, that data has at least when it is delivered.
    pub delivered: u8,
    /// The number of data records that wait for tags.
    pub waiting: u16,
    /// The sum of the security levels, in bits, of the records that wait.
    pub waiting_bits: u32,
}

impl SecurityLevel {
    /// The security level if each record has its own tag of `tag_len` bytes.
    pub(super) fn of_tags(tag_len: usize) -> Self {
        Self::of_bits((8 * tag_len).min(128) as u8)
    }

    /// This level in bits, where no record waits for its tag.
    pub(crate) const fn of_bits(delivered: u8) -> Self {
        Self { delivered, waiting: 0, waiting_bits: 0 }
    }
}

/// What arrived in an epoch, and how far its key is used up.
pub(super) struct ArrivalCounts {
    /// The epoch.
    pub(super) epoch: EpochNumber,
    /// How much the key has been used, compared with its limits.
    pub(super) usage: OpenUsage,
    /// The number of authenticated records.
    pub(super) authentic: ShortCount,
    /// The number of records since the last authenticated one, none of which could be
    /// authenticated.
    pub(super) unsettled: u32,
    /// The fate of each record, if it is recorded.
    pub(super) fates: PartState<Adaptation, Fates>,
}

impl ArrivalCounts {
    pub(super) const fn new(epoch: u64, usage: OpenUsage) -> Self {
        let epoch = EpochNumber::new(epoch);
        Self { epoch, usage, authentic: 0, unsettled: 0, fates: PartState::EMPTY }
    }

    /// Writes the counts.
    pub(super) fn write(&self, w: &mut Writer<'_>) -> Result<(), BufferFull> {
        self.usage.write(w)?;
        w.varint(self.authentic.get())?;
        w.varint(self.unsettled.into())
    }

    /// Reads what [`write`](Self::write) has written.
    pub(super) fn read(&mut self, r: &mut Reader<'_>) -> Result<(), DecodeError> {
        self.usage.read(r)?;
        self.authentic = ShortCount::of(r.varint()?);
        self.unsettled = r.varint()? as u32;
        Ok(())
    }

    /// Notes what is now known of a record whose payload has `payload_len` bytes.
    #[inline]
    pub(super) fn note(&mut self, number: u64, payload_len: usize, fate: fn(u16) -> Fate) {
        if let Some(fates) = self.fates.get_mut() {
            fates.note(number, fate(payload_len.try_into().unwrap_or(u16::MAX)));
        }
    }

    /// Counts a record that is not authenticated yet.
    pub(super) const fn unsettled(&mut self) {
        self.unsettled = self.unsettled.saturating_add(1);
    }

    /// Counts an authenticated record.
    pub(super) fn authentic(&mut self, outcomes: &mut Outcomes) {
        self.authentic.add(1);
        self.unsettled = 0;
        outcomes.records += 1;
    }

    /// Counts a record whose own tag is wrong.
    pub(super) fn forged(&mut self, outcomes: &mut Outcomes) {
        self.usage.add_failed();
        outcomes.unauthentic += 1;
    }
}

/// A record that was read passively.
#[cfg(feature = "passive")]
#[derive(Debug)]
pub(crate) struct PassiveRecord<'a> {
    pub(crate) number: u64,
    /// `None` if the record could not be decrypted.
    pub(crate) kind: Option<ContentType>,
    /// Empty if the record could not be decrypted.
    pub(crate) content: &'a [u8],
    pub(crate) proof: Proof,
    /// Whether a copy of the record was read before.
    pub(crate) repeated: bool,
}

#[cfg(feature = "passive")]
impl PassiveRecord<'_> {
    /// A record whose own tag is wrong, so that its content is meaningless.
    pub(super) const fn forged(number: u64) -> Self {
        Self { number, kind: None, content: &[], proof: Proof::Forged, repeated: false }
    }
}

/// How far a record is authenticated.
#[cfg(feature = "passive")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// A plaintext record: anybody can have sent it.
    Clear,
    /// The record's own tag, or the tags that it shares, verified.
    Verified,
    /// The record was decrypted. Later records carry the tags that it shares: a [`Verdict`](crate::passive::Verdict) will
    /// follow.
    Pending,
    /// The record was decrypted, but its tags were lost, or are no longer known.
    Unknown,
    /// The record's tag is wrong, or another record with its number is authentic.
    Forged,
    /// The record was not decrypted, because its secret is not known.
    Locked,
    /// The bytes are not a record.
    Malformed,
}

#[cfg(feature = "passive")]
impl Proof {
    /// Whether the record is protected, as far as is visible.
    pub const fn is_protected(self) -> bool {
        !matches!(self, Self::Clear | Self::Malformed)
    }
}
