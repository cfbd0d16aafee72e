//! What a figure is, and what making one gives: a table, and how to plot it.

use crate::Error;
use serde::Serialize;

/// A figure or table of a paper, and how to make it again.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// Unique, for the command line and for file names.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Where it comes from.
    pub source: Source,
    /// What it shows and how it is made, in a few sentences.
    pub about: &'static str,
    /// Makes it.
    pub make: fn(&Options) -> Result<Output, Error>,
}

/// The paper's own figure.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Source {
    /// Authors, title, venue.
    pub paper: &'static str,
    /// As the paper counts: `Figure 1`.
    pub item: &'static str,
}

/// What whoever asks for figures may choose.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Points of a computed curve for each doubling on its horizontal axis.
    pub resolution: u32,
    /// Messages sent for each cell of a measured table; a fifth of them where there are
    /// hundreds of cells.
    pub messages: usize,
    /// Simulated handshakes for each point.
    pub runs: u32,
    /// Of all randomness in what is simulated.
    pub seed: u64,
}

impl Default for Options {
    /// Smooth to the eye at the size the plots have, and measured closely enough to tell schemes
    /// apart.
    fn default() -> Self {
        Self { resolution: 8, messages: 100_000, runs: 1000, seed: 1 }
    }
}

/// A made figure.
#[derive(Clone, Debug, Serialize)]
pub struct Output {
    /// The data, one observation a row.
    pub table: Table,
    /// How to draw it; a paper's table has no plot.
    pub plot: Option<Plot>,
}

/// Rows of named columns.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// What stands in each column.
    pub columns: Vec<Column>,
    /// As many cells a row as there are columns.
    pub rows: Vec<Vec<Cell>>,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Column {
    /// Unique in its table; ends in the unit where there is one.
    pub name: &'static str,
    /// What it is, and its unit.
    pub about: &'static str,
}

/// One value.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// A name.
    Text(String),
    /// A whole number.
    Integer(u64),
    /// A measured or computed number.
    Number(f64),
    /// Nothing.
    Missing,
}

/// How a table is drawn.
#[derive(Clone, Debug, Serialize)]
pub struct Plot {
    /// A line below the title.
    pub subtitle: String,
    /// What is drawn.
    pub marks: Marks,
    /// The column whose values name the curves, or the bars of each group; rows without one are
    /// not drawn so.
    pub series: &'static str,
    /// The series to draw in front of the others.
    pub emphasis: Option<&'static str>,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
}

/// What is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Marks {
    /// A curve for each series.
    Curves,
    /// A curve for each series, and a group of dots for each value of this column.
    CurvesAndDots(&'static str),
    /// For each value on the horizontal axis a group of bars, one for each series, with an error
    /// to either side from this column.
    Bars(&'static str),
}

/// One axis of a plot.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Axis {
    /// The column with the values.
    pub column: &'static str,
    /// What it shows, with the unit.
    pub label: &'static str,
    /// How values are laid out.
    pub scale: Scale,
    /// Where the axis starts.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
}

/// How values are laid out along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Evenly.
    Linear,
    /// By powers of two.
    Log2,
}

impl Table {
    /// The position of the column of this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

impl Cell {
    /// As a number, if it is one.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(*value as f64),
            Self::Number(value) => Some(*value),
            Self::Text(_) | Self::Missing => None,
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<u32> for Cell {
    fn from(value: u32) -> Self {
        Self::Integer(value.into())
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Missing, Into::into)
    }
}
