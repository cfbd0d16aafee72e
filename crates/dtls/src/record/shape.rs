//! The format of records that are sealed.

use lightseal_core::wire::BufferFull;

/// How many bytes of the record number a header carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberLength {
    /// 8 bits.
    One,
    /// 16 bits.
    Two,
}

impl NumberLength {
    pub(super) const fn bytes(self) -> usize {
        match self {
            Self::One => 1,
            Self::Two => 2,
        }
    }
}

/// The header format of a record. DTLS 1.2 has only one format and ignores this.
#[derive(Clone, Copy, Debug)]
pub struct HeaderFormat {
    /// The length of the record number.
    pub number: NumberLength,
    /// Whether the record is the last one of its datagram and needs no length field.
    pub last: bool,
}

/// Why a record could not be sealed. The epoch is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealError {
    /// The buffer is too small, or the content too long for a record.
    Full,
    /// The key has reached its limit, or the record numbers of this epoch are used up.
    Exhausted,
}

impl core::fmt::Display for SealError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Full => "no room for the record, or its content is too long",
            Self::Exhausted => "the key or the record numbers of this epoch are used up",
        })
    }
}

impl core::error::Error for SealError {}

impl From<BufferFull> for SealError {
    fn from(BufferFull: BufferFull) -> Self {
        Self::Full
    }
}

/// A record that was sealed.
#[derive(Clone, Copy, Debug)]
pub struct Sealed {
    /// The length of the record in bytes, at the front of the buffer.
    pub len: usize,
    /// The record number.
    pub number: u64,
}

/// The epoch and number of a record.
#[derive(Clone, Copy)]
pub(super) struct RecordPlace {
    pub(super) epoch: u64,
    pub(super) number: u64,
}

/// The lengths, in bytes, of a record that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WrittenLengths {
    /// The whole record.
    pub(super) len: usize,
    /// The additional data: authenticated but not encrypted.
    pub(super) additional_len: usize,
    /// The encrypted part, without tags.
    pub(super) content_len: usize,
}
