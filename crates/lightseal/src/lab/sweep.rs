//! `lightseal lab sweep`: a scenario at every point of its grid, or at those of one shard.
//!
//! A file of rows begins with a line about the sweep that they are of, by which
//! [`merge`](super::merge) knows what belongs together.

use super::run::How;
use crate::failure::{Context, Failure};
use crate::progress::Progress;
use ::lab::figure::Cell;
use ::lab::scenario::{Grid, HANDSHAKE_COLUMNS, Rows, SUMMARY_COLUMNS, read};
use clap::{Args, ValueEnum};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

#[derive(Clone, Debug, Args)]
pub(crate) struct SweepArgs {
    /// A scenario file with a table of sweeps.
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    #[command(flatten)]
    how: How,
    /// Only the I-th of N shares of the points; `lightseal lab merge` puts them together.
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    shard: Shard,
    /// A row for each handshake instead of one for each point.
    #[arg(long)]
    rows: bool,
    /// What to write: `csv` with a comment before its header, or `jsonl`, an object a line.
    #[arg(long, value_name = "FORMAT", default_value = "csv")]
    format: Format,
    /// Write into this file [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// What rows are written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Csv,
    Jsonl,
}

/// A share of a grid's points: those whose number leaves `index` − 1 when divided by `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    /// From 1 on.
    pub(super) index: usize,
    pub(super) count: usize,
}

impl Shard {
    /// Everything.
    pub(super) const WHOLE: Self = Self { index: 1, count: 1 };

    pub(super) const fn has(self, point: usize) -> bool {
        point % self.count == self.index - 1
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.count)
    }
}

impl FromStr for Shard {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('/').and_then(|(index, count)| {
            Some(Self { index: index.parse().ok()?, count: count.parse().ok()? })
        });
        let right = |shard: &Self| (1..=shard.count).contains(&shard.index) && shard.count < 10_000;
        parts.filter(right).ok_or("expected I/N, such as 1/4, with I from 1 to N")
    }
}

/// What the rows of a file are of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// SHA-256 of the scenario and of all that its rows depend on.
    pub(super) digest: String,
    /// Of the whole grid.
    pub(super) points: usize,
    pub(super) shard: Shard,
    /// Rows that follow.
    pub(super) rows: usize,
}

const CSV_MARK: &str = "# lightseal lab sweep";
const JSON_MARK: &str = r#"{"lightseal lab sweep":""#;

impl Origin {
    /// As a file's first line.
    pub(super) fn line(&self, format: Format) -> String {
        let Self { digest, points, shard, rows } = self;
        let text = format!("sha256={digest} points={points} shard={shard} rows={rows}");
        match format {
            Format::Csv => format!("{CSV_MARK} {text}\n"),
            Format::Jsonl => format!("{JSON_MARK}{text}\"}}\n"),
        }
    }

    /// From a file's first line, without its end.
    pub(super) fn read(line: &str) -> Option<(Self, Format)> {
        let (text, format) = match line.strip_prefix(CSV_MARK) {
            Some(text) => (text, Format::Csv),
            None => (line.strip_prefix(JSON_MARK)?.strip_suffix("\"}")?, Format::Jsonl),
        };
        let mut parts = text.split_whitespace();
        let mut part = |name: &str| parts.next()?.strip_prefix(name)?.strip_prefix('=');
        let digest = part("sha256")?.to_owned();
        let points = part("points")?.parse().ok()?;
        let shard = part("shard")?.parse().ok()?;
        let rows = part("rows")?.parse().ok()?;
        Some((Self { digest, points, shard, rows }, format))
    }
}

/// Runs all points of the shard and writes their rows.
pub(crate) fn run(args: &SweepArgs) -> Result<(), Failure> {
    let path = &args.scenario;
    let text = read(path).map_err(Failure::new)?;
    let grid = Grid::parse(path, &text, args.how.instead()).map_err(Failure::new)?;
    let columns = if args.rows { HANDSHAKE_COLUMNS } else { SUMMARY_COLUMNS };
    let before = std::iter::once("point").chain(grid.fields());
    let mut rows = Rows::new(before, columns);
    let mut digest = Sha256::new();
    digest.update(env!("CARGO_PKG_VERSION"));
    digest.update([0, args.rows.into(), args.format as u8]);
    digest.update(format!("{:?}", args.how.instead()));
    digest.update(&text);
    let mut runs = 0;
    for point in 0..grid.points() {
        let scenario = grid.scenario(point).map_err(Failure::new)?;
        // It may come from a file of its own.
        digest.update(format!("{:?}", scenario.network.device));
        runs += if args.shard.has(point) { scenario.runs as usize } else { 0 };
    }
    let progress = Progress::steps(runs, false);
    for point in (0..grid.points()).filter(|point| args.shard.has(*point)) {
        progress.name(&format!("point {} of {}", point + 1, grid.points()));
        let scenario = grid.scenario(point).map_err(Failure::new)?;
        let runs = scenario.run(args.how.threads, || progress.step()).context(path.display())?;
        let mut before = vec![Cell::Integer(point as u64)];
        before.extend(grid.values(point));
        match args.rows {
            true => rows.add_handshakes(&before, &scenario, &runs),
            false => rows.add_summary(&before, &scenario, &runs),
        }
    }
    drop(progress);
    let digest = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let origin = Origin { digest, points: grid.points(), shard: args.shard, rows: rows.rows.len() };
    let text = written(&origin, &rows, args.format).context(path.display())?;
    output(args.out.as_deref(), &text)
}

fn written(origin: &Origin, rows: &Rows, format: Format) -> Result<String, ::lab::Error> {
    let mut text = origin.line(format);
    if format == Format::Csv {
        text += &rows.csv_header()?;
    }
    for row in &rows.rows {
        text += &match format {
            Format::Csv => Rows::csv_line(row)?,
            Format::Jsonl => rows.json_line(row)?,
        };
    }
    Ok(text)
}

/// Writes to a file or to standard output.
pub(super) fn output(path: Option<&Path>, text: &str) -> Result<(), Failure> {
    match path {
        Some(path) => std::fs::write(path, text).context(path.display()),
        None => std::io::stdout().write_all(text.as_bytes()).context("standard output"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_share_all_points() {
        let shards: Vec<Shard> = (1..=3).map(|index| Shard { index, count: 3 }).collect();
        for point in 0..10 {
            assert_eq!(shards.iter().filter(|shard| shard.has(point)).count(), 1);
        }
        assert_eq!("2/3".parse(), Ok(shards[1]));
        for wrong in ["", "1", "0/1", "2/1", "1/0", "a/b", "1/99999"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_rows_are_of_is_read_again() {
        let shard = Shard { index: 2, count: 3 };
        let origin = Origin { digest: "ab".into(), points: 7, shard, rows: 2 };
        for format in [Format::Csv, Format::Jsonl] {
            let line = origin.line(format);
            assert_eq!(Origin::read(line.trim_end()), Some((origin.clone(), format)));
        }
        assert_eq!(Origin::read("point,seed"), None);
    }
}
