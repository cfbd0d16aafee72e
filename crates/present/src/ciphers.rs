//! The ciphers, their key schedule, and the choice of a kernel.

#[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
use crate::kernel::Neon;
#[cfg(target_arch = "x86_64")]
use crate::kernel::{Avx2, Avx512};
use crate::kernel::{Portable, ROUND_KEYS};
use crate::sum::{CounterSum, check};
use cipher::consts::{U8, U10, U16};
use cipher::{BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, Key, KeyInit, KeySizeUser};
use core::{fmt, str};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The lowest bit of every nibble.
const NIBBLES: u64 = 0x1111_1111_1111_1111;

/// Applies the S-box C56B90AD3EF84712 to all 16 nibbles at once, by its algebraic normal form.
fn substitute(x: u64) -> u64 {
    let (a, b, c, d) = (x & NIBBLES, x >> 1 & NIBBLES, x >> 2 & NIBBLES, x >> 3 & NIBBLES);
    let (bc, abc, abd, acd) = (b & c, a & b & c, a & b & d, a & c & d);
    let cubic = abd ^ acd;
    let y0 = a ^ c ^ d ^ bc;
    let y1 = b ^ d ^ (b & d) ^ (c & d) ^ abc ^ cubic;
    let y2 = c ^ d ^ (a & b) ^ (a & d) ^ (b & d) ^ cubic ^ NIBBLES;
    let y3 = a ^ b ^ d ^ bc ^ abc ^ cubic ^ NIBBLES;
    y0 | y1 << 1 | y2 << 2 | y3 << 3
}

/// The key schedule on a register of `bits` bits. The S-box is applied to the `nibbles` leading
/// nibbles, and the round counter is added at bit `place`.
fn expand(mut register: u128, bits: u32, nibbles: u32, place: u32) -> [u64; ROUND_KEYS] {
    let whole = u128::MAX >> (128 - bits);
    let mut keys = [0; ROUND_KEYS];
    for (round, key) in (1u128..).zip(&mut keys) {
        *key = (register >> (bits - 64)) as u64;
        register = (register << 61 | register >> (bits - 61)) & whole;
        let leading = whole & !(whole >> (4 * nibbles));
        let substituted = u128::from(substitute((register >> (bits - 64)) as u64)) << (bits - 64);
        register = register & !leading | substituted & leading;
        register ^= round << place;
    }
    register.zeroize();
    keys
}

/// An implementation of PRESENT. All give the same result, in constant time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// Circuits on words of 64 bits.
    Portable,
    /// Circuits on registers of 128 bits, with NEON, and with the SHA3 extension of aarch64 if the
    /// processor has it.
    Neon,
    /// Circuits on registers of 256 bits, with AVX2.
    Avx2,
    /// Bit planes of 32 blocks, with AVX-512 F, BW, VL and VBMI and with GFNI.
    Avx512,
}

impl Kernel {
    /// All kernels, slowest first.
    pub const ALL: &[Self] = &[Self::Portable, Self::Neon, Self::Avx2, Self::Avx512];

    /// The kernels whose instructions this processor has, slowest first.
    pub fn available() -> impl DoubleEndedIterator<Item = Self> {
        Self::ALL.iter().copied().filter(|kernel| kernel.is_available())
    }

    /// The kernel that new keys use: the fastest whose instructions this processor has.
    pub fn best() -> Self {
        Self::available().next_back().unwrap_or(Self::Portable)
    }

    /// Whether this processor has the kernel's instructions.
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
            Self::Neon => true,
            #[cfg(target_arch = "x86_64")]
            Self::Avx2 => Avx2::is_available(),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => Avx512::is_available(),
            // The kernels of other processors.
            _ => false,
        }
    }

    /// The kernel's name, which [`FromStr`](str::FromStr) parses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::Neon => "neon",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512-gfni",
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl str::FromStr for Kernel {
    type Err = UnknownKernel;

    fn from_str(name: &str) -> Result<Self, UnknownKernel> {
        Self::ALL.iter().copied().find(|kernel| kernel.name() == name).ok_or(UnknownKernel)
    }
}

/// The error of a name that no kernel has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownKernel;

impl fmt::Display for UnknownKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no such kernel: portable, neon, avx2 or avx512-gfni")
    }
}

impl core::error::Error for UnknownKernel {}

/// A key in the form that its kernel needs.
// The large variant is the usual one, and there is no heap to allocate it on.
#[allow(clippy::large_enum_variant)]
#[derive(Clone)]
enum Expanded {
    Portable(Portable),
    #[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
    Neon(Neon),
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
}

macro_rules! present {
    ($name:ident, $key_size:ty, $bits:literal, $nibbles:literal, $place:literal) => {
        #[doc = concat!("PRESENT with a key of ", $bits, " bits.")]
        ///
        /// Round keys are erased on drop.
        #[derive(Clone)]
        pub struct $name(Expanded);

        impl $name {
            /// The cipher under `key`, computed by this kernel; `None` if the processor lacks the
            /// kernel's instructions.
            pub fn with_kernel(key: &Key<Self>, kernel: Kernel) -> Option<Self> {
                let mut register = key.iter().fold(0, |r: u128, &b| r << 8 | u128::from(b));
                let mut keys = expand(register, $bits, $nibbles, $place);
                register.zeroize();
                let expanded = match kernel {
                    Kernel::Portable => Some(Expanded::Portable(Portable::new(&keys))),
                    #[cfg(all(
                        target_arch = "aarch64",
                        target_endian = "little",
                        target_feature = "neon"
                    ))]
                    Kernel::Neon => Some(Expanded::Neon(Neon::new(&keys))),
                    #[cfg(target_arch = "x86_64")]
                    Kernel::Avx2 => Avx2::new(&keys).map(Expanded::Avx2),
                    #[cfg(target_arch = "x86_64")]
                    Kernel::Avx512 => Avx512::new(&keys).map(Expanded::Avx512),
                    // The kernels of other processors.
                    _ => None,
                };
                keys.zeroize();
                expanded.map(Self)
            }

            /// The kernel that computes the cipher.
            pub fn kernel(&self) -> Kernel {
                match self.0 {
                    Expanded::Portable(_) => Kernel::Portable,
                    #[cfg(all(
                        target_arch = "aarch64",
                        target_endian = "little",
                        target_feature = "neon"
                    ))]
                    Expanded::Neon(_) => Kernel::Neon,
                    #[cfg(target_arch = "x86_64")]
                    Expanded::Avx2(_) => Kernel::Avx2,
                    #[cfg(target_arch = "x86_64")]
                    Expanded::Avx512(_) => Kernel::Avx512,
                }
            }

            fn sums(&self) -> &dyn CounterSum {
                match &self.0 {
                    Expanded::Portable(kernel) => kernel,
                    #[cfg(all(
                        target_arch = "aarch64",
                        target_endian = "little",
                        target_feature = "neon"
                    ))]
                    Expanded::Neon(kernel) => kernel,
                    #[cfg(target_arch = "x86_64")]
                    Expanded::Avx2(kernel) => kernel,
                    #[cfg(target_arch = "x86_64")]
                    Expanded::Avx512(kernel) => kernel,
                }
            }
        }

        impl KeySizeUser for $name {
            type KeySize = $key_size;
        }

        impl KeyInit for $name {
            fn new(key: &Key<Self>) -> Self {
                Self::with_kernel(key, Kernel::best()).expect("the best kernel is available")
            }
        }

        impl BlockSizeUser for $name {
            type BlockSize = U8;
        }

        impl BlockCipherEncrypt for $name {
            fn encrypt_with_backend(&self, f: impl BlockCipherEncClosure<BlockSize = U8>) {
                match &self.0 {
                    Expanded::Portable(kernel) => f.call(kernel),
                    #[cfg(all(
                        target_arch = "aarch64",
                        target_endian = "little",
                        target_feature = "neon"
                    ))]
                    Expanded::Neon(kernel) => f.call(kernel),
                    #[cfg(target_arch = "x86_64")]
                    Expanded::Avx2(kernel) => f.call(kernel),
                    #[cfg(target_arch = "x86_64")]
                    Expanded::Avx512(kernel) => f.call(kernel),
                }
            }
        }

        impl CounterSum for $name {
            #[inline]
            fn hash(&self, counter_bytes: usize, message: &[u8], state: &mut [u8]) {
                check(counter_bytes, 1, state);
                self.sums().hash(counter_bytes, message, state);
            }

            #[inline]
            fn hash_many(&self, counter_bytes: usize, messages: &[&[u8]], states: &mut [u8]) {
                check(counter_bytes, messages.len(), states);
                self.sums().hash_many(counter_bytes, messages, states);
            }

            #[inline]
            fn add(&self, counter_bytes: usize, counter: u64, shares: &[u8], state: &mut [u8]) {
                check(counter_bytes, 1, state);
                self.sums().add(counter_bytes, counter, shares, state);
            }
        }

        // The keys of kernels are erased when they are dropped.
        impl ZeroizeOnDrop for $name {}

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("kernel", &self.kernel())
                    .finish_non_exhaustive()
            }
        }
    };
}

present!(Present80, U10, 80, 1, 15);
present!(Present128, U16, 128, 2, 62);

#[cfg(test)]
mod tests {
    use super::*;
    use cipher::Block;

    #[test]
    fn the_circuit_is_the_s_box() {
        let table = [12, 5, 6, 11, 9, 0, 10, 13, 3, 14, 15, 8, 4, 7, 1, 2u64];
        for place in 0..16 {
            for (input, output) in (0u64..).zip(table) {
                let outside = !(0xf << (4 * place));
                let got = substitute(input << (4 * place));
                assert_eq!(got >> (4 * place) & 0xf, output);
                assert_eq!(got & outside, 0xcccc_cccc_cccc_cccc & outside);
            }
        }
    }

    #[test]
    fn parallel_and_single_agree() {
        let cipher = Present80::new(&[0x5a; 10].into());
        let mut blocks: [Block<Present80>; 19] =
            core::array::from_fn(|i| [i as u8, 1, 2, 3, 4, 5, 6, 7].into());
        let single = blocks.map(|mut block| {
            cipher.encrypt_block(&mut block);
            block
        });
        cipher.encrypt_blocks(&mut blocks);
        assert_eq!(blocks, single);
    }
}
