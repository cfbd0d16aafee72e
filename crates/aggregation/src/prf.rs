//! What a scheme needs of a MAC: a pseudorandom function with several output blocks.

use core::fmt;
use subtle::ConstantTimeEq;
use zeroize::{DefaultIsZeroes, Zeroize, ZeroizeOnDrop};

/// One 128-bit output block.
pub type Block = [u8; 16];

/// Output block of ordinary tags.
pub const TAG_BLOCK: u8 = 0;

/// Output block of closing tags, used for nothing else.
pub const CLOSING_BLOCK: u8 = 255;

/// Output block by which a receiver chooses among rivals, used for nothing else. It never leaves
/// the receiver, and no tag contains any of its bits, so the choice says nothing about which record
/// is genuine.
pub const RANK_BLOCK: u8 = 254;

/// Output block of check bytes, used for nothing else.
pub const CHECK_BLOCK: u8 = 253;

/// The state that a pseudorandom function keeps of a record, from which it computes any output
/// block: LightMAC's V, CCM's full tag U, HMAC's block 0.
///
/// The state is secret. Two records of one number with equal states are treated as the same record.
#[derive(Clone, Zeroize)]
pub struct PrfState(Erasable);

impl Drop for PrfState {
    #[cfg_attr(feature = "fast", inline)]
    #[cfg_attr(not(feature = "fast"), inline(never))]
    fn drop(&mut self) {
        self.zeroize();
    }
}

impl ZeroizeOnDrop for PrfState {}

/// A block that is erased in one store, not byte by byte.
#[derive(Clone, Copy, Default)]
struct Erasable(Block);

impl DefaultIsZeroes for Erasable {}

impl PrfState {
    /// A value for places that hold no state.
    pub(crate) const NONE: Self = Self(Erasable([0; 16]));

    /// The state's bytes, for a [`Prf`].
    pub const fn as_bytes(&self) -> &Block {
        &self.0.0
    }
}

impl From<Block> for PrfState {
    fn from(state: Block) -> Self {
        Self(Erasable(state))
    }
}

impl ConstantTimeEq for PrfState {
    fn ct_eq(&self, other: &Self) -> subtle::Choice {
        let number = |state: &Self| u128::from_ne_bytes(*state.as_bytes());
        is_zero(number(self) ^ number(other))
    }
}

/// Whether a number is 0, in constant time. It is compared as one word, not byte by byte.
pub(crate) fn is_zero(number: u128) -> subtle::Choice {
    (number as u64 | (number >> 64) as u64).ct_eq(&0)
}

impl fmt::Debug for PrfState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrfState").finish_non_exhaustive()
    }
}

/// A keyed pseudorandom function over records.
///
/// Its input must be an injective encoding of the record number, the header with the number in
/// clear, the content type and the content. The key binds direction, epoch and scheme. Different
/// indices must give independent blocks. LightMAC, CMAC, CCM tags and HMAC qualify; GCM, GMAC and
/// Poly1305 do not.
pub trait Prf {
    /// Output block `index` of the record whose state is `state`.
    fn block(&self, state: &PrfState, index: u8) -> Block;
}

/// A tag over the records `first … first + count − 1`: the XOR of their output blocks
/// [`CLOSING_BLOCK`]. It is sent in a record of its own, under a full tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosingTag {
    /// Number of the first record covered.
    pub first: u64,
    /// Number of consecutive records covered, at least 1.
    pub count: u8,
    /// The XOR of their closing blocks. It is not secret.
    pub tag: Block,
}

/// Output block `index` of a record, bound to the aggregate that it carries: if either of the two
/// is altered, the block is another one.
pub(crate) fn bound_block<P: Prf + ?Sized>(
    prf: &P,
    index: u8,
    state: &PrfState,
    aggregate: Block,
) -> Block {
    // This is CBC-MAC over two blocks: the record's state and the aggregate. The state XOR the
    // aggregate would not suffice, because the LightMAC states of two records may differ by a known
    // value.
    let inner = u128::from_ne_bytes(prf.block(state, index)) ^ u128::from_ne_bytes(aggregate);
    prf.block(&PrfState::from(inner.to_ne_bytes()), index)
}
