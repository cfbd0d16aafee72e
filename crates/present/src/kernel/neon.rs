//! PRESENT with NEON, on words of 128 bits. Every processor of this architecture has it. If the
//! processor has the SHA3 extension too, two of its instructions compute two operations each.

use super::sliced::{self, BITS, Blocks, Machine, Word};
use super::{Backend, ROUND_KEYS, Sliced};
use core::arch::aarch64::*;
use core::arch::asm;
use core::mem::swap;
use zeroize::ZeroizeOnDrop;

cpufeatures::new!(sha3_extension, "sha3");

/// Round keys, which are erased on drop. Some of their bits are inverted, because the circuits of
/// the S-box take or give inverted bits ([`Inverted`]).
#[derive(Clone, ZeroizeOnDrop)]
pub(crate) struct Keys {
    /// Each bit of each round key, repeated in a byte: four for each S-box, in the order in which
    /// [`Machine::encrypt_many`] needs them.
    bits: [[[u8; 4]; NIBBLES]; ROUND_KEYS],
    /// The keys of [`sliced::few_keys`], by the bit of a nibble.
    few: [[u16; 4]; ROUND_KEYS],
    /// Whether the processor has the SHA3 extension. `bits` are for its circuit then.
    sha3: bool,
}

/// The bits of a nibble that a circuit of the S-box takes and gives inverted.
struct Inverted {
    inputs: u64,
    outputs: u64,
}

impl Inverted {
    /// For [`substitute`].
    const PLAIN: Self = Self { inputs: 0, outputs: 0b1000 };
    /// For [`keyed_by_sha3`].
    const SHA3: Self = Self { inputs: 0b1100, outputs: 0b0100 };

    /// The bits that are inverted in the key of a round.
    fn in_key(&self, round: usize) -> u64 {
        // No S-box comes before the first key, and none after the last.
        let (outputs, inputs) = (round > 0, round + 1 < ROUND_KEYS);
        // The permutation moves output i of each S-box to 16 bits in a row.
        let moved = (0..4).fold(0, |all, i| all | ((self.outputs >> i & 1) * 0xffff) << (16 * i));
        let repeated = self.inputs * 0x1111_1111_1111_1111;
        (moved * u64::from(outputs)) ^ (repeated * u64::from(inputs))
    }
}

/// Number of S-boxes in a round.
const NIBBLES: usize = BITS / 4;

/// PRESENT computed with NEON.
pub(crate) type Neon = Sliced<Keys>;

impl Neon {
    /// The kernel with `round_keys`.
    pub(crate) fn new(round_keys: &[u64; ROUND_KEYS]) -> Self {
        Self::with_extension(round_keys, sha3_extension::get())
    }

    /// The kernel with `round_keys`. `sha3` may be set only if the processor has the SHA3 extension.
    fn with_extension(round_keys: &[u64; ROUND_KEYS], sha3: bool) -> Self {
        let inverted = if sha3 { Inverted::SHA3 } else { Inverted::PLAIN };
        let mut keys =
            Keys { bits: [[[0; 4]; NIBBLES]; ROUND_KEYS], few: [[0; 4]; ROUND_KEYS], sha3 };
        for (round, (bits, key)) in keys.bits.iter_mut().zip(round_keys).enumerate() {
            let key = key ^ inverted.in_key(round);
            for (at, bits) in bits.iter_mut().enumerate() {
                // The second of two rounds has its S-boxes in another order.
                let second = round > 0 && round % 2 == 0;
                let nibble = if second { at % 4 * 4 + at / 4 } else { at };
                for (i, bit) in bits.iter_mut().enumerate() {
                    *bit = ((key >> (4 * nibble + i) & 1) as u8).wrapping_neg();
                }
            }
        }
        let few = sliced::few_keys(round_keys);
        for (round, (planes, key)) in keys.few.iter_mut().zip(few).enumerate() {
            *planes = [0, 16, 32, 48].map(|at| (key >> at) as u16);
            // The output of `substitute` that is inverted.
            if round > 0 {
                planes[3] = !planes[3];
            }
        }
        Self(keys)
    }
}

/// A register with two lanes.
#[derive(Clone, Copy)]
pub(super) struct Word128(uint8x16_t);

impl Word for Word128 {
    const LANES: usize = 2;

    #[inline(always)]
    fn splat(lane: u64) -> Self {
        // SAFETY: the processor has NEON.
        Self(unsafe { vreinterpretq_u8_u64(vdupq_n_u64(lane)) })
    }

    #[inline(always)]
    fn load(lanes: &[u64]) -> Self {
        let lanes: &[u64; 2] = lanes.first_chunk().expect("two lanes");
        // SAFETY: the processor has NEON, and the array is as long as the register.
        Self(unsafe { vreinterpretq_u8_u64(vld1q_u64(lanes.as_ptr())) })
    }

    #[inline(always)]
    fn store(self, lanes: &mut [u64]) {
        let lanes: &mut [u64; 2] = lanes.first_chunk_mut().expect("two lanes");
        // SAFETY: the processor has NEON, and the array is as long as the register.
        unsafe { vst1q_u64(lanes.as_mut_ptr(), vreinterpretq_u64_u8(self.0)) }
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: the processor has NEON.
        Self(unsafe { vandq_u8(self.0, other.0) })
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        // SAFETY: the processor has NEON.
        Self(unsafe { vorrq_u8(self.0, other.0) })
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        // SAFETY: the processor has NEON.
        Self(unsafe { veorq_u8(self.0, other.0) })
    }

    #[inline(always)]
    fn up<const BITS: i32>(self) -> Self {
        // SAFETY: the processor has NEON.
        Self(unsafe { vreinterpretq_u8_u64(vshlq_n_u64::<BITS>(vreinterpretq_u64_u8(self.0))) })
    }

    #[inline(always)]
    fn down<const BITS: i32>(self) -> Self {
        // SAFETY: the processor has NEON.
        Self(unsafe { vreinterpretq_u8_u64(vshrq_n_u64::<BITS>(vreinterpretq_u64_u8(self.0))) })
    }

    #[inline(always)]
    fn exchange<const BITS: i32>([low, high]: [Self; 2], mask: u64) -> [Self; 2] {
        let (a, b) = (low.0, high.0);
        // SAFETY: the processor has NEON.
        let [low, high] = unsafe {
            match BITS {
                32 => {
                    let (a, b) = (vreinterpretq_u32_u8(a), vreinterpretq_u32_u8(b));
                    let (low, high) = (vtrn1q_u32(a, b), vtrn2q_u32(a, b));
                    [vreinterpretq_u8_u32(low), vreinterpretq_u8_u32(high)]
                }
                16 => {
                    let (a, b) = (vreinterpretq_u16_u8(a), vreinterpretq_u16_u8(b));
                    let (low, high) = (vtrn1q_u16(a, b), vtrn2q_u16(a, b));
                    [vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high)]
                }
                8 => [vtrn1q_u8(a, b), vtrn2q_u8(a, b)],
                4 => [vsliq_n_u8::<4>(a, b), vsriq_n_u8::<4>(b, a)],
                _ => {
                    let mask = Self::splat(mask).0;
                    let (up, down) = (high.up::<BITS>().0, low.down::<BITS>().0);
                    [vbslq_u8(mask, a, up), vbslq_u8(mask, down, b)]
                }
            }
        };
        [Self(low), Self(high)]
    }
}

impl Word128 {
    /// `self | !other`.
    #[inline(always)]
    fn or_not(self, other: Self) -> Self {
        // SAFETY: the processor has NEON.
        Self(unsafe { vornq_u8(self.0, other.0) })
    }
}

/// The S-box as in [`sliced::substitute`], with the highest output inverted. This leaves out one
/// operation of fourteen.
#[inline(always)]
fn substitute([x0, x1, x2, x3]: [Word128; 4]) -> [Word128; 4] {
    let t1 = x1.xor(x2);
    let t2 = x2.and(t1);
    let t3 = x3.xor(t2);
    let y0 = x0.xor(t3);
    let t2 = t1.and(t3);
    let t1 = t1.xor(y0);
    let t2 = t2.xor(x2);
    let y1 = t1.xor(x0.or(t2));
    let t2 = t2.xor(x0);
    let y3 = y1.xor(t2);
    let y2 = t3.xor(t1.or_not(t2));
    [y0, y1, y2, y3]
}

/// The words of a set of blocks.
type Set = [Word128; BITS];

/// The key bits of an S-box.
#[inline(always)]
fn load_keys(keys: &[u8; 4]) -> [Word128; 4] {
    // SAFETY: the processor has NEON, and the array has four bytes.
    let keys = unsafe { vld4q_dup_u8(keys.as_ptr()) };
    [keys.0, keys.1, keys.2, keys.3].map(Word128)
}

#[inline(always)]
fn add(a: [Word128; 4], b: [Word128; 4]) -> [Word128; 4] {
    [a[0].xor(b[0]), a[1].xor(b[1]), a[2].xor(b[2]), a[3].xor(b[3])]
}

/// Adds a key and computes the S-box. Output 3 is inverted.
#[inline(always)]
fn keyed(keys: &[u8; 4], bits: [Word128; 4]) -> [Word128; 4] {
    substitute(add(load_keys(keys), bits))
}

/// Adds a key and computes the S-box, the circuit of [`sliced::substitute`], in twelve instructions.
/// Inputs 2 and 3 of the sum and output 2 are inverted.
#[target_feature(enable = "sha3")]
#[inline]
fn keyed_by_sha3(keys: &[u8; 4], s: [Word128; 4]) -> [Word128; 4] {
    let xor3 = |a: Word128, b: Word128, c: Word128| Word128(veor3q_u8(a.0, b.0, c.0));
    // a ⊕ (b ∧ ¬c)
    let xor_clear = |a: Word128, b: Word128, c: Word128| Word128(vbcaxq_u8(a.0, b.0, c.0));
    let k = load_keys(keys);
    // With n for an inverted bit.
    let n2 = s[2].xor(k[2]);
    let nt1 = xor3(s[1], k[1], n2);
    let t3 = xor3(s[3], k[3], n2.or(nt1));
    let x0 = s[0].xor(k[0]);
    let y0 = x0.xor(t3);
    let nt2 = xor_clear(n2, t3, nt1);
    let nt1 = nt1.xor(y0);
    let y1 = xor_clear(nt1, nt2, x0);
    let t2 = nt2.xor(x0);
    let y3 = y1.xor(t2);
    let ny2 = xor_clear(t3, nt1, t2);
    [y0, y1, ny2, y3]
}

/// Returns the outputs of an S-box. They are computed before the next S-box is begun: without this
/// barrier, which is no instruction, compilers load the keys and inputs of several S-boxes at once,
/// and run out of registers.
#[inline(always)]
fn in_turn([mut a, mut b, mut c, mut d]: [Word128; 4]) -> [Word128; 4] {
    // SAFETY: nothing is executed, and the registers keep their values.
    unsafe {
        asm!(
            "/* {0:v} {1:v} {2:v} {3:v} */",
            inout(vreg) a.0,
            inout(vreg) b.0,
            inout(vreg) c.0,
            inout(vreg) d.0,
            options(nostack, preserves_flags)
        );
    }
    [a, b, c, d]
}

/// Makes a function that implements [`Machine::encrypt_many`] with a function that adds a key and
/// computes the S-box.
macro_rules! encrypt_many {
    ($(#[$attribute:meta])* $name:ident, $keyed:ident) => {
        $(#[$attribute])*
        fn $name(keys: &Keys, bits: &mut Set) {
            let mut other = [Word128::splat(0); BITS];
            // The first round leaves words in the order of the next: word 16k + 4j + i has bit
            // 16k + 4i + j, so that words that are stored together are neighbours.
            for (nibble, keys) in keys.bits[0].iter().enumerate() {
                let at = 4 * nibble;
                let outputs = $keyed(keys, [bits[at], bits[at + 1], bits[at + 2], bits[at + 3]]);
                for (k, output) in outputs.into_iter().enumerate() {
                    other[16 * k + 4 * (nibble % 4) + nibble / 4] = output;
                }
            }
            let (mut from, mut to) = (&mut other, &mut *bits);
            // Four neighbouring S-boxes of a round have the inputs of four S-boxes of the next, so
            // sixteen words stay in registers for two rounds.
            for keys in keys.bits[1..].as_chunks::<2>().0 {
                let keys = [keys[0].as_chunks::<4>().0, keys[1].as_chunks::<4>().0];
                for (group, bits) in from.as_chunks::<NIBBLES>().0.iter().enumerate() {
                    let first = |i: usize| {
                        let bits = [bits[i], bits[4 + i], bits[8 + i], bits[12 + i]];
                        in_turn($keyed(&keys[0][group][i], bits))
                    };
                    let [a, b, c, d] = [first(0), first(1), first(2), first(3)];
                    let mut second = |i: usize| {
                        let bits = $keyed(&keys[1][group][i], [a[i], b[i], c[i], d[i]]);
                        for (k, bit) in in_turn(bits).into_iter().enumerate() {
                            to[16 * k + 4 * group + i] = bit;
                        }
                    };
                    second(0);
                    second(1);
                    second(2);
                    second(3);
                }
                swap(&mut from, &mut to);
            }
            // The last of fifteen times two rounds went to `bits`.
            let last = keys.bits[ROUND_KEYS - 1].as_chunks::<4>().0;
            for (set, keys) in bits.as_chunks_mut::<NIBBLES>().0.iter_mut().zip(last) {
                let words = *set;
                for (i, keys) in keys.iter().enumerate() {
                    let sums = [words[i], words[4 + i], words[8 + i], words[12 + i]];
                    set[4 * i..][..4].copy_from_slice(&add(load_keys(keys), sums));
                }
            }
        }
    };
}

encrypt_many!(encrypt_many, keyed);
encrypt_many!(
    #[target_feature(enable = "sha3")]
    encrypt_many_by_sha3,
    keyed_by_sha3
);

/// Transposes each lane in two passes over the words, in which eight words are in registers for
/// three steps.
fn transpose(words: &mut Set) {
    for first in 0..8 {
        let mut set = [0, 1, 2, 3, 4, 5, 6, 7].map(|i| words[first + 8 * i]);
        exchange_pairs::<4, 32>(&mut set, 0x0000_0000_ffff_ffff);
        exchange_pairs::<2, 16>(&mut set, 0x0000_ffff_0000_ffff);
        exchange_pairs::<1, 8>(&mut set, 0x00ff_00ff_00ff_00ff);
        for (i, word) in set.into_iter().enumerate() {
            words[first + 8 * i] = word;
        }
    }
    for set in words.as_chunks_mut::<8>().0 {
        exchange_pairs::<4, 4>(set, 0x0f0f_0f0f_0f0f_0f0f);
        exchange_pairs::<2, 2>(set, 0x3333_3333_3333_3333);
        exchange_pairs::<1, 1>(set, 0x5555_5555_5555_5555);
    }
}

/// [`Word::exchange`] of words whose indices differ by `DISTANCE`, 1, 2 or 4.
#[inline(always)]
fn exchange_pairs<const DISTANCE: usize, const BITS: i32>(set: &mut [Word128; 8], mask: u64) {
    for i in 0..4 {
        let at = i & (DISTANCE - 1) | (i & !(DISTANCE - 1)) << 1;
        [set[at], set[at | DISTANCE]] =
            Word128::exchange::<BITS>([set[at], set[at | DISTANCE]], mask);
    }
}

/// Implements [`Machine::load`]. Shares are loaded together with the bytes behind them, which are
/// shifted out.
fn load(blocks: &mut Blocks<'_>, set: &mut Set) -> bool {
    let Some((shares, share, counter)) = blocks.take(2 * BITS) else { return false };
    let bits = 8 * share as u32;
    let counters: [u64; 2] = [counter << bits, counter.wrapping_add(1) << bits];
    // SAFETY: the processor has NEON. The array is as long as a register, and `shares` has eight
    // bytes from the beginning of each of the shares on.
    unsafe {
        let mut counters = vld1q_u64(counters.as_ptr());
        let (step, down) = (vdupq_n_u64(2 << bits), vdupq_n_s64(i64::from(bits) - 64));
        let mut from = shares.as_ptr();
        for word in set {
            let first = vcombine_u8(vld1_u8(from), vld1_u8(from.add(share)));
            let numbers = vshlq_u64(vreinterpretq_u64_u8(vrev64q_u8(first)), down);
            *word = Word128(vreinterpretq_u8_u64(vorrq_u64(numbers, counters)));
            counters = vaddq_u64(counters, step);
            from = from.add(2 * share);
        }
    }
    true
}

impl Machine for Keys {
    type Many = Word128;
    const FEW: usize = 8;
    const MOST_FEW: usize = 72;

    #[inline(always)]
    fn encrypt_few(&self, blocks: &mut [u64]) {
        let load = |at: usize| Word128::load(&blocks[at..]);
        let add_key = |round: usize, bits: [Word128; 4]| {
            // SAFETY: the processor has NEON, and the array has four numbers.
            let keys = unsafe { vld4q_dup_u16(self.few[round].as_ptr()) };
            // SAFETY: the processor has NEON.
            let word = |keys| Word128(unsafe { vreinterpretq_u8_u16(keys) });
            add([word(keys.0), word(keys.1), word(keys.2), word(keys.3)], bits)
        };
        let set = [load(0), load(2), load(4), load(6)];
        let set = sliced::encrypt_few_with(add_key, substitute, set);
        for (word, blocks) in set.into_iter().zip(blocks.chunks_exact_mut(2)) {
            word.store(blocks);
        }
    }

    fn load(blocks: &mut Blocks<'_>, words: &mut Set) -> bool {
        load(blocks, words)
    }

    fn parities(words: &mut Set) -> u64 {
        sliced::parities_by_halves(words)
    }

    fn transpose(words: &mut Set) {
        transpose(words);
    }

    fn encrypt_many(&self, bits: &mut Set) {
        if self.sha3 {
            // SAFETY: the processor has the SHA3 extension.
            unsafe { encrypt_many_by_sha3(self, bits) }
        } else {
            encrypt_many(self, bits);
        }
    }
}

impl Backend for Keys {
    fn encrypt(&self, blocks: &mut [u64]) {
        sliced::encrypt(self, blocks);
    }

    fn hash(&self, counter_bytes: usize, message: &[u8], state: &mut [u8]) {
        sliced::hash(self, counter_bytes, message, state);
    }

    fn hash_many(&self, counter_bytes: usize, messages: &[&[u8]], states: &mut [u8]) {
        sliced::hash_many(self, counter_bytes, messages, states);
    }

    fn add(&self, counter_bytes: usize, counter: u64, shares: &[u8], state: &mut [u8]) {
        sliced::add(self, counter_bytes, counter, shares, state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_circuits_agree() {
        let step = |at: usize| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let keys = core::array::from_fn(|at| step(at + 1000));
        let blocks: [u64; 2 * BITS] = core::array::from_fn(step);
        let (mut plain, mut by_sha3, mut few) = (blocks, blocks, blocks);
        let Sliced(kernel) = Neon::with_extension(&keys, false);
        kernel.encrypt(&mut plain);
        for blocks in few.chunks_mut(<Keys as Machine>::FEW) {
            kernel.encrypt(blocks);
        }
        assert_eq!(plain, few);
        if sha3_extension::get() {
            Neon::with_extension(&keys, true).0.encrypt(&mut by_sha3);
            assert_eq!(plain, by_sha3);
        }
    }
}
