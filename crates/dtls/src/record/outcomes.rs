//! What became of received records, as values: the connection acts on them, and one function counts
//! them.

use super::open::Inner;
use crate::stats::ReceiveStats;
use core::ops::AddAssign;

/// What opening a record brought.
#[derive(Debug)]
pub struct OpenedRecord<'a> {
    /// The record, if it is authentic and the connection has to act on it.
    pub inner: Option<Inner<'a>>,
    /// What became of the record, and of earlier ones that it decided about.
    pub outcomes: Outcomes,
}

/// Declares the outcomes that [`ReceiveStats`] counts.
macro_rules! outcomes {
    ($($field:ident)*) => {
        /// What became of a record, and of earlier ones whose shared tags it carried.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Outcomes {
            $(
                #[doc = concat!("To be added to [`ReceiveStats::", stringify!($field), "`].")]
                pub $field: u32,
            )*
        }

        impl AddAssign for Outcomes {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)*
            }
        }

        impl ReceiveStats {
            /// Counts what became of records.
            pub fn count(&mut self, outcomes: &Outcomes) {
                // Few fields change with a record. Reading all of them as vectors would wait for
                // the writes of single fields just before.
                $(if outcomes.$field > 0 {
                    self.$field += u64::from(outcomes.$field);
                })*
            }
        }
    };
}

outcomes! {
    records delivered delivered_bytes malformed replayed unauthentic check_failed provisional
    refuted unverified forged refused closing_tags evaluations buffer_full exhausted
}

impl Outcomes {
    /// Notes a payload of `len` bytes that was delivered.
    pub(crate) const fn deliver(&mut self, len: usize) {
        self.delivered += 1;
        self.delivered_bytes += len as u32;
    }

    /// Whether a record proved to be forged.
    pub(crate) const fn has_forgery(&self) -> bool {
        (self.refuted | self.forged | self.unauthentic) != 0
    }
}
