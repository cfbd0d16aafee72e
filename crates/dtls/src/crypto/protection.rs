//! Records, sealed and opened in place.

pub use aggregation::{Block, Prf, PrfState};
use core::fmt;

/// The record did not pass its tag, or it could not be one of this suite's at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unauthentic;

impl fmt::Display for Unauthentic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("record failed authentication")
    }
}

impl core::error::Error for Unauthentic {}

/// What a record's protection depends on besides its key and content.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// What the nonce is made from. In 1.3 the record number in its epoch, below
    /// 2^48; in 1.2 the explicit nonce, where records carry one, or epoch and sequence
    /// number as they stand in the header, epoch · 2^48 + sequence number. What we send
    /// carries just these for an explicit nonce.
    pub number: u64,
    /// The additional data. In 1.3 the header as sent, but with the record
    /// number in clear (RFC 9147, section 4.2.3); in 1.2 what RFC 5246, section
    /// 6.2.3.3, or with a connection ID RFC 9146, section 5, makes of it. Up to
    /// 278 bytes: the latter with a connection ID of 255.
    pub header: &'a [u8],
}

/// One direction of one epoch, with one tag a record: all there is to it in
/// 1.2, and the standard record layout of 1.3.
pub trait Aead: Send + Sync {
    /// Encrypts `content` (at most 2^14 + 256 bytes: payload, in 1.3 and with
    /// a connection ID in 1.2 also type and padding) in place and writes its
    /// tag; `tag` is as long as the suite's `tag_len`.
    fn seal(&self, record: Record<'_>, content: &mut [u8], tag: &mut [u8]);

    /// Checks `tag` in constant time and decrypts `content` in place. After an
    /// error `content` holds nothing of use.
    ///
    /// # Errors
    /// The tag, of any length, is not that of these bytes.
    fn open(&self, record: Record<'_>, content: &mut [u8], tag: &[u8]) -> Result<(), Unauthentic>;
}

/// One direction of one epoch of 1.3 in the standard record layout.
pub trait Protection: Aead {
    /// The mask for the record number (RFC 9147, section 4.2.3), made with a
    /// key of its own. One-byte numbers use its first byte.
    fn mask(&self, sample: &Block) -> [u8; 2];
}

/// What hides short records under [`NumberMasks::Strong`](crate::NumberMasks::Strong): a
/// pseudorandom function under a key of its own.
pub trait Pad: Send + Sync {
    /// The pad for `input`.
    fn pad(&self, input: &Block) -> Block;
}

/// What [`PrfProtection::open`] found.
#[derive(Clone, Debug)]
pub struct Opened {
    /// How many bytes of the body are content (type ‖ payload), at least 1.
    pub content_len: usize,
    /// Whether the record's own full 16-byte tag follows the content: its type is not 23.
    pub own_tag: bool,
    /// What the record's tag is computed from; its own full tag is block 0.
    pub state: PrfState,
}

/// One direction of one epoch with aggregated tags: the content type comes first.
///
/// Its [`Prf`] has the output blocks 0, 1, 2 (tag bits 0 to 383), 253 (check bytes),
/// 254 (ranks of rivals) and 255 (closing tags); any other index is a caller's mistake and panics.
pub trait PrfProtection: Prf + Send + Sync {
    /// Encrypts `content` (type ‖ payload) in place. It must not be empty.
    fn seal(&self, record: Record<'_>, content: &mut [u8]) -> PrfState;

    /// Decrypts a record in place and authenticates nothing.
    ///
    /// `body` is content ‖ own tag of 16 bytes if the type is not 23 ‖
    /// `aggregate_len` bytes, a check byte included. The first byte tells the type, and exactly the
    /// content is decrypted. `None`: too short for that, or longer than a
    /// record may be.
    fn open(&self, record: Record<'_>, body: &mut [u8], aggregate_len: usize) -> Option<Opened>;

    /// As [`Protection::mask`].
    fn mask(&self, sample: &Block) -> [u8; 2];
}
