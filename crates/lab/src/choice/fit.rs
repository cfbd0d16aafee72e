//! From samples to boundaries. Nearest neighbours label every point of the plane, then least
//! squares fit the boundary curves.

use super::SimulationParameters;
use super::survey::Sample;
use crate::parallel::parallel;
use ::lightseal_aggregation::choice::boundary::Boundary;
use ::lightseal_aggregation::choice::{Family, MEMBERS};
use lightseal_core::math;

/// Number of nearest neighbours that decide on a point of the plane.
const NEIGHBOURS: usize = 25;
/// Number of loss rates that are examined for each payload length.
const ROWS: usize = 160;
/// How long the axis of loss rates is in relation to the axis of payload lengths when distances are
/// computed. The axis of loss rates is logarithmic.
const ASPECT: f64 = 2.0;

/// A boundary between two members, and how well the curve fits.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The points of the boundary: payload length in bytes, loss rate.
    pub points: Vec<(f64, f64)>,
    /// The curve fitted to the points.
    pub curve: Curve,
    /// The root mean square of the residuals, as a loss rate.
    pub residual: f64,
}

/// The curve y = a·e^(b/x) + c, with the payload length x in bytes and the loss rate y.
#[derive(Clone, Copy, Debug)]
pub struct Curve {
    /// A loss rate: the coefficient a.
    pub a: f64,
    /// A payload length in bytes: the coefficient b.
    pub b: f64,
    /// A loss rate: the coefficient c.
    pub c: f64,
}

impl Curve {
    /// The loss rate y at this payload length.
    pub fn at(&self, payload_bytes: f64) -> f64 {
        self.a * math::exp(self.b / payload_bytes) + self.c
    }

    /// The curve in the fixed-point numbers that the engine uses.
    pub fn in_integers(&self) -> Boundary {
        let parts = |value: f64, bits: i32| (value * math::powi(2.0, bits)).round() as i64;
        Boundary { a: parts(self.a, 32), b: parts(self.b, 16), c: parts(self.c, 32) }
    }
}

/// The boundaries of a family, between each member and the next.
pub fn fit(
    parameters: &SimulationParameters,
    samples: &[Sample],
    family: Family,
) -> [Fitted; MEMBERS - 1] {
    let plane = Plane::new(parameters, samples, family);
    let columns: Vec<u16> = parameters.payload_bytes.clone().collect();
    let ranks = parallel(columns.len(), |column| plane.column(columns[column]));
    std::array::from_fn(|boundary| {
        let points: Vec<_> = columns
            .iter()
            .zip(&ranks)
            .filter_map(|(x, ranks)| Some((f64::from(*x), plane.row(split(ranks, boundary)?))))
            .collect();
        let (curve, residual) = least_squares(&points);
        Fitted { points, curve, residual }
    })
}

/// The index where ranks above `boundary` begin, chosen so that the fewest ranks are on the wrong
/// side. `None` if this is at either end, because the boundary then lies outside of the plane.
fn split(ranks: &[usize], boundary: usize) -> Option<usize> {
    let mut out = ranks.iter().filter(|rank| **rank <= boundary).count();
    let (mut best, mut least) = (0, out);
    for (row, rank) in ranks.iter().enumerate() {
        if *rank > boundary {
            out += 1;
        } else {
            out -= 1;
        }
        if out < least {
            (best, least) = (row + 1, out);
        }
    }
    (best > 0 && best < ranks.len()).then_some(best)
}

/// Samples labelled with their best member, over payload length and the logarithm of the loss rate.
struct Plane {
    low: f64,
    high: f64,
    width: f64,
    samples: Vec<(f64, f64, usize)>,
}

impl Plane {
    fn new(parameters: &SimulationParameters, samples: &[Sample], family: Family) -> Self {
        let losses = &super::channel::ORDINARY.loss;
        let width = f64::from(*parameters.payload_bytes.end());
        let mut plane = Self {
            low: math::ln(*losses.start()),
            high: math::ln(*losses.end()),
            width,
            samples: Vec::new(),
        };
        let found = samples.iter().filter(|sample| sample.loss > 0.0);
        plane.samples = found
            .map(|sample| {
                let (x, y) = plane.place(f64::from(sample.payload_bytes), math::ln(sample.loss));
                (x, y, sample.best(family))
            })
            .collect();
        plane
    }

    fn place(&self, payload_bytes: f64, log_loss: f64) -> (f64, f64) {
        (payload_bytes / self.width, ASPECT * (log_loss - self.low) / (self.high - self.low))
    }

    /// The loss rate at which a row begins.
    fn row(&self, row: usize) -> f64 {
        math::exp(self.low + (self.high - self.low) * row as f64 / ROWS as f64)
    }

    /// For each row, the rank that most of its nearest neighbours have.
    fn column(&self, payload_bytes: u16) -> Vec<usize> {
        let rank = |row: usize| {
            let log_loss = self.low + (self.high - self.low) * (row as f64 + 0.5) / ROWS as f64;
            let (x, y) = self.place(f64::from(payload_bytes), log_loss);
            let mut near: Vec<_> = self
                .samples
                .iter()
                .map(|(sx, sy, rank)| (math::powi(sx - x, 2) + math::powi(sy - y, 2), *rank))
                .collect();
            let most = NEIGHBOURS.min(near.len());
            if most < near.len() {
                near.select_nth_unstable_by(most, |a, b| a.0.total_cmp(&b.0));
            }
            let mut votes = [0; MEMBERS];
            for (_, rank) in &near[..most] {
                votes[*rank] += 1;
            }
            (0..MEMBERS).max_by_key(|rank| votes[*rank]).unwrap_or(0)
        };
        (0..ROWS).map(rank).collect()
    }
}

/// The curve with the smallest sum of squares, and the root mean square of its residuals. For a
/// given b the problem is linear; b itself is found by search.
fn least_squares(points: &[(f64, f64)]) -> (Curve, f64) {
    let left = |b: f64| {
        let curve = linear(points, b);
        let squares = points.iter().map(|(x, y)| math::powi(curve.at(*x) - y, 2) * weight(*y));
        squares.sum::<f64>()
    };
    let (mut low, mut high) = (-LARGEST_B, LARGEST_B);
    for _ in 0..6 {
        let step = (high - low) / 200.0;
        let best = (0..=200)
            .map(|i| low + step * f64::from(i))
            .min_by(|p, q| left(*p).total_cmp(&left(*q)))
            .unwrap_or(0.0);
        (low, high) = (best - step, best + step);
    }
    let curve = linear(points, (low + high) / 2.0);
    let squares: f64 = points.iter().map(|(x, y)| math::powi(curve.at(*x) - y, 2)).sum();
    (curve, (squares / points.len().max(1) as f64).sqrt())
}

/// The largest b that is tried, in bytes. With a larger one, e^(b/x) is steeper than any boundary.
const LARGEST_B: f64 = 200.0;

/// The weight of a point. Loss rates span orders of magnitude, so residuals are taken relative to
/// the loss rate.
fn weight(y: f64) -> f64 {
    math::powi(y, -2)
}

/// The best a and c for a given b.
fn linear(points: &[(f64, f64)], b: f64) -> Curve {
    let (mut n, mut e, mut ee, mut y_, mut ey) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (x, y) in points {
        let (grown, w) = (math::exp(b / x), weight(*y));
        n += w;
        e += w * grown;
        ee += w * grown * grown;
        y_ += w * y;
        ey += w * grown * y;
    }
    let determinant = n * ee - e * e;
    if determinant.abs() < 1e-9 * n * ee || !determinant.is_finite() {
        return Curve { a: 0.0, b, c: if n > 0.0 { y_ / n } else { 0.0 } };
    }
    Curve { a: (n * ey - e * y_) / determinant, b, c: (y_ * ee - e * ey) / determinant }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_found_again() {
        for (a, b, c) in [(0.01, 20.0, 0.002), (-0.03, -9.0, 0.04)] {
            let curve = Curve { a, b, c };
            let points: Vec<_> =
                (2..=110).map(|x| (f64::from(x), curve.at(f64::from(x)))).collect();
            let (found, residual) = least_squares(&points);
            assert!(residual < 1e-6, "{found:?}");
            assert!((found.b - b).abs() < 0.01 && (found.a - a).abs() < 1e-4, "{found:?}");
        }
    }

    #[test]
    fn ranks_split_where_the_fewest_are_out_of_place() {
        assert_eq!(split(&[0, 0, 1, 0, 1, 1], 0), Some(2));
        assert_eq!(split(&[0, 0, 0], 0), None);
        assert_eq!(split(&[2, 2], 1), None);
    }
}
