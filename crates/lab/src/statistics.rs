//! Means of many runs, and their confidence intervals.

use lightseal_core::math;
use std::collections::BTreeMap;

/// A mean with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Half the width of the interval.
    pub half_width: f64,
}

impl Interval {
    /// The interval of many independent values. It uses the quantile of the normal distribution.
    pub fn of(values: &[f64]) -> Self {
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        Self { mean, half_width: 1.96 * deviation(values) / count.sqrt() }
    }

    /// By how much `self` exceeds `base`, as a share of `base`. The two must be independent. The
    /// error of the quotient is computed to first order.
    #[must_use]
    pub fn gain_over(self, base: Self) -> Self {
        let ratio = self.mean / base.mean;
        let relative = math::hypot(self.half_width / self.mean, base.half_width / base.mean);
        Self { mean: ratio - 1.0, half_width: ratio * relative }
    }
}

/// The standard deviation of a sample whose mean is estimated from the same values.
pub fn deviation(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| math::powi(value - mean, 2)).sum();
    (squares / (count - 1.0).max(1.0)).sqrt()
}

/// The value below which the share `q` of the values lies. There must be at least one value.
pub fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let place = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Non-negative values of one quantity, in memory that does not exceed a few MiB whatever their
/// number.
///
/// Up to [`Sample::EXACT`] values are kept, and every statistic is exact. With more values, means
/// are still sums of all values in their order. The deviation is computed incrementally (Welford)
/// and differs in its last digits. A quantile is the middle of a narrow class of values; its
/// relative error is at most [`Sample::QUANTILE_ERROR`].
#[derive(Clone, Debug, Default)]
pub struct Sample {
    count: usize,
    sum: f64,
    kept: Vec<f64>,
    /// The number of values in each class, once there are too many values to keep.
    classes: Option<Classes>,
}

/// The spread of values: an incremental deviation and a histogram.
#[derive(Clone, Debug, Default)]
struct Classes {
    count: f64,
    mean: f64,
    squares: f64,
    /// The number of values for each sign, exponent and first [`CLASS_BITS`] bits of the fraction.
    sizes: BTreeMap<u64, u64>,
}

/// Number of bits of a value's fraction that determine its class.
const CLASS_BITS: u32 = 10;

/// Number of low bits of a value that its class ignores.
const CLASS_SHIFT: u32 = f64::MANTISSA_DIGITS - 1 - CLASS_BITS;

impl Classes {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let before = value - self.mean;
        self.mean += before / self.count;
        self.squares += before * (value - self.mean);
        *self.sizes.entry(value.to_bits() >> CLASS_SHIFT).or_default() += 1;
    }
}

impl Sample {
    /// The largest number of values that are all kept: 1 MiB of them.
    pub const EXACT: usize = 1 << 17;

    /// The largest relative error of a quantile: half the width of a class.
    pub const QUANTILE_ERROR: f64 = 1.0 / (1 << (CLASS_BITS + 1)) as f64;

    /// Adds a value.
    pub fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        if let Some(classes) = &mut self.classes {
            return classes.add(value);
        }
        if self.kept.len() < Self::EXACT {
            return self.kept.push(value);
        }
        let mut classes = Classes::default();
        core::mem::take(&mut self.kept).into_iter().for_each(|value| classes.add(value));
        classes.add(value);
        self.classes = Some(classes);
    }

    /// Number of values added so far.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// The mean of the values with its confidence interval.
    pub fn interval(&self) -> Interval {
        let Some(classes) = &self.classes else { return Interval::of(&self.kept) };
        let count = self.count as f64;
        let deviation = (classes.squares / (count - 1.0)).sqrt();
        Interval { mean: self.sum / count, half_width: 1.96 * deviation / count.sqrt() }
    }

    /// The value below which the share `q` of the values lies. There must be at least one value.
    pub fn quantile(&self, q: f64) -> f64 {
        let Some(classes) = &self.classes else { return quantile(&self.kept, q) };
        let place = ((q * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let found = classes.sizes.iter().find(|(_, size)| {
            seen += **size;
            seen >= place
        });
        let middle = |class: u64| f64::from_bits(class << CLASS_SHIFT | 1 << (CLASS_SHIFT - 1));
        found.map_or(f64::NAN, |(class, _)| middle(*class))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_know_their_error() {
        let values: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        let interval = Interval::of(&values);
        assert!((interval.mean - 0.5).abs() < 1e-12 && (interval.half_width - 0.0985).abs() < 1e-3);
        let twice = Interval { mean: 1.0, half_width: 0.01 };
        let gain = twice.gain_over(Interval { mean: 0.5, half_width: 0.0 });
        assert!((gain.mean - 1.0).abs() < 1e-12 && (gain.half_width - 0.02).abs() < 1e-12);
    }

    #[test]
    fn a_deviation_is_that_of_a_sample() {
        assert!((deviation(&[2.0, 4.0, 4.0, 6.0]) - (8.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(deviation(&[3.0]), 0.0);
    }

    #[test]
    fn quantiles_are_values() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!([0.0, 0.5, 0.95, 1.0].map(|q| quantile(&values, q)), [1.0, 3.0, 5.0, 5.0]);
        assert!(quantile(&[], 0.5).is_nan());
    }

    /// Values that are distributed like durations: most are close together, and some form a long
    /// tail.
    fn values(count: usize) -> impl Iterator<Item = f64> {
        (0..count).map(|i| 0.9 + (i * 7919 % 1000) as f64 / 1e4 + 40.0 / (1 + i * 31 % 997) as f64)
    }

    #[test]
    fn a_sample_that_is_kept_says_what_its_values_say() {
        let mut sample = Sample::default();
        values(5000).for_each(|value| sample.add(value));
        let all: Vec<f64> = values(5000).collect();
        assert_eq!(sample.interval(), Interval::of(&all));
        assert_eq!([0.5, 0.95].map(|q| sample.quantile(q)), [0.5, 0.95].map(|q| quantile(&all, q)));
        assert_eq!(sample.count(), 5000);
        assert!(Sample::default().quantile(0.5).is_nan());
    }

    #[test]
    fn a_large_sample_keeps_nothing_and_stays_near_its_values() {
        let count = Sample::EXACT + 1000;
        let mut sample = Sample::default();
        values(count).for_each(|value| sample.add(value));
        assert!(sample.kept.is_empty() && sample.kept.capacity() == 0);
        let classes = sample.classes.as_ref().expect("the sample has more values than are kept");
        assert!(classes.sizes.len() < 8000, "{}", classes.sizes.len());
        let all: Vec<f64> = values(count).collect();
        let (found, exact) = (sample.interval(), Interval::of(&all));
        assert_eq!(found.mean, exact.mean);
        assert!((found.half_width / exact.half_width - 1.0).abs() < 1e-9);
        for q in [0.0, 0.01, 0.5, 0.95, 0.999, 1.0] {
            let (found, exact) = (sample.quantile(q), quantile(&all, q));
            assert!((found / exact - 1.0).abs() <= Sample::QUANTILE_ERROR, "{q}: {found} {exact}");
        }
    }
}
