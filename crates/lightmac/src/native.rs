//! Which ciphers have kernels: those of this crate and PRESENT.

use crate::aes::{Aes128, Aes256};
use crate::kernel::Native;
#[cfg(feature = "internals")]
use crate::kernel::comparison::ComparisonKernel;
use core::any::Any;
#[cfg(feature = "present")]
use lightseal_present::{CounterSum, Present80, Present128};

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

#[cfg(feature = "internals")]
/// The comparison kernel of `cipher`, if it has one.
pub fn comparison_kernel<C: 'static>(cipher: &C) -> Option<&dyn ComparisonKernel> {
    let cipher: &dyn Any = cipher;
    if let Some(cipher) = cipher.downcast_ref::<Aes128>() {
        cipher.comparison_kernel()
    } else {
        cipher.downcast_ref::<Aes256>()?.comparison_kernel()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aes;
    use crate::pipeline::xor;
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
