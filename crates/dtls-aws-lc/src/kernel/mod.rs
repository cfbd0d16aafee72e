//! AES-GCM (NIST SP 800-38D) on x86-64: one algorithm for registers of one and of four blocks.
//!
//! The file of each kernel has the parts that depend on the register; [`kernel!`] makes the rest.
//! Text is taken in groups of eight blocks: their counter blocks are encrypted side by side, and
//! their hash is reduced once. A record of up to seven blocks thus waits for one encryption and one
//! reduction, and nothing but registers is written to memory on the way.
//!
//! All `unsafe` code of this crate is in the modules below this one. None of it branches on, or reads
//! memory at, what depends on a key or on text.

mod field;
mod keys;
mod ni;
mod vaes512;

use keys::{Keys, RoundKeys};
use ni::AesNi;
use vaes512::Vaes512;

/// Length of a block, in bytes.
const BLOCK: usize = 16;
/// Number of blocks in a group, and of the powers that a key keeps.
const GROUP: usize = 8;

/// The key of one direction, in the form that the fastest kernel of this processor needs. `R` is the
/// number of round keys: 11 for AES-128, 15 for AES-256.
pub(crate) enum Kernel<const R: usize> {
    AesNi(AesNi<R>),
    Vaes512(Vaes512<R>),
}

impl<const R: usize> Kernel<R> {
    /// The fastest kernel for `key`; `None` if the processor lacks the instructions of all, or if the
    /// crate `aes` is configured to use no such instructions.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        if cfg!(aes_backend = "soft") {
            return None;
        }
        Self::available(key).next_back()
    }

    /// The kernels that this processor has, slowest first.
    fn available(key: &[u8]) -> impl DoubleEndedIterator<Item = Self> {
        let kernels = [AesNi::new(key).map(Self::AesNi), Vaes512::new(key).map(Self::Vaes512)];
        kernels.into_iter().flatten()
    }

    /// Encrypts `text` in place and returns its tag. `text` has at most 2^32 bytes.
    #[inline]
    pub(crate) fn seal(&self, nonce: &[u8; 12], header: &[u8], text: &mut [u8]) -> [u8; BLOCK] {
        match self {
            Self::AesNi(kernel) => kernel.seal(nonce, header, text),
            Self::Vaes512(kernel) => kernel.seal(nonce, header, text),
        }
    }

    /// Decrypts `text` in place and returns the tag that it must have. Whoever calls this compares the
    /// tag before anybody sees the text.
    #[inline]
    pub(crate) fn open(&self, nonce: &[u8; 12], header: &[u8], text: &mut [u8]) -> [u8; BLOCK] {
        match self {
            Self::AesNi(kernel) => kernel.open(nonce, header, text),
            Self::Vaes512(kernel) => kernel.open(nonce, header, text),
        }
    }
}

/// A key of AES with `R` round keys, under which single blocks are encrypted.
pub(crate) struct BlockKey<const R: usize>(RoundKeys<R>);

impl<const R: usize> BlockKey<R> {
    /// The expansion of `key`; `None` where [`Kernel::new`] gives none.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        if cfg!(aes_backend = "soft") { None } else { RoundKeys::expand(key).map(Self) }
    }

    /// The encryption of `block`.
    #[inline]
    pub(crate) fn encrypt(&self, block: &[u8; BLOCK]) -> [u8; BLOCK] {
        // SAFETY: there are round keys, so the processor has the instructions.
        unsafe { field::encrypt_bytes(self.0.all(), block) }
    }
}

/// Makes a kernel: the type that holds its keys, and the algorithm on its registers.
///
/// The file that calls it defines the register type `Register`, which holds `BLOCKS` blocks,
/// `detected()` and the functions that [`ni`] documents.
macro_rules! kernel {
    ($(#[$about:meta])* $name:ident, $features:literal) => {
        $(#[$about])*
        /// A value exists only if the processor has the kernel's instructions.
        pub(crate) struct $name<const R: usize>(Keys<R>);

        impl<const R: usize> $name<R> {
            /// The kernel with the expansion of `key`; `None` if the processor lacks its
            /// instructions.
            pub(super) fn new(key: &[u8]) -> Option<Self> {
                if detected() { Keys::expand(key).map(Self) } else { None }
            }

            pub(super) fn seal(
                &self,
                nonce: &[u8; 12],
                header: &[u8],
                text: &mut [u8],
            ) -> [u8; BLOCK] {
                // SAFETY: `self` exists, so the processor has the instructions.
                unsafe { run::<R, true>(&self.0, nonce, header, text) }
            }

            pub(super) fn open(
                &self,
                nonce: &[u8; 12],
                header: &[u8],
                text: &mut [u8],
            ) -> [u8; BLOCK] {
                // SAFETY: `self` exists, so the processor has the instructions.
                unsafe { run::<R, false>(&self.0, nonce, header, text) }
            }
        }

        /// Encrypts or decrypts a text in place, and returns its tag.
        #[target_feature(enable = $features)]
        fn run<const R: usize, const SEALS: bool>(
            keys: &Keys<R>,
            nonce: &[u8; 12],
            header: &[u8],
            text: &mut [u8],
        ) -> [u8; BLOCK] {
            let first = field::first_block(nonce);
            let lengths = field::lengths(header.len(), text.len());
            let pad = field::encrypt(keys.rounds.all(), first);
            // The hash of the header is there before the first counter blocks are encrypted.
            let mut hash = field::hash(&keys.powers, header);
            let mut stream = Stream { rounds: each(keys.rounds.all()), at: counters(first) };
            let mut rest = text;
            // While there is no room for the block of the lengths in the same group.
            while rest.len() > (GROUP - 1) * BLOCK {
                let (group, later) = rest.split_at_mut(rest.len().min(GROUP * BLOCK));
                let sum = stream.take::<{ GROUP / BLOCKS }, SEALS>(&keys.powers, 0, hash, group);
                hash = sum.fold().reduced();
                rest = later;
            }
            let blocks = rest.len().div_ceil(BLOCK);
            let from = GROUP - 1 - blocks;
            let mut sum = field::product(lengths, field::power(&keys.powers, GROUP - 1));
            if blocks == 0 {
                sum = sum.plus(field::product(hash, field::power(&keys.powers, GROUP - 1)));
            } else if blocks <= BLOCKS {
                sum = sum.plus(stream.take::<1, SEALS>(&keys.powers, from, hash, rest).fold());
            } else if blocks <= GROUP / 2 {
                let taken = stream.take::<{ (GROUP / 2).div_ceil(BLOCKS) }, SEALS>(
                    &keys.powers, from, hash, rest,
                );
                sum = sum.plus(taken.fold());
            } else {
                let taken = stream.take::<{ GROUP / BLOCKS }, SEALS>(
                    &keys.powers, from, hash, rest,
                );
                sum = sum.plus(taken.fold());
            }
            field::tag(sum.reduced(), pad)
        }

        /// The key stream.
        struct Stream<const R: usize> {
            rounds: [Register; R],
            /// The next counter blocks, with the counter in little endian.
            at: Register,
        }

        impl<const R: usize> Stream<R> {
            /// Adds the key stream to `text`, of at most `W` registers, and multiplies each block of
            /// ciphertext, the first one with `hash` added, by a power. The first power is
            /// `powers[from]`.
            #[target_feature(enable = $features)]
            #[inline]
            fn take<const W: usize, const SEALS: bool>(
                &mut self,
                powers: &[[u8; BLOCK]; GROUP],
                from: usize,
                hash: __m128i,
                text: &mut [u8],
            ) -> Sum {
                let mut stream = [zero(); W];
                for register in &mut stream {
                    *register = xor(counter_blocks(self.at), self.rounds[0]);
                    self.at = advance(self.at);
                }
                for key in &self.rounds[1..R - 1] {
                    for register in &mut stream {
                        *register = round(*register, *key);
                    }
                }
                for register in &mut stream {
                    *register = last_round(*register, self.rounds[R - 1]);
                }
                let mut sum = Sum { low: zero(), middle: zero(), high: zero() };
                let mut hash = widen(hash);
                let powers = &powers.as_flattened()[from * BLOCK..];
                let parts = text.chunks_mut(BLOCKS * BLOCK);
                for ((part, stream), powers) in
                    parts.zip(stream).zip(powers.chunks(BLOCKS * BLOCK))
                {
                    let before = load(part);
                    let after = xor(before, stream);
                    store(after, part);
                    let sealed = if SEALS { keep(after, part.len()) } else { before };
                    sum.add(xor(reverse(sealed), hash), load(powers));
                    hash = zero();
                }
                sum
            }
        }

        /// A sum of products, in the parts that [`field::Product`] has, for each block of a register.
        struct Sum {
            low: Register,
            middle: Register,
            high: Register,
        }

        impl Sum {
            #[target_feature(enable = $features)]
            #[inline]
            fn add(&mut self, a: Register, b: Register) {
                self.low = xor(self.low, multiply::<0x00>(a, b));
                self.high = xor(self.high, multiply::<0x11>(a, b));
                let middle = xor(multiply::<0x01>(a, b), multiply::<0x10>(a, b));
                self.middle = xor(self.middle, middle);
            }

            #[target_feature(enable = $features)]
            #[inline]
            fn fold(self) -> field::Product {
                field::Product {
                    low: fold(self.low),
                    middle: fold(self.middle),
                    high: fold(self.high),
                }
            }
        }

        /// The round keys in registers.
        #[target_feature(enable = $features)]
        #[inline]
        fn each<const R: usize>(keys: &[[u8; BLOCK]; R]) -> [Register; R] {
            let mut all = [zero(); R];
            for (register, key) in all.iter_mut().zip(keys) {
                *register = splat(field::load(key));
            }
            all
        }
    };
}

use kernel;

#[cfg(test)]
mod tests;
