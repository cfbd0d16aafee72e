//! What is known and reported of received payloads.

use super::ConnectionId;
use super::slots::Slot;
use core::fmt;
use lightseal_core::AddressPair;

/// A record of an association, identified by epoch and record number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId {
    /// The epoch.
    pub epoch: u64,
    /// The record number within the epoch.
    pub number: u64,
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {} of epoch {}", self.number, self.epoch)
    }
}

/// The addresses and the connection ID with which a record arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The addresses of the record's datagram.
    pub way: AddressPair,
    /// The connection ID of this end that the record carries, if any.
    pub own_id: Option<ConnectionId>,
}

/// What is reported to the application about received data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A verified payload. Its slot stays occupied until [`release`](super::receive_buffer::ReceiveBuffer::release).
    Data(Slot),
    /// A payload that is not verified yet, with its security level.
    Provisional {
        /// The payload's slot, which stays occupied until the payload is resolved.
        slot: Slot,
        /// The record that carried the payload.
        record: RecordId,
        /// The security level of the payload in bits.
        bits: u8,
    },
    /// The outcome for a payload that was delivered provisionally.
    Resolved(RecordId, Resolution),
}

impl Received {
    /// Whether it is a payload that is not verified yet.
    pub(super) const fn is_early(self) -> bool {
        matches!(self, Self::Provisional { .. })
    }

    /// Whether it is the payload in this slot, which is not verified yet.
    pub(super) fn is_provisional(&self, of: Slot) -> bool {
        matches!(self, Self::Provisional { slot, .. } if *slot == of)
    }
}

/// The outcome for data that was delivered before it was verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The data is authentic.
    Verified,
    /// The data is forged: its tags do not verify.
    Refuted {
        /// The number of bytes delivered to the application since then: of this payload and all
        /// later ones, including verified ones.
        bytes: u64,
    },
    /// It cannot be decided any more, because too many of the records that carry or complete the
    /// tags were lost.
    Unknown,
}

impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Verified => f.write_str("verified"),
            Self::Refuted { bytes } => {
                write!(f, "forged, {bytes} bytes of data were delivered since")
            }
            Self::Unknown => f.write_str("can no longer be verified"),
        }
    }
}
