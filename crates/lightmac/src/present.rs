//! PRESENT, a 64-bit block cipher with keys of 80 or 128 bits (Bogdanov et al.,
//! CHES 2007; ISO/IEC 29192-2), encryption only, as the MAC needs it.
//!
//! Constant time: the S-box is a Boolean circuit and the permutation a few masked
//! swaps, so no table is looked up at a secret place.

use cipher::consts::{U8, U10, U16};
use cipher::{
    Block, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, InOut,
    Key, KeyInit, KeySizeUser, ParBlocks, ParBlocksSizeUser,
};
use core::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Rounds; one more round key whitens the output.
const ROUNDS: usize = 31;
/// The lowest bit of every nibble.
const NIBBLES: u64 = 0x1111_1111_1111_1111;

/// The S-box C56B90AD3EF84712 on all 16 nibbles at once, from its algebraic normal form.
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

/// Exchanges the bits under `mask` with those `distance` places above.
fn swap(x: u64, mask: u64, distance: u32) -> u64 {
    let t = (x >> distance ^ x) & mask;
    x ^ t ^ t << distance
}

/// Bit i goes to 16·i mod 63: the six bits of a bit's index rotate by two places,
/// which four exchanges of index bits do.
fn permute(x: u64) -> u64 {
    let x = swap(x, 0x0a0a_0a0a_0a0a_0a0a, 3);
    let x = swap(x, 0x0000_f0f0_0000_f0f0, 12);
    let x = swap(x, 0x00cc_00cc_00cc_00cc, 6);
    swap(x, 0x0000_0000_ff00_ff00, 24)
}

/// Encrypts `N` blocks side by side: independent chains that a compiler can vectorize.
fn encrypt_words<const N: usize>(keys: &[u64; ROUNDS + 1], words: &mut [u64; N]) {
    let (rounds, whitening) = keys.split_at(ROUNDS);
    for key in rounds {
        for word in words.iter_mut() {
            *word = permute(substitute(*word ^ key));
        }
    }
    for word in words.iter_mut() {
        *word ^= whitening[0];
    }
}

/// The key schedule on a register of `bits` bits, of whose leading nibbles
/// `nibbles` pass the S-box and into which the round counter enters at `place`.
fn expand(mut register: u128, bits: u32, nibbles: u32, place: u32) -> [u64; ROUNDS + 1] {
    let whole = u128::MAX >> (128 - bits);
    let mut keys = [0; ROUNDS + 1];
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

macro_rules! present {
    ($name:ident, $key_size:ty, $bits:literal, $nibbles:literal, $place:literal) => {
        #[doc = concat!("PRESENT with a key of ", $bits, " bits.")]
        ///
        /// Round keys are erased on drop.
        #[derive(Clone, ZeroizeOnDrop)]
        pub struct $name {
            keys: [u64; ROUNDS + 1],
        }

        impl KeySizeUser for $name {
            type KeySize = $key_size;
        }

        impl KeyInit for $name {
            fn new(key: &Key<Self>) -> Self {
                let mut register = key.iter().fold(0, |r: u128, &b| r << 8 | u128::from(b));
                let keys = expand(register, $bits, $nibbles, $place);
                register.zeroize();
                Self { keys }
            }
        }

        impl BlockSizeUser for $name {
            type BlockSize = U8;
        }

        impl BlockCipherEncrypt for $name {
            fn encrypt_with_backend(&self, f: impl BlockCipherEncClosure<BlockSize = U8>) {
                f.call(&Backend(&self.keys));
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
}

present!(Present80, U10, 80, 1, 15);
present!(Present128, U16, 128, 2, 62);

struct Backend<'a>(&'a [u64; ROUNDS + 1]);

impl BlockSizeUser for Backend<'_> {
    type BlockSize = U8;
}

impl ParBlocksSizeUser for Backend<'_> {
    type ParBlocksSize = U8;
}

impl BlockCipherEncBackend for Backend<'_> {
    fn encrypt_block(&self, mut block: InOut<'_, '_, Block<Self>>) {
        let mut word = [u64::from_be_bytes((*block.get_in()).into())];
        encrypt_words(self.0, &mut word);
        *block.get_out() = word[0].to_be_bytes().into();
    }

    fn encrypt_par_blocks(&self, mut blocks: InOut<'_, '_, ParBlocks<Self>>) {
        let mut words = [0; 8];
        for (word, block) in words.iter_mut().zip(blocks.get_in()) {
            *word = u64::from_be_bytes((*block).into());
        }
        encrypt_words(self.0, &mut words);
        for (word, block) in words.iter().zip(blocks.get_out()) {
            *block = word.to_be_bytes().into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn every_bit_goes_to_its_place() {
        for i in 0..64u32 {
            let to = if i == 63 { 63 } else { 16 * i % 63 };
            assert_eq!(permute(1 << i), 1 << to, "bit {i}");
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
