//! AES-NI: one block in each register.

use super::{BLOCK, COUNTER_PLACES, RoundKeys, SHARE_PLACES, WIDTH, kernel, number, padded};
use crate::kernel::Native;
use cipher::consts::{U8, U16};
use cipher::inout::{InOut, InOutBuf};
use cipher::typenum::Unsigned;
use cipher::{Block, BlockCipherEncBackend, BlockSizeUser, ParBlocks, ParBlocksSizeUser};
use core::arch::x86_64::*;

/// Number of blocks in one call for a batch.
type Batch = U8;
type Register = __m128i;
/// Number of blocks in a register.
const BLOCKS: usize = 1;
/// Loading a register's shares reads this many times the counter's length beyond them.
const SPARE: usize = 1;

kernel! {
    /// AES with `R` round keys by AES-NI.
    AesNi, "aes,sse4.1"
}

/// Whether the processor has the instructions.
pub(super) fn detected() -> bool {
    super::keys::detected()
}

/// The positions of counters and shares within a block, for one counter length.
#[derive(Clone, Copy)]
struct Layout {
    /// Shuffles a counter to its position.
    counter: __m128i,
    /// Shuffles a share to its position.
    share: __m128i,
}

/// The layout for counters of `counter_bytes` bytes, 1 to 8.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
fn layout(counter_bytes: usize) -> Layout {
    Layout {
        counter: load_one(&COUNTER_PLACES[counter_bytes]),
        share: load_one(&SHARE_PLACES[counter_bytes]),
    }
}

/// The numbers `first`, `first + 1`, …, one for each block of a register.
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

/// Loads the shares of a register from `at` on. The first bytes of each block hold its share.
///
/// # Safety
///
/// At `at`, `message` has [`BLOCKS`] shares followed by [`SPARE`] times the counter's length.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
unsafe fn load_shares(message: &[u8], at: usize, _share: usize) -> Register {
    // SAFETY: the lengths of a share and of a counter add up to a block.
    unsafe { load(message.as_ptr().add(at)) }
}

/// The first `count` shares of `rest`, 1 to [`BLOCKS`]. The other blocks have arbitrary content.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
fn last_shares(rest: &[u8], share: usize, _count: usize) -> Register {
    last_share(rest, share)
}

/// The first share of `rest`, of which less than a block may be left.
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

/// The blocks made of `counters` and `shares`, added to `key`.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
fn blocks(layout: &Layout, counters: Register, shares: Register, key: Register) -> Register {
    let shares = _mm_shuffle_epi8(shares, layout.share);
    xor(xor(shares, _mm_shuffle_epi8(counters, layout.counter)), key)
}

/// The padded remainder of a message.
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

/// A register with `block` in every position.
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

/// Keeps the first `count` blocks, 1 to [`BLOCKS`], and makes the others zero.
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
    // SAFETY: the caller guarantees that this memory may be accessed.
    unsafe { _mm_loadu_si128(from.cast()) }
}

/// # Safety
/// `to` is writable for a register's length.
#[target_feature(enable = "aes,sse4.1")]
#[inline]
unsafe fn store(blocks: Register, to: *mut u8) {
    // SAFETY: the caller guarantees that this memory may be accessed.
    unsafe { _mm_storeu_si128(to.cast(), blocks) }
}

/// The kernel for the MACs that LightMAC is compared with.
#[cfg(feature = "internals")]
mod comparison {
    use super::super::comparison::{FIRST, SECOND, SUM, comparison};
    use super::*;
    use crate::kernel::comparison::{ComparisonKernel, Half};

    comparison! { AesNi, "aes,sse4.1" }

    /// Loads the selected block of each of [`BLOCKS`] pairs, or the pairs' sums.
    ///
    /// # Safety
    ///
    /// `from` is readable for [`BLOCKS`] pairs.
    #[target_feature(enable = "aes,sse4.1")]
    #[inline]
    unsafe fn load_halves<const HALF: usize>(from: *const u8) -> Register {
        // SAFETY: the caller guarantees that this memory may be accessed.
        let [first, second] = unsafe { [load(from), load(from.add(BLOCK))] };
        match HALF {
            FIRST => first,
            SECOND => second,
            _ => xor(first, second),
        }
    }
}
