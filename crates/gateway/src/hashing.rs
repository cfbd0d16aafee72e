//! Hash tables whose order and collisions nobody outside can foresee, and that repeat with
//! their seed.

#![expect(
    clippy::disallowed_types,
    reason = "their order repeats with the seed, and a frame looks things up too often for a tree"
)]

use core::hash::BuildHasher;
use siphasher::sip::SipHasher13;
use std::collections::HashMap;

/// A table under a secret key.
pub(crate) type Table<K, V> = HashMap<K, V, Keyed>;

/// SipHash-1-3 under a secret key.
#[derive(Clone, Copy)]
pub(crate) struct Keyed([u8; 16]);

impl Keyed {
    pub(crate) const fn new(key: [u8; 16]) -> Self {
        Self(key)
    }
}

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_key(&self.0)
    }
}
