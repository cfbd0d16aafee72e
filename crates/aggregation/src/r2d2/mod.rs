//! Schemes whose every record carries a short tag, each bit of it over a dependency set of its
//! own: R2D2, and whatever else has such sets.
//!
//! A record m has a long tag T(m) of 8·t bits, its output blocks 0, 1 and 2. Bit j of the tag that
//! record i carries is the sum of T(i − D_j\[k\])\[k·t + j\] over the eight members k of its
//! dependency set D_j, without those before record 0.
//!
//! - [`scheme`]: R2D2's parameters; [`rulers`]: its sets;
//! - [`table`]: sets laid out for whole words, and where a record's long tag goes;
//! - [`delays`]: the tags of records that come in order;
//! - [`board`]: what has been checked, and each record's security level;
//! - [`sealer`] and [`receiver`]: the two sides;
//! - [`run`]: the receiving side while all comes in order; [`opener`]: whatever comes;
//!   [`blame`]: who is to go when checks fail; [`rivals`]: who is to go when they are too many.

mod blame;
mod board;
mod delays;
mod opener;
pub(crate) mod receiver;
mod rivals;
pub(crate) mod rulers;
mod run;
pub(crate) mod scheme;
pub(crate) mod sealer;
pub(crate) mod table;
