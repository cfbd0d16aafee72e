//! `cargo xtask bogo`: BoringSSL's test suite BoGo, its DTLS cases, against our engine.
//!
//! - [`suite`]: builds the suite's runner and our shim;
//! - [`cases`]: which cases there are and how they ended.

mod cases;
mod suite;

pub(crate) use suite::runner;

use crate::process::workspace;
use crate::{Failure, measure};
use cases::{Reasons, VERSIONS, Verdict, Verdicts};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;
use suite::{Suite, config};

/// All cases over DTLS have this in their names.
const DTLS: &str = "*DTLS*";

/// The variable that makes the shim leave every case at once: the runner then lists them.
const ONLY_LIST: &str = "LIGHTSEAL_BOGO_ONLY_LIST";

/// How long the runner may be silent before it is ended: some mistakes of the engine block it for
/// ever. The longest cases, with some 65,000 changes of keys, take minutes.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only the cases whose names match this pattern, in which * stands for any text
    #[arg(long, value_name = "PATTERN")]
    filter: Option<String>,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Store the results in results/, with date, commit and machine
    #[arg(long, conflicts_with = "filter")]
    store: bool,
    /// Print what the runner said of each case that failed
    #[arg(long)]
    trace: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let suite = Suite::build()?;
    let known = known()?;
    let verdicts = all(&suite, arguments.filter.as_deref())?;
    let results = verdicts.json(&known);
    if arguments.store {
        let about = "BoringSSL's test suite BoGo, its DTLS cases: passed, failed and refused";
        let stored = measure::stored("bogo", about, "cargo xtask bogo --store", results.clone())?;
        let name = measure::stored_name("bogo", &stored);
        let path = workspace().join("results").join(format!("{name}.json"));
        fs::write(&path, format!("{stored}\n"))
            .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
        println!("results/{name}.json");
    }
    if arguments.json {
        println!("{results}");
    } else {
        print(&verdicts, &known, arguments.trace);
    }
    let unexplained = results["unexplained"].as_u64().unwrap_or(0);
    if unexplained > 0 {
        return Err(Failure::Failed(format!("{unexplained} cases failed for no known reason")));
    }
    Ok(())
}

/// The JSON of a run of all cases.
pub(crate) fn results() -> Result<Value, Failure> {
    Ok(all(&Suite::build()?, None)?.json(&known()?))
}

fn parsed_config() -> Result<Value, Failure> {
    let path = config();
    let failed = |error: String| Failure::Failed(format!("{}: {error}", path.display()));
    let text = fs::read_to_string(&path).map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
}

/// The failures that are explained.
fn known() -> Result<Reasons, Failure> {
    Ok(Reasons::read(&parsed_config()?, "KnownFailures"))
}

/// Runs the cases.
fn all(suite: &Suite, filter: Option<&str>) -> Result<Verdicts, Failure> {
    let reasons = Reasons::read(&parsed_config()?, "DisabledTests");
    let cases = list(suite)?;
    let unused = reasons.unused(&cases);
    if !unused.is_empty() {
        let unused = unused.join(", ");
        return Err(Failure::Failed(format!("config.json refuses cases that are none: {unused}")));
    }
    let wanted = |name: &&String| filter.is_none_or(|pattern| cases::matches(pattern, name));
    let mut verdicts = Verdicts::default();
    for case in cases.iter().filter(wanted) {
        let verdict = match reasons.of(case) {
            Some(reason) => Verdict::Refused(reason.to_owned()),
            // The runner says how it ended, unless it does not get there.
            None => Verdict::Failed("not run".into()),
        };
        verdicts.0.insert(case.clone(), verdict);
    }
    let to_run = verdicts.count(|_| true).failed;
    if to_run == 0 {
        return Ok(verdicts);
    }
    let mut runner = runner_of(suite, filter.unwrap_or(DTLS));
    runner.arg("-shim-config").arg(config());
    let mut done = 0;
    read(runner, |case, verdict| {
        if verdicts.0.contains_key(case) {
            verdicts.0.insert(case.to_owned(), verdict);
            done += 1;
            if done % 25 == 0 || done == to_run {
                eprint!("\r{done} of {to_run} cases");
                let _ = std::io::stderr().flush();
            }
        }
    })?;
    eprintln!();
    Ok(verdicts)
}

/// The names of all cases over DTLS.
fn list(suite: &Suite) -> Result<Vec<String>, Failure> {
    let mut runner = runner_of(suite, DTLS);
    runner.env(ONLY_LIST, "1");
    let mut names = Vec::new();
    read(runner, |case, _| names.push(case.to_owned()))?;
    Ok(names)
}

fn runner_of(suite: &Suite, cases: &str) -> Command {
    let mut runner = Command::new(&suite.runner);
    // Which error it was shows in the alert, which the runner compares; the texts are our own.
    runner.args(["-pipe", "-allow-unimplemented", "-loose-errors", "-idle-timeout", "5s"]);
    runner.args(["-num-workers", "2", "-test", cases]);
    runner.arg("-shim-path").arg(&suite.shim);
    // The runner's own folder: it writes next to itself.
    runner.current_dir(suite.runner.parent().expect("it is in a folder"));
    runner
}

/// Runs the runner, and calls `each` with every case and how it ended. A runner that is silent for
/// [`PATIENCE`] is ended; cases that it has not reported are left out.
fn read(mut runner: Command, mut each: impl FnMut(&str, Verdict)) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::NotPossibleHere(format!("the runner: {error}"));
    let mut child = runner.stdout(Stdio::piped()).spawn().map_err(failed)?;
    let output = child.stdout.take().expect("it is piped");
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n') {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut open: Option<(String, String)> = None;
    loop {
        let line = match lines.recv_timeout(PATIENCE) {
            Ok(line) => line.map_err(failed)?,
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                eprintln!("the runner is silent for {} s and is ended", PATIENCE.as_secs());
                child.kill().map_err(failed)?;
                break;
            }
        };
        let line = String::from_utf8_lossy(&line);
        match cases::verdict(&line) {
            Some((case, verdict)) => {
                if let Some((case, text)) = open.take() {
                    each(&case, Verdict::Failed(text));
                }
                match verdict {
                    Verdict::Failed(_) => open = Some((case.to_owned(), String::new())),
                    verdict => each(case, verdict),
                }
            }
            None => {
                if let Some((_, text)) = &mut open {
                    text.push_str(&line);
                    text.push('\n');
                }
            }
        }
    }
    if let Some((case, text)) = open {
        each(&case, Verdict::Failed(text));
    }
    // Its exit code only repeats what the lines say.
    child.wait().map(drop).map_err(failed)
}

fn print(verdicts: &Verdicts, known: &Reasons, trace: bool) {
    for (name, text) in verdicts.failed() {
        match known.of(name) {
            Some(why) => println!("failed: {name}: {why}"),
            None => println!("failed: {name}"),
        }
        if trace {
            println!("{text}");
        }
    }
    println!("refused, by reason:");
    for (reason, cases) in verdicts.refused() {
        println!("{cases:6} {reason}");
    }
    let versions = VERSIONS.map(|(_, name, version)| (name, verdicts.of_version(version)));
    for (name, counts) in versions.into_iter().chain([("all", verdicts.count(|_| true))]) {
        println!(
            "{name}: {} passed, {} failed, {} refused; {:.1} % of those not refused pass",
            counts.passed,
            counts.failed,
            counts.refused,
            counts.percent()
        );
    }
}
