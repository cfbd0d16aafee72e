//! `cargo xtask lint`: what can be judged without running the code.

mod circles;
mod language;
mod source;

use crate::process::{capture, cargo, run as run_command, succeeds, workspace};
use crate::{Failure, api, layers, pictures, system};
use clap::Args;
use std::time::Instant;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Only these checks (all of them if none is named)
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(CHECKS.iter().map(|check| check.0)))]
    checks: Vec<String>,
}

/// What it found wrong is the error.
type Check = fn() -> Result<(), String>;

/// Name and check, cheapest first.
const CHECKS: &[(&str, Check)] = &[
    ("format", format),
    ("source", source::check),
    ("language", language::check),
    ("layers", layers::check),
    ("pictures", pictures::check),
    ("circles", circles::check),
    ("no-std", no_std),
    ("features", features),
    ("dependencies", dependencies),
    ("clippy", clippy),
    ("rustdoc", rustdoc),
    ("api", api::check),
];

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    system::require_packages()?;
    let wanted =
        |name: &str| arguments.checks.is_empty() || arguments.checks.iter().any(|c| c == name);
    let mut failed = Vec::new();
    for (name, check) in CHECKS.iter().filter(|(name, _)| wanted(name)) {
        let started = Instant::now();
        match check() {
            Ok(()) => println!("lint {name}: ok ({} s)", started.elapsed().as_secs()),
            Err(message) => {
                println!("lint {name}: failed\n{message}");
                failed.push(*name);
            }
        }
    }
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::Failed(format!("lint failed: {}", failed.join(", "))))
    }
}

fn format() -> Result<(), String> {
    run_command(cargo(&["fmt", "--all", "--check"]))?;
    // Cargo of a release reads the manifest, which asks for `panic-immediate-abort`, only with this
    // variable.
    let mut firmware = cargo(&["fmt", "--check"]);
    firmware.env("RUSTC_BOOTSTRAP", "1").current_dir(workspace().join("firmware"));
    run_command(firmware)
}

fn clippy() -> Result<(), String> {
    run_command(cargo(&[
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--",
        "--deny",
        "warnings",
    ]))
}

fn rustdoc() -> Result<(), String> {
    let mut doc =
        cargo(&["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"]);
    doc.env("RUSTDOCFLAGS", "--deny warnings");
    run_command(doc)
}

/// Licences, duplicate crates, sources, and advisories where their database is within reach.
fn dependencies() -> Result<(), String> {
    system::require_cargo_deny()?;
    let deny = |arguments: &[&str]| cargo(&[&["deny", "--log-level", "error"], arguments].concat());
    run_command(deny(&["check", "licenses", "bans", "sources"]))?;
    if !succeeds(deny(&["fetch", "db"])) {
        println!(
            "lint dependencies: advisories were NOT checked, since their database cannot be fetched \
             from here"
        );
        return Ok(());
    }
    run_command(deny(&["check", "--disable-fetch", "advisories"]))
}

/// That engines and what stands below them need no operating system: each
/// says so, and none of their dependencies is built with its `std` feature.
///
/// A build for a bare-metal target would say it better, and needs a target
/// that a plain installation of Rust does not have.
fn no_std() -> Result<(), String> {
    let mut faults = Vec::new();
    for (name, folder) in layers::no_std_crates()? {
        let threaded = layers::THREADED.contains(&name.as_str());
        faults.extend(source::faults_below_hosts(&name, &folder, !threaded)?);
        if threaded {
            continue;
        }
        let tree = capture(cargo(&[
            "tree",
            "--quiet",
            "--package",
            &name,
            "--no-default-features",
            "--edges",
            "normal,no-proc-macro",
            "--prefix",
            "none",
            "--format",
            "{p} {f}",
        ]))?;
        faults.extend(
            std_users(&tree).map(|dependency| format!("{name}: {dependency} is built with std")),
        );
    }
    faults.sort();
    faults.dedup();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n")) }
}

/// Sets of features of small devices, by package.
const FEATURE_SETS: &[(&str, &[&str])] = &[
    (
        "lightseal-aggregation",
        &[
            "",
            "fast",
            "agg-sender",
            "r2d2-sender",
            "agg-receiver",
            "r2d2-receiver",
            "agg-sender,r2d2-sender,agg-receiver,r2d2-receiver",
        ],
    ),
    (
        "lightseal-dtls",
        &[
            "client,rustcrypto",
            "client,dtls12,rustcrypto",
            "client,connection-ids,rustcrypto",
            "client,path-mtu,statistics,rustcrypto",
            "certificates,client,rustcrypto",
            "certificate-compression,dtls12,resumption,rustcrypto,server",
            "client,agg-sender,rustcrypto",
            "client,agg-sender,r2d2-sender,rustcrypto",
            "client,agg-sender,loss-reports,pacing,rustcrypto",
            "server,rustcrypto",
            "server,agg-receiver,rustcrypto",
            "server,agg-receiver,loss-reports,scheme-changes,rustcrypto",
            "server,dtls12,r2d2-receiver,rustcrypto",
            "client,dtls12,liveness,rustcrypto,server",
            "client,persistence,rustcrypto",
            "dtls12,rustcrypto,server,sleep,statistics",
        ],
    ),
    (
        "lightseal-group",
        &[
            "axiom,listener",
            "axiom,sender",
            "compact,listener,sender",
            "axiom,compact,listener,sender",
            "compact,listener,rekeying,sender",
            "compact,listener,pairwise",
            "axiom,compact,listener,pairwise,rekeying,sender",
        ],
    ),
    ("lightseal-present", &[""]),
    ("lightmac", &["", "present"]),
];

/// That packages compile with the features that small devices choose, and then have no unused
/// imports.
fn features() -> Result<(), String> {
    for (package, sets) in FEATURE_SETS {
        for set in *sets {
            let arguments = ["clippy", "--quiet", "--no-default-features", "--package", package];
            let mut clippy = cargo(&arguments);
            clippy.args(["--features", set, "--", "--allow", "clippy::all", "--deny", "warnings"]);
            run_command(clippy).map_err(|fault| format!("{package} with `{set}`: {fault}"))?;
        }
    }
    Ok(())
}

/// The packages in `tree` (lines of `name version features`) with feature `std`.
fn std_users(tree: &str) -> impl Iterator<Item = &str> {
    tree.lines().filter_map(|line| {
        let features = line.rsplit(' ').next()?;
        features.split(',').any(|feature| feature == "std").then(|| line.split(' ').next())?
    })
}

#[cfg(test)]
mod tests {
    use super::std_users;

    #[test]
    fn a_dependency_with_std_is_found() {
        let tree = "dtls v0.1.0 (/x) \naes v0.9.0 zeroize\nsha2 v0.11.0 alloc,std\n";
        assert_eq!(std_users(tree).collect::<Vec<_>>(), ["sha2"]);
        assert_eq!(std_users("dtls v0.1.0\naes v0.9.0 alloc,stdio\n").count(), 0);
    }
}
