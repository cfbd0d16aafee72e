//! Round keys (FIPS 197, section 5.2) and powers of the hash's key.

use super::{BLOCK, GROUP, field};
use core::arch::x86_64::*;
use zeroize::{ZeroizeOnDrop, Zeroizing};

cpufeatures::new!(gcm, "aes", "pclmulqdq", "sse4.1");

/// The `R` round keys of AES, which are erased on drop.
#[derive(ZeroizeOnDrop)]
pub(crate) struct RoundKeys<const R: usize>([[u8; BLOCK]; R]);

/// What a kernel needs of a key. It is erased on drop.
#[derive(ZeroizeOnDrop)]
pub(crate) struct Keys<const R: usize> {
    pub(super) rounds: RoundKeys<R>,
    /// Powers of the hash's key, the first power last.
    pub(super) powers: [[u8; BLOCK]; GROUP],
}

/// Whether the processor has the instructions of the smallest kernel.
pub(super) fn detected() -> bool {
    gcm::get()
}

impl<const R: usize> RoundKeys<R> {
    /// Expands `key`. `None` without the instructions, or if the key's length does not belong to `R`
    /// round keys.
    pub(super) fn expand(key: &[u8]) -> Option<Self> {
        let mut keys = Self::ZERO;
        keys.fill(key).then_some(keys)
    }

    const ZERO: Self = Self([[0; BLOCK]; R]);

    /// Expands `key` in place, so that no copy is left behind. Returns `false` where [`Self::expand`]
    /// returns `None`.
    fn fill(&mut self, key: &[u8]) -> bool {
        let words = key.len() / 4;
        if !detected() || !matches!((key.len(), R), (16, 11) | (32, 15)) {
            return false;
        }
        let all = self.0.as_flattened_mut();
        all[..key.len()].copy_from_slice(key);
        let mut constant = 1u8;
        for i in words..4 * R {
            let mut new = word(all, i - 1);
            if i % words == 0 {
                // SAFETY: the processor has the instructions.
                new = unsafe { substitute(new) }.rotate_right(8) ^ u32::from(constant);
                constant = constant << 1 ^ if constant & 0x80 == 0 { 0 } else { 0x1b };
            } else if i % words == 4 {
                // SAFETY: the processor has the instructions.
                new = unsafe { substitute(new) };
            }
            new ^= word(all, i - words);
            all[4 * i..4 * i + 4].copy_from_slice(&new.to_le_bytes());
        }
        true
    }

    #[inline(always)]
    pub(super) const fn all(&self) -> &[[u8; BLOCK]; R] {
        &self.0
    }
}

impl<const R: usize> Keys<R> {
    /// As [`RoundKeys::expand`].
    pub(super) fn expand(key: &[u8]) -> Option<Self> {
        let mut keys = Self { rounds: RoundKeys::ZERO, powers: [[0; BLOCK]; GROUP] };
        if !keys.rounds.fill(key) {
            return None;
        }
        // SAFETY: there are round keys, so the processor has the instructions.
        unsafe { keys.compute_powers() };
        Some(keys)
    }

    /// The first power is the encrypted block of zeros, multiplied by x. What is computed on the way is
    /// erased where it is in memory.
    #[target_feature(enable = "aes,pclmulqdq,sse4.1")]
    fn compute_powers(&mut self) {
        const POLYNOMIAL: u128 = 0xc200_0000_0000_0000_0000_0000_0000_0001;
        let mut block = Zeroizing::new([0; BLOCK]);
        store(field::encrypt(self.rounds.all(), _mm_setzero_si128()), &mut block);
        let key = Zeroizing::new(u128::from_be_bytes(*block));
        let first = Zeroizing::new(*key << 1 ^ POLYNOMIAL & 0u128.wrapping_sub(*key >> 127));
        let first = _mm_set_epi64x((*first >> 64) as i64, *first as i64);
        let mut power = first;
        for place in self.powers.iter_mut().rev() {
            store(power, place);
            power = field::product(power, first).reduced();
        }
    }
}

/// Word `i` of the expanded key, which must already have been computed.
fn word(all: &[u8], i: usize) -> u32 {
    u32::from_le_bytes([all[4 * i], all[4 * i + 1], all[4 * i + 2], all[4 * i + 3]])
}

/// Applies the S-box to each byte of a word.
#[target_feature(enable = "aes")]
fn substitute(word: u32) -> u32 {
    let word = _mm_set1_epi32(word as i32);
    _mm_cvtsi128_si32(_mm_aeskeygenassist_si128::<0>(word)) as u32
}

#[target_feature(enable = "sse2")]
fn store(block: __m128i, to: &mut [u8; BLOCK]) {
    // SAFETY: the array is as long as the register.
    unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), block) }
}
