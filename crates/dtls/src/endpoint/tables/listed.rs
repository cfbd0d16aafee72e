//! Lists, for few associations. They have the interface of the tables for many, as far as an endpoint
//! uses it.

use super::{Handle, make_room};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use lightseal_core::{Instant, Random};

/// When an endpoint sees to its associations next. [`Instant::MAX`] stands for never. Each association
/// knows its own deadline, and the first one is searched.
#[derive(Debug)]
pub(in crate::endpoint) struct Deadlines(());

impl Deadlines {
    pub(in crate::endpoint) const fn new() -> Self {
        Self(())
    }

    /// The deadline of an association changes.
    pub(in crate::endpoint) const fn replace(&mut self, _: Handle, _old: Instant, _new: Instant) {}

    /// The first of `all` deadlines.
    pub(in crate::endpoint) fn first<All: Iterator<Item = (Instant, Handle)>>(
        &self,
        all: impl FnOnce() -> All,
    ) -> Option<(Instant, Handle)> {
        all().min().filter(|(at, _)| *at < Instant::MAX)
    }
}

/// A map.
#[derive(Debug)]
pub(in crate::endpoint) struct Map<K, V>(Vec<(K, V)>);

impl<K: PartialEq, V> Map<K, V> {
    pub(in crate::endpoint) fn get(&self, key: &K) -> Option<&V> {
        let found = self.0.iter().find(|(other, _)| other == key);
        found.map(|(_, value)| value)
    }

    pub(in crate::endpoint) fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let found = self.0.iter_mut().find(|(other, _)| other == key);
        found.map(|(_, value)| value)
    }

    pub(in crate::endpoint) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let old = self.remove(&key);
        make_room(&mut self.0);
        self.0.push((key, value));
        old
    }

    pub(in crate::endpoint) fn remove(&mut self, key: &K) -> Option<V> {
        let place = self.0.iter().position(|(other, _)| other == key)?;
        Some(self.0.swap_remove(place).1)
    }

    pub(in crate::endpoint) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// What an endpoint has for each association. New handles are larger than all before them, so the list
/// is sorted.
pub(in crate::endpoint) struct ByHandle<T>(Vec<(Handle, T)>);

impl<T> ByHandle<T> {
    /// Adds a value for a handle that has none yet.
    pub(in crate::endpoint) fn insert(&mut self, handle: Handle, value: T) {
        make_room(&mut self.0);
        self.0.push((handle, value));
    }

    #[inline(never)]
    pub(in crate::endpoint) fn get(&self, handle: &Handle) -> Option<&T> {
        let found = self.0.iter().find(|(other, _)| other == handle);
        found.map(|(_, value)| value)
    }

    #[inline(never)]
    pub(in crate::endpoint) fn get_mut(&mut self, handle: &Handle) -> Option<&mut T> {
        let found = self.0.iter_mut().find(|(other, _)| other == handle);
        found.map(|(_, value)| value)
    }

    pub(in crate::endpoint) fn remove(&mut self, handle: &Handle) -> Option<T> {
        let place = self.0.iter().position(|(other, _)| other == handle)?;
        Some(self.0.remove(place).1)
    }

    /// In the order of the handles.
    pub(in crate::endpoint) fn iter(&self) -> impl Iterator<Item = (Handle, &T)> {
        self.0.iter().map(|(handle, value)| (*handle, value))
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
        Self(Vec::new())
    }
}

/// The associations that are found by keys of one kind. Each item has memory of its own: a longer list of
/// them would need room for both while they move into it.
pub(in crate::endpoint) struct Index<K>(Vec<Box<(K, Handle)>>);

impl<K: Copy + PartialEq> Index<K> {
    /// An empty index. The generator is for tables that hash.
    pub(in crate::endpoint) const fn new(_: &Random) -> Self {
        Self(Vec::new())
    }

    fn add(&mut self, key: K, handle: Handle) {
        make_room(&mut self.0);
        self.0.push(Box::new((key, handle)));
    }

    #[inline(never)]
    fn place(&self, key: &K) -> Option<usize> {
        self.0.iter().position(|item| item.0 == *key)
    }

    pub(in crate::endpoint) fn get(&self, key: &K) -> Option<Handle> {
        self.0.get(self.place(key)?).map(|item| item.1)
    }

    pub(in crate::endpoint) fn contains(&self, key: &K) -> bool {
        self.place(key).is_some()
    }

    /// Has the key lead to this association, whatever it led to before.
    pub(in crate::endpoint) fn insert(&mut self, key: K, handle: Handle) {
        self.remove(&key);
        self.add(key, handle);
    }

    /// Has the key lead to this association unless it leads to another one.
    pub(in crate::endpoint) fn insert_if_absent(&mut self, key: K, handle: Handle) {
        if !self.contains(&key) {
            self.add(key, handle);
        }
    }

    pub(in crate::endpoint) fn remove(&mut self, key: &K) {
        if let Some(place) = self.place(key) {
            self.0.swap_remove(place);
        }
    }

    pub(in crate::endpoint) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K> fmt::Debug for Index<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::tables::Place;
    use alloc::collections::{BTreeMap, BTreeSet};

    /// Against a tree, with keys that often meet again.
    #[test]
    fn a_list_is_a_map() {
        let mut rng = Random::insecure(6);
        let (mut map, mut values) = (Map::default(), BTreeMap::new());
        for at in 0..20_000 {
            let key = rng.below(12);
            match rng.below(3) {
                0 => assert_eq!(map.insert(key, at), values.insert(key, at)),
                1 => assert_eq!(map.remove(&key), values.remove(&key)),
                _ => {
                    assert_eq!(map.get(&key), values.get(&key));
                    assert_eq!(map.get_mut(&key), values.get_mut(&key));
                }
            }
            assert_eq!(map.is_empty(), values.is_empty());
        }
    }

    /// Against a tree.
    #[test]
    fn the_first_deadline_is_found_among_all() {
        let mut rng = Random::insecure(8);
        let (mut deadlines, mut tree) = (Deadlines::new(), BTreeSet::new());
        let mut all = [Instant::MAX; 8];
        for _ in 0..20_000 {
            let number = rng.below(8);
            let (handle, old) = (Handle::from_number(number), &mut all[number as usize]);
            let new = Instant::from_micros(rng.below(50));
            let new = if rng.below(2) == 0 { Instant::MAX } else { new };
            tree.remove(&(*old, handle));
            if new < Instant::MAX {
                tree.insert((new, handle));
            }
            deadlines.replace(handle, *old, new);
            *old = new;
            let each = (0..).zip(all).map(|(number, at)| (at, Handle::from_number(number)));
            assert_eq!(deadlines.first(|| each), tree.first().copied());
        }
    }

    /// Against maps, with few places and handles that count up.
    #[test]
    fn lists_find_associations_by_place_and_handle() {
        let mut rng = Random::insecure(7);
        let (mut index, mut places) = (Index::new(&rng), BTreeMap::new());
        let (mut list, mut values) = (ByHandle::default(), BTreeMap::new());
        for at in 0..20_000 {
            let peer = ([10, 0, 0, rng.below(9) as u8], rng.below(2) as u16).into();
            let (key, handle) =
                (Place { peer, socket: rng.below(2) as u32 }, Handle::from_number(at));
            let old = Handle::from_number(at.saturating_sub(rng.below(9)));
            match rng.below(4) {
                0 => {
                    index.insert(key, handle);
                    places.insert(key, handle);
                }
                1 => {
                    index.insert_if_absent(key, handle);
                    places.entry(key).or_insert(handle);
                }
                2 => {
                    list.insert(handle, at);
                    values.insert(handle, at);
                }
                _ => {
                    index.remove(&key);
                    places.remove(&key);
                    assert_eq!(list.remove(&old), values.remove(&old));
                }
            }
            assert_eq!(index.get(&key), places.get(&key).copied());
            assert_eq!(index.contains(&key), places.contains_key(&key));
            assert_eq!(index.is_empty(), places.is_empty());
            assert_eq!(list.get(&old), values.get(&old));
            assert_eq!(list.get_mut(&old), values.get_mut(&old));
            assert_eq!(list.len(), values.len());
        }
        assert!(list.iter().map(|(handle, value)| (handle, *value)).eq(values.clone()));
        assert!(list.in_any_order().eq(values.values()));
    }
}
