//! A claim, its bar and its measurement.

use crate::Failure;
use std::borrow::Cow;
use std::fmt;

/// A figure that we publish, and how to measure it.
pub(crate) struct Claim {
    /// The name by which `cargo xtask claim` measures it.
    pub(crate) name: Cow<'static, str>,
    /// One sentence for a reader who does not know the code: the figure, its unit, and where the
    /// bar comes from.
    pub(crate) about: Cow<'static, str>,
    /// The limit that the figure must meet.
    pub(crate) bar: Bar,
    /// Expected duration of the measurement in seconds, without building the programs.
    pub(crate) seconds: u32,
    /// The measurement.
    pub(crate) measure: Box<dyn Measure>,
}

/// A way to measure a figure.
pub(crate) trait Measure: Send + Sync {
    /// Measures afresh. [`Failure::Failed`] counts against the claim.
    fn measure(&self) -> Result<Measured, Failure>;
}

impl<Procedure: Fn() -> Result<Measured, Failure> + Send + Sync> Measure for Procedure {
    fn measure(&self) -> Result<Measured, Failure> {
        self()
    }
}

/// The limit that a figure must meet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Bar {
    AtLeast(f64),
    AtMost(f64),
    /// For figures that the measurement itself rounds.
    Exactly(f64),
}

/// A figure and the details behind it.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) figure: f64,
    /// Lines printed above the verdict: the figure's parts, its spread, the number of repetitions.
    pub(crate) detail: String,
}

impl Bar {
    /// Whether `figure` meets the bar. A figure equal to the bar does.
    pub(crate) fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtLeast(bar) => figure >= bar,
            Self::AtMost(bar) => figure <= bar,
            Self::Exactly(bar) => figure == bar,
        }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, bar) = match self {
            Self::AtLeast(bar) => ('≥', bar),
            Self::AtMost(bar) => ('≤', bar),
            Self::Exactly(bar) => ('=', bar),
        };
        f.pad(&format!("{sign} {}", show(*bar)))
    }
}

/// A figure with up to four decimals and no trailing zeros.
pub(crate) fn show(figure: f64) -> String {
    let decimals = format!("{figure:.4}");
    decimals.trim_end_matches('0').trim_end_matches('.').to_owned()
}
