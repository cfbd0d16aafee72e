//! `lightseal-lab run`: runs a scenario from a file.

use crate::tables::{RunFailure, TableFile, TableFormat};
use clap::{Args, ValueEnum};
use lightseal_cli::failure::{Context, Failure};
use lightseal_cli::progress::Progress;
use lightseal_lab::figure::Cell;
use lightseal_lab::handshakes::{Cost, Totals};
use lightseal_lab::scenario::{
    Grid, HANDSHAKE_COLUMNS, Instead, Rows, SUMMARY_COLUMNS, Scenario, ScenarioRun, frame_line,
    handshake_rows, read, schema,
};
use std::fmt::Write as _;
use std::io::Write as _;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, Args)]
pub(crate) struct RunArgs {
    /// Scenario file.
    #[arg(value_name = "SCENARIO", required_unless_present = "schema")]
    scenario: Option<PathBuf>,
    /// Print the JSON Schema of scenario files instead.
    #[arg(long, conflicts_with = "scenario")]
    schema: bool,
    #[command(flatten)]
    options: RunOptions,
    /// Write NAME-handshakes and NAME-summary into this directory, which is created if necessary
    /// [default: only print the summary].
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Formats in which to write both.
    #[arg(
        long,
        value_name = "FORMAT,..",
        value_delimiter = ',',
        default_value = "csv,json",
        requires = "out"
    )]
    format: Vec<Format>,
    /// Also write the frames of the first run, as lines of JSON: NAME-frames.jsonl.
    #[arg(long, requires = "out")]
    log: bool,
    /// Also write a capture of the first run for other tools, and the secrets of its associations:
    /// NAME.pcap and NAME.keys.
    #[arg(long, requires = "out")]
    pcap: bool,
}

/// How scenarios are run.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct RunOptions {
    /// Number of runs, instead of the number in the file.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) runs: Option<u32>,
    /// Seed of the first run, instead of the seed in the file.
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Number of threads. It affects only the time that the work takes [default: all processors].
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) threads: Option<NonZeroUsize>,
}

fn threads(text: &str) -> Result<NonZeroUsize, &'static str> {
    let threads = text.parse().ok().filter(|threads: &NonZeroUsize| threads.get() <= 1024);
    threads.ok_or("expected a number from 1 to 1024")
}

impl RunOptions {
    /// The values that replace those of a file.
    pub(crate) const fn instead(self) -> Instead {
        Instead { seed: self.seed, runs: self.runs }
    }
}

/// The formats in which tables can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Csv,
    Json,
}

/// Runs the scenario and prints its summary.
pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    let Some(path) = args.scenario.as_deref().filter(|_| !args.schema) else {
        return std::io::stdout().write_all(schema().as_bytes()).context("standard output");
    };
    let text = read(path).map_err(Failure::new)?;
    let grid = Grid::parse(path, &text, args.options.instead()).map_err(Failure::new)?;
    if let Some(mistake) = grid.sweep("is for lightseal lab sweep") {
        return Err(Failure::new(mistake));
    }
    let scenario = grid.scenario(0).map_err(Failure::new)?;
    if let Some(out) = &args.out {
        // The directory is created before the work, so that a failure costs no work.
        std::fs::create_dir_all(out).context(out.display())?;
    }
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let form = |format: &Format| match format {
        Format::Csv => (TableFormat::Csv, "csv"),
        Format::Json => (TableFormat::Json, "json"),
    };
    let mut tables = Vec::new();
    for (out, format) in args.out.iter().flat_map(|out| args.format.iter().map(move |f| (out, f))) {
        let (form, ending) = form(format);
        let file = out.join(format!("{name}-handshakes.{ending}"));
        tables.push(TableFile::create(&file, Rows::new([], HANDSHAKE_COLUMNS), form)?);
    }
    let mut totals = Totals::default();
    let progress = Progress::steps(scenario.runs as usize, false);
    progress.set_step_name(&name);
    let take = |run: ScenarioRun| -> Result<(), RunFailure> {
        progress.step();
        let costs = run.outcomes.iter().map(|of| Cost::of(of, &scenario.network.device));
        costs.for_each(|cost| totals.add(&cost));
        for table in &mut tables {
            handshake_rows(&[], &scenario, &run).try_for_each(|row| table.row(&row))?;
        }
        Ok(())
    };
    scenario.each(args.options.threads, take).context(path.display())?;
    drop(progress);
    let mut summary = Rows::new([], SUMMARY_COLUMNS);
    summary.add_summary(&[], &totals.summary());
    let mut text = described(path, &scenario, &summary);
    if let Some(out) = &args.out {
        let mut say = |file: &Path| {
            let _ = writeln!(text, "  {}", file.display());
        };
        for table in tables {
            say(&table.end()?);
        }
        for format in &args.format {
            let (form, ending) = form(format);
            let file = out.join(format!("{name}-summary.{ending}"));
            let mut table = TableFile::create(&file, Rows::new([], SUMMARY_COLUMNS), form)?;
            summary.rows.iter().try_for_each(|row| table.row(row))?;
            say(&table.end()?);
        }
        let mut write = |name: &str, content: &[u8]| {
            let file = out.join(name);
            let _ = writeln!(text, "  {}", file.display());
            std::fs::write(&file, content).context(file.display())
        };
        if args.log || args.pcap {
            let captured = scenario.capture().context(path.display())?;
            if args.log {
                let lines: String = captured.frames.iter().map(frame_line).collect();
                write(&format!("{name}-frames.jsonl"), lines.as_bytes())?;
            }
            if args.pcap {
                let frames = captured.write(Vec::new()).context(path.display())?;
                write(&format!("{name}.pcap"), &frames)?;
                let file = out.join(format!("{name}.keys"));
                captured.keys.save(&file).context(file.display())?;
                let _ = writeln!(text, "  {}", file.display());
            }
        }
    }
    std::io::stdout().write_all(text.as_bytes()).context("standard output")
}

fn described(path: &Path, scenario: &Scenario, summary: &Rows) -> String {
    let mut text = format!(
        "{}: {} runs of {} over {}, {} nodes, {} a run, seed {}\n",
        path.display(),
        scenario.runs,
        scenario.profile.name,
        scenario.network.layer.settings().name(),
        scenario.network.topology.len(),
        match scenario.pairs.len() {
            1 => "1 handshake".into(),
            pairs => format!("{pairs} handshakes"),
        },
        scenario.seed,
    );
    if !scenario.about.is_empty() {
        let _ = writeln!(text, "  {}", scenario.about.replace(char::is_control, " "));
    }
    for (name, cell) in summary.columns.iter().zip(summary.rows.iter().flatten()) {
        let value = match cell {
            Cell::Text(text) => text.clone(),
            Cell::Integer(value) => value.to_string(),
            Cell::Number(value) => format!("{value:.3}"),
            Cell::Missing => "none".into(),
        };
        let _ = writeln!(text, "  {name:18} {value}");
    }
    text
}
