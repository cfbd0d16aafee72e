//! What the figures of the paper on MAC aggregation share.

use crate::figure::{Axis, Cell, Column, Scale};
use ::lightseal_aggregation::Scheme;

/// The paper, for the sources of its figures.
pub(super) const PAPER: &str =
    "Wagner, Heye, Bauer, Wehrle, Serror: MAC Aggregation over Lossy Channels in DTLS 1.3";

pub(super) fn columns(named: &[(&'static str, &'static str)]) -> Vec<Column> {
    named.iter().map(|&(name, about)| Column { name, about }).collect()
}

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

pub(super) const fn linear(column: &'static str, label: &'static str, to: f64) -> Axis {
    Axis { column, label, scale: Scale::Linear, from: 0.0, to }
}
