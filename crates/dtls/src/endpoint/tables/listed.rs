//! Lists, for few associations. They have the interface of the tables for many, as far as an endpoint
//! uses it.

use super::Handle;
use alloc::vec::Vec;
use core::fmt;
use lightseal_core::Random;

/// A set whose smallest member is found first.
#[derive(Debug)]
pub(in crate::endpoint) struct OrderedSet<T>(Vec<T>);

impl<T: Copy + Ord> OrderedSet<T> {
    pub(in crate::endpoint) const fn new() -> Self {
        Self(Vec::new())
    }

    /// The place of the first member that is not smaller.
    fn place(&self, value: &T) -> usize {
        self.0.iter().take_while(|member| *member < value).count()
    }

    /// Adds a member; `false` if it was one already.
    #[inline(never)]
    pub(in crate::endpoint) fn insert(&mut self, value: T) -> bool {
        let place = self.place(&value);
        let is_new = self.0.get(place) != Some(&value);
        if is_new {
            self.0.insert(place, value);
        }
        is_new
    }

    /// Removes a member; `false` if it was none.
    #[inline(never)]
    pub(in crate::endpoint) fn remove(&mut self, value: &T) -> bool {
        let place = self.place(value);
        let is_member = self.0.get(place) == Some(value);
        if is_member {
            self.0.remove(place);
        }
        is_member
    }

    pub(in crate::endpoint) fn first(&self) -> Option<&T> {
        self.0.first()
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

/// The associations that are found by keys of one kind.
pub(in crate::endpoint) struct Index<K>(Vec<(K, Handle)>);

impl<K: Copy + PartialEq> Index<K> {
    /// An empty index. The generator is for tables that hash.
    pub(in crate::endpoint) const fn new(_: &Random) -> Self {
        Self(Vec::new())
    }

    #[inline(never)]
    fn place(&self, key: &K) -> Option<usize> {
        self.0.iter().position(|(other, _)| other == key)
    }

    pub(in crate::endpoint) fn get(&self, key: &K) -> Option<Handle> {
        let (_, handle) = self.0.get(self.place(key)?)?;
        Some(*handle)
    }

    pub(in crate::endpoint) fn contains(&self, key: &K) -> bool {
        self.place(key).is_some()
    }

    /// Has the key lead to this association, whatever it led to before.
    pub(in crate::endpoint) fn insert(&mut self, key: K, handle: Handle) {
        self.remove(&key);
        self.0.push((key, handle));
    }

    /// Has the key lead to this association unless it leads to another one.
    pub(in crate::endpoint) fn insert_if_absent(&mut self, key: K, handle: Handle) {
        if !self.contains(&key) {
            self.0.push((key, handle));
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

    /// Against trees, with members and keys that often meet again.
    #[test]
    fn lists_are_sets_and_maps() {
        let mut rng = Random::insecure(6);
        let (mut set, mut members) = (OrderedSet::new(), BTreeSet::new());
        let (mut map, mut values) = (Map::default(), BTreeMap::new());
        for at in 0..20_000 {
            let (key, number) = (rng.below(12), Handle(rng.below(3)));
            match rng.below(5) {
                0 | 1 => {
                    assert_eq!(set.insert((key, number)), members.insert((key, number)));
                    assert_eq!(map.insert(key, at), values.insert(key, at));
                }
                2 | 3 => {
                    assert_eq!(set.remove(&(key, number)), members.remove(&(key, number)));
                    assert_eq!(map.remove(&key), values.remove(&key));
                }
                _ => {
                    assert_eq!(map.get(&key), values.get(&key));
                    assert_eq!(map.get_mut(&key), values.get_mut(&key));
                }
            }
            assert_eq!(set.first(), members.first());
            assert_eq!(map.is_empty(), values.is_empty());
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
            let (key, handle) = (Place { peer, socket: rng.below(2) as u32 }, Handle(at));
            let old = Handle(at.saturating_sub(rng.below(9)));
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
