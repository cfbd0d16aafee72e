//! The parts of LightMAC that this crate's own ciphers compute faster than block by block.
//!
//! A kernel loads message bytes into registers, adds the counters there and keeps only the sum, so
//! that no block of input or output passes through memory. When a cipher's key is set up, the
//! kernel is chosen by the instructions of the processor.
//!
//! All `unsafe` code of this crate is in the modules below this one. Kernels support counters of
//! whole bytes only; [`crate::pipeline`] handles other counters.

use crate::pipeline::xor;
use cipher::array::{Array, ArraySize};
use zeroize::Zeroize;

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub(crate) mod aes;
#[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
#[allow(unsafe_code)]
pub(crate) mod aes_arm;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod bytes;
#[cfg(feature = "internals")]
pub(crate) mod comparison;

/// A cipher that computes LightMAC's inner sums itself. Blocks and states have the cipher's block
/// length. The counter has `8 · counter_bytes` bits, at most half a block. Callers have checked the
/// message's length.
pub(crate) trait Native {
    /// Writes V of `message` to `state`, which is zero before.
    fn hash(&self, counter_bytes: usize, message: &[u8], state: &mut [u8]) {
        self.hash_many(counter_bytes, &[message], state);
    }

    /// Writes V of each of `messages` to its block of `states`, which is zero before.
    fn hash_many(&self, counter_bytes: usize, messages: &[&[u8]], states: &mut [u8]);

    /// Encrypts the blocks of `shares` and adds them to `state`. Shares are the message bytes of
    /// whole blocks, without counters. The first block's counter is `counter`.
    fn add(&self, counter_bytes: usize, counter: u64, shares: &[u8], state: &mut [u8]);
}

/// The shares of a message that comes in pieces. Whole shares are given to a kernel at once, and
/// the bytes after them are held.
#[derive(Clone)]
pub(crate) struct Shares<N: ArraySize> {
    /// The `filled` bytes of the message that do not yet make a whole share.
    held: Array<u8, N>,
    filled: usize,
    counter: u64,
    counter_bytes: usize,
}

impl<N: ArraySize> Shares<N> {
    /// The beginning of a message.
    pub(crate) fn new(counter_bytes: usize) -> Self {
        Self { held: Array::default(), filled: 0, counter: 1, counter_bytes }
    }

    /// Adds `data` to the message. The caller has checked the message's length.
    pub(crate) fn absorb(&mut self, native: &dyn Native, state: &mut [u8], mut data: &[u8]) {
        let share = N::USIZE - self.counter_bytes;
        if self.filled > 0 {
            let (now, later) = data.split_at(data.len().min(share - self.filled));
            self.held[self.filled..self.filled + now.len()].copy_from_slice(now);
            self.filled += now.len();
            if self.filled < share {
                return;
            }
            native.add(self.counter_bytes, self.counter, &self.held[..share], state);
            self.counter = self.counter.wrapping_add(1);
            self.filled = 0;
            data = later;
        }
        let whole = data.len() / share;
        let (shares, rest) = data.split_at(whole * share);
        if whole > 0 {
            native.add(self.counter_bytes, self.counter, shares, state);
            self.counter = self.counter.wrapping_add(whole as u64);
        }
        self.held[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    /// Adds the remainder and the leading `count` bits of `last`, at most 7, padded with 10*.
    pub(crate) fn finish(&mut self, state: &mut [u8], last: u8, count: u32) {
        self.held[self.filled..].fill(0);
        self.held[self.filled] = last & !(0xff >> count) | 0x80 >> count;
        xor(state, &self.held);
    }
}

impl<N: ArraySize> Zeroize for Shares<N> {
    fn zeroize(&mut self) {
        self.held.as_mut_slice().zeroize();
    }
}
