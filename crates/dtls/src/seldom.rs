//! What is empty, or in its first state, most of the time.

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

/// What is in its first state most of the time. On hosts it has its place at all times. On small devices it
/// takes the memory of a pointer while it is in its first state.
#[cfg(feature = "aggregation")]
pub(crate) type Seldom<T> = Kept<T>;
/// What [`Seldom`] is on small devices.
#[cfg(not(feature = "aggregation"))]
pub(crate) type Seldom<T> = Boxed<T>;

/// What has its place at all times.
#[cfg(any(test, feature = "aggregation"))]
#[derive(Debug)]
pub(crate) struct Kept<T>(T);

#[cfg(any(test, feature = "aggregation"))]
impl<T> Kept<T> {
    /// What `first` returns is the first state.
    pub(crate) fn new(first: impl FnOnce() -> T) -> Self {
        Self(first())
    }

    #[inline]
    pub(crate) const fn get(&self) -> Option<&T> {
        Some(&self.0)
    }

    #[inline]
    pub(crate) const fn get_mut(&mut self) -> Option<&mut T> {
        Some(&mut self.0)
    }

    /// The state. `first` returns the first one.
    #[inline]
    pub(crate) fn get_or_make(&mut self, _first: impl FnOnce() -> T) -> &mut T {
        &mut self.0
    }

    /// Gives memory back if this is the first state.
    #[inline]
    pub(crate) fn tidy(&mut self, _is_first: impl FnOnce(&T) -> bool) {}
}

/// What takes the memory of a pointer while it is in its first state, for which `None` stands.
#[cfg(any(test, not(feature = "aggregation")))]
#[derive(Debug)]
pub(crate) struct Boxed<T>(Option<Box<T>>);

#[cfg(any(test, not(feature = "aggregation")))]
impl<T> Boxed<T> {
    /// What `first` returns is the first state.
    pub(crate) fn new(_first: impl FnOnce() -> T) -> Self {
        Self(None)
    }

    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }

    pub(crate) fn get_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    /// The state. `first` returns the first one.
    pub(crate) fn get_or_make(&mut self, first: impl FnOnce() -> T) -> &mut T {
        self.0.get_or_insert_with(|| Box::new(first()))
    }

    /// Gives memory back if this is the first state.
    pub(crate) fn tidy(&mut self, is_first: impl FnOnce(&T) -> bool) {
        if self.0.as_deref().is_some_and(is_first) {
            self.0 = None;
        }
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
    fn the_first_state_takes_a_pointer_at_most() {
        let mut boxed = Boxed::new(|| [0_u64; 8]);
        assert_eq!(size_of_val(&boxed), size_of::<usize>());
        assert!(boxed.get().is_none() && boxed.get_mut().is_none());
        boxed.get_or_make(|| [0; 8])[3] = 1;
        boxed.tidy(|state| *state == [0; 8]);
        assert_eq!(boxed.get().map(|state| state[3]), Some(1));
        boxed.get_or_make(|| [0; 8])[3] = 0;
        boxed.tidy(|state| *state == [0; 8]);
        assert!(boxed.get().is_none());

        let mut kept = Kept::new(|| [0_u64; 8]);
        kept.get_or_make(|| [7; 8])[3] = 1;
        kept.tidy(|_| true);
        assert_eq!(kept.get_mut().map(|state| state[..4].to_vec()), Some([0, 0, 0, 1].to_vec()));
        assert_eq!(kept.get(), Some(&[0, 0, 0, 1, 0, 0, 0, 0]));
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
