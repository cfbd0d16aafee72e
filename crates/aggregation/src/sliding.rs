//! A sliding window of eight records, as in ProMACs (Armknecht, Walther, Tsudik, Beck, Strufe:
//! "ProMACs: Progressive and Resynchronizing MACs for Continuous Efficient Authentication of
//! Message Streams", CCS 2020): each tag covers its record and the seven before it, with all of
//! its bits.
//!
//! Without loss nothing is verified sooner: after 5, 3, 3 and 2 more records for o = 50, 100, 150
//! and 200. But a lost record spoils its own tag and the next seven, and with them as many records
//! on either side of it: that is what R2D2's sets are spread against. So this scheme is for paths
//! that lose nothing, and an example of what a scheme is made of.

use crate::definition::{Definition, Layout};
use crate::r2d2::scheme::{Overprovision, SHARED_BY};
use crate::r2d2::table::Table;
use crate::scheme::{Order, SchemeError};

/// A window of eight records, and o as with R2D2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SlidingWindow(Overprovision);

impl SlidingWindow {
    /// With tags of the same length as R2D2's.
    pub const fn new(o: Overprovision) -> Self {
        Self(o)
    }

    /// o: it says how long a tag is.
    pub const fn overprovision(self) -> Overprovision {
        self.0
    }
}

impl Definition for SlidingWindow {
    const IDENTIFIER: u8 = 0x80;
    const FORM: &'static str = "sliding:o";
    const WRONG: SchemeError = SchemeError::Parameter("sliding takes o of 50, 100, 150 or 200");
    const PARAMETERS: usize = 2;

    fn parameters(self) -> [u8; 2] {
        [SHARED_BY, self.0.percent()]
    }

    fn from_parameters(parameters: &[u8]) -> Option<Self> {
        Overprovision::from_parameters(parameters).map(Self)
    }

    fn number(self) -> u8 {
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

    fn layout(self, _: &Order) -> Layout {
        let window = core::array::from_fn(|behind| behind as u8);
        Layout::Bits(Table::new(self.0.tag_bytes(), |_| window))
    }
}
