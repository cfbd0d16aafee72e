//! AES-NI and PCLMULQDQ: one block in each register.

use super::{BLOCK, GROUP, Keys, field, kernel};
use core::arch::x86_64::*;

type Register = __m128i;
/// Number of blocks in a register.
const BLOCKS: usize = 1;

kernel! {
    /// AES-GCM with `R` round keys by AES-NI and PCLMULQDQ.
    AesNi, "aes,pclmulqdq,sse4.1"
}

/// Whether the processor has the instructions.
fn detected() -> bool {
    super::keys::detected()
}

/// The counter blocks after `first`, with the counter in little endian.
#[target_feature(enable = "aes,pclmulqdq,sse4.1")]
#[inline]
fn counters(first: __m128i) -> Register {
    _mm_insert_epi32::<3>(first, 2)
}

/// The counters of the next register.
#[target_feature(enable = "aes,pclmulqdq,sse4.1")]
#[inline]
fn advance(counters: Register) -> Register {
    _mm_add_epi32(counters, _mm_set_epi32(1, 0, 0, 0))
}

/// Counter blocks as they are encrypted: with the counter in big endian.
#[target_feature(enable = "aes,pclmulqdq,sse4.1")]
#[inline]
fn counter_blocks(counters: Register) -> Register {
    _mm_shuffle_epi8(counters, _mm_set_epi64x(0x0c0d_0e0f_0b0a_0908, 0x0706_0504_0302_0100))
}

#[target_feature(enable = "aes,pclmulqdq,sse4.1")]
#[inline]
fn zero() -> Register {
    _mm_setzero_si128()
}

/// A register with `block` in every position.
#[target_feature(enable = "aes,pclmulqdq,sse4.1")]
#[inline]
fn splat(block: __m128i) -> Register {
    block
}

/// A register with `block` in the first position, and zeros.
#[target_feature(enable = "aes,pclmulqdq,sse4.1")]
#[inline]
fn widen(block: __m128i) -> Register {
    block
}

#[target_feature(enable = "aes,pclmulqdq,sse4.1")]
#[inline]
fn xor(a: Register, b: Register) -> Register {
    _mm_xor_si128(a, b)
}

#[target_feature(enable = "aes,pclmulqdq,sse4.1")]
#[inline]
fn round(blocks: Register, key: Register) -> Register {
    _mm_aesenc_si128(blocks, key)
}

#[target_feature(enable = "aes,pclmulqdq,sse4.1")]
#[inline]
fn last_round(blocks: Register, key: Register) -> Register {
    _mm_aesenclast_si128(blocks, key)
}

/// The order of the bytes of each block, reversed.
#[target_feature(enable = "aes,pclmulqdq,sse4.1")]
#[inline]
fn reverse(blocks: Register) -> Register {
    field::reverse(blocks)
}

/// Multiplies a half of each block without carries: bit 0 of `HALVES` chooses that of `a`, bit 4 that
/// of `b`.
#[target_feature(enable = "aes,pclmulqdq,sse4.1")]
#[inline]
fn multiply<const HALVES: i32>(a: Register, b: Register) -> Register {
    _mm_clmulepi64_si128::<HALVES>(a, b)
}

/// The sum of a register's blocks.
#[target_feature(enable = "aes,pclmulqdq,sse4.1")]
#[inline]
fn fold(blocks: Register) -> __m128i {
    blocks
}

/// Keeps the first `bytes` bytes, of which there may be more than the register has, and makes the
/// others zero.
#[target_feature(enable = "aes,pclmulqdq,sse4.1")]
#[inline]
fn keep(blocks: Register, bytes: usize) -> Register {
    let places = _mm_set_epi64x(0x0f0e_0d0c_0b0a_0908, 0x0706_0504_0302_0100);
    let end = _mm_set1_epi8(bytes.min(BLOCK) as i8);
    _mm_and_si128(blocks, _mm_cmpgt_epi8(end, places))
}

/// The first bytes of `from`, as many as there are and fit, and zeros.
#[target_feature(enable = "aes,pclmulqdq,sse4.1")]
#[inline]
fn load(from: &[u8]) -> Register {
    field::load_part(from)
}

/// Writes the first bytes of a register, as many as fit.
#[target_feature(enable = "aes,pclmulqdq,sse4.1")]
#[inline]
fn store(blocks: Register, to: &mut [u8]) {
    if let Some(to) = to.first_chunk_mut::<BLOCK>() {
        // SAFETY: the array is as long as the register.
        unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), blocks) }
        return;
    }
    let high = _mm_extract_epi64::<1>(blocks) as u64;
    let bytes = u128::from(_mm_cvtsi128_si64(blocks) as u64) | u128::from(high) << 64;
    to.iter_mut().zip(bytes.to_le_bytes()).for_each(|(to, byte)| *to = byte);
}
