//! What a saved association takes when it is restored follows from its length, whatever it says. The
//! allocator counts for the whole process, so this file is a program of its own.

use fuzz::targets::{Target, drive, named};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The bytes that one input may allocate, in whatever pieces: both times that it is restored, with all
/// buffers, and with two openers of R2D2 each.
const MOST: usize = 1 << 18;

#[test]
fn no_saved_association_allocates_more_than_a_quarter_of_a_mebibyte() {
    let saved = named("saved").expect("a target of this name");
    let counted = Target {
        run: |input| {
            let before = HEAP.stats().bytes_allocated;
            (named("saved").expect("a target of this name").run)(input);
            let allocated = HEAP.stats().bytes_allocated - before;
            assert!(allocated <= MOST, "{allocated} bytes for {}", input.len());
        },
        ..*saved
    };
    let outcome = drive(&counted, 9, |iteration| iteration < 20_000);
    assert_eq!(outcome, Ok(20_000));
}
