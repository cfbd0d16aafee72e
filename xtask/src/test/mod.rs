//! `cargo xtask test`: runs every test, and prints one line that counts them.
//!
//! - [`beside`]: runs further steps while the tests of the first one wait;
//! - [`output`]: reads the output of cargo and the test programs line by line;
//! - [`skipped`]: tests that reported that this machine cannot run them;
//! - [`timeline`]: how long tests run; [`stopwatch`]: where the time of building and running goes.

pub(crate) mod beside;
pub(crate) mod output;
pub(crate) mod skipped;
pub(crate) mod stopwatch;
mod timeline;

use crate::process::{cargo, target_dir};
use crate::{Failure, bogo, system, vectors};
use beside::{Beside, run_by_line};
use output::{Failed, Report};
use skipped::Skipped;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use stopwatch::Stopwatch;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Run only the tests of these packages
    #[arg(long, short, value_name = "NAME")]
    package: Vec<String>,
    /// Run only tests whose name contains this text
    #[arg(value_name = "TEXT")]
    filter: Option<String>,
    /// Install nothing, and skip tests for which something is missing
    #[arg(long)]
    no_install: bool,
}

/// The package that builds other implementations' libraries in C.
const INTEROP: &str = "interop";

/// One run of cargo that ends in its own `test result` lines, which are counted.
struct Step {
    name: &'static str,
    /// The packages that it tests; empty for the whole workspace.
    packages: &'static [&'static str],
    arguments: &'static [&'static str],
    /// A target folder of its own, inside the usual one.
    folder: Option<&'static str>,
    /// The step runs tests whose names contain one of these texts; empty for all.
    filters: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// Makes sure that the step can run on this machine. If it cannot, the error says why and the
    /// step is skipped.
    require: fn() -> Result<(), String>,
}

/// All tests of the workspace, on every machine: what a step is unless it says otherwise.
const STEP: Step = Step {
    name: "the workspace",
    packages: &[],
    arguments: &["test", "--no-fail-fast"],
    folder: None,
    filters: &[],
    environment: &[],
    require: nothing,
};

/// The tests of shared tags with both sides of all schemes, without `fast`, and with these features besides.
macro_rules! aggregation_without_fast {
    ($name:literal, $more:literal) => {
        Step {
            name: $name,
            packages: &["lightseal-aggregation"],
            arguments: &[
                "test",
                "--lib",
                "--tests",
                "--no-default-features",
                "--features",
                concat!("agg-sender,agg-receiver,r2d2-sender,r2d2-receiver", $more),
            ],
            ..STEP
        }
    };
}

/// The steps. The first one runs beside all others, which follow each other in this order and start
/// when the first one has been built. Short fuzz runs with fixed seeds are ordinary tests of the
/// workspace.
const STEPS: &[Step] = &[
    STEP,
    // Without the feature `fast`, the tests run over the code for small devices.
    aggregation_without_fast!("aggregation in little memory", ""),
    aggregation_without_fast!(
        "aggregation in little memory, with all that it can do",
        ",check-bytes,provisional,rivals"
    ),
    aggregation_without_fast!(
        "aggregation in memory as the scheme needs it, with all that it can do",
        ",alloc,check-bytes,provisional,rivals"
    ),
    Step {
        name: "PRESENT in little flash",
        packages: &["lightseal-present"],
        arguments: &["test", "--lib", "--tests", "--no-default-features"],
        ..STEP
    },
    Step {
        name: "LightMAC in little flash",
        packages: &["lightmac"],
        arguments: &["test", "--lib", "--tests", "--no-default-features", "--features", "present"],
        ..STEP
    },
    Step {
        name: "aggregation without any scheme",
        packages: &["lightseal-aggregation"],
        arguments: &["test", "--lib", "--no-default-features"],
        ..STEP
    },
    // AES in software, which no x86 processor of today uses by itself. The step is built in
    // release, so that constant time is also checked for the code that ships. It has other compiler
    // flags and therefore a target folder of its own, or each run would compile everything again.
    Step {
        name: "LightMAC over AES in software, in release",
        packages: &["lightmac"],
        arguments: &["test", "--release", "--test", "it"],
        folder: Some("aes-in-software"),
        filters: &["aes_kernels::", "constant_time::", "vectors::"],
        environment: &[("RUSTFLAGS", "--cfg aes_backend=\"soft\"")],
        ..STEP
    },
    // The target has musl, because for it Rust brings everything that a program is linked with.
    Step {
        name: "LightMAC on aarch64, emulated",
        packages: &["lightseal-present", "lightmac"],
        arguments: &["test", "--lib", "--tests", "--target", system::EMULATED_TARGET],
        environment: &[
            ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld"),
            // The emulated processor has every instruction that the emulator knows, AES included.
            ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER", "qemu-aarch64 -cpu max"),
            // Cases run about ten times slower in the emulator, and were tried natively above.
            ("PROPTEST_CASES", "24"),
            ("CARGO_PROFILE_DEV_DEBUG", "0"),
            ("CARGO_PROFILE_TEST_DEBUG", "0"),
        ],
        require: system::require_emulation,
        ..STEP
    },
];

/// The number of tests that run at the same time, unless the caller has set `RUST_TEST_THREADS`: two
/// for each processor, because many tests wait most of their time for timers and for each other.
fn threads() -> usize {
    let asked = std::env::var(THREADS).ok().and_then(|text| text.parse().ok());
    asked.unwrap_or_else(|| 2 * std::thread::available_parallelism().map_or(1, usize::from))
}

/// Says to Rust's harness how many tests run at the same time.
const THREADS: &str = "RUST_TEST_THREADS";

/// The requirement of a step that runs on every machine with cargo.
fn nothing() -> Result<(), String> {
    Ok(())
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    run_timed(arguments, None)
}

/// Runs the tests in the stopwatch's target folder, or without one in the usual target folder.
pub(crate) fn run_timed(
    arguments: &Arguments,
    stopwatch: Option<&mut Stopwatch>,
) -> Result<(), Failure> {
    let log = target_dir().join("test.log");
    let mut run = Run::new(log, arguments)?;
    run.stopwatch = stopwatch;
    run.provide();
    run.run_steps()?;
    run.conclude()
}

/// A step that is ready to run.
struct Prepared {
    name: &'static str,
    /// The target folder.
    folder: PathBuf,
    /// What the user reads when the step's output begins.
    title: String,
}

/// A run of the command.
struct Run<'a> {
    arguments: &'a Arguments,
    log_path: PathBuf,
    log: File,
    /// The file to which tests write that they are skipped.
    skipped_path: PathBuf,
    /// Packages of the workspace that cannot be built on this machine, and why.
    excluded: Vec<(&'static str, String)>,
    installed: Vec<String>,
    /// The runner of BoringSSL's test suite, if there is one.
    bogo_runner: Option<PathBuf>,
    /// Variables that name folders with the vectors of others, as far as these are there.
    vectors: Vec<(&'static str, PathBuf)>,
    report: Report,
    skipped: Skipped,
    /// Steps that did not run to their end.
    broken: Vec<&'static str>,
    stopwatch: Option<&'a mut Stopwatch>,
}

impl<'a> Run<'a> {
    fn new(log_path: PathBuf, arguments: &'a Arguments) -> Result<Self, Failure> {
        let failed = |path: &Path, error: io::Error| {
            Failure::NotPossibleHere(format!("{}: {error}", path.display()))
        };
        let folder = log_path.parent().expect("it is in the target folder");
        std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        let log = File::create(&log_path).map_err(|error| failed(&log_path, error))?;
        let skipped_path = folder.join("test.skipped");
        File::create(&skipped_path).map_err(|error| failed(&skipped_path, error))?;
        Ok(Self {
            arguments,
            log_path,
            log,
            skipped_path,
            excluded: Vec::new(),
            installed: Vec::new(),
            bogo_runner: None,
            vectors: Vec::new(),
            report: Report::default(),
            skipped: Skipped::default(),
            broken: Vec::new(),
            stopwatch: None,
        })
    }

    /// Installs the packages that the tests use, or says once which ones are missing. A test for
    /// which something is missing is skipped when it runs; a package that cannot be built is left
    /// out.
    fn provide(&mut self) {
        let wants = |package: &str| {
            let named = &self.arguments.package;
            named.is_empty() || named.iter().any(|name| name == package)
        };
        let provided = system::provide(&system::needs(wants), !self.arguments.no_install);
        self.installed = provided.installed;
        if let Some(reason) = provided.no_build {
            self.excluded.push((INTEROP, reason));
        }
        for line in &provided.remarks {
            println!("{line}");
        }
        if wants("interop-bogo") {
            match bogo::runner(!self.arguments.no_install) {
                Ok(runner) => self.bogo_runner = Some(runner),
                Err(reason) => println!("BoGo is skipped: {reason}."),
            }
        }
        if wants("lightseal-pki") {
            let may_install = !self.arguments.no_install;
            for (variable, what, found) in [
                (vectors::PKITS, "NIST's suite of certificates", vectors::pkits(may_install)),
                (vectors::WEBPKI, "rustls-webpki's chains", vectors::webpki(may_install)),
            ] {
                match found {
                    Ok(folder) => self.vectors.push((variable, folder)),
                    Err(reason) => println!("The test with {what} is skipped: {reason}."),
                }
            }
        }
    }

    fn run_steps(&mut self) -> Result<(), Failure> {
        let mut prepared = Vec::new();
        for step in STEPS {
            prepared.extend(self.prepare(step));
        }
        let mut prepared = prepared.into_iter();
        // Times that are measured side by side would say little.
        if self.stopwatch.is_some() {
            return prepared.try_for_each(|(step, command)| {
                self.step(&step, |each| run_by_line(command, each))
            });
        }
        let Some((first, command)) = prepared.next() else { return Ok(()) };
        let (others, commands): (Vec<_>, Vec<_>) = prepared.unzip();
        let mut beside = Beside::new(commands);
        self.step(&first, |each| {
            run_by_line(command, |line| {
                if output::started(line).is_some() {
                    beside.start();
                }
                each(line)
            })
        })?;
        others.iter().try_for_each(|step| self.step(step, |each| beside.read_next(each)))
    }

    /// The command of a step; `None` if the step has nothing to test or cannot run on this machine.
    fn prepare(&mut self, step: &Step) -> Option<(Prepared, Command)> {
        let selection = self.selection(step)?;
        if let Err(reason) = (step.require)() {
            println!("not testing {}: {reason}", step.name);
            self.skipped.add(step.name, &reason);
            return None;
        }
        let mut command = cargo(step.arguments);
        command.args(&selection);
        let mut folder = target_dir();
        if let Some(stopwatch) = &self.stopwatch {
            stopwatch.prepare(&mut command);
            command.arg("--timings");
            folder.clone_from(&stopwatch.folder);
        }
        if let Some(own) = step.folder {
            folder = folder.join(own);
            command.arg("--target-dir").arg(&folder);
        }
        match &self.arguments.filter {
            Some(text) => command.arg(text),
            None => command.arg("--").args(step.filters),
        };
        command.envs(step.environment.iter().copied());
        command.env(skip::FILE, &self.skipped_path).env(THREADS, threads().to_string());
        if let Some(runner) = &self.bogo_runner {
            command.env("LIGHTSEAL_BOGO_RUNNER", runner);
        }
        command.envs(self.vectors.iter().map(|(variable, folder)| (variable, folder)));
        // The tests of the package `lightseal` build the command before any test runs. Without this
        // variable other tests would build the command again by itself, with fewer features enabled
        // and therefore with all its dependencies.
        if selection.iter().any(|word| ["--workspace", "lightseal"].contains(&word.as_str())) {
            let program = match &self.stopwatch {
                Some(stopwatch) => Some(stopwatch.folder.join("debug")),
                None => {
                    let own = std::env::current_exe().ok();
                    own.as_deref().and_then(Path::parent).map(Path::to_owned)
                }
            };
            if let Some(folder) = program {
                command.env("LIGHTSEAL_PROGRAM", folder.join("lightseal"));
            }
        }
        let words = format!("{} {}", step.arguments.join(" "), selection.join(" "));
        let title = format!("testing {}: cargo {words}", step.name);
        Some((Prepared { name: step.name, folder, title }, command))
    }

    /// Runs a step by `run`, which gives each line of its output to a function and returns whether
    /// the step's command succeeded.
    fn step(
        &mut self,
        step: &Prepared,
        run: impl FnOnce(&mut dyn FnMut(&str) -> io::Result<()>) -> io::Result<bool>,
    ) -> Result<(), Failure> {
        println!("{}", step.title);
        let before = (self.report.failed.len(), self.report.build_errors.len());
        let success = run(&mut |line| self.read(line));
        let success = success.map_err(|error| Failure::Failed(error.to_string()))?;
        self.report.end();
        if let Some(stopwatch) = &mut self.stopwatch {
            stopwatch.end(&step.folder);
        }
        // Cargo also fails when a test does not compile, which no `test result` line counts.
        let after = (self.report.failed.len(), self.report.build_errors.len());
        if !success && (before.0 == after.0 || before.1 != after.1) {
            self.broken.push(step.name);
        }
        Ok(())
    }

    /// The packages of a step as cargo's arguments; `None` if none of its packages was asked for.
    fn selection(&mut self, step: &Step) -> Option<Vec<String>> {
        let asked = &self.arguments.package;
        let listed = |name: &str| step.packages.is_empty() || step.packages.contains(&name);
        let mut named: Vec<&str> = asked.iter().map(String::as_str).filter(|n| listed(n)).collect();
        if asked.is_empty() {
            named.extend(step.packages);
        } else if named.is_empty() {
            return None;
        }
        let excluded = self.excluded.iter().filter(|(name, _)| {
            step.packages.is_empty() && (named.is_empty() || named.contains(name))
        });
        let excluded: Vec<_> = excluded.cloned().collect();
        for (name, reason) in &excluded {
            self.skipped.add(&format!("the package {name}"), reason);
        }
        let is_excluded = |name: &str| excluded.iter().any(|(other, _)| *other == name);
        if asked.is_empty() && step.packages.is_empty() {
            let without = excluded.iter().flat_map(|(name, _)| ["--exclude", *name]);
            return Some(["--workspace"].into_iter().chain(without).map(str::to_owned).collect());
        }
        named.retain(|name| !is_excluded(name));
        if named.is_empty() {
            return None;
        }
        // The tests of interop-gateway start the command.
        if named.contains(&"interop-gateway") && !named.contains(&"lightseal") {
            named.push("lightseal");
        }
        Some(named.iter().flat_map(|name| ["--package", *name]).map(str::to_owned).collect())
    }

    /// Writes a line of a command's output to the log, shows it if it matters, and counts tests.
    fn read(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.log, "{line}")?;
        if let Some(stopwatch) = &mut self.stopwatch {
            stopwatch.read(line);
        }
        if self.report.read(line) {
            println!("{line}");
        }
        Ok(())
    }

    /// Prints the summary. Its last line has the numbers of tests and nothing else.
    fn conclude(mut self) -> Result<(), Failure> {
        let said = std::fs::read_to_string(&self.skipped_path).unwrap_or_default();
        let _ = std::fs::remove_file(&self.skipped_path);
        let counted = self.skipped.read(&said);
        for (name, reason) in &self.report.ignored {
            self.skipped.add(name, reason);
        }
        let passed = self.report.passed.saturating_sub(counted);
        let failed = &self.report.failed;
        println!();
        if !self.installed.is_empty() {
            println!("installed: {}", self.installed.join(", "));
        }
        for line in self.skipped.lines() {
            println!("{line}");
        }
        for error in &self.report.build_errors {
            println!("{error}");
        }
        for Failed { program, test, reason } in failed {
            let test = if test.is_empty() { "the program" } else { test };
            println!("failed: {program}: {test}: {reason}");
        }
        println!("everything that was printed: {}", self.log_path.display());
        println!("{passed} passed, {} failed, {} skipped", failed.len(), self.skipped.len());
        if !self.broken.is_empty() {
            let broken = self.broken.join(", ");
            return Err(Failure::Failed(format!("did not run to its end: {broken}")));
        }
        match failed.len() {
            0 if passed == 0 && self.skipped.len() == 0 => {
                Err(Failure::Failed("no test ran".into()))
            }
            0 => Ok(()),
            1 => Err(Failure::Failed("1 test failed".into())),
            count => Err(Failure::Failed(format!("{count} tests failed"))),
        }
    }
}
