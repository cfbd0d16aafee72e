//! Many transactions of one kind, each in a simulated world of its own.

use super::configuration::Configuration;
use super::transaction::{Outcome, Transaction};
use crate::Error;
use crate::parallel::parallel;
use crate::statistics::deviation;

/// First transactions in the paper's setting.
#[derive(Clone, Copy, Debug)]
pub struct Survey {
    /// The configuration of the group.
    pub configuration: &'static Configuration,
    /// Number of transactions.
    pub runs: u32,
    /// The seed from which the seeds of all worlds are derived.
    pub seed: u64,
}

/// A mean and a standard deviation over many runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeanAndDeviation {
    /// The mean.
    pub mean: f64,
    /// The standard deviation over the runs.
    pub deviation: f64,
}

/// The results of transactions of one kind.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The result of each transaction.
    pub outcomes: Vec<Outcome>,
}

impl Survey {
    /// Runs all transactions.
    ///
    /// # Errors
    ///
    /// The errors of [`Transaction::run`].
    pub fn run(&self) -> Result<Summary, Error> {
        let outcomes = parallel(self.runs as usize, |index| {
            let seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index as u64);
            Transaction::paper(self.configuration, seed).run()
        });
        Ok(Summary { outcomes: outcomes.into_iter().collect::<Result<_, _>>()? })
    }
}

impl Summary {
    /// The mean and deviation of a value that `value` takes from each outcome.
    pub fn of(&self, value: impl Fn(&Outcome) -> f64) -> MeanAndDeviation {
        let values: Vec<f64> = self.outcomes.iter().map(value).collect();
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        MeanAndDeviation { mean, deviation: deviation(&values) }
    }
}
