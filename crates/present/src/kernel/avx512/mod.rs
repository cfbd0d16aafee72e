//! PRESENT with AVX-512 and GFNI: 32 blocks in four registers, and up to 128 blocks in flight.
//!
//! Bit planes are fast for many blocks, nibbles for up to 16. Neither of them is enough. Without
//! nibbles a single block takes 73 core cycles a byte instead of 51 (AMD EPYC with AVX-512), and
//! LightMAC's last block is a single one. Without planes for fewer than 128 blocks, LightMAC takes
//! half as long again for 1 KiB, and up to five times as long for 128 bytes.

mod nibbles;
mod planes;

use super::{BLOCK, ROUND_KEYS, add_to, padded};
use crate::sum::CounterSum;
use cipher::consts::{U8, U128};
use cipher::inout::{InOut, InOutBuf};
use cipher::typenum::Unsigned;
use cipher::{Block, BlockCipherEncBackend, BlockSizeUser, ParBlocks, ParBlocksSizeUser};
use core::arch::x86_64::*;
use planes::{Register, Set, Wide};

/// Number of blocks in one call for a batch.
type Batch = U128;
/// Number of blocks whose bits share a byte.
const GROUP: usize = 8;
/// Number of groups in a set of bit planes.
const GROUPS: usize = 4;
/// Number of sets in flight.
const SETS: usize = 4;
/// The largest number of groups for which separate sets are faster than four sets in the wide
/// layout.
const MOST_NARROW: usize = 3 * GROUPS;

cpufeatures::new!(avx512, "avx2", "avx512f", "avx512bw", "avx512vl", "avx512vbmi", "gfni");

/// PRESENT by AVX-512 and GFNI. A value exists only if the processor has both.
#[derive(Clone)]
pub(crate) struct Avx512(Keys);

/// Round keys for each layout of blocks.
#[derive(Clone)]
struct Keys {
    planes: planes::Keys,
    nibbles: nibbles::Keys,
}

impl Avx512 {
    /// Whether the processor has the instructions.
    pub(crate) fn is_available() -> bool {
        avx512::get()
    }

    /// The kernel with `round_keys`; `None` if the processor lacks the instructions.
    pub(crate) fn new(round_keys: &[u64; ROUND_KEYS]) -> Option<Self> {
        // SAFETY: the processor has the instructions.
        avx512::get().then(|| unsafe {
            Self(Keys {
                planes: planes::Keys::arrange(round_keys),
                nibbles: nibbles::Keys::arrange(round_keys),
            })
        })
    }
}

impl CounterSum for Avx512 {
    fn hash(&self, counter_bytes: usize, message: &[u8], state: &mut [u8]) {
        // SAFETY: `self` exists, so the processor has the instructions.
        unsafe { hash(&self.0, counter_bytes, message, state) }
    }

    fn hash_many(&self, counter_bytes: usize, messages: &[&[u8]], states: &mut [u8]) {
        // SAFETY: `self` exists, so the processor has the instructions.
        unsafe { hash_many(&self.0, counter_bytes, messages, states) }
    }

    fn add(&self, counter_bytes: usize, counter: u64, shares: &[u8], state: &mut [u8]) {
        // SAFETY: `self` exists, so the processor has the instructions.
        unsafe { add(&self.0, counter_bytes, counter, shares, state) }
    }
}

impl BlockSizeUser for Avx512 {
    type BlockSize = U8;
}

impl ParBlocksSizeUser for Avx512 {
    type ParBlocksSize = Batch;
}

impl BlockCipherEncBackend for Avx512 {
    #[inline]
    fn encrypt_block(&self, block: InOut<'_, '_, Block<Self>>) {
        let (from, to) = block.into_raw();
        // SAFETY: `self` exists, so the processor has the instructions; one block is readable
        // and writable.
        unsafe { encrypt_few::<1>(&self.0, from.cast(), to.cast(), 1) }
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
        // SAFETY: `self` exists, so the processor has the instructions; `count` blocks are
        // readable and writable.
        unsafe { encrypt(&self.0, from.cast(), to.cast(), count) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
fn hash(keys: &Keys, counter_bytes: usize, message: &[u8], state: &mut [u8]) {
    let share = BLOCK - counter_bytes;
    let (shares, rest) = message.split_at(message.len() / share * share);
    state.copy_from_slice(&padded(rest).to_le_bytes());
    add(keys, counter_bytes, 1, shares, state);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
fn add(keys: &Keys, counter_bytes: usize, first: u64, shares: &[u8], state: &mut [u8]) {
    let layout = Layout::new(counter_bytes);
    let mut groups = Groups::new(shares, &layout, first);
    let sum = sum_wide(keys, &layout, &mut groups, MOST_NARROW + 1);
    let mut last = [Group::EMPTY; GROUPS * SETS];
    let count = groups.fill(&mut last);
    let sum = sum
        ^ match count {
            0 => 0,
            1 => sum_few::<4>(keys, &layout, &last),
            2 => sum_few::<8>(keys, &layout, &last),
            3..=4 => sum_narrow(encrypt_groups::<1>(keys, &layout, &last)),
            5..=8 => sum_narrow(encrypt_groups::<2>(keys, &layout, &last)),
            _ => sum_narrow(encrypt_groups::<3>(keys, &layout, &last)),
        };
    add_to(state, sum);
}

/// The sum of the blocks of `groups`, until fewer than `least` groups are left.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn sum_wide(keys: &Keys, layout: &Layout, groups: &mut Groups<'_>, least: usize) -> u64 {
    if groups.left() < least as u64 {
        return 0;
    }
    let mut total = [[_mm512_setzero_si512(); 4]; 4];
    while groups.left() >= least as u64 {
        if let Some((from, counter)) = groups.next_whole() {
            // SAFETY: `next_whole` has checked that all blocks of the groups are in the message.
            let sets = unsafe { load_whole(layout, from, counter) };
            planes::add_four(
                &mut total,
                planes::encrypt_four(&keys.planes, &sets),
                _mm512_set1_epi8(-1),
            );
            continue;
        }
        let mut some = [Group::EMPTY; GROUPS * SETS];
        groups.fill(&mut some);
        let planes = encrypt_four(keys, layout, &some);
        planes::add_four(&mut total, planes, wanted(&some));
    }
    planes::sums_four(total).into_iter().fold(0, |sum, group| sum ^ group)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn sum_narrow<const N: usize>(sets: [Set; N]) -> u64 {
    let mut total = sets[0];
    for set in &sets[1..] {
        for (total, plane) in total.iter_mut().zip(set) {
            *total = _mm512_xor_si512(*total, *plane);
        }
    }
    planes::sums(total).into_iter().fold(0, |sum, group| sum ^ group)
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
fn hash_many(keys: &Keys, counter_bytes: usize, messages: &[&[u8]], states: &mut [u8]) {
    let layout = Layout::new(counter_bytes);
    let mut waiting = [Group::EMPTY; GROUPS * SETS];
    let mut owners = [0; GROUPS * SETS];
    let mut count = 0;
    for (owner, message) in messages.iter().enumerate() {
        let (shares, rest) = message.split_at(message.len() / layout.share * layout.share);
        states[owner * BLOCK..][..BLOCK].copy_from_slice(&padded(rest).to_le_bytes());
        let mut groups = Groups::new(shares, &layout, 1);
        let sum = sum_wide(keys, &layout, &mut groups, waiting.len());
        add_to(&mut states[owner * BLOCK..][..BLOCK], sum);
        loop {
            let more = groups.fill(&mut waiting[count..]);
            owners[count..count + more].fill(owner);
            count += more;
            if count < waiting.len() {
                break;
            }
            flush(keys, &layout, &waiting, &owners, states);
            count = 0;
        }
    }
    waiting[count..].fill(Group::EMPTY);
    flush(keys, &layout, &waiting, &owners[..count], states);
}

/// Adds each group's sum to the state of its owner.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
fn flush(
    keys: &Keys,
    layout: &Layout,
    groups: &[Group; GROUPS * SETS],
    owners: &[usize],
    states: &mut [u8],
) {
    let mut sums = [0; GROUPS * SETS];
    match owners.len() {
        0 => {}
        1..=4 => narrow_sums(encrypt_groups::<1>(keys, layout, groups), &mut sums),
        5..=8 => narrow_sums(encrypt_groups::<2>(keys, layout, groups), &mut sums),
        9..=MOST_NARROW => narrow_sums(encrypt_groups::<3>(keys, layout, groups), &mut sums),
        _ => {
            let mut planes = encrypt_four(keys, layout, groups);
            let wanted = wanted(groups);
            for plane in planes.as_flattened_mut() {
                *plane = _mm512_and_si512(*plane, wanted);
            }
            let by_lane = planes::sums_four(planes);
            sums = core::array::from_fn(|at| by_lane[at % GROUPS * SETS + at / GROUPS]);
        }
    }
    for (sum, owner) in sums.into_iter().zip(owners) {
        add_to(&mut states[owner * BLOCK..][..BLOCK], sum);
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn narrow_sums<const N: usize>(sets: [Set; N], sums: &mut [u64; GROUPS * SETS]) {
    for (set, sums) in sets.into_iter().zip(sums.chunks_exact_mut(GROUPS)) {
        sums.copy_from_slice(&planes::sums(set));
    }
}

/// The positions of counters and shares within a group, for one counter length.
struct Layout {
    share: usize,
    /// Shuffles eight shares and, in the last eight bytes, a little-endian counter.
    places: Register,
    /// The number that each block adds to the group's counter.
    counters: Register,
}

/// The shuffles for counters of c bytes: quadword q, byte r is byte 7 − q of block 7 − r.
const PLACES: [[u8; 64]; 5] = {
    let mut all = [[0; 64]; 5];
    let mut counter_bytes = 0;
    while counter_bytes < all.len() {
        let mut at = 0;
        while at < 64 {
            let (byte, block) = (7 - at / 8, 7 - at % 8);
            all[counter_bytes][at] = if byte < counter_bytes {
                (56 + counter_bytes - 1 - byte) as u8
            } else {
                (block * (BLOCK - counter_bytes) + byte - counter_bytes) as u8
            };
            at += 1;
        }
        counter_bytes += 1;
    }
    all
};

impl Layout {
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
    #[inline]
    fn new(counter_bytes: usize) -> Self {
        let places = PLACES.get(counter_bytes).expect("a counter is at most half a block");
        Self {
            share: BLOCK - counter_bytes,
            // SAFETY: the array is as long as the register.
            places: unsafe { _mm512_loadu_si512(places.as_ptr().cast()) },
            counters: _mm512_maskz_set1_epi64(
                1 << (BLOCK - counter_bytes),
                i64::from_le_bytes([7, 6, 5, 4, 3, 2, 1, 0]),
            ),
        }
    }
}

impl Layout {
    /// The blocks of eight shares and the counter behind them, in the layout for [`planes::split`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
    #[inline]
    fn place(&self, bytes: Register) -> Register {
        let bytes = _mm512_permutexvar_epi8(self.places, bytes);
        _mm512_or_si512(bytes, self.counters)
    }
}

/// Eight blocks with consecutive counters from a multiple of eight on. Some of them may not be part
/// of the sum.
#[derive(Clone, Copy)]
struct Group {
    /// The address of the first block's share. It lies before the message if the first block is not
    /// part of the sum.
    from: *const u8,
    /// Selects the bytes behind that address that are part of the message.
    bytes: u64,
    /// Selects the blocks that are part of the sum.
    blocks: u8,
    /// The counter of the first block.
    counter: u64,
}

impl Group {
    const EMPTY: Self = Self { from: core::ptr::null(), bytes: 0, blocks: 0, counter: 0 };

    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
    #[inline]
    fn load(&self, layout: &Layout) -> Register {
        let counter = _mm512_set1_epi64(self.counter as i64);
        // SAFETY: a masked load reads only the bytes that `bytes` selects, which are in the
        // message.
        layout.place(unsafe { _mm512_mask_loadu_epi8(counter, self.bytes, self.from.cast()) })
    }
}

/// The groups of a message's whole shares.
struct Groups<'a> {
    shares: &'a [u8],
    share: usize,
    /// The counter of the first block, and one more than that of the last block.
    first: u64,
    end: u64,
    /// The counter of the next group's first block.
    next: u64,
}

impl<'a> Groups<'a> {
    #[inline]
    fn new(shares: &'a [u8], layout: &Layout, first: u64) -> Self {
        let end = first + (shares.len() / layout.share) as u64;
        // Without a share there is no group, even if the first counter lies within one.
        let next = if end == first { end } else { first & !(GROUP as u64 - 1) };
        Self { shares, share: layout.share, first, end, next }
    }

    #[inline]
    fn left(&self) -> u64 {
        (self.end - self.next.min(self.end)).div_ceil(GROUP as u64)
    }

    /// The address of the next shares and their first counter, if all blocks of the groups in
    /// flight are in the message.
    #[inline]
    fn next_whole(&mut self) -> Option<(*const u8, u64)> {
        const BLOCKS: u64 = (GROUPS * SETS * GROUP) as u64;
        let counter = self.next;
        if counter < self.first || counter + BLOCKS > self.end {
            return None;
        }
        self.next += BLOCKS;
        let at = (counter - self.first) as usize * self.share;
        Some((self.shares[at..].as_ptr(), counter))
    }

    /// Fills `into` with the next groups, as many as are left or fit. Returns their number.
    #[inline]
    fn fill(&mut self, into: &mut [Group]) -> usize {
        let count = self.left().min(into.len() as u64) as usize;
        for group in &mut into[..count] {
            let low = self.first.max(self.next) - self.next;
            let high = self.end.min(self.next + GROUP as u64) - self.next;
            let share = self.share as u64;
            let at = (self.next as i64 - self.first as i64) as isize * self.share as isize;
            *group = Group {
                from: self.shares.as_ptr().wrapping_offset(at),
                bytes: ((1 << (high * share)) - 1) & !((1 << (low * share)) - 1),
                blocks: ((0xff_u16 >> (8 - high)) & (0xff << low)) as u8,
                counter: self.next,
            };
            self.next += GROUP as u64;
        }
        count
    }
}

/// Encrypts groups. In the bit planes, the bits of blocks that are not part of the sum are zero.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn encrypt_groups<const N: usize>(
    keys: &Keys,
    layout: &Layout,
    groups: &[Group; GROUPS * SETS],
) -> [Set; N] {
    let mut sets = load(layout, groups);
    planes::encrypt(&keys.planes, &mut sets);
    let groups: &[[Group; GROUPS]] = groups.as_chunks().0;
    for (set, groups) in sets.iter_mut().zip(groups) {
        let wanted = groups.map(|group| u32::from(group.blocks) * 0x0101_0101);
        let wanted = planes::lanes(wanted);
        for plane in set {
            *plane = _mm512_and_si512(*plane, wanted);
        }
    }
    sets
}

/// The bit planes of whole groups.
///
/// # Safety
///
/// The shares of all groups in flight are readable at `from`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
unsafe fn load_whole(layout: &Layout, from: *const u8, counter: u64) -> [Set; SETS] {
    let bytes = (1 << (GROUP * layout.share)) - 1;
    let mut counter = _mm512_set1_epi64(counter as i64);
    let mut at = 0;
    let mut sets = [[counter; GROUPS]; SETS];
    for set in &mut sets {
        for group in set.iter_mut() {
            // SAFETY: a masked load touches only the group's shares.
            let shares = unsafe { _mm512_mask_loadu_epi8(counter, bytes, from.add(at).cast()) };
            *group = layout.place(shares);
            counter = _mm512_add_epi64(counter, _mm512_set1_epi64(GROUP as i64));
            at += GROUP * layout.share;
        }
        *set = planes::split(*set);
    }
    sets
}

/// Encrypts groups, with the bit planes of all their blocks.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn encrypt_four(keys: &Keys, layout: &Layout, groups: &[Group; GROUPS * SETS]) -> Wide {
    planes::encrypt_four(&keys.planes, &load(layout, groups))
}

/// Selects the blocks in wide planes that are part of the sum.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn wanted(groups: &[Group; GROUPS * SETS]) -> Register {
    let lane = |lane: usize| {
        let of_set = |set: usize| groups[set * GROUPS + lane].blocks;
        u32::from_le_bytes([of_set(0), of_set(1), of_set(2), of_set(3)])
    };
    planes::lanes([lane(0), lane(1), lane(2), lane(3)])
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn load<const N: usize>(layout: &Layout, groups: &[Group; GROUPS * SETS]) -> [Set; N] {
    let mut sets = [[_mm512_setzero_si512(); 4]; N];
    let groups: &[[Group; GROUPS]] = groups.as_chunks().0;
    for (set, [a, b, c, d]) in sets.iter_mut().zip(groups) {
        *set = planes::split([a.load(layout), b.load(layout), c.load(layout), d.load(layout)]);
    }
    sets
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn encrypt_sets<const N: usize>(keys: &Keys, sets: &mut [Set; N]) {
    let four: Result<&mut [Set; SETS], _> = sets.as_mut_slice().try_into();
    match four {
        Ok(four) => *four = planes::narrow(planes::encrypt_four(&keys.planes, four)),
        Err(_) => planes::encrypt(&keys.planes, sets),
    }
}

/// Encrypts `count` blocks.
///
/// # Safety
///
/// `from` is readable and `to` writable for `count` blocks. They are equal or do not overlap.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
unsafe fn encrypt(keys: &Keys, from: *const u8, to: *mut u8, count: usize) {
    let mut at = 0;
    while at < count {
        let left = count - at;
        // SAFETY: `left` blocks are left at both addresses.
        unsafe {
            let (from, to) = (from.add(at * BLOCK), to.add(at * BLOCK));
            match left.div_ceil(GROUPS * GROUP) {
                1 if left <= 2 => encrypt_few::<1>(keys, from, to, left),
                1 if left <= GROUP => encrypt_few::<4>(keys, from, to, left),
                1 => encrypt_some::<1>(keys, from, to, left),
                2 => encrypt_some::<2>(keys, from, to, left),
                3 => encrypt_some::<3>(keys, from, to, left),
                _ => encrypt_some::<4>(keys, from, to, left),
            }
        }
        at += SETS * GROUPS * GROUP;
    }
}

/// Encrypts the first `count` blocks, or as many as `N` sets hold.
///
/// # Safety
///
/// As for [`encrypt`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
unsafe fn encrypt_some<const N: usize>(keys: &Keys, from: *const u8, to: *mut u8, count: usize) {
    // Selects the blocks of a group that are among the `count` blocks.
    let wanted = |set: usize, group: usize| {
        let before = (set * GROUPS + group) * GROUP;
        (0xff_u16 >> (GROUP - count.saturating_sub(before).min(GROUP))) as u8
    };
    let place = |set: usize, group: usize| (set * GROUPS + group) * GROUP * BLOCK;
    let mut sets = [[_mm512_setzero_si512(); 4]; N];
    for (i, set) in sets.iter_mut().enumerate() {
        let mut groups = *set;
        for (j, group) in groups.iter_mut().enumerate() {
            // SAFETY: a masked load reads only the selected blocks.
            *group = planes::bytes(unsafe {
                _mm512_maskz_loadu_epi64(wanted(i, j), from.wrapping_add(place(i, j)).cast())
            });
        }
        *set = planes::split(groups);
    }
    encrypt_sets(keys, &mut sets);
    for (i, set) in sets.into_iter().enumerate() {
        for (j, group) in planes::join(set).into_iter().enumerate() {
            // SAFETY: a masked store writes only the selected blocks.
            unsafe {
                _mm512_mask_storeu_epi64(to.wrapping_add(place(i, j)).cast(), wanted(i, j), group);
            }
        }
    }
}

/// Encrypts the first `count` blocks, at most `2 · N`, which is at most eight.
///
/// # Safety
///
/// As for [`encrypt`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
unsafe fn encrypt_few<const N: usize>(keys: &Keys, from: *const u8, to: *mut u8, count: usize) {
    let wanted = (0xff_u16 >> (GROUP - count.min(GROUP))) as u8;
    // SAFETY: a masked load reads only the selected blocks.
    let blocks = unsafe { _mm512_maskz_loadu_epi64(wanted, from.cast()) };
    let mut pairs = [blocks; N];
    for (i, pair) in pairs.iter_mut().enumerate() {
        *pair = nibbles::pair(blocks, i);
    }
    let mut to = to;
    let mut wanted = wanted;
    for pair in nibbles::encrypt(&keys.nibbles, pairs) {
        // SAFETY: a masked store writes only the selected blocks.
        unsafe { _mm_mask_storeu_epi64(to.cast(), wanted & 3, nibbles::join(pair)) };
        to = to.wrapping_add(2 * BLOCK);
        wanted >>= 2;
    }
}

/// The sum over the selected blocks of `N` / 4 groups.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,gfni")]
#[inline]
fn sum_few<const N: usize>(keys: &Keys, layout: &Layout, groups: &[Group]) -> u64 {
    let mut pairs = [_mm512_setzero_si512(); N];
    for (pairs, group) in pairs.chunks_exact_mut(GROUP / 2).zip(groups) {
        let blocks = planes::bytes(group.load(layout));
        for (i, pair) in pairs.iter_mut().enumerate() {
            *pair = nibbles::pair(blocks, i);
        }
    }
    let mut total = _mm512_setzero_si512();
    for (i, pair) in nibbles::encrypt(&keys.nibbles, pairs).into_iter().enumerate() {
        let wanted = groups[i / 4].blocks >> (2 * (i % 4));
        let both = ((wanted & 1) * 0x0f) | ((wanted >> 1 & 1) * 0xf0);
        total = _mm512_mask_xor_epi64(total, both, total, pair);
    }
    let blocks = nibbles::join(total);
    (_mm_cvtsi128_si64(blocks) ^ _mm_extract_epi64::<1>(blocks)) as u64
}
