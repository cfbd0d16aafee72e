//! Sixteen blocks in four registers of 256 bits, in the layout that `avx512/planes.rs` explains.

use crate::kernel::ROUND_KEYS;
use crate::kernel::sliced::{Word, substitute};
use core::arch::x86_64::*;
use zeroize::ZeroizeOnDrop;

use super::Word256;

/// Number of blocks in a set.
pub(super) const BLOCKS: usize = 16;

/// Round keys as bit planes, which are erased on drop. The first key is added as it is. The others
/// are added after an S-box layer and before the permutation, so they are permuted backwards.
/// `planes[i]` has byte k of double word m at position 4m + k.
#[derive(Clone, ZeroizeOnDrop)]
#[repr(C, align(16))]
pub(super) struct Keys([[[u8; 16]; 4]; ROUND_KEYS]);

impl Keys {
    pub(super) fn arrange(round_keys: &[u64; ROUND_KEYS]) -> Self {
        let mut keys = Self([[[0; 16]; 4]; ROUND_KEYS]);
        for (round, (planes, key)) in keys.0.iter_mut().zip(round_keys).enumerate() {
            for (i, plane) in planes.iter_mut().enumerate() {
                for (at, byte) in plane.iter_mut().enumerate() {
                    let (m, k) = (at / 4, at % 4);
                    // The permutation moves bit 16i + 4k + m to bit i of nibble 4k + m.
                    let bit = if round == 0 { 16 * k + 4 * m + i } else { 16 * i + 4 * k + m };
                    *byte = ((key >> bit & 1) as u8).wrapping_neg();
                }
            }
        }
        keys
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn add(&self, round: usize, set: Set) -> Set {
        let plane = |i: usize| {
            let plane: &[u8; 16] = &self.0[round][i];
            // SAFETY: the array has the length of the register, and its alignment.
            _mm256_broadcastsi128_si256(unsafe { _mm_load_si128(plane.as_ptr().cast()) })
        };
        [
            _mm256_xor_si256(set[0], plane(0)),
            _mm256_xor_si256(set[1], plane(1)),
            _mm256_xor_si256(set[2], plane(2)),
            _mm256_xor_si256(set[3], plane(3)),
        ]
    }
}

type Set = [__m256i; 4];

/// Rotates three indices: the register's index becomes the byte's, the byte's that of the double
/// word, and the double word's that of the register.
#[target_feature(enable = "avx2")]
#[inline]
fn interleave([a, b, c, d]: Set) -> Set {
    let (ab, cd) = (_mm256_unpacklo_epi8(a, b), _mm256_unpacklo_epi8(c, d));
    let (ba, dc) = (_mm256_unpackhi_epi8(a, b), _mm256_unpackhi_epi8(c, d));
    [
        _mm256_unpacklo_epi16(ab, cd),
        _mm256_unpackhi_epi16(ab, cd),
        _mm256_unpacklo_epi16(ba, dc),
        _mm256_unpackhi_epi16(ba, dc),
    ]
}

/// Exchanges the index of the register with that of the double word.
#[target_feature(enable = "avx2")]
#[inline]
fn exchange([a, b, c, d]: Set) -> Set {
    let (ab, cd) = (_mm256_unpacklo_epi32(a, b), _mm256_unpacklo_epi32(c, d));
    let (ba, dc) = (_mm256_unpackhi_epi32(a, b), _mm256_unpackhi_epi32(c, d));
    [
        _mm256_unpacklo_epi64(ab, cd),
        _mm256_unpackhi_epi64(ab, cd),
        _mm256_unpacklo_epi64(ba, dc),
        _mm256_unpackhi_epi64(ba, dc),
    ]
}

/// Transposes each quadword as a bit matrix of eight rows.
#[target_feature(enable = "avx2")]
#[inline]
fn transpose(rows: __m256i) -> __m256i {
    #[target_feature(enable = "avx2")]
    #[inline]
    fn swap<const BITS: i32>(rows: __m256i, mask: u64) -> __m256i {
        let mask = _mm256_set1_epi64x(mask as i64);
        let t = _mm256_xor_si256(_mm256_srli_epi64::<BITS>(rows), rows);
        let t = _mm256_and_si256(t, mask);
        _mm256_xor_si256(_mm256_xor_si256(rows, t), _mm256_slli_epi64::<BITS>(t))
    }
    let rows = swap::<7>(rows, 0x00aa_00aa_00aa_00aa);
    let rows = swap::<14>(rows, 0x0000_cccc_0000_cccc);
    swap::<28>(rows, 0x0000_0000_f0f0_f0f0)
}

/// Brings the bytes with the same index in different blocks together. Before, each quadword is a
/// block; afterwards, each double word has the same byte of several blocks.
#[target_feature(enable = "avx2")]
#[inline]
fn bytes_together(blocks: Set) -> Set {
    // Three interleavings of halves bring the bytes of a lane's eight blocks together.
    let [a, b, c, d] = blocks;
    let (a, b) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
    let (c, d) = (_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d));
    let (a, c) = (_mm256_unpacklo_epi8(a, c), _mm256_unpackhi_epi8(a, c));
    let (b, d) = (_mm256_unpacklo_epi8(b, d), _mm256_unpackhi_epi8(b, d));
    let (a, b) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
    let (c, d) = (_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d));
    [a, b, c, d]
}

/// Encrypts sixteen blocks, each a number.
#[target_feature(enable = "avx2")]
#[inline]
pub(super) fn encrypt(keys: &Keys, blocks: &mut [u64; BLOCKS]) {
    let load = |at: usize| Word256::load(&blocks[at..]).0;
    // Each lane holds eight blocks.
    let set = [load(0), load(4), load(8), load(12)];
    // The indices are: register k, quadword ⌊m/2⌋, one block in each byte. After the transposition
    // they are: byte 4·(m mod 2) + i, one block in each bit.
    let [a, b, c, d] = bytes_together(set);
    let set = [transpose(a), transpose(b), transpose(c), transpose(d)];
    // The indices are: byte k, double word i, register m. After the exchange they are: register i,
    // double word m.
    let mut set = keys.add(0, exchange(interleave(set)));
    for round in 1..ROUND_KEYS {
        let [a, b, c, d] = set;
        let [a, b, c, d] = substitute([Word256(a), Word256(b), Word256(c), Word256(d)]);
        set = interleave(keys.add(round, [a.0, b.0, c.0, d.0]));
    }
    // The steps from the beginning in reverse. Three interleavings are the identity, so two are the
    // inverse of one.
    let [a, b, c, d] = interleave(interleave(exchange(set)));
    let set = [transpose(a), transpose(b), transpose(c), transpose(d)];
    let set = blocks_together(set);
    for (set, blocks) in set.into_iter().zip(blocks.chunks_exact_mut(4)) {
        Word256(set).store(blocks);
    }
}

/// The inverse of [`bytes_together`].
#[target_feature(enable = "avx2")]
#[inline]
fn blocks_together([a, b, c, d]: Set) -> Set {
    let (a, b) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
    let (c, d) = (_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d));
    let (a, b) = (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b));
    let (c, d) = (_mm256_unpacklo_epi8(c, d), _mm256_unpackhi_epi8(c, d));
    let (a, c) = (_mm256_unpacklo_epi8(a, c), _mm256_unpackhi_epi8(a, c));
    let (b, d) = (_mm256_unpacklo_epi8(b, d), _mm256_unpackhi_epi8(b, d));
    // Moves bytes from the index (k₀, ⌊m/2⌋, k₁) to (k₁, k₀, ⌊m/2⌋).
    let places =
        _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0f0d_0b09_0e0c_0a08, 0x0705_0301_0604_0200));
    [
        _mm256_shuffle_epi8(a, places),
        _mm256_shuffle_epi8(b, places),
        _mm256_shuffle_epi8(c, places),
        _mm256_shuffle_epi8(d, places),
    ]
}
