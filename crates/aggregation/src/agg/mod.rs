//! Agg(n).

pub(crate) mod opener;
#[cfg(feature = "fast")]
mod ordered_set;
mod rivals;
pub(crate) mod scheme;
pub(crate) mod sealer;
mod solve;
