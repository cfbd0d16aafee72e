//! The ciphers, each with its kernels and the MACs of RustCrypto over it.

use super::contenders::{BenchCipher, Measurement, Mode, streaming};
use ::cipher::Key;
use ::cipher::common::InnerInit;
use cmac::Cmac;
use pmac::Pmac;

macro_rules! bench_cipher {
    ($cipher:ty, $kernel:ty) => {
        impl BenchCipher for $cipher {
            fn kernels() -> (Vec<&'static str>, Vec<&'static str>) {
                let here = <$kernel>::available().map(<$kernel>::name).collect();
                (<$kernel>::ALL.iter().map(|kernel| kernel.name()).collect(), here)
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
