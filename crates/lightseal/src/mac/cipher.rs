//! The block ciphers that `lightseal mac` offers for LightMAC.

use clap::ValueEnum;
use std::fmt;

/// A block cipher by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum CipherName {
    /// AES with 128-bit keys.
    #[default]
    #[value(name = "aes-128")]
    Aes128,
    /// AES with 256-bit keys.
    #[value(name = "aes-256")]
    Aes256,
    /// PRESENT with 80-bit keys.
    #[value(name = "present-80")]
    Present80,
    /// PRESENT with 128-bit keys.
    #[value(name = "present-128")]
    Present128,
}

impl CipherName {
    /// The block length n in bits.
    pub(crate) fn block_bits(self) -> u32 {
        match self {
            Self::Aes128 | Self::Aes256 => 128,
            Self::Present80 | Self::Present128 => 64,
        }
    }

    /// The key length in bytes.
    pub(crate) fn key_bytes(self) -> usize {
        match self {
            Self::Aes128 | Self::Present128 => 16,
            Self::Aes256 => 32,
            Self::Present80 => 10,
        }
    }
}

impl fmt::Display for CipherName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.to_possible_value().as_ref().map_or("", |value| value.get_name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::cipher::{BlockSizeUser, KeySizeUser};

    fn sizes<C: BlockSizeUser + KeySizeUser>() -> (u32, usize) {
        (C::block_size() as u32 * 8, C::key_size())
    }

    #[test]
    fn sizes_are_those_of_the_ciphers() {
        for (name, expected) in [
            (CipherName::Aes128, sizes::<lightmac::Aes128>()),
            (CipherName::Aes256, sizes::<lightmac::Aes256>()),
            (CipherName::Present80, sizes::<lightmac::Present80>()),
            (CipherName::Present128, sizes::<lightmac::Present128>()),
        ] {
            assert_eq!((name.block_bits(), name.key_bytes()), expected, "{name}");
        }
    }
}
