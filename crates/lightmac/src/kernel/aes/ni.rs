//! AES-NI: a block a register.

use super::{BLOCK, COUNTER_PLACES, RoundKeys, WIDTH, kernel, padded};
use crate::kernel::Native;
use cipher::consts::{U8, U16};
use cipher::inout::{InOut, InOutBuf};
use cipher::typenum::Unsigned;
use cipher::{Block, BlockCipherEncBackend, BlockSizeUser, ParBlocks, ParBlocksSizeUser};
use core::arch::x86_64::*;

/// Blocks in one call for a batch.
type Batch = U8;
type Register = __m128i;
/// Blocks a register.
const BLOCKS: usize = 1;

kernel! {
    /// AES with `R` round keys by AES-NI.
    AesNi, "aes,sse4.1"
}

/// Whether the processor has the instructions.
pub(super) fn detected() -> bool {
    super::keys::detected()
}

/// Where counters and shares go within a block, for a counter length.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) counter_bytes: usize,
    /// Shuffles a counter to its place.
    pub(super) counter: __m128i,
    /// Ones where the share is.
    pub(super) share: __m128i,
}

/// The layout for counters of `counter_bytes`, 1 to 8.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
pub(super) fn layout(counter_bytes: usize) -> Layout {
    let share = (u128::MAX << (8 * counter_bytes)).to_le_bytes();
    Layout {
        counter_bytes,
        counter: load_one(&COUNTER_PLACES[counter_bytes]),
        share: load_one(&share),
    }
}

/// `first`, `first + 1`, … as numbers, one a block.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
fn counters(first: u64) -> Register {
    _mm_cvtsi64_si128(first as i64)
}

/// The counters of the next register.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
fn advance(counters: Register) -> Register {
    _mm_add_epi64(counters, _mm_cvtsi64_si128(1))
}

/// The share at `at` in its place of a block, anything before it.
#[target_feature(enable = "sse4.1")]
#[inline]
pub(super) fn share(message: &[u8], at: usize, counter_bytes: usize) -> __m128i {
    let mut block = [0; BLOCK];
    let bytes = match at.checked_sub(counter_bytes) {
        // What stands before the share in the message fills the counter's place.
        Some(at) => message[at..].first_chunk().expect("the share is whole"),
        None => {
            block[counter_bytes..].copy_from_slice(&message[at..at + BLOCK - counter_bytes]);
            &block
        }
    };
    // SAFETY: the array is as long as the register.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// The blocks of `counters` and the shares from `at` on in `message`, added to `key`:
/// `count` of them, 1 to [`BLOCKS`], anything behind.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
fn blocks(
    layout: &Layout,
    counters: Register,
    message: &[u8],
    at: usize,
    _count: usize,
    key: Register,
) -> Register {
    let share = _mm_and_si128(share(message, at, layout.counter_bytes), layout.share);
    xor(xor(share, _mm_shuffle_epi8(counters, layout.counter)), key)
}

/// What is left of a message, padded.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
fn remainder(rest: &[u8]) -> __m128i {
    load_one(&padded(rest).to_le_bytes())
}

#[target_feature(enable = "aes,sse4.1")]
#[inline]
fn zero() -> Register {
    _mm_setzero_si128()
}

/// `block` in every place of a register.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
fn splat(block: __m128i) -> Register {
    block
}

#[target_feature(enable = "aes,sse4.1")]
#[inline]
fn xor(a: Register, b: Register) -> Register {
    _mm_xor_si128(a, b)
}

#[target_feature(enable = "aes,sse4.1")]
#[inline]
fn round(blocks: Register, key: Register) -> Register {
    _mm_aesenc_si128(blocks, key)
}

#[target_feature(enable = "aes,sse4.1")]
#[inline]
fn last_round(blocks: Register, key: Register) -> Register {
    _mm_aesenclast_si128(blocks, key)
}

/// The sum of a register's blocks.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
fn fold(blocks: Register) -> __m128i {
    blocks
}

/// The first `count` blocks, 1 to [`BLOCKS`], zeros behind.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
fn keep(blocks: Register, _count: usize) -> Register {
    blocks
}

/// # Safety
/// `from` is readable for a register's length.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
unsafe fn load(from: *const u8) -> Register {
    // SAFETY: the caller's promise.
    unsafe { _mm_loadu_si128(from.cast()) }
}

/// # Safety
/// `to` is writable for a register's length.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
unsafe fn store(blocks: Register, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe { _mm_storeu_si128(to.cast(), blocks) }
}
