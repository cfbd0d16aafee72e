//! The record layer (RFC 9147, section 4).
//!
//! - [`header`]: DTLSPlaintext and the unified header;
//! - [`dtls12`]: the layout of DTLS 1.2;
//! - [`dtls13`]: the layouts of DTLS 1.3, with plain and with aggregated tags;
//! - [`cid`]: connection IDs;
//! - [`number`]: record numbers, reconstructed from their low bits;
//! - [`seal`] and [`open`]: the sending and the receiving direction of one epoch;
//! - `fates`: which records of an epoch arrived, in the order of their numbers;
//! - [`receive_buffer`]: received payloads that wait for verification or for the application;
//! - [`epochs`]: the epochs that have keys.

pub mod cid;
pub mod dtls12;
mod dtls13;
pub mod epochs;
mod fates;
pub mod header;
pub mod number;
pub mod open;
pub mod outcomes;
pub(crate) mod own_ids;
#[cfg(feature = "passive")]
mod passive;
pub mod receive_buffer;
pub mod seal;
mod shape;

pub use cid::ConnectionId;
pub use dtls12::Header12;
pub use epochs::{ReceiveEpochs, SendEpochs};
pub use header::{PlaintextHeader, UnifiedHeader};
pub use open::ReceiveEpoch;
#[cfg(feature = "passive")]
pub(crate) use outcomes::PassiveRecord;
pub use outcomes::SecurityLevel;
#[cfg(feature = "passive")]
pub(crate) use passive::Reading;
pub use receive_buffer::{ReceiveBuffer, RecordId, Resolution};
pub use seal::{NumberLength, SendEpoch};
