//! LightMAC of whole messages, in batches, and with a long output.

use crate::hash::Hasher;
use crate::limits::{BatchError, MessageTooLong, ParameterError, VerifyError};
use cipher::{Block, BlockCipherEncrypt, Key, KeyInit};
use core::fmt;
use subtle::ConstantTimeEq;
use zeroize::Zeroize;

/// LightMAC with two independent keys K1 and K2.
///
/// The theorems do not hold for keys that are equal or related.
#[derive(Clone)]
pub struct LightMac<C: BlockCipherEncrypt> {
    hasher: Hasher<C>,
    last: C,
    tag_bits: u32,
}

impl<C: BlockCipherEncrypt + KeyInit + 'static> LightMac<C> {
    /// A MAC with a counter of s = `counter_bits` bits and tags of t = `tag_bits` bits.
    ///
    /// # Errors
    ///
    /// Fails if the cipher's block does not have 4 to 16 bytes, s is not from 1 to n/2, or t is not
    /// from 1 to n.
    pub fn new(
        k1: &Key<C>,
        k2: &Key<C>,
        counter_bits: u32,
        tag_bits: u32,
    ) -> Result<Self, ParameterError> {
        Self::from_parts(Hasher::new(k1, counter_bits)?, C::new(k2), tag_bits)
    }
}

impl<C: BlockCipherEncrypt + 'static> LightMac<C> {
    /// A MAC from a hasher with K1 and a cipher with K2.
    ///
    /// # Errors
    ///
    /// Fails if t is not from 1 to n.
    pub fn from_parts(hasher: Hasher<C>, last: C, tag_bits: u32) -> Result<Self, ParameterError> {
        if tag_bits == 0 || tag_bits as usize > C::block_size() * 8 {
            return Err(ParameterError::TagBits);
        }
        Ok(Self { hasher, last, tag_bits })
    }

    /// The hasher, for callers that need V.
    pub fn hasher(&self) -> &Hasher<C> {
        &self.hasher
    }

    /// The tag length t in bits.
    pub fn tag_bits(&self) -> u32 {
        self.tag_bits
    }

    /// The tag of the concatenation of `parts`.
    ///
    /// # Errors
    ///
    /// Fails if the message is too long for the counter.
    pub fn tag(&self, parts: &[&[u8]]) -> Result<Tag, MessageTooLong> {
        let mut block = Block::<C>::default();
        self.hasher.add_parts(parts, &mut block)?;
        self.last.encrypt_block(&mut block);
        Ok(Tag::leading(&block, self.tag_bits))
    }

    /// The tag of the message whose state is `v`.
    pub fn finalize(&self, v: &Block<C>) -> Tag {
        let mut block = Block::<C>::default();
        self.last.encrypt_block_b2b(v, &mut block);
        Tag::leading(&block, self.tag_bits)
    }

    /// Writes the whole last blocks E_K2(V) of `messages` to `blocks`, which must have the same
    /// length. A tag is the leading t bits of a block ([`Tag::leading`]).
    ///
    /// # Errors
    ///
    /// Fails if the lengths differ or a message is too long. The blocks are then meaningless.
    pub fn tag_many(&self, messages: &[&[u8]], blocks: &mut [Block<C>]) -> Result<(), BatchError> {
        self.hasher.hash_many(messages, blocks)?;
        self.last.encrypt_blocks(blocks);
        Ok(())
    }

    /// Compares the message's tag with `tag` in constant time. `tag` has ⌈t/8⌉ bytes, with zeros
    /// behind the t-th bit.
    ///
    /// # Errors
    ///
    /// Fails if the tag is not the message's, or if the message is too long to have a tag.
    pub fn verify(&self, parts: &[&[u8]], tag: &[u8]) -> Result<(), VerifyError> {
        let expected = self.tag(parts).map_err(|_| VerifyError)?;
        if expected.as_bytes().ct_eq(tag).into() { Ok(()) } else { Err(VerifyError) }
    }
}

impl<C: BlockCipherEncrypt> fmt::Debug for LightMac<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LightMac")
            .field("hasher", &self.hasher)
            .field("tag_bits", &self.tag_bits)
            .finish_non_exhaustive()
    }
}

/// LightMAC with `R` output blocks. Block i is E_{K2,i}(V), with a key of its own.
///
/// V is computed once. As a pseudorandom function with an output of R·n bits, for q messages, the
/// first term of Theorem 1 becomes (1 + ε)·((R + 1)/2)·q²/2^n. It consists of one collision of
/// states (q²/2^(n+1)), and of the exchange of a permutation for a random function for each of the
/// R keys.
#[derive(Clone)]
pub struct LongLightMac<C: BlockCipherEncrypt, const R: usize> {
    hasher: Hasher<C>,
    last: [C; R],
}

impl<C: BlockCipherEncrypt, const R: usize> LongLightMac<C, R> {
    /// A MAC from a hasher with K1 and ciphers with K2,0 … K2,R−1, which must all be independent.
    pub fn new(hasher: Hasher<C>, last: [C; R]) -> Self {
        Self { hasher, last }
    }

    /// The hasher, which computes V.
    pub fn hasher(&self) -> &Hasher<C> {
        &self.hasher
    }

    /// Output block `i` of the message whose state is `v`; `None` when `i` ≥ R.
    pub fn finalize(&self, i: usize, v: &Block<C>) -> Option<Block<C>> {
        let mut block = v.clone();
        self.last.get(i)?.encrypt_block(&mut block);
        Some(block)
    }
}

impl<C: BlockCipherEncrypt, const R: usize> fmt::Debug for LongLightMac<C, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LongLightMac")
            .field("hasher", &self.hasher)
            .field("blocks", &R)
            .finish_non_exhaustive()
    }
}

/// A tag of 1 to 128 bits. It is compared in constant time.
#[derive(Clone, Copy)]
pub struct Tag {
    /// The tag's bits from the first byte on, with zeros behind the last bit.
    bytes: [u8; 16],
    bits: u8,
}

impl Tag {
    /// The leading `bits` bits of `block`, or the whole block if it is shorter.
    ///
    /// Bytes of `block` beyond the 16th are ignored.
    pub fn leading(block: &[u8], bits: u32) -> Self {
        let mut bytes = [0; 16];
        let whole = block.len().min(16);
        bytes[..whole].copy_from_slice(&block[..whole]);
        let bits = bits.min(whole as u32 * 8);
        let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
        Self { bytes: (u128::from_be_bytes(bytes) & mask).to_be_bytes(), bits: bits as u8 }
    }

    /// The tag's ⌈t/8⌉ bytes. The bits behind the t-th are zero.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.bits).div_ceil(8)]
    }

    /// The tag length t in bits.
    pub fn bits(&self) -> u32 {
        u32::from(self.bits)
    }
}

impl PartialEq for Tag {
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits && self.bytes.ct_eq(&other.bytes).into()
    }
}

impl Eq for Tag {}

impl Zeroize for Tag {
    fn zeroize(&mut self) {
        self.bytes.zeroize();
    }
}

/// Does not print the tag, because the expected tag of a forged message must stay secret.
impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tag").field("bits", &self.bits).finish_non_exhaustive()
    }
}
