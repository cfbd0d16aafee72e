//! EMAC: CBC-MAC with its last block encrypted once more, under a second key
//! (Petrank and Rackoff, "CBC MAC for real-time data sources", Journal of Cryptology 2000).

use crate::xor;
use cipher::array::ArraySize;
use cipher::{
    Block, BlockCipherEncBackend, BlockCipherEncClosure, BlockCipherEncrypt, BlockSizeUser, Key,
    KeyInit,
};
use core::fmt;
use lightmac::internals::comparison_kernel;

/// EMAC with two independent keys and tags of a whole block.
///
/// ```text
/// C ← 0ⁿ
/// for each n-bit block B of M ‖ 1 ‖ 0…0:  C ← E_K1(C ⊕ B)
/// tag ← E_K2(C)
/// ```
///
/// The message is always padded, as in LightMAC: a message of whole blocks gets one more block.
///
/// ```
/// use lightmac::Present80;
/// use lightseal_mac_papers::Emac;
///
/// let mac = Emac::<Present80>::new(&[1; 10].into(), &[2; 10].into());
/// assert_ne!(mac.tag(b"message"), mac.tag(b"message\x80"));
/// ```
#[derive(Clone)]
pub struct Emac<C> {
    first: C,
    last: C,
}

impl<C: BlockCipherEncrypt + KeyInit + 'static> Emac<C> {
    /// A MAC with the keys K1 and K2.
    pub fn new(k1: &Key<C>, k2: &Key<C>) -> Self {
        Self::from_ciphers(C::new(k1), C::new(k2))
    }
}

impl<C: BlockCipherEncrypt + 'static> Emac<C> {
    /// A MAC from ciphers that have been set up with K1 and K2.
    pub fn from_ciphers(first: C, last: C) -> Self {
        Self { first, last }
    }

    /// The tag of `message`.
    pub fn tag(&self, message: &[u8]) -> Block<C> {
        let mut state = Block::<C>::default();
        let (blocks, rest) = message.split_at(message.len() - message.len() % C::block_size());
        if let Some(kernel) = comparison_kernel(&self.first) {
            kernel.chain(blocks, &mut state);
            xor(&mut state, rest);
            state[rest.len()] ^= 0x80;
            self.first.encrypt_block(&mut state);
        } else {
            self.first.encrypt_with_backend(Chain { message, state: &mut state });
        }
        self.last.encrypt_block(&mut state);
        state
    }
}

impl<C> fmt::Debug for Emac<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Emac").finish_non_exhaustive()
    }
}

/// The whole chain as one closure over the cipher's backend.
struct Chain<'a, N: ArraySize> {
    message: &'a [u8],
    state: &'a mut cipher::Array<u8, N>,
}

impl<N: ArraySize> BlockSizeUser for Chain<'_, N> {
    type BlockSize = N;
}

impl<N: ArraySize> BlockCipherEncClosure for Chain<'_, N> {
    #[inline(always)]
    fn call<B: BlockCipherEncBackend<BlockSize = N>>(self, backend: &B) {
        let mut blocks = self.message.chunks_exact(N::USIZE);
        for block in &mut blocks {
            xor(self.state, block);
            backend.encrypt_block_inplace(self.state);
        }
        let rest = blocks.remainder();
        xor(self.state, rest);
        self.state[rest.len()] ^= 0x80;
        backend.encrypt_block_inplace(self.state);
    }
}
