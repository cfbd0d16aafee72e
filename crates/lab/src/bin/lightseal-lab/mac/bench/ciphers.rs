//! The ciphers, each with its kernels and the MACs of RustCrypto over it.

use super::contenders::{Measurement, Mode, streaming};
use ::cipher::common::InnerInit;
use ::cipher::{BlockCipherEncrypt, Key, KeyInit};
use cmac::Cmac;
use pmac::Pmac;

/// A cipher that can be measured.
pub(super) trait BenchCipher: BlockCipherEncrypt + KeyInit + Clone + 'static {
    /// The names of all its kernels, and of the kernels for which this processor has instructions.
    /// Both lists begin with the slowest.
    fn kernels() -> (Vec<&'static str>, Vec<&'static str>);

    /// The cipher on a kernel of [`kernels`](Self::kernels); `None` for any other name.
    fn with_kernel(key: &Key<Self>, kernel: &str) -> Option<Self>;

    /// RustCrypto's CMAC or PMAC over this cipher.
    fn peer<'a>(self, mode: Mode, data: &'a [u8], bytes: usize) -> Vec<Measurement<'a>>;
}

macro_rules! bench_cipher {
    ($cipher:ty, $kernel:ty) => {
        impl BenchCipher for $cipher {
            fn kernels() -> (Vec<&'static str>, Vec<&'static str>) {
                let here = <$kernel>::available().map(<$kernel>::name).collect();
                (<$kernel>::ALL.map(<$kernel>::name).to_vec(), here)
            }

            fn with_kernel(key: &Key<Self>, kernel: &str) -> Option<Self> {
                Self::with_kernel(key, kernel.parse().ok()?)
            }

            fn peer<'a>(self, mode: Mode, data: &'a [u8], bytes: usize) -> Vec<Measurement<'a>> {
                match mode {
                    Mode::Cmac => streaming(mode, <Cmac<Self>>::inner_init(self), data, bytes),
                    Mode::Pmac => streaming(mode, <Pmac<Self>>::inner_init(self), data, bytes),
                    _ => Vec::new(),
                }
            }
        }
    };
}

bench_cipher!(lightmac::Aes128, lightmac::aes::Kernel);
bench_cipher!(lightmac::Aes256, lightmac::aes::Kernel);
bench_cipher!(lightmac::Present80, lightmac::present::Kernel);
bench_cipher!(lightmac::Present128, lightmac::present::Kernel);
