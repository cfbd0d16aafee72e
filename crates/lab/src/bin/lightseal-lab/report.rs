//! `lightseal-lab report`: all figures of the papers on one page.

use clap::Args;
use lightseal_cli::failure::{Context, Failure};
use lightseal_cli::progress::Progress;
use lightseal_lab::figures::{FIGURES, by_name};
use lightseal_lab::report::{Made, Report, stored};
use lightseal_lab::{Figure, FigureOptions};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

#[derive(Clone, Debug, Args)]
pub(crate) struct ReportArgs {
    /// Write the page to this file.
    #[arg(long, value_name = "FILE", default_value = "report.html")]
    out: PathBuf,
    /// Make only these figures; the page names the others.
    #[arg(long, value_name = "NAME,..", value_delimiter = ',')]
    only: Vec<String>,
    /// Use few messages and handshakes: the page is ready within seconds, with rough figures.
    #[arg(long)]
    quick: bool,
    /// Read measurements of machines from this directory, besides those in this program. The page
    /// shows the newest measurements of each processor [default: results, if it exists].
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Number of points of a curve for each doubling on its horizontal axis [default: 8].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    resolution: Option<u32>,
    /// Number of messages for each cell of a measured table; a fifth of it in tables of hundreds of
    /// cells [default: 100000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(500..=10_000_000))]
    messages: Option<u32>,
    /// Number of simulated handshakes for each point [default: 1000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    runs: Option<u32>,
    /// Seed of all random choices.
    #[arg(long, value_name = "N", default_value_t = FigureOptions::default().seed)]
    seed: u64,
}

/// The directory of stored measurements, at the top of the repository.
const RESULTS: &str = "results";

/// Numbers of messages and handshakes with `--quick`: enough for every row.
const QUICK: (usize, u32) = (500, 4);

impl ReportArgs {
    fn options(&self) -> FigureOptions {
        let mut options = FigureOptions { seed: self.seed, ..FigureOptions::default() };
        if self.quick {
            (options.messages, options.runs) = QUICK;
        }
        options.resolution = self.resolution.unwrap_or(options.resolution);
        options.messages = self.messages.map_or(options.messages, |messages| messages as usize);
        options.runs = self.runs.unwrap_or(options.runs);
        options
    }

    /// The figures that were asked for, in the order of the registry.
    fn figures(&self) -> Result<Vec<&'static Figure>, Failure> {
        if let Some(name) = self.only.iter().find(|name| by_name(name).is_none()) {
            return Err(Failure::new(format_args!(
                "no figure {name}; lightseal lab figure --list names all"
            )));
        }
        let asked_for =
            |figure: &&Figure| self.only.is_empty() || self.only.iter().any(|n| n == figure.name);
        Ok(FIGURES.iter().filter(asked_for).collect())
    }

    /// The measurements in this program, and those in a directory.
    fn stored(&self) -> Result<Vec<stored::StoredMeasurement>, Failure> {
        let mut sets = stored::included().context("stored results")?;
        let directory = self.results.as_deref().or_else(|| {
            let here = Path::new(RESULTS);
            here.is_dir().then_some(here)
        });
        if let Some(directory) = directory {
            sets.extend(stored::read(directory).context("stored results")?);
        }
        Ok(sets)
    }
}

/// Makes the figures and writes the page.
pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    // Mistakes in the command line are found before any work is done.
    let (figures, stored, options) = (args.figures()?, args.stored()?, args.options());
    let openable = OpenOptions::new().append(true).create(true).open(&args.out);
    openable.context(args.out.display())?;
    let date = date(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs());
    let progress = Progress::steps(figures.len(), false);
    let mut made = Vec::with_capacity(figures.len());
    for figure in figures {
        progress.set_step_name(figure.name);
        let begun = Instant::now();
        let output = (figure.make)(&options).context(figure.name)?;
        tracing::debug!(figure = figure.name, seconds = begun.elapsed().as_secs_f64(), "made");
        made.push(Made { figure, output });
        progress.step();
    }
    drop(progress);
    let report = Report { date: &date, commit: &commit(), options, made, stored };
    let page = report.render().context("the page")?;
    std::fs::write(&args.out, page).context(args.out.display())?;
    let count = report.count();
    writeln!(
        std::io::stdout().lock(),
        "{}: {} figures made; {} of the papers' {} figures, tables and results are there",
        args.out.display(),
        report.made.len(),
        count.here,
        count.items
    )
    .context("standard output")
}

/// The date and time in UTC, from seconds since 1970.
fn date(seconds: u64) -> String {
    let leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut days, minutes) = (seconds / 86_400, seconds % 86_400 / 60);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year}-{month:02}-{:02} {:02}:{:02} UTC", days + 1, minutes / 60, minutes % 60)
}

/// The commit that the program was built from, if its builder gave it. Otherwise the commit that is
/// checked out in the current directory, if that is this project, and else the version.
fn commit() -> String {
    if let Some(commit) = option_env!("LIGHTSEAL_COMMIT") {
        return format!("commit {commit}");
    }
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        let output =
            git.args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
        let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let here = |top: String| Path::new(&top).join("crates/lab/src/report/page.rs").is_file();
    let described = git(&["rev-parse", "--show-toplevel"])
        .filter(|top| here(top.clone()))
        .and_then(|_| git(&["describe", "--always", "--dirty", "--tags"]));
    let version = || format!("version {}", env!("CARGO_PKG_VERSION"));
    described.map_or_else(version, |commit| format!("commit {commit}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_399, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (951_868_800, "2000-03-01 00:00 UTC"),
            (1_798_761_599, "2026-12-31 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(date(seconds), text);
        }
    }
}
