//! AES-128 for small processors (FIPS 197): one table of a kilobyte, and keys of 16 bytes.
//!
//! [`Aes128`] has the traits of the crate [`cipher`], and only encrypts: counter mode, CCM, CMAC and
//! LightMAC need no more. It keeps the key itself, so that an association takes 16 bytes for a key in
//! place of 176, and makes each round key when a block needs it. With the feature `fast` it expands
//! the round keys on the stack whenever it is used, once for all blocks of a message: that takes fewer
//! instructions, and 176 bytes more of stack.
//!
//! # Side channels
//!
//! The table is read at secret indices. On a processor with a data cache, the time that this takes
//! depends on the key: programs that share the processor, and in the worst case peers that measure
//! answers, can find it (Bernstein, "Cache-timing attacks on AES", 2005). Do not use this crate on
//! such a processor. Cortex-M0 to M4 have no data cache; there the flash memory must deliver each
//! word of the table in the same time, which accelerators in front of it may prevent: put the table
//! into RAM then. The crate does nothing against an attacker who measures power or radiation.
//!
//! # Example
//!
//! FIPS 197, appendix C.1:
//!
//! ```
//! use lightseal_aes_table::Aes128;
//! use lightseal_aes_table::cipher::{BlockCipherEncrypt, KeyInit};
//!
//! let key = core::array::from_fn(|i| i as u8);
//! let mut block = core::array::from_fn(|i| 0x11 * i as u8).into();
//! Aes128::new(&key.into()).encrypt_block(&mut block);
//! assert_eq!(block.0, 0x69c4_e0d8_6a7b_0430_d8cd_b780_70b4_c55a_u128.to_be_bytes());
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

#[cfg(any(test, feature = "fast"))]
mod expanded;
mod table;
#[cfg(any(test, not(feature = "fast")))]
mod unexpanded;

pub use cipher;

use cipher::consts::U16;
use cipher::{BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, Key, KeyInit, KeySizeUser};
use core::fmt;
use table::{TABLE, substituted};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The number of rounds.
const ROUNDS: usize = 10;
/// The number of 32-bit words in a block and in a key.
const WORDS: usize = 4;

/// Four columns of the state, the first row in the highest byte.
type State = [u32; WORDS];

/// AES with a key of 128 bits, which is erased on drop. See the [crate] for the processors
/// on which this is safe.
#[derive(Clone)]
pub struct Aes128 {
    key: Zeroizing<[u8; 16]>,
}

impl KeySizeUser for Aes128 {
    type KeySize = U16;
}

impl KeyInit for Aes128 {
    fn new(key: &Key<Self>) -> Self {
        Self { key: Zeroizing::new(key.0) }
    }
}

impl BlockSizeUser for Aes128 {
    type BlockSize = U16;
}

impl BlockCipherEncrypt for Aes128 {
    fn encrypt_with_backend(&self, f: impl BlockCipherEncClosure<BlockSize = U16>) {
        #[cfg(feature = "fast")]
        expanded::with_keys(&self.key, f);
        #[cfg(not(feature = "fast"))]
        f.call(&unexpanded::Unexpanded(&self.key));
    }
}

impl ZeroizeOnDrop for Aes128 {}

impl fmt::Debug for Aes128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Aes128(..)")
    }
}

/// A round key, from which the next one follows (FIPS 197, section 5.2).
#[derive(Zeroize)]
struct RoundKey {
    columns: State,
    constant: u8,
}

impl RoundKey {
    /// The first one.
    fn of(key: &[u8; 16]) -> Self {
        Self { columns: columns(key), constant: 1 }
    }

    /// Becomes the next one.
    #[inline(always)]
    fn advance(&mut self) {
        let [a, b, c, d] = &mut self.columns;
        let turned = d.rotate_left(8);
        *a ^= shifted_column(turned, turned, turned, turned) ^ u32::from(self.constant) << 24;
        *b ^= *a;
        *c ^= *b;
        *d ^= *c;
        self.constant = table::doubled(self.constant);
    }
}

/// A state after AddRoundKey.
#[inline(always)]
const fn added([a, b, c, d]: State, key: &State) -> State {
    [a ^ key[0], b ^ key[1], c ^ key[2], d ^ key[3]]
}

/// A state after SubBytes, ShiftRows and MixColumns.
#[inline(always)]
fn mixed([a, b, c, d]: State) -> State {
    [
        mixed_column(a, b, c, d),
        mixed_column(b, c, d, a),
        mixed_column(c, d, a, b),
        mixed_column(d, a, b, c),
    ]
}

/// A state after SubBytes and ShiftRows: the last round has no MixColumns.
#[inline(always)]
fn shifted([a, b, c, d]: State) -> State {
    [
        shifted_column(a, b, c, d),
        shifted_column(b, c, d, a),
        shifted_column(c, d, a, b),
        shifted_column(d, a, b, c),
    ]
}

#[inline(always)]
fn columns(block: &[u8; 16]) -> State {
    let whole = u128::from_be_bytes(*block);
    [(whole >> 96) as u32, (whole >> 64) as u32, (whole >> 32) as u32, whole as u32]
}

#[inline(always)]
fn bytes([a, b, c, d]: State) -> [u8; 16] {
    let high = u128::from(a) << 96 | u128::from(b) << 64;
    (high | u128::from(c) << 32 | u128::from(d)).to_be_bytes()
}

/// A column after SubBytes, ShiftRows and MixColumns, made from the four columns that begin with
/// its own. The table has the first row; the other rows are rotations of it. At `opt-level = "z"`
/// only what is always inlined is fast.
#[inline(always)]
fn mixed_column(a: u32, b: u32, c: u32, d: u32) -> u32 {
    TABLE[(a >> 24) as usize]
        ^ TABLE[(b >> 16) as u8 as usize].rotate_right(8)
        ^ TABLE[(c >> 8) as u8 as usize].rotate_right(16)
        ^ TABLE[d as u8 as usize].rotate_right(24)
}

/// A column after SubBytes and ShiftRows.
#[inline(always)]
fn shifted_column(a: u32, b: u32, c: u32, d: u32) -> u32 {
    u32::from(substituted((a >> 24) as u8)) << 24
        | u32::from(substituted((b >> 16) as u8)) << 16
        | u32::from(substituted((c >> 8) as u8)) << 8
        | u32::from(substituted(d as u8))
}

/// The examples of the page that the registry shows.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use super::*;
    use cipher::{Block, BlockCipherEncBackend};
    use proptest::prelude::*;

    #[test]
    fn the_table_is_small_and_so_is_a_key() {
        assert_eq!(size_of_val(&TABLE), 1024);
        assert_eq!(size_of::<Aes128>(), 16);
    }

    /// FIPS 197, appendix A.1.
    #[test]
    fn example_of_a_key_expansion() {
        let key = 0x2b7e_1516_28ae_d2a6_abf7_1588_09cf_4f3c_u128.to_be_bytes();
        let mut key = RoundKey::of(&key);
        key.advance();
        assert_eq!(key.columns, [0xa0fa_fe17, 0x8854_2cb1, 0x23a3_3939, 0x2a6c_7605]);
        (2..=ROUNDS).for_each(|_| key.advance());
        assert_eq!(key.columns, [0xd014_f9a8, 0xc9ee_2589, 0xe13f_0cc8, 0xb663_0ca6]);
    }

    /// A message that one form of the key encrypts.
    struct Message<'a>(&'a mut [Block<Aes128>]);

    impl BlockSizeUser for Message<'_> {
        type BlockSize = U16;
    }

    impl BlockCipherEncClosure for Message<'_> {
        fn call<B: BlockCipherEncBackend<BlockSize = U16>>(self, backend: &B) {
            self.0.iter_mut().for_each(|block| backend.encrypt_block_inplace(block));
        }
    }

    proptest! {
        #[test]
        fn blocks_are_those_of_another_implementation(
            key in any::<[u8; 16]>(),
            blocks in prop::collection::vec(any::<[u8; 16]>(), 0..20),
        ) {
            let mut ours: std::vec::Vec<Block<Aes128>> =
                blocks.iter().map(|block| (*block).into()).collect();
            let (mut theirs, mut expanded, mut unexpanded) =
                (ours.clone(), ours.clone(), ours.clone());
            Aes128::new(&key.into()).encrypt_blocks(&mut ours);
            aes::Aes128Enc::new(&key.into()).encrypt_blocks(&mut theirs);
            expanded::with_keys(&key, Message(&mut expanded));
            Message(&mut unexpanded).call(&unexpanded::Unexpanded(&key));
            prop_assert_eq!(&ours, &theirs);
            prop_assert_eq!(&expanded, &theirs);
            prop_assert_eq!(&unexpanded, &theirs);
        }
    }
}
