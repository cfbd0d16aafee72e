//! Round keys that are expanded on the stack, once for all blocks of a message.

use crate::{ROUNDS, RoundKey, State, WORDS, added, bytes, columns, mixed, shifted};
use cipher::consts::{U1, U16};
use cipher::inout::InOut;
use cipher::{
    Block, BlockCipherEncBackend, BlockCipherEncClosure, BlockSizeUser, ParBlocksSizeUser,
};
use zeroize::Zeroize;

/// The round keys, erased on drop.
struct Expanded([State; ROUNDS + 1]);

/// Expands a key, and encrypts a message.
pub(crate) fn with_keys(key: &[u8; 16], f: impl BlockCipherEncClosure<BlockSize = U16>) {
    let mut keys = Expanded([[0; WORDS]; ROUNDS + 1]);
    keys.expand(key);
    f.call(&keys);
}

impl Expanded {
    /// Expands a key in place, so that no other copy of the round keys is left on the stack.
    fn expand(&mut self, key: &[u8; 16]) {
        let [first, others @ ..] = &mut self.0;
        let mut key = RoundKey::of(key);
        *first = key.columns;
        for round in others {
            key.advance();
            *round = key.columns;
        }
    }
}

impl Drop for Expanded {
    fn drop(&mut self) {
        self.0.as_flattened_mut().zeroize();
    }
}

impl BlockSizeUser for Expanded {
    type BlockSize = U16;
}

impl ParBlocksSizeUser for Expanded {
    type ParBlocksSize = U1;
}

impl BlockCipherEncBackend for Expanded {
    fn encrypt_block(&self, mut block: InOut<'_, '_, Block<Self>>) {
        let [keys @ .., before_last, last] = &self.0;
        let mut state = columns(&block.get_in().0);
        for key in keys {
            state = mixed(added(state, key));
        }
        block.get_out().0 = bytes(added(shifted(added(state, before_last)), last));
    }
}
