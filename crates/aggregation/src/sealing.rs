//! What a sealer is told of a record, and how it can be misused.

use core::fmt;

/// Whether a record carries a full tag of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// Application data: authenticated by the aggregate alone.
    Data,
    /// Any other record: it carries its own full tag, and the aggregate that a data record of this
    /// number would carry.
    Control,
}

/// Misuse of a [`Sealer`](crate::Sealer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealError {
    /// The number is not the one after the last sealed record.
    OutOfOrder {
        /// The number that must come next.
        expected: u64,
    },
    /// The tag buffer does not have the length of the record's aggregate.
    TagLength,
}

impl fmt::Display for SealError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfOrder { expected } => {
                write!(f, "records are sealed in order, {expected} is next")
            }
            Self::TagLength => f.write_str("tag buffer and aggregate differ in length"),
        }
    }
}

impl core::error::Error for SealError {}
