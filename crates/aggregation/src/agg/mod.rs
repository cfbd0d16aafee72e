//! Agg(n).

mod candidates;
pub(crate) mod opener;
pub(crate) mod sealer;
mod solve;
