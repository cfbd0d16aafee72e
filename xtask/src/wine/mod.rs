//! `cargo xtask wine`: the tests for Windows, run by Wine.
//!
//! MinGW-w64 builds them, AWS-LC included. Wine has a folder of its own for its registry and its files,
//! in the target folder. Tests of what Wine itself lacks say so and are skipped (`skip::wine`).

use crate::Failure;
use crate::cross::{self, Machine, Outcome};
use crate::process::{command, run as run_shown, run_silently, target_dir};
use crate::processors::ENGINES;
use crate::system::on_path;
use clap::Args;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Only the tests of these packages
    #[arg(short, long)]
    package: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const TARGET: &str = "x86_64-pc-windows-gnu";
const COMPILER: &str = "x86_64-w64-mingw32-gcc";
const PACKAGES: &str = "apt install gcc-mingw-w64-x86-64 wine64";
/// Wine for 64-bit programs, where Debian has it. The program `wine` there also asks for Wine for 32-bit
/// programs, on standard error.
const DEBIANS: &str = "/usr/lib/wine/wine64";
const ELSEWHERE: [&str; 2] = ["wine64", "wine"];
/// The library that may be missing.
const LIBRARY: &str = "bcryptprimitives.dll";

/// The packages with tests for Windows, besides the engines.
const HOSTS: [&str; 8] = [
    "lightseal",
    "lightseal-cli",
    "lightseal-dtls-aws-lc",
    "lightseal-group-host",
    "lightseal-lab",
    "lightseal-net",
    "lightseal-owner-only",
    "lightseal-pki",
];

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let outcome = test(&arguments.package, !arguments.json)?;
    match arguments.json {
        true => println!("{}", outcome.json()),
        false => println!("{}", outcome.text()),
    }
    match outcome.failed.len() {
        0 => Ok(()),
        failed => Err(Failure::Failed(format!("{failed} tests failed in Wine"))),
    }
}

/// Runs the tests of these packages, or of all. `shows` says whether what matters of the output is
/// printed meanwhile.
///
/// # Errors
/// If there is no Wine or no MinGW here, or cargo cannot be started.
pub(crate) fn test(packages: &[String], shows: bool) -> Result<Outcome, Failure> {
    let some: Vec<_> = packages.iter().map(String::as_str).collect();
    let all = [&ENGINES[..], &HOSTS[..]].concat();
    machine()?.test(if some.is_empty() { &all } else { &some }, shows)
}

/// Builds the command with all that it has on Windows. Returns the words that run it.
///
/// # Errors
/// If there is no Wine or no MinGW here, or cargo fails.
pub(crate) fn lightseal() -> Result<Vec<String>, Failure> {
    built(&["--package", "lightseal"], "lightseal.exe")
}

/// Builds the laboratory's program, with optimisation. Returns the words that run it.
///
/// # Errors
/// As for [`lightseal`].
pub(crate) fn lab() -> Result<Vec<String>, Failure> {
    let words = ["--package", "lightseal-lab", "--bin", "lightseal-lab", "--profile", "test"];
    built(&[&words[..], &["--no-default-features"]].concat(), "lightseal-lab.exe")
}

fn built(words: &[&str], program: &str) -> Result<Vec<String>, Failure> {
    let machine = machine()?;
    let line = machine.built(words, program)?;
    let set = |(name, value): &(&str, OsString)| format!("{name}={}", value.to_string_lossy());
    let environment = machine.environment.iter().map(set);
    Ok(std::iter::once("env".into()).chain(environment).chain(line).collect())
}

/// Wine, with a folder for its registry and its files.
fn machine() -> Result<Machine, Failure> {
    let loader = match Path::new(DEBIANS).is_file() {
        true => Some(DEBIANS),
        false => ELSEWHERE.into_iter().find(|program| on_path(program)),
    };
    let Some(loader) = loader.filter(|_| on_path(COMPILER)) else {
        return Err(Failure::NotPossibleHere(PACKAGES.into()));
    };
    cross::install(TARGET).map_err(Failure::NotPossibleHere)?;
    let folder = target_dir().join("wine");
    let machine = Machine {
        target: TARGET,
        what: "Wine",
        linker: COMPILER.into(),
        runner: vec![loader.into()],
        environment: vec![
            ("WINEPREFIX", folder.join("prefix").into()),
            ("WINEDEBUG", "-all".into()),
            // Neither .NET nor a browser is offered, and the desktop's menu is left alone.
            ("WINEDLLOVERRIDES", "mscoree,mshtml=;winemenubuilder.exe=d".into()),
        ],
        folder: "wine",
    };
    prepare(&machine, &folder).map_err(Failure::NotPossibleHere)?;
    Ok(machine)
}

/// Makes Wine's folder, unless it is there, and the library that Wine may lack.
fn prepare(machine: &Machine, folder: &Path) -> Result<(), String> {
    let system = folder.join("prefix/drive_c/windows/system32");
    if system.join(LIBRARY).is_file() {
        return Ok(());
    }
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut boot = command(&machine.runner[0], &["wineboot", "--init"]);
    boot.envs(machine.environment.iter().map(|(name, value)| (name, value)));
    run_silently(boot)?;
    if system.join(LIBRARY).is_file() {
        return Ok(());
    }
    let source: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "src/wine/bcryptprimitives.c"].iter().collect();
    let mut compile = command(COMPILER, &["-shared", "-O", "-s", "-o"]);
    compile.arg(system.join(LIBRARY)).arg(source).arg("-ladvapi32");
    run_shown(compile)
}
