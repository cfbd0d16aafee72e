//! Closing tags that wait for records they cover.

use crate::number::Number;
use crate::prf::{Block, ClosingTag};
use crate::tuning::CLOSINGS;

/// The places for closing tags.
#[derive(Clone)]
pub(crate) struct Closings([Place; CLOSINGS]);

/// A place for a closing tag. It is free if the tag covers no record.
#[derive(Clone, Copy, Default)]
struct Place {
    first: Number,
    count: u8,
    tag: Block,
}

impl Place {
    fn get(&self) -> Option<ClosingTag> {
        let Self { first, count, tag } = *self;
        (count > 0).then(|| ClosingTag { first: first.get(), count, tag })
    }
}

impl Closings {
    pub(crate) const EMPTY: Self =
        Self([Place { first: Number::new(0), count: 0, tag: [0; 16] }; CLOSINGS]);

    /// Keeps a closing tag over at least one record in a free place, or else in the place of the
    /// oldest one.
    pub(crate) fn keep(&mut self, closing: ClosingTag) {
        let ClosingTag { first, count, tag } = closing;
        if !self.iter().any(|kept| kept == closing)
            && let Some(place) =
                self.0.iter_mut().min_by_key(|place| place.get().map(|kept| kept.first))
        {
            *place = Place { first: Number::new(first), count, tag };
        }
    }

    /// The closing tag in the place with this index, if there is one.
    pub(crate) fn get(&self, index: usize) -> Option<ClosingTag> {
        self.0.get(index)?.get()
    }

    /// Frees the place with this index.
    pub(crate) fn remove(&mut self, index: usize) {
        if let Some(place) = self.0.get_mut(index) {
            *place = Place::default();
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = ClosingTag> {
        self.0.iter().filter_map(Place::get)
    }
}

/// Whether a closing tag covers the record `number`.
pub(crate) fn covers(closing: &ClosingTag, number: u64) -> bool {
    number >= closing.first && number - closing.first < u64::from(closing.count)
}
