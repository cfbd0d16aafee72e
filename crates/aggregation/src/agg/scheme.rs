//! The definition of Agg(n).

use crate::definition::{Definition, SchemeError, SetSize, Sharing, TAG_BYTES};

impl Definition for SetSize {
    const IDENTIFIER: u8 = 1;
    const NAME_FORM: &'static str = "agg:n";
    const NUMBER_ERROR: SchemeError = SchemeError::SetSize;
    const PARAMETERS: usize = 1;
    const SHARING: Sharing = Sharing::Sets;

    fn parameters(self) -> [u8; 2] {
        [self.get(), 0]
    }

    fn from_parameters(parameters: &[u8]) -> Option<Self> {
        match parameters {
            [n] => Self::new(*n),
            _ => None,
        }
    }

    fn name_number(self) -> u8 {
        self.get()
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::new(number)
    }

    #[inline]
    fn aggregate_len(self, number: u64) -> usize {
        if self.ends(number) { TAG_BYTES } else { 0 }
    }

    fn largest_aggregate_len(self) -> usize {
        TAG_BYTES
    }

    fn set_size(self) -> Option<SetSize> {
        Some(self)
    }
}
