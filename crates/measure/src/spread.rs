//! Median and quartiles of measurements.

/// The median and the quartiles.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The lower quartile: a quarter of the measurements is below.
    pub low: f64,
    /// The median.
    pub median: f64,
    /// The upper quartile: a quarter of the measurements is above.
    pub high: f64,
}

impl Spread {
    /// The median and the quartiles of some measurements.
    ///
    /// # Panics
    ///
    /// Panics if there is no measurement.
    pub fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let at = |quarter: usize| values[(values.len() - 1) * quarter / 4];
        Self { low: at(1), median: at(2), high: at(3) }
    }

    /// The measurements in another unit. One unit of `self` is `factor` of the new unit, which must
    /// be above 0.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        let Self { low, median, high } = self;
        Self { low: low * factor, median: median * factor, high: high * factor }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_those_of_the_sorted_values() {
        let spread = Spread::of(vec![5.0, 1.0, 4.0, 2.0, 3.0]);
        assert_eq!(spread, Spread { low: 2.0, median: 3.0, high: 4.0 });
        assert_eq!(Spread::of(vec![7.0]).low, 7.0);
        assert_eq!(spread.scaled(2.0), Spread { low: 4.0, median: 6.0, high: 8.0 });
    }
}
