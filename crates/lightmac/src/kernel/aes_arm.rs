//! AES on aarch64 with the AES extension: one block in each register, eight at a time.
//!
//! - All round keys stay in registers: there are 32 registers, and AES-256 needs 15 for them.
//! - A block is loaded together with the message bytes before its share, as many as a counter has,
//!   and the counter replaces them. No byte is loaded that is not the message's, and nothing is
//!   shifted. Only the first block of a message has no bytes before it.
//! - AESE adds the round key *before* the S-box, so the last round key is added to what it computes.
//!   All blocks of a message are summed up, and in the sum of an even number of blocks the last
//!   round keys cancel out.

use super::Native;
use super::bytes::{number, padded};
use cipher::consts::{U8, U16};
use cipher::inout::{InOut, InOutBuf};
use cipher::typenum::Unsigned;
use cipher::{Block, BlockCipherEncBackend, BlockSizeUser, ParBlocks, ParBlocksSizeUser};
use core::arch::aarch64::*;
use zeroize::ZeroizeOnDrop;

/// Number of blocks in one call for a batch.
type Batch = U8;
/// Length of a block, in bytes.
const BLOCK: usize = 16;
/// Number of blocks in flight, for which the latency of a round is filled on the largest cores.
const WIDTH: usize = 8;

cpufeatures::new!(aes_extension, "aes");

/// The `R` round keys of AES-128 (11) or AES-256 (15), which are erased on drop.
#[derive(Clone, ZeroizeOnDrop)]
#[repr(align(16))]
struct RoundKeys<const R: usize>([[u8; BLOCK]; R]);

impl<const R: usize> RoundKeys<R> {
    /// Expands `key` (FIPS 197, section 5.2). `None` if the key's length does not belong to `R`
    /// round keys.
    #[target_feature(enable = "aes")]
    fn expand(key: &[u8]) -> Option<Self> {
        let words = key.len() / 4;
        if !matches!((words, R), (4, 11) | (8, 15)) || !key.len().is_multiple_of(4) {
            return None;
        }
        let mut keys = Self([[0; BLOCK]; R]);
        let all = keys.0.as_flattened_mut();
        all[..key.len()].copy_from_slice(key);
        let mut constant = 1u8;
        for i in words..4 * R {
            let mut new = word(all, i - 1);
            if i % words == 0 {
                new = substitute(new).rotate_right(8) ^ u32::from(constant);
                constant = constant << 1 ^ if constant & 0x80 == 0 { 0 } else { 0x1b };
            } else if i % words == 4 {
                new = substitute(new);
            }
            new ^= word(all, i - words);
            all[4 * i..4 * i + 4].copy_from_slice(&new.to_le_bytes());
        }
        Some(keys)
    }

    /// The round keys in registers.
    #[target_feature(enable = "aes")]
    #[inline]
    fn load(&self) -> [uint8x16_t; R] {
        self.0.map(|key| load_one(&key))
    }
}

/// Word `i` of the expanded key, which must already have been computed.
fn word(all: &[u8], i: usize) -> u32 {
    u32::from_le_bytes([all[4 * i], all[4 * i + 1], all[4 * i + 2], all[4 * i + 3]])
}

/// Applies the S-box to each byte of a word. The instruction also moves bytes between columns, which
/// does nothing if all columns are equal.
#[target_feature(enable = "aes")]
fn substitute(word: u32) -> u32 {
    let columns = vreinterpretq_u8_u32(vdupq_n_u32(word));
    vgetq_lane_u32::<0>(vreinterpretq_u32_u8(vaeseq_u8(columns, vdupq_n_u8(0))))
}

/// AES with `R` round keys by the AES extension. A value exists only if the processor has it.
#[derive(Clone)]
pub(crate) struct ArmAes<const R: usize>(RoundKeys<R>);

impl<const R: usize> ArmAes<R> {
    /// Whether the processor has the AES extension.
    pub(crate) fn is_available() -> bool {
        aes_extension::get()
    }

    /// The kernel with the expansion of `key`; `None` if the processor lacks the extension.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        if !Self::is_available() {
            return None;
        }
        // SAFETY: the processor has the instructions.
        unsafe { RoundKeys::expand(key) }.map(Self)
    }
}

impl<const R: usize> Native for ArmAes<R> {
    fn hash_many(&self, counter_bytes: usize, messages: &[&[u8]], states: &mut [u8]) {
        let sum = if counter_bytes == TWO { sum::<TWO, R> } else { sum::<ANY, R> };
        // SAFETY: `self` exists, so the processor has the instructions.
        unsafe { sum(&self.0, counter_bytes, 1, messages, states, true) }
    }

    fn add(&self, counter_bytes: usize, counter: u64, shares: &[u8], state: &mut [u8]) {
        let sum = if counter_bytes == TWO { sum::<TWO, R> } else { sum::<ANY, R> };
        // SAFETY: `self` exists, so the processor has the instructions.
        unsafe { sum(&self.0, counter_bytes, counter, &[shares], state, false) }
    }
}

impl<const R: usize> BlockSizeUser for ArmAes<R> {
    type BlockSize = U16;
}

impl<const R: usize> ParBlocksSizeUser for ArmAes<R> {
    type ParBlocksSize = Batch;
}

impl<const R: usize> BlockCipherEncBackend for ArmAes<R> {
    #[inline]
    fn encrypt_block(&self, block: InOut<'_, '_, Block<Self>>) {
        let (from, to) = block.into_raw();
        // SAFETY: `self` exists, so the processor has the instructions; one block is readable and
        // writable.
        unsafe { encrypt_one(&self.0, from.cast(), to.cast()) }
    }

    #[inline]
    fn encrypt_par_blocks(&self, blocks: InOut<'_, '_, ParBlocks<Self>>) {
        let (from, to) = blocks.into_raw();
        // SAFETY: `self` exists, so the processor has the instructions; a batch is readable and
        // writable.
        unsafe { encrypt(&self.0, from.cast(), to.cast(), Batch::USIZE) }
    }

    #[inline]
    fn encrypt_tail_blocks(&self, blocks: InOutBuf<'_, '_, Block<Self>>) {
        let count = blocks.len();
        let (from, to) = blocks.into_raw();
        // SAFETY: `self` exists, so the processor has the instructions; `count` blocks are readable
        // and writable.
        unsafe { encrypt(&self.0, from.cast(), to.cast(), count) }
    }
}

/// Stands for a length of counters that is known at run time only.
const ANY: usize = 0;
/// Length of the counters of records, in bytes, which have code of their own.
const TWO: usize = 2;

/// The next counters of a message, of `BYTES` bytes.
#[derive(Clone, Copy)]
struct Counters<const BYTES: usize> {
    bytes: usize,
    next: u64,
    /// The bits of a block that are not the counter's.
    others: uint8x16_t,
    /// The next eight counters of two bytes, which are in use instead of `next`.
    eight: uint16x8_t,
}

impl<const BYTES: usize> Counters<BYTES> {
    /// The counters of `bytes` bytes, 1 to 8, from `first` on. A counter that does not fit is cut
    /// off.
    #[target_feature(enable = "aes")]
    #[inline]
    fn new(bytes: usize, first: u64) -> Self {
        let counter = u128::from(u64::MAX >> (64 - 8 * bytes));
        let steps: [u16; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
        // SAFETY: the array is as long as the register.
        let steps = unsafe { vld1q_u16(steps.as_ptr()) };
        Self {
            bytes,
            next: first,
            others: in_register(!counter),
            eight: vaddq_u16(vdupq_n_u16(first as u16), steps),
        }
    }

    /// Length of a counter, in bytes.
    #[inline(always)]
    fn bytes(&self) -> usize {
        if BYTES == ANY { self.bytes } else { BYTES }
    }

    /// `block` with counter `I` from the next one, 0 to 7, in place of its leading bytes.
    #[target_feature(enable = "aes")]
    #[inline]
    fn put_into<const I: i32>(&self, block: uint8x16_t) -> uint8x16_t {
        if BYTES == TWO {
            let big_endian = vreinterpretq_u16_u8(vrev16q_u8(vreinterpretq_u8_u16(self.eight)));
            let block = vreinterpretq_u16_u8(block);
            return vreinterpretq_u8_u16(vcopyq_laneq_u16::<0, I>(block, big_endian));
        }
        let counter = self.next.wrapping_add(I as u64) << (64 - 8 * self.bytes);
        let counter = in_register(counter.swap_bytes().into());
        vorrq_u8(vandq_u8(block, self.others), counter)
    }

    /// Leaves out the next `count` counters.
    #[target_feature(enable = "aes")]
    #[inline]
    fn advance(&mut self, count: usize) {
        self.next = self.next.wrapping_add(count as u64);
        self.eight = vaddq_u16(self.eight, vdupq_n_u16(count as u16));
    }
}

/// Places of bytes behind 16 zeros and before 16 zeros. A place of 16 or more makes a zero.
const PLACES: [u8; 3 * BLOCK] = {
    let mut places = [0xff; 3 * BLOCK];
    let mut at = 0;
    while at < BLOCK {
        places[BLOCK + at] = at as u8;
        at += 1;
    }
    places
};

/// The padding bit behind 15 zeros and before 15 zeros.
const PADDING: [u8; 2 * BLOCK - 1] = {
    let mut padding = [0; 2 * BLOCK - 1];
    padding[BLOCK - 1] = 0x80;
    padding
};

/// 16 of [`PLACES`] from `at` on, 0 to 32.
#[target_feature(enable = "aes")]
#[inline]
fn places(at: usize) -> uint8x16_t {
    let places = &PLACES[at..at + BLOCK];
    // SAFETY: the slice is as long as the register.
    unsafe { vld1q_u8(places.as_ptr()) }
}

/// For each message, adds the encrypted blocks of its whole shares to its state. Counters begin at
/// `first`. If `ends` is set, adds the padded remainder as well.
#[target_feature(enable = "aes")]
fn sum<const BYTES: usize, const R: usize>(
    keys: &RoundKeys<R>,
    counter_bytes: usize,
    first: u64,
    messages: &[&[u8]],
    states: &mut [u8],
    ends: bool,
) {
    let keys = keys.load();
    let begin = Counters::<BYTES>::new(counter_bytes, first);
    let share = BLOCK - begin.bytes();
    for (message, state) in messages.iter().zip(states.chunks_exact_mut(BLOCK)) {
        let count = message.len() / share;
        let mut counters = begin;
        let mut total = vdupq_n_u8(0);
        let mut at = 0;
        let mut left = count;
        // It is a macro because a closure would pass the keys in memory.
        macro_rules! take {
            ($width:literal: $($i:literal)*) => {{
                let front = if at == 0 {
                    first_share(message, begin.bytes())
                } else {
                    // SAFETY: a share and the share before it, which is no shorter than a counter,
                    // are in the message.
                    unsafe { vld1q_u8(message.as_ptr().add(at - begin.bytes())) }
                };
                let mut blocks = [
                    counters.put_into::<0>(front),
                    $(counters.put_into::<$i>({
                        let at = at + $i * share - begin.bytes();
                        // SAFETY: as above.
                        unsafe { vld1q_u8(message.as_ptr().add(at)) }
                    }),)*
                ];
                counters.advance($width);
                at += $width * share;
                left -= $width;
                encrypt_registers(&keys, &mut blocks);
                for block in blocks {
                    total = veorq_u8(total, block);
                }
            }};
        }
        while left >= WIDTH {
            take!(8: 1 2 3 4 5 6 7);
        }
        if left >= 4 {
            take!(4: 1 2 3);
        }
        if left >= 2 {
            take!(2: 1);
        }
        if left >= 1 {
            take!(1:);
        }
        debug_assert_eq!(left, 0, "all blocks");
        if count % 2 == 1 {
            total = veorq_u8(total, keys[R - 1]);
        }
        if ends {
            let rest = match message.last_chunk() {
                Some(end) => remainder(end, message.len() - at),
                None => in_register(padded(&message[at..])),
            };
            total = veorq_u8(total, rest);
        }
        store_one(veorq_u8(total, load_one(state)), state);
    }
}

/// The first share of `message`, which has at least one, behind `bytes` bytes for its counter.
#[target_feature(enable = "aes")]
#[inline]
fn first_share(message: &[u8], bytes: usize) -> uint8x16_t {
    let share = match message.first_chunk::<BLOCK>() {
        // SAFETY: the array is as long as the register.
        Some(chunk) => unsafe { vld1q_u8(chunk.as_ptr()) },
        None => in_register(number(&message[..BLOCK - bytes])),
    };
    vqtbl1q_u8(share, places(BLOCK - bytes))
}

/// The last `count` bytes of a message, at most 15, with the padding bit. `end` has the last bytes of
/// the message.
#[target_feature(enable = "aes")]
#[inline]
fn remainder(end: &[u8; BLOCK], count: usize) -> uint8x16_t {
    // Bounds need not be checked for a number below 16.
    let count = count % BLOCK;
    let padding = &PADDING[BLOCK - 1 - count..][..BLOCK];
    // SAFETY: the array and the slice are as long as the register.
    let (end, padding) = unsafe { (vld1q_u8(end.as_ptr()), vld1q_u8(padding.as_ptr())) };
    vorrq_u8(vqtbl1q_u8(end, places(2 * BLOCK - count)), padding)
}

/// A number in a register, in little endian.
#[target_feature(enable = "aes")]
#[inline]
fn in_register(number: u128) -> uint8x16_t {
    let [low, high] = [number as u64, (number >> 64) as u64];
    vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)))
}

/// Computes all rounds of blocks, except that the last round key is not added.
#[target_feature(enable = "aes")]
#[inline]
fn encrypt_registers<const R: usize, const W: usize>(
    keys: &[uint8x16_t; R],
    blocks: &mut [uint8x16_t; W],
) {
    for key in &keys[..R - 2] {
        for block in blocks.iter_mut() {
            *block = vaesmcq_u8(vaeseq_u8(*block, *key));
        }
    }
    for block in blocks {
        *block = vaeseq_u8(*block, keys[R - 2]);
    }
}

/// Encrypts one block.
///
/// # Safety
///
/// `from` is readable and `to` writable for a block.
#[target_feature(enable = "aes")]
unsafe fn encrypt_one<const R: usize>(keys: &RoundKeys<R>, from: *const u8, to: *mut u8) {
    // SAFETY: the caller guarantees that this memory may be accessed.
    let mut blocks = [unsafe { vld1q_u8(from) }];
    let keys = keys.load();
    encrypt_registers(&keys, &mut blocks);
    // SAFETY: the caller guarantees that this memory may be accessed.
    unsafe { vst1q_u8(to, veorq_u8(blocks[0], keys[R - 1])) }
}

/// Encrypts `count` blocks.
///
/// # Safety
///
/// `from` is readable and `to` writable for `count` blocks. They are equal or do not overlap.
#[target_feature(enable = "aes")]
unsafe fn encrypt<const R: usize>(keys: &RoundKeys<R>, from: *const u8, to: *mut u8, count: usize) {
    let keys = keys.load();
    let mut done = 0;
    macro_rules! take {
        ($width:expr) => {{
            let mut blocks = [keys[0]; $width];
            for (i, block) in blocks.iter_mut().enumerate() {
                // SAFETY: at least this many blocks are left.
                *block = unsafe { vld1q_u8(from.add((done + i) * BLOCK)) };
            }
            encrypt_registers(&keys, &mut blocks);
            for (i, block) in blocks.into_iter().enumerate() {
                let block = veorq_u8(block, keys[R - 1]);
                // SAFETY: at least this many blocks are left.
                unsafe { vst1q_u8(to.add((done + i) * BLOCK), block) }
            }
            done += $width;
        }};
    }
    while count - done >= WIDTH {
        take!(WIDTH);
    }
    if count - done >= 4 {
        take!(4);
    }
    if count - done >= 2 {
        take!(2);
    }
    if count > done {
        take!(1);
    }
    debug_assert_eq!(done, count, "all blocks");
}

/// # Panics
/// When `block` is shorter than a block.
#[target_feature(enable = "aes")]
#[inline]
fn load_one(block: &[u8]) -> uint8x16_t {
    let block: &[u8; BLOCK] = block.first_chunk().expect("a block");
    // SAFETY: the array is as long as the register.
    unsafe { vld1q_u8(block.as_ptr()) }
}

/// # Panics
/// When `to` is shorter than a block.
#[target_feature(enable = "aes")]
#[inline]
fn store_one(block: uint8x16_t, to: &mut [u8]) {
    let to: &mut [u8; BLOCK] = to.first_chunk_mut().expect("a block");
    // SAFETY: the array is as long as the register.
    unsafe { vst1q_u8(to.as_mut_ptr(), block) }
}
