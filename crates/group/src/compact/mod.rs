//! Records and keys of profile `compact`.
//!
//! Records of DTLS 1.3 (RFC 9147, section 4) between the members of a group: 14 bytes beside the
//! payload of a request and 16 beside that of a response, with 8-byte tags.
//!
//! ```text
//! request   | flags | alias | SenderID      | number (16) | encrypted: payload | type | tag |
//! response  | flags | alias | ListenerID (24) | number (16) | encrypted: payload | type | tag |
//! ```
//!
//! - [`keys`]: what each writer's keys derive from;
//! - [`record`]: sealing and opening, in the steps that leave state to the caller;
//! - [`header`]: what stands in front of a record, also where the number stands in full;
//! - [`source`]: Ed25519 signatures, where the group asks who of its members wrote a record;
//! - [`pairwise`]: keys that a sender and a listener share with nobody;
//! - [`freshness`]: where a stream stands, stated and asked for.
//!
//! A listener's record goes through these steps; a sender's are the same with
//! [`Sealed::request`]:
//!
//! ```
//! use dtls::crypto::rustcrypto::AES_128_CTR_LIGHTMAC_8;
//! use group::compact::{EpochSecret, Outgoing, RecordKeys, Sealed, Suite};
//! use group::{GroupId, ListenerId, SenderId};
//! use vocabulary::ReplayWindow;
//!
//! let suite = Suite::new(&AES_128_CTR_LIGHTMAC_8).expect("it encrypts");
//! let (sender, listener) = (SenderId(1), ListenerId::new(7).expect("below 2^24"));
//! let epoch = EpochSecret::new(GroupId(*b"lights of room 1"), 3, b"the root key of the tree");
//! let secret = epoch.response_secret(sender, listener);
//! let keys = RecordKeys::new(suite, epoch.responses(sender, listener), &secret);
//!
//! let mut datagram = [0; 64];
//! let len = keys.seal(&Outgoing::data(0, b"on"), &mut datagram)?;
//! assert_eq!(len, 2 + 16);
//!
//! let mut window = ReplayWindow::new();
//! let (record, rest) = Sealed::response(&mut datagram[..len])?;
//! assert!(record.alias == b'l' && record.id == listener && record.epoch.is_of(3));
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
mod self_test;
pub mod source;

pub use freshness::Challenge;
pub use header::{Boot, EpochBits, Form};
pub use keys::{Direction, EpochSecret, PairSecret, Stream};
pub use pairwise::{KnownBoot, PrivateKey, PublicKey, Standing};
pub use record::{
    Numbered, OpenError, Opened, Origin, Outgoing, RecordKeys, SealError, Sealed, Tagged,
};
pub use self_test::self_test;
pub use source::{SigningKey, VerifyingKey};

use core::fmt;
use dtls::crypto::limits::Cost;
use dtls::crypto::{CipherSuite, CipherSuiteId, Limits, Provider};

/// A suite for group records: it encrypts, and its tags have 8 or 16 bytes.
#[derive(Clone, Copy, Debug)]
pub struct Suite(&'static CipherSuite);

impl Suite {
    /// `suite`, if it is one for group records.
    pub const fn new(suite: &'static CipherSuite) -> Option<Self> {
        if suite.encrypts && matches!(suite.tag_len, 8 | 16) { Some(Self(suite)) } else { None }
    }

    /// The host's suite with this code point.
    pub fn find(provider: &Provider, id: CipherSuiteId) -> Option<Self> {
        provider.suite_multicast(id).and_then(Self::new)
    }

    /// What the host computes it with.
    pub const fn get(self) -> &'static CipherSuite {
        self.0
    }

    /// How long the keys of one stream may be used. At half of it (with 8-byte tags, 2^20
    /// failures) it is time to ask for a new epoch.
    pub const fn limits(self) -> &'static Limits {
        /// DTLS ends an association after 2^7 failures. Nobody would have to know a key to end
        /// a group's epoch like that.
        const CCM_8: Limits = Limits { failed: Limits::CTR_LIGHTMAC_8.failed, ..Limits::CCM };
        match (self.0.tag_len, self.0.limits.cost) {
            (8, Cost::Ccm) => &CCM_8,
            _ => &self.0.limits,
        }
    }
}

/// A public key is no point of the curve, or one of so small an order that it hides nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidPublicKey;

impl fmt::Display for InvalidPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("invalid public key")
    }
}

impl core::error::Error for InvalidPublicKey {}
