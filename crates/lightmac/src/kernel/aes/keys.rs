//! The key schedule (FIPS 197, section 5.2), computed with AES-NI.

use super::BLOCK;
use core::arch::x86_64::*;
use zeroize::ZeroizeOnDrop;

/// The `R` round keys of AES-128 (11) or AES-256 (15), which are erased on drop.
#[derive(Clone, ZeroizeOnDrop)]
#[repr(align(64))]
pub(crate) struct RoundKeys<const R: usize>([[u8; BLOCK]; R]);

cpufeatures::new!(aes_ni, "aes", "sse4.1");

/// Whether the processor has AES-NI.
pub(super) fn detected() -> bool {
    aes_ni::get()
}

impl<const R: usize> RoundKeys<R> {
    /// Expands `key`. `None` without AES-NI, or if the key's length does not belong to `R` round
    /// keys.
    pub(super) fn expand(key: &[u8]) -> Option<Self> {
        let words = key.len() / 4;
        if !detected() || !matches!((words, R), (4, 11) | (8, 15)) || !key.len().is_multiple_of(4) {
            return None;
        }
        let mut keys = Self([[0; BLOCK]; R]);
        let all = keys.0.as_flattened_mut();
        all[..key.len()].copy_from_slice(key);
        let mut constant = 1u8;
        for i in words..4 * R {
            let mut new = u32::from_le_bytes(word(all, i - 1));
            if i % words == 0 {
                // SAFETY: the processor has AES-NI.
                new = unsafe { substitute(new) }.rotate_right(8) ^ u32::from(constant);
                constant = constant << 1 ^ if constant & 0x80 == 0 { 0 } else { 0x1b };
            } else if i % words == 4 {
                // SAFETY: the processor has AES-NI.
                new = unsafe { substitute(new) };
            }
            new ^= u32::from_le_bytes(word(all, i - words));
            all[4 * i..4 * i + 4].copy_from_slice(&new.to_le_bytes());
        }
        Some(keys)
    }

    #[inline(always)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8; BLOCK]> {
        self.0.iter()
    }
}

/// Word `i` of the expanded key, which must already have been computed.
fn word(all: &[u8], i: usize) -> [u8; 4] {
    [all[4 * i], all[4 * i + 1], all[4 * i + 2], all[4 * i + 3]]
}

/// Applies the S-box to each byte of a word.
#[target_feature(enable = "aes")]
fn substitute(word: u32) -> u32 {
    let word = _mm_set1_epi32(word as i32);
    _mm_cvtsi128_si32(_mm_aeskeygenassist_si128::<0>(word)) as u32
}
