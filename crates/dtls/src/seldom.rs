//! Lists that are empty most of the time.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};

/// A list that takes the memory of one pointer while it is empty, where a [`Vec`] takes three.
#[expect(clippy::box_collection, reason = "it takes less memory while there is none")]
pub(crate) struct SeldomList<T>(Option<Box<Vec<T>>>);

impl<T> SeldomList<T> {
    pub(crate) const EMPTY: Self = Self(None);

    /// Adds an item at the end.
    pub(crate) fn push(&mut self, item: T) {
        self.list().push(item);
    }

    /// Adds items at the end.
    pub(crate) fn extend(&mut self, items: impl IntoIterator<Item = T>) {
        items.into_iter().for_each(|item| self.push(item));
    }

    /// Adds an item at this place, at most behind the last one.
    pub(crate) fn insert(&mut self, at: usize, item: T) {
        self.list().insert(at, item);
    }

    /// Removes the item at this place; `None` if there is none.
    pub(crate) fn remove(&mut self, at: usize) -> Option<T> {
        let list = self.0.as_deref_mut().filter(|list| at < list.len())?;
        let item = list.remove(at);
        self.tidy();
        Some(item)
    }

    /// Keeps the items for which `keep` is true.
    pub(crate) fn retain(&mut self, keep: impl FnMut(&T) -> bool) {
        if let Some(list) = &mut self.0 {
            list.retain(keep);
        }
        self.tidy();
    }

    /// Removes all items.
    pub(crate) fn clear(&mut self) {
        self.0 = None;
    }

    /// The list, with room for another item.
    fn list(&mut self) -> &mut Vec<T> {
        let list = &mut **self.0.get_or_insert_default();
        make_room(list);
        list
    }

    /// Gives the memory back when there are no items.
    fn tidy(&mut self) {
        if self.is_empty() {
            self.clear();
        }
    }
}

impl<T> Default for SeldomList<T> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<T> Deref for SeldomList<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_ref().map_or(&[], |list| list)
    }
}

impl<T> DerefMut for SeldomList<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.0.as_mut().map_or(&mut [], |list| list)
    }
}

impl<T: fmt::Debug> fmt::Debug for SeldomList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// The number of items up to which memory for them is taken one by one: most lists that are empty most
/// of the time never have more.
const FEW: usize = 4;

/// Makes room for another item: for that one alone, as long as there are few. (A [`Vec`] begins with room
/// for four.)
pub(crate) fn make_room<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() && list.len() < FEW {
        list.reserve_exact(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_items_take_the_memory_of_as_many() {
        let mut list = Vec::new();
        for len in 1..=FEW {
            make_room(&mut list);
            list.push([0_u64; 8]);
            assert_eq!(list.capacity(), len);
        }
        list.push([0; 8]);
        assert!(list.capacity() > FEW + 1, "more items have spare room");
    }

    #[test]
    fn an_empty_list_has_no_memory() {
        let mut list = SeldomList::EMPTY;
        assert!(list.is_empty() && list.remove(0).is_none() && list.0.is_none());
        list.push(2);
        list.insert(0, 1);
        list.push(3);
        assert_eq!(*list, [1, 2, 3]);
        assert_eq!((list.remove(1), list.remove(2)), (Some(2), None));
        list.retain(|item| *item > 1);
        assert_eq!(*list, [3]);
        assert_eq!(list.remove(0), Some(3));
        assert!(list.0.is_none());
        list.push(4);
        list.retain(|_| false);
        assert!(list.0.is_none());
    }
}
