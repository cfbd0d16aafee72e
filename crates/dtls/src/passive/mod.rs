//! Decrypts associations of other ends, with the secrets that one of the ends logged.
//!
//! - [`Secrets`]: the content of a key log (see [`KeyLog`](crate::KeyLog));
//! - [`Observer`]: takes the datagrams of any number of associations and returns their records,
//!   decrypted if a secret is known. It handles both versions, both record layouts, connection IDs,
//!   key updates and address changes.
//!
//! An observer is not an end of the association and sends nothing. It also returns copies of
//! records, and records that the receiving end would drop. [`Proof`] tells how far each record is
//! authenticated.
//!
//! # Example
//!
//! ```
//! use lightseal_dtls::crypto::rustcrypto;
//! use lightseal_dtls::passive::{Observer, Proof, Secrets};
//!
//! let mut observer = Observer::new(&rustcrypto::PROVIDER, Secrets::read("# no secrets\n")?);
//! let (from, to) = ("[::1]:1000".parse()?, "[::1]:2000".parse()?);
//! // A plaintext alert: handshake_failure, fatal.
//! let datagram = [21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 40];
//! let records = observer.datagram(from, to, &mut datagram.to_vec());
//! assert_eq!((records[0].proof, &records[0].content[..]), (Proof::Clear, &[2, 40][..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod association;
mod observer;
mod partial_messages;
mod secrets;

pub use crate::record::outcomes::Proof;
pub use observer::Observer;
pub use secrets::{BadLine, Secrets};

use crate::codepoints::ContentType;
use alloc::vec::Vec;

/// The end that sent a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sender {
    /// The end that sent the ClientHello, or, if none was observed, the end that sent first.
    Client,
    /// The other end.
    Server,
}

impl Sender {
    /// The other end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// A record that was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The record's index among all records of its observer, from 0, to which a [`Verdict`] refers.
    pub serial: u64,
    /// The index of the association, from 0.
    pub association: u64,
    /// The end that sent the record.
    pub sender: Sender,
    /// The epoch. For a DTLS 1.3 record whose keys are not known, only the low two bits are
    /// visible.
    pub epoch: u64,
    /// The record number; `None` if it is encrypted with an unknown key.
    pub number: Option<u64>,
    /// The content type; `None` if it is encrypted with an unknown key.
    pub kind: Option<ContentType>,
    /// The length in bytes, header and tags included.
    pub len: usize,
    /// The content without type and padding; empty if it was not decrypted.
    pub content: Vec<u8>,
    /// How far the record is authenticated.
    pub proof: Proof,
    /// Whether a copy was observed before: duplicated below DTLS, or captured on several hops.
    pub repeated: bool,
}

/// The final proof of a record that was [`Proof::Pending`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The [`Record::serial`] of the record.
    pub serial: u64,
    /// `Verified`, `Unknown` or `Forged`.
    pub proof: Proof,
}
