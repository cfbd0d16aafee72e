//! Schemes in which every record carries a short tag, and each bit of a tag covers a dependency set
//! of its own: R2D2, and any other scheme with such sets.
//!
//! A record m has a long tag T(m) of 8·t bits, taken from its output blocks 0, 1 and 2. Bit j of
//! the tag in record i is the XOR of T(i − D_j\[k\])\[k·t + j\] over the eight members k of its
//! dependency set D_j. Members before record 0 are left out.
//!
//! - [`scheme`]: R2D2's parameters; [`rulers`]: its sets;
//! - [`table`](crate::table): dependency sets laid out in whole words, and the tags that a record's
//!   long tag enters;
//! - [`delays`]: the tags of consecutive records, fast; `unfinished`: in little memory;
//! - [`board`]: what has been checked, and each record's security level;
//! - [`sealer`] and [`receiver`]: the two sides;
//! - [`in_order`]: the receiving side while records arrive in order; [`opener`]: the receiving side
//!   in all other cases; [`conversion`]: from one into the other; [`blame`]: which record is set aside when checks fail; [`rivals`]: which
//!   candidate is evicted when there are too many.

mod blame;
mod board;
#[cfg(feature = "fast")]
mod conversion;
mod delays;
#[cfg(feature = "fast")]
mod in_order;
mod opener;
pub(crate) mod receiver;
mod rivals;
pub(crate) mod rulers;
pub(crate) mod scheme;
pub(crate) mod sealer;
#[cfg(any(test, not(feature = "fast")))]
mod unfinished;

use crate::bits::NUMBERS;
use crate::table::REACH;
use crate::tuning::{LATENESS, LEAST_BOARD};
use crate::window::Window;

/// Number of record numbers that may be held with a board for `BOARD` numbers. The board also needs
/// places for the tags that cover the last of them.
const fn held<const BOARD: usize>() -> usize {
    const { assert!(BOARD >= LEAST_BOARD && BOARD <= NUMBERS) };
    BOARD - REACH
}

/// How many records in a row may fail before the window refuses those that follow.
const FAILED: usize = 8;

/// Gives the window before record 0 its room. Late records share it with those after the highest verified one, which
/// wait for up to [`REACH`] later tags.
const fn set_up_window<const BOARD: usize>(window: &mut Window) {
    let room = held::<BOARD>() - 1 - REACH - FAILED;
    let most = REACH + LATENESS as usize;
    window.set_up(1, held::<BOARD>(), if room < most { room } else { most });
}
