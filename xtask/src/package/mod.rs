//! `cargo xtask package`: shows that the packages stand alone.
//!
//! All packages that may be published are packaged together and unpacked below `target/packages/`.
//! For each crate that others build upon, a fresh crate is made there which depends on the packages
//! alone. Its program is the crate's example, which is built and run. Other packages are built.

mod fresh;

use crate::Failure;
use crate::crates::{self, Package};
use crate::process::{cargo, command, run as run_command, target_dir, workspace};
use fresh::FreshCrate;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only these packages, and those that they need
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Package files that are not committed as well
    #[arg(long)]
    allow_dirty: bool,
    /// Do not build the packages without an example
    #[arg(long)]
    examples_only: bool,
}

/// The licences that each package contains.
const LICENCES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let place = target_dir().join("packages");
    let mut wrong = Vec::new();
    println!("{:<26} {:>5} {:>6}  {:<15} result", "package", "files", "KiB", "example");
    let show = |Row { name, files, kib, example, outcome }: Row| {
        let result = match &outcome {
            Ok(result) => result.as_str(),
            Err(reason) => {
                wrong.push(format!("{name}: {reason}"));
                "FAILED"
            }
        };
        println!("{name:<26} {files:>5} {kib:>6.1}  {example:<15} {result}");
    };
    check(&place, arguments, show).map_err(Failure::Failed)?;
    if wrong.is_empty() { Ok(()) } else { Err(Failure::Failed(wrong.join("\n"))) }
}

/// What became of a package.
struct Row {
    name: String,
    /// The number of files in it.
    files: usize,
    /// The length of the compressed package.
    kib: f64,
    /// The example that was run, or `-`.
    example: String,
    /// What was done, or why it failed.
    outcome: Result<String, String>,
}

/// Packages, unpacks, builds and runs, in the empty folder `place`. Each package is shown when its
/// outcome is known.
fn check(place: &Path, arguments: &Arguments, mut show: impl FnMut(Row)) -> Result<(), String> {
    let all = crates::packages()?;
    let named =
        |name: &String| all.iter().any(|package| package.published && package.name == *name);
    if let Some(unknown) = arguments.only.iter().find(|name| !named(name)) {
        return Err(format!("no package of the name {unknown} is published"));
    }
    let wanted = |package: &&Package| {
        package.published && (arguments.only.is_empty() || arguments.only.contains(&package.name))
    };
    let wanted: Vec<&Package> = all.iter().filter(wanted).collect();
    let packages = with_needs(&all, &wanted);
    clear(place)?;
    let crate_files = pack(place, &packages, arguments.allow_dirty)?;
    for package in &packages {
        let file = crate_files.join(format!("{}-{}.crate", package.name, package.version));
        run_command(command("tar", &["-xzf"]).arg(&file).arg("-C").arg(place))?;
    }
    for package in wanted {
        let file = crate_files.join(format!("{}-{}.crate", package.name, package.version));
        let length = fs::metadata(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        let unpacked = unpacked(place, package);
        let public = crates::public(&package.name);
        let example = public.map(|public| public.example.programs().join(", "));
        let started = Instant::now();
        let outcome = missing_licences(&unpacked).and_then(|()| {
            let fresh = FreshCrate { place, packages: &packages, package };
            match public {
                Some(public) => fresh.example(public).map(|()| "runs"),
                None if arguments.examples_only => Ok("packaged"),
                None => fresh.build().map(|()| "builds"),
            }
        });
        let seconds = started.elapsed().as_secs();
        show(Row {
            name: package.name.clone(),
            files: count(&unpacked),
            kib: length.len() as f64 / 1024.0,
            example: example.unwrap_or_else(|| "-".into()),
            outcome: outcome.map(|result| format!("{result} ({seconds} s)")),
        });
    }
    Ok(())
}

/// `wanted` and what they need, directly or not.
fn with_needs<'a>(all: &'a [Package], wanted: &[&'a Package]) -> Vec<&'a Package> {
    let mut names = BTreeSet::new();
    let mut open: Vec<&Package> = wanted.to_vec();
    open.extend(wanted.iter().flat_map(|package| {
        let with = crates::public(&package.name).map_or(&[][..], |public| public.with);
        all.iter().filter(|other| with.iter().any(|(name, _)| *name == other.name))
    }));
    while let Some(package) = open.pop() {
        if names.insert(&package.name) {
            open.extend(all.iter().filter(|other| package.needs.contains(&other.name)));
        }
    }
    all.iter().filter(|package| package.published && names.contains(&package.name)).collect()
}

/// Empties the folder, but for what cargo built in an earlier run.
fn clear(place: &Path) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", place.display());
    fs::create_dir_all(place).map_err(failed)?;
    for entry in fs::read_dir(place).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.ends_with(fresh::BUILT) {
            continue;
        }
        let removed =
            if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(failed)?;
    }
    Ok(())
}

/// Makes the packages and returns the folder in which they are.
fn pack(place: &Path, packages: &[&Package], allow_dirty: bool) -> Result<PathBuf, String> {
    let into = place.join("cargo");
    let mut package = cargo(&["package", "--quiet", "--no-verify", "--target-dir"]);
    package.arg(&into);
    package.args(packages.iter().flat_map(|package| ["--package", package.name.as_str()]));
    package.args(allow_dirty.then_some("--allow-dirty"));
    offline_first(package)?;
    Ok(into.join("package"))
}

/// Runs cargo without the network; if that fails, with it. What the workspace was built from is on
/// this machine already.
fn offline_first(mut command: Command) -> Result<(), String> {
    command.env("CARGO_NET_OFFLINE", "true");
    if command.output().is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    run_command(command.env_remove("CARGO_NET_OFFLINE"))
}

/// The folder into which the package was unpacked.
fn unpacked(place: &Path, package: &Package) -> PathBuf {
    place.join(format!("{}-{}", package.name, package.version))
}

fn missing_licences(unpacked: &Path) -> Result<(), String> {
    for name in LICENCES {
        let ours = fs::read(workspace().join(name)).map_err(|error| format!("{name}: {error}"))?;
        if fs::read(unpacked.join(name)).ok() != Some(ours) {
            return Err(format!("{name} is not in the package, or is not the workspace's"));
        }
    }
    Ok(())
}

/// The number of files below `folder`.
fn count(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).map(|path| if path.is_dir() { count(&path) } else { 1 }).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_packages_stand_alone() {
        let only = ["lightmac", "lightseal-core"].map(str::to_owned).to_vec();
        let arguments = Arguments { only, allow_dirty: true, examples_only: true };
        let mut rows = Vec::new();
        let place = target_dir().join("packages-sample");
        check(&place, &arguments, |row| rows.push(row)).expect("it packages");
        assert_eq!(rows.len(), 2);
        for row in rows {
            assert!(row.outcome.is_ok(), "{}: {:?}", row.name, row.outcome);
            assert!(row.files > 10);
        }
    }

    #[test]
    fn a_package_needs_what_its_dependencies_need() {
        let all = crates::packages().expect("cargo metadata works here");
        let group: Vec<_> =
            all.iter().filter(|package| package.name == "lightseal-group").collect();
        let needed = with_needs(&all, &group);
        let has = |name: &str| needed.iter().any(|package| package.name == name);
        assert!(has("lightseal-group") && has("lightseal-dtls") && has("lightseal-core"));
        assert!(!has("lightseal-macsec") && !has("skip"));
    }
}
