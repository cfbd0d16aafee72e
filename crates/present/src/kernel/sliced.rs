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
pub(super) const BITS: usize = 64;

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

    /// Exchanges the bits of `low` under `mask << BITS` with those of `high` under `mask`. Here and in
    /// all that call it, `mask` has the lower `BITS` of each `2·BITS` bits.
    #[inline(always)]
    fn exchange<const BITS: i32>([low, high]: [Self; 2], mask: u64) -> [Self; 2] {
        let t = low.down::<BITS>().xor(high).and(Self::splat(mask));
        [low.xor(t.up::<BITS>()), high.xor(t)]
    }
}

/// The words of a processor, and the round keys for them.
pub(super) trait Machine: Sized {
    type Many: Word;
    /// Number of blocks in one call of [`encrypt_few`](Self::encrypt_few).
    const FEW: usize;
    /// The largest number of blocks that are encrypted as few blocks.
    const MOST_FEW: usize;
    /// Encrypts [`FEW`](Self::FEW) blocks, each a number.
    fn encrypt_few(&self, blocks: &mut [u64]);

    /// Loads the next 64 blocks for each lane, as [`gather`] does. Does nothing and returns `false`
    /// if fewer are left, or if it has no faster way than [`Blocks::fill`].
    #[inline(always)]
    fn load(_blocks: &mut Blocks<'_>, _words: &mut [Self::Many; BITS]) -> bool {
        false
    }

    /// Encrypts 64 blocks in each lane. Word i has bit i of every block.
    fn encrypt_many(&self, bits: &mut [Self::Many; BITS]);

    /// Bit i is the parity of word i. The words have any content afterwards.
    #[inline(always)]
    fn parities(words: &mut [Self::Many; BITS]) -> u64 {
        parities(words)
    }

    /// Transposes each lane: bit i of each of its 64 blocks becomes word i of the lane. It is its
    /// own inverse.
    #[inline(always)]
    fn transpose(words: &mut [Self::Many; BITS]) {
        transpose(words);
    }
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
    let [a, b] = W::exchange::<ONE>([a, b], masks[0]);
    let [c, d] = W::exchange::<ONE>([c, d], masks[0]);
    let [a, c] = W::exchange::<TWO>([a, c], masks[1]);
    let [b, d] = W::exchange::<TWO>([b, d], masks[1]);
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
pub(super) fn encrypt_few<W: Word>(keys: &[u64; ROUND_KEYS], set: [W; 4]) -> [W; 4] {
    encrypt_few_with(|round, set| add_key(keys[round], set), substitute, set)
}

/// [`encrypt_few`] with a function that adds a round key and one that computes the S-box.
#[inline(always)]
pub(super) fn encrypt_few_with<W: Word>(
    add_key: impl Fn(usize, [W; 4]) -> [W; 4],
    substitute: impl Fn([W; 4]) -> [W; 4],
    [a, b, c, d]: [W; 4],
) -> [W; 4] {
    const LOWER: [u64; 2] = [0x5555_5555_5555_5555, 0x3333_3333_3333_3333];
    const UPPER: [u64; 2] = [0x0f0f_0f0f_0f0f_0f0f, 0x00ff_00ff_00ff_00ff];
    let set = exchange_blocks([permute(a), permute(b), permute(c), permute(d)]);
    let mut set = add_key(0, set);
    let mut round = 1;
    while round < ROUNDS {
        set = add_key(round, substitute(set));
        set = exchange_index::<_, 1, 2>(set, LOWER);
        set = add_key(round + 1, substitute(set));
        set = exchange_index::<_, 4, 8>(set, UPPER);
        round += 2;
    }
    set = add_key(ROUNDS, substitute(set));
    let [a, b, c, d] = exchange_index::<_, 1, 2>(set, LOWER);
    let [a, b, c, d] =
        exchange_blocks([swap_halves(a), swap_halves(b), swap_halves(c), swap_halves(d)]);
    [permute_back(a), permute_back(b), permute_back(c), permute_back(d)]
}

/// Computes one round from `from` to `to`. `bit` is a bit of a round key, repeated in all bits.
#[inline(always)]
fn round<W: Word>(bit: impl Fn(usize) -> W, from: &[W; BITS], to: &mut [W; BITS]) {
    for nibble in 0..BITS / 4 {
        let at = 4 * nibble;
        let bits = substitute([
            from[at].xor(bit(at)),
            from[at + 1].xor(bit(at + 1)),
            from[at + 2].xor(bit(at + 2)),
            from[at + 3].xor(bit(at + 3)),
        ]);
        to[nibble] = bits[0];
        to[16 + nibble] = bits[1];
        to[32 + nibble] = bits[2];
        to[48 + nibble] = bits[3];
    }
}

/// [`Machine::encrypt_many`] for any word. `bit` is a bit of a round key, repeated in all bits, by
/// the number of the round and the bit.
#[inline(always)]
pub(super) fn encrypt_many<W: Word>(bit: impl Fn(usize, usize) -> W, bits: &mut [W; BITS]) {
    let mut other = [W::splat(0); BITS];
    let mut first = 0;
    while first < ROUNDS - 1 {
        round(|at| bit(first, at), bits, &mut other);
        round(|at| bit(first + 1, at), &other, bits);
        first += 2;
    }
    round(|at| bit(ROUNDS - 1, at), bits, &mut other);
    for at in 0..BITS {
        bits[at] = other[at].xor(bit(ROUNDS, at));
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
            let [low, high] = W::exchange::<DISTANCE>([words[at], words[at | distance]], mask);
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
/// The largest number of lanes of a word.
const MOST_LANES: usize = 4;

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
        M::transpose(&mut words);
        machine.encrypt_many(&mut words);
        M::transpose(&mut words);
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

    /// The next `count` shares, the length of one, and their first counter. `None` unless a load of
    /// [`BLOCK`] bytes at the beginning of each share is within the message.
    #[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
    #[inline(always)]
    pub(super) fn take(&mut self, count: usize) -> Option<(&'a [u8], usize, u64)> {
        let bytes = count * self.share;
        let shares = self.shares.get(..bytes + BLOCK - self.share)?;
        let counter = self.counter;
        self.shares = &self.shares[bytes..];
        self.counter = counter.wrapping_add(count as u64);
        Some((shares, self.share, counter))
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

/// A word with ones where the first `count` blocks are.
#[inline(always)]
fn first<W: Word>(count: usize) -> W {
    let mut lanes = [0; MOST_LANES];
    for (at, lane) in lanes[..W::LANES].iter_mut().enumerate() {
        let rows = count.saturating_sub(at).div_ceil(W::LANES);
        *lane = u64::MAX.checked_shr((BITS - rows) as u32).unwrap_or(0);
    }
    W::load(&lanes)
}

/// [`Machine::parities`], for processors that count bits.
#[inline(always)]
fn parities<W: Word>(words: &[W; BITS]) -> u64 {
    let mut parities = 0;
    for (i, word) in words.iter().enumerate() {
        let mut lanes = [0; MOST_LANES];
        word.store(&mut lanes);
        let lanes = lanes[..W::LANES].iter().fold(0, |all, lane| all ^ lane);
        parities |= u64::from(lanes.count_ones() % 2) << i;
    }
    parities
}

/// [`Machine::parities`] without counting. Each step makes one word of two: it has the parities of
/// the one's parts in one half of each part, and those of the other's in the other half.
#[cfg_attr(not(target_arch = "aarch64"), allow(dead_code))]
#[inline(always)]
pub(super) fn parities_by_halves<W: Word>(words: &mut [W; BITS]) -> u64 {
    #[inline(always)]
    fn step<W: Word, const DISTANCE: i32>(words: &mut [W; BITS], mask: u64) {
        for i in 0..DISTANCE as usize {
            let [low, high] =
                W::exchange::<DISTANCE>([words[i], words[i + DISTANCE as usize]], mask);
            words[i] = low.xor(high);
        }
    }
    step::<W, 32>(words, 0x0000_0000_ffff_ffff);
    step::<W, 16>(words, 0x0000_ffff_0000_ffff);
    step::<W, 8>(words, 0x00ff_00ff_00ff_00ff);
    step::<W, 4>(words, 0x0f0f_0f0f_0f0f_0f0f);
    step::<W, 2>(words, 0x3333_3333_3333_3333);
    step::<W, 1>(words, 0x5555_5555_5555_5555);
    let mut lanes = [0; MOST_LANES];
    words[0].store(&mut lanes);
    lanes[..W::LANES].iter().fold(0, |all, lane| all ^ lane)
}

/// The sum of the encrypted blocks, as a number.
#[inline(always)]
fn sum<M: Machine>(machine: &M, blocks: &mut Blocks<'_>, until: usize) -> u64 {
    let lanes = M::Many::LANES;
    let mut buffer = [0; MOST];
    let mut sum = 0;
    if blocks.left() > until {
        let mut total = [M::Many::splat(0); BITS];
        let mut words = total;
        while blocks.left() > until {
            let mut count = BITS * lanes;
            if !M::load(blocks, &mut words) {
                count = blocks.fill(&mut buffer[..BITS * lanes]);
                words = gather(&buffer[..BITS * lanes]);
            }
            M::transpose(&mut words);
            machine.encrypt_many(&mut words);
            if count == BITS * lanes {
                // In steps of a length that compilers write out.
                let steps = total.as_chunks_mut::<8>().0.iter_mut().zip(words.as_chunks::<8>().0);
                for (total, words) in steps {
                    for (total, word) in total.iter_mut().zip(words) {
                        *total = total.xor(*word);
                    }
                }
            } else {
                let wanted = first::<M::Many>(count);
                for (total, word) in total.iter_mut().zip(&words) {
                    *total = total.xor(word.and(wanted));
                }
            }
        }
        sum = M::parities(&mut total);
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
