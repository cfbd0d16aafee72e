//! PRESENT on words that hold one bit of many blocks, for words of any width.
//!
//! With many blocks there are 64 words, one for each bit of a block, so that the permutation layer
//! only renames words. With few blocks there are four words, one for each bit of a nibble, in which
//! 16 bits hold the nibbles of a block. The permutation layer then exchanges the word's index with
//! half of the index within the word, with the lower and the upper half in turn. `avx512/planes.rs`
//! explains the indices.

use super::{BLOCK, ROUND_KEYS, add_to, padded};
use core::array;

const ROUNDS: usize = ROUND_KEYS - 1;
/// Number of bits in a block, and of blocks in a lane.
const BITS: usize = 64;

/// A word that consists of lanes of 64 bits.
pub(super) trait Word: Copy {
    const LANES: usize;
    fn splat(lane: u64) -> Self;
    /// Loads the first `LANES` elements of `lanes`.
    fn load(lanes: &[u64]) -> Self;
    fn store(self, lanes: &mut [u64]);
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    fn up<const BITS: i32>(self) -> Self;
    fn down<const BITS: i32>(self) -> Self;
}

/// The words of a processor, and the round keys for them.
pub(super) trait Machine {
    type Many: Word;
    /// Number of blocks in one call of [`encrypt_few`](Self::encrypt_few).
    const FEW: usize;
    /// The largest number of blocks that are encrypted as few blocks.
    const MOST_FEW: usize;
    /// Bit `bit` of round key `round`, repeated in all bits.
    fn bit(&self, round: usize, bit: usize) -> Self::Many;
    /// Encrypts [`FEW`](Self::FEW) blocks, each a number.
    fn encrypt_few(&self, blocks: &mut [u64]);
}

/// The round keys for few blocks. From the second on, each is added after an S-box layer and before
/// the permutation, so it is permuted backwards.
pub(super) fn few_keys(round_keys: &[u64; ROUND_KEYS]) -> [u64; ROUND_KEYS] {
    array::from_fn(|round| match round {
        0 => permute(round_keys[0]),
        _ if round % 2 == 1 => round_keys[round],
        _ => swap_halves(round_keys[round]),
    })
}

/// The S-box C56B90AD3EF84712 as a circuit, from Courtois, Hulme, Mourouzis, "Solving Circuit
/// Optimisation Problems in Cryptography and Cryptanalysis", 2011.
#[inline(always)]
pub(super) fn substitute<W: Word>([x0, x1, x2, x3]: [W; 4]) -> [W; 4] {
    let t1 = x1.xor(x2);
    let t2 = x2.and(t1);
    let t3 = x3.xor(t2);
    let y0 = x0.xor(t3);
    let t2 = t1.and(t3);
    let t1 = t1.xor(y0);
    let t2 = t2.xor(x2);
    let y1 = t1.xor(x0.or(t2));
    let t2 = t2.xor(x0).xor(W::splat(u64::MAX));
    let y3 = y1.xor(t2);
    let y2 = t3.xor(t2.or(t1));
    [y0, y1, y2, y3]
}

/// Exchanges the bits of `low` under `mask << BITS` with those of `high` under `mask`.
#[inline(always)]
fn exchange<W: Word, const BITS: i32>([low, high]: [W; 2], mask: u64) -> [W; 2] {
    let t = low.down::<BITS>().xor(high).and(W::splat(mask));
    [low.xor(t.up::<BITS>()), high.xor(t)]
}

/// Exchanges the bits under `mask` with those `BITS` places above.
#[inline(always)]
fn swap<W: Word, const BITS: i32>(word: W, mask: u64) -> W {
    let t = word.down::<BITS>().xor(word).and(W::splat(mask));
    word.xor(t).xor(t.up::<BITS>())
}

/// The permutation layer within lanes: bit i moves to 16·i mod 63.
#[inline(always)]
fn permute<W: Word>(word: W) -> W {
    let word = swap::<W, 3>(word, 0x0a0a_0a0a_0a0a_0a0a);
    let word = swap::<W, 12>(word, 0x0000_f0f0_0000_f0f0);
    let word = swap::<W, 6>(word, 0x00cc_00cc_00cc_00cc);
    swap::<W, 24>(word, 0x0000_0000_ff00_ff00)
}

/// The inverse of [`permute`].
#[inline(always)]
fn permute_back<W: Word>(word: W) -> W {
    let word = swap::<W, 24>(word, 0x0000_0000_ff00_ff00);
    let word = swap::<W, 6>(word, 0x00cc_00cc_00cc_00cc);
    let word = swap::<W, 12>(word, 0x0000_f0f0_0000_f0f0);
    swap::<W, 3>(word, 0x0a0a_0a0a_0a0a_0a0a)
}

/// Exchanges the two halves of the index within each 16 bits.
#[inline(always)]
fn swap_halves<W: Word>(word: W) -> W {
    swap::<W, 6>(swap::<W, 3>(word, 0x0a0a_0a0a_0a0a_0a0a), 0x00cc_00cc_00cc_00cc)
}

/// Exchanges the word's index with two bits of the index within the word, whose values are `ONE`
/// and `TWO`. `masks` select the positions where these bits are zero.
#[inline(always)]
fn exchange_index<W: Word, const ONE: i32, const TWO: i32>(
    [a, b, c, d]: [W; 4],
    masks: [u64; 2],
) -> [W; 4] {
    let [a, b] = exchange::<W, ONE>([a, b], masks[0]);
    let [c, d] = exchange::<W, ONE>([c, d], masks[0]);
    let [a, c] = exchange::<W, TWO>([a, c], masks[1]);
    let [b, d] = exchange::<W, TWO>([b, d], masks[1]);
    [a, b, c, d]
}

#[inline(always)]
fn exchange_blocks<W: Word>(set: [W; 4]) -> [W; 4] {
    exchange_index::<W, 16, 32>(set, [0x0000_ffff_0000_ffff, 0x0000_0000_ffff_ffff])
}

#[inline(always)]
fn add_key<W: Word>(key: u64, [a, b, c, d]: [W; 4]) -> [W; 4] {
    let plane = |i: u32| W::splat((key >> (16 * i) & 0xffff) * 0x0001_0001_0001_0001);
    [a.xor(plane(0)), b.xor(plane(1)), c.xor(plane(2)), d.xor(plane(3))]
}

/// Encrypts four words with four blocks in each lane, with the keys of [`few_keys`].
#[inline(always)]
pub(super) fn encrypt_few<W: Word>(keys: &[u64; ROUND_KEYS], [a, b, c, d]: [W; 4]) -> [W; 4] {
    const LOWER: [u64; 2] = [0x5555_5555_5555_5555, 0x3333_3333_3333_3333];
    const UPPER: [u64; 2] = [0x0f0f_0f0f_0f0f_0f0f, 0x00ff_00ff_00ff_00ff];
    let set = exchange_blocks([permute(a), permute(b), permute(c), permute(d)]);
    let mut set = add_key(keys[0], set);
    let mut round = 1;
    while round < ROUNDS {
        set = add_key(keys[round], substitute(set));
        set = exchange_index::<_, 1, 2>(set, LOWER);
        set = add_key(keys[round + 1], substitute(set));
        set = exchange_index::<_, 4, 8>(set, UPPER);
        round += 2;
    }
    set = add_key(keys[ROUNDS], substitute(set));
    let [a, b, c, d] = exchange_index::<_, 1, 2>(set, LOWER);
    let [a, b, c, d] =
        exchange_blocks([swap_halves(a), swap_halves(b), swap_halves(c), swap_halves(d)]);
    [permute_back(a), permute_back(b), permute_back(c), permute_back(d)]
}

/// Computes one round from `from` to `to`.
#[inline(always)]
fn round<M: Machine>(machine: &M, round: usize, from: &[M::Many; BITS], to: &mut [M::Many; BITS]) {
    for nibble in 0..BITS / 4 {
        let at = 4 * nibble;
        let bits = substitute([
            from[at].xor(machine.bit(round, at)),
            from[at + 1].xor(machine.bit(round, at + 1)),
            from[at + 2].xor(machine.bit(round, at + 2)),
            from[at + 3].xor(machine.bit(round, at + 3)),
        ]);
        to[nibble] = bits[0];
        to[16 + nibble] = bits[1];
        to[32 + nibble] = bits[2];
        to[48 + nibble] = bits[3];
    }
}

/// Encrypts 64 blocks in each lane. Word i has bit i of every block.
#[inline(always)]
fn encrypt_many<M: Machine>(machine: &M, bits: &mut [M::Many; BITS]) {
    let mut other = [M::Many::splat(0); BITS];
    let mut first = 0;
    while first < ROUNDS - 1 {
        round(machine, first, bits, &mut other);
        round(machine, first + 1, &other, bits);
        first += 2;
    }
    round(machine, ROUNDS - 1, bits, &mut other);
    for bit in 0..BITS {
        bits[bit] = other[bit].xor(machine.bit(ROUNDS, bit));
    }
}

/// Transposes each lane: bit i of each of its 64 blocks becomes word i of the lane. It is its own
/// inverse.
#[inline(always)]
fn transpose<W: Word>(words: &mut [W; BITS]) {
    #[inline(always)]
    fn stage<W: Word, const DISTANCE: i32>(words: &mut [W; BITS], mask: u64) {
        let distance = DISTANCE as usize;
        for i in 0..BITS / 2 {
            // The i-th index in which the bit for the distance is zero.
            let at = i & (distance - 1) | (i & !(distance - 1)) << 1;
            let [low, high] = exchange::<W, DISTANCE>([words[at], words[at | distance]], mask);
            (words[at], words[at | distance]) = (low, high);
        }
    }
    stage::<W, 32>(words, 0x0000_0000_ffff_ffff);
    stage::<W, 16>(words, 0x0000_ffff_0000_ffff);
    stage::<W, 8>(words, 0x00ff_00ff_00ff_00ff);
    stage::<W, 4>(words, 0x0f0f_0f0f_0f0f_0f0f);
    stage::<W, 2>(words, 0x3333_3333_3333_3333);
    stage::<W, 1>(words, 0x5555_5555_5555_5555);
}

/// The largest number of blocks in a call for few blocks.
const MOST_AT_ONCE: usize = 16;
/// The largest number of blocks in a call for many blocks.
const MOST: usize = 256;

/// Loads blocks into words: block `i` is lane `i` mod `LANES` of word `i` / `LANES`.
#[inline(always)]
fn gather<W: Word>(blocks: &[u64]) -> [W; BITS] {
    let mut words = [W::splat(0); BITS];
    for (word, lanes) in words.iter_mut().zip(blocks.chunks_exact(W::LANES)) {
        *word = W::load(lanes);
    }
    words
}

/// Encrypts blocks, each a number.
#[inline(always)]
pub(super) fn encrypt<M: Machine>(machine: &M, mut blocks: &mut [u64]) {
    let many = BITS * M::Many::LANES;
    while blocks.len() > M::MOST_FEW {
        let mut padded = [0; MOST];
        let (now, later) = blocks.split_at_mut(blocks.len().min(many));
        padded[..now.len()].copy_from_slice(now);
        let mut words = gather::<M::Many>(&padded[..many]);
        transpose(&mut words);
        encrypt_many(machine, &mut words);
        transpose(&mut words);
        for (word, lanes) in words.iter().zip(padded.chunks_exact_mut(M::Many::LANES)) {
            word.store(lanes);
        }
        now.copy_from_slice(&padded[..now.len()]);
        blocks = later;
    }
    for now in blocks.chunks_mut(M::FEW) {
        if now.len() == M::FEW {
            machine.encrypt_few(now);
        } else {
            let mut padded = [0; MOST_AT_ONCE];
            padded[..now.len()].copy_from_slice(now);
            machine.encrypt_few(&mut padded[..M::FEW]);
            now.copy_from_slice(&padded[..now.len()]);
        }
    }
}

/// The blocks of a message's whole shares, with their counters.
pub(super) struct Blocks<'a> {
    shares: &'a [u8],
    share: usize,
    counter: u64,
}

impl<'a> Blocks<'a> {
    /// The blocks of `shares`, the first with this counter.
    #[inline(always)]
    pub(super) const fn new(counter_bytes: usize, counter: u64, shares: &'a [u8]) -> Self {
        Self { shares, share: BLOCK - counter_bytes, counter }
    }

    #[inline(always)]
    fn left(&self) -> usize {
        self.shares.len() / self.share
    }

    /// Fills `into` with the next blocks, as many as are left or fit. Returns their number.
    #[inline(always)]
    pub(super) fn fill(&mut self, into: &mut [u64]) -> usize {
        let count = self.left().min(into.len());
        let bits = 8 * self.share as u32;
        for block in &mut into[..count] {
            // A share is loaded together with the bytes behind it, if there are enough.
            let share = match self.shares.first_chunk() {
                Some(bytes) => u64::from_be_bytes(*bytes) >> (64 - bits),
                None => {
                    let share = &self.shares[..self.share];
                    share.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
                }
            };
            *block = self.counter << bits | share;
            self.counter = self.counter.wrapping_add(1);
            self.shares = &self.shares[self.share..];
        }
        count
    }
}

/// Sets the state to the padded remainder of a message, and returns the message's whole shares.
#[inline(always)]
pub(super) fn begin<'a>(counter_bytes: usize, message: &'a [u8], state: &mut [u8]) -> &'a [u8] {
    let share = BLOCK - counter_bytes;
    let (shares, rest) = message.split_at(message.len() / share * share);
    state.copy_from_slice(&padded(rest).to_le_bytes());
    shares
}

/// The sum of the encrypted blocks, as a number.
#[inline(always)]
fn sum<M: Machine>(machine: &M, blocks: &mut Blocks<'_>, until: usize) -> u64 {
    let lanes = M::Many::LANES;
    let mut buffer = [0; MOST];
    let mut sum = 0;
    if blocks.left() > until {
        let mut total = [M::Many::splat(0); BITS];
        while blocks.left() > until {
            let count = blocks.fill(&mut buffer[..BITS * lanes]);
            let mut words = gather::<M::Many>(&buffer[..BITS * lanes]);
            transpose(&mut words);
            encrypt_many(machine, &mut words);
            let mut wanted = [0; MOST];
            for (lane, wanted) in wanted[..lanes].iter_mut().enumerate() {
                let rows = count.saturating_sub(lane).div_ceil(lanes);
                *wanted = u64::MAX.checked_shr((BITS - rows) as u32).unwrap_or(0);
            }
            let wanted = M::Many::load(&wanted);
            for (total, word) in total.iter_mut().zip(&words) {
                *total = total.xor(word.and(wanted));
            }
        }
        for (i, total) in total.iter().enumerate() {
            total.store(&mut buffer);
            let lanes = buffer[..lanes].iter().fold(0, |all, lane| all ^ lane);
            sum |= u64::from(lanes.count_ones() % 2) << i;
        }
    }
    sum
}

#[inline(always)]
pub(super) fn add<M: Machine>(
    machine: &M,
    counter_bytes: usize,
    counter: u64,
    shares: &[u8],
    state: &mut [u8],
) {
    let mut blocks = Blocks::new(counter_bytes, counter, shares);
    let mut sum = sum(machine, &mut blocks, M::MOST_FEW);
    let mut last = [0; MOST];
    let count = blocks.fill(&mut last);
    encrypt(machine, &mut last[..count]);
    sum = last[..count].iter().fold(sum, |sum, block| sum ^ block);
    add_to(state, sum.swap_bytes());
}

#[inline(always)]
pub(super) fn hash<M: Machine>(
    machine: &M,
    counter_bytes: usize,
    message: &[u8],
    state: &mut [u8],
) {
    let shares = begin(counter_bytes, message, state);
    add(machine, counter_bytes, 1, shares, state);
}

#[inline(always)]
pub(super) fn hash_many<M: Machine>(
    machine: &M,
    counter_bytes: usize,
    messages: &[&[u8]],
    states: &mut [u8],
) {
    let many = BITS * M::Many::LANES;
    let mut waiting = [0; MOST];
    let mut owners = [0; MOST];
    let mut count = 0;
    for (owner, message) in messages.iter().enumerate() {
        let state = &mut states[owner * BLOCK..][..BLOCK];
        let mut blocks = Blocks::new(counter_bytes, 1, begin(counter_bytes, message, state));
        add_to(state, sum(machine, &mut blocks, many - 1).swap_bytes());
        loop {
            let more = blocks.fill(&mut waiting[count..many]);
            owners[count..count + more].fill(owner);
            count += more;
            if count < many {
                break;
            }
            flush(machine, &mut waiting[..many], &owners, states);
            count = 0;
        }
    }
    flush(machine, &mut waiting[..count], &owners, states);
}

/// Adds each encrypted block to the state of its owner.
#[inline(always)]
fn flush<M: Machine>(machine: &M, blocks: &mut [u64], owners: &[usize], states: &mut [u8]) {
    encrypt(machine, blocks);
    for (block, owner) in blocks.iter().zip(owners) {
        add_to(&mut states[owner * BLOCK..][..BLOCK], block.swap_bytes());
    }
}

/// A word with one lane.
impl Word for u64 {
    const LANES: usize = 1;

    #[inline(always)]
    fn splat(lane: u64) -> Self {
        lane
    }

    #[inline(always)]
    fn load(lanes: &[u64]) -> Self {
        lanes[0]
    }

    #[inline(always)]
    fn store(self, lanes: &mut [u64]) {
        lanes[0] = self;
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        self & other
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        self | other
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }

    #[inline(always)]
    fn up<const BITS: i32>(self) -> Self {
        self << BITS
    }

    #[inline(always)]
    fn down<const BITS: i32>(self) -> Self {
        self >> BITS
    }
}

/// Lanes that the compiler may put into vector registers.
#[derive(Clone, Copy)]
pub(super) struct Words<const L: usize>(pub(super) [u64; L]);

impl<const L: usize> Word for Words<L> {
    const LANES: usize = L;

    #[inline(always)]
    fn splat(lane: u64) -> Self {
        Self([lane; L])
    }

    #[inline(always)]
    fn load(lanes: &[u64]) -> Self {
        Self(*lanes.first_chunk().expect("the slice has a word's lanes"))
    }

    #[inline(always)]
    fn store(self, lanes: &mut [u64]) {
        lanes[..L].copy_from_slice(&self.0);
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(array::from_fn(|i| self.0[i] & other.0[i]))
    }

    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(array::from_fn(|i| self.0[i] | other.0[i]))
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(array::from_fn(|i| self.0[i] ^ other.0[i]))
    }

    #[inline(always)]
    fn up<const BITS: i32>(self) -> Self {
        Self(self.0.map(|lane| lane << BITS))
    }

    #[inline(always)]
    fn down<const BITS: i32>(self) -> Self {
        Self(self.0.map(|lane| lane >> BITS))
    }
}
