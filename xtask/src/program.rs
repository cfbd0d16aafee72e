//! Programs of this workspace that measure something and print JSON: how they are built and run.

use crate::process::{capture, cargo, command, run, target_dir};
use crate::{Failure, system};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// A program of this workspace. It is built with optimisation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Program {
    package: &'static str,
    /// `--bin` or `--example`.
    kind: &'static str,
    pub(crate) name: &'static str,
}

/// The command that users have.
pub(crate) const LIGHTSEAL: Program = Program::bin("lightseal", "lightseal");
/// The laboratory: the simulator, its figures and its report.
pub(crate) const LAB: Program = Program::bin("lightseal-lab", "lightseal-lab");
/// Campaigns of attacks on the engines.
pub(crate) const CAMPAIGN: Program = Program::bin("attacks", "campaign");
/// Frames from invented sources, with a counting allocator.
pub(crate) const FLOOD: Program = Program::bin("attacks", "flood");
/// Groups in the laboratory, with a counting allocator.
pub(crate) const GROUPS: Program = Program::example("lightseal-lab", "groups");
/// Idle associations of a server, with a counting allocator.
pub(crate) const ASSOCIATIONS: Program = Program::example("testkit", "associations");
/// A million associations of a server, few of which are used, with a counting allocator.
pub(crate) const MANY_ASSOCIATIONS: Program = Program::example("testkit", "many_associations");
/// Exchanges and streams with shared tags in virtual time.
pub(crate) const PACE: Program = Program::example("testkit", "pace");
/// Two proxies under load, beside nginx.
pub(crate) const PROXY_SPEED: Program = Program::example("testkit", "proxy_speed");
/// Two proxies in restricted surroundings.
pub(crate) const RESTRICTED: Program = Program::example("testkit", "restricted");
/// Proxies of two programs with each other.
pub(crate) const MIXED: Program = Program::example("testkit", "mixed");
/// Groups whose controller and members are two programs.
pub(crate) const MIXED_GROUPS: Program = Program::example("testkit", "mixed_groups");
/// Hours of associations in virtual time.
pub(crate) const LIVENESS: Program = Program::example("testkit", "liveness");
/// Records that are sealed, opened and taken, and nothing else.
pub(crate) const RECORDS: Program = Program::example("lightseal-dtls", "records");

impl Program {
    const fn bin(package: &'static str, name: &'static str) -> Self {
        Self { package, kind: "--bin", name }
    }

    const fn example(package: &'static str, name: &'static str) -> Self {
        Self { kind: "--example", ..Self::bin(package, name) }
    }

    /// A program that meets other implementations, which are system packages.
    pub(crate) const fn peer(name: &'static str) -> Self {
        Self::bin("interop", name)
    }

    /// The program with these words as arguments.
    pub(crate) fn run(self, words: impl AsRef<str>) -> Run {
        let arguments = words.as_ref().split_whitespace().map(str::to_owned).collect();
        Run { program: self, arguments }
    }

    /// The call of cargo that builds and runs the program, up to the program's own arguments.
    pub(crate) fn cargo(self) -> Command {
        let Self { package, kind, name } = self;
        cargo(&["run", "--quiet", "--release", "--package", package, kind, name])
    }

    /// The file of the program in the folder of what is built.
    fn file(self) -> PathBuf {
        match self.kind {
            "--example" => Path::new("examples").join(self.name),
            _ => self.name.into(),
        }
    }

    /// Builds the program and returns its path.
    pub(crate) fn built(self) -> Result<PathBuf, Failure> {
        built(&[self])
    }
}

/// Builds programs with one call of cargo, so that dependencies are shared, and returns the path of
/// the last one. All are in one folder.
fn built(programs: &[Program]) -> Result<PathBuf, Failure> {
    let mut build = cargo(&["build", "--quiet", "--release"]);
    build.args(programs.iter().flat_map(|program| ["--package", program.package]));
    build.args(programs.iter().flat_map(|program| [program.kind, program.name]));
    run(build).map_err(Failure::Failed)?;
    let folder = target_dir().join("release");
    Ok(programs.last().map_or(folder.clone(), |program| folder.join(program.file())))
}

/// A program with its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    program: Program,
    arguments: Vec<String>,
}

impl Run {
    /// Adds an argument that may have spaces, such as a path.
    pub(crate) fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Builds the program and returns the command that runs it without cargo.
    pub(crate) fn command(&self) -> Result<Command, Failure> {
        let mut command = Command::new(self.program.built()?);
        command.args(&self.arguments);
        Ok(command)
    }

    /// Builds and runs the program and returns what it prints.
    pub(crate) fn text(&self) -> Result<String, Failure> {
        if self.program.package == "interop" {
            system::require_packages()?;
        }
        let mut line = self.program.cargo();
        line.arg("--").args(&self.arguments);
        capture(line).map_err(Failure::Failed)
    }

    /// Builds and runs the program and parses the JSON that it prints.
    pub(crate) fn json(&self) -> Result<Value, Failure> {
        parsed(self.program.name, self.text()?)
    }
}

/// Runs a Python program of `interop`, which starts our command, and returns the JSON that it
/// prints.
pub(crate) fn python(line: &str) -> Result<Value, Failure> {
    let program = LIGHTSEAL.built()?;
    let mut python = command("python3", &line.split_whitespace().collect::<Vec<_>>());
    python.env("LIGHTSEAL_PROGRAM", program);
    parsed("python3", capture(python).map_err(Failure::Failed)?)
}

/// Builds a program of `interop-gateway` and the programs that it starts, runs the program, and
/// returns the JSON that it prints, also if its exit code says that a trial failed.
pub(crate) fn beside_lightseal(name: &'static str, arguments: &[&str]) -> Result<Value, Failure> {
    let program = built(&[LIGHTSEAL, LAB, Program::bin("interop-gateway", name)])?;
    let mut command = command(&program.to_string_lossy(), arguments);
    command.arg("--json").stderr(std::process::Stdio::inherit());
    let done = command.output().map_err(|error| Failure::Failed(error.to_string()))?;
    if done.status.code() == Some(2) {
        let reason = format!("{name} has printed above what is missing");
        return Err(Failure::NotPossibleHere(reason));
    }
    parsed(name, String::from_utf8_lossy(&done.stdout).into_owned())
}

/// A test whose long run writes a report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LongTest {
    pub(crate) package: &'static str,
    /// The file of integration tests, which is a module of the program `it`.
    pub(crate) file: &'static str,
    pub(crate) name: &'static str,
    /// The variable that makes the run long, and its value.
    pub(crate) length: (&'static str, u32),
    /// The variable that names the file of the report.
    pub(crate) report: &'static str,
}

impl LongTest {
    /// Runs the test and returns its report, as [`reported`] does. This command runs a test once,
    /// however many figures are read in its report.
    pub(crate) fn run(self) -> Result<Value, Failure> {
        static REPORTS: Mutex<BTreeMap<String, Result<Value, Failure>>> =
            Mutex::new(BTreeMap::new());
        let mut reports = REPORTS.lock().unwrap_or_else(PoisonError::into_inner);
        reports.entry(format!("{self:?}")).or_insert_with(|| self.run_anew()).clone()
    }

    fn run_anew(self) -> Result<Value, Failure> {
        let Self { package, file, name, length, report } = self;
        let mut test = cargo(&["test", "--quiet", "--release", "--package", package]);
        test.args(["--test", "it", "--", "--exact", &format!("{file}::{name}")]);
        test.env(length.0, length.1.to_string());
        reported(test, report)
    }
}

/// Runs a test and returns its report, which it writes to the file that the variable names. A test
/// writes its report before it fails; the field `passed`, 1 or 0, is added to the report.
pub(crate) fn reported(mut test: Command, variable: &str) -> Result<Value, Failure> {
    let path = format!("{}-{}.json", variable.to_lowercase(), std::process::id());
    let path = std::env::temp_dir().join(path);
    test.env(variable, &path);
    let ran = capture(test);
    let text = std::fs::read_to_string(&path);
    let _ = std::fs::remove_file(&path);
    match (ran, text) {
        (ran, Ok(text)) => {
            let mut report = parsed("the test", text)?;
            report["passed"] = json!(u32::from(ran.is_ok()));
            Ok(report)
        }
        (Err(error), Err(_)) => Err(Failure::Failed(error)),
        (Ok(_), Err(error)) => Err(Failure::Failed(format!("no report: {error}"))),
    }
}

pub(crate) fn parsed(program: &str, text: String) -> Result<Value, Failure> {
    serde_json::from_str(&text)
        .map_err(|error| Failure::Failed(format!("{program} printed no JSON: {error}")))
}
