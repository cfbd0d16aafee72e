//! What defines a scheme.
//!
//! A scheme is a type that holds its parameters and implements [`Definition`], in a file of its
//! own, and a line in the list of [`scheme`](crate::scheme). Sealing, opening, blame, levels,
//! delivery, names and negotiation follow from the definition. [`sliding`](crate::sliding) is an
//! example.

use crate::table::DependencySets;
use core::fmt;
use zeroize::Zeroize;

/// Length in bytes of a full tag.
pub const TAG_BYTES: usize = 16;

/// A scheme's parameters and the properties that follow from them.
pub(crate) trait Definition: Copy {
    /// The scheme's identifier in messages and key derivation. In messages, the parameters of
    /// schemes from 0x80 on are preceded by their length, so that a peer that does not know the
    /// scheme can skip them. New schemes use identifiers from 0x80 on.
    const IDENTIFIER: u8;
    /// The form of the scheme's name, such as `agg:n`: a word, a colon, and a letter that stands
    /// for a number. `+check` may follow.
    const NAME_FORM: &'static str;
    /// The error for a number in the name that the scheme does not accept.
    const NUMBER_ERROR: SchemeError;
    /// How many of the [`parameters`](Self::parameters) are sent in messages.
    const PARAMETERS: usize;
    /// How its records share tags.
    const SHARING: Sharing;
    /// Whether its dependency sets depend on the seed of [`RulerOrder::Keyed`].
    const HAS_DRAWN_SETS: bool = false;
    /// Whether each record also carries a check byte.
    const HAS_CHECK_BYTE: bool = false;

    /// Its parameters, padded with zeros. The epoch's keys are bound to all of them.
    fn parameters(self) -> [u8; 2];

    /// The scheme with these parameters; `None` for others than [`PARAMETERS`](Self::PARAMETERS) in
    /// number.
    fn from_parameters(parameters: &[u8]) -> Option<Self>;

    /// The number after the colon of its name.
    fn name_number(self) -> u8;

    /// The scheme with this number after the colon of its name.
    fn from_number(number: u8) -> Option<Self>;

    /// Length in bytes of the aggregate that the record `number` carries.
    fn aggregate_len(self, number: u64) -> usize;

    /// The largest value of [`Self::aggregate_len`] for any record.
    fn largest_aggregate_len(self) -> usize;

    /// The number of records that share one tag, under [`Sharing::Sets`].
    fn set_size(self) -> Option<SetSize> {
        None
    }

    /// The dependency sets of a tag's bits, under [`Sharing::Bits`].
    fn dependency_sets(self, _: &RulerOrder) -> Option<DependencySets> {
        None
    }
}

/// The two ways in which records share tags.
#[derive(Clone, Copy)]
pub(crate) enum Sharing {
    /// The last record of each set carries a full tag for the whole set:
    /// [`Definition::set_size`].
    Sets,
    /// Each record carries a short tag. Each bit of a tag covers a dependency set of its own:
    /// [`Definition::dependency_sets`]. For levels to be sound, each output bit of a record must
    /// enter at most one tag.
    Bits,
}

/// n, the number of records that share one tag: 2 to 16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetSize(u8);

impl SetSize {
    /// The largest n.
    pub const MAX: Self = Self(16);

    /// The size `n`, or `None` unless it is from 2 to 16.
    pub const fn new(n: u8) -> Option<Self> {
        if n >= 2 && n <= Self::MAX.0 { Some(Self(n)) } else { None }
    }

    /// The number itself.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The place of a record in its set, from 0 on.
    #[inline]
    pub(crate) const fn place(self, number: u64) -> u8 {
        if size_of::<usize>() == size_of::<u64>() {
            (number % self.0 as u64) as u8
        } else {
            self.place_by_words(number)
        }
    }

    /// As [`place`](Self::place), for processors of 32 bits: they divide words, and need a long function
    /// to divide longer numbers.
    const fn place_by_words(self, number: u64) -> u8 {
        let (mut place, mut shift) = (0, u64::BITS);
        while shift > 0 {
            shift -= u16::BITS;
            place = (place << u16::BITS | (number >> shift) as u32 & 0xffff) % self.0 as u32;
        }
        place as u8
    }

    /// Whether the record of this number is the last one of its set.
    #[inline]
    pub(crate) const fn ends(self, number: u64) -> bool {
        self.place(number) == self.0 - 1
    }
}

/// How the dependency set of each bit of an R2D2 tag is chosen. A dependency set is the eight
/// records that the bit covers, given by their distances from the record with the tag.
#[derive(Clone)]
pub enum RulerOrder {
    /// Bit j has set j of the published list of dependency sets. Attackers know this order, so it is
    /// for tests and for comparison.
    List,
    /// The sets are drawn from the list by a secret that only the two ends know (derived with the
    /// label `agg rulers`). An attacker then does not know which records to jam in order to destroy
    /// most tag bits. Integrity never depends on this secret.
    Keyed([u8; 32]),
}

impl fmt::Debug for RulerOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List => "List",
            Self::Keyed(_) => "Keyed",
        })
    }
}

impl Drop for RulerOrder {
    fn drop(&mut self) {
        if let Self::Keyed(seed) = self {
            seed.zeroize();
        }
    }
}

/// Why a text names no scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemeError {
    /// It is neither `off` nor of the form of any scheme.
    Name,
    /// n is not a number from 2 to 16.
    SetSize,
    /// o is none of 50, 100, 150 and 200.
    Overprovision,
    /// A scheme does not accept the number; the text says why.
    Parameter(&'static str),
}

impl core::error::Error for SchemeError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_the_same_on_all_processors() {
        let numbers =
            (0..64).flat_map(|bit| (0..40_u64).map(move |few| (1 << bit) + few * 0x1_0001));
        for number in numbers.chain([0, 1, u64::MAX, (1 << 48) - 1]) {
            for n in 2..=16 {
                let size = SetSize::new(n).unwrap();
                assert_eq!(u64::from(size.place(number)), number % u64::from(n));
                assert_eq!(size.place_by_words(number), size.place(number), "{number} of {n}");
            }
        }
    }
}
