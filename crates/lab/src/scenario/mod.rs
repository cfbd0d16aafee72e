//! Scenario files: handshakes over duty-cycled radios, described in TOML.
//!
//! - [`Grid`]: a file, which is one scenario or, with a sweep, one for each point of a grid;
//! - [`Scenario`]: a network, who asks whom in it and how, and how often;
//! - [`Rows`]: what came of it, for tables;
//! - [`Mistake`]: what is wrong with a file, with its line and its field;
//! - [`schema`]: the JSON Schema of such files.
//!
//! # A new field
//!
//! One in `file.rs`, or in the settings of a link layer or a channel, with its doc comment for the
//! schema.

mod document;
mod file;
mod rows;
mod sweep;

pub use document::{Mistake, read};
pub use rows::{HANDSHAKE_COLUMNS, Rows, SUMMARY_COLUMNS, frame_line};
pub use sweep::{Grid, Instead};

use crate::Error;
use crate::capture::Captured;
use crate::handshakes::{Course, Outcome, Profile};
use crate::network::Network;
use crate::parallel::parallel_on;
use crate::world::NodeId;
use core::time::Duration;
use std::num::NonZeroUsize;

/// Handshakes in a network, again and again.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What it shows, in its author's words.
    pub about: String,
    /// Where.
    pub network: Network,
    /// Which.
    pub profile: &'static Profile,
    /// Who asks whom.
    pub pairs: Vec<[NodeId; 2]>,
    /// Clients begin at random times within so long.
    pub window: Duration,
    /// As in [`Course`].
    pub timeout: Option<Duration>,
    /// How often, each time in a world of its own.
    pub runs: u32,
    /// Of the first run; each other has the next one.
    pub seed: u64,
}

/// What came of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Of all its randomness.
    pub seed: u64,
    /// One for each pair.
    pub outcomes: Vec<Outcome>,
}

impl Scenario {
    /// Runs it on so many threads, `None` for all processors, and calls `progress` after each run.
    /// What comes of it does not depend on the threads.
    ///
    /// # Errors
    /// When the engine refuses its configuration, or the link layer the topology.
    pub fn run(
        &self,
        threads: Option<NonZeroUsize>,
        progress: impl Fn() + Sync,
    ) -> Result<Vec<Run>, Error> {
        let runs = parallel_on(threads, self.runs as usize, |index| {
            let course = self.course(index as u64);
            let run = course.run().map(|outcomes| Run { seed: course.seed, outcomes });
            progress();
            run
        });
        runs.into_iter().collect()
    }

    /// Every frame of its first run, and its secrets.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn capture(&self) -> Result<Captured, Error> {
        Captured::of(&self.course(0)).map(|(_, captured)| captured)
    }

    fn course(&self, index: u64) -> Course<'_> {
        Course {
            network: &self.network,
            profile: self.profile,
            pairs: self.pairs.clone(),
            window: self.window,
            timeout: self.timeout,
            seed: self.seed.wrapping_add(index),
        }
    }
}

/// The JSON Schema of scenario files.
pub fn schema() -> String {
    let schema = schemars::schema_for!(file::File);
    let text = serde_json::to_string_pretty(&schema).expect("a schema is JSON");
    text + "\n"
}

#[cfg(test)]
mod tests;
