//! Divides messages into counter blocks and keeps several of them in flight.

use cipher::array::{Array, ArraySize};
use cipher::{BlockCipherEncrypt, BlockSizeUser};
use zeroize::Zeroize;

/// Up to `LANES` counter blocks that wait for one parallel cipher call.
///
/// Blocks of several messages may wait together. Each block has an owner: the index of the state
/// that its encryption is added to. The lane under construction holds the counter and the message
/// bytes so far, followed by zeros, once there are any.
#[derive(Clone)]
pub(crate) struct Pipeline<N: ArraySize, const LANES: usize> {
    lanes: [Array<u8, N>; LANES],
    owners: [u32; LANES],
    /// Number of complete lanes, below `LANES`. `lanes[queued]` is under construction.
    queued: usize,
    /// Number of bits in the lane under construction, counter included: s to n − 1.
    filled: u32,
    /// The counter of the lane under construction. A message's first block has the counter 1.
    counter: u64,
    counter_bits: u32,
    owner: u32,
}

impl<N: ArraySize, const LANES: usize> Pipeline<N, LANES> {
    /// A pipeline before the first message, whose owner is state 0.
    pub(crate) fn new(counter_bits: u32) -> Self {
        let mut pipeline = Self {
            lanes: [const { None::<Array<u8, N>> }; LANES].map(Option::unwrap_or_default),
            owners: [0; LANES],
            queued: 0,
            filled: 0,
            counter: 0,
            counter_bits,
            owner: 0,
        };
        pipeline.start(0);
        pipeline
    }

    /// Begins a message whose blocks are added to `states[owner]`.
    pub(crate) fn start(&mut self, owner: u32) {
        self.owner = owner;
        self.counter = 0;
        self.next_lane();
    }

    fn next_lane(&mut self) {
        self.counter = self.counter.wrapping_add(1);
        self.filled = self.counter_bits;
    }

    /// Writes the counter, followed by zeros, to the lane under construction if nothing is there.
    fn begin_lane(&mut self) {
        if self.filled == self.counter_bits {
            let lead = lead(self.counter, self.counter_bits).to_be_bytes();
            self.lanes[self.queued].copy_from_slice(&lead[..N::USIZE]);
        }
    }

    /// Adds whole bytes to the message. The caller has checked the message's length.
    pub(crate) fn absorb<C>(&mut self, cipher: &C, states: &mut [Array<u8, N>], mut data: &[u8])
    where
        C: BlockCipherEncrypt + BlockSizeUser<BlockSize = N>,
    {
        if !self.filled.is_multiple_of(8) || !self.counter_bits.is_multiple_of(8) {
            for &byte in data {
                self.absorb_bits(cipher, states, byte, 8);
            }
            return;
        }
        while !data.is_empty() {
            if self.filled == self.counter_bits && data.len() >= N::USIZE {
                data = self.absorb_blocks(cipher, states, data);
                continue;
            }
            self.begin_lane();
            let at = self.filled as usize / 8;
            let (now, later) = data.split_at(data.len().min(N::USIZE - at));
            self.lanes[self.queued][at..at + now.len()].copy_from_slice(now);
            self.filled += now.len() as u32 * 8;
            self.complete_if_full(cipher, states);
            data = later;
        }
    }

    /// Adds the shares of whole blocks from the front of `data`, as long as it has N bytes or more.
    /// The lane must be at the start of a block. Returns the rest of `data`.
    fn absorb_blocks<'a, C>(
        &mut self,
        cipher: &C,
        states: &mut [Array<u8, N>],
        data: &'a [u8],
    ) -> &'a [u8]
    where
        C: BlockCipherEncrypt + BlockSizeUser<BlockSize = N>,
    {
        // Shifts by a number that the compiler knows take few instructions, and records have
        // counters of two bytes.
        match self.counter_bits {
            16 => self.absorb_shares(cipher, states, data, 16),
            bits => self.absorb_shares(cipher, states, data, bits),
        }
    }

    #[inline(always)]
    fn absorb_shares<'a, C>(
        &mut self,
        cipher: &C,
        states: &mut [Array<u8, N>],
        mut data: &'a [u8],
        counter_bits: u32,
    ) -> &'a [u8]
    where
        C: BlockCipherEncrypt + BlockSizeUser<BlockSize = N>,
    {
        let step = N::USIZE - counter_bits as usize / 8;
        while data.len() >= N::USIZE {
            // A load of fixed length and a shift take less time than a copy of variable length.
            let mut wide = [0; 16];
            wide[..N::USIZE].copy_from_slice(&data[..N::USIZE]);
            let share = u128::from_be_bytes(wide) >> counter_bits;
            let block = (lead(self.counter, counter_bits) | share).to_be_bytes();
            self.lanes[self.queued].copy_from_slice(&block[..N::USIZE]);
            self.owners[self.queued] = self.owner;
            self.counter = self.counter.wrapping_add(1);
            self.queued += 1;
            if self.queued == LANES {
                self.flush(cipher, states);
            }
            data = &data[step..];
        }
        data
    }

    /// Adds the leading `count` bits of `bits`, at most 8, to the message.
    pub(crate) fn absorb_bits<C>(
        &mut self,
        cipher: &C,
        states: &mut [Array<u8, N>],
        mut bits: u8,
        mut count: u32,
    ) where
        C: BlockCipherEncrypt + BlockSizeUser<BlockSize = N>,
    {
        while count > 0 {
            self.begin_lane();
            let used = self.filled % 8;
            let now = count.min(8 - used);
            let kept = bits & (0xffu16 << (8 - now)) as u8;
            self.lanes[self.queued][self.filled as usize / 8] |= kept >> used;
            self.filled += now;
            self.complete_if_full(cipher, states);
            bits = (u16::from(bits) << now) as u8;
            count -= now;
        }
    }

    fn complete_if_full<C>(&mut self, cipher: &C, states: &mut [Array<u8, N>])
    where
        C: BlockCipherEncrypt + BlockSizeUser<BlockSize = N>,
    {
        if self.filled as usize == N::USIZE * 8 {
            self.owners[self.queued] = self.owner;
            self.queued += 1;
            if self.queued == LANES {
                self.flush(cipher, states);
            }
            self.next_lane();
        }
    }

    /// Adds the message's remainder, padded with 10*, to its state. [`start`](Self::start) or
    /// [`flush`](Self::flush) must be called next.
    pub(crate) fn finish(&mut self, states: &mut [Array<u8, N>]) {
        self.begin_lane();
        let mut wide = [0; 16];
        wide[..N::USIZE].copy_from_slice(&self.lanes[self.queued]);
        let remainder = u128::from_be_bytes(wide) << self.counter_bits;
        let padded = remainder | 1 << (127 - (self.filled - self.counter_bits));
        xor(&mut states[self.owner as usize], &padded.to_be_bytes()[..N::USIZE]);
    }

    /// Encrypts every complete lane and adds it to the state of its owner.
    pub(crate) fn flush<C>(&mut self, cipher: &C, states: &mut [Array<u8, N>])
    where
        C: BlockCipherEncrypt + BlockSizeUser<BlockSize = N>,
    {
        cipher.encrypt_blocks(&mut self.lanes[..self.queued]);
        let mut lanes = &self.lanes[..self.queued];
        // The sums are computed outside of the states, so that they need not pass through memory.
        for run in self.owners[..self.queued].chunk_by(|a, b| a == b) {
            let (mine, others) = lanes.split_at(run.len());
            let mut sum = Array::<u8, N>::default();
            for lane in mine {
                xor(&mut sum, lane);
            }
            xor(&mut states[run[0] as usize], &sum);
            lanes = others;
        }
        self.queued = 0;
    }
}

impl<N: ArraySize, const LANES: usize> Zeroize for Pipeline<N, LANES> {
    fn zeroize(&mut self) {
        for lane in &mut self.lanes {
            lane.as_mut_slice().zeroize();
        }
    }
}

/// A counter of s = `counter_bits` bits, left-aligned in 128 bits. Bits above s are set only in the
/// last counter 2^s, and the shift removes them.
#[inline(always)]
fn lead(counter: u64, counter_bits: u32) -> u128 {
    u128::from(counter) << (128 - counter_bits)
}

/// Computes `state ^= block`. Both have the cipher's block length.
pub(crate) fn xor(state: &mut [u8], block: &[u8]) {
    for (s, b) in state.iter_mut().zip(block) {
        *s ^= b;
    }
}
