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
pub use rows::{
    COST_COLUMNS, HANDSHAKE_COLUMNS, Rows, SUMMARY_COLUMNS, cost_row, frame_line, handshake_rows,
};
pub use sweep::{Grid, Instead};

use crate::Error;
use crate::capture::Captured;
use crate::handshakes::{Course, Outcome, Profile};
use crate::network::Network;
use crate::parallel::in_order;
use crate::world::NodeId;
use core::ops::Range;
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
    /// Runs it on so many threads, `None` for all processors, and gives each run to `take`, in the
    /// order of their seeds. What comes of it does not depend on the threads, and few runs are
    /// kept at a time.
    ///
    /// # Errors
    /// When the engine refuses its configuration, or the link layer the topology; and those of
    /// `take`.
    pub fn each<E: From<Error> + Send>(
        &self,
        threads: Option<NonZeroUsize>,
        take: impl FnMut(Run) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each_of(0..self.runs, threads, take)
    }

    /// Runs some of its runs alone, counted from 0.
    ///
    /// # Errors
    /// As [`Self::each`].
    pub fn each_of<E: From<Error> + Send>(
        &self,
        runs: Range<u32>,
        threads: Option<NonZeroUsize>,
        take: impl FnMut(Run) -> Result<(), E>,
    ) -> Result<(), E> {
        let make = |index| {
            let course = self.course(index as u64);
            Ok(Run { seed: course.seed, outcomes: course.run()? })
        };
        in_order(threads, runs.start as usize..runs.end as usize, make, take)
    }

    /// All its runs at once, where they are few.
    ///
    /// # Errors
    /// As [`Self::each`].
    pub fn run(&self, threads: Option<NonZeroUsize>) -> Result<Vec<Run>, Error> {
        let mut runs = Vec::with_capacity(self.runs as usize);
        self.each(threads, |run| {
            runs.push(run);
            Ok::<_, Error>(())
        })?;
        Ok(runs)
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
