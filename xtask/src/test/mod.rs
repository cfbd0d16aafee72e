//! `cargo xtask test`: every test there is, and one line that counts them.
//!
//! - [`output`]: what cargo and the test programs print, read line by line;
//! - [`skipped`]: the tests that said that this machine cannot run them.

mod output;
mod skipped;

use crate::process::{cargo, target_dir};
use crate::{Failure, system};
use output::{Failed, Report};
use skipped::Skipped;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only the tests of these packages
    #[arg(long, short, value_name = "NAME")]
    package: Vec<String>,
    /// Only tests whose name contains this
    #[arg(value_name = "TEXT")]
    filter: Option<String>,
    /// Install nothing, and skip what lacks something
    #[arg(long)]
    no_install: bool,
}

/// The package that is built from other people's libraries in C.
const INTEROP: &str = "interop";

/// One run of cargo that ends in its own `test result` lines, which are counted.
struct Step {
    name: &'static str,
    /// The packages that it tests; none are all of them.
    packages: &'static [&'static str],
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    /// Makes sure that it can run here; where it cannot, the error says why, and the
    /// step is skipped.
    require: fn() -> Result<(), String>,
}

/// What is run, in this order. A fuzz smoke run is a test with a fixed seed and is
/// listed here like any other.
const STEPS: &[Step] = &[
    Step {
        name: "the workspace",
        packages: &[],
        arguments: &["test", "--no-fail-fast"],
        environment: &[],
        require: nothing,
    },
    // What is compiled in only to be broken.
    Step {
        name: "the forgery of aggregated GCM tags",
        packages: &["dtls", "fuzz"],
        arguments: &[
            "test",
            "--features",
            "dtls/dangerous-gcm-aggregation,fuzz/dangerous-gcm-aggregation",
            "--test",
            "dangerous",
            "--test",
            "forgery",
        ],
        environment: &[],
        require: nothing,
    },
    // What no x86 processor of today runs by itself: AES without instructions for it. In
    // release, so that constant time is also checked of the code that ships. Other flags
    // get a folder of their own, or each run would compile everything again.
    Step {
        name: "LightMAC over AES in software, in release",
        packages: &["lightmac"],
        arguments: &[
            "test",
            "--release",
            "--test",
            "aes_kernels",
            "--test",
            "constant_time",
            "--test",
            "vectors",
            "--target-dir",
            "target/aes-in-software",
        ],
        environment: &[("RUSTFLAGS", "--cfg aes_backend=\"soft\"")],
        require: nothing,
    },
    // musl, because with it Rust brings all that a program is linked from.
    Step {
        name: "LightMAC on aarch64, emulated",
        packages: &["lightmac"],
        arguments: &["test", "--lib", "--tests", "--target", system::EMULATED_TARGET],
        environment: &[
            ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld"),
            // Every instruction that the emulator knows, AES among them.
            ("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER", "qemu-aarch64 -cpu max"),
            // Cases are about ten times slower here, and were tried above.
            ("PROPTEST_CASES", "24"),
            ("CARGO_PROFILE_DEV_DEBUG", "0"),
            ("CARGO_PROFILE_TEST_DEBUG", "0"),
        ],
        require: system::require_emulation,
    },
];

/// For a step that runs wherever cargo does.
fn nothing() -> Result<(), String> {
    Ok(())
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let log = target_dir().join("test.log");
    let mut run = Run::new(log, arguments)?;
    run.provide();
    for step in STEPS {
        run.step(step)?;
    }
    run.conclude()
}

/// A run of the command.
struct Run<'a> {
    arguments: &'a Arguments,
    log_path: PathBuf,
    log: File,
    /// Where tests say that they are skipped.
    skipped_path: PathBuf,
    /// Packages of the workspace that cannot be built here, and why.
    excluded: Vec<(&'static str, String)>,
    installed: Vec<String>,
    report: Report,
    skipped: Skipped,
    /// Steps that did not run to their end.
    broken: Vec<&'static str>,
}

impl<'a> Run<'a> {
    fn new(log_path: PathBuf, arguments: &'a Arguments) -> Result<Self, Failure> {
        let failed = |path: &Path, error: std::io::Error| {
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
            report: Report::default(),
            skipped: Skipped::default(),
            broken: Vec::new(),
        })
    }

    /// Installs what the tests use, or says once what is missing. A test that lacks something is
    /// skipped when it runs; what cannot be built is left out.
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
    }

    fn step(&mut self, step: &Step) -> Result<(), Failure> {
        let Some(selection) = self.selection(step) else { return Ok(()) };
        if let Err(reason) = (step.require)() {
            println!("not testing {}: {reason}", step.name);
            self.skipped.add(step.name, &reason);
            return Ok(());
        }
        let mut command = cargo(step.arguments);
        command.args(&selection).args(self.arguments.filter.as_deref());
        command.envs(step.environment.iter().copied());
        command.env(skip::FILE, &self.skipped_path);
        // The tests of the package `lightseal` build the command before any test runs; others would
        // build it for itself alone, and with it all that it depends on once more, with fewer features.
        if selection.iter().any(|word| ["--workspace", "lightseal"].contains(&word.as_str())) {
            let own = std::env::current_exe().ok();
            if let Some(folder) = own.as_deref().and_then(Path::parent) {
                command.env("LIGHTSEAL_PROGRAM", folder.join("lightseal"));
            }
        }
        println!(
            "testing {}: cargo {} {}",
            step.name,
            step.arguments.join(" "),
            selection.join(" ")
        );
        let before = (self.report.failed.len(), self.report.build_errors.len());
        let success = self.read(command)?;
        // Cargo also fails when a test does not compile, which no line counts.
        let after = (self.report.failed.len(), self.report.build_errors.len());
        if !success && (before.0 == after.0 || before.1 != after.1) {
            self.broken.push(step.name);
        }
        Ok(())
    }

    /// The packages of a step as cargo's arguments; none where nobody asked for any of them.
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
        // Its tests start the command.
        if named.contains(&"interop-gateway") && !named.contains(&"lightseal") {
            named.push("lightseal");
        }
        Some(named.iter().flat_map(|name| ["--package", *name]).map(str::to_owned).collect())
    }

    /// Runs `command`, keeps what it prints, shows what matters of that, and counts; whether it
    /// succeeded.
    fn read(&mut self, mut command: Command) -> Result<bool, Failure> {
        let failed = |error: std::io::Error| Failure::Failed(error.to_string());
        // One pipe for both, for they must stay in order.
        let (reader, writer) = std::io::pipe().map_err(failed)?;
        command.stdout(writer.try_clone().map_err(failed)?).stderr(writer);
        let mut child = command.spawn().map_err(failed)?;
        // What it holds of the pipe would keep it open.
        drop(command);
        for line in BufReader::new(reader).split(b'\n') {
            let line = line.map_err(failed)?;
            let line = String::from_utf8_lossy(&line);
            writeln!(self.log, "{line}").map_err(failed)?;
            if self.report.read(&line) {
                println!("{line}");
            }
        }
        self.report.end();
        Ok(child.wait().map_err(failed)?.success())
    }

    /// Says what came of it. The last line counts, and nothing else is on it.
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
