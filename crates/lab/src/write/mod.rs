//! Figures as files.

pub mod csv;
pub mod json;
pub mod svg;

use crate::{Error, Figure, Output};
use std::path::{Path, PathBuf};

/// What a figure can be written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The data, for anything that reads tables.
    Csv,
    /// The data with what each column is and where the figure comes from.
    Json,
    /// The plot.
    Svg,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::Csv, Self::Json, Self::Svg];

    /// The ending of its files' names.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Svg => "svg",
        }
    }
}

/// Writes a made figure into a directory, which comes into being if need be, as
/// NAME.ENDING. A figure without a plot makes no SVG.
///
/// Returns the files written.
///
/// # Errors
///
/// If a file cannot be written.
pub fn write(
    figure: &Figure,
    output: &Output,
    directory: &Path,
    formats: &[Format],
) -> Result<Vec<PathBuf>, Error> {
    let failed = |path: &Path, error| Error::Io { path: path.into(), error };
    std::fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
    let mut written = Vec::new();
    for format in formats {
        let text = match format {
            Format::Csv => csv::render(&output.table)?,
            Format::Json => json::render(figure, output)?,
            Format::Svg if output.plot.is_none() => continue,
            Format::Svg => svg::render(figure, output)?,
        };
        let path = directory.join(format!("{}.{}", figure.name, format.ending()));
        std::fs::write(&path, text).map_err(|error| failed(&path, error))?;
        written.push(path);
    }
    Ok(written)
}
