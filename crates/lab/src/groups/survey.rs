//! Many transactions of one kind, each in a world of its own.

use super::configuration::Configuration;
use super::transaction::{Outcome, Transaction};
use crate::Error;
use crate::parallel::parallel;
use crate::statistics::deviation;

/// First transactions as in the paper.
#[derive(Clone, Copy, Debug)]
pub struct Survey {
    /// Of which configuration.
    pub configuration: &'static Configuration,
    /// How many.
    pub runs: u32,
    /// The seeds of all worlds follow from it.
    pub seed: u64,
}

/// A mean and a standard deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measure {
    /// The mean.
    pub mean: f64,
    /// The standard deviation of single runs.
    pub deviation: f64,
}

/// What transactions of one kind took.
#[derive(Clone, Debug)]
pub struct Summary {
    /// All of them.
    pub outcomes: Vec<Outcome>,
}

impl Survey {
    /// Runs all of them.
    ///
    /// # Errors
    /// Those of [`Transaction::run`].
    pub fn run(&self) -> Result<Summary, Error> {
        let outcomes = parallel(self.runs as usize, |index| {
            let seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index as u64);
            Transaction::paper(self.configuration, seed).run()
        });
        Ok(Summary { outcomes: outcomes.into_iter().collect::<Result<_, _>>()? })
    }
}

impl Summary {
    /// Of one value of each.
    pub fn of(&self, value: impl Fn(&Outcome) -> f64) -> Measure {
        let values: Vec<f64> = self.outcomes.iter().map(value).collect();
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        Measure { mean, deviation: deviation(&values) }
    }
}
