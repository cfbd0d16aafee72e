//! A check byte in each record: a filter against junk for receivers with little memory.
//!
//! Without it, all junk under a number competes with the genuine record. A check byte costs one
//! byte in each record and lets only one in 256 of the junk records pass. It is no tag: it adds
//! nothing to the security of a record's own tag, of an aggregate or of a level. A record whose
//! check byte is wrong becomes no candidate and is not counted as one.
//!
//! It covers the record and the aggregate in it, so that neither can be replaced by junk while the
//! other is kept. F_253 is output block 253, E its last step (F_253 = E(state)) and A the
//! aggregate, padded with zeros:
//!
//! ```text
//! check = first byte of F_253                  without an aggregate
//! check = first byte of E(F_253 ⊕ A)           with one
//! ```

use crate::definition::{Definition, RulerOrder, SchemeError, SetSize, Sharing};
use crate::prf::{Block, CHECK_BLOCK, Prf, PrfState, bound_block};
use crate::r2d2::scheme::Overprovision;
use crate::table::DependencySets;

/// Length of the check in each record, in bytes.
pub(crate) const CHECK_BYTES: usize = 1;

/// The check byte of a record with this PRF state that carries this aggregate of at most 16 bytes.
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

/// A scheme whose records also carry a check byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Checked<S>(S);

impl<S: Copy> Checked<S> {
    /// `scheme` with a check byte in each record.
    pub const fn new(scheme: S) -> Self {
        Self(scheme)
    }

    /// The scheme without check bytes.
    pub const fn scheme(self) -> S {
        self.0
    }
}

/// A scheme that may have check bytes. With them it is a scheme of its own, with another identifier
/// and form.
pub(crate) trait Checkable: Definition {
    /// [`Definition::IDENTIFIER`] of the scheme with check bytes.
    const CHECKED_IDENTIFIER: u8;
    /// [`Definition::NAME_FORM`] of the scheme with check bytes.
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
    const NAME_FORM: &'static str = S::CHECKED_FORM;
    const NUMBER_ERROR: SchemeError = S::NUMBER_ERROR;
    const PARAMETERS: usize = S::PARAMETERS;
    const SHARING: Sharing = S::SHARING;
    const HAS_DRAWN_SETS: bool = S::HAS_DRAWN_SETS;
    const HAS_CHECK_BYTE: bool = true;

    fn parameters(self) -> [u8; 2] {
        self.0.parameters()
    }

    fn from_parameters(parameters: &[u8]) -> Option<Self> {
        S::from_parameters(parameters).map(Self)
    }

    fn name_number(self) -> u8 {
        self.0.name_number()
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

    fn set_size(self) -> Option<SetSize> {
        self.0.set_size()
    }

    fn dependency_sets(self, order: &RulerOrder) -> Option<DependencySets> {
        self.0.dependency_sets(order)
    }
}
