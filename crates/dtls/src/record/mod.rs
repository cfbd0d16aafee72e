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
#[cfg(feature = "alloc")]
mod dtls13;
#[cfg(feature = "alloc")]
pub mod epochs;
#[cfg(feature = "alloc")]
mod fates;
pub mod header;
pub mod number;
#[cfg(feature = "alloc")]
pub mod open;
#[cfg(feature = "alloc")]
pub mod outcomes;
#[cfg(feature = "alloc")]
pub(crate) mod own_ids;
#[cfg(feature = "passive")]
mod passive;
#[cfg(feature = "alloc")]
pub mod receive_buffer;
#[cfg(feature = "alloc")]
mod received;
#[cfg(feature = "alloc")]
pub mod seal;
mod shape;
#[cfg(feature = "alloc")]
mod slots;

pub use cid::ConnectionId;
pub use dtls12::Header12;
#[cfg(feature = "alloc")]
pub use epochs::{ReceiveEpochs, SendEpochs};
pub use header::{PlaintextHeader, UnifiedHeader};
#[cfg(all(feature = "alloc", feature = "aggregation"))]
use lightseal_core::ReplayWindow;
#[cfg(all(feature = "alloc", not(feature = "aggregation")))]
use lightseal_core::ShortReplayWindow as ReplayWindow;
#[cfg(feature = "alloc")]
pub use open::ReceiveEpoch;
#[cfg(feature = "passive")]
pub(crate) use outcomes::PassiveRecord;
#[cfg(feature = "alloc")]
pub use outcomes::SecurityLevel;
#[cfg(feature = "passive")]
pub(crate) use passive::Reading;
#[cfg(feature = "alloc")]
pub use receive_buffer::{ReceiveBuffer, RecordId, Resolution};
#[cfg(feature = "alloc")]
pub use seal::{NumberLength, SendEpoch};
pub use shape::SealError;
