//! A flood of invented sources at a gateway, with the heap counted; prints one JSON object.
//!
//! A program of its own: the other campaigns would pay for the counting.
#![forbid(unsafe_code)]

use clap::Parser;
use clap::builder::PossibleValuesParser;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that are allocated.
fn heap() -> usize {
    let stats = HEAP.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

/// Frames of ever new sources at a gateway
#[derive(Parser)]
#[command(name = "flood")]
struct Arguments {
    /// Only these schemes
    #[arg(long, value_parser = PossibleValuesParser::new(fuzz::tunnel::schemes()))]
    scheme: Vec<String>,
    /// How long
    #[arg(long, default_value_t = 100)]
    seconds: u32,
    /// A multiple of 500
    #[arg(long, default_value_t = 10_000)]
    frames_a_second: u32,
}

fn main() {
    let Arguments { scheme, seconds, frames_a_second } = Arguments::parse();
    println!("{}", fuzz::tunnel::flood(&scheme, seconds, frames_a_second, heap));
}
