//! Probabilities without floating point.

use core::fmt;
use core::str::FromStr;
use lightseal_core::Random;

/// A probability in parts per billion, from 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probability(u32);

const BILLION: u32 = 1_000_000_000;

impl Probability {
    /// Probability 0.
    pub const NEVER: Self = Self(0);
    /// Probability 1.
    pub const ALWAYS: Self = Self(BILLION);

    /// `parts` in a million; more than a million is probability 1.
    pub const fn per_million(parts: u32) -> Self {
        Self::per_billion(parts.saturating_mul(1000))
    }

    /// `parts` in a billion; more than a billion is probability 1.
    pub const fn per_billion(parts: u32) -> Self {
        Self(if parts > BILLION { BILLION } else { parts })
    }

    /// `percent` in a hundred; more than a hundred is probability 1.
    pub const fn percent(percent: u32) -> Self {
        Self::per_billion(percent.saturating_mul(BILLION / 100))
    }

    /// `numerator / denominator`, rounded down and at most 1. It is 0 if `denominator` is 0.
    pub fn ratio(numerator: u64, denominator: u64) -> Self {
        let parts = u128::from(numerator) * u128::from(BILLION);
        let parts = parts.checked_div(u128::from(denominator)).unwrap_or(0);
        Self::per_billion(u32::try_from(parts).unwrap_or(BILLION))
    }

    /// The probability in parts per billion.
    pub const fn as_per_billion(self) -> u32 {
        self.0
    }

    /// The probability of the opposite.
    pub const fn complement(self) -> Self {
        Self(BILLION - self.0)
    }

    /// The probability as a number from 0 to 1, for display.
    pub fn as_f64(self) -> f64 {
        f64::from(self.0) / f64::from(BILLION)
    }

    /// Draws whether the event happens this time. Each call takes one number from `rng`, whatever
    /// the probability.
    pub fn strikes(self, rng: &mut Random) -> bool {
        rng.below(BILLION.into()) < self.0.into()
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.as_f64() * 100.0)
    }
}

/// The error for a text that is no probability.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAProbability;

impl fmt::Display for NotAProbability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected a probability, such as 0.25% or 0.0025")
    }
}

impl core::error::Error for NotAProbability {}

impl FromStr for Probability {
    type Err = NotAProbability;

    /// A percentage (`0.25%`, `0.25 %`) or a number from 0 to 1 (`0.0025`).
    fn from_str(text: &str) -> Result<Self, NotAProbability> {
        let text = text.trim();
        let (number, scale) = match text.strip_suffix('%') {
            Some(number) => (number.trim_end(), 100.0),
            None => (text, 1.0),
        };
        let value = number.parse::<f64>().map_err(|_| NotAProbability)? / scale;
        if !(0.0..=1.0).contains(&value) {
            return Err(NotAProbability);
        }
        Ok(Self((value * f64::from(BILLION)).round() as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_percentages_and_fractions_up_to_one_and_no_further() {
        assert_eq!("0.25%".parse(), Ok(Probability::per_million(2500)));
        assert_eq!(" 0.0025 ".parse(), Ok(Probability::per_million(2500)));
        assert_eq!("100 %".parse(), Ok(Probability::ALWAYS));
        assert_eq!("100.1%".parse::<Probability>(), Err(NotAProbability));
        assert_eq!("-0.1".parse::<Probability>(), Err(NotAProbability));
        assert_eq!("NaN".parse::<Probability>(), Err(NotAProbability));
        assert_eq!("often".parse::<Probability>(), Err(NotAProbability));
    }

    #[test]
    fn never_and_always_are_exact() {
        let mut rng = Random::insecure(3);
        assert!((0..1000).all(|_| !Probability::NEVER.strikes(&mut rng)));
        assert!((0..1000).all(|_| Probability::ALWAYS.strikes(&mut rng)));
        assert_eq!(Probability::ratio(1, 4), Probability::percent(25));
        assert_eq!(Probability::ratio(5, 4), Probability::ALWAYS);
        assert_eq!(Probability::ratio(1, 0), Probability::NEVER);
    }
}
