//! PRESENT's rounds on bit planes in 512-bit registers, and the conversions from and to blocks.
//!
//! Bit b of a block has three indices of two bits each, b = 16k + 4m + i: it is bit i of the nibble
//! 4k + m. The permutation layer moves it to bit m of nibble 4i + k, so it is a rotation of the three
//! indices. In a [`Set`] of 32 blocks, i is the index of the register, so that the S-box is a
//! circuit on four registers. m is the index of the double word within a lane, k that of the byte
//! within the double word, and lane and bit determine the block. The permutation layer is then an
//! interleaving of the registers' bytes: the register's index becomes the byte's, the byte's that
//! of the double word, and the double word's that of the register.

use crate::kernel::ROUND_KEYS;
use core::arch::asm;
use core::arch::x86_64::*;
use zeroize::{Zeroize, ZeroizeOnDrop};

pub(super) type Register = __m512i;
/// The bit planes of 32 blocks: four groups of eight blocks, one group in each lane.
pub(super) type Set = [Register; 4];

/// Round keys as bit planes, which are erased on drop. The first key is added as it is. The others
/// are added after an S-box layer and before the permutation, so they are permuted backwards.
#[derive(Clone, ZeroizeOnDrop)]
pub(super) struct Keys {
    narrow: [NarrowKey; ROUND_KEYS],
    wide: [WideKey; ROUND_KEYS],
}

/// A key for [`encrypt`]: `planes[i]` has byte k of double word m at position 4m + k.
#[derive(Clone, Zeroize)]
#[repr(C, align(64))]
struct NarrowKey([[u8; 16]; 4]);

/// A key for [`encrypt_four`]: `planes[i]` has double word k of register m at position 4m + k; in
/// odd rounds, double word m of register k at position 4k + m.
#[derive(Clone, Zeroize)]
#[repr(C, align(64))]
struct WideKey([[[u32; 4]; 4]; 4]);

impl NarrowKey {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
    #[inline]
    fn get(&self) -> Set {
        let plane = |i: usize| {
            let plane: &[u8; 16] = &self.0[i];
            // SAFETY: the array has the length of the register, and its alignment.
            _mm512_broadcast_i32x4(unsafe { _mm_load_si128(plane.as_ptr().cast()) })
        };
        [plane(0), plane(1), plane(2), plane(3)]
    }
}

impl WideKey {
    /// The planes of the key for register `other`.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
    #[inline]
    fn get(&self, other: usize) -> Set {
        let plane = |i: usize| {
            let plane: &[u32; 4] = &self.0[i][other];
            // SAFETY: the array has the length of the register, and its alignment.
            _mm512_broadcast_i32x4(unsafe { _mm_load_si128(plane.as_ptr().cast()) })
        };
        [plane(0), plane(1), plane(2), plane(3)]
    }
}

impl Keys {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
    pub(super) fn arrange(round_keys: &[u64; ROUND_KEYS]) -> Self {
        let mut keys = Self {
            narrow: [const { NarrowKey([[0; 16]; 4]) }; ROUND_KEYS],
            wide: [const { WideKey([[[0; 4]; 4]; 4]) }; ROUND_KEYS],
        };
        for (round, key) in round_keys.iter().enumerate() {
            for i in 0..4 {
                // The permutation moves bit 16i + 4k + m to bit i of nibble 4k + m.
                let plane =
                    if round == 0 { nibbles_bit(*key, i) } else { (key >> (16 * i)) as u16 };
                let by_m = halves_exchanged(plane);
                // The first key and the second are added to states of the same layout.
                let odd = round > 0 && round % 2 == 0;
                let narrow = _mm_maskz_set1_epi8(by_m, -1);
                let wide = _mm512_maskz_set1_epi32(if odd { plane } else { by_m }, -1);
                // SAFETY: the arrays have the length of the registers.
                unsafe {
                    _mm_storeu_si128(keys.narrow[round].0[i].as_mut_ptr().cast(), narrow);
                    _mm512_storeu_si512(keys.wide[round].0[i].as_mut_ptr().cast(), wide);
                }
            }
        }
        keys
    }
}

/// Bit i of each nibble of `key`.
fn nibbles_bit(key: u64, i: usize) -> u16 {
    (0..16).fold(0, |plane, j| plane | ((key >> (4 * j + i) & 1) as u16) << j)
}

/// Moves bit 4k + m to bit 4m + k.
fn halves_exchanged(plane: u16) -> u16 {
    let t = (plane >> 3 ^ plane) & 0x0a0a;
    let plane = plane ^ t ^ t << 3;
    let t = (plane >> 6 ^ plane) & 0x00cc;
    plane ^ t ^ t << 6
}

/// The S-box C56B90AD3EF84712 on four planes, with the addition of the next round key.
///
/// The circuit was found by a search over all circuits of lookups with three inputs that share
/// intermediate results: there are none of six lookups, and some of seven. A lookup with two inputs
/// can include the addition of the key at no cost. With the addition of the key, the search found
/// no fewer than ten instructions; this circuit has eight lookups, two of which include it.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn substitute([a, b, c, d]: Set, key: Set) -> Set {
    let majority = _mm512_ternarylogic_epi32::<0xe8>(b, c, d);
    let t = _mm512_xor_si512(a, majority);
    let u = _mm512_ternarylogic_epi32::<0x9c>(a, d, majority);
    let v = _mm512_ternarylogic_epi32::<0xa6>(b, c, d);
    let y3 = _mm512_ternarylogic_epi32::<0x65>(b, c, u);
    let y2 = _mm512_ternarylogic_epi32::<0x95>(y3, t, v);
    [
        _mm512_ternarylogic_epi32::<0x96>(a, v, key[0]),
        _mm512_ternarylogic_epi32::<0x69>(t, y3, key[1]),
        _mm512_xor_si512(y2, key[2]),
        _mm512_xor_si512(y3, key[3]),
    ]
}

/// Applies `$shuffle` to the second and the third register, and writes the result to the positions
/// of the first register that `$mask` selects. The compiler would make two instructions of the
/// intrinsics.
macro_rules! masked {
    ($shuffle:literal, $order:literal, $into:expr, $mask:expr, $low:expr, $high:expr) => {{
        let mut into = $into;
        // SAFETY: the instruction computes its output register from its inputs alone, and the
        // processor has it.
        unsafe {
            asm!(
                concat!($shuffle, " {into}{{{mask}}}, {low}, {high}, {order}"),
                into = inout(zmm_reg) into,
                mask = in(kreg) $mask,
                low = in(zmm_reg) $low,
                high = in(zmm_reg) $high,
                order = const $order,
                options(pure, nomem, nostack, preserves_flags),
            );
        }
        into
    }};
}

/// Exchanges the index of the register with that of the double word within a lane. It takes six
/// shuffles, because a mask lets a shuffle combine three registers.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn exchange_places([a, b, c, d]: Set) -> Set {
    let [low, high] = [
        _mm512_shuffle_ps::<0xee>(_mm512_castsi512_ps(a), _mm512_castsi512_ps(b)),
        _mm512_shuffle_ps::<0x44>(_mm512_castsi512_ps(c), _mm512_castsi512_ps(d)),
    ];
    [
        masked!("vshufps", 0x80, a, 0xeeee_u16, b, high),
        masked!("vshufps", 0xd1, b, 0xdddd_u16, a, high),
        masked!("vshufps", 0x88, c, 0xbbbb_u16, low, d),
        masked!("vshufps", 0x3d, d, 0x7777_u16, low, c),
    ]
}

/// Exchanges the index of the register with that of the lane.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn exchange_lanes([a, b, c, d]: Set) -> Set {
    let (even, odd) = (_mm512_shuffle_i32x4::<0x88>(a, b), _mm512_shuffle_i32x4::<0xdd>(a, b));
    let (neve, ddo) = (_mm512_shuffle_i32x4::<0x88>(c, d), _mm512_shuffle_i32x4::<0xdd>(c, d));
    [
        _mm512_shuffle_i32x4::<0x88>(even, neve),
        _mm512_shuffle_i32x4::<0x88>(odd, ddo),
        _mm512_shuffle_i32x4::<0xdd>(even, neve),
        _mm512_shuffle_i32x4::<0xdd>(odd, ddo),
    ]
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn add([a, b, c, d]: Set, key: Set) -> Set {
    [
        _mm512_xor_si512(a, key[0]),
        _mm512_xor_si512(b, key[1]),
        _mm512_xor_si512(c, key[2]),
        _mm512_xor_si512(d, key[3]),
    ]
}

/// Computes all rounds of `N` sets.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn encrypt<const N: usize>(keys: &Keys, sets: &mut [Set; N]) {
    let (first, later) = keys.narrow.split_first().expect("32 keys");
    for set in sets.iter_mut() {
        *set = add(*set, first.get());
    }
    for key in later {
        for set in sets.iter_mut() {
            *set = interleave(substitute(*set, key.get()));
        }
    }
}

macro_rules! four {
    ($change:ident, $sets:expr) => {{
        let [a, b, c, d] = $sets;
        [$change(a), $change(b), $change(c), $change(d)]
    }};
}

/// The bit planes of four sets, with one more index as the register's: the register is
/// `planes[k][i]`, m is the index of the double word, and the byte is the set.
pub(super) type Wide = [Set; 4];

/// Computes all rounds of four sets.
///
/// Sixteen registers have room for one more index, which is k and m in turn. Every second
/// permutation then only renames registers.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn encrypt_four(keys: &Keys, sets: &[Set; 4]) -> Wide {
    // The register is planes[m][i], and k is the index of the double word.
    let mut planes = turned(four!(interleave, turned(*sets)));
    let (first, later) = keys.wide.split_first().expect("32 keys");
    for (i, set) in planes.iter_mut().enumerate() {
        *set = add(*set, first.get(i));
    }
    let (pairs, last) = later.as_chunks();
    for [even, odd] in pairs {
        // The register is planes[k][i], and m is the index of the double word. No data moves.
        planes = turned(substitute_four(planes, even));
        planes = four!(exchange_places, substitute_four(planes, odd));
    }
    turned(substitute_four(planes, &last[0]))
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn narrow(planes: Wide) -> [Set; 4] {
    let planes = four!(interleave, turned(planes));
    turned(four!(exchange_places, planes))
}

/// The sum of the blocks of each group. The sum of lane g of set s is element 4g + s.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn sums_four(planes: Wide) -> [u64; 16] {
    // The indices are: double word m, byte set. After the interleaving they are: register m, double
    // word set, byte k.
    let [a, b, c, d] = interleave(four!(nibbles, planes));
    let even = _mm512_or_si512(a, _mm512_slli_epi16::<4>(b));
    let odd = _mm512_or_si512(c, _mm512_slli_epi16::<4>(d));
    let (low, high) = (_mm512_unpacklo_epi8(even, odd), _mm512_unpackhi_epi8(even, odd));
    let mut halves = [[0u64; 8]; 2];
    // SAFETY: the arrays have the length of the registers.
    unsafe {
        _mm512_storeu_si512(halves[0].as_mut_ptr().cast(), low);
        _mm512_storeu_si512(halves[1].as_mut_ptr().cast(), high);
    }
    core::array::from_fn(|at| halves[at % 4 / 2][at / 4 * 2 + at % 2].swap_bytes())
}

/// Adds the bits of the planes that `wanted` selects to `total`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn add_four(total: &mut Wide, planes: Wide, wanted: Register) {
    for (total, planes) in total.iter_mut().zip(planes) {
        for (total, plane) in total.iter_mut().zip(planes) {
            *total = _mm512_ternarylogic_epi32::<0x78>(*total, plane, wanted);
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn substitute_four([a, b, c, d]: [Set; 4], key: &WideKey) -> [Set; 4] {
    [
        substitute(a, key.get(0)),
        substitute(b, key.get(1)),
        substitute(c, key.get(2)),
        substitute(d, key.get(3)),
    ]
}

/// Exchanges the outer with the inner index, which only renames registers.
#[inline]
fn turned([a, b, c, d]: [Set; 4]) -> [Set; 4] {
    [
        [a[0], b[0], c[0], d[0]],
        [a[1], b[1], c[1], d[1]],
        [a[2], b[2], c[2], d[2]],
        [a[3], b[3], c[3], d[3]],
    ]
}

/// Moves quadword q = 2k + ⌊m/2⌋, byte 4·(m mod 2) + i to lane i, double word m, byte k.
const TO_PLANES: [u8; 64] = {
    let mut places = [0; 64];
    let mut at = 0;
    while at < 64 {
        let (i, m, k) = (at / 16, at / 4 % 4, at % 4);
        places[at] = (8 * (2 * k + m / 2) + 4 * (m % 2) + i) as u8;
        at += 1;
    }
    places
};

/// The positions of block bytes for [`split`]: quadword q, byte r is byte 7 − q of block 7 − r.
const TO_BYTES: [u8; 64] = {
    let mut places = [0; 64];
    let mut at = 0;
    while at < 64 {
        places[at] = (8 * (7 - at % 8) + 7 - at / 8) as u8;
        at += 1;
    }
    places
};

/// Moves lane i, double word m, byte k to quadword q = 2k + ⌊m/2⌋, where byte 7 − t is bit t = 4·(m
/// mod 2) + i of each block's byte 7 − q.
const FROM_PLANES: [u8; 64] = {
    let mut places = [0; 64];
    let mut at = 0;
    while at < 64 {
        let (q, t) = (at / 8, 7 - at % 8);
        let (k, m, i) = (q / 2, 2 * (q % 2) + t / 4, t % 4);
        places[at] = (16 * i + 4 * m + k) as u8;
        at += 1;
    }
    places
};

/// Moves bytes to blocks; before, quadword q, byte r is byte 7 − q of block r.
const FROM_BYTES: [u8; 64] = {
    let mut places = [0; 64];
    let mut at = 0;
    while at < 64 {
        places[at] = (8 * (7 - at % 8) + at / 8) as u8;
        at += 1;
    }
    places
};

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn constant(bytes: &[u8; 64]) -> Register {
    // SAFETY: the array has the length of the register.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// Transposes each quadword as a bit matrix. The rows of the result are in reverse order.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn transpose(rows: Register) -> Register {
    transposed(rows, 0x8040_2010_0804_0201)
}

/// The product of each quadword as a bit matrix with the bytes of `vectors`. With unit vectors,
/// these are the matrix's columns. The rows of the result are in reverse order.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn transposed(rows: Register, vectors: u64) -> Register {
    _mm512_gf2p8affine_epi64_epi8::<0>(_mm512_set1_epi64(vectors as i64), rows)
}

/// Rotates three indices: the register's index becomes the byte's, the byte's that of the double
/// word, and the double word's that of the register.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn interleave([a, b, c, d]: Set) -> Set {
    let (ab, cd) = (_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d));
    let (ba, dc) = (_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d));
    [
        _mm512_unpacklo_epi16(ab, cd),
        _mm512_unpackhi_epi16(ab, cd),
        _mm512_unpacklo_epi16(ba, dc),
        _mm512_unpackhi_epi16(ba, dc),
    ]
}

/// Converts four groups of eight blocks, each in the layout of [`TO_BYTES`], to bit planes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn split(groups: Set) -> Set {
    let places = constant(&TO_PLANES);
    exchange_lanes(groups.map(|group| _mm512_permutexvar_epi8(places, transpose(group))))
}

/// Moves eight blocks to the layout for [`split`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn bytes(blocks: Register) -> Register {
    _mm512_permutexvar_epi8(constant(&TO_BYTES), blocks)
}

/// Converts bit planes to four groups of eight blocks.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn join(set: Set) -> Set {
    let (planes, bytes) = (constant(&FROM_PLANES), constant(&FROM_BYTES));
    exchange_lanes(set).map(|group| {
        let rows = _mm512_permutexvar_epi8(planes, group);
        _mm512_permutexvar_epi8(bytes, transpose(rows))
    })
}

/// The parity of each byte of four planes, as the bits of a nibble.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn nibbles(set: Set) -> Register {
    let [a, b, c, d] = [
        _mm512_gf2p8affine_epi64_epi8::<0>(set[0], _mm512_set1_epi64(0xff << 56)),
        _mm512_gf2p8affine_epi64_epi8::<0>(set[1], _mm512_set1_epi64(0xff << 48)),
        _mm512_gf2p8affine_epi64_epi8::<0>(set[2], _mm512_set1_epi64(0xff << 40)),
        _mm512_gf2p8affine_epi64_epi8::<0>(set[3], _mm512_set1_epi64(0xff << 32)),
    ];
    _mm512_xor_si512(_mm512_ternarylogic_epi32::<0x96>(a, b, c), d)
}

/// The sum of the blocks of each of four groups.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn sums(set: Set) -> [u64; 4] {
    let nibbles = nibbles(set);
    let nibbles = _mm512_shuffle_epi8(nibbles, constant(&FROM_NIBBLES));
    let bytes = _mm512_maddubs_epi16(nibbles, _mm512_set1_epi16(0x1001));
    let bytes = _mm512_packus_epi16(bytes, bytes);
    let mut sums = [0; 8];
    // SAFETY: the array has the length of the register.
    unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), bytes) };
    [sums[0], sums[2], sums[4], sums[6]]
}

/// Moves byte k of double word m to byte 14 − 4k − 2·⌊m/2⌋ + m mod 2 of each lane.
const FROM_NIBBLES: [u8; 64] = {
    let mut places = [0; 64];
    let mut at = 0;
    while at < 64 {
        let (q, h) = (7 - at / 2 % 8, at % 2);
        let (k, m) = (q / 2, 2 * (q % 2) + h);
        places[at] = (4 * m + k) as u8;
        at += 1;
    }
    places
};

/// Each number repeated in all double words of a lane.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn lanes([a, b, c, d]: [u32; 4]) -> Register {
    let numbers = _mm_set_epi32(d as i32, c as i32, b as i32, a as i32);
    let places = _mm512_set_epi32(3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0);
    _mm512_permutexvar_epi32(places, _mm512_castsi128_si512(numbers))
}
