//! Traits that seal and open records in place.

use crate::heap::Box;
use core::fmt;
pub use lightseal_aggregation::{Block, Prf, PrfState};

/// The record's tag did not verify, or the record is too short for this suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unauthentic;

impl fmt::Display for Unauthentic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("record failed authentication")
    }
}

impl core::error::Error for Unauthentic {}

/// The inputs of a record's protection besides its key and content.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The variable part of the nonce. In DTLS 1.3 it is the record number in its epoch, below
    /// 2^48. In DTLS 1.2 it is the explicit nonce if records carry one, otherwise epoch and
    /// sequence number as in the header, epoch · 2^48 + sequence number. The records that we send
    /// carry that same number as their explicit nonce.
    pub number: u64,
    /// The additional data. In DTLS 1.3 it is the header as sent, but with the plaintext record
    /// number (RFC 9147, section 4.2.3). In DTLS 1.2 it is defined by RFC 5246, section 6.2.3.3, or
    /// with a connection ID by RFC 9146, section 5. It has at most 278 bytes: the latter with a
    /// connection ID of 255 bytes.
    pub header: &'a [u8],
}

/// The protection of one direction of one epoch with a tag for each record. It is the whole
/// protection of DTLS 1.2, and a part of the standard record layout of 1.3.
pub trait Aead: Send + Sync {
    /// Encrypts `content` in place and writes its tag. `content` has at most 2^14 + 256 bytes: the
    /// payload, and in DTLS 1.3, or with a connection ID in DTLS 1.2, content type and padding.
    /// `tag` is as long as the suite's `tag_len`.
    fn seal(&self, record: Record<'_>, content: &mut [u8], tag: &mut [u8]);

    /// Checks `tag` in constant time and decrypts `content` in place. After an error the bytes of
    /// `content` are meaningless.
    ///
    /// # Errors
    /// Fails if `tag`, which may have any length, is not the tag of these bytes.
    fn open(&self, record: Record<'_>, content: &mut [u8], tag: &[u8]) -> Result<(), Unauthentic>;
}

/// The protection of one direction of one DTLS 1.3 epoch in the standard record layout.
pub trait Protection: Aead {
    /// The mask for the record number (RFC 9147, section 4.2.3), computed with a separate key.
    /// One-byte record numbers use its first byte.
    fn mask(&self, sample: &Block) -> [u8; 2];
}

impl<A: Aead + ?Sized> Aead for Box<A> {
    fn seal(&self, record: Record<'_>, content: &mut [u8], tag: &mut [u8]) {
        (**self).seal(record, content, tag);
    }

    fn open(&self, record: Record<'_>, content: &mut [u8], tag: &[u8]) -> Result<(), Unauthentic> {
        (**self).open(record, content, tag)
    }
}

impl<P: Protection + ?Sized> Protection for Box<P> {
    fn mask(&self, sample: &Block) -> [u8; 2] {
        (**self).mask(sample)
    }
}

/// Encrypts short records under [`NumberMasks::Strong`](crate::NumberMasks::Strong): a pseudorandom
/// function with a separate key.
pub trait Pad: Send + Sync {
    /// The pad for `input`.
    fn pad(&self, input: &Block) -> Block;
}

/// The result of [`PrfProtection::open`].
#[derive(Clone, Debug)]
pub struct Opened {
    /// The length in bytes of the content (type ‖ payload) in the body, at least 1.
    pub content_len: usize,
    /// Whether the record's own 16-byte tag follows the content, because its type is not 23
    /// (application data).
    pub own_tag: bool,
    /// The state from which the record's tag is computed; its own full tag is output block 0.
    pub state: PrfState,
}

/// The protection of one direction of one epoch with aggregated tags, in the layout with the
/// content type first.
///
/// The [`Prf`] has the output blocks 0, 1, 2 (tag bits 0 to 383), 253 (check bytes), 254 (ranks of
/// rivals) and 255 (closing tags). It panics for any other index, which is an error of the caller.
pub trait PrfProtection: Prf + Send + Sync {
    /// Encrypts `content` (type ‖ payload) in place. It must not be empty.
    fn seal(&self, record: Record<'_>, content: &mut [u8]) -> PrfState;

    /// Decrypts a record in place without authenticating it.
    ///
    /// `body` is content ‖ own tag of 16 bytes if the type is not 23 ‖ `aggregate_len` bytes, a
    /// check byte included. The first byte is the type, and exactly the content is decrypted.
    /// Returns `None` if `body` is too short, or longer than a record may be.
    fn open(&self, record: Record<'_>, body: &mut [u8], aggregate_len: usize) -> Option<Opened>;

    /// As [`Protection::mask`].
    fn mask(&self, sample: &Block) -> [u8; 2];
}
