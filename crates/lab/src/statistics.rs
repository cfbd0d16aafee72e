//! Means of many runs, and how far they can be trusted.

use std::collections::BTreeMap;

/// A mean and how far the truth may be from it, with 95 % confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The mean.
    pub mean: f64,
    /// Half the interval's width.
    pub half_width: f64,
}

impl Interval {
    /// Of values that do not depend on each other and are many: the normal quantile is used.
    pub fn of(values: &[f64]) -> Self {
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        Self { mean, half_width: 1.96 * deviation(values) / count.sqrt() }
    }

    /// By how much `self` exceeds `base`, as a share of it, where the two do not depend on each
    /// other (the error of a quotient to first order).
    #[must_use]
    pub fn gain_over(self, base: Self) -> Self {
        let ratio = self.mean / base.mean;
        let relative = (self.half_width / self.mean).hypot(base.half_width / base.mean);
        Self { mean: ratio - 1.0, half_width: ratio * relative }
    }
}

/// The standard deviation of values of which the mean is not known beforehand.
pub fn deviation(values: &[f64]) -> f64 {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (count - 1.0).max(1.0)).sqrt()
}

/// The value below which the share `q` of them lies, of at least one.
pub fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let place = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

/// Values of one quantity, none of them negative, in memory that does not grow beyond some MiB
/// whatever their number.
///
/// Up to [`Sample::EXACT`] values are kept, and every statistic is exact. Beyond, means are still
/// sums of all values in their order; the deviation is a running one (Welford), which differs in
/// its last digits; and a quantile is the middle of a narrow class of values, at most
/// [`Sample::QUANTILE_ERROR`] of itself away from the exact one.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    count: usize,
    sum: f64,
    kept: Vec<f64>,
    /// How many values fall into each class, once there are too many to keep them all.
    classes: Option<Classes>,
}

/// How values are spread: a running deviation and a histogram.
#[derive(Clone, Debug, Default)]
struct Classes {
    count: f64,
    mean: f64,
    squares: f64,
    /// Values by sign, exponent and the first [`CLASS_BITS`] bits of their fraction.
    sizes: BTreeMap<u64, u64>,
}

/// Bits of a value's fraction that name its class.
const CLASS_BITS: u32 = 10;

/// Bits of a value that its class leaves out.
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
    /// Values that are kept: 1 MiB of them.
    pub const EXACT: usize = 1 << 17;

    /// Half a class, as a share of the value.
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

    /// How many values there are.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Their mean, and how far the truth may be from it.
    pub fn interval(&self) -> Interval {
        let Some(classes) = &self.classes else { return Interval::of(&self.kept) };
        let count = self.count as f64;
        let deviation = (classes.squares / (count - 1.0)).sqrt();
        Interval { mean: self.sum / count, half_width: 1.96 * deviation / count.sqrt() }
    }

    /// The value below which the share `q` of them lies, of at least one.
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

    /// Values as durations are: a bulk and a long tail.
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
        let classes = sample.classes.as_ref().expect("it is large");
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
