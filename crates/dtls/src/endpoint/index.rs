//! How an endpoint finds the association of a datagram: hash tables, because with many associations
//! each step of a search waits for memory.
//!
//! Strangers choose what is looked up, and with their addresses even what is found. So the hash has
//! random keys. It is multilinear over words of 32 bits, with which two keys that were chosen without
//! knowledge of the random ones have the same 32 bits with a probability of 2^-32 (Lemire and Kaser,
//! "Strongly universal string hashing is fast", section 3).

use super::Handle;
use crate::record::ConnectionId;
use core::fmt;
use core::net::SocketAddr;
use hashbrown::HashTable;
use lightseal_core::Random;

/// The number of words that are hashed: the longest connection ID and its length.
const WORDS: usize = ConnectionId::MAX_LEN.div_ceil(4) + 1;
/// The words of a place: those of an IPv6 address, its scope, the port, and the socket.
const PLACE_WORDS: usize = 7;

/// Where an association is: the address of its peer, and the host's socket that the peer sends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) peer: SocketAddr,
    pub(super) socket: u32,
}

impl From<SocketAddr> for Place {
    /// The peer sends to the first socket, where clients are accepted.
    fn from(peer: SocketAddr) -> Self {
        Self { peer, socket: 0 }
    }
}

/// What associations are found by.
pub(super) trait Key: Copy + PartialEq {
    /// The sum of the words of the key, each multiplied by its random one.
    fn sum(&self, random: &[u64; KEYS]) -> u64;
}

impl Key for Place {
    #[inline]
    fn sum(&self, [a, b, c, d, e, f, g, ..]: &[u64; KEYS]) -> u64 {
        let product = |random: &u64, word: u32| random.wrapping_mul(word.into());
        let port = product(a, self.peer.port().into()).wrapping_add(product(g, self.socket));
        match self.peer {
            SocketAddr::V4(address) => port.wrapping_add(product(b, address.ip().to_bits())),
            SocketAddr::V6(address) => {
                let ip = address.ip().to_bits();
                [(b, 0), (c, 32), (d, 64), (e, 96)]
                    .into_iter()
                    .map(|(random, shift)| product(random, (ip >> shift) as u32))
                    .chain([product(f, address.scope_id())])
                    .fold(port, u64::wrapping_add)
            }
        }
    }
}

impl Key for ConnectionId {
    #[inline]
    fn sum(&self, [first, random @ ..]: &[u64; KEYS]) -> u64 {
        let word = |part: &[u8]| part.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let words = self.chunks(4).map(word);
        let products = random.iter().zip(words).map(|(random, word)| random.wrapping_mul(word));
        products.fold(first.wrapping_mul(self.len() as u64), u64::wrapping_add)
    }
}

/// The random keys of the hash: one that is always added, and one for each word.
struct HashKeys {
    first: u64,
    of_words: [u64; KEYS],
}

const KEYS: usize = if WORDS > PLACE_WORDS { WORDS } else { PLACE_WORDS };

impl HashKeys {
    #[inline]
    fn hash(&self, key: &impl Key) -> u64 {
        let sum = self.first.wrapping_add(key.sum(&self.of_words));
        // The upper half of the sum is universal. What follows loses nothing of it, and spreads sums of
        // keys that follow each other.
        let mixed = (sum ^ sum >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    }
}

/// The associations that are found by keys of one kind.
pub(super) struct Index<K> {
    hash: HashKeys,
    table: HashTable<(K, Handle)>,
}

impl<K: Key> Index<K> {
    /// An empty index for the endpoint with this generator.
    pub(super) fn new(rng: &Random) -> Self {
        let random = rng.table_keys::<{ 8 * (KEYS + 1) }>();
        let mut keys = random.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let mut next = || keys.next().expect("there are bytes for all keys");
        let hash = HashKeys { first: next(), of_words: core::array::from_fn(|_| next()) };
        Self { hash, table: HashTable::new() }
    }

    #[inline]
    pub(super) fn get(&self, key: &K) -> Option<Handle> {
        let found = self.table.find(self.hash.hash(key), |(other, _)| other == key);
        found.map(|(_, handle)| *handle)
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Has the key lead to this association, whatever it led to before.
    pub(super) fn insert(&mut self, key: K, handle: Handle) {
        let Self { hash, table } = self;
        match table.find_mut(hash.hash(&key), |(other, _)| *other == key) {
            Some((_, old)) => *old = handle,
            None => {
                table.insert_unique(hash.hash(&key), (key, handle), |(key, _)| hash.hash(key));
            }
        }
    }

    /// Has the key lead to this association unless it leads to another one.
    pub(super) fn insert_if_absent(&mut self, key: K, handle: Handle) {
        if !self.contains(&key) {
            self.insert(key, handle);
        }
    }

    pub(super) fn remove(&mut self, key: &K) {
        let found = self.table.find_entry(self.hash.hash(key), |(other, _)| other == key);
        if let Ok(entry) = found {
            entry.remove();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }
}

impl<K> fmt::Debug for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.table.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeMap;
    use alloc::vec::Vec;

    fn place(number: u64) -> Place {
        let (socket, port) = ((number % 3) as u32, (number % 5) as u16);
        let peer = match number % 2 {
            0 => ([10, 0, 0, (number / 30) as u8], port).into(),
            _ => ([0x2001, 0xdb8, 0, 0, 0, 0, 0, (number / 30) as u16], port).into(),
        };
        Place { peer, socket }
    }

    /// Against a map, with keys that often meet again.
    #[test]
    fn an_index_is_a_map() {
        let mut rng = Random::insecure(3);
        let mut index = Index::new(&rng);
        let mut map = BTreeMap::new();
        for at in 0..20_000 {
            let (key, handle) = (place(rng.below(400)), Handle(at));
            match rng.below(4) {
                0 => {
                    index.insert(key, handle);
                    map.insert(key, handle);
                }
                1 => {
                    index.insert_if_absent(key, handle);
                    map.entry(key).or_insert(handle);
                }
                2 => {
                    index.remove(&key);
                    map.remove(&key);
                }
                _ => {
                    assert_eq!(index.get(&key), map.get(&key).copied());
                    assert_eq!(index.contains(&key), map.contains_key(&key));
                }
            }
            assert_eq!(index.is_empty(), map.is_empty());
        }
    }

    /// Keys that follow each other are spread as evenly as random ones would be.
    #[test]
    fn similar_keys_have_different_hashes() {
        let index = Index::<Place>::new(&Random::insecure(4));
        let ids = Index::<ConnectionId>::new(&Random::insecure(4));
        let of_places = (0..1000).map(|number: u32| index.hash.hash(&place(number.into())));
        let of_ids = (0..1000u32).map(|number| {
            ids.hash.hash(&ConnectionId::new(&number.to_be_bytes()).expect("a short ID"))
        });
        for hashes in [of_places.collect::<Vec<_>>(), of_ids.collect()] {
            let mut places: Vec<_> = hashes.iter().map(|hash| hash % 4096).collect();
            places.sort_unstable();
            places.dedup();
            // 1000 random ones take 887 places in the mean.
            assert!(places.len() > 800, "{}", places.len());
        }
    }

    /// IDs of one content and different lengths, and the longest one.
    #[test]
    fn ids_of_all_lengths_are_told_apart() {
        let mut index = Index::new(&Random::insecure(5));
        let id = |len| ConnectionId::new(&[0; 32][..len]).expect("not too long");
        for len in 0..=ConnectionId::MAX_LEN {
            index.insert(id(len), Handle(len as u64));
        }
        for len in 0..=ConnectionId::MAX_LEN {
            assert_eq!(index.get(&id(len)), Some(Handle(len as u64)));
        }
    }
}
