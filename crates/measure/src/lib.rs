//! Implementations timed in turns, so that what disturbs one disturbs all.
//!
//! - [`mod@race`]: contenders, each run for a short turn after the other;
//! - [`spread`]: the middle of many measurements;
//! - [`clock`]: the processor's time, and a contender that takes a known number of
//!   core cycles.
//!
//! A figure is a median over the turns, a ratio the median of the ratios within each
//! turn: whatever slows the machine for longer than a turn cancels out.
//!
//! ```
//! use measure::{CoreClock, race};
//! use std::hint::black_box;
//! use std::time::Duration;
//!
//! let mut sum = || {
//!     black_box((0..100u64).map(black_box).sum::<u64>());
//! };
//! let mut clock = CoreClock::new();
//! let outcome = race(&mut [&mut sum, &mut clock], 5, Duration::from_micros(50));
//! let cycles = outcome.ratio(0, 1).scaled(CoreClock::CYCLES);
//! println!("{:.0} ns, {:.0} core cycles", outcome.ns(0).median, cycles.median);
//! ```
#![forbid(unsafe_code)]

pub mod clock;
pub mod race;
pub mod spread;

pub use clock::CoreClock;
pub use race::{Contender, Outcome, race};
pub use spread::Spread;
