//! PRESENT on nibbles, two blocks in each register, for batches so small that bit planes would be
//! mostly empty. A round takes four instructions, and their latency determines the speed.
//!
//! Nibble 4k + m of a block is byte 7 − m of its quadword k. The other bytes have their highest bit
//! set, so that the S-box, which is a byte shuffle, makes them zero. The transposition of a
//! quadword as a bit matrix then has in byte i the bits i of its nibbles. This is nibble 4i + k of
//! the permutation layer's result, which one more shuffle moves to its position.

use super::planes::{Register, constant, transposed};
use crate::kernel::ROUND_KEYS;
use core::arch::x86_64::*;
use zeroize::ZeroizeOnDrop;

/// Round keys as nibbles, which are erased on drop.
#[derive(Clone, ZeroizeOnDrop)]
#[repr(C, align(32))]
pub(super) struct Keys([[u8; 32]; ROUND_KEYS]);

impl Keys {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
    pub(super) fn arrange(round_keys: &[u64; ROUND_KEYS]) -> Self {
        let mut keys = Self([[0; 32]; ROUND_KEYS]);
        for (nibbles, key) in keys.0.iter_mut().zip(round_keys) {
            let key = _mm512_castsi512_si256(spread(_mm512_set1_epi64(key.swap_bytes() as i64)));
            let empty = _mm256_set1_epi64x(0x8080_8080);
            // SAFETY: the array has the length of the register.
            unsafe {
                _mm256_storeu_si256(nibbles.as_mut_ptr().cast(), _mm256_or_si256(key, empty));
            }
        }
        keys
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
    #[inline]
    fn get(&self, round: usize) -> Register {
        let key: &[u8; 32] = &self.0[round];
        // SAFETY: the array has the length of the register, and its alignment.
        _mm512_broadcast_i64x4(unsafe { _mm256_load_si256(key.as_ptr().cast()) })
    }
}

/// The positions of the nibbles' bits within the bytes of a block.
const SPREAD: [u8; 64] = {
    let mut places = [0; 64];
    let mut at = 0;
    while at < 64 {
        if at % 8 >= 4 {
            let nibble = 4 * (at / 8 % 4) + 7 - at % 8;
            places[at] = (8 * (7 - nibble / 2) + 4 * (nibble % 2)) as u8;
        }
        at += 1;
    }
    places
};

/// The nibbles of a block, from a register that has the block in each of four quadwords.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn spread(block: Register) -> Register {
    let nibbles = _mm512_multishift_epi64_epi8(constant(&SPREAD), block);
    _mm512_and_si512(nibbles, _mm512_set1_epi64(0x0f0f_0f0f << 32))
}

/// Moves byte i of quadword k to byte 7 − k of quadword i. The other bytes become zero, by
/// selecting from bytes 4 to 7.
const PERMUTATION: [u8; 64] = {
    let mut places = [7; 64];
    let mut at = 0;
    while at < 64 {
        if at % 8 >= 4 {
            places[at] = (at / 32 * 32 + (7 - at % 8) * 8 + at / 8 % 4) as u8;
        }
        at += 1;
    }
    places
};

/// Encrypts the first `2 · N` of eight blocks. Each of the resulting registers has two blocks.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn encrypt<const N: usize>(keys: &Keys, blocks: [Register; N]) -> [Register; N] {
    let s_box =
        _mm512_broadcast_i32x4(_mm_set_epi64x(0x0201_0704_080f_0e03, 0x0d0a_0009_0b06_050c));
    let permutation = constant(&PERMUTATION);
    let first = keys.get(0);
    let mut nibbles = blocks.map(|block| _mm512_xor_si512(spread(block), first));
    for round in 1..ROUND_KEYS {
        let key = keys.get(round);
        for nibbles in &mut nibbles {
            let bits = transposed(_mm512_shuffle_epi8(s_box, *nibbles), 0x0804_0201);
            *nibbles = _mm512_xor_si512(_mm512_permutexvar_epi8(permutation, bits), key);
        }
    }
    nibbles
}

/// Two of eight blocks, each repeated in four quadwords, as input of [`encrypt`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn pair(blocks: Register, pair: usize) -> Register {
    let places = _mm512_set_epi64(1, 1, 1, 1, 0, 0, 0, 0);
    let first = _mm512_set1_epi64(2 * pair as i64);
    _mm512_permutexvar_epi64(_mm512_add_epi64(places, first), blocks)
}

/// The positions of the lower nibble of each byte of two blocks. The upper nibble is one byte
/// before.
const JOIN: [u8; 64] = {
    let mut places = [0; 64];
    let mut at = 0;
    while at < 16 {
        let nibble = 2 * (7 - at % 8);
        places[at] = (at / 8 * 32 + nibble / 4 * 8 + 7 - nibble % 4) as u8;
        at += 1;
    }
    places
};

/// The two blocks whose nibbles are in a register.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn join(nibbles: Register) -> __m128i {
    let places = constant(&JOIN);
    let low = _mm512_permutexvar_epi8(places, nibbles);
    let high = _mm512_permutexvar_epi8(_mm512_sub_epi8(places, _mm512_set1_epi8(1)), nibbles);
    // The bits outside of the nibbles come from the whitening key and are removed.
    let (low, high) = (_mm512_castsi512_si128(low), _mm512_castsi512_si128(high));
    _mm_or_si128(low, _mm_slli_epi16::<4>(high))
}
