//! What all kernels compute in 128-bit registers: single blocks, and the field of the hash.
//!
//! GHASH is computed as POLYVAL (RFC 8452, appendix A), whose bits are in the order of the
//! processor's multiplication: blocks are reversed, and the key is multiplied by x. A product of two
//! elements has 256 bits and stands for the product divided by x^128.

use super::{BLOCK, GROUP};
use core::arch::x86_64::*;

/// The upper half of x^127 + x^126 + x^121: the field's polynomial without x^128 and 1.
const POLYNOMIAL: u64 = 0xc200_0000_0000_0000;

/// A sum of products of 256 bits that is not reduced: low + middle · x^64 + high · x^128.
#[derive(Clone, Copy)]
pub(super) struct Product {
    pub(super) low: __m128i,
    pub(super) middle: __m128i,
    pub(super) high: __m128i,
}

impl Product {
    #[target_feature(enable = "sse2")]
    #[inline]
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            low: _mm_xor_si128(self.low, other.low),
            middle: _mm_xor_si128(self.middle, other.middle),
            high: _mm_xor_si128(self.high, other.high),
        }
    }

    /// The element of the field: half of a product is cancelled by a multiple of the polynomial, 64
    /// bits at a time.
    #[target_feature(enable = "pclmulqdq,sse2")]
    #[inline]
    pub(super) fn reduced(self) -> __m128i {
        let polynomial = _mm_set_epi64x(0, POLYNOMIAL as i64);
        let mut low = _mm_xor_si128(self.low, _mm_slli_si128::<8>(self.middle));
        let high = _mm_xor_si128(self.high, _mm_srli_si128::<8>(self.middle));
        for _ in 0..2 {
            let multiple = _mm_clmulepi64_si128::<0x00>(low, polynomial);
            low = _mm_xor_si128(_mm_shuffle_epi32::<0x4e>(low), multiple);
        }
        _mm_xor_si128(low, high)
    }
}

#[target_feature(enable = "pclmulqdq,sse2")]
#[inline]
pub(super) fn product(a: __m128i, b: __m128i) -> Product {
    let one = _mm_clmulepi64_si128::<0x01>(a, b);
    let other = _mm_clmulepi64_si128::<0x10>(a, b);
    Product {
        low: _mm_clmulepi64_si128::<0x00>(a, b),
        middle: _mm_xor_si128(one, other),
        high: _mm_clmulepi64_si128::<0x11>(a, b),
    }
}

/// `powers[at]`.
#[target_feature(enable = "sse2")]
#[inline]
pub(super) fn power(powers: &[[u8; BLOCK]; GROUP], at: usize) -> __m128i {
    load(&powers[at])
}

/// The hash of a header.
#[target_feature(enable = "pclmulqdq,sse4.1")]
#[inline]
pub(super) fn hash(powers: &[[u8; BLOCK]; GROUP], header: &[u8]) -> __m128i {
    let power = power(powers, GROUP - 1);
    let mut hash = _mm_setzero_si128();
    for part in header.chunks(BLOCK) {
        let block = _mm_xor_si128(hash, reverse(load_part(part)));
        hash = product(block, power).reduced();
    }
    hash
}

/// The last block that is hashed: the lengths in bits.
#[target_feature(enable = "sse2")]
#[inline]
pub(super) fn lengths(header: usize, text: usize) -> __m128i {
    _mm_set_epi64x(8 * header as i64, 8 * text as i64)
}

/// The tag: the hash, and the first block of the key stream.
#[target_feature(enable = "sse4.1")]
#[inline]
pub(super) fn tag(hash: __m128i, pad: __m128i) -> [u8; BLOCK] {
    let mut tag = [0; BLOCK];
    // SAFETY: the array is as long as the register.
    unsafe { _mm_storeu_si128(tag.as_mut_ptr().cast(), _mm_xor_si128(reverse(hash), pad)) }
    tag
}

/// The counter block of the tag: the nonce and the number 1.
#[target_feature(enable = "sse4.1")]
#[inline]
pub(super) fn first_block(nonce: &[u8; 12]) -> __m128i {
    let [a, b, c] = [0, 4, 8].map(|at| [nonce[at], nonce[at + 1], nonce[at + 2], nonce[at + 3]]);
    let [a, b, c] = [a, b, c].map(i32::from_le_bytes);
    _mm_set_epi32(1 << 24, c, b, a)
}

/// Encrypts one block.
#[target_feature(enable = "aes,sse2")]
#[inline]
pub(super) fn encrypt<const R: usize>(keys: &[[u8; BLOCK]; R], block: __m128i) -> __m128i {
    let mut block = _mm_xor_si128(block, load(&keys[0]));
    for key in &keys[1..R - 1] {
        block = _mm_aesenc_si128(block, load(key));
    }
    _mm_aesenclast_si128(block, load(&keys[R - 1]))
}

/// As [`encrypt`], for a block in memory.
#[target_feature(enable = "aes,sse2")]
pub(super) fn encrypt_bytes<const R: usize>(
    keys: &[[u8; BLOCK]; R],
    block: &[u8; BLOCK],
) -> [u8; BLOCK] {
    let mut encrypted = [0; BLOCK];
    // SAFETY: the array is as long as the register.
    unsafe { _mm_storeu_si128(encrypted.as_mut_ptr().cast(), encrypt(keys, load(block))) }
    encrypted
}

/// The order of the bytes of a block, reversed.
#[target_feature(enable = "sse4.1")]
#[inline]
pub(super) fn reverse(block: __m128i) -> __m128i {
    _mm_shuffle_epi8(block, _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f))
}

#[target_feature(enable = "sse2")]
#[inline]
pub(super) fn load(block: &[u8; BLOCK]) -> __m128i {
    // SAFETY: the array is as long as the register.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

/// At most a block, and zeros after it. Copies of a length that is not known would be calls.
#[target_feature(enable = "sse2")]
#[inline]
pub(super) fn load_part(part: &[u8]) -> __m128i {
    if let Some(block) = part.first_chunk() {
        return load(block);
    }
    let bits = 8 * part.len();
    let number = if let (Some(low), Some(high)) = (part.first_chunk(), part.last_chunk()) {
        let (low, high) = (u64::from_le_bytes(*low), u64::from_le_bytes(*high));
        u128::from(low) | u128::from(high) << (bits - 64)
    } else if let (Some(low), Some(high)) = (part.first_chunk(), part.last_chunk()) {
        let (low, high) = (u32::from_le_bytes(*low), u32::from_le_bytes(*high));
        u128::from(u64::from(low) | u64::from(high) << (bits - 32))
    } else {
        part.iter().rev().fold(0, |number, byte| number << 8 | u128::from(*byte))
    };
    _mm_set_epi64x((number >> 64) as i64, number as i64)
}
