//! `cargo xtask targets`: that the workspace compiles for other systems and processors.
//!
//! What is checked is Rust. The C code of AWS-LC is not compiled: its build script gets a compiler and
//! an archiver that write empty files ([`StandIn`]), because `cargo check` links nothing. So no target
//! needs a C compiler, and each needs only Rust's standard library, which `rustup` installs.

use crate::Failure;
use crate::process::{cargo, target_dir};
use crate::{cross, mac};
use clap::Args;
use serde_json::json;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Only these targets (all of them if none is named)
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(TARGETS.iter().map(|t| t.name)))]
    only: Vec<String>,
    /// Link the command for macOS, AWS-LC included, with a linker from PyPI, and check nothing else
    #[arg(long, conflicts_with_all = ["only", "json"])]
    link: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is checked for a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    /// Everything that is no tool of ours, with its tests and examples.
    All,
    /// All of that but what needs Linux.
    Portable,
    /// The engines and what stands below them, which need no operating system.
    Engines,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::All => "all crates with their tests",
            Self::Portable => "all crates but those for Linux, with their tests",
            Self::Engines => "the engines",
        })
    }
}

#[derive(Clone, Copy, Debug)]
struct Target {
    name: &'static str,
    scope: Scope,
}

const TARGETS: &[Target] = &[
    Target { name: "aarch64-unknown-linux-gnu", scope: Scope::All },
    Target { name: "x86_64-unknown-linux-musl", scope: Scope::All },
    Target { name: "aarch64-unknown-linux-musl", scope: Scope::All },
    Target { name: "armv7-unknown-linux-gnueabihf", scope: Scope::All },
    Target { name: "i686-unknown-linux-gnu", scope: Scope::All },
    Target { name: "s390x-unknown-linux-gnu", scope: Scope::All },
    Target { name: "riscv64gc-unknown-linux-gnu", scope: Scope::All },
    Target { name: "aarch64-apple-darwin", scope: Scope::Portable },
    Target { name: "x86_64-apple-darwin", scope: Scope::Portable },
    Target { name: "x86_64-unknown-freebsd", scope: Scope::Portable },
    Target { name: "x86_64-pc-windows-gnu", scope: Scope::Portable },
    Target { name: "wasm32-unknown-unknown", scope: Scope::Engines },
    Target { name: "thumbv7em-none-eabi", scope: Scope::Engines },
];

/// What `cargo xtask lint targets` checks: the system that differs most from Linux, and for another one
/// the crates in which most of the differences stand.
const SAMPLE: &[(&str, &[&str])] = &[
    ("x86_64-pc-windows-gnu", &["lightseal"]),
    ("aarch64-apple-darwin", &["lightseal-net", "lightseal-owner-only", "lightseal-service"]),
];

/// Tools of a maintainer, who has Linux. `interop` also builds other projects' C libraries.
const TOOLS: &[&str] =
    &["documents", "fuzz", "interop", "interop-bogo", "interop-gateway", "xtask"];
/// Crates for Linux alone.
const LINUX: &[&str] = &["lightseal-gateway-host", "lightseal-packet-io"];
/// Crates without an operating system, with the features that they are checked with there.
const ENGINES: &[(&str, &str)] = &[
    ("lightmac", "present"),
    ("lightseal-aggregation", "agg-sender,r2d2-sender,agg-receiver,r2d2-receiver"),
    ("lightseal-dtls", "full,rustcrypto"),
    ("lightseal-group", "alloc,axiom,compact,listener,sender"),
    ("lightseal-macsec", "rustcrypto"),
];

/// What a check has shown.
#[derive(Debug)]
enum Outcome {
    Compiles,
    /// All that the compiler says.
    Faulty(String),
    /// Why it cannot be checked on this machine.
    NotHere(String),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compiles => f.write_str("ok"),
            Self::Faulty(said) => f.write_str(first_fault(said)),
            Self::NotHere(reason) => write!(f, "not checked here: {reason}"),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.link {
        for processor in mac::PROCESSORS {
            println!("{}", mac::linked(processor)?.text());
        }
        return Ok(());
    }
    let is_wanted =
        |name: &str| arguments.only.is_empty() || arguments.only.iter().any(|n| n == name);
    let (mut outcomes, mut faulty) = (Vec::new(), Vec::new());
    for target in TARGETS.iter().filter(|target| is_wanted(target.name)) {
        let outcome = check(target.name, calls(target.scope));
        if arguments.json {
            let shown = outcome.to_string();
            let ok = matches!(outcome, Outcome::Compiles);
            let (target, scope) = (target.name, target.scope.to_string());
            outcomes.push(json!({ "target": target, "checked": scope, "ok": ok, "said": shown }));
        } else {
            println!("{}: {}: {outcome}", target.name, target.scope);
        }
        if let Outcome::Faulty(said) = outcome {
            eprintln!("{said}");
            faulty.push(target.name);
        }
    }
    if arguments.json {
        println!("{}", serde_json::Value::from(outcomes));
    }
    if faulty.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!("does not compile for {}", faulty.join(", "))))
}

/// Checks all targets. Returns how many do not compile, and a line for each.
///
/// # Errors
/// One of them cannot be checked on this machine.
pub(crate) fn faulty() -> Result<(usize, String), Failure> {
    let (mut faulty, mut lines) = (0, Vec::new());
    for Target { name, scope } in TARGETS {
        let outcome = check(name, calls(*scope));
        if matches!(outcome, Outcome::NotHere(_)) {
            return Err(Failure::NotPossibleHere(format!("{name}: {outcome}")));
        }
        faulty += usize::from(matches!(outcome, Outcome::Faulty(_)));
        lines.push(format!("{name}: {scope}: {outcome}"));
    }
    Ok((faulty, lines.join("\n")))
}

/// Checks [`SAMPLE`].
pub(crate) fn check_sample() -> Result<(), String> {
    let mut faults = Vec::new();
    for (target, packages) in SAMPLE {
        let packages = packages.iter().flat_map(|name| ["--package", *name]).collect();
        match check(target, vec![packages]) {
            Outcome::Compiles => {}
            Outcome::Faulty(said) => faults.push(format!("{target}: {said}")),
            outcome @ Outcome::NotHere(_) => println!("lint targets: {target}: {outcome}"),
        }
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// What is checked for a scope: the arguments of each call of cargo.
fn calls(scope: Scope) -> Vec<Vec<&'static str>> {
    let linux = match scope {
        Scope::Engines => {
            let call = |(name, features): &(&'static str, &'static str)| {
                vec!["--package", *name, "--no-default-features", "--features", *features]
            };
            return ENGINES.iter().map(call).collect();
        }
        Scope::All => &[],
        Scope::Portable => LINUX,
    };
    let absent = TOOLS.iter().chain(linux).flat_map(|name| ["--exclude", *name]);
    vec![["--workspace", "--all-targets"].into_iter().chain(absent).collect()]
}

/// Checks a target with these calls of cargo.
fn check(target: &str, calls: Vec<Vec<&str>>) -> Outcome {
    if let Err(reason) = cross::install(target) {
        return Outcome::NotHere(reason);
    }
    let folder = target_dir().join("targets");
    let stand_in = match StandIn::write(&folder) {
        Ok(stand_in) => stand_in,
        Err(error) => return Outcome::NotHere(format!("{}: {error}", folder.display())),
    };
    for call in calls {
        let mut clippy = cargo(&["clippy", "--quiet", "--target", target]);
        clippy.arg("--target-dir").arg(&folder).args(call);
        stand_in.apply(&mut clippy, Some(target));
        // The compiler's own lints: those of clippy are judged on this system.
        clippy.args(["--", "--allow", "clippy::all", "--deny", "warnings"]);
        match clippy.stdin(Stdio::null()).output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                return Outcome::Faulty(String::from_utf8_lossy(&output.stderr).into_owned());
            }
            Err(error) => return Outcome::NotHere(error.to_string()),
        }
    }
    Outcome::Compiles
}

/// A C compiler and an archiver that write the files they are asked for, and nothing into them.
pub(crate) struct StandIn {
    compiler: PathBuf,
    archiver: PathBuf,
}

const COMPILER: &str = "#!/bin/sh\n\
    while [ $# -gt 0 ]; do case \"$1\" in -o) shift; : > \"$1\";; esac; shift; done\n";
const ARCHIVER: &str = "#!/bin/sh\n\
    for file in \"$@\"; do case \"$file\" in *.a) : > \"$file\"; exit 0;; esac; done\n";

impl StandIn {
    pub(crate) fn write(folder: &Path) -> std::io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let program = |name: &str, text: &str| -> std::io::Result<PathBuf> {
            let path = folder.join(name);
            // A file that is written anew would have cargo run the build scripts again.
            if std::fs::read_to_string(&path).ok().as_deref() != Some(text) {
                std::fs::write(&path, text)?;
            }
            executable(&path)?;
            Ok(path)
        };
        Ok(Self {
            compiler: program("no-c-compiler", COMPILER)?,
            archiver: program("no-archiver", ARCHIVER)?,
        })
    }

    /// Has build scripts for `target` use these; for this machine if that is `None`.
    pub(crate) fn apply(&self, command: &mut Command, target: Option<&str>) {
        let suffix = target.map(|target| format!("_{}", target.replace('-', "_")));
        let suffix = suffix.unwrap_or_default();
        command.env(format!("CC{suffix}"), &self.compiler);
        command.env(format!("CXX{suffix}"), &self.compiler);
        command.env(format!("AR{suffix}"), &self.archiver);
    }
}

#[cfg(unix)]
fn executable(path: &Path) -> std::io::Result<()> {
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
}

#[cfg(not(unix))]
fn executable(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// The first error in what the compiler says, or else its first line.
fn first_fault(said: &str) -> &str {
    let error = said.lines().find(|line| line.starts_with("error"));
    error.or_else(|| said.lines().next()).unwrap_or("it says nothing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_is_shown() {
        let said = "warning: x\n --> a.rs\nerror[E0425]: no `y`\n --> b.rs\nerror: z\n";
        assert_eq!(first_fault(said), "error[E0425]: no `y`");
        assert_eq!(first_fault("killed\n"), "killed");
        assert_eq!(first_fault(""), "it says nothing");
    }

    #[test]
    fn the_sample_is_of_known_targets() {
        let known = |name: &str| TARGETS.iter().any(|target| target.name == name);
        assert!(SAMPLE.iter().all(|(name, _)| known(name)));
    }
}
