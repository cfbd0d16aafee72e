//! Means of many runs, and how far they can be trusted.

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
}
