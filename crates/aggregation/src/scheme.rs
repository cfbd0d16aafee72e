//! Aggregation schemes, their parameters and names.

use core::fmt;
use core::str::FromStr;
use zeroize::Zeroize;

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
    /// R2D2(8, o): each record carries a short tag, each bit of it over eight records.
    R2d2(Overprovision),
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

/// o, the percentage by which R2D2's tags exceed a full tag's share of each record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Overprovision(u8);

impl Overprovision {
    /// All of them, ascending: 50, 100, 150, 200.
    pub const ALL: [Self; 4] = [Self(50), Self(100), Self(150), Self(200)];

    /// `percent` of 50, 100, 150 and 200, else `None`.
    pub const fn new(percent: u8) -> Option<Self> {
        if matches!(percent, 50 | 100 | 150 | 200) { Some(Self(percent)) } else { None }
    }

    /// The percentage itself.
    pub const fn percent(self) -> u8 {
        self.0
    }

    /// Bytes of tag in each record: 3, 4, 5 or 6.
    pub const fn tag_bytes(self) -> usize {
        (TAG_BYTES * (100 + self.0 as usize)).div_ceil(100 * SHARED_BY as usize)
    }
}

/// Records that share each bit of an R2D2 tag: its n.
pub const SHARED_BY: u8 = 8;

/// Which dependency sets the bits of an R2D2 tag have.
#[derive(Clone)]
pub enum Order {
    /// The first ones of the list. Known to everybody: for tests and for comparison.
    List,
    /// Drawn by a secret of the two ends (key label `agg rulers`), so that nobody else knows which
    /// records to jam. Integrity never depends on it.
    Keyed([u8; 32]),
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List => "List",
            Self::Keyed(_) => "Keyed",
        })
    }
}

impl Drop for Order {
    fn drop(&mut self) {
        if let Self::Keyed(seed) = self {
            seed.zeroize();
        }
    }
}

impl Scheme {
    /// R2D2(8, o), or `None` when o is none of 50, 100, 150 and 200.
    pub const fn r2d2(percent: u8) -> Option<Self> {
        match Overprovision::new(percent) {
            Some(o) => Some(Self::R2d2(o)),
            None => None,
        }
    }

    /// Agg(n), or `None` when `n` is not 2 to 16.
    pub const fn agg(n: u8) -> Option<Self> {
        match SetSize::new(n) {
            Some(n) => Some(Self::Agg(n)),
            None => None,
        }
    }

    /// Scheme identifier, n and overprovisioning o: what the epoch's keys bind.
    /// `00 00 00` for plain tags, `01 n 00` for Agg(n), `02 08 o` for R2D2(8, o).
    pub const fn context(self) -> [u8; 3] {
        match self {
            Self::Plain => [0; 3],
            Self::Agg(n) => [1, n.get(), 0],
            Self::R2d2(o) => [2, SHARED_BY, o.percent()],
        }
    }

    /// Bytes of aggregate that the record with this number carries besides any tag of
    /// its own: under Agg(n) 16 when `number` ≡ n − 1 (mod n), else 0; under R2D2 3 to 6; 0 without
    /// aggregation.
    pub const fn aggregate_len(self, number: u64) -> usize {
        match self {
            Self::Plain => 0,
            Self::Agg(n) => {
                let n = n.get() as u64;
                if number % n == n - 1 { TAG_BYTES } else { 0 }
            }
            Self::R2d2(o) => o.tag_bytes(),
        }
    }

    /// The most that [`Self::aggregate_len`] gives for any record.
    pub const fn largest_aggregate_len(self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Agg(_) => TAG_BYTES,
            Self::R2d2(o) => o.tag_bytes(),
        }
    }

    /// Whether records share tags.
    pub const fn aggregates(self) -> bool {
        !matches!(self, Self::Plain)
    }
}

/// `off`, `agg:8`, `r2d2:100`.
impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("off"),
            Self::Agg(n) => write!(f, "agg:{}", n.get()),
            Self::R2d2(o) => write!(f, "r2d2:{}", o.percent()),
        }
    }
}

impl FromStr for Scheme {
    type Err = SchemeError;

    fn from_str(text: &str) -> Result<Self, SchemeError> {
        if text == "off" {
            return Ok(Self::Plain);
        }
        let number = |text: &str| {
            if text.starts_with(['+', '0']) { None } else { text.parse().ok() }
        };
        if let Some(n) = text.strip_prefix("agg:") {
            return number(n).and_then(Self::agg).ok_or(SchemeError::SetSize);
        }
        let o = text.strip_prefix("r2d2:").ok_or(SchemeError::Name)?;
        number(o).and_then(Self::r2d2).ok_or(SchemeError::Overprovision)
    }
}

/// A text that names no scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemeError {
    /// None of `off`, `agg:n` and `r2d2:o`.
    Name,
    /// n is not a number from 2 to 16.
    SetSize,
    /// o is none of 50, 100, 150 and 200.
    Overprovision,
}

impl fmt::Display for SchemeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "an aggregation scheme is `off`, `agg:n` or `r2d2:o`",
            Self::SetSize => "Agg(n) takes n from 2 to 16",
            Self::Overprovision => "R2D2 takes o of 50, 100, 150 or 200",
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
        assert!(Scheme::r2d2(0).is_none() && Scheme::r2d2(51).is_none());
        assert_eq!("r2d2:250".parse::<Scheme>(), Err(SchemeError::Overprovision));
    }

    #[test]
    fn names_and_contexts_round_trip() {
        let r2d2 = Overprovision::ALL.map(Scheme::R2d2);
        for scheme in (2..=16).filter_map(Scheme::agg).chain(r2d2).chain([Scheme::Plain]) {
            assert_eq!(scheme.to_string().parse(), Ok(scheme));
        }
        assert_eq!(Scheme::agg(16).map(Scheme::context), Some([1, 16, 0]));
        assert_eq!(Scheme::r2d2(200).map(Scheme::context), Some([2, 8, 200]));
        assert_eq!(Scheme::Plain.context(), [0, 0, 0]);
    }

    #[test]
    fn the_last_of_a_set_carries_the_tag() {
        let scheme = Scheme::agg(3).expect("3 is allowed");
        let lengths: [usize; 7] = core::array::from_fn(|i| scheme.aggregate_len(i as u64));
        assert_eq!(lengths, [0, 0, 16, 0, 0, 16, 0]);
        assert_eq!(Scheme::Plain.aggregate_len(2), 0);
        let lengths = Overprovision::ALL.map(|o| Scheme::R2d2(o).aggregate_len(5));
        assert_eq!(lengths, [3, 4, 5, 6]);
    }
}
