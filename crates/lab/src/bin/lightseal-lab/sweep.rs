//! `lightseal-lab sweep`: runs a scenario at every point of its grid, or one shard of that work.
//!
//! A file of rows begins with a line about its sweep. By this line [`merge`](crate::merge)
//! recognises the files that belong together.

use crate::origin::{RowContent, RowFormat, Shard, Split, SweepHeader};
use crate::output::Output;
use crate::run::RunOptions;
use crate::tables::{RunFailure, Table};
use clap::Args;
use lightseal_cli::failure::{Context, Failure};
use lightseal_cli::progress::Progress;
use lightseal_lab::figure::Cell;
use lightseal_lab::handshakes::{Cost, Totals};
use lightseal_lab::scenario::{
    COST_COLUMNS, Grid, HANDSHAKE_COLUMNS, Rows, SUMMARY_COLUMNS, Scenario, ScenarioRun, cost_row,
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
    options: RunOptions,
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
    /// RowFormat to write: `csv` with a comment before its header, or `jsonl`, one object per line.
    #[arg(long, value_name = "FORMAT", default_value = "csv")]
    format: RowFormat,
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
struct ShardWork {
    shard: Shard,
    split: Split,
    content: RowContent,
}

impl ShardWork {
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
            RowContent::Summaries => usize::from(!runs.is_empty()),
            RowContent::Handshakes | RowContent::Costs => runs.len() * scenario.pairs.len(),
        }
    }

    const fn columns(&self) -> &'static [(&'static str, &'static str)] {
        match self.content {
            RowContent::Summaries => SUMMARY_COLUMNS,
            RowContent::Handshakes => HANDSHAKE_COLUMNS,
            RowContent::Costs => COST_COLUMNS,
        }
    }
}

/// Does the work of the shard and writes its rows.
pub(crate) fn run(args: &SweepArgs) -> Result<(), Failure> {
    let path = &args.scenario;
    let text = read(path).map_err(Failure::new)?;
    let grid = Grid::parse(path, &text, args.options.instead()).map_err(Failure::new)?;
    let split = args.split(grid.points());
    let content = match (args.rows, split) {
        (true, _) => RowContent::Handshakes,
        (false, Split::Points) => RowContent::Summaries,
        // A summary can only be computed from all runs of its point.
        (false, Split::Runs) => RowContent::Costs,
    };
    let work = ShardWork { shard: args.shard, split, content };
    let mut digest = Sha256::new();
    digest.update(env!("CARGO_PKG_VERSION"));
    digest.update([0, args.rows.into(), args.format as u8]);
    digest.update(format!("{:?}", args.options.instead()));
    digest.update(&text);
    let (mut runs, mut rows) = (0, 0);
    for point in 0..grid.points() {
        let scenario = grid.scenario(point).map_err(Failure::new)?;
        // The device may be described in a file of its own.
        digest.update(format!("{:?}", scenario.network.device));
        let of_point = work.runs(point, &scenario);
        rows += work.rows(&of_point, &scenario);
        runs += of_point.len();
    }
    let origin = SweepHeader {
        digest: crate::origin::hexadecimal(&digest.finalize()),
        points: grid.points(),
        shard: args.shard,
        split,
        content,
        rows,
        rows_digest: SweepHeader::NO_ROWS.into(),
    };
    let output = Output::begin(args.out.as_deref(), origin, args.format)?;
    let columns = Rows::new(std::iter::once("point").chain(grid.fields()), work.columns());
    let mut table = Table::begin(columns, args.format.form(), output)?;
    let progress = Progress::steps(runs, false);
    for point in 0..grid.points() {
        let scenario = grid.scenario(point).map_err(Failure::new)?;
        let runs = work.runs(point, &scenario);
        if runs.is_empty() {
            continue;
        }
        progress.set_step_name(&format!("point {} of {}", point + 1, grid.points()));
        let mut before = vec![Cell::Integer(point as u64)];
        before.extend(grid.values(point));
        let mut totals = Totals::default();
        let take = |run: ScenarioRun| -> Result<(), RunFailure> {
            progress.step();
            if content == RowContent::Handshakes {
                handshake_rows(&before, &scenario, &run).try_for_each(|row| table.row(&row))?;
                return Ok(());
            }
            let costs = run.outcomes.iter().map(|of| Cost::of(of, &scenario.network.device));
            for cost in costs {
                match content {
                    RowContent::Costs => table.row(&cost_row(&before, run.seed, &cost))?,
                    _ => totals.add(&cost),
                }
            }
            Ok(())
        };
        scenario.each_of(runs, args.options.threads, take).context(path.display())?;
        if content == RowContent::Summaries {
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
