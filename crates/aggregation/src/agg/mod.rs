//! Agg(n).

pub(crate) mod opener;
mod run;
pub(crate) mod sealer;
mod solve;
