//! Which places of a pool have a property: memory that the feature `fast` takes to find them without a
//! look at every place. Without it these types take no memory, and each place is asked.

#[cfg(not(feature = "fast"))]
pub(crate) use asked::{PlaceQueue, PlaceSet};
#[cfg(feature = "fast")]
pub(crate) use kept::{PlaceQueue, PlaceSet};

#[cfg(feature = "fast")]
mod kept {
    /// Number of 64-bit words in which each place of a pool has one bit.
    const WORDS: usize = 4;

    /// A set of places of a pool.
    #[derive(Clone)]
    pub(crate) struct PlaceSet([u64; WORDS]);

    impl PlaceSet {
        pub(crate) const EMPTY: Self = Self([0; WORDS]);

        pub(crate) const fn insert(&mut self, place: usize) {
            self.0[place / 64] |= 1 << (place % 64);
        }

        pub(crate) const fn remove(&mut self, place: usize) {
            self.0[place / 64] &= !(1 << (place % 64));
        }

        /// The first of `places` places that is not in the set. `_contains` says whether one is.
        pub(crate) fn first_absent(
            &self,
            places: usize,
            _contains: impl Fn(usize) -> bool,
        ) -> Option<usize> {
            let word = self.0.iter().position(|word| *word != u64::MAX)?;
            let place = word * 64 + self.0[word].trailing_ones() as usize;
            (place < places).then_some(place)
        }
    }

    /// Places of a pool of N places in the order in which they were added.
    #[derive(Clone)]
    pub(crate) struct PlaceQueue<const N: usize> {
        places: [u8; N],
        len: u8,
    }

    impl<const N: usize> PlaceQueue<N> {
        pub(crate) const EMPTY: Self = Self { places: [0; N], len: 0 };

        /// Adds a place, or moves it to the end.
        pub(crate) fn push(&mut self, place: usize) {
            self.remove(place);
            self.places[usize::from(self.len)] = place as u8;
            self.len += 1;
        }

        pub(crate) fn remove(&mut self, place: usize) {
            if let Some(at) = self.list().iter().position(|&queued| usize::from(queued) == place) {
                self.places[at..usize::from(self.len)].rotate_left(1);
                self.len -= 1;
            }
        }

        /// All places in the queue. `_contains` says whether a place is in the queue.
        pub(crate) fn iter(
            &self,
            _contains: impl Fn(usize) -> bool,
        ) -> impl Iterator<Item = usize> {
            self.list().iter().map(|&place| place.into())
        }

        fn list(&self) -> &[u8] {
            &self.places[..usize::from(self.len)]
        }
    }
}

#[cfg(not(feature = "fast"))]
mod asked {
    /// A set of places of a pool.
    #[derive(Clone)]
    pub(crate) struct PlaceSet;

    impl PlaceSet {
        pub(crate) const EMPTY: Self = Self;

        pub(crate) const fn insert(&mut self, _: usize) {}

        pub(crate) const fn remove(&mut self, _: usize) {}

        /// The first of `places` places that is not in the set. `contains` says whether one is.
        pub(crate) fn first_absent(
            &self,
            places: usize,
            contains: impl Fn(usize) -> bool,
        ) -> Option<usize> {
            (0..places).find(|&place| !contains(place))
        }
    }

    /// Places of a pool of N places.
    #[derive(Clone)]
    pub(crate) struct PlaceQueue<const N: usize>;

    impl<const N: usize> PlaceQueue<N> {
        pub(crate) const EMPTY: Self = Self;

        pub(crate) const fn push(&mut self, _: usize) {}

        pub(crate) const fn remove(&mut self, _: usize) {}

        /// All places in the queue. `contains` says whether a place is in the queue.
        pub(crate) fn iter(&self, contains: impl Fn(usize) -> bool) -> impl Iterator<Item = usize> {
            (0..N).filter(move |&place| contains(place))
        }
    }
}
