//! `lightseal-lab sweep`: runs a scenario at every point of its grid, or one shard of that work.
//!
//! A file of rows begins with a line about its sweep. By this line [`merge`](crate::merge)
//! recognises the files that belong together.

use crate::origin::{Content, Format, Origin, Shard, Split};
use crate::output::Output;
use crate::run::How;
use crate::tables::{Stopped, Table};
use clap::Args;
use lightseal_cli::failure::{Context, Failure};
use lightseal_cli::progress::Progress;
use lightseal_lab::figure::Cell;
use lightseal_lab::handshakes::{Cost, Totals};
use lightseal_lab::scenario::{
    COST_COLUMNS, Grid, HANDSHAKE_COLUMNS, Rows, Run, SUMMARY_COLUMNS, Scenario, cost_row,
    handshake_rows, read,
};
use sha2::{Digest, Sha256};
use std::ops::Range;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Args)]
pub(crate) struct SweepArgs {
    /// Scenario file, usually with a table of sweeps.
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    #[command(flatten)]
    how: How,
    /// Do only the I-th of N shards of the work; `lightseal lab merge` merges them.
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    shard: Shard,
    /// What the shards divide: the points of the grid, or the runs of every point [default: points
    /// if there is at least one for each shard, otherwise runs].
    #[arg(long, value_name = "WHAT")]
    split: Option<Split>,
    /// Write a row for each handshake instead of one for each point.
    #[arg(long)]
    rows: bool,
    /// Format to write: `csv` with a comment before its header, or `jsonl`, one object per line.
    #[arg(long, value_name = "FORMAT", default_value = "csv")]
    format: Format,
    /// Write into this file [default: standard output].
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl SweepArgs {
    /// What the shards divide. If there is only one shard, it does not matter.
    fn split(&self, points: usize) -> Split {
        match self.split {
            _ if self.shard == Shard::WHOLE => Split::Points,
            Some(split) => split,
            None if self.shard.count > points => Split::Runs,
            None => Split::Points,
        }
    }
}

/// The part of a grid that is run, and the kind of rows that are written.
struct Share {
    shard: Shard,
    split: Split,
    content: Content,
}

impl Share {
    /// The runs of this scenario at this point that belong to the shard.
    fn runs(&self, point: usize, scenario: &Scenario) -> Range<u32> {
        match self.split {
            Split::Points if self.shard.has(point) => 0..scenario.runs,
            Split::Points => 0..0,
            Split::Runs => self.shard.part(scenario.runs),
        }
    }

    /// The number of rows that these runs produce.
    fn rows(&self, runs: &Range<u32>, scenario: &Scenario) -> usize {
        match self.content {
            Content::Summaries => usize::from(!runs.is_empty()),
            Content::Handshakes | Content::Costs => runs.len() * scenario.pairs.len(),
        }
    }

    const fn columns(&self) -> &'static [(&'static str, &'static str)] {
        match self.content {
            Content::Summaries => SUMMARY_COLUMNS,
            Content::Handshakes => HANDSHAKE_COLUMNS,
            Content::Costs => COST_COLUMNS,
        }
    }
}

/// Does the work of the shard and writes its rows.
pub(crate) fn run(args: &SweepArgs) -> Result<(), Failure> {
    let path = &args.scenario;
    let text = read(path).map_err(Failure::new)?;
    let grid = Grid::parse(path, &text, args.how.instead()).map_err(Failure::new)?;
    let split = args.split(grid.points());
    let content = match (args.rows, split) {
        (true, _) => Content::Handshakes,
        (false, Split::Points) => Content::Summaries,
        // A summary can only be computed from all runs of its point.
        (false, Split::Runs) => Content::Costs,
    };
    let share = Share { shard: args.shard, split, content };
    let mut digest = Sha256::new();
    digest.update(env!("CARGO_PKG_VERSION"));
    digest.update([0, args.rows.into(), args.format as u8]);
    digest.update(format!("{:?}", args.how.instead()));
    digest.update(&text);
    let (mut runs, mut rows) = (0, 0);
    for point in 0..grid.points() {
        let scenario = grid.scenario(point).map_err(Failure::new)?;
        // The device may be described in a file of its own.
        digest.update(format!("{:?}", scenario.network.device));
        let of_point = share.runs(point, &scenario);
        rows += share.rows(&of_point, &scenario);
        runs += of_point.len();
    }
    let origin = Origin {
        digest: crate::origin::hexadecimal(&digest.finalize()),
        points: grid.points(),
        shard: args.shard,
        split,
        content,
        rows,
        rows_digest: Origin::NO_ROWS.into(),
    };
    let output = Output::begin(args.out.as_deref(), origin, args.format)?;
    let columns = Rows::new(std::iter::once("point").chain(grid.fields()), share.columns());
    let mut table = Table::begin(columns, args.format.form(), output)?;
    let progress = Progress::steps(runs, false);
    for point in 0..grid.points() {
        let scenario = grid.scenario(point).map_err(Failure::new)?;
        let runs = share.runs(point, &scenario);
        if runs.is_empty() {
            continue;
        }
        progress.set_step_name(&format!("point {} of {}", point + 1, grid.points()));
        let mut before = vec![Cell::Integer(point as u64)];
        before.extend(grid.values(point));
        let mut totals = Totals::default();
        let take = |run: Run| -> Result<(), Stopped> {
            progress.step();
            if content == Content::Handshakes {
                handshake_rows(&before, &scenario, &run).try_for_each(|row| table.row(&row))?;
                return Ok(());
            }
            let costs = run.outcomes.iter().map(|of| Cost::of(of, &scenario.network.device));
            for cost in costs {
                match content {
                    Content::Costs => table.row(&cost_row(&before, run.seed, &cost))?,
                    _ => totals.add(&cost),
                }
            }
            Ok(())
        };
        scenario.each_of(runs, args.how.threads, take).context(path.display())?;
        if content == Content::Summaries {
            table.row(&summary_row(&before, &totals))?;
        }
    }
    drop(progress);
    table.end()?.end()
}

/// The summary of handshakes as a row that begins with `before`.
pub(crate) fn summary_row(before: &[Cell], totals: &Totals) -> Vec<Cell> {
    let mut rows = Rows::new([], SUMMARY_COLUMNS);
    rows.add_summary(before, &totals.summary());
    rows.rows.pop().unwrap_or_default()
}

/// Writes to a file, or to standard output.
pub(crate) fn write(path: Option<&Path>, text: &str) -> Result<(), Failure> {
    use std::io::Write as _;
    match path {
        Some(path) => std::fs::write(path, text).context(path.display()),
        None => std::io::stdout().write_all(text.as_bytes()).context("standard output"),
    }
}
