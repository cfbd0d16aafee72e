//! Agg(n).

pub(crate) mod opener;
mod rivals;
mod run;
pub(crate) mod scheme;
pub(crate) mod sealer;
mod solve;
