//! A check byte in each record: a filter against junk where room is scarce.
//!
//! Without it any junk under a number is a rival of the genuine record. A check byte lets one in 256
//! through, for a byte a record. It is no tag: it adds nothing to what a record's own tag, an
//! aggregate or a level is worth, and whoever fails it is no candidate and counts for none.
//!
//! It covers the record and the aggregate in it, so that neither can be replaced by junk with the other
//! left as it is. With F_253 as output block 253, E its last step (F_253 = E(state)) and A the
//! aggregate, zeros behind:
//!
//! ```text
//! check = first byte of F_253                  without an aggregate
//! check = first byte of E(F_253 ⊕ A)           with one
//! ```

use crate::definition::{Definition, Layout};
use crate::prf::{Block, CHECK_BLOCK, Prf, PrfState, bound_block};
use crate::r2d2::scheme::Overprovision;
use crate::scheme::{Order, SchemeError, SetSize};

/// Bytes that a check takes in each record.
pub(crate) const CHECK_BYTES: usize = 1;

/// The check byte of a record with this state that carries this aggregate, of at most 16 bytes.
pub fn check_byte<P: Prf + ?Sized>(prf: &P, state: &PrfState, aggregate: &[u8]) -> u8 {
    let block = if aggregate.is_empty() {
        prf.block(state, CHECK_BLOCK)
    } else {
        let mut padded = Block::default();
        padded.iter_mut().zip(aggregate).for_each(|(place, byte)| *place = *byte);
        bound_block(prf, CHECK_BLOCK, state, padded)
    };
    block[0]
}

/// A scheme whose records carry a check byte too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Checked<S>(S);

impl<S: Copy> Checked<S> {
    /// With a check byte in each record.
    pub const fn new(scheme: S) -> Self {
        Self(scheme)
    }

    /// The scheme without check bytes.
    pub const fn scheme(self) -> S {
        self.0
    }
}

/// A scheme that may have check bytes: what is another with them.
pub(crate) trait Checkable: Definition {
    /// As [`Definition::IDENTIFIER`].
    const CHECKED_IDENTIFIER: u8;
    /// As [`Definition::FORM`].
    const CHECKED_FORM: &'static str;
}

impl Checkable for SetSize {
    const CHECKED_IDENTIFIER: u8 = 0x81;
    const CHECKED_FORM: &'static str = "agg:n+check";
}

impl Checkable for Overprovision {
    const CHECKED_IDENTIFIER: u8 = 0x82;
    const CHECKED_FORM: &'static str = "r2d2:o+check";
}

impl<S: Checkable> Definition for Checked<S> {
    const IDENTIFIER: u8 = S::CHECKED_IDENTIFIER;
    const FORM: &'static str = S::CHECKED_FORM;
    const WRONG: SchemeError = S::WRONG;
    const PARAMETERS: usize = S::PARAMETERS;
    const DRAWN: bool = S::DRAWN;
    const CHECKED: bool = true;

    fn parameters(self) -> [u8; 2] {
        self.0.parameters()
    }

    fn from_parameters(parameters: &[u8]) -> Option<Self> {
        S::from_parameters(parameters).map(Self)
    }

    fn number(self) -> u8 {
        self.0.number()
    }

    fn from_number(number: u8) -> Option<Self> {
        S::from_number(number).map(Self)
    }

    #[inline]
    fn aggregate_len(self, number: u64) -> usize {
        self.0.aggregate_len(number)
    }

    fn largest_aggregate_len(self) -> usize {
        self.0.largest_aggregate_len()
    }

    fn layout(self, order: &Order) -> Layout {
        self.0.layout(order)
    }
}
