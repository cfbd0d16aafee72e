//! What makes a scheme.
//!
//! A scheme is a type with its parameters that implements [`Definition`], in a file of its own, and
//! a line in the list of [`scheme`](crate::scheme). Sealing, opening, blame, levels, delivery,
//! names and negotiation follow from that. [`sliding`](crate::sliding) is an example.

use crate::r2d2::table::Table;
use crate::scheme::{Order, SchemeError, SetSize};

/// A scheme's parameters, and what follows from them.
pub(crate) trait Definition: Copy {
    /// Its number in messages and keys. From 0x80 on, parameters in messages have their length
    /// before them, so that who does not know the scheme can skip it: use those.
    const IDENTIFIER: u8;
    /// How it is written, such as `agg:n`: a name, a colon, a letter for a number. `+check` may
    /// follow.
    const FORM: &'static str;
    /// What is said of a number that it does not take.
    const WRONG: SchemeError;
    /// How many of the [`parameters`](Self::parameters) stand in messages.
    const PARAMETERS: usize;
    /// Whether its layout follows [`Order::Keyed`].
    const DRAWN: bool = false;
    /// Whether each record carries a check byte too.
    const CHECKED: bool = false;

    /// Its parameters; zeros behind. The epoch's keys are bound to all of them.
    fn parameters(self) -> [u8; 2];

    /// The scheme with these parameters, of which there are [`PARAMETERS`](Self::PARAMETERS).
    fn from_parameters(parameters: &[u8]) -> Option<Self>;

    /// The number behind its name.
    fn number(self) -> u8;

    /// The scheme with this number behind its name.
    fn from_number(number: u8) -> Option<Self>;

    /// Bytes of aggregate that the record `number` carries.
    fn aggregate_len(self, number: u64) -> usize;

    /// The most that [`Self::aggregate_len`] gives for any record.
    fn largest_aggregate_len(self) -> usize;

    /// Which records each tag covers.
    fn layout(self, order: &Order) -> Layout;
}

/// Which records each tag covers.
#[expect(clippy::large_enum_variant, reason = "it is taken apart at once")]
pub(crate) enum Layout {
    /// The last of so many records carries a full tag for all.
    Sets(SetSize),
    /// Each record carries a short tag, each of its bits over a dependency set of its own. Each bit
    /// of a record's output stands in at most one tag: that is what its level's soundness needs.
    Bits(Table),
}
