//! AES-NI: a block a register.

use super::{
    BLOCK, COUNTER_PLACES, FIRST, RoundKeys, SECOND, SHARE_PLACES, SUM, WIDTH, kernel, number,
    padded,
};
use crate::kernel::{Half, Native};
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
/// Counters whose length is read behind a register's shares.
const SPARE: usize = 1;

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
struct Layout {
    /// Shuffles a counter to its place.
    counter: __m128i,
    /// Shuffles a share to its place.
    share: __m128i,
}

/// The layout for counters of `counter_bytes`, 1 to 8.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
fn layout(counter_bytes: usize) -> Layout {
    Layout {
        counter: load_one(&COUNTER_PLACES[counter_bytes]),
        share: load_one(&SHARE_PLACES[counter_bytes]),
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

/// The shares from `at` on, in front of their blocks' places.
///
/// # Safety
/// `message` has [`BLOCKS`] shares there and [`SPARE`] times a counter's bytes behind.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
unsafe fn load_shares(message: &[u8], at: usize, _share: usize) -> Register {
    // SAFETY: a share and a counter's bytes are a block.
    unsafe { load(message.as_ptr().add(at)) }
}

/// The first `count` shares of `rest`, 1 to [`BLOCKS`], with anything behind.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
fn last_shares(rest: &[u8], share: usize, _count: usize) -> Register {
    last_share(rest, share)
}

/// The first share of `rest`, where a block's length may not be left.
#[target_feature(enable = "sse4.1")]
#[inline]
pub(super) fn last_share(rest: &[u8], share: usize) -> __m128i {
    word(number(&rest[..share]))
}

/// A number in a register.
#[target_feature(enable = "sse4.1")]
#[inline]
pub(super) fn word(number: u128) -> __m128i {
    _mm_set_epi64x((number >> 64) as i64, number as i64)
}

/// The blocks of `counters` and `shares`, added to `key`.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
fn blocks(layout: &Layout, counters: Register, shares: Register, key: Register) -> Register {
    let shares = _mm_shuffle_epi8(shares, layout.share);
    xor(xor(shares, _mm_shuffle_epi8(counters, layout.counter)), key)
}

/// What is left of a message, padded.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
fn remainder(rest: &[u8]) -> __m128i {
    word(padded(rest))
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

/// One block of each of [`BLOCKS`] pairs, or their sum.
///
/// # Safety
/// `from` is readable for as many pairs.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
unsafe fn load_halves<const HALF: usize>(from: *const u8) -> Register {
    // SAFETY: the caller's promise.
    let [first, second] = unsafe { [load(from), load(from.add(BLOCK))] };
    match HALF {
        FIRST => first,
        SECOND => second,
        _ => xor(first, second),
    }
}
