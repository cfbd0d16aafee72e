//! Aggregation schemes, their parameters and names.

use crate::check::{CHECK_BYTES, Checked};
use crate::definition::{Definition, Sharing};
pub use crate::definition::{RulerOrder, SchemeError, SetSize, TAG_BYTES};
pub use crate::r2d2::scheme::{Overprovision, SHARED_BY};
pub use crate::sliding::SlidingWindow;
use crate::table::{DependencySets, SPAN};
use crate::tuning;
use core::fmt;
use core::str::FromStr;

/// Makes the enumeration of schemes from a list of their definitions.
macro_rules! schemes {
    ($($(#[$about:meta])* $name:ident($parameters:ty),)*) => {
        /// How the records of one direction of an epoch share tags.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Scheme {
            /// No aggregation: every record carries its own full tag.
            #[default]
            Plain,
            $($(#[$about])* $name($parameters),)*
        }

        /// The forms of all schemes' names, except `off`.
        const FORMS: &[&str] = &[$(<$parameters>::NAME_FORM),*];

        impl Scheme {
            /// The three bytes that stand for this scheme in the derivation of an epoch's keys: the
            /// scheme's identifier and its two parameters. They are `00 00 00` for plain tags,
            /// `01 n 00` for Agg(n), `02 08 o` for R2D2(8, o) and `80 08 o` for a sliding window;
            /// with check bytes `81 n 00` and `82 08 o`.
            pub fn context(self) -> [u8; 3] {
                match self {
                    Self::Plain => [0; 3],
                    $(Self::$name(scheme) => {
                        let [n, o] = scheme.parameters();
                        [<$parameters>::IDENTIFIER, n, o]
                    })*
                }
            }

            /// How many bytes of parameters follow this identifier in handshake messages: the first
            /// 0, 1 or 2 parameters of the [`context`](Self::context). `None` if no scheme has this
            /// identifier.
            pub const fn parameters_len(identifier: u8) -> Option<usize> {
                match identifier {
                    $(<$parameters>::IDENTIFIER => Some(<$parameters>::PARAMETERS),)*
                    _ => None,
                }
            }

            /// The scheme with this identifier and these parameters, as handshake messages carry
            /// them. `None` if there is no such scheme, or if `parameters` has another length than
            /// [`parameters_len`](Self::parameters_len).
            pub fn from_parameters(identifier: u8, parameters: &[u8]) -> Option<Self> {
                match identifier {
                    $(<$parameters>::IDENTIFIER => {
                        <$parameters>::from_parameters(parameters).map(Self::$name)
                    })*
                    _ => None,
                }
            }

            /// Length in bytes of the aggregate, that is the shared tag, in the record with this
            /// number: under Agg(n) 16 when `number` ≡ n − 1 (mod n), else 0; under R2D2 and the
            /// sliding window 3 to 6; 0 without aggregation. A full tag of the record's own, which
            /// records without application data have as well, is not counted.
            #[inline]
            pub fn aggregate_len(self, number: u64) -> usize {
                match self {
                    Self::Plain => 0,
                    $(Self::$name(scheme) => scheme.aggregate_len(number),)*
                }
            }

            /// The largest value of [`Self::aggregate_len`] for any record.
            pub fn largest_aggregate_len(self) -> usize {
                match self {
                    Self::Plain => 0,
                    $(Self::$name(scheme) => scheme.largest_aggregate_len(),)*
                }
            }

            /// Whether each record carries a check byte after its tags:
            /// [`check_byte`](crate::check_byte).
            #[inline]
            pub const fn is_checked(self) -> bool {
                HAS_CHECK_BYTES && self.names_check_byte()
            }

            /// Whether the scheme is one with a check byte, of which this build has none.
            pub(crate) const fn lacks_check_bytes(self) -> bool {
                !HAS_CHECK_BYTES && self.names_check_byte()
            }

            #[inline]
            const fn names_check_byte(self) -> bool {
                match self {
                    Self::Plain => false,
                    $(Self::$name(_) => <$parameters>::HAS_CHECK_BYTE,)*
                }
            }

            /// Whether a build has the scheme that has these ways of sharing tags.
            #[inline(always)]
            pub(crate) const fn is_available(self, sets: bool, bits: bool) -> bool {
                match self {
                    Self::Plain => true,
                    $(Self::$name(_) => {
                        let shares = match <$parameters>::SHARING {
                            Sharing::Sets => sets,
                            Sharing::Bits => bits,
                        };
                        shares && (HAS_CHECK_BYTES || !<$parameters>::HAS_CHECK_BYTE)
                    })*
                }
            }

            /// Whether a secret can decide which records each tag bit covers: [`RulerOrder::Keyed`].
            pub const fn is_drawn(self) -> bool {
                match self {
                    Self::Plain => false,
                    $(Self::$name(_) => <$parameters>::HAS_DRAWN_SETS,)*
                }
            }

            /// How records share tags; `None` for plain tags.
            pub(crate) const fn sharing(self) -> Option<Sharing> {
                match self {
                    Self::Plain => None,
                    $(Self::$name(_) => Some(<$parameters>::SHARING),)*
                }
            }

            /// The number of records that share one tag, if they form sets.
            pub(crate) fn set_size(self) -> Option<SetSize> {
                match self {
                    Self::Plain => None,
                    $(Self::$name(scheme) => scheme.set_size(),)*
                }
            }

            /// The dependency sets of a tag's bits, if each record carries a tag.
            pub(crate) fn dependency_sets(self, order: &RulerOrder) -> Option<DependencySets> {
                match self {
                    Self::Plain => None,
                    $(Self::$name(scheme) => scheme.dependency_sets(order),)*
                }
            }
        }

        /// Writes a scheme's name: `off`, `agg:8`, `r2d2:100`, `sliding:100`, `agg:8+check`.
        impl fmt::Display for Scheme {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Self::Plain => f.write_str("off"),
                    $(Self::$name(scheme) => {
                        let (name, option) = parts(<$parameters>::NAME_FORM);
                        write!(f, "{name}:{}{option}", scheme.name_number())
                    })*
                }
            }
        }

        impl FromStr for Scheme {
            type Err = SchemeError;

            fn from_str(text: &str) -> Result<Self, SchemeError> {
                if text == "off" {
                    return Ok(Self::Plain);
                }
                let (rest, option) = text.split_at(text.find('+').unwrap_or(text.len()));
                let (named, number) = rest.split_once(':').ok_or(SchemeError::Name)?;
                // In `agg:+8` the plus sign begins an invalid number, not an option.
                let (number, option) = if number.is_empty() { ("+", "") } else { (number, option) };
                let number = match number.starts_with(['+', '0']) {
                    true => None,
                    false => number.parse().ok(),
                };
                $(if (named, option) == parts(<$parameters>::NAME_FORM) {
                    let scheme = number.and_then(<$parameters>::from_number);
                    return scheme.map(Self::$name).ok_or(<$parameters>::NUMBER_ERROR);
                })*
                Err(SchemeError::Name)
            }
        }
    };
}

schemes! {
    /// Agg(n): the last of n records carries one tag for all of them.
    Agg(SetSize),
    /// R2D2(8, o): each record carries a short tag, and each bit of a tag covers eight records.
    R2d2(Overprovision),
    /// A sliding window: each record carries a short tag over itself and the seven before it.
    Sliding(SlidingWindow),
    /// [`Self::Agg`], with a check byte in each record.
    AggChecked(Checked<SetSize>),
    /// [`Self::R2d2`], with a check byte in each record.
    R2d2Checked(Checked<Overprovision>),
}

/// Whether this build has the schemes with check bytes.
const HAS_CHECK_BYTES: bool = cfg!(feature = "check-bytes");

/// The parts of a form before its colon, and from its plus sign on.
fn parts(form: &'static str) -> (&'static str, &'static str) {
    let (form, option) = form.split_at(form.find('+').unwrap_or(form.len()));
    (form.split_once(':').map_or(form, |(name, _)| name), option)
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

    /// The scheme that shares tags in this scheme's way but has no check bytes.
    #[must_use]
    pub const fn unchecked(self) -> Self {
        match self {
            Self::AggChecked(scheme) => Self::Agg(scheme.scheme()),
            Self::R2d2Checked(scheme) => Self::R2d2(scheme.scheme()),
            scheme => scheme,
        }
    }

    /// Length in bytes of what follows the content of a data record: the aggregate and the check
    /// byte.
    #[inline]
    pub fn tags_len(self, number: u64) -> usize {
        self.aggregate_len(number) + self.check_len()
    }

    /// The largest value of [`Self::tags_len`] for any record.
    pub fn largest_tags_len(self) -> usize {
        self.largest_aggregate_len() + self.check_len()
    }

    /// Length in bytes of the check in each record: 1 or 0.
    #[inline]
    pub const fn check_len(self) -> usize {
        if self.is_checked() { CHECK_BYTES } else { 0 }
    }

    /// The maximum number of records that wait for a shared tag at once, if all of them are genuine:
    /// those that a later tag covers, and those that may arrive late
    /// ([`LATENESS`](tuning::LATENESS)).
    pub const fn waiting_numbers(self) -> usize {
        match self.unchecked() {
            Self::Plain => 0,
            Self::Agg(n) => n.get() as usize + tuning::LATENESS as usize,
            _ => SPAN + tuning::LATENESS as usize,
        }
    }

    /// The most records that wait for a shared tag at once while none is lost and no message waits for a
    /// closing tag.
    pub const fn most_open(self) -> usize {
        match self.unchecked() {
            Self::Plain => 0,
            Self::Agg(n) => n.get() as usize - 1,
            _ => SPAN - 1,
        }
    }

    /// Whether records share tags.
    pub const fn aggregates(self) -> bool {
        !matches!(self, Self::Plain)
    }
}

impl fmt::Display for SchemeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => return write_forms(f),
            Self::SetSize => "Agg(n) takes n from 2 to 16",
            Self::Overprovision => "R2D2 takes o of 50, 100, 150 or 200",
            Self::Parameter(why) => why,
        })
    }
}

/// Writes ``an aggregation scheme is `off`, `agg:n` or …``.
fn write_forms(f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.write_str("an aggregation scheme is `off`")?;
    for (at, form) in FORMS.iter().enumerate() {
        let before = if at + 1 == FORMS.len() { " or" } else { "," };
        write!(f, "{before} `{form}`")?;
    }
    Ok(())
}

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
        assert!(matches!("sliding:51".parse::<Scheme>(), Err(SchemeError::Parameter(_))));
        assert_eq!("agg:8+".parse::<Scheme>(), Err(SchemeError::Name));
        assert_eq!("agg:8+checks".parse::<Scheme>(), Err(SchemeError::Name));
        assert_eq!("agg:17+check".parse::<Scheme>(), Err(SchemeError::SetSize));
        assert_eq!("sliding:50+check".parse::<Scheme>(), Err(SchemeError::Name));
        let forms = "an aggregation scheme is `off`, `agg:n`, `r2d2:o`, `sliding:o`, \
                     `agg:n+check` or `r2d2:o+check`";
        assert_eq!(SchemeError::Name.to_string(), forms);
    }

    #[test]
    fn names_and_contexts_round_trip() {
        let r2d2 = Overprovision::ALL.map(Scheme::R2d2);
        let sliding = Overprovision::ALL.map(SlidingWindow::new).map(Scheme::Sliding);
        let shared = (2..=16).filter_map(Scheme::agg).chain(r2d2).chain(sliding);
        let checked = Overprovision::ALL.map(|o| Scheme::R2d2Checked(Checked::new(o)));
        let sizes = (2..=16).filter_map(SetSize::new);
        let checked = sizes.map(|n| Scheme::AggChecked(Checked::new(n))).chain(checked);
        for scheme in shared.chain(checked).chain([Scheme::Plain]) {
            assert_eq!(scheme.to_string().parse(), Ok(scheme));
            let [identifier, parameters @ ..] = scheme.context();
            if let Some(len) = Scheme::parameters_len(identifier) {
                let parameters = &parameters[..len];
                assert_eq!(Scheme::from_parameters(identifier, parameters), Some(scheme));
                assert_eq!(Scheme::from_parameters(identifier, &parameters[1..]), None);
            }
        }
        assert_eq!("sliding:100".parse().map(Scheme::context), Ok([0x80, 8, 100]));
        assert_eq!(Scheme::agg(16).map(Scheme::context), Some([1, 16, 0]));
        assert_eq!(Scheme::r2d2(200).map(Scheme::context), Some([2, 8, 200]));
        assert_eq!("agg:16+check".parse().map(Scheme::context), Ok([0x81, 16, 0]));
        assert_eq!("r2d2:50+check".parse().map(Scheme::context), Ok([0x82, 8, 50]));
        assert_eq!("r2d2:50+check".parse().map(Scheme::unchecked), Ok(r2d2[0]));
        assert_eq!(Scheme::Plain.context(), [0, 0, 0]);
    }

    #[test]
    fn the_last_of_a_set_carries_the_tag() {
        let scheme = Scheme::agg(3).expect("3 is a valid set size");
        let lengths: [usize; 7] = core::array::from_fn(|i| scheme.aggregate_len(i as u64));
        assert_eq!(lengths, [0, 0, 16, 0, 0, 16, 0]);
        assert_eq!(Scheme::Plain.aggregate_len(2), 0);
        let lengths = Overprovision::ALL.map(|o| Scheme::R2d2(o).aggregate_len(5));
        assert_eq!(lengths, [3, 4, 5, 6]);
    }
}
