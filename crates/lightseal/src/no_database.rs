//! In programs without the feature `fleet` there is no address of a database.

use std::fmt;
use std::str::FromStr;

/// The address of a database, of which there is none.
#[derive(Clone, Debug)]
pub(crate) enum StoreUrl {}

impl FromStr for StoreUrl {
    type Err = &'static str;

    fn from_str(_: &str) -> Result<Self, Self::Err> {
        Err("this program was built without databases (feature `fleet`)")
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}
