//! Reading associations of others, with the secrets that an end of them logged.
//!
//! - [`Secrets`]: what a key log holds (see [`KeyLog`](crate::KeyLog));
//! - [`Observer`]: datagrams of any associations in, their records out, decrypted where a secret
//!   fits, in both versions, both record layouts, with and without connection IDs, across new keys
//!   and new addresses.
//!
//! An observer sends nothing and is no end of anything: it shows copies of records again, and
//! records that no end would take. What it shows is proved by [`Proof`].
//!
//! # Example
//!
//! ```
//! use dtls::crypto::rustcrypto;
//! use dtls::passive::{Observer, Proof, Secrets};
//!
//! let mut observer = Observer::new(&rustcrypto::PROVIDER, Secrets::read("# no secrets\n")?);
//! let (from, to) = ("[::1]:1000".parse()?, "[::1]:2000".parse()?);
//! // An alert in clear: handshake_failure, fatal.
//! let datagram = [21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 40];
//! let records = observer.datagram(from, to, &mut datagram.to_vec());
//! assert_eq!((records[0].proof, &records[0].content[..]), (Proof::Clear, &[2, 40][..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod association;
mod observer;
mod pieces;
mod secrets;

pub use observer::Observer;
pub use secrets::{BadLine, Secrets};

use crate::codepoints::ContentType;
use alloc::vec::Vec;

/// Who sent a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sender {
    /// Who sent the ClientHello; the first to send, where there was none.
    Client,
    /// The other end.
    Server,
}

impl Sender {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// How well a record is proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Sent in clear: anybody can have written it.
    Clear,
    /// Its tag is right, or the tags it shares.
    Verified,
    /// Decrypted. Records still to come bring the tags it shares: a [`Verdict`] will follow.
    Pending,
    /// Decrypted, but its tags did not come, or are no longer known.
    Unknown,
    /// Its tag is wrong, or another record of its number is genuine.
    Forged,
    /// Not decrypted: no secret is known for it.
    Locked,
    /// Not a record.
    Malformed,
}

impl Proof {
    /// Whether the record is under keys, as far as can be told.
    pub const fn is_protected(self) -> bool {
        !matches!(self, Self::Clear | Self::Malformed)
    }
}

/// A record that was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place among all records of its observer, from 0 on: what a [`Verdict`] names.
    pub serial: u64,
    /// Which association it is of, counted from 0 on.
    pub association: u64,
    /// Who sent it.
    pub sender: Sender,
    /// Its epoch. Where its keys are not known, the low two bits are all that 1.3 tells.
    pub epoch: u64,
    /// Its number; `None` where that is hidden.
    pub number: Option<u64>,
    /// Its content type; `None` where that is hidden.
    pub kind: Option<ContentType>,
    /// Bytes on the wire, header and tags included.
    pub len: usize,
    /// Its content without type and padding; empty if it was not decrypted.
    pub content: Vec<u8>,
    /// How well it is proved.
    pub proof: Proof,
    /// Whether it was observed before: sent again below DTLS, or on its way over several hops.
    pub repeated: bool,
}

/// What is known now of a record that was [`Proof::Pending`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its [`Record::serial`].
    pub serial: u64,
    /// `Verified`, `Unknown` or `Forged`.
    pub proof: Proof,
}
