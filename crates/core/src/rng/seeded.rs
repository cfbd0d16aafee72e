//! Random numbers from a seed: the key stream of ChaCha20.

use super::SEED;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherCore};
use chacha20::{ChaCha20Legacy, ChaCha20LegacyCore};
use core::num::NonZeroU64;
use rand_core::SeedableRng;
use zeroize::Zeroizing;

/// Output is taken in words of this many bytes, as the crate `rand_chacha` does it.
const WORD: usize = 4;
/// The number of words in a block of the key stream.
const BLOCK: usize = 16;

/// A seed, and a place in its key stream.
pub(super) struct Seeded {
    seed: Zeroizing<[u8; SEED]>,
    /// One more than the number of words taken. It is never zero, so that an optional generator takes no
    /// more memory.
    next: NonZeroU64,
}

impl Seeded {
    pub(super) fn from_device(fill: fn(&mut [u8])) -> Self {
        let mut seed = Zeroizing::new([0; SEED]);
        fill(&mut *seed);
        Self::from_seed(*seed)
    }

    pub(super) fn fork(&mut self) -> Self {
        let mut seed = Zeroizing::new([0; SEED]);
        self.fill(&mut *seed);
        Self::from_seed(*seed)
    }

    pub(super) fn table_keys(&self, keys: &mut [u8]) {
        ChaCha20Legacy::new((&*self.seed).into(), &[1; 8].into()).apply_keystream(keys);
    }

    pub(super) fn fill(&mut self, out: &mut [u8]) {
        let mut stream = ChaCha20LegacyCore::new((&*self.seed).into(), &[0; 8].into());
        let mut block = Zeroizing::new([0; BLOCK * WORD]);
        let (mut place, mut rest) = (self.next.get() - 1, out);
        while !rest.is_empty() {
            stream.set_block_pos(place / BLOCK as u64);
            stream.write_keystream_block((&mut *block).into());
            let bytes = &block[(place % BLOCK as u64) as usize * WORD..];
            let (now, later) = rest.split_at_mut(rest.len().min(bytes.len()));
            now.copy_from_slice(&bytes[..now.len()]);
            place += now.len().div_ceil(WORD) as u64;
            rest = later;
        }
        self.next = NonZeroU64::MIN.saturating_add(place);
    }
}

/// Its provided methods expand a number into a seed as all generators of `rand_core` do.
impl SeedableRng for Seeded {
    type Seed = [u8; SEED];

    fn from_seed(seed: [u8; SEED]) -> Self {
        Self { seed: Zeroizing::new(seed), next: NonZeroU64::MIN }
    }
}
