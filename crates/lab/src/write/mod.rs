//! Figures written as files.

pub mod csv;
pub mod json;
pub mod svg;

use crate::{Error, Figure, FigureData};
use std::path::{Path, PathBuf};

/// A file format of figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The data, for any program that reads tables.
    Csv,
    /// The data with descriptions of its columns and the source of the figure.
    Json,
    /// The plot.
    Svg,
}

impl Format {
    /// The formats in which a figure is written.
    pub const ALL: [Self; 3] = [Self::Csv, Self::Json, Self::Svg];

    /// The extension of file names.
    pub const fn ending(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Svg => "svg",
        }
    }
}

/// Writes a figure into a directory as NAME.EXTENSION, once in each format. The directory is
/// created if it does not exist. A figure without a plot has no SVG.
///
/// Returns the paths of the files.
///
/// # Errors
///
/// Fails if a file cannot be written.
pub fn write(
    figure: &Figure,
    output: &FigureData,
    directory: &Path,
    formats: &[Format],
) -> Result<Vec<PathBuf>, Error> {
    let failed = |path: &Path, error| Error::Io { path: path.into(), error };
    std::fs::create_dir_all(directory).map_err(|error| failed(directory, error))?;
    let mut written = Vec::new();
    for (i, format) in formats.iter().enumerate() {
        if formats[..i].contains(format) {
            continue;
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FigureOptions, figures};

    #[test]
    fn a_format_named_twice_is_written_once() {
        let figure = figures::by_name("lightmac-table-1").unwrap();
        let output = (figure.make)(&FigureOptions::default()).unwrap();
        let directory = std::env::temp_dir().join(format!("lab-write-{}", std::process::id()));
        let formats = [Format::Csv, Format::Svg, Format::Csv];
        let written = write(figure, &output, &directory, &formats);
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(written.unwrap(), [directory.join("lightmac-table-1.csv")]);
    }
}
