//! `cargo xtask router`: the proxy alone, as a static program for a machine with little flash.
//!
//! Neither a C compiler nor the files of another system are needed: without AWS-LC everything is Rust,
//! and Rust's own linker and its musl link it. The standard library is built as well, for size and
//! without backtraces, which need the tables that are left out here. For a processor for which Rust's
//! musl cannot be had, `ziglang` links.

use crate::Failure;
use crate::cross;
use crate::process::{cargo, run, target_dir};
use crate::zig::cargo_zigbuild;
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The processors of routers.
pub(crate) const TARGETS: [&str; 3] =
    ["x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl", "armv7-unknown-linux-musleabihf"];

#[derive(Args)]
pub(crate) struct Arguments {
    /// Only these targets (all of them if none is named)
    #[arg(value_parser = PossibleValuesParser::new(TARGETS))]
    only: Vec<String>,
    /// Cargo features of the package `lightseal` besides `proxy`, such as `state`
    #[arg(long, value_name = "FEATURES")]
    features: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run_command(arguments: &Arguments) -> Result<(), Failure> {
    let only = &arguments.only;
    let mut built = Vec::new();
    let is_wanted = |target: &str| only.is_empty() || only.iter().any(|name| name == target);
    for target in TARGETS.into_iter().filter(|target| is_wanted(target)) {
        let path = build(target, arguments.features.as_deref().unwrap_or_default())?;
        let bytes = size(&path)?;
        if !arguments.json {
            println!("{target}: {:.2} MB: {}", bytes as f64 / 1e6, path.display());
        }
        built.push(json!({ "target": target, "bytes": bytes, "path": path }));
    }
    if arguments.json {
        println!("{}", Value::from(built));
    }
    Ok(())
}

pub(crate) fn size(program: &Path) -> Result<u64, Failure> {
    let metadata = program.metadata();
    metadata
        .map(|metadata| metadata.len())
        .map_err(|error| Failure::Failed(format!("{}: {error}", program.display())))
}

/// Tables for unwinding are left out: a program that aborts when it panics does not unwind.
const LINKER_SCRIPT: &str = "SECTIONS { /DISCARD/ : { *(.eh_frame) *(.eh_frame_hdr) \
    *(.gcc_except_table .gcc_except_table.*) } } INSERT AFTER .text;\n";

/// Builds the proxy for a target with these features more, and returns the program's path.
pub(crate) fn build(target: &str, features: &str) -> Result<PathBuf, Failure> {
    let folder = target_dir().join("router");
    let sources = cross::install_library_sources();
    let (mut build, flags) = match cross::install(target) {
        Ok(()) => (cargo(&["build", "--quiet", "--target", target]), linked_by_rust(&folder)?),
        // With the sources alone, the C library and what starts a program come from elsewhere.
        Err(_) if sources.is_ok() => {
            (cargo_zigbuild("build", target)?, vec!["-Clink-self-contained=no".into()])
        }
        Err(why) => return Err(Failure::NotPossibleHere(why)),
    };
    build.args(["--profile", "small", "--package", "lightseal", "--no-default-features"]);
    build.arg(format!("--features=proxy,{features}")).arg("--target-dir").arg(&folder);
    match sources {
        Ok(()) => {
            build.args(["-Zbuild-std=std,panic_abort", "-Zbuild-std-features=optimize_for_size"]);
            // Cargo of a release takes these flags with this variable only.
            build.env("RUSTC_BOOTSTRAP", "1");
        }
        Err(why) => {
            eprintln!("{why}, so the program has the library that is ready-made, and is larger");
        }
    }
    let paths = format!("--remap-path-prefix={}=cargo", cargo_home().display());
    let common = ["-Cforce-unwind-tables=no".into(), paths];
    build.env("CARGO_ENCODED_RUSTFLAGS", [&common[..], &flags].concat().join("\u{1f}"));
    run(build).map_err(Failure::Failed)?;
    Ok(folder.join(target).join("small/lightseal"))
}

/// The flags with which Rust's own linker links a program.
fn linked_by_rust(folder: &Path) -> Result<Vec<String>, Failure> {
    let script = folder.join("no-unwinding.ld");
    let written = std::fs::create_dir_all(folder).and_then(|()| {
        // A file that is written anew would have cargo link again.
        match std::fs::read_to_string(&script) {
            Ok(text) if text == LINKER_SCRIPT => Ok(()),
            _ => std::fs::write(&script, LINKER_SCRIPT),
        }
    });
    written.map_err(|error| Failure::Failed(format!("{}: {error}", script.display())))?;
    Ok(vec![
        "-Clinker=rust-lld".into(),
        // Relocations in a compact form, which the musl of Rust reads, and equal functions once.
        "-Clink-arg=-zpack-relative-relocs".into(),
        "-Clink-arg=--icf=all".into(),
        format!("-Clink-arg=-T{}", script.display()),
    ])
}

/// The folder with the sources of other packages, whose paths stand in messages.
fn cargo_home() -> PathBuf {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    home.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).unwrap_or_default()
}
