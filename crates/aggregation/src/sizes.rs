//! The memory of each side in bytes. Every build checks these upper bounds.

use crate::agg::opener::AggOpener;
use crate::agg::sealer::AggSealer;
use crate::r2d2::receiver::BitReceiver;
use crate::r2d2::sealer::BitSealer;
use crate::tuning::{
    BOARD, CANDIDATES, HAS_RIVALS, HELD_PER_NUMBER, LEAST_BOARD, LEAST_WINDOW, WINDOW,
};

/// What the widths of integers and pointers, and their alignments, may add to the least size.
const WIDER: usize = if HAS_WIDER { 32 } else { 0 };
/// WebAssembly aligns integers as processors of 64 bits do.
const HAS_WIDER: bool =
    cfg!(any(feature = "fast", target_pointer_width = "64", target_family = "wasm"));

/// What the features `rivals` and `provisional` add for each record number and for each candidate, and
/// once.
const fn early_and_rivals(numbers: usize, candidates: usize) -> usize {
    let level = if cfg!(feature = "provisional") { 2 } else { 0 };
    let once = if HAS_RIVALS || cfg!(feature = "provisional") { 72 } else { 0 };
    (HELD_PER_NUMBER - 1) * numbers + level * candidates + once
}

/// Whether a type takes at most `small` bytes on a processor of 32 bits, or at most `fast` bytes with
/// the feature `fast`.
const fn takes<T>(small: usize, fast: usize) -> bool {
    size_of::<T>() <= WIDER + if cfg!(feature = "fast") { fast } else { small }
}

const _: () = assert!(takes::<AggSealer>(64, 320));
const _: () = assert!(takes::<BitSealer>(1024, 3968));
const _: () =
    assert!(takes::<AggOpener<16, LEAST_WINDOW>>(544 + early_and_rivals(LEAST_WINDOW, 16), 1856));
const _: () =
    assert!(takes::<AggOpener<32, LEAST_WINDOW>>(864 + early_and_rivals(LEAST_WINDOW, 32), 2544));
const _: () = assert!(takes::<AggOpener<CANDIDATES, WINDOW>>(
    4256 + early_and_rivals(WINDOW, CANDIDATES),
    10000
));
const _: () =
    assert!(takes::<BitReceiver<64, LEAST_BOARD>>(4952 + early_and_rivals(LEAST_BOARD, 64), 9560));
const _: () = assert!(takes::<BitReceiver<CANDIDATES, BOARD>>(
    11736 + early_and_rivals(BOARD, CANDIDATES),
    17352
));
