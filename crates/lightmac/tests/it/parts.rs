//! A message in parts, as records come, compared with the same message in a batch.

use aes::Aes128Enc;
use cipher::consts::{U1, U2, U8, U9, U16};
use cipher::{
    Array, Block, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser,
    InOut, KeyInit, ParBlocksSizeUser, array::ArraySize,
};
use core::marker::PhantomData;
use lightmac::Hasher;
use proptest::prelude::*;

/// AES in batches of `P` blocks, as a bitsliced backend would process them.
struct Batched<P>(Aes128Enc, PhantomData<P>);

impl<P> BlockSizeUser for Batched<P> {
    type BlockSize = U16;
}

impl<P: ArraySize> ParBlocksSizeUser for Batched<P> {
    type ParBlocksSize = P;
}

impl<P: ArraySize> BlockCipherEncBackend for Batched<P> {
    fn encrypt_block(&self, mut block: InOut<'_, '_, Array<u8, U16>>) {
        let mut bytes = block.clone_in();
        self.0.encrypt_block(&mut bytes);
        *block.get_out() = bytes;
    }
}

impl<P: ArraySize> BlockCipherEncrypt for Batched<P> {
    fn encrypt_with_backend(&self, f: impl BlockCipherEncClosure<BlockSize = U16>) {
        f.call(self);
    }
}

fn aes() -> Aes128Enc {
    Aes128Enc::new(&[0x4b; 16].into())
}

fn in_batch(message: &[u8]) -> Block<Aes128Enc> {
    let mut states = [Block::<Aes128Enc>::default()];
    Hasher::from_cipher(aes(), 16).unwrap().hash_many(&[message], &mut states).unwrap();
    states[0]
}

fn in_parts<C: BlockCipherEncrypt + 'static>(cipher: C, parts: &[&[u8]]) -> Vec<u8> {
    Hasher::from_cipher(cipher, 16).unwrap().hash_parts(parts).unwrap().to_vec()
}

fn agree(parts: &[&[u8]]) {
    let expected = in_batch(&parts.concat()).to_vec();
    let lengths: Vec<_> = parts.iter().map(|part| part.len()).collect();
    assert_eq!(in_parts(aes(), parts), expected, "{lengths:?}");
    assert_eq!(in_parts(Batched::<U1>(aes(), PhantomData), parts), expected, "{lengths:?}");
    assert_eq!(in_parts(Batched::<U2>(aes(), PhantomData), parts), expected, "{lengths:?}");
    assert_eq!(in_parts(Batched::<U8>(aes(), PhantomData), parts), expected, "{lengths:?}");
    assert_eq!(in_parts(Batched::<U9>(aes(), PhantomData), parts), expected, "{lengths:?}");
}

#[test]
fn every_cut_of_every_short_message() {
    let message: Vec<u8> = (0..64).map(|i| i * 3 + 1).collect();
    for len in 0..=message.len() {
        for cut in 0..=len {
            agree(&[&message[..cut], &message[cut..len]]);
        }
    }
}

/// Lengths around the one from which messages are queued.
#[test]
fn messages_around_the_queue() {
    let message: Vec<u8> = (0..2200).map(|i| (i % 251) as u8).collect();
    for len in (2030..2070).chain([2200]) {
        agree(&[&message[..7], &message[7..12], &message[12..len]]);
    }
}

proptest! {
    #[test]
    fn any_parts(parts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..50), 0..8)) {
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        agree(&parts);
    }
}
