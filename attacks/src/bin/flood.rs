//! A flood of frames with invented sources at a gateway, with the heap measured. Prints one JSON
//! object.
//!
//! It is a program of its own, because measuring the heap would slow down the other campaigns.
#![forbid(unsafe_code)]

use clap::Parser;
use clap::builder::PossibleValuesParser;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Number of bytes allocated on the heap.
fn heap() -> usize {
    let stats = HEAP.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

/// Send frames of ever new sources to a gateway
#[derive(Parser)]
#[command(name = "flood")]
struct Arguments {
    /// Only these schemes; none means all of them
    #[arg(long, value_parser = PossibleValuesParser::new(attacks::tunnel::schemes()))]
    scheme: Vec<String>,
    /// Duration of the flood in seconds
    #[arg(long, default_value_t = 100)]
    seconds: u32,
    /// Frames per second, a multiple of 500
    #[arg(long, default_value_t = 10_000)]
    frames_a_second: u32,
}

fn main() {
    let Arguments { scheme, seconds, frames_a_second } = Arguments::parse();
    println!("{}", attacks::tunnel::flood(&scheme, seconds, frames_a_second, heap));
}
