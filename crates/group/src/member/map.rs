//! Maps whose code is small: one for few entries, and one for any number.

use alloc::vec::Vec;

/// A map whose entries lie in one vector, in ascending order of their keys. An insertion moves the
/// entries behind it, so a map has at most some hundred entries. It takes a fraction of a B-tree's
/// code, and no memory beside its entries.
#[derive(Clone, Debug)]
pub(crate) struct SmallMap<K, V>(Vec<(K, V)>);

impl<K, V> Default for SmallMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> SmallMap<K, V> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut V> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    pub(crate) fn into_entries(self) -> Vec<(K, V)> {
        self.0
    }
}

impl<K: Ord + Copy, V> SmallMap<K, V> {
    fn position(&self, key: K) -> Result<usize, usize> {
        self.0.binary_search_by(|(at, _)| at.cmp(&key))
    }

    pub(crate) fn contains(&self, key: K) -> bool {
        self.position(key).is_ok()
    }

    pub(crate) fn get(&self, key: K) -> Option<&V> {
        let at = self.position(key).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    pub(crate) fn get_mut(&mut self, key: K) -> Option<&mut V> {
        let at = self.position(key).ok()?;
        self.0.get_mut(at).map(|(_, value)| value)
    }

    /// The value of `key`, which is made if there is none.
    pub(crate) fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        let at = self.position(key).unwrap_or_else(|at| {
            self.0.insert(at, (key, make()));
            at
        });
        &mut self.0[at].1
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        match self.position(key) {
            Ok(at) => self.0[at].1 = value,
            Err(at) => self.0.insert(at, (key, value)),
        }
    }

    pub(crate) fn remove(&mut self, key: K) -> Option<V> {
        let at = self.position(key).ok()?;
        Some(self.0.remove(at).1)
    }
}

/// The maximum number of entries in one allocation of a [`LargeMap`].
const CHUNK: usize = 64;

/// A map of any number of entries, in chunks of at most [`CHUNK`]. An insertion moves the entries of
/// one chunk.
#[derive(Clone, Debug)]
pub(crate) struct LargeMap<K, V>(Vec<SmallMap<K, V>>);

impl<K, V> Default for LargeMap<K, V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K, V> LargeMap<K, V> {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(SmallMap::len).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().flat_map(SmallMap::iter)
    }

    pub(crate) fn into_entries(self) -> impl Iterator<Item = (K, V)> {
        self.0.into_iter().flat_map(SmallMap::into_entries)
    }
}

impl<K: Ord + Copy, V> LargeMap<K, V> {
    /// The chunk in which `key` is, or belongs: the last that begins with no higher key.
    fn chunk(&self, key: K) -> usize {
        let begins =
            |chunk: &SmallMap<K, V>| chunk.0.first().is_some_and(|(first, _)| *first <= key);
        self.0.partition_point(begins).saturating_sub(1)
    }

    pub(crate) fn contains(&self, key: K) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn get(&self, key: K) -> Option<&V> {
        self.0.get(self.chunk(key))?.get(key)
    }

    /// The value of `key`, which is made if there is none.
    pub(crate) fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        if self.0.is_empty() {
            self.0.push(SmallMap::new());
        }
        let mut at = self.chunk(key);
        if self.0[at].len() >= CHUNK && !self.0[at].contains(key) {
            let upper = SmallMap(self.0[at].0.split_off(CHUNK / 2));
            self.0.insert(at + 1, upper);
            at = self.chunk(key);
        }
        self.0[at].get_or_insert_with(key, make)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// The map of any size agrees with a B-tree.
        #[test]
        fn a_large_map_agrees_with_a_b_tree(keys in prop::collection::vec(0u16..900, 0..1500)) {
            let (mut map, mut model) = (LargeMap::new(), BTreeMap::new());
            for (value, key) in keys.into_iter().enumerate() {
                prop_assert_eq!(map.get(key), model.get(&key));
                let stored = *map.get_or_insert_with(key, || value);
                prop_assert_eq!(stored, *model.entry(key).or_insert(value));
            }
            prop_assert!(map.len() == model.len() && map.iter().eq(model.iter()));
            prop_assert!(map.0.iter().all(|chunk| (1..=CHUNK).contains(&chunk.len())));
            prop_assert!(map.into_entries().eq(model));
        }

        /// The map agrees with a B-tree.
        #[test]
        fn agrees_with_a_b_tree(steps in prop::collection::vec((0u8..3, 0u8..16, any::<u8>()), 0..200)) {
            let (mut map, mut model) = (SmallMap::new(), BTreeMap::new());
            for (step, key, value) in steps {
                match step {
                    0 => {
                        map.insert(key, value);
                        model.insert(key, value);
                    }
                    1 => prop_assert_eq!(map.remove(key), model.remove(&key)),
                    _ => {
                        let stored = *map.get_or_insert_with(key, || value);
                        prop_assert_eq!(stored, *model.entry(key).or_insert(value));
                    }
                }
                prop_assert_eq!(map.get(key), model.get(&key));
                prop_assert_eq!(map.contains(key), model.contains_key(&key));
                prop_assert!(map.iter().eq(model.iter()) && map.len() == model.len());
            }
        }
    }
}
