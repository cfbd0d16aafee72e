//! Times implementations in turns, so that a disturbance affects all of them.
//!
//! - [`mod@race`]: contenders that each run for a short turn, one after the other;
//! - [`spread`]: median and quartiles of many measurements;
//! - [`clock`]: a thread's processor time, and a contender that takes a known number of core
//!   cycles.
//!
//! A time is the median over the turns, and a ratio is the median of the ratios within each turn.
//! Whatever slows the machine for longer than a turn therefore cancels out.
//!
//! ```
//! use lightseal_measure::{CoreClock, race};
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
mod contender;
pub mod race;
pub mod spread;

pub use clock::CoreClock;
pub use race::{Contender, Outcome, race};
pub use spread::Spread;
