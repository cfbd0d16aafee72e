//! The parts of LightMAC that this crate's own ciphers compute faster than block by block.
//!
//! A kernel loads message bytes into registers, adds the counters there and keeps only the sum, so
//! that no block of input or output passes through memory. When a cipher's key is set up, the
//! kernel is chosen by the instructions of the processor.
//!
//! All `unsafe` code of this crate is in the modules below this one. Kernels support counters of
//! whole bytes only; [`crate::pipeline`] handles other counters.

use crate::aes::{Aes128, Aes256};
use crate::pipeline::xor;
use cipher::array::{Array, ArraySize};
use core::any::Any;
#[cfg(feature = "present")]
use lightseal_present::{CounterSum, Present80, Present128};
use zeroize::Zeroize;

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
pub(crate) mod aes;
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

/// The kernel of `cipher`, if it has one. This is decided at compile time, except for the kernel
/// that a cipher of this crate has chosen for itself.
pub(crate) fn native<C: 'static>(cipher: &C) -> Option<&dyn Native> {
    let cipher: &dyn Any = cipher;
    #[cfg(feature = "present")]
    if let Some(cipher) = cipher.downcast_ref::<Present80>() {
        return Some(cipher);
    } else if let Some(cipher) = cipher.downcast_ref::<Present128>() {
        return Some(cipher);
    }
    if let Some(cipher) = cipher.downcast_ref::<Aes128>() {
        cipher.native()
    } else {
        cipher.downcast_ref::<Aes256>()?.native()
    }
}

/// PRESENT has kernels of its own, which compute such sums.
#[cfg(feature = "present")]
macro_rules! native_present {
    ($cipher:ty) => {
        impl Native for $cipher {
            fn hash(&self, counter_bytes: usize, message: &[u8], state: &mut [u8]) {
                CounterSum::hash(self, counter_bytes, message, state);
            }

            fn hash_many(&self, counter_bytes: usize, messages: &[&[u8]], states: &mut [u8]) {
                CounterSum::hash_many(self, counter_bytes, messages, states);
            }

            fn add(&self, counter_bytes: usize, counter: u64, shares: &[u8], state: &mut [u8]) {
                CounterSum::add(self, counter_bytes, counter, shares, state);
            }
        }
    };
}

#[cfg(feature = "present")]
native_present!(Present80);
#[cfg(feature = "present")]
native_present!(Present128);

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aes;
    #[cfg(feature = "present")]
    use cipher::KeyInit;
    use cipher::{Block, BlockCipherEncrypt};
    use core::array;

    /// Tests the last blocks of the longest message, up to the counter 2^s, which is encoded as 0.
    /// Messages of that length are too long to test as a whole.
    fn the_last_blocks<C: BlockCipherEncrypt + 'static>(reference: &C, cipher: &C, name: &str) {
        let Some(native) = native(cipher) else { return };
        let bytes: [u8; 4096] = array::from_fn(|i| ((i * 151) >> 3) as u8);
        for counter_bytes in 1..=C::block_size() / 2 {
            let share = C::block_size() - counter_bytes;
            let end = 1u64.checked_shl(8 * counter_bytes as u32).unwrap_or(0);
            for count in (0..40).chain([127, 128, 129, 136, 200, 255, 256]) {
                let first = end.wrapping_sub(count).wrapping_add(1);
                let shares = &bytes[..count as usize * share];
                let mut expected = Block::<C>::default();
                expected.fill(0xa5);
                let mut state = expected.clone();
                for (i, share) in (0..).zip(shares.chunks(share)) {
                    let counter = first.wrapping_add(i).to_be_bytes();
                    let mut block = Block::<C>::default();
                    block[..counter_bytes].copy_from_slice(&counter[8 - counter_bytes..]);
                    block[counter_bytes..].copy_from_slice(share);
                    reference.encrypt_block(&mut block);
                    xor(&mut expected, &block);
                }
                native.add(counter_bytes, first, shares, &mut state);
                assert!(state == expected, "{name}, {counter_bytes} bytes, {count} blocks");
            }
        }
    }

    #[test]
    fn counters_reach_their_last() {
        let key = [0x3c; 16].into();
        let reference = Aes128::with_kernel(&key, aes::Kernel::Portable).unwrap();
        for kernel in aes::Kernel::available() {
            let cipher = Aes128::with_kernel(&key, kernel).unwrap();
            the_last_blocks(&reference, &cipher, kernel.name());
        }
        #[cfg(feature = "present")]
        {
            let reference = Present128::new(&key);
            for kernel in lightseal_present::Kernel::available() {
                let cipher = Present128::with_kernel(&key, kernel).unwrap();
                the_last_blocks(&reference, &cipher, kernel.name());
            }
        }
    }
}
