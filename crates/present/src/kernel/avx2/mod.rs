//! PRESENT with AVX2, on words of 256 bits.

mod planes;

use super::sliced::{self, BITS, Machine, Word};
use super::{Backend, ROUND_KEYS, Sliced};
use core::arch::x86_64::*;
use zeroize::ZeroizeOnDrop;

cpufeatures::new!(avx2, "avx2", "popcnt");

/// Round keys for 256-bit words, which are erased on drop. A value exists only if the processor has
/// AVX2.
#[derive(Clone, ZeroizeOnDrop)]
pub(crate) struct Keys {
    /// Each bit of each round key, repeated in 32 bits.
    bits: [[u32; 64]; ROUND_KEYS],
    planes: planes::Keys,
}

/// PRESENT computed with AVX2.
pub(crate) type Avx2 = Sliced<Keys>;

impl Avx2 {
    /// Whether the processor has AVX2.
    pub(crate) fn is_available() -> bool {
        avx2::get()
    }

    /// The kernel with `round_keys`; `None` if the processor lacks AVX2.
    pub(crate) fn new(round_keys: &[u64; ROUND_KEYS]) -> Option<Self> {
        if !avx2::get() {
            return None;
        }
        let mut keys =
            Keys { bits: [[0; 64]; ROUND_KEYS], planes: planes::Keys::arrange(round_keys) };
        for (bits, key) in keys.bits.iter_mut().zip(round_keys) {
            for (i, bit) in bits.iter_mut().enumerate() {
                *bit = ((key >> i & 1) as u32).wrapping_neg();
            }
        }
        Some(Self(keys))
    }
}

/// A word that is made and used only through [`Keys`], and therefore only if the processor has
/// AVX2.
#[derive(Clone, Copy)]
pub(super) struct Word256(__m256i);

impl Word for Word256 {
    const LANES: usize = 4;

    #[inline(always)]
    fn splat(lane: u64) -> Self {
        // SAFETY: the processor has AVX2.
        Self(unsafe { _mm256_set1_epi64x(lane as i64) })
    }

    #[inline(always)]
    fn load(lanes: &[u64]) -> Self {
        let lanes: &[u64; 4] = lanes.first_chunk().expect("four lanes");
        // SAFETY: the processor has AVX2, and the array is as long as the register.
        Self(unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self, lanes: &mut [u64]) {
        let lanes: &mut [u64; 4] = lanes.first_chunk_mut().expect("four lanes");
        // SAFETY: the processor has AVX2, and the array is as long as the register.
        unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), self.0) }
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: the processor has AVX2.
        Self(unsafe { _mm256_and_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: the processor has AVX2.
        Self(unsafe { _mm256_or_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: the processor has AVX2.
        Self(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    fn up<const BITS: i32>(self) -> Self {
        // SAFETY: the processor has AVX2.
        Self(unsafe { _mm256_slli_epi64::<BITS>(self.0) })
    }

    #[inline(always)]
    fn down<const BITS: i32>(self) -> Self {
        // SAFETY: the processor has AVX2.
        Self(unsafe { _mm256_srli_epi64::<BITS>(self.0) })
    }
}

impl Machine for Keys {
    type Many = Word256;
    const FEW: usize = planes::BLOCKS;
    const MOST_FEW: usize = 128;

    #[inline(always)]
    fn encrypt_many(&self, bits: &mut [Word256; BITS]) {
        // SAFETY: the processor has AVX2.
        let splat = |bits: u32| Word256(unsafe { _mm256_set1_epi32(bits as i32) });
        sliced::encrypt_many(|round, bit| splat(self.bits[round][bit]), bits);
    }

    #[inline(always)]
    fn encrypt_few(&self, blocks: &mut [u64]) {
        let blocks = blocks.try_into().expect("the slice has the blocks of a set");
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe { planes::encrypt(&self.planes, blocks) }
    }
}

impl Backend for Keys {
    fn encrypt(&self, blocks: &mut [u64]) {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe { encrypt(self, blocks) }
    }

    fn hash(&self, counter_bytes: usize, message: &[u8], state: &mut [u8]) {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe { hash(self, counter_bytes, message, state) }
    }

    fn hash_many(&self, counter_bytes: usize, messages: &[&[u8]], states: &mut [u8]) {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe { hash_many(self, counter_bytes, messages, states) }
    }

    fn add(&self, counter_bytes: usize, counter: u64, shares: &[u8], state: &mut [u8]) {
        // SAFETY: `self` exists, so the processor has AVX2.
        unsafe { add(self, counter_bytes, counter, shares, state) }
    }
}

#[target_feature(enable = "avx2,popcnt")]
fn encrypt(keys: &Keys, blocks: &mut [u64]) {
    sliced::encrypt(keys, blocks);
}

#[target_feature(enable = "avx2,popcnt")]
fn hash(keys: &Keys, counter_bytes: usize, message: &[u8], state: &mut [u8]) {
    sliced::hash(keys, counter_bytes, message, state);
}

#[target_feature(enable = "avx2,popcnt")]
fn hash_many(keys: &Keys, counter_bytes: usize, messages: &[&[u8]], states: &mut [u8]) {
    sliced::hash_many(keys, counter_bytes, messages, states);
}

#[target_feature(enable = "avx2,popcnt")]
fn add(keys: &Keys, counter_bytes: usize, counter: u64, shares: &[u8], state: &mut [u8]) {
    sliced::add(keys, counter_bytes, counter, shares, state);
}
