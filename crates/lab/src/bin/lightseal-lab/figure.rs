//! `lightseal-lab figure`: reproduces the papers' figures.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use lightseal_cli::failure::{Context, Failure};
use lightseal_cli::progress::Progress;
use lightseal_cli::units::counted;
use lightseal_lab::figures::{FIGURES, by_name};
use lightseal_lab::write::{Format, json, write};
use lightseal_lab::{Figure, FigureOptions};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;

#[derive(Clone, Debug, Args)]
pub(crate) struct FigureArgs {
    /// Names of figures, or "all" [default: list all figures].
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// List all figures.
    #[arg(long, conflicts_with = "names")]
    list: bool,
    /// Write the files into this directory, which is created if necessary.
    #[arg(long, value_name = "DIR", default_value = "figures")]
    out: PathBuf,
    /// Formats in which to write each figure.
    #[arg(long, value_name = "FORMAT,..", value_delimiter = ',', default_value = "csv,json,svg",
          value_parser = formats())]
    format: Vec<Format>,
    /// Print the data as JSON instead of writing files.
    #[arg(long, conflicts_with_all = ["out", "format"], requires = "names")]
    print: bool,
    /// Number of points of a curve for each doubling on its horizontal axis.
    #[arg(long, value_name = "N", default_value_t = FigureOptions::default().resolution,
          value_parser = clap::value_parser!(u32).range(1..=1000))]
    resolution: u32,
    /// Number of messages for each cell of a measured table; a fifth of it in tables of hundreds of
    /// cells.
    #[arg(long, value_name = "N", default_value_t = FigureOptions::default().messages as u32,
          value_parser = clap::value_parser!(u32).range(500..=10_000_000))]
    messages: u32,
    /// Number of simulated handshakes for each point.
    #[arg(long, value_name = "N", default_value_t = FigureOptions::default().runs,
          value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    runs: u32,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = FigureOptions::default().seed)]
    seed: u64,
}

impl FigureArgs {
    fn options(&self) -> FigureOptions {
        let Self { resolution, messages, runs, seed, .. } = *self;
        FigureOptions { resolution, messages: messages as usize, runs, seed }
    }
}

fn formats() -> impl TypedValueParser<Value = Format> {
    let endings = PossibleValuesParser::new(Format::ALL.map(Format::ending));
    endings.try_map(|ending| {
        let format = Format::ALL.into_iter().find(|format| format.ending() == ending);
        format.ok_or("no such format")
    })
}

/// Reproduces and writes the figures that were asked for, or lists them all.
pub(crate) fn run(args: &FigureArgs) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if args.names.is_empty() {
        return out.write_all(list().as_bytes()).context("standard output");
    }
    // All names are checked first, so that a mistake in the last one costs no work.
    let figures = chosen(&args.names)?;
    let count = figures.len();
    for (number, figure) in (1..).zip(figures) {
        let what = format!("{}, {number} of {count}", figure.name);
        let made = Progress::show_while(&what, || (figure.make)(&args.options()));
        let output = made.context(figure.name)?;
        if args.print {
            let text = json::render(figure, &output).context(figure.name)?;
            out.write_all(text.as_bytes()).context("standard output")?;
            continue;
        }
        let written = write(figure, &output, &args.out, &args.format).context(figure.name)?;
        let mut line =
            format!("{}: {}", figure.name, counted(output.table.rows.len() as u64, "row"));
        for path in &written {
            let _ = write!(line, ", {}", path.display());
        }
        if output.plot.is_none() && args.format.contains(&Format::Svg) {
            line += " (a table: no SVG)";
        }
        writeln!(out, "{line}").context("standard output")?;
    }
    Ok(())
}

/// The figures with these names, each only once.
fn chosen(names: &[String]) -> Result<Vec<&'static Figure>, Failure> {
    let mut figures: Vec<&Figure> = Vec::new();
    for name in names {
        let named: Vec<&Figure> = match by_name(name) {
            Some(figure) => vec![figure],
            None if name == "all" => FIGURES.iter().collect(),
            None => {
                return Err(Failure::new(format_args!(
                    "no figure {name}; lightseal lab figure --list names all"
                )));
            }
        };
        for figure in named {
            if figures.iter().all(|other| other.name != figure.name) {
                figures.push(figure);
            }
        }
    }
    Ok(figures)
}

fn list() -> String {
    let width = FIGURES.iter().map(|figure| figure.name.len()).max().unwrap_or(0);
    FIGURES.iter().fold(String::new(), |mut text, figure| {
        let Figure { name, title, source, .. } = figure;
        let _ = writeln!(text, "{name:width$}  {title} ({}, {})", source.item, source.paper);
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_and_repeated_names_mean_each_once() {
        let names =
            |names: &[&str]| chosen(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(names(&["all"]).unwrap().len(), FIGURES.len());
        assert_eq!(names(&["all", "lightmac-table-1"]).unwrap().len(), FIGURES.len());
        assert_eq!(names(&["lightmac-table-1", "lightmac-table-1"]).unwrap().len(), 1);
        assert!(names(&["lightmac-table-9"]).is_err());
    }

    #[test]
    fn the_list_has_a_line_a_figure() {
        assert_eq!(list().lines().count(), FIGURES.len());
        assert!(list().contains("Figure 1"));
    }
}
