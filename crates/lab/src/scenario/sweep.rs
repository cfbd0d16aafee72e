//! Scenario files with the points of their grids.

use super::document::{Document, Value, key};
use super::file::{self, File};
use super::{Mistake, Scenario};
use crate::figure::Cell;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The largest number of points in a grid.
const MAX_POINTS: usize = 100_000;

/// Values given on the command line, which replace those in the file.
#[derive(Clone, Copy, Debug, Default)]
pub struct Instead {
    /// The seed of the first run.
    pub seed: Option<u64>,
    /// Number of runs.
    pub runs: Option<u32>,
}

/// A scenario file: a scenario, or a grid of them.
#[derive(Clone, Debug)]
pub struct Grid<'t> {
    document: Document<'t>,
    directory: PathBuf,
    instead: Instead,
    /// The file's table without the sweep.
    root: DeTable<'t>,
    axes: Vec<Axis<'t>>,
    points: usize,
}

/// A field that takes several values in turn.
#[derive(Clone, Debug)]
struct Axis<'t> {
    path: String,
    key: core::ops::Range<usize>,
    values: Vec<Value<'t>>,
}

impl<'t> Grid<'t> {
    /// Parses the text of the file at `path`. Paths of other files in it are relative to its
    /// directory.
    ///
    /// # Errors
    ///
    /// A mistake at any of the grid's points.
    pub fn parse(path: &Path, text: &'t str, instead: Instead) -> Result<Self, Mistake> {
        let document = Document::parse(&path.display().to_string(), text)?;
        let mut root = document.root.clone();
        let mut axes = Vec::new();
        if let Some(sweep) = root.remove("sweep") {
            find(&document, String::new(), &sweep, &mut axes)?;
        }
        axes.sort_by_key(|axis: &Axis<'_>| axis.key.start);
        let mut points = 1_usize;
        for axis in &axes {
            let refuse = |reason: &str| {
                Err(document.mistake(axis.key.start, format!("sweep.{}", axis.path), reason))
            };
            if axis.path == "sweep" || axis.path.starts_with("sweep.") {
                return refuse("there is no such field");
            }
            if (axis.path == "runs" && instead.runs.is_some())
                || (axis.path == "seed" && instead.seed.is_some())
            {
                return refuse("cannot be set on the command line too");
            }
            points = points.saturating_mul(axis.values.len());
            if points > MAX_POINTS {
                return refuse(&format!("makes the grid larger than {MAX_POINTS} points"));
            }
        }
        let directory = path.parent().unwrap_or(Path::new("")).into();
        let grid = Self { document, directory, instead, root, axes, points };
        (0..points).try_for_each(|point| grid.scenario(point).map(drop))?;
        Ok(grid)
    }

    /// The text of the file.
    pub fn text(&self) -> &str {
        self.document.text
    }

    /// A mistake about the sweep; `None` if the file has no sweep.
    pub fn sweep(&self, reason: &str) -> Option<Mistake> {
        let axis = self.axes.first()?;
        Some(self.document.mistake(axis.key.start, format!("sweep.{}", axis.path), reason))
    }

    /// Number of points in the grid; 1 without a sweep.
    pub const fn points(&self) -> usize {
        self.points
    }

    /// The dotted paths of the fields that change.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.axes.iter().map(|axis| axis.path.as_str())
    }

    /// The values of these fields at a point.
    pub fn values(&self, point: usize) -> Vec<Cell> {
        self.chosen(point).map(|(_, value)| cell(value)).collect()
    }

    /// Each axis with its value at a point. The last axis changes fastest.
    fn chosen(&self, point: usize) -> impl Iterator<Item = (&Axis<'t>, &Value<'t>)> {
        let mut period = self.points;
        self.axes.iter().map(move |axis| {
            period /= axis.values.len();
            (axis, &axis.values[point / period % axis.values.len()])
        })
    }

    /// The scenario at a point.
    ///
    /// # Errors
    ///
    /// A mistake in the scenario.
    pub fn scenario(&self, point: usize) -> Result<Scenario, Mistake> {
        let mut root = self.root.clone();
        for (axis, value) in self.chosen(point) {
            self.replace(&mut root, axis, value)?;
        }
        let places = root.clone();
        file::shape(&self.document, &mut root)?;
        let mut file: File = self.document.read(root)?;
        file.seed = self.instead.seed.unwrap_or(file.seed);
        file.runs = self.instead.runs.unwrap_or(file.runs);
        file.scenario(&self.directory)?.map_err(|(path, reason)| {
            let named: Vec<&str> = path.split('.').filter(|part| !is_index(part)).collect();
            let at = Document::position_of(&places, &path);
            self.document.mistake(at, named.join("."), reason)
        })
    }

    /// Sets a field to another value.
    fn replace(
        &self,
        root: &mut DeTable<'t>,
        axis: &Axis<'t>,
        value: &Value<'t>,
    ) -> Result<(), Mistake> {
        let none = |reason: String| {
            self.document.mistake(axis.key.start, format!("sweep.{}", axis.path), reason)
        };
        let mut table = root;
        let mut parts = axis.path.split('.').peekable();
        while let Some(part) = parts.next() {
            if parts.peek().is_none() {
                table.remove(part);
                table.insert(key(part, axis.key.clone()), value.clone());
                break;
            }
            if !table.contains_key(part) {
                let empty = DeValue::Table(DeTable::new());
                table.insert(key(part, axis.key.clone()), Spanned::new(axis.key.clone(), empty));
            }
            let mut next = table.get_mut(part).map(Spanned::get_mut);
            if let Some(DeValue::Array(array)) = next {
                let index = parts.next().and_then(|part| part.parse().ok());
                let item = index.and_then(|index: usize| array.get_mut(index));
                next = item.map(Spanned::get_mut);
            }
            let Some(DeValue::Table(inner)) = next else {
                return Err(none(format!("there is no such field: `{part}` is not a table")));
            };
            table = inner;
        }
        Ok(())
    }
}

fn is_index(part: &str) -> bool {
    part.bytes().all(|byte| byte.is_ascii_digit())
}

/// Finds the lists of values in a sweep. Their dotted paths may be written as keys, as tables, or
/// as both.
fn find<'t>(
    document: &Document<'t>,
    path: String,
    value: &Value<'t>,
    axes: &mut Vec<Axis<'t>>,
) -> Result<(), Mistake> {
    let refuse = |at, path: &str, reason| {
        let field = if path.is_empty() { "sweep".into() } else { format!("sweep.{path}") };
        Err(document.mistake(at, field, reason))
    };
    let Some(table) = value.get_ref().as_table() else {
        return refuse(value.span().start, &path, "must be a list of values");
    };
    for (name, value) in table {
        let dot = if path.is_empty() { "" } else { "." };
        let path = format!("{path}{dot}{}", name.get_ref());
        let Some(values) = value.get_ref().as_array() else {
            find(document, path, value, axes)?;
            continue;
        };
        if values.is_empty() {
            return refuse(name.span().start, &path, "must have a value");
        }
        axes.push(Axis { path, key: name.span(), values: values.iter().cloned().collect() });
    }
    Ok(())
}

/// The value as a cell of a table, on one line.
fn cell(value: &Value<'_>) -> Cell {
    match value.get_ref() {
        DeValue::String(text) => Cell::Text(text.split_whitespace().collect::<Vec<_>>().join(" ")),
        DeValue::Integer(number) => {
            let text = number.to_string();
            text.parse().map_or(Cell::Text(text), Cell::Integer)
        }
        DeValue::Float(number) => {
            let text = number.to_string();
            let finite = text.parse().ok().filter(|number: &f64| number.is_finite());
            finite.map_or(Cell::Text(text), Cell::Number)
        }
        _ => Cell::Text(written(value)),
    }
}

fn written(value: &Value<'_>) -> String {
    match value.get_ref() {
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(value) => value.to_string(),
        DeValue::Array(array) => {
            format!("[{}]", array.iter().map(written).collect::<Vec<_>>().join(", "))
        }
        DeValue::Table(table) => {
            let pair = |(key, value): (&Spanned<_>, &Value<'_>)| {
                let key: &toml::de::DeString<'_> = key.get_ref();
                format!("{key} = {}", written(value))
            };
            format!("{{{}}}", table.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
        _ => match cell(value) {
            Cell::Text(text) => text,
            Cell::Integer(number) => number.to_string(),
            Cell::Number(number) => number.to_string(),
            Cell::Missing => String::new(),
        },
    }
}
