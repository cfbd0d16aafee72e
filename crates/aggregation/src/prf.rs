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
/// the receiver, and no tag has any of its bits: what is chosen says nothing of what is genuine.
pub const RANK_BLOCK: u8 = 254;

/// Output block of check bytes, used for nothing else.
pub const CHECK_BLOCK: u8 = 253;

/// What a pseudorandom function remembers of a record, from which it computes any
/// output block: LightMAC's V, CCM's full tag U, HMAC's block 0.
///
/// Secret. Two records of one number with equal states are taken for the same record.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct PrfState(Erasable);

/// Erased in one store, not byte by byte.
#[derive(Clone, Copy, Default)]
struct Erasable(Block);

impl DefaultIsZeroes for Erasable {}

impl PrfState {
    /// What stands where there is none.
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

/// Whether a number is 0, in constant time. As one word, not byte by byte.
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
/// Its input must be an injective encoding of record number, header with the number
/// in clear, content type and content; direction, epoch and scheme are bound by the
/// key. Different indices must give independent blocks. LightMAC, CMAC, CCM tags
/// and HMAC qualify; GCM, GMAC and Poly1305 do not.
pub trait Prf {
    /// Output block `index` of the record whose state is `state`.
    fn block(&self, state: &PrfState, index: u8) -> Block;
}

/// A tag over the records `first … first + count − 1`: the XOR of their blocks
/// [`CLOSING_BLOCK`]. It travels in a record of its own, under a full tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClosingTag {
    /// Number of the first record covered.
    pub first: u64,
    /// How many consecutive records are covered, at least 1.
    pub count: u8,
    /// The XOR of their closing blocks. Not secret.
    pub tag: Block,
}

/// Block `index` of a record together with the aggregate that it carries: whoever alters either of
/// the two gets another block.
pub(crate) fn bound_block<P: Prf + ?Sized>(
    prf: &P,
    index: u8,
    state: &PrfState,
    aggregate: Block,
) -> Block {
    // CBC-MAC over two blocks, the record's state and the aggregate. The state itself ⊕ the
    // aggregate would not do: LightMAC's states of two records may differ by a known value.
    let inner = u128::from_ne_bytes(prf.block(state, index)) ^ u128::from_ne_bytes(aggregate);
    prf.block(&PrfState::from(inner.to_ne_bytes()), index)
}
