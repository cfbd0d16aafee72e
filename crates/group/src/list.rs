//! Lists that lie on the heap, or in the value that has them.

/// A list, in the order in which items were added.
pub trait List<T> {
    /// The maximum number of items.
    const CAPACITY: usize;

    /// A list without items.
    const EMPTY: Self;

    /// The items.
    fn iter<'l>(&'l self) -> impl Iterator<Item = &'l T>
    where
        T: 'l;

    /// The items, to be changed.
    fn iter_mut<'l>(&'l mut self) -> impl Iterator<Item = &'l mut T>
    where
        T: 'l;

    /// Adds an item. Returns it if the list is full.
    fn push(&mut self, item: T) -> Option<T>;

    /// Removes the first `count` items, at most all.
    fn remove_first(&mut self, count: usize);
}

#[cfg(feature = "alloc")]
impl<T> List<T> for alloc::vec::Vec<T> {
    const CAPACITY: usize = usize::MAX;
    const EMPTY: Self = Self::new();

    fn iter<'l>(&'l self) -> impl Iterator<Item = &'l T>
    where
        T: 'l,
    {
        self.as_slice().iter()
    }

    fn iter_mut<'l>(&'l mut self) -> impl Iterator<Item = &'l mut T>
    where
        T: 'l,
    {
        self.as_mut_slice().iter_mut()
    }

    fn push(&mut self, item: T) -> Option<T> {
        self.push(item);
        None
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
}

impl<T, const N: usize> List<T> for InlineList<T, N> {
    const CAPACITY: usize = N;
    const EMPTY: Self = Self { places: [const { None }; N], first: 0 };

    fn iter<'l>(&'l self) -> impl Iterator<Item = &'l T>
    where
        T: 'l,
    {
        let (last, first) = self.places.split_at(self.first.min(N));
        first.iter().chain(last).flatten()
    }

    fn iter_mut<'l>(&'l mut self) -> impl Iterator<Item = &'l mut T>
    where
        T: 'l,
    {
        let (last, first) = self.places.split_at_mut(self.first.min(N));
        first.iter_mut().chain(last).flatten()
    }

    fn push(&mut self, item: T) -> Option<T> {
        let (last, first) = self.places.split_at_mut(self.first.min(N));
        match first.iter_mut().chain(last).find(|place| place.is_none()) {
            Some(place) => {
                *place = Some(item);
                None
            }
            None => Some(item),
        }
    }

    fn remove_first(&mut self, count: usize) {
        for _ in 0..count {
            let Some(place) = self.places.get_mut(self.first) else { return };
            if place.is_none() {
                return;
            }
            // Dropped where it is: an item that is moved first would leave its bytes.
            *place = None;
            self.first = if self.first + 1 < N { self.first + 1 } else { 0 };
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
            let (mut list, mut model) = (InlineList::<usize, 5>::EMPTY, Vec::new());
            for (is_push, number) in steps {
                if is_push {
                    let left = list.push(number);
                    prop_assert_eq!(left.is_some(), model.len() == 5);
                    if left.is_none() {
                        List::push(&mut model, number);
                    }
                } else {
                    list.remove_first(number);
                    List::remove_first(&mut model, number);
                }
                prop_assert!(list.iter().eq(model.iter()) && list.iter_mut().eq(model.iter_mut()));
            }
        }
    }
}
