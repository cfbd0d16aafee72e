//! Lists that lie on the heap, or in the value that has them.

/// A list, in the order in which items were added.
pub trait List<T> {
    /// The maximum number of items.
    const CAPACITY: usize;

    /// A list without items.
    fn new() -> Self;

    /// The number of items.
    fn len(&self) -> usize;

    /// The item at an index; `None` if there are not as many.
    fn get(&self, at: usize) -> Option<&T>;

    /// The item at an index, to be changed.
    fn get_mut(&mut self, at: usize) -> Option<&mut T>;

    /// Adds an item, which is made where it lies. Returns false, and makes nothing, if the list is
    /// full.
    fn push_with(&mut self, make: impl FnOnce() -> T) -> bool;

    /// Removes the first `count` items, at most all.
    fn remove_first(&mut self, count: usize);

    /// The items.
    fn iter<'l>(&'l self) -> impl Iterator<Item = &'l T>
    where
        T: 'l,
    {
        (0..self.len()).filter_map(|at| self.get(at))
    }
}

#[cfg(feature = "alloc")]
impl<T> List<T> for alloc::vec::Vec<T> {
    const CAPACITY: usize = usize::MAX;

    fn new() -> Self {
        Self::new()
    }

    fn len(&self) -> usize {
        self.len()
    }

    fn get(&self, at: usize) -> Option<&T> {
        self.as_slice().get(at)
    }

    fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        self.as_mut_slice().get_mut(at)
    }

    fn push_with(&mut self, make: impl FnOnce() -> T) -> bool {
        self.push(make());
        true
    }

    fn remove_first(&mut self, count: usize) {
        self.drain(..count.min(self.len()));
    }
}

/// A list of at most `N` items, without a heap. Items do not move, so that none leaves a copy of its
/// keys behind.
#[derive(Debug)]
pub struct InlineList<T, const N: usize> {
    /// The items, from `first` on; the places before it follow the last place.
    places: [Option<T>; N],
    first: usize,
    len: usize,
}

impl<T, const N: usize> InlineList<T, N> {
    /// The place of the item at an index, at most `N`.
    const fn place(&self, at: usize) -> usize {
        let place = self.first + at;
        if place < N { place } else { place - N }
    }
}

impl<T, const N: usize> List<T> for InlineList<T, N> {
    const CAPACITY: usize = N;

    fn new() -> Self {
        // Not a constant, which would lie in flash with all its places.
        Self { places: core::array::from_fn(|_| None), first: 0, len: 0 }
    }

    fn len(&self) -> usize {
        self.len
    }

    fn get(&self, at: usize) -> Option<&T> {
        let place = (at < self.len).then(|| self.place(at))?;
        self.places.get(place)?.as_ref()
    }

    fn get_mut(&mut self, at: usize) -> Option<&mut T> {
        let place = (at < self.len).then(|| self.place(at))?;
        self.places.get_mut(place)?.as_mut()
    }

    fn push_with(&mut self, make: impl FnOnce() -> T) -> bool {
        let place = self.place(self.len);
        match self.places.get_mut(place) {
            Some(place) if self.len < N => {
                *place = Some(make());
                self.len += 1;
                true
            }
            _ => false,
        }
    }

    fn remove_first(&mut self, count: usize) {
        for _ in 0..count.min(self.len) {
            // Dropped where it is: an item that is moved first would leave its bytes.
            self.places[self.first] = None;
            self.first = self.place(1);
            self.len -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        /// The inline list agrees with a vector that is not filled beyond the inline capacity.
        #[test]
        fn an_inline_list_agrees_with_a_vector(steps in prop::collection::vec((any::<bool>(), 0usize..7), 0..60)) {
            let (mut list, mut model) = (InlineList::<usize, 5>::new(), Vec::new());
            for (is_push, number) in steps {
                if is_push {
                    let is_added = list.push_with(|| number);
                    prop_assert_eq!(is_added, model.len() < 5);
                    if is_added {
                        model.push(number);
                    }
                } else {
                    list.remove_first(number);
                    List::remove_first(&mut model, number);
                }
                prop_assert!(list.iter().eq(model.iter()) && list.len() == model.len());
                prop_assert!((0..6).all(|at| list.get_mut(at) == model.get_mut(at)));
            }
        }
    }
}
