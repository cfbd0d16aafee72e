//! What defines a scheme.
//!
//! A scheme is a type that holds its parameters and implements [`Definition`], in a file of its
//! own, and a line in the list of [`scheme`](crate::scheme). Sealing, opening, blame, levels,
//! delivery, names and negotiation follow from the definition. [`sliding`](crate::sliding) is an
//! example.

use crate::r2d2::table::DependencyTable;
use crate::scheme::{RulerOrder, SchemeError, SetSize};

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
    /// Whether its layout depends on the seed of [`RulerOrder::Keyed`].
    const HAS_DRAWN_SETS: bool = false;
    /// Whether each record also carries a check byte.
    const HAS_CHECK_BYTE: bool = false;

    /// Its parameters, padded with zeros. The epoch's keys are bound to all of them.
    fn parameters(self) -> [u8; 2];

    /// The scheme with these parameters, [`PARAMETERS`](Self::PARAMETERS) in number.
    fn from_parameters(parameters: &[u8]) -> Option<Self>;

    /// The number after the colon of its name.
    fn name_number(self) -> u8;

    /// The scheme with this number after the colon of its name.
    fn from_number(number: u8) -> Option<Self>;

    /// Length in bytes of the aggregate that the record `number` carries.
    fn aggregate_len(self, number: u64) -> usize;

    /// The largest value of [`Self::aggregate_len`] for any record.
    fn largest_aggregate_len(self) -> usize;

    /// Which records each tag covers.
    fn layout(self, order: &RulerOrder) -> Layout;
}

/// Which records each tag covers.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub(crate) enum Layout {
    /// The last record of each set carries a full tag for the whole set.
    Sets(SetSize),
    /// Each record carries a short tag. Each bit of a tag covers a dependency set of its own. For
    /// levels to be sound, each output bit of a record must enter at most one tag.
    Bits(DependencyTable),
}
