//! AES-128 and AES-256 (FIPS 197), encryption only, with kernels for LightMAC.
//!
//! Any RustCrypto implementation of AES works with [`LightMac`](crate::LightMac) and gives the same
//! tags; these types are faster. If there is no kernel for the processor, they use the crate `aes`,
//! which computes in constant time everywhere.

use crate::kernel::Native;
#[cfg(target_arch = "x86_64")]
use crate::kernel::aes::{AesNi, Vaes256, Vaes512};
#[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
use crate::kernel::aes_arm::ArmAes;
#[cfg(feature = "internals")]
use crate::kernel::comparison::ComparisonKernel;
use cipher::consts::{U16, U32};
use cipher::{BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, Key, KeyInit, KeySizeUser};
use core::{fmt, str};
use zeroize::ZeroizeOnDrop;

/// An implementation of AES. All give the same result, in constant time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// The crate `aes`, with the instructions that it uses on this processor, one block at a time.
    Portable,
    /// The AES extension of aarch64: one block in each register.
    ArmAes,
    /// AES-NI with SSE4.1: one block in each register.
    AesNi,
    /// VAES with AVX2: two blocks in each register.
    Vaes256,
    /// VAES with AVX-512 F, BW, VL and VBMI: four blocks in each register.
    Vaes512,
}

impl Kernel {
    /// All kernels, slowest first.
    pub const ALL: &[Self] =
        &[Self::Portable, Self::ArmAes, Self::AesNi, Self::Vaes256, Self::Vaes512];

    /// The kernels whose instructions this processor has, slowest first.
    pub fn available() -> impl DoubleEndedIterator<Item = Self> {
        Self::ALL.iter().copied().filter(|kernel| kernel.is_available())
    }

    /// The kernel that new keys use: the fastest whose instructions this processor has. If the
    /// crate `aes` is configured to use no such instructions (`--cfg aes_backend="soft"`), it is
    /// the portable one.
    pub fn best() -> Self {
        if cfg!(aes_backend = "soft") {
            return Self::Portable;
        }
        Self::available().next_back().unwrap_or(Self::Portable)
    }

    /// Whether this processor has the kernel's instructions.
    pub fn is_available(self) -> bool {
        match self {
            Self::Portable => true,
            #[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
            Self::ArmAes => ArmAes::<11>::is_available(),
            #[cfg(target_arch = "x86_64")]
            Self::AesNi => AesNi::<11>::is_available(),
            #[cfg(target_arch = "x86_64")]
            Self::Vaes256 => Vaes256::<11>::is_available(),
            #[cfg(target_arch = "x86_64")]
            Self::Vaes512 => Vaes512::<11>::is_available(),
            // The kernels of other processors.
            _ => false,
        }
    }

    /// The kernel's name, which [`FromStr`](str::FromStr) parses.
    pub fn name(self) -> &'static str {
        match self {
            Self::Portable => "portable",
            Self::ArmAes => "arm-aes",
            Self::AesNi => "aes-ni",
            Self::Vaes256 => "vaes-256",
            Self::Vaes512 => "vaes-512",
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
        f.write_str("no such kernel: portable, arm-aes, aes-ni, vaes-256 or vaes-512")
    }
}

impl core::error::Error for UnknownKernel {}

/// A key in the form that its kernel needs. `P` is the portable cipher, `R` the number of round
/// keys.
#[derive(Clone)]
enum Expanded<P, const R: usize> {
    Portable(P),
    #[cfg(all(target_arch = "aarch64", target_endian = "little", target_feature = "neon"))]
    ArmAes(ArmAes<R>),
    #[cfg(target_arch = "x86_64")]
    AesNi(AesNi<R>),
    #[cfg(target_arch = "x86_64")]
    Vaes256(Vaes256<R>),
    #[cfg(target_arch = "x86_64")]
    Vaes512(Vaes512<R>),
}

macro_rules! aes {
    ($name:ident, $portable:ty, $key_size:ty, $bits:literal, $round_keys:literal) => {
        #[doc = concat!("AES with a key of ", $bits, " bits.")]
        ///
        /// Round keys are erased on drop.
        #[derive(Clone)]
        pub struct $name(Expanded<$portable, $round_keys>);

        impl $name {
            /// The cipher under `key`, computed by this kernel; `None` if the processor lacks the
            /// kernel's instructions.
            pub fn with_kernel(key: &Key<Self>, kernel: Kernel) -> Option<Self> {
                Some(Self(match kernel {
                    Kernel::Portable => Expanded::Portable(<$portable>::new(key)),
                    #[cfg(all(
                        target_arch = "aarch64",
                        target_endian = "little",
                        target_feature = "neon"
                    ))]
                    Kernel::ArmAes => Expanded::ArmAes(ArmAes::new(key)?),
                    #[cfg(target_arch = "x86_64")]
                    Kernel::AesNi => Expanded::AesNi(AesNi::new(key)?),
                    #[cfg(target_arch = "x86_64")]
                    Kernel::Vaes256 => Expanded::Vaes256(Vaes256::new(key)?),
                    #[cfg(target_arch = "x86_64")]
                    Kernel::Vaes512 => Expanded::Vaes512(Vaes512::new(key)?),
                    // The kernels of other processors.
                    _ => return None,
                }))
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
                    Expanded::ArmAes(_) => Kernel::ArmAes,
                    #[cfg(target_arch = "x86_64")]
                    Expanded::AesNi(_) => Kernel::AesNi,
                    #[cfg(target_arch = "x86_64")]
                    Expanded::Vaes256(_) => Kernel::Vaes256,
                    #[cfg(target_arch = "x86_64")]
                    Expanded::Vaes512(_) => Kernel::Vaes512,
                }
            }

            pub(crate) fn native(&self) -> Option<&dyn Native> {
                match &self.0 {
                    Expanded::Portable(_) => None,
                    #[cfg(all(
                        target_arch = "aarch64",
                        target_endian = "little",
                        target_feature = "neon"
                    ))]
                    Expanded::ArmAes(kernel) => Some(kernel),
                    #[cfg(target_arch = "x86_64")]
                    Expanded::AesNi(kernel) => Some(kernel),
                    #[cfg(target_arch = "x86_64")]
                    Expanded::Vaes256(kernel) => Some(kernel),
                    #[cfg(target_arch = "x86_64")]
                    Expanded::Vaes512(kernel) => Some(kernel),
                }
            }

            #[cfg(feature = "internals")]
            pub(crate) fn comparison_kernel(&self) -> Option<&dyn ComparisonKernel> {
                match &self.0 {
                    Expanded::Portable(_) => None,
                    #[cfg(all(
                        target_arch = "aarch64",
                        target_endian = "little",
                        target_feature = "neon"
                    ))]
                    Expanded::ArmAes(_) => None,
                    #[cfg(target_arch = "x86_64")]
                    Expanded::AesNi(kernel) => Some(kernel),
                    #[cfg(target_arch = "x86_64")]
                    Expanded::Vaes256(kernel) => Some(kernel),
                    #[cfg(target_arch = "x86_64")]
                    Expanded::Vaes512(kernel) => Some(kernel),
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
            type BlockSize = U16;
        }

        impl BlockCipherEncrypt for $name {
            fn encrypt_with_backend(&self, f: impl BlockCipherEncClosure<BlockSize = U16>) {
                match &self.0 {
                    Expanded::Portable(cipher) => cipher.encrypt_with_backend(f),
                    #[cfg(all(
                        target_arch = "aarch64",
                        target_endian = "little",
                        target_feature = "neon"
                    ))]
                    Expanded::ArmAes(kernel) => f.call(kernel),
                    #[cfg(target_arch = "x86_64")]
                    Expanded::AesNi(kernel) => f.call(kernel),
                    #[cfg(target_arch = "x86_64")]
                    Expanded::Vaes256(kernel) => f.call(kernel),
                    #[cfg(target_arch = "x86_64")]
                    Expanded::Vaes512(kernel) => f.call(kernel),
                }
            }
        }

        // The portable cipher and the keys of kernels are erased when they are dropped.
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

aes!(Aes128, aes::Aes128Enc, U16, "128", 11);
aes!(Aes256, aes::Aes256Enc, U32, "256", 15);

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 197, appendices A and C: one block for each key length.
    #[test]
    fn the_standards_examples() {
        let key: [u8; 32] = core::array::from_fn(|i| i as u8);
        let plain: [u8; 16] = core::array::from_fn(|i| 0x11 * i as u8);
        for kernel in Kernel::available() {
            let mut block = plain.into();
            Aes128::with_kernel(key[..16].try_into().unwrap(), kernel)
                .unwrap()
                .encrypt_block(&mut block);
            assert_eq!(block.0, 0x69c4e0d86a7b0430d8cdb78070b4c55a_u128.to_be_bytes(), "{kernel}");
            let mut block = plain.into();
            Aes256::with_kernel(&key.into(), kernel).unwrap().encrypt_block(&mut block);
            assert_eq!(block.0, 0x8ea2b7ca516745bfeafc49904b496089_u128.to_be_bytes(), "{kernel}");
        }
    }

    #[test]
    fn kernels_are_known_by_name() {
        for kernel in Kernel::ALL {
            assert_eq!(kernel.name().parse(), Ok(*kernel));
        }
        assert_eq!("neon".parse::<Kernel>(), Err(UnknownKernel));
        assert!(Kernel::Portable.is_available() && Kernel::best().is_available());
    }
}
