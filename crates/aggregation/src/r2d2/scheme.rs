//! The definition of R2D2(8, o).

use crate::definition::{Definition, RulerOrder, SchemeError, Sharing, TAG_BYTES};
use crate::r2d2::rulers;
use crate::table::DependencySets;

/// n of R2D2(n, o): the number of records that each tag bit covers.
pub const SHARED_BY: u8 = 8;

/// o, the overprovisioning: the percentage by which R2D2's tags are longer than an eighth of a full
/// tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Overprovision(u8);

impl Overprovision {
    /// All values, ascending: 50, 100, 150, 200.
    pub const ALL: [Self; 4] = [Self(50), Self(100), Self(150), Self(200)];

    /// The value `percent`, or `None` unless it is 50, 100, 150 or 200.
    pub const fn new(percent: u8) -> Option<Self> {
        if matches!(percent, 50 | 100 | 150 | 200) { Some(Self(percent)) } else { None }
    }

    /// The percentage itself.
    pub const fn percent(self) -> u8 {
        self.0
    }

    /// Length in bytes of the tag in each record: 3, 4, 5 or 6.
    pub const fn tag_bytes(self) -> usize {
        (TAG_BYTES * (100 + self.0 as usize)).div_ceil(100 * SHARED_BY as usize)
    }
}

impl Definition for Overprovision {
    const IDENTIFIER: u8 = 2;
    const NAME_FORM: &'static str = "r2d2:o";
    const NUMBER_ERROR: SchemeError = SchemeError::Overprovision;
    const PARAMETERS: usize = 2;
    const HAS_DRAWN_SETS: bool = true;
    const SHARING: Sharing = Sharing::Bits;

    fn parameters(self) -> [u8; 2] {
        [SHARED_BY, self.0]
    }

    fn from_parameters(parameters: &[u8]) -> Option<Self> {
        match parameters {
            [SHARED_BY, o] => Self::new(*o),
            _ => None,
        }
    }

    fn name_number(self) -> u8 {
        self.0
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::new(number)
    }

    #[inline]
    fn aggregate_len(self, _: u64) -> usize {
        self.tag_bytes()
    }

    fn largest_aggregate_len(self) -> usize {
        self.tag_bytes()
    }

    fn dependency_sets(self, order: &RulerOrder) -> Option<DependencySets> {
        Some(rulers::sets(self.tag_bytes(), order))
    }
}
