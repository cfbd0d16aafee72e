//! Speck32/64 (Beaulieu et al., "The Simon and Speck Families of Lightweight Block Ciphers", 2013),
//! a cipher with the shortest block that LightMAC allows.

use cipher::consts::{U1, U4, U8};
use cipher::{
    Block, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, InOut,
    Key, KeyInit, KeySizeUser, ParBlocksSizeUser,
};

const ROUNDS: usize = 22;

/// Words are big-endian and in the order in which the paper prints them: the key is l2 l1 l0 k0,
/// and the block is x y.
#[derive(Clone)]
pub(crate) struct Speck32([u16; ROUNDS]);

fn round([x, y]: [u16; 2], key: u16) -> [u16; 2] {
    let x = x.rotate_right(7).wrapping_add(y) ^ key;
    [x, y.rotate_left(2) ^ x]
}

impl KeySizeUser for Speck32 {
    type KeySize = U8;
}

impl KeyInit for Speck32 {
    fn new(key: &Key<Self>) -> Self {
        let word = |i| u16::from_be_bytes([key[i], key[i + 1]]);
        let (mut l, mut k) = ([word(4), word(2), word(0)], word(6));
        Self(std::array::from_fn(|i| {
            let this = k;
            [l[i % 3], k] = round([l[i % 3], k], i as u16);
            this
        }))
    }
}

impl BlockSizeUser for Speck32 {
    type BlockSize = U4;
}

impl ParBlocksSizeUser for Speck32 {
    type ParBlocksSize = U1;
}

impl BlockCipherEncBackend for Speck32 {
    fn encrypt_block(&self, mut block: InOut<'_, '_, Block<Self>>) {
        let [a, b, c, d] = block.clone_in().0;
        let start = [u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])];
        let [x, y] = self.0.iter().fold(start, |state, &key| round(state, key));
        let ([a, b], [c, d]) = (x.to_be_bytes(), y.to_be_bytes());
        *block.get_out() = [a, b, c, d].into();
    }
}

impl BlockCipherEncrypt for Speck32 {
    fn encrypt_with_backend(&self, f: impl BlockCipherEncClosure<BlockSize = U4>) {
        f.call(self);
    }
}

/// The vector in appendix C of the paper.
#[test]
fn speck_encrypts_as_published() {
    let key = [0x19, 0x18, 0x11, 0x10, 0x09, 0x08, 0x01, 0x00];
    let mut block = [0x65, 0x74, 0x69, 0x4c].into();
    BlockCipherEncrypt::encrypt_block(&Speck32::new(&key.into()), &mut block);
    assert_eq!(block.0, [0xa8, 0x68, 0x42, 0xf2]);
}
