//! Agg(n).

pub(crate) mod opener;
pub(crate) mod sealer;
mod solve;
