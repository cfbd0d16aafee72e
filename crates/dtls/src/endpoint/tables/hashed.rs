//! Hash tables and trees, for many associations: each step of a search waits for memory.
//!
//! Strangers choose what is looked up, and with their addresses even what is found. So the hash has
//! random keys. It is multilinear over words of 32 bits, with which two keys that were chosen without
//! knowledge of the random ones have the same 32 bits with a probability of 2^-32 (Lemire and Kaser,
//! "Strongly universal string hashing is fast", section 3).

use super::{Handle, Place};
use crate::record::ConnectionId;
pub(in crate::endpoint) use alloc::collections::BTreeMap as Map;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use hashbrown::HashTable;
use lightseal_core::{Instant, Random};

/// The number of words that are hashed: the longest connection ID and its length.
const WORDS: usize = ConnectionId::MAX_LEN.div_ceil(4) + 1;
/// The words of a place: those of an IPv6 address, its scope, the port, and the socket.
const PLACE_WORDS: usize = 7;

/// What is hashed.
pub(in crate::endpoint) trait Words: Copy + PartialEq {
    /// The sum of the words of the key, each multiplied by its random one.
    fn sum(&self, random: &[u64; KEYS]) -> u64;
}

/// What associations are found by.
pub(in crate::endpoint) trait Key: Words {
    /// The key in 64 bits, if it is one of those that fit: most do, and their table takes a third of the
    /// memory. No two keys have the same.
    fn short(&self) -> Option<u64>;
}

impl Words for u64 {
    #[inline]
    fn sum(&self, [a, b, ..]: &[u64; KEYS]) -> u64 {
        a.wrapping_mul(*self >> 32).wrapping_add(b.wrapping_mul(*self & u64::from(u32::MAX)))
    }
}

impl Key for Place {
    /// Addresses of IPv4.
    #[inline]
    fn short(&self) -> Option<u64> {
        let (SocketAddr::V4(peer), Ok(socket)) = (self.peer, u16::try_from(self.socket)) else {
            return None;
        };
        let [ip, port, socket]: [u64; 3] =
            [peer.ip().to_bits().into(), peer.port().into(), socket.into()];
        Some(ip << 32 | port << 16 | socket)
    }
}

impl Key for ConnectionId {
    /// IDs of up to seven bytes, with their length.
    #[inline]
    fn short(&self) -> Option<u64> {
        let mut bytes = [0; 8];
        let (len, content) = bytes.split_first_mut()?;
        *len = self.len() as u8;
        content.get_mut(..self.len())?.copy_from_slice(self);
        Some(u64::from_le_bytes(bytes))
    }
}

impl Words for Place {
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

impl Words for ConnectionId {
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
    fn hash(&self, key: &impl Words) -> u64 {
        let sum = self.first.wrapping_add(key.sum(&self.of_words));
        // The upper half of the sum is universal. What follows loses nothing of it, and spreads sums of
        // keys that follow each other.
        let mixed = (sum ^ sum >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    }
}

/// When an endpoint sees to its associations next. [`Instant::MAX`] stands for never.
#[derive(Debug)]
pub(in crate::endpoint) struct Deadlines(BTreeSet<(Instant, Handle)>);

impl Deadlines {
    pub(in crate::endpoint) const fn new() -> Self {
        Self(BTreeSet::new())
    }

    /// The deadline of an association changes.
    pub(in crate::endpoint) fn replace(&mut self, handle: Handle, old: Instant, new: Instant) {
        if old < Instant::MAX {
            self.0.remove(&(old, handle));
        }
        if new < Instant::MAX {
            self.0.insert((new, handle));
        }
    }

    /// The first deadline. A list would search `_all`.
    pub(in crate::endpoint) fn first<All: Iterator<Item = (Instant, Handle)>>(
        &self,
        _all: impl FnOnce() -> All,
    ) -> Option<(Instant, Handle)> {
        self.0.first().copied()
    }
}

/// Keys of one form, each with its association.
struct Table<K>(HashTable<(K, Handle)>);

impl<K: Words> Table<K> {
    #[inline]
    fn get(&self, hash: &HashKeys, key: &K) -> Option<Handle> {
        let found = self.0.find(hash.hash(key), |(other, _)| other == key);
        found.map(|(_, handle)| *handle)
    }

    fn insert(&mut self, hash: &HashKeys, key: K, handle: Handle) {
        match self.0.find_mut(hash.hash(&key), |(other, _)| *other == key) {
            Some((_, old)) => *old = handle,
            None => {
                self.0.insert_unique(hash.hash(&key), (key, handle), |(key, _)| hash.hash(key));
            }
        }
    }

    fn remove(&mut self, hash: &HashKeys, key: &K) {
        if let Ok(entry) = self.0.find_entry(hash.hash(key), |(other, _)| other == key) {
            entry.remove();
        }
    }
}

/// The associations that are found by keys of one kind.
pub(in crate::endpoint) struct Index<K> {
    hash: HashKeys,
    short: Table<u64>,
    long: Table<K>,
}

impl<K: Key> Index<K> {
    /// An empty index for the endpoint with this generator.
    pub(in crate::endpoint) fn new(rng: &Random) -> Self {
        let random = rng.table_keys::<{ 8 * (KEYS + 1) }>();
        let mut keys = random.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let mut next = || keys.next().expect("there are bytes for all keys");
        let hash = HashKeys { first: next(), of_words: core::array::from_fn(|_| next()) };
        Self { hash, short: Table(HashTable::new()), long: Table(HashTable::new()) }
    }

    #[inline]
    pub(in crate::endpoint) fn get(&self, key: &K) -> Option<Handle> {
        match key.short() {
            Some(short) => self.short.get(&self.hash, &short),
            None => self.long.get(&self.hash, key),
        }
    }

    pub(in crate::endpoint) fn contains(&self, key: &K) -> bool {
        self.get(key).is_some()
    }

    /// Has the key lead to this association, whatever it led to before.
    pub(in crate::endpoint) fn insert(&mut self, key: K, handle: Handle) {
        match key.short() {
            Some(short) => self.short.insert(&self.hash, short, handle),
            None => self.long.insert(&self.hash, key, handle),
        }
    }

    /// Has the key lead to this association unless it leads to another one.
    pub(in crate::endpoint) fn insert_if_absent(&mut self, key: K, handle: Handle) {
        if !self.contains(&key) {
            self.insert(key, handle);
        }
    }

    pub(in crate::endpoint) fn remove(&mut self, key: &K) {
        match key.short() {
            Some(short) => self.short.remove(&self.hash, &short),
            None => self.long.remove(&self.hash, key),
        }
    }

    pub(in crate::endpoint) fn is_empty(&self) -> bool {
        self.short.0.is_empty() && self.long.0.is_empty()
    }
}

impl<K> fmt::Debug for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.short.0.len() + self.long.0.len())
    }
}

/// What an endpoint has for each association.
pub(in crate::endpoint) struct ByHandle<T>(HashTable<(Handle, T)>);

/// Handles follow each other: multiplied by an odd number, no two of 2^n in a row have the same lowest n
/// bits.
fn hash(handle: Handle) -> u64 {
    handle.number().wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl<T> ByHandle<T> {
    /// Adds a value for a handle that has none yet.
    pub(in crate::endpoint) fn insert(&mut self, handle: Handle, value: T) {
        self.0.insert_unique(hash(handle), (handle, value), |(handle, _)| hash(*handle));
    }

    #[inline]
    pub(in crate::endpoint) fn get(&self, handle: &Handle) -> Option<&T> {
        let found = self.0.find(hash(*handle), |(other, _)| other == handle);
        found.map(|(_, value)| value)
    }

    #[inline]
    pub(in crate::endpoint) fn get_mut(&mut self, handle: &Handle) -> Option<&mut T> {
        let found = self.0.find_mut(hash(*handle), |(other, _)| other == handle);
        found.map(|(_, value)| value)
    }

    pub(in crate::endpoint) fn remove(&mut self, handle: &Handle) -> Option<T> {
        let found = self.0.find_entry(hash(*handle), |(other, _)| other == handle);
        found.ok().map(|found| found.remove().0.1)
    }

    /// In the order of the handles.
    pub(in crate::endpoint) fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        let mut all: Vec<_> = self.0.iter().map(|(handle, value)| (*handle, value)).collect();
        all.sort_unstable_by_key(|(handle, _)| *handle);
        all.into_iter()
    }

    /// In no particular order, for sums.
    pub(in crate::endpoint) fn in_any_order(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|(_, value)| value)
    }

    pub(in crate::endpoint) fn len(&self) -> usize {
        self.0.len()
    }
}

impl<T> Default for ByHandle<T> {
    fn default() -> Self {
        Self(HashTable::new())
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

    /// An endpoint asks for it after each datagram.
    #[test]
    fn the_first_deadline_is_found_without_a_look_at_all_associations() {
        let mut deadlines = Deadlines::new();
        let [early, late] = [3, 7].map(Instant::from_micros);
        let [one, other] = [1, 2].map(Handle::from_number);
        let first = |deadlines: &Deadlines| {
            deadlines.first(|| -> core::iter::Empty<_> { unreachable!("a tree is sorted") })
        };
        assert_eq!(first(&deadlines), None);
        deadlines.replace(one, Instant::MAX, late);
        deadlines.replace(other, Instant::MAX, early);
        assert_eq!(first(&deadlines), Some((early, other)));
        deadlines.replace(other, early, Instant::MAX);
        assert_eq!(first(&deadlines), Some((late, one)));
    }

    /// Against a map, with keys that often meet again.
    #[test]
    fn an_index_is_a_map() {
        let mut rng = Random::insecure(3);
        let mut index = Index::new(&rng);
        let mut map = BTreeMap::new();
        for at in 0..20_000 {
            let (key, handle) = (place(rng.below(400)), Handle::from_number(at));
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
        let of_places = (0..1000).map(|number| index.hash.hash(&place(number)));
        let short = |key: Option<u64>| key.expect("an address of IPv4, or a short ID");
        let of_short = (0..1000).map(|number| index.hash.hash(&short(place(2 * number).short())));
        let id = |number: u32| ConnectionId::new(&number.to_be_bytes()).expect("a short ID");
        let of_ids = (0..1000).map(|number| ids.hash.hash(&id(number)));
        let of_short_ids = (0..1000).map(|number| ids.hash.hash(&short(id(number).short())));
        for hashes in [
            of_places.collect::<Vec<_>>(),
            of_short.collect(),
            of_ids.collect(),
            of_short_ids.collect(),
        ] {
            let mut places: Vec<_> = hashes.iter().map(|hash| hash % 4096).collect();
            places.sort_unstable();
            places.dedup();
            // 1000 random ones take 887 places in the mean.
            assert!(places.len() > 800, "{}", places.len());
        }
    }

    #[test]
    fn no_two_keys_have_the_same_short_form() {
        let peers = [("10.0.0.1:1", 0), ("10.0.0.1:1", 1), ("10.0.0.1:256", 0), ("10.0.1.0:1", 0)];
        let places = peers.map(|(peer, socket)| Place { peer: peer.parse().unwrap(), socket });
        let mut short: Vec<_> = places.iter().map(|place| place.short().unwrap()).collect();
        let ids = [&[][..], &[0], &[0, 0], &[0; 7], &[1, 0], &[0, 1]];
        let ids = ids.map(|id| ConnectionId::new(id).unwrap());
        let mut of_ids: Vec<_> = ids.iter().map(|id| id.short().unwrap()).collect();
        for (short, count) in [(&mut short, 4), (&mut of_ids, 6)] {
            short.sort_unstable();
            short.dedup();
            assert_eq!(short.len(), count);
        }
        let far = Place { socket: 1 << 16, ..places[0] };
        let v6 = Place { peer: "[::ffff:10.0.0.1]:1".parse().unwrap(), socket: 0 };
        assert_eq!((far.short(), v6.short()), (None, None));
        assert_eq!(ConnectionId::new(&[0; 8]).unwrap().short(), None);
    }

    /// IDs of one content and different lengths, and the longest one.
    #[test]
    fn ids_of_all_lengths_are_told_apart() {
        let mut index = Index::new(&Random::insecure(5));
        let id = |len| ConnectionId::new(&[0; 32][..len]).expect("not too long");
        for len in 0..=ConnectionId::MAX_LEN {
            index.insert(id(len), Handle::from_number(len as u64));
        }
        for len in 0..=ConnectionId::MAX_LEN {
            assert_eq!(index.get(&id(len)), Some(Handle::from_number(len as u64)));
        }
    }
}
