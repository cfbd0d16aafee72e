//! Figures, and the result of making one: a table, and how to plot it.

use crate::Error;
use serde::Serialize;

/// A figure or table of a paper, and the function that reproduces it.
#[derive(Clone, Copy, Debug)]
pub struct Figure {
    /// The name on the command line and in file names; unique among all figures.
    pub name: &'static str,
    /// The title above the plot or table.
    pub title: &'static str,
    /// The item of the paper that it reproduces.
    pub source: PaperItem,
    /// What the figure shows and how it is made, in a few sentences.
    pub about: &'static str,
    /// Makes the figure.
    pub make: fn(&FigureOptions) -> Result<FigureData, Error>,
}

/// The figure or table of a paper.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct PaperItem {
    /// Authors, title and venue of the paper.
    pub paper: &'static str,
    /// The number in the paper, such as `Figure 1`.
    pub item: &'static str,
}

/// The choices of the person who asks for figures.
#[derive(Clone, Copy, Debug)]
pub struct FigureOptions {
    /// Number of points on a computed curve for each doubling along its horizontal axis.
    pub resolution: u32,
    /// Number of messages sent for each cell of a measured table. Tables with hundreds of cells
    /// send a fifth of them.
    pub messages: usize,
    /// Number of simulated handshakes for each point.
    pub runs: u32,
    /// Seed of all randomness in simulations.
    pub seed: u64,
}

impl Default for FigureOptions {
    /// Curves look smooth at the size of the plots, and measurements are precise enough to tell the
    /// schemes apart.
    fn default() -> Self {
        Self { resolution: 8, messages: 100_000, runs: 1000, seed: 1 }
    }
}

/// The result of making a figure.
#[derive(Clone, Debug, Serialize)]
pub struct FigureData {
    /// The data, one observation in each row.
    pub table: Table,
    /// How to draw the data; `None` for a paper's table.
    pub plot: Option<Plot>,
}

/// Rows of named columns.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// The columns, in the order of the cells.
    pub columns: Vec<Column>,
    /// The rows. Each has one cell for every column.
    pub rows: Vec<Vec<Cell>>,
}

/// The name and description of a column.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Column {
    /// The name, unique in its table. It ends in the unit if there is one.
    pub name: &'static str,
    /// What the values mean, and their unit.
    pub about: &'static str,
}

/// One value of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// A name or another text.
    Text(String),
    /// A non-negative integer.
    Integer(u64),
    /// A measured or computed number.
    Number(f64),
    /// No value.
    Missing,
}

/// How a table is drawn.
#[derive(Clone, Debug, Serialize)]
pub struct Plot {
    /// The line below the title.
    pub subtitle: String,
    /// The kind of marks to draw.
    pub marks: Marks,
    /// The column whose values name the curves, or the bars of each group. Rows without a value in
    /// it are not drawn as curves or bars.
    pub series: &'static str,
    /// The series to draw in front of the others.
    pub emphasis: Option<&'static str>,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
}

/// The kinds of marks in a plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Marks {
    /// A curve for each series.
    Curves,
    /// A curve for each series, and a group of dots for each value of the named column.
    CurvesAndDots(&'static str),
    /// A group of bars for each value on the horizontal axis, with one bar for each series. The
    /// named column has the error to either side.
    Bars(&'static str),
}

/// One axis of a plot.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Axis {
    /// The column with the values.
    pub column: &'static str,
    /// The label of the axis, with the unit.
    pub label: &'static str,
    /// The scale of the axis.
    pub scale: Scale,
    /// The value where the axis starts.
    pub from: f64,
    /// The value where the axis ends.
    pub to: f64,
}

/// How values are placed along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// In proportion to the value.
    Linear,
    /// In proportion to the binary logarithm of the value.
    Log2,
}

impl FigureData {
    /// A table that is not drawn.
    pub const fn table(table: Table) -> Self {
        Self { table, plot: None }
    }

    /// A table and how it is drawn.
    pub const fn plotted(table: Table, plot: Plot) -> Self {
        Self { table, plot: Some(plot) }
    }
}

impl Axis {
    /// An axis from 0 to `to` in proportion to the values.
    pub const fn linear(column: &'static str, label: &'static str, to: f64) -> Self {
        Self { column, label, scale: Scale::Linear, from: 0.0, to }
    }
}

impl Table {
    /// A table with columns of these names and descriptions.
    pub fn new(columns: &[(&'static str, &'static str)], rows: Vec<Vec<Cell>>) -> Self {
        let columns = columns.iter().map(|&(name, about)| Column { name, about }).collect();
        Self { columns, rows }
    }

    /// The index of the column with this name.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.name == name)
    }
}

impl Cell {
    /// The value as a number, if it is one.
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
