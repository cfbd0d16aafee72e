//! A sliding window of eight records, as in ProMACs (Armknecht, Walther, Tsudik, Beck, Strufe:
//! "ProMACs: Progressive and Resynchronizing MACs for Continuous Efficient Authentication of
//! Message Streams", CCS 2020): all bits of each tag cover its record and the seven records before
//! it.
//!
//! Without loss, no scheme with tags of this length verifies records sooner: after 5, 3, 3 and 2
//! more records for o = 50, 100, 150 and 200. But a lost record makes its own tag and the next
//! seven useless, and with them as many records on either side of it. R2D2 spreads its sets to
//! avoid that. This scheme is therefore for paths that lose nothing, and an example of how a scheme
//! is defined.

use crate::definition::{Definition, RulerOrder, SchemeError, Sharing};
use crate::r2d2::scheme::{Overprovision, SHARED_BY};
use crate::table::{DependencySet, DependencySets};

/// The dependency set of every bit: the record and the seven before it.
static WINDOW: DependencySet = [0, 1, 2, 3, 4, 5, 6, 7];

/// A sliding window of eight records, with overprovisioning o as under R2D2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlidingWindow(Overprovision);

impl SlidingWindow {
    /// The scheme whose tags have the same length as those of R2D2(8, o).
    pub const fn new(o: Overprovision) -> Self {
        Self(o)
    }

    /// The overprovisioning o, which determines the length of a tag.
    pub const fn overprovision(self) -> Overprovision {
        self.0
    }
}

impl Definition for SlidingWindow {
    const IDENTIFIER: u8 = 0x80;
    const NAME_FORM: &'static str = "sliding:o";
    const NUMBER_ERROR: SchemeError =
        SchemeError::Parameter("sliding takes o of 50, 100, 150 or 200");
    const PARAMETERS: usize = 2;
    const SHARING: Sharing = Sharing::Bits;

    fn parameters(self) -> [u8; 2] {
        [SHARED_BY, self.0.percent()]
    }

    fn from_parameters(parameters: &[u8]) -> Option<Self> {
        Overprovision::from_parameters(parameters).map(Self)
    }

    fn name_number(self) -> u8 {
        self.0.percent()
    }

    fn from_number(number: u8) -> Option<Self> {
        Overprovision::new(number).map(Self)
    }

    #[inline]
    fn aggregate_len(self, _: u64) -> usize {
        self.0.tag_bytes()
    }

    fn largest_aggregate_len(self) -> usize {
        self.0.tag_bytes()
    }

    fn dependency_sets(self, _: &RulerOrder) -> Option<DependencySets> {
        Some(DependencySets::new(self.0.tag_bytes(), core::slice::from_ref(&WINDOW), |_| 0))
    }
}
