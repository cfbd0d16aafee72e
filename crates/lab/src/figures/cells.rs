//! Cells that many figures have.

use crate::figure::Cell;
use ::lightseal_aggregation::Scheme;

/// A share from 0 to 1 in percent.
pub(super) fn percent(share: f64) -> Cell {
    Cell::Number(100.0 * share)
}

/// A scheme's name in our notation, such as `agg:8`.
pub(super) fn name(scheme: Scheme) -> Cell {
    Cell::Text(scheme.to_string())
}

pub(super) fn whole(number: usize) -> Cell {
    Cell::Integer(number as u64)
}
