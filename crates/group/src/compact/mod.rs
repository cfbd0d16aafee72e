//! Records and keys of profile `compact`.
//!
//! Records of DTLS 1.3 (RFC 9147, section 4) between the members of a group. With 8-byte tags, the
//! overhead is 14 bytes for a request and 16 bytes for a response.
//!
//! ```text
//! request   | flags | alias | SenderID      | number (16) | encrypted: payload | type | tag |
//! response  | flags | alias | ListenerID (24) | number (16) | encrypted: payload | type | tag |
//! ```
//!
//! - [`keys`]: the key schedule, with a separate secret for each writer;
//! - [`record`]: sealing and opening of records, in steps that leave all state to the caller;
//! - [`header`]: record headers, with a truncated or a full number;
//! - [`source`]: Ed25519 signatures, for groups with source authentication;
//! - [`pairwise`]: keys that only a sender and one listener know;
//! - [`freshness`]: sync records, challenges and answers, which state the next record number of a
//!   stream.
//!
//! The example seals and opens a listener's record. A sender's record goes through the same steps,
//! with [`SealedRecord::request`]:
//!
//! ```
//! use lightseal_dtls::crypto::rustcrypto::AES_128_CTR_LIGHTMAC_8;
//! use lightseal_group::compact::{EpochSecret, PlainRecord, RecordKeys, SealedRecord, Suite};
//! use lightseal_group::{GroupId, ListenerId, SenderId};
//! use lightseal_core::ReplayWindow;
//!
//! let suite = Suite::new(&AES_128_CTR_LIGHTMAC_8).expect("it encrypts");
//! let (sender, listener) = (SenderId(1), ListenerId::new(7).expect("below 2^24"));
//! let epoch = EpochSecret::new(GroupId(*b"lights of room 1"), 3, b"the root key of the tree");
//! let secret = epoch.response_secret(sender, listener);
//! let keys = RecordKeys::new(suite, epoch.responses(sender, listener), &secret);
//!
//! let mut datagram = [0; 64];
//! let len = keys.seal(&PlainRecord::data(0, b"on"), &mut datagram)?;
//! assert_eq!(len, 2 + 16);
//!
//! let mut window = ReplayWindow::new();
//! let (record, rest) = SealedRecord::response(&mut datagram[..len])?;
//! assert!(record.alias() == b'l' && record.id == listener && record.epoch().is_of(3));
//! let record = record.reveal(&keys, window.next());
//! if window.check(record.number()) {
//!     let opened = record.open(&keys, None)?;
//!     window.commit(opened.number);
//!     assert_eq!(opened.payload, b"on");
//! }
//! # assert!(rest.is_empty());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod freshness;
pub mod header;
pub mod keys;
pub mod pairwise;
pub mod record;
#[cfg(all(feature = "signatures", feature = "pairwise"))]
mod self_test;
pub mod source;

pub use freshness::Challenge;
pub use header::{EpochBits, HeaderForm};
pub use keys::{Direction, EpochSecret, PairSecret, Stream};
pub use pairwise::{Boot, BootStatus, KnownBoot, PrivateKey, PublicKey};
pub(crate) use record::SealedParts;
pub use record::{
    OpenError, OpenedRecord, PlainRecord, ProvenOrigin, RecordKeys, RevealedRecord, SealError,
    SealedRecord, TagVerifiedRecord,
};
#[cfg(all(feature = "signatures", feature = "pairwise"))]
pub use self_test::self_test;
pub use source::{SigningKey, VerifyingKey};

use crate::parts::Compact;
use core::fmt;
use lightseal_dtls::crypto::limits::Cost;
use lightseal_dtls::crypto::{CipherSuite, HashAlgorithm, KeyDerivation, Limits, Protection};
#[cfg(feature = "alloc")]
use lightseal_dtls::crypto::{CipherSuiteId, Provider};
use lightseal_dtls::heap::Box;

/// A cipher suite for group records. It encrypts, its hash is SHA-256, and its tags have 8 or 16
/// bytes (docs/spec/group.md, section 3.1).
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    suite: &'static CipherSuite,
    pub(crate) part: Compact,
}

impl Suite {
    /// `suite` for group records; `None` if it does not encrypt, or if its hash or the length of
    /// its tags is another.
    pub fn new(suite: &'static CipherSuite) -> Option<Self> {
        // The secrets of an epoch are made with SHA-256 whatever the suite is.
        let hash = suite.hash.algorithm() == HashAlgorithm::Sha256;
        let part = Compact::INCLUDED?;
        (suite.encrypts && hash && matches!(suite.tag_len, 8 | 16)).then_some(Self { suite, part })
    }

    /// The suite of `provider` with this code point.
    #[cfg(feature = "alloc")]
    pub fn find(provider: &Provider, id: CipherSuiteId) -> Option<Self> {
        provider.suite_multicast(id).and_then(Self::new)
    }

    /// The provider's implementation of the suite.
    pub const fn get(self) -> &'static CipherSuite {
        self.suite
    }

    /// The usage limits of the keys of one stream. At half of a limit (with 8-byte tags, 2^20
    /// failures) the member asks for a new epoch.
    pub const fn limits(self) -> &'static Limits {
        limits(self.suite.tag_len, &self.suite.limits)
    }
}

/// The usage limits of a suite with tags of `tag_len` bytes and these limits in DTLS.
pub(crate) const fn limits(tag_len: usize, limits: &'static Limits) -> &'static Limits {
    /// DTLS ends an association after 2^7 failures. With such a low limit, an attacker without any
    /// key could end a group's epoch.
    const CCM_8: Limits = Limits { failed: Limits::CTR_LIGHTMAC_8.failed, ..Limits::CCM };
    match (tag_len, limits.cost) {
        (8, Cost::Ccm) => &CCM_8,
        _ => limits,
    }
}

/// A suite with which records are sealed and opened, wherever its keys lie.
pub trait RecordSuite: Copy {
    /// The protection of one stream.
    type Protection: Protection;

    /// Length of a tag in bytes: 16 or 8.
    fn tag_len(&self) -> usize;

    /// As [`Suite::limits`].
    fn limits(&self) -> &'static Limits;

    /// Derives the keys of a stream from its secret.
    fn protection(&self, keys: &KeyDerivation) -> Self::Protection;
}

impl RecordSuite for Suite {
    type Protection = Box<dyn Protection>;

    fn tag_len(&self) -> usize {
        self.suite.tag_len
    }

    fn limits(&self) -> &'static Limits {
        Self::limits(*self)
    }

    fn protection(&self, keys: &KeyDerivation) -> Box<dyn Protection> {
        self.suite.keying.plain(keys)
    }
}

/// A public key is not a point of the curve, or is a point of small order and therefore insecure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidPublicKey;

impl fmt::Display for InvalidPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid public key")
    }
}

impl core::error::Error for InvalidPublicKey {}
