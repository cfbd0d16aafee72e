//! Round keys that are made one after the other, anew for each block.

use crate::{ROUNDS, RoundKey, added, bytes, columns, mixed, shifted};
use cipher::consts::{U1, U16};
use cipher::inout::InOut;
use cipher::{Block, BlockCipherEncBackend, BlockSizeUser, ParBlocksSizeUser};
use zeroize::Zeroizing;

/// The key.
pub(crate) struct Unexpanded<'a>(pub(crate) &'a [u8; 16]);

impl BlockSizeUser for Unexpanded<'_> {
    type BlockSize = U16;
}

impl ParBlocksSizeUser for Unexpanded<'_> {
    type ParBlocksSize = U1;
}

impl BlockCipherEncBackend for Unexpanded<'_> {
    fn encrypt_block(&self, mut block: InOut<'_, '_, Block<Self>>) {
        let mut key = Zeroizing::new(RoundKey::of(self.0));
        let mut state = columns(&block.get_in().0);
        for _ in 1..ROUNDS {
            state = mixed(added(state, &key.columns));
            key.advance();
        }
        state = shifted(added(state, &key.columns));
        key.advance();
        block.get_out().0 = bytes(added(state, &key.columns));
    }
}
