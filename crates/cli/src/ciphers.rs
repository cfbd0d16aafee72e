//! Lightweight block ciphers and their sizes: a selection, as in the LightMAC paper's Table 1.

use clap::ValueEnum;
use std::fmt;

/// A block cipher and the sizes it is defined for.
#[derive(Clone, Copy, Debug)]
pub struct Cipher {
    /// The common name.
    pub name: &'static str,
    /// Authors, title and venue of the publication.
    pub source: &'static str,
    /// The sizes it is defined for, largest block first.
    pub sizes: &'static [Size],
}

/// A pair of block and key sizes.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Bits in a block.
    pub block_bits: u32,
    /// Bits in a key.
    pub key_bits: u32,
    /// The cipher's name in `lightseal mac`; `None` if it is not supported there.
    pub taken_as: Option<&'static str>,
}

const fn size(block_bits: u32, key_bits: u32) -> Size {
    Size { block_bits, key_bits, taken_as: None }
}

const fn taken(block_bits: u32, key_bits: u32, name: &'static str) -> Size {
    Size { block_bits, key_bits, taken_as: Some(name) }
}

/// The sizes of SIMON and SPECK, which both ciphers share.
const SIMON_AND_SPECK: &[Size] = &[
    size(128, 128),
    size(128, 192),
    size(128, 256),
    size(96, 96),
    size(96, 144),
    size(64, 96),
    size(64, 128),
    size(48, 72),
    size(48, 96),
    size(32, 64),
];

const SIMON_AND_SPECK_SOURCE: &str = "Beaulieu, Shors, Smith, Treatman-Clark, Weeks, Wingers: The SIMON and SPECK Families of Lightweight Block Ciphers, ePrint 2013/404";

const KATAN_AND_KTANTAN_SOURCE: &str = "De Cannière, Dunkelman, Knežević: KATAN and KTANTAN: A Family of Small and Efficient Hardware-Oriented Block Ciphers, CHES 2009";

/// All ciphers, sorted by largest block, then by year.
pub const CIPHERS: &[Cipher] = &[
    Cipher {
        name: "AES",
        source: "NIST: Advanced Encryption Standard, FIPS 197, 2001",
        sizes: &[taken(128, 128, "aes-128"), size(128, 192), taken(128, 256, "aes-256")],
    },
    Cipher {
        name: "CLEFIA",
        source: "Shirai, Shibutani, Akishita, Moriai, Iwata: The 128-Bit Blockcipher CLEFIA, FSE 2007",
        sizes: &[size(128, 128), size(128, 192), size(128, 256)],
    },
    Cipher { name: "SIMON", source: SIMON_AND_SPECK_SOURCE, sizes: SIMON_AND_SPECK },
    Cipher { name: "SPECK", source: SIMON_AND_SPECK_SOURCE, sizes: SIMON_AND_SPECK },
    Cipher {
        name: "SEA (96, 8)",
        source: "Standaert, Piret, Gershenfeld, Quisquater: SEA: A Scalable Encryption Algorithm for Small Embedded Applications, CARDIS 2006",
        sizes: &[size(96, 96)],
    },
    Cipher {
        name: "PRINTcipher",
        source: "Knudsen, Leander, Poschmann, Robshaw: PRINTcipher: A Block Cipher for IC-Printing, CHES 2010",
        sizes: &[size(96, 160), size(48, 80)],
    },
    Cipher {
        name: "EPCBC",
        source: "Yap, Khoo, Poschmann, Henricksen: EPCBC: A Block Cipher Suitable for Electronic Product Code Encryption, CANS 2011",
        sizes: &[size(96, 96), size(48, 96)],
    },
    Cipher {
        name: "mCrypton",
        source: "Lim, Korkishko: mCrypton: A Lightweight Block Cipher for Security of Low-Cost RFID Tags and Sensors, WISA 2005",
        sizes: &[size(64, 64), size(64, 96), size(64, 128)],
    },
    Cipher {
        name: "HIGHT",
        source: "Hong and others: HIGHT: A New Block Cipher Suitable for Low-Resource Device, CHES 2006",
        sizes: &[size(64, 128)],
    },
    Cipher {
        name: "PRESENT",
        source: "Bogdanov, Knudsen, Leander, Paar, Poschmann, Robshaw, Seurin, Vikkelsoe: PRESENT: An Ultra-Lightweight Block Cipher, CHES 2007",
        sizes: &[taken(64, 80, "present-80"), taken(64, 128, "present-128")],
    },
    Cipher {
        name: "DESL",
        source: "Leander, Paar, Poschmann, Schramm: New Lightweight DES Variants, FSE 2007",
        sizes: &[size(64, 56)],
    },
    Cipher {
        name: "DESXL",
        source: "Leander, Paar, Poschmann, Schramm: New Lightweight DES Variants, FSE 2007",
        sizes: &[size(64, 184)],
    },
    Cipher {
        name: "KATAN",
        source: KATAN_AND_KTANTAN_SOURCE,
        sizes: &[size(64, 80), size(48, 80), size(32, 80)],
    },
    Cipher {
        name: "KTANTAN",
        source: KATAN_AND_KTANTAN_SOURCE,
        sizes: &[size(64, 80), size(48, 80), size(32, 80)],
    },
    Cipher {
        name: "LED",
        source: "Guo, Peyrin, Poschmann, Robshaw: The LED Block Cipher, CHES 2011",
        sizes: &[size(64, 64), size(64, 128)],
    },
    Cipher {
        name: "Piccolo",
        source: "Shibutani, Isobe, Hiwatari, Mitsuda, Akishita, Shirai: Piccolo: An Ultra-Lightweight Blockcipher, CHES 2011",
        sizes: &[size(64, 80), size(64, 128)],
    },
    Cipher {
        name: "KLEIN",
        source: "Gong, Nikova, Law: KLEIN: A New Family of Lightweight Block Ciphers, RFIDSec 2011",
        sizes: &[size(64, 64), size(64, 80), size(64, 96)],
    },
    Cipher {
        name: "LBlock",
        source: "Wu, Zhang: LBlock: A Lightweight Block Cipher, ACNS 2011",
        sizes: &[size(64, 80)],
    },
    Cipher {
        name: "TWINE",
        source: "Suzaki, Minematsu, Morioka, Kobayashi: TWINE: A Lightweight Block Cipher for Multiple Platforms, SAC 2012",
        sizes: &[size(64, 80), size(64, 128)],
    },
    Cipher {
        name: "PRINCE",
        source: "Borghoff and others: PRINCE: A Low-Latency Block Cipher for Pervasive Computing Applications, ASIACRYPT 2012",
        sizes: &[size(64, 128)],
    },
];

/// A block cipher that LightMAC is computed over, by its name on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CipherName {
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
    pub fn block_bits(self) -> u32 {
        match self {
            Self::Aes128 | Self::Aes256 => 128,
            Self::Present80 | Self::Present128 => 64,
        }
    }

    /// The key length in bytes.
    pub fn key_bytes(self) -> usize {
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

    #[test]
    fn largest_blocks_come_first() {
        let largest = |cipher: &Cipher| cipher.sizes.iter().map(|size| size.block_bits).max();
        assert!(CIPHERS.windows(2).all(|pair| largest(&pair[0]) >= largest(&pair[1])));
        for cipher in CIPHERS {
            let blocks =
                cipher.sizes.windows(2).map(|pair| (pair[0].block_bits, pair[1].block_bits));
            assert!(blocks.into_iter().all(|(first, second)| first >= second), "{}", cipher.name);
            assert!(!cipher.sizes.is_empty() && cipher.source.contains(": "), "{}", cipher.name);
        }
    }

    #[test]
    fn blocks_go_from_128_down_to_32_bits() {
        let blocks = CIPHERS.iter().flat_map(|cipher| cipher.sizes).map(|size| size.block_bits);
        let mut blocks: Vec<_> = blocks.collect();
        blocks.sort_unstable();
        blocks.dedup();
        assert_eq!(blocks, [32, 48, 64, 96, 128]);
    }
}
