//! Hash tables whose iteration order and collisions nobody without the key can predict, and which
//! are repeatable: the same seed gives the same order.

#![expect(
    clippy::disallowed_types,
    reason = "the order depends on the seed only, and a tree is too slow for lookups of every frame"
)]

use core::hash::BuildHasher;
use siphasher::sip::SipHasher13;
use std::collections::HashMap;

/// A hash table under a secret key.
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
