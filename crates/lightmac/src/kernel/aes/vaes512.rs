//! VAES on 512-bit registers of four blocks each.

use super::{BLOCK, COUNTER_PLACES, RoundKeys, WIDTH, kernel};
use crate::kernel::Native;
use cipher::consts::{U16, U64};
use cipher::inout::{InOut, InOutBuf};
use cipher::typenum::Unsigned;
use cipher::{Block, BlockCipherEncBackend, BlockSizeUser, ParBlocks, ParBlocksSizeUser};
use core::arch::x86_64::*;

/// Number of blocks in one call for a batch.
type Batch = U64;
type Register = __m512i;
/// Number of blocks in a register.
const BLOCKS: usize = 4;
/// Loading a register's shares reads this many times the counter's length beyond them.
const SPARE: usize = 4;

cpufeatures::new!(
    avx512,
    "aes",
    "avx2",
    "vaes",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "avx512vbmi",
    "bmi2"
);

kernel! {
    /// AES with `R` round keys by VAES, four blocks in each register.
    Vaes512, "aes,vaes,avx512f,avx512bw,avx512vl,avx512vbmi,bmi2"
}

/// Whether the processor has the instructions.
pub(super) fn detected() -> bool {
    avx512::get()
}

/// The positions of counters and shares within a register, for one counter length.
#[derive(Clone, Copy)]
struct Layout {
    /// Shuffles counters to their positions.
    counter: Register,
    /// Shuffles the bytes of four consecutive shares to their positions.
    share: Register,
    /// Selects the bytes of shares within a register.
    places: __mmask64,
}

/// The positions that the bytes of four shares move to: byte `j` of block `i` is byte `i·(16 − c) +
/// j − c` of the message, for counters of c bytes. The entries at the positions of counters are not
/// used.
const SHARE_PLACES: [[u8; 64]; 9] = {
    let mut all = [[0; 64]; 9];
    let mut counter_bytes = 0;
    while counter_bytes < all.len() {
        let mut at = 0;
        while at < 64 {
            let (i, j) = (at / BLOCK, at % BLOCK);
            if j >= counter_bytes {
                all[counter_bytes][at] = (i * (BLOCK - counter_bytes) + j - counter_bytes) as u8;
            }
            at += 1;
        }
        counter_bytes += 1;
    }
    all
};

#[target_feature(enable = "aes,vaes,avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
#[inline]
fn layout(counter_bytes: usize) -> Layout {
    let block = 0xffff_u64 & 0xffff << counter_bytes;
    Layout {
        counter: splat(load_one(&COUNTER_PLACES[counter_bytes])),
        // SAFETY: the array is as long as the register.
        share: unsafe { load(SHARE_PLACES[counter_bytes].as_ptr()) },
        places: block * 0x0001_0001_0001_0001,
    }
}

#[target_feature(enable = "aes,vaes,avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
#[inline]
fn counters(first: u64) -> Register {
    let first = _mm512_maskz_set1_epi64(0x55, first as i64);
    _mm512_add_epi64(first, _mm512_set_epi64(0, 3, 0, 2, 0, 1, 0, 0))
}

#[target_feature(enable = "aes,vaes,avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
#[inline]
fn advance(counters: Register) -> Register {
    _mm512_add_epi64(counters, _mm512_set_epi64(0, 4, 0, 4, 0, 4, 0, 4))
}

/// # Safety
///
/// At `at`, `message` has [`BLOCKS`] shares followed by [`SPARE`] times the counter's length.
#[target_feature(enable = "aes,vaes,avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
#[inline]
unsafe fn load_shares(message: &[u8], at: usize, _share: usize) -> Register {
    // SAFETY: the lengths of four shares and of four counters add up to four blocks.
    unsafe { load(message.as_ptr().add(at)) }
}

#[target_feature(enable = "aes,vaes,avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
#[inline]
fn last_shares(rest: &[u8], _share: usize, _count: usize) -> Register {
    let mask = _bzhi_u64(u64::MAX, rest.len().min(64) as u32);
    // SAFETY: a masked load reads only the selected bytes, which are in `rest`.
    unsafe { _mm512_maskz_loadu_epi8(mask, rest.as_ptr().cast()) }
}

#[target_feature(enable = "aes,vaes,avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
#[inline]
fn blocks(layout: &Layout, counters: Register, shares: Register, key: Register) -> Register {
    let shares = _mm512_maskz_permutexvar_epi8(layout.places, layout.share, shares);
    let counters = _mm512_shuffle_epi8(counters, layout.counter);
    // The sum of all three registers.
    _mm512_ternarylogic_epi64::<0x96>(shares, counters, key)
}

#[target_feature(enable = "aes,vaes,avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
#[inline]
fn remainder(rest: &[u8]) -> __m128i {
    let end = 1u32 << rest.len();
    // SAFETY: a masked load reads only the selected bytes, which are the at most 15 bytes of
    // `rest`.
    let bytes = unsafe { _mm_maskz_loadu_epi8((end - 1) as __mmask16, rest.as_ptr().cast()) };
    _mm_mask_blend_epi8(end as __mmask16, bytes, _mm_set1_epi8(-128))
}

#[target_feature(enable = "aes,vaes,avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
#[inline]
fn zero() -> Register {
    _mm512_setzero_si512()
}

#[target_feature(enable = "aes,vaes,avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
#[inline]
fn splat(block: __m128i) -> Register {
    _mm512_broadcast_i32x4(block)
}

#[target_feature(enable = "aes,vaes,avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
#[inline]
fn xor(a: Register, b: Register) -> Register {
    _mm512_xor_si512(a, b)
}

#[target_feature(enable = "aes,vaes,avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
#[inline]
fn round(blocks: Register, key: Register) -> Register {
    _mm512_aesenc_epi128(blocks, key)
}

#[target_feature(enable = "aes,vaes,avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
#[inline]
fn last_round(blocks: Register, key: Register) -> Register {
    _mm512_aesenclast_epi128(blocks, key)
}

#[target_feature(enable = "aes,vaes,avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
#[inline]
fn fold(blocks: Register) -> __m128i {
    let half =
        _mm256_xor_si256(_mm512_castsi512_si256(blocks), _mm512_extracti64x4_epi64::<1>(blocks));
    _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half))
}

#[target_feature(enable = "aes,vaes,avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
#[inline]
fn keep(blocks: Register, count: usize) -> Register {
    _mm512_maskz_mov_epi64(((1u32 << (2 * count)) - 1) as __mmask8, blocks)
}

/// # Safety
/// `from` is readable for a register's length.
#[target_feature(enable = "aes,vaes,avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
#[inline]
unsafe fn load(from: *const u8) -> Register {
    // SAFETY: the caller guarantees that this memory may be accessed.
    unsafe { _mm512_loadu_si512(from.cast()) }
}

/// # Safety
/// `to` is writable for a register's length.
#[target_feature(enable = "aes,vaes,avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
#[inline]
unsafe fn store(blocks: Register, to: *mut u8) {
    // SAFETY: the caller guarantees that this memory may be accessed.
    unsafe { _mm512_storeu_si512(to.cast(), blocks) }
}

/// The kernel for the MACs that LightMAC is compared with.
#[cfg(feature = "internals")]
mod comparison {
    use super::super::comparison::{FIRST, SECOND, SUM, comparison};
    use super::*;
    use crate::kernel::comparison::{ComparisonKernel, Half};

    comparison! { Vaes512, "aes,vaes,avx512f,avx512bw,avx512vl,avx512vbmi,bmi2" }

    /// Loads the selected block of each of [`BLOCKS`] pairs, or the pairs' sums.
    ///
    /// # Safety
    ///
    /// `from` is readable for [`BLOCKS`] pairs.
    #[target_feature(enable = "aes,vaes,avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
    #[inline]
    unsafe fn load_halves<const HALF: usize>(from: *const u8) -> Register {
        // SAFETY: the caller guarantees that this memory may be accessed.
        let [low, high] = unsafe { [load(from), load(from.add(4 * BLOCK))] };
        let first = _mm512_shuffle_i64x2::<0b10_00_10_00>(low, high);
        let second = _mm512_shuffle_i64x2::<0b11_01_11_01>(low, high);
        match HALF {
            FIRST => first,
            SECOND => second,
            _ => xor(first, second),
        }
    }
}
