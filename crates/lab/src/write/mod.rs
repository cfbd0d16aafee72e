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
/// NAME.ENDING, each once. A figure without a plot makes no SVG.
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
    use crate::{Options, figures};

    #[test]
    fn a_format_named_twice_is_written_once() {
        let figure = figures::by_name("lightmac-table-1").unwrap();
        let output = (figure.make)(&Options::default()).unwrap();
        let directory = std::env::temp_dir().join(format!("lab-write-{}", std::process::id()));
        let formats = [Format::Csv, Format::Svg, Format::Csv];
        let written = write(figure, &output, &directory, &formats);
        std::fs::remove_dir_all(&directory).unwrap();
        assert_eq!(written.unwrap(), [directory.join("lightmac-table-1.csv")]);
    }
}
