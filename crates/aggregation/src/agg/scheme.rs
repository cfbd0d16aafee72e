//! The definition of Agg(n).

use crate::definition::{Definition, Layout};
use crate::scheme::{RulerOrder, SchemeError, TAG_BYTES};

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
}

impl Definition for SetSize {
    const IDENTIFIER: u8 = 1;
    const NAME_FORM: &'static str = "agg:n";
    const NUMBER_ERROR: SchemeError = SchemeError::SetSize;
    const PARAMETERS: usize = 1;

    fn parameters(self) -> [u8; 2] {
        [self.0, 0]
    }

    fn from_parameters(parameters: &[u8]) -> Option<Self> {
        parameters.first().copied().and_then(Self::new)
    }

    fn name_number(self) -> u8 {
        self.0
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::new(number)
    }

    #[inline]
    fn aggregate_len(self, number: u64) -> usize {
        let n = u64::from(self.0);
        if number % n == n - 1 { TAG_BYTES } else { 0 }
    }

    fn largest_aggregate_len(self) -> usize {
        TAG_BYTES
    }

    fn layout(self, _: &RulerOrder) -> Layout {
        Layout::Sets(self)
    }
}
