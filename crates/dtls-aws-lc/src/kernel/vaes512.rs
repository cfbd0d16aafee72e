//! VAES and VPCLMULQDQ on 512-bit registers of four blocks each.

use super::{BLOCK, GROUP, Keys, field, kernel};
use core::arch::x86_64::*;

type Register = __m512i;
/// Number of blocks in a register.
const BLOCKS: usize = 4;

cpufeatures::new!(
    avx512,
    "aes",
    "avx2",
    "vaes",
    "pclmulqdq",
    "vpclmulqdq",
    "avx512f",
    "avx512bw",
    "avx512vl",
    "bmi2"
);

kernel! {
    /// AES-GCM with `R` round keys by VAES and VPCLMULQDQ, four blocks in each register.
    Vaes512, "aes,vaes,pclmulqdq,vpclmulqdq,avx512f,avx512bw,avx512vl,bmi2"
}

/// Whether the processor has the instructions.
fn detected() -> bool {
    avx512::get()
}

#[target_feature(enable = "aes,vaes,pclmulqdq,vpclmulqdq,avx512f,avx512bw,avx512vl,bmi2")]
#[inline]
fn counters(first: __m128i) -> Register {
    let blocks = splat(_mm_insert_epi32::<3>(first, 0));
    _mm512_add_epi32(blocks, _mm512_set_epi32(5, 0, 0, 0, 4, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0))
}

#[target_feature(enable = "aes,vaes,pclmulqdq,vpclmulqdq,avx512f,avx512bw,avx512vl,bmi2")]
#[inline]
fn advance(counters: Register) -> Register {
    _mm512_add_epi32(counters, splat(_mm_set_epi32(4, 0, 0, 0)))
}

#[target_feature(enable = "aes,vaes,pclmulqdq,vpclmulqdq,avx512f,avx512bw,avx512vl,bmi2")]
#[inline]
fn counter_blocks(counters: Register) -> Register {
    let places = _mm_set_epi64x(0x0c0d_0e0f_0b0a_0908, 0x0706_0504_0302_0100);
    _mm512_shuffle_epi8(counters, splat(places))
}

#[target_feature(enable = "aes,vaes,pclmulqdq,vpclmulqdq,avx512f,avx512bw,avx512vl,bmi2")]
#[inline]
fn zero() -> Register {
    _mm512_setzero_si512()
}

#[target_feature(enable = "aes,vaes,pclmulqdq,vpclmulqdq,avx512f,avx512bw,avx512vl,bmi2")]
#[inline]
fn splat(block: __m128i) -> Register {
    _mm512_broadcast_i32x4(block)
}

#[target_feature(enable = "aes,vaes,pclmulqdq,vpclmulqdq,avx512f,avx512bw,avx512vl,bmi2")]
#[inline]
fn widen(block: __m128i) -> Register {
    _mm512_zextsi128_si512(block)
}

#[target_feature(enable = "aes,vaes,pclmulqdq,vpclmulqdq,avx512f,avx512bw,avx512vl,bmi2")]
#[inline]
fn xor(a: Register, b: Register) -> Register {
    _mm512_xor_si512(a, b)
}

#[target_feature(enable = "aes,vaes,pclmulqdq,vpclmulqdq,avx512f,avx512bw,avx512vl,bmi2")]
#[inline]
fn round(blocks: Register, key: Register) -> Register {
    _mm512_aesenc_epi128(blocks, key)
}

#[target_feature(enable = "aes,vaes,pclmulqdq,vpclmulqdq,avx512f,avx512bw,avx512vl,bmi2")]
#[inline]
fn last_round(blocks: Register, key: Register) -> Register {
    _mm512_aesenclast_epi128(blocks, key)
}

#[target_feature(enable = "aes,vaes,pclmulqdq,vpclmulqdq,avx512f,avx512bw,avx512vl,bmi2")]
#[inline]
fn reverse(blocks: Register) -> Register {
    let places = _mm_set_epi64x(0x0001_0203_0405_0607, 0x0809_0a0b_0c0d_0e0f);
    _mm512_shuffle_epi8(blocks, splat(places))
}

#[target_feature(enable = "aes,vaes,pclmulqdq,vpclmulqdq,avx512f,avx512bw,avx512vl,bmi2")]
#[inline]
fn multiply<const HALVES: i32>(a: Register, b: Register) -> Register {
    _mm512_clmulepi64_epi128::<HALVES>(a, b)
}

#[target_feature(enable = "aes,vaes,pclmulqdq,vpclmulqdq,avx512f,avx512bw,avx512vl,bmi2")]
#[inline]
fn fold(blocks: Register) -> __m128i {
    let half =
        _mm256_xor_si256(_mm512_castsi512_si256(blocks), _mm512_extracti64x4_epi64::<1>(blocks));
    _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half))
}

/// Selects the first `bytes` bytes of a register.
#[target_feature(enable = "aes,vaes,pclmulqdq,vpclmulqdq,avx512f,avx512bw,avx512vl,bmi2")]
#[inline]
fn mask(bytes: usize) -> __mmask64 {
    _bzhi_u64(u64::MAX, bytes.min(BLOCKS * BLOCK) as u32)
}

#[target_feature(enable = "aes,vaes,pclmulqdq,vpclmulqdq,avx512f,avx512bw,avx512vl,bmi2")]
#[inline]
fn keep(blocks: Register, bytes: usize) -> Register {
    _mm512_maskz_mov_epi8(mask(bytes), blocks)
}

#[target_feature(enable = "aes,vaes,pclmulqdq,vpclmulqdq,avx512f,avx512bw,avx512vl,bmi2")]
#[inline]
fn load(from: &[u8]) -> Register {
    // SAFETY: a masked load reads only the selected bytes, which are in `from`.
    unsafe { _mm512_maskz_loadu_epi8(mask(from.len()), from.as_ptr().cast()) }
}

#[target_feature(enable = "aes,vaes,pclmulqdq,vpclmulqdq,avx512f,avx512bw,avx512vl,bmi2")]
#[inline]
fn store(blocks: Register, to: &mut [u8]) {
    let all = mask(to.len());
    // SAFETY: a masked store writes only the selected bytes, which are in `to`.
    unsafe { _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), all, blocks) }
    // The mask of a record's number is made of its first block, which is read right after this. A
    // processor forwards what a whole register has written, but not what was written under a mask.
    if let Some(first) = to.first_chunk_mut::<BLOCK>() {
        // SAFETY: the array is as long as the register.
        unsafe { _mm_storeu_si128(first.as_mut_ptr().cast(), _mm512_castsi512_si128(blocks)) }
    }
}
