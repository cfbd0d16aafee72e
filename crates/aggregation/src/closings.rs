//! Closing tags that wait for records they cover.

use crate::prf::ClosingTag;
use crate::tuning::CLOSINGS;

/// The places for closing tags.
pub(crate) type Closings = [Option<ClosingTag>; CLOSINGS];

/// Keeps a closing tag in a free place, or else in the place of the oldest one.
pub(crate) fn keep(closings: &mut Closings, closing: ClosingTag) {
    if !closings.contains(&Some(closing))
        && let Some(place) = closings.iter_mut().min_by_key(|place| place.map(|kept| kept.first))
    {
        *place = Some(closing);
    }
}

/// Whether a closing tag covers the record `number`.
pub(crate) fn covers(closing: &ClosingTag, number: u64) -> bool {
    number >= closing.first && number - closing.first < u64::from(closing.count)
}
