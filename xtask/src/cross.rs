//! Tests of programs for another target, run by an emulator of its processor or its system.

use crate::Failure;
use crate::process::{cargo, command, succeeds, target_dir};
use crate::test::beside::run_by_line;
use crate::test::output::Report;
use crate::test::skipped::Skipped;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What links and runs the programs of a target.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) target: &'static str,
    /// What is special about it, for people.
    pub(crate) what: &'static str,
    pub(crate) linker: String,
    /// The words before a program's path that run it; none where the kernel runs it.
    pub(crate) runner: Vec<String>,
    /// Variables for cargo and the runner.
    pub(crate) environment: Vec<(&'static str, OsString)>,
    /// The folder of what is built, in the target folder.
    pub(crate) folder: &'static str,
}

impl Machine {
    pub(crate) fn folder(&self) -> PathBuf {
        target_dir().join(self.folder)
    }

    /// Cargo with these arguments, which links and runs programs for this machine.
    pub(crate) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = cargo(arguments);
        command.args(["--target", self.target]).arg("--target-dir").arg(self.folder());
        let target = self.target.replace('-', "_").to_uppercase();
        command.env(format!("CARGO_TARGET_{target}_LINKER"), &self.linker);
        if !self.runner.is_empty() {
            command.env(format!("CARGO_TARGET_{target}_RUNNER"), self.runner.join(" "));
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Builds with these arguments and returns the words that run `program`, a file in the folder of
    /// what was built.
    ///
    /// # Errors
    /// If cargo fails.
    pub(crate) fn built(&self, arguments: &[&str], program: &str) -> Result<Vec<String>, Failure> {
        let build = self.cargo(&[&["build", "--quiet"], arguments].concat());
        crate::process::run(build).map_err(Failure::Failed)?;
        let program = self.folder().join(self.target).join("debug").join(program);
        let mut line = self.runner.clone();
        line.push(program.to_string_lossy().into_owned());
        Ok(line)
    }

    /// Runs the tests of packages. `shows` says whether what matters of the output is printed meanwhile.
    ///
    /// # Errors
    /// If cargo cannot be started.
    pub(crate) fn test(&self, packages: &[&str], shows: bool) -> Result<Outcome, Failure> {
        let broken = |error: io::Error| Failure::Failed(error.to_string());
        std::fs::create_dir_all(self.folder()).map_err(broken)?;
        let skipped_path = self.folder().join(format!("skipped-{}", std::process::id()));
        let mut tests = self.cargo(&["test", "--no-fail-fast"]);
        tests.args(packages.iter().flat_map(|name| ["--package", *name]));
        tests.env(skip::FILE, &skipped_path).env("RUST_BACKTRACE", "0");
        let mut report = Report::default();
        let success = run_by_line(tests, |line| match report.read(line) && shows {
            true => writeln!(io::stdout(), "{line}"),
            false => Ok(()),
        });
        let success = success.map_err(broken)?;
        report.end();
        let said = std::fs::read_to_string(&skipped_path).unwrap_or_default();
        let _ = std::fs::remove_file(&skipped_path);
        let mut skipped = Skipped::default();
        let counted = skipped.read(&said);
        for (name, reason) in &report.ignored {
            skipped.add(name, reason);
        }
        let failed = report.failed.iter();
        let failed = failed.map(|of| format!("{} {}: {}", of.program, of.test, of.reason));
        let mut failed: Vec<String> = failed.chain(report.build_errors.iter().cloned()).collect();
        if !success && failed.is_empty() {
            failed.push("cargo test has failed".into());
        }
        let passed = report.passed.saturating_sub(counted);
        Ok(Outcome { target: self.target, what: self.what, passed, failed, skipped })
    }
}

/// What the tests on a machine have shown.
#[derive(Debug)]
pub(crate) struct Outcome {
    target: &'static str,
    what: &'static str,
    passed: u64,
    /// The tests that failed with their reasons, and errors of the build.
    pub(crate) failed: Vec<String>,
    skipped: Skipped,
}

impl Outcome {
    pub(crate) fn text(&self) -> String {
        let Self { target, what, passed, failed, skipped } = self;
        let (bad, left) = (failed.len(), skipped.len());
        let mut lines =
            vec![format!("{target} ({what}): {passed} passed, {bad} failed, {left} skipped")];
        lines.extend(failed.iter().cloned().chain(skipped.lines()));
        lines.join("\n")
    }

    pub(crate) fn json(&self) -> Value {
        let Self { target, passed, failed, skipped, .. } = self;
        let skipped = skipped.lines();
        json!({ "target": target, "passed": passed, "failed": failed, "skipped": skipped })
    }

    /// The number of tests that failed, if any test has run.
    ///
    /// # Errors
    /// None has run.
    pub(crate) fn failures(&self) -> Result<f64, Failure> {
        if self.passed == 0 && self.failed.is_empty() {
            return Err(Failure::Failed("no test has run".into()));
        }
        Ok(self.failed.len() as f64)
    }
}

/// Has Rust's standard library for a target installed.
///
/// # Errors
/// Why it is not there.
pub(crate) fn install(target: &str) -> Result<(), String> {
    let found = command("rustc", &["--print", "target-libdir", "--target", target]).output();
    let folder = found.map(|output| output.stdout).unwrap_or_default();
    let folder = String::from_utf8_lossy(&folder).trim().to_owned();
    if !folder.is_empty() && Path::new(&folder).is_dir() {
        return Ok(());
    }
    if succeeds(command("rustup", &["target", "add", target])) {
        return Ok(());
    }
    Err(format!("`rustup target add {target}` has not installed Rust's standard library"))
}

/// Has the sources of Rust's standard library installed, from which cargo can build it anew.
///
/// # Errors
/// Why they are not there.
pub(crate) fn install_library_sources() -> Result<(), String> {
    let found = command("rustc", &["--print", "sysroot"]).output();
    let sysroot = found.map(|output| output.stdout).unwrap_or_default();
    let sysroot = String::from_utf8_lossy(&sysroot).trim().to_owned();
    let locked = Path::new(&sysroot).join("lib/rustlib/src/rust/library/Cargo.lock");
    if locked.is_file() || succeeds(command("rustup", &["component", "add", "rust-src"])) {
        return Ok(());
    }
    Err("`rustup component add rust-src` has not installed the sources of Rust's library".into())
}
