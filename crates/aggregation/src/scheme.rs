//! Aggregation schemes, their parameters and names.

use core::fmt;
use core::str::FromStr;

/// Bytes of a full tag.
pub const TAG_BYTES: usize = 16;

/// How the records of one direction of an epoch share tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scheme {
    /// No aggregation: every record carries its own full tag.
    #[default]
    Plain,
    /// Agg(n): the last of n records carries one tag for all.
    Agg(SetSize),
}

/// n, the number of records that share one tag: 2 to 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetSize(u8);

impl SetSize {
    /// The largest n.
    pub const MAX: Self = Self(16);

    /// `n` from 2 to 16, else `None`.
    pub const fn new(n: u8) -> Option<Self> {
        if n >= 2 && n <= Self::MAX.0 { Some(Self(n)) } else { None }
    }

    /// The number itself.
    pub const fn get(self) -> u8 {
        self.0
    }
}

impl Scheme {
    /// Agg(n), or `None` when `n` is not 2 to 16.
    pub const fn agg(n: u8) -> Option<Self> {
        match SetSize::new(n) {
            Some(n) => Some(Self::Agg(n)),
            None => None,
        }
    }

    /// Scheme identifier, n and overprovisioning o: what the epoch's keys bind.
    /// `00 00 00` for plain tags, `01 n 00` for Agg(n).
    pub const fn context(self) -> [u8; 3] {
        match self {
            Self::Plain => [0; 3],
            Self::Agg(n) => [1, n.get(), 0],
        }
    }

    /// Bytes of aggregate that the record with this number carries besides any tag of
    /// its own: under Agg(n) 16 when `number` ≡ n − 1 (mod n), else 0; 0 without aggregation.
    pub const fn aggregate_len(self, number: u64) -> usize {
        match self {
            Self::Plain => 0,
            Self::Agg(n) => {
                let n = n.get() as u64;
                if number % n == n - 1 { TAG_BYTES } else { 0 }
            }
        }
    }

    /// Whether records share tags.
    pub const fn aggregates(self) -> bool {
        !matches!(self, Self::Plain)
    }
}

/// `off`, `agg:8`.
impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("off"),
            Self::Agg(n) => write!(f, "agg:{}", n.get()),
        }
    }
}

impl FromStr for Scheme {
    type Err = SchemeError;

    fn from_str(text: &str) -> Result<Self, SchemeError> {
        if text == "off" {
            return Ok(Self::Plain);
        }
        let n = text.strip_prefix("agg:").ok_or(SchemeError::Name)?;
        if n.starts_with(['+', '0']) {
            return Err(SchemeError::SetSize);
        }
        n.parse().ok().and_then(Self::agg).ok_or(SchemeError::SetSize)
    }
}

/// A text that names no scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemeError {
    /// Neither `off` nor `agg:n`.
    Name,
    /// n is not a number from 2 to 16.
    SetSize,
}

impl fmt::Display for SchemeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "an aggregation scheme is `off` or `agg:n`",
            Self::SetSize => "Agg(n) takes n from 2 to 16",
        })
    }
}

impl core::error::Error for SchemeError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn edges_come_in_pairs() {
        assert!(Scheme::agg(1).is_none() && Scheme::agg(2).is_some());
        assert!(Scheme::agg(16).is_some() && Scheme::agg(17).is_none());
        assert_eq!("agg:17".parse::<Scheme>(), Err(SchemeError::SetSize));
        assert_eq!("agg:016".parse::<Scheme>(), Err(SchemeError::SetSize));
        assert_eq!("agg:+8".parse::<Scheme>(), Err(SchemeError::SetSize));
        assert_eq!("r2d2".parse::<Scheme>(), Err(SchemeError::Name));
    }

    #[test]
    fn names_and_contexts_round_trip() {
        for scheme in (2..=16).filter_map(Scheme::agg).chain([Scheme::Plain]) {
            assert_eq!(scheme.to_string().parse(), Ok(scheme));
        }
        assert_eq!(Scheme::agg(16).map(Scheme::context), Some([1, 16, 0]));
        assert_eq!(Scheme::Plain.context(), [0, 0, 0]);
    }

    #[test]
    fn the_last_of_a_set_carries_the_tag() {
        let scheme = Scheme::agg(3).expect("3 is allowed");
        let lengths: [usize; 7] = core::array::from_fn(|i| scheme.aggregate_len(i as u64));
        assert_eq!(lengths, [0, 0, 16, 0, 0, 16, 0]);
        assert_eq!(Scheme::Plain.aggregate_len(2), 0);
    }
}
