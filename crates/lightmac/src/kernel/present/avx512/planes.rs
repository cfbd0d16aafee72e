//! PRESENT's rounds on bit planes in 512-bit registers, and the ways in and out of them.
//!
//! Bit b of a block has three indices of two bits each, b = 16k + 4m + i: bit i of nibble
//! 4k + m. The permutation layer sends it to bit m of nibble 4i + k: it is a rotation of
//! the three indices. In a [`Set`] of 32 blocks i chooses the register, so that the S-box
//! is a circuit on four registers; k and m choose one of 16 double words, one as the
//! 128-bit lane and the other as the place within the lane; a double word holds a bit of
//! each block. Then the layer is one exchange of the register's index with that of the
//! place, and in the next round with that of the lane: in between, the names of the
//! indices rotate, and nothing else moves.

use crate::kernel::present::ROUND_KEYS;
use core::arch::asm;
use core::arch::x86_64::*;
use zeroize::{Zeroize, ZeroizeOnDrop};

const ROUNDS: usize = ROUND_KEYS - 1;

pub(super) type Register = __m512i;
/// The bit planes of 32 blocks: four groups of eight, one in each byte of a double word.
pub(super) type Set = [Register; 4];

/// Round keys as planes, erased on drop.
#[derive(Clone, ZeroizeOnDrop)]
pub(super) struct Keys {
    first: Planes,
    /// The others, each as it is added behind an S-box layer: before the permutation.
    later: [Planes; ROUNDS],
}

/// `planes[i][double word]`, all ones or zeros.
#[derive(Clone, Default, Zeroize)]
#[repr(C, align(64))]
struct Planes([[u32; 16]; 4]);

impl Planes {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
    #[inline]
    fn get(&self, i: usize) -> Register {
        // SAFETY: a plane is a register long and aligned.
        unsafe { _mm512_load_si512(self.0[i].as_ptr().cast()) }
    }

    /// One lane of a plane, in every lane.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
    #[inline]
    fn lane(&self, i: usize, lane: usize) -> Register {
        let lane: &[u32; 4] = self.0[i].as_chunks().0.get(lane).expect("four lanes");
        // SAFETY: a lane is 16 bytes long and aligned.
        _mm512_broadcast_i32x4(unsafe { _mm_load_si128(lane.as_ptr().cast()) })
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
    #[inline]
    fn set(&mut self, i: usize, ones: u16) {
        let plane = _mm512_maskz_set1_epi32(ones, -1);
        // SAFETY: a plane is a register long and aligned.
        unsafe { _mm512_store_si512(self.0[i].as_mut_ptr().cast(), plane) }
    }
}

impl Keys {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
    pub(super) fn arrange(round_keys: &[u64; ROUND_KEYS]) -> Self {
        let mut keys =
            Self { first: Planes::default(), later: [const { Planes([[0; 16]; 4]) }; ROUNDS] };
        for i in 0..4 {
            // Bit 4k + m of plane i is bit i of nibble 4k + m.
            keys.first.set(i, nibbles_bit(round_keys[0], i));
        }
        for (round, (planes, key)) in keys.later.iter_mut().zip(&round_keys[1..]).enumerate() {
            for i in 0..4 {
                // Bit i of nibble 4k + m becomes bit 16i + 4k + m.
                let plane = (key >> (16 * i)) as u16;
                planes.set(i, if round % 2 == 0 { plane } else { lanes_by_m(plane) });
            }
        }
        keys
    }
}

/// Bit i of each nibble of `key`.
fn nibbles_bit(key: u64, i: usize) -> u16 {
    (0..16).fold(0, |plane, j| plane | ((key >> (4 * j + i) & 1) as u16) << j)
}

/// From bit 4k + m to bit 4m + k.
fn lanes_by_m(plane: u16) -> u16 {
    let t = (plane >> 3 ^ plane) & 0x0a0a;
    let plane = plane ^ t ^ t << 3;
    let t = (plane >> 6 ^ plane) & 0x00cc;
    plane ^ t ^ t << 6
}

/// The S-box C56B90AD3EF84712 on four planes, and the next round key.
///
/// Ten operations with the key: a program found seven lookups of three inputs to be the
/// fewest if two are chosen at will, and the fewest with a key to be ten.
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

/// `$shuffle` of the second and third register, into the places of the first that `$mask`
/// selects. From intrinsics the compiler makes two instructions of it.
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

/// Exchanges the register's index with the place within a lane: six shuffles, since a mask
/// lets one combine three registers.
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

/// Exchanges the register's index with the lane.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn exchange_lanes([a, b, c, d]: Set) -> Set {
    let low = _mm512_shuffle_i32x4::<0xee>(a, b);
    let high = _mm512_shuffle_i32x4::<0x44>(c, d);
    [
        masked!("vshufi32x4", 0x80, a, 0xfff0_u16, b, high),
        masked!("vshufi32x4", 0xd1, b, 0xff0f_u16, a, high),
        masked!("vshufi32x4", 0x88, c, 0xf0ff_u16, low, d),
        masked!("vshufi32x4", 0x3d, d, 0x0fff_u16, low, c),
    ]
}

/// All rounds of `N` sets. Lanes have index k before and m after.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn encrypt<const N: usize>(keys: &Keys, sets: &mut [Set; N]) {
    let first = [0, 1, 2, 3].map(|i| keys.first.get(i));
    for set in sets.iter_mut() {
        for (plane, key) in set.iter_mut().zip(first) {
            *plane = _mm512_xor_si512(*plane, key);
        }
    }
    let (pairs, last) = keys.later.as_chunks();
    for [even, odd] in pairs {
        for set in sets.iter_mut() {
            *set = exchange_places(substitute(*set, [0, 1, 2, 3].map(|i| even.get(i))));
        }
        for set in sets.iter_mut() {
            *set = exchange_lanes(substitute(*set, [0, 1, 2, 3].map(|i| odd.get(i))));
        }
    }
    for set in sets.iter_mut() {
        *set = exchange_places(substitute(*set, [0, 1, 2, 3].map(|i| last[0].get(i))));
    }
}

/// All rounds of four sets.
///
/// Sixteen registers have room for one more index, k or m in turn, so that every second
/// permutation is a change of names alone. The lane tells the sets apart.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn encrypt_four(keys: &Keys, sets: &mut [Set; 4]) {
    // planes[i][k], place m.
    let mut planes = lanes_to_sets(*sets);
    for (i, planes) in planes.iter_mut().enumerate() {
        for (k, plane) in planes.iter_mut().enumerate() {
            *plane = _mm512_xor_si512(*plane, keys.first.lane(i, k));
        }
    }
    let (rounds, last) = keys.later.as_chunks();
    for [one, two, three, four] in rounds {
        // planes[i][k], place m; after it, planes[i][m], place k.
        outer_round(&mut planes, one, true);
        // After it, planes[k][i], place m: nothing moves.
        outer_round(&mut planes, two, false);
        // After it, planes[m][i], place k.
        inner_round(&mut planes, three, true);
        // After it, planes[i][k], place m, again.
        inner_round(&mut planes, four, false);
    }
    let [one, two, three] = last else { unreachable!("31 rounds") };
    outer_round(&mut planes, one, true);
    outer_round(&mut planes, two, false);
    inner_round(&mut planes, three, true);
    // Now planes[m][i], place k, lane set.
    for i in 0..4 {
        let lanes = exchange_lanes([0, 1, 2, 3].map(|m| planes[m][i]));
        for (set, plane) in sets.iter_mut().zip(lanes) {
            set[i] = plane;
        }
    }
}

/// From sets[set][i], lane k to planes[i][k], lane set.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn lanes_to_sets(sets: [Set; 4]) -> [Set; 4] {
    [0, 1, 2, 3].map(|i| exchange_lanes([0, 1, 2, 3].map(|set| sets[set][i])))
}

/// A round in which the outer index is i.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn outer_round(planes: &mut [Set; 4], key: &Planes, moves: bool) {
    for inner in 0..4 {
        let key = [0, 1, 2, 3].map(|i| key.lane(i, inner));
        let mut set = substitute([0, 1, 2, 3].map(|i| planes[i][inner]), key);
        if moves {
            set = exchange_places(set);
        }
        for (planes, plane) in planes.iter_mut().zip(set) {
            planes[inner] = plane;
        }
    }
}

/// A round in which the inner index is i.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn inner_round(planes: &mut [Set; 4], key: &Planes, moves: bool) {
    for (outer, set) in planes.iter_mut().enumerate() {
        let key = [0, 1, 2, 3].map(|i| key.lane(i, outer));
        *set = substitute(*set, key);
        if moves {
            *set = exchange_places(*set);
        }
    }
}

/// Eight blocks' bytes, as [`split`] wants them, to planes: double word 4k + i, byte m,
/// bit = block.
const TO_PLANES: [u8; 64] = {
    let mut places = [0; 64];
    let mut at = 0;
    while at < 64 {
        let (k, i, m) = (at / 16, at / 4 % 4, at % 4);
        places[at] = (8 * (2 * k + m / 2) + 4 * (m % 2) + i) as u8;
        at += 1;
    }
    places
};

/// Where block bytes are for [`split`]: quadword q, byte r is byte 7 − q of block 7 − r.
const TO_BYTES: [u8; 64] = {
    let mut places = [0; 64];
    let mut at = 0;
    while at < 64 {
        places[at] = (8 * (7 - at % 8) + 7 - at / 8) as u8;
        at += 1;
    }
    places
};

/// From double word k, byte i in lane m, of one group, to what [`join`] wants: quadword
/// q = 2k + ⌊m/2⌋, byte 7 − t is bit plane t = 4·(m mod 2) + i of byte 7 − q.
const FROM_PLANES: [u8; 64] = {
    let mut places = [0; 64];
    let mut at = 0;
    while at < 64 {
        let (q, t) = (at / 8, 7 - at % 8);
        let (k, m, i) = (q / 2, 2 * (q % 2) + t / 4, t % 4);
        places[at] = (16 * m + 4 * k + i) as u8;
        at += 1;
    }
    places
};

/// From quadword q, byte r is byte 7 − q of block r, to blocks.
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
fn constant(bytes: &[u8; 64]) -> Register {
    // SAFETY: the array is as long as the register.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// Transposes the bit matrices that the quadwords are; rows come in reverse order.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn transpose(rows: Register) -> Register {
    // The matrix's product with the unit vectors.
    let units = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    _mm512_gf2p8affine_epi64_epi8::<0>(units, rows)
}

/// Exchanges the register's index with the byte within a double word, that with the place
/// and that with the register.
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

/// Four groups of eight blocks, each laid out as by [`TO_BYTES`], to planes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn split(groups: Set) -> Set {
    let places = constant(&TO_PLANES);
    interleave(groups.map(|group| _mm512_permutexvar_epi8(places, transpose(group))))
}

/// Eight blocks to their place for [`split`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn bytes(blocks: Register) -> Register {
    _mm512_permutexvar_epi8(constant(&TO_BYTES), blocks)
}

/// Planes to four groups of eight blocks.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn join(set: Set) -> Set {
    let (planes, bytes) = (constant(&FROM_PLANES), constant(&FROM_BYTES));
    exchange_places(interleave(set)).map(|group| {
        let rows = _mm512_permutexvar_epi8(planes, group);
        _mm512_permutexvar_epi8(bytes, transpose(rows))
    })
}

/// The sum of the blocks of each group, four blocks.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
pub(super) fn sums(set: Set) -> [u64; 4] {
    // Each byte's parity, as bit i.
    let [a, b, c, d] = [
        _mm512_gf2p8affine_epi64_epi8::<0>(set[0], _mm512_set1_epi64(0xff << 56)),
        _mm512_gf2p8affine_epi64_epi8::<0>(set[1], _mm512_set1_epi64(0xff << 48)),
        _mm512_gf2p8affine_epi64_epi8::<0>(set[2], _mm512_set1_epi64(0xff << 40)),
        _mm512_gf2p8affine_epi64_epi8::<0>(set[3], _mm512_set1_epi64(0xff << 32)),
    ];
    let nibbles = _mm512_xor_si512(_mm512_ternarylogic_epi32::<0x96>(a, b, c), d);
    let nibbles = _mm512_permutexvar_epi8(constant(&FROM_NIBBLES), nibbles);
    let bytes = _mm512_maddubs_epi16(nibbles, _mm512_set1_epi16(0x1001));
    let bytes = _mm512_cvtepi16_epi8(bytes);
    let mut sums = [0; 4];
    // SAFETY: the array is as long as the register.
    unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), bytes) };
    sums
}

/// From lane m, double word k, byte g to lane g, byte 14 − 4k − 2·⌊m/2⌋ + m mod 2.
const FROM_NIBBLES: [u8; 64] = {
    let mut places = [0; 64];
    let mut at = 0;
    while at < 64 {
        let (g, q, h) = (at / 16, 7 - at / 2 % 8, at % 2);
        let (k, m) = (q / 2, 2 * (q % 2) + h);
        places[at] = (16 * m + 4 * k + g) as u8;
        at += 1;
    }
    places
};
