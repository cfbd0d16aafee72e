//! Scenario files: handshakes over duty-cycled radios, described in TOML.
//!
//! - [`Grid`]: a file with one scenario or, if it has a sweep, with one for each point of a grid;
//! - [`Scenario`]: a network, the handshakes in it, and the number of runs;
//! - [`Rows`]: the results as rows of tables;
//! - [`Mistake`]: a mistake in a file, with its line and its field;
//! - [`schema`]: the JSON Schema of such files.
//!
//! # A new field
//!
//! Add a field in `file.rs`, or in the settings of a link layer or a channel, with a doc comment,
//! which becomes its description in the schema.

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
use crate::handshakes::{HandshakeRun, Outcome, Profile};
use crate::network::Network;
use crate::parallel::in_order;
use crate::world::NodeId;
use core::ops::Range;
use core::time::Duration;
use std::num::NonZeroUsize;

/// Handshakes in a network, repeated in many runs.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// What the scenario shows, in its author's words.
    pub about: String,
    /// The network in which the handshakes take place.
    pub network: Network,
    /// The kind of handshake.
    pub profile: &'static Profile,
    /// The client and the server of each handshake.
    pub pairs: Vec<[NodeId; 2]>,
    /// The window of random times in which clients begin.
    pub window: Duration,
    /// The first retransmission timeout, as in [`HandshakeRun`].
    pub timeout: Option<Duration>,
    /// Number of runs. Each run simulates a world of its own.
    pub runs: u32,
    /// The seed of the first run. Each further run has the next seed.
    pub seed: u64,
}

/// The result of one run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioRun {
    /// The seed of all randomness of the run.
    pub seed: u64,
    /// The result of each handshake, in the order of the pairs.
    pub outcomes: Vec<Outcome>,
}

impl Scenario {
    /// Runs the scenario on this many threads, where `None` stands for all processors. Gives each
    /// run to `take`, in the order of the seeds. The results do not depend on the number of
    /// threads, and only a few runs are kept at a time.
    ///
    /// # Errors
    ///
    /// Fails when the engine refuses its configuration, or the link layer the topology, and when
    /// `take` fails.
    pub fn each<E: From<Error> + Send>(
        &self,
        threads: Option<NonZeroUsize>,
        take: impl FnMut(ScenarioRun) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each_of(0..self.runs, threads, take)
    }

    /// Runs only the runs of these numbers, counted from 0.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::each`].
    pub fn each_of<E: From<Error> + Send>(
        &self,
        runs: Range<u32>,
        threads: Option<NonZeroUsize>,
        take: impl FnMut(ScenarioRun) -> Result<(), E>,
    ) -> Result<(), E> {
        let make = |index| {
            let course = self.course(index as u64);
            Ok(ScenarioRun { seed: course.seed, outcomes: course.run()? })
        };
        in_order(threads, runs.start as usize..runs.end as usize, make, take)
    }

    /// Runs the scenario and returns all runs, for scenarios with few of them.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::each`].
    pub fn run(&self, threads: Option<NonZeroUsize>) -> Result<Vec<ScenarioRun>, Error> {
        let mut runs = Vec::with_capacity(self.runs as usize);
        self.each(threads, |run| {
            runs.push(run);
            Ok::<_, Error>(())
        })?;
        Ok(runs)
    }

    /// Captures every frame of the first run, and its secrets.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::run`].
    pub fn capture(&self) -> Result<Captured, Error> {
        Captured::record(&self.course(0)).map(|(_, captured)| captured)
    }

    fn course(&self, index: u64) -> HandshakeRun<'_> {
        HandshakeRun {
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
