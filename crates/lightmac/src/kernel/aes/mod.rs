//! AES on x86-64: one algorithm for registers of one, two and four blocks.
//!
//! The file of each kernel has the parts that depend on the register; [`kernel!`] makes the rest.
//! Several registers are in flight at a time, because a round has a latency in which rounds of
//! three to eight other registers can be started.

#[cfg(feature = "internals")]
mod comparison;
mod keys;
mod ni;
mod vaes256;
mod vaes512;

use super::bytes::{number, padded};

pub(crate) use keys::RoundKeys;
pub(crate) use ni::AesNi;
pub(crate) use vaes256::Vaes256;
pub(crate) use vaes512::Vaes512;

/// Length of a block, in bytes.
const BLOCK: usize = 16;
/// Number of registers in flight.
const WIDTH: usize = 8;

/// Byte shuffles that move a counter, a little-endian number, to the front of a block in big
/// endian. They are indexed by the counter's length in bytes. All other bytes become zero.
const COUNTER_PLACES: [[u8; BLOCK]; 9] = places(true);
/// Byte shuffles as [`COUNTER_PLACES`] that move the bytes of a share behind the counter.
const SHARE_PLACES: [[u8; BLOCK]; 9] = places(false);

const fn places(of_counter: bool) -> [[u8; BLOCK]; 9] {
    // An index whose highest bit is set makes a zero byte.
    let mut all = [[0x80; BLOCK]; 9];
    let mut counter_bytes = 0;
    while counter_bytes < all.len() {
        let mut at = 0;
        while at < BLOCK {
            if of_counter && at < counter_bytes {
                all[counter_bytes][at] = (counter_bytes - 1 - at) as u8;
            } else if !of_counter && at >= counter_bytes {
                all[counter_bytes][at] = (at - counter_bytes) as u8;
            }
            at += 1;
        }
        counter_bytes += 1;
    }
    all
}

/// Makes a kernel: the type that holds its keys, and the algorithm on its registers.
///
/// The file that calls it defines the register type `Register`, which holds `BLOCKS` blocks, a
/// `Layout`, `detected()` and the functions that [`ni`] documents.
macro_rules! kernel {
    ($(#[$about:meta])* $name:ident, $features:literal) => {
        $(#[$about])*
        /// A value exists only if the processor has the kernel's instructions.
        #[derive(Clone)]
        pub(crate) struct $name<const R: usize>(RoundKeys<R>);

        impl<const R: usize> $name<R> {
            /// Whether the processor has the kernel's instructions.
            pub(crate) fn is_available() -> bool {
                detected()
            }

            /// The kernel with the expansion of `key`; `None` if the processor lacks its
            /// instructions.
            pub(crate) fn new(key: &[u8]) -> Option<Self> {
                if detected() { RoundKeys::expand(key).map(Self) } else { None }
            }
        }

        impl<const R: usize> Native for $name<R> {
            fn hash_many(&self, counter_bytes: usize, messages: &[&[u8]], states: &mut [u8]) {
                // SAFETY: `self` exists, so the processor has the instructions.
                unsafe { sum(&self.0, counter_bytes, 1, messages, states, true) }
            }

            fn add(&self, counter_bytes: usize, counter: u64, shares: &[u8], state: &mut [u8]) {
                // SAFETY: `self` exists, so the processor has the instructions.
                unsafe { sum(&self.0, counter_bytes, counter, &[shares], state, false) }
            }
        }

        impl<const R: usize> BlockSizeUser for $name<R> {
            type BlockSize = U16;
        }

        impl<const R: usize> ParBlocksSizeUser for $name<R> {
            type ParBlocksSize = Batch;
        }

        impl<const R: usize> BlockCipherEncBackend for $name<R> {
            #[inline]
            fn encrypt_block(&self, block: InOut<'_, '_, Block<Self>>) {
                let (from, to) = block.into_raw();
                // SAFETY: `self` exists, so the processor has the instructions; one block is
                // readable and writable.
                unsafe { encrypt_one(&self.0, from.cast(), to.cast()) }
            }

            #[inline]
            fn encrypt_par_blocks(&self, blocks: InOut<'_, '_, ParBlocks<Self>>) {
                let (from, to) = blocks.into_raw();
                // SAFETY: `self` exists, so the processor has the instructions; a batch is
                // readable and writable.
                unsafe { encrypt(&self.0, from.cast(), to.cast(), Batch::USIZE) }
            }

            #[inline]
            fn encrypt_tail_blocks(&self, blocks: InOutBuf<'_, '_, Block<Self>>) {
                let count = blocks.len();
                let (from, to) = blocks.into_raw();
                // SAFETY: `self` exists, so the processor has the instructions; `count` blocks
                // are readable and writable.
                unsafe { encrypt(&self.0, from.cast(), to.cast(), count) }
            }
        }

        /// For each message, adds the encrypted blocks of its whole shares to its state. Counters
        /// begin at `first`. If `ends` is set, adds the padded remainder as well.
        #[target_feature(enable = $features)]
        fn sum<const R: usize>(
            keys: &RoundKeys<R>,
            counter_bytes: usize,
            first: u64,
            messages: &[&[u8]],
            states: &mut [u8],
            ends: bool,
        ) {
            let keys = each(keys);
            let layout = layout(counter_bytes);
            let share = BLOCK - counter_bytes;
            for (message, state) in messages.iter().zip(states.chunks_exact_mut(BLOCK)) {
                let mut left = message.len() / share;
                let mut at = 0;
                let mut counters = counters(first);
                let mut total = zero();
                // Takes registers as long as whole registers can be read without crossing the end.
                // It is a macro because a closure would pass the keys in memory.
                macro_rules! take {
                    ($width:expr) => {{
                        let mut blocks = [zero(); $width];
                        for register in &mut blocks {
                            // SAFETY: `fits` has checked that these bytes are in the message.
                            let shares = unsafe { load_shares(message, at, share) };
                            *register = self::blocks(&layout, counters, shares, keys[0]);
                            counters = advance(counters);
                            at += BLOCKS * share;
                        }
                        encrypt_registers(&keys, &mut blocks);
                        for register in blocks {
                            total = xor(total, register);
                        }
                        left -= $width * BLOCKS;
                    }};
                }
                let fits = |width: usize, left: usize, at: usize| {
                    let bytes = width * BLOCKS * share + SPARE * counter_bytes;
                    left >= width * BLOCKS && message.len() - at >= bytes
                };
                while fits(WIDTH, left, at) {
                    take!(WIDTH);
                }
                if fits(4, left, at) {
                    take!(4);
                }
                if fits(2, left, at) {
                    take!(2);
                }
                if fits(1, left, at) {
                    take!(1);
                }
                while left > 0 {
                    let count = left.min(BLOCKS);
                    let shares = last_shares(&message[at..], share, count);
                    let mut last = [self::blocks(&layout, counters, shares, keys[0])];
                    encrypt_registers(&keys, &mut last);
                    total = xor(total, keep(last[0], count));
                    counters = advance(counters);
                    at += count * share;
                    left -= count;
                }
                let mut rest = load_one(state);
                if ends {
                    rest = _mm_xor_si128(rest, remainder(&message[at..]));
                }
                store_one(_mm_xor_si128(fold(total), rest), state);
            }
        }

        /// The round keys in registers.
        #[target_feature(enable = $features)]
        #[inline]
        fn each<const R: usize>(keys: &RoundKeys<R>) -> [Register; R] {
            let mut all = [zero(); R];
            for (register, key) in all.iter_mut().zip(keys.iter()) {
                *register = splat(load_one(key));
            }
            all
        }

        /// Computes all rounds of blocks to which the first round key has already been added.
        #[target_feature(enable = $features)]
        #[inline]
        fn encrypt_registers<const R: usize, const W: usize>(
            keys: &[Register; R],
            blocks: &mut [Register; W],
        ) {
            for key in &keys[1..R - 1] {
                for register in blocks.iter_mut() {
                    *register = round(*register, *key);
                }
            }
            for register in blocks {
                *register = last_round(*register, keys[R - 1]);
            }
        }

        /// Encrypts one block in a 128-bit register.
        ///
        /// # Safety
        ///
        /// `from` is readable and `to` writable for a block.
        #[target_feature(enable = $features)]
        unsafe fn encrypt_one<const R: usize>(keys: &RoundKeys<R>, from: *const u8, to: *mut u8) {
            // SAFETY: the caller guarantees that this memory may be accessed.
            let mut block = unsafe { _mm_loadu_si128(from.cast()) };
            let mut keys = keys.iter();
            let mut next = || load_one(keys.next().expect("R round keys"));
            block = _mm_xor_si128(block, next());
            for _ in 1..R - 1 {
                block = _mm_aesenc_si128(block, next());
            }
            block = _mm_aesenclast_si128(block, next());
            // SAFETY: the caller guarantees that this memory may be accessed.
            unsafe { _mm_storeu_si128(to.cast(), block) }
        }

        /// Encrypts `count` blocks.
        ///
        /// # Safety
        ///
        /// `from` is readable and `to` writable for `count` blocks. They are equal or do not
        /// overlap.
        #[target_feature(enable = $features)]
        unsafe fn encrypt<const R: usize>(
            keys: &RoundKeys<R>,
            from: *const u8,
            to: *mut u8,
            count: usize,
        ) {
            let keys = each(keys);
            let mut done = 0;
            macro_rules! take {
                ($width:expr) => {{
                    let mut blocks = [zero(); $width];
                    for (i, register) in blocks.iter_mut().enumerate() {
                        let at = (done + i * BLOCKS) * BLOCK;
                        // SAFETY: at least this many blocks are left.
                        *register = xor(unsafe { load(from.add(at)) }, keys[0]);
                    }
                    encrypt_registers(&keys, &mut blocks);
                    for (i, register) in blocks.into_iter().enumerate() {
                        let at = (done + i * BLOCKS) * BLOCK;
                        // SAFETY: at least this many blocks are left.
                        unsafe { store(register, to.add(at)) }
                    }
                    done += $width * BLOCKS;
                }};
            }
            while count - done >= WIDTH * BLOCKS {
                take!(WIDTH);
            }
            if count - done >= 4 * BLOCKS {
                take!(4);
            }
            if count - done >= 2 * BLOCKS {
                take!(2);
            }
            if count - done >= BLOCKS {
                take!(1);
            }
            if count > done {
                let mut rest = [[0; BLOCK]; BLOCKS];
                let bytes = (count - done) * BLOCK;
                let rest = rest.as_flattened_mut();
                // SAFETY: less than a register of blocks is left, and `rest` has the length of a
                // register.
                unsafe { from.add(done * BLOCK).copy_to_nonoverlapping(rest.as_mut_ptr(), bytes) };
                // SAFETY: `rest` has the length of a register.
                let mut blocks = [xor(unsafe { load(rest.as_ptr()) }, keys[0])];
                encrypt_registers(&keys, &mut blocks);
                // SAFETY: `rest` has the length of a register, and less than that is left at `to`.
                unsafe {
                    store(blocks[0], rest.as_mut_ptr());
                    to.add(done * BLOCK).copy_from_nonoverlapping(rest.as_ptr(), bytes);
                }
            }
        }

        /// # Panics
        /// When `block` is shorter than a block.
        #[target_feature(enable = $features)]
        #[inline]
        fn load_one(block: &[u8]) -> __m128i {
            let block: &[u8; BLOCK] = block.first_chunk().expect("a block");
            // SAFETY: the array is as long as the register.
            unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
        }

        /// # Panics
        /// When `to` is shorter than a block.
        #[target_feature(enable = $features)]
        #[inline]
        fn store_one(block: __m128i, to: &mut [u8]) {
            let to: &mut [u8; BLOCK] = to.first_chunk_mut().expect("a block");
            // SAFETY: the array is as long as the register.
            unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), block) }
        }
    };
}

use kernel;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_become_big_endian() {
        assert_eq!(COUNTER_PLACES[2][..4], [1, 0, 0x80, 0x80]);
        assert_eq!(
            COUNTER_PLACES[8],
            [7, 6, 5, 4, 3, 2, 1, 0, 128, 128, 128, 128, 128, 128, 128, 128]
        );
    }
}
