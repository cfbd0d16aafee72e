//! Measures the cost of groups on a machine, and prints it as JSON. `groups crowd` measures how
//! much memory a sender needs for each listener and how long it computes for it.
use lightseal_group::policy::Profile;
use lightseal_lab::groups::many_listeners::{ManyListeners, TransactionCost};
use lightseal_measure::clock::processor_time;
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::time::Duration;

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that are allocated.
fn heap() -> usize {
    let stats = HEAP.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

const SIZES: [usize; 2] = [1000, 10_000];
/// Number of runs of each size. The sizes take turns.
const RUNS: u64 = 7;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn crowd() -> Result<Value, lightseal_lab::Error> {
    let mut rows = Vec::new();
    for profile in Profile::ALL {
        let mut taken: [Vec<TransactionCost>; 2] = [Vec::new(), Vec::new()];
        for seed in 0..RUNS {
            for (size, taken) in SIZES.into_iter().zip(&mut taken) {
                taken.push(
                    ManyListeners::new(*profile, size, seed)?.transact(heap, processor_time)?,
                );
            }
        }
        for (size, taken) in SIZES.into_iter().zip(&taken) {
            let each = |of: fn(&TransactionCost) -> Duration| {
                median(taken.iter().map(|one| of(one).as_secs_f64() * 1e6 / size as f64).collect())
            };
            let heap = taken.iter().map(|one| one.heap_bytes).max().unwrap_or(0);
            rows.push(json!({
                "profile": profile.name(),
                "listeners": size,
                "runs": RUNS,
                "responses": taken.iter().map(|one| one.responses).min(),
                "heap_bytes_a_listener": heap as f64 / size as f64,
                "sender_us_a_listener": each(|taken| taken.sender),
                "listener_us": each(|taken| taken.listeners),
                "virtual_seconds": taken[0].end.as_micros() as f64 / 1e6,
            }));
        }
    }
    Ok(json!({ "rows": rows }))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let result = match std::env::args().nth(1).as_deref() {
        Some("crowd") => crowd()?,
        _ => return Err("say crowd".into()),
    };
    println!("{result}");
    Ok(())
}
