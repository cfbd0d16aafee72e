//! VAES on 256-bit registers of two blocks each. It does not need AVX-512.

use super::ni::{last_share, word};
use super::{BLOCK, COUNTER_PLACES, RoundKeys, SHARE_PLACES, WIDTH, kernel, padded};
use crate::kernel::Native;
use cipher::consts::U16;
use cipher::inout::{InOut, InOutBuf};
use cipher::typenum::Unsigned;
use cipher::{Block, BlockCipherEncBackend, BlockSizeUser, ParBlocks, ParBlocksSizeUser};
use core::arch::x86_64::*;

/// Number of blocks in one call for a batch.
type Batch = U16;
type Register = __m256i;
/// Number of blocks in a register.
const BLOCKS: usize = 2;
/// Loading a register's shares reads this many times the counter's length beyond them.
const SPARE: usize = 1;

cpufeatures::new!(avx2, "aes", "avx2");

kernel! {
    /// AES with `R` round keys by VAES, two blocks in each register.
    Vaes256, "aes,avx2,vaes"
}

/// Whether the processor has the instructions.
pub(super) fn detected() -> bool {
    // SAFETY: every 64-bit processor has the instruction. Newer compilers know this.
    #[allow(unused_unsafe)]
    let leaf = || unsafe { __cpuid_count(7, 0) };
    // The crate `cpufeatures` also requires the operating system to save AVX-512's registers, which
    // are not used here.
    avx2::get() && leaf().ecx & 1 << 9 != 0
}

/// The positions of counters and shares within a block, for one counter length.
#[derive(Clone, Copy)]
struct Layout {
    /// Shuffles counters to their positions.
    counter: Register,
    /// Shuffles shares to their positions.
    share: Register,
}

#[target_feature(enable = "aes,avx2,vaes")]
#[inline]
fn layout(counter_bytes: usize) -> Layout {
    Layout {
        counter: splat(load_one(&COUNTER_PLACES[counter_bytes])),
        share: splat(load_one(&SHARE_PLACES[counter_bytes])),
    }
}

#[target_feature(enable = "aes,avx2,vaes")]
#[inline]
fn counters(first: u64) -> Register {
    _mm256_set_epi64x(0, first.wrapping_add(1) as i64, 0, first as i64)
}

#[target_feature(enable = "aes,avx2,vaes")]
#[inline]
fn advance(counters: Register) -> Register {
    _mm256_add_epi64(counters, _mm256_set_epi64x(0, 2, 0, 2))
}

/// # Safety
///
/// At `at`, `message` has [`BLOCKS`] shares followed by [`SPARE`] times the counter's length.
#[target_feature(enable = "aes,avx2,vaes")]
#[inline]
unsafe fn load_shares(message: &[u8], at: usize, share: usize) -> Register {
    // SAFETY: the lengths of a share and of a counter add up to a block, for both shares.
    unsafe {
        let from = message.as_ptr().add(at);
        _mm256_loadu2_m128i(from.add(share).cast(), from.cast())
    }
}

#[target_feature(enable = "aes,avx2,vaes")]
#[inline]
fn last_shares(rest: &[u8], share: usize, count: usize) -> Register {
    let low = last_share(rest, share);
    let high = if count < BLOCKS { low } else { last_share(&rest[share..], share) };
    _mm256_set_m128i(high, low)
}

#[target_feature(enable = "aes,avx2,vaes")]
#[inline]
fn blocks(layout: &Layout, counters: Register, shares: Register, key: Register) -> Register {
    let shares = _mm256_shuffle_epi8(shares, layout.share);
    xor(xor(shares, _mm256_shuffle_epi8(counters, layout.counter)), key)
}

#[target_feature(enable = "aes,avx2,vaes")]
#[inline]
fn remainder(rest: &[u8]) -> __m128i {
    word(padded(rest))
}

#[target_feature(enable = "aes,avx2,vaes")]
#[inline]
fn zero() -> Register {
    _mm256_setzero_si256()
}

#[target_feature(enable = "aes,avx2,vaes")]
#[inline]
fn splat(block: __m128i) -> Register {
    _mm256_broadcastsi128_si256(block)
}

#[target_feature(enable = "aes,avx2,vaes")]
#[inline]
fn xor(a: Register, b: Register) -> Register {
    _mm256_xor_si256(a, b)
}

#[target_feature(enable = "aes,avx2,vaes")]
#[inline]
fn round(blocks: Register, key: Register) -> Register {
    _mm256_aesenc_epi128(blocks, key)
}

#[target_feature(enable = "aes,avx2,vaes")]
#[inline]
fn last_round(blocks: Register, key: Register) -> Register {
    _mm256_aesenclast_epi128(blocks, key)
}

#[target_feature(enable = "aes,avx2,vaes")]
#[inline]
fn fold(blocks: Register) -> __m128i {
    _mm_xor_si128(_mm256_castsi256_si128(blocks), _mm256_extracti128_si256::<1>(blocks))
}

#[target_feature(enable = "aes,avx2,vaes")]
#[inline]
fn keep(blocks: Register, count: usize) -> Register {
    if count < BLOCKS { _mm256_zextsi128_si256(_mm256_castsi256_si128(blocks)) } else { blocks }
}

/// # Safety
/// `from` is readable for a register's length.
#[target_feature(enable = "aes,avx2,vaes")]
#[inline]
unsafe fn load(from: *const u8) -> Register {
    // SAFETY: the caller guarantees that this memory may be accessed.
    unsafe { _mm256_loadu_si256(from.cast()) }
}

/// # Safety
/// `to` is writable for a register's length.
#[target_feature(enable = "aes,avx2,vaes")]
#[inline]
unsafe fn store(blocks: Register, to: *mut u8) {
    // SAFETY: the caller guarantees that this memory may be accessed.
    unsafe { _mm256_storeu_si256(to.cast(), blocks) }
}

/// The kernel for the MACs that LightMAC is compared with.
#[cfg(feature = "internals")]
mod comparison {
    use super::super::comparison::{FIRST, SECOND, SUM, comparison};
    use super::*;
    use crate::kernel::comparison::{ComparisonKernel, Half};

    comparison! { Vaes256, "aes,avx2,vaes" }

    /// Loads the selected block of each of [`BLOCKS`] pairs, or the pairs' sums.
    ///
    /// # Safety
    ///
    /// `from` is readable for [`BLOCKS`] pairs.
    #[target_feature(enable = "aes,avx2,vaes")]
    #[inline]
    unsafe fn load_halves<const HALF: usize>(from: *const u8) -> Register {
        // SAFETY: the caller guarantees that this memory may be accessed.
        let [low, high] = unsafe { [load(from), load(from.add(2 * BLOCK))] };
        let first = _mm256_permute2x128_si256::<0x20>(low, high);
        let second = _mm256_permute2x128_si256::<0x31>(low, high);
        match HALF {
            FIRST => first,
            SECOND => second,
            _ => xor(first, second),
        }
    }
}
