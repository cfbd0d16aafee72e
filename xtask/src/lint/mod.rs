//! `cargo xtask lint`: what can be judged without running the code.

mod circles;
mod language;
mod manifests;
mod source;

use crate::process::{
    capture, cargo, command, features_dir, run as run_command, run_silently, succeeds, workspace,
};
use crate::targets::{self, StandIn};
use crate::{Failure, api, layers, pictures, system};
use clap::Args;
use std::path::Path;
use std::thread;
use std::time::Instant;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Only these checks (all of them if none is named)
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(
        CHECKS.iter().chain(BESIDE).map(|check| check.0)
    ))]
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
    ("manifests", manifests::check),
    ("dependencies", dependencies),
    ("clippy", clippy),
    ("program", program),
    ("rustdoc", rustdoc),
];

/// Checks that build one package after the other, each with features of its own. A build of one
/// package uses one processor most of the time, so these checks run beside the others, in a target
/// folder of their own.
const BESIDE: &[(&str, Check)] =
    &[("features", features), ("targets", targets::check_sample), ("api", api::check)];

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    system::require_packages()?;
    let mut failed = thread::scope(|scope| {
        let beside = scope.spawn(|| run_checks(BESIDE, &arguments.checks));
        let failed = run_checks(CHECKS, &arguments.checks);
        [failed, beside.join().expect("a check says by its result what it found")].concat()
    });
    if failed.is_empty() {
        return Ok(());
    }
    failed.sort_unstable();
    Err(Failure::Failed(format!("lint failed: {}", failed.join(", "))))
}

/// Runs those of `checks` that are `wanted`, or all if none is named. Returns the names of those that
/// failed.
fn run_checks(checks: &[(&'static str, Check)], wanted: &[String]) -> Vec<&'static str> {
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    let mut failed = Vec::new();
    for (name, check) in checks.iter().filter(|(name, _)| is_wanted(name)) {
        let started = Instant::now();
        match check() {
            Ok(()) => println!("lint {name}: ok ({} s)", started.elapsed().as_secs()),
            Err(message) => {
                println!("lint {name}: failed\n{message}");
                failed.push(*name);
            }
        }
    }
    failed
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

/// The program must build by itself, as users build it: beside other packages it has their features
/// too.
fn program() -> Result<(), String> {
    run_command(cargo(&["clippy", "--quiet", "--package", "lightseal", "--", "--deny", "warnings"]))
}

/// rustdoc reads what the compiler wrote about the other crates of the workspace. With the same
/// compiler as `clippy`, cargo takes what that check has left, and checks nothing again.
fn rustdoc() -> Result<(), String> {
    let mut doc =
        cargo(&["doc", "--quiet", "--workspace", "--no-deps", "--document-private-items"]);
    doc.env("RUSTDOCFLAGS", "--deny warnings");
    let sysroot = capture(command("rustc", &["--print", "sysroot"]))?;
    doc.env("RUSTC_WORKSPACE_WRAPPER", Path::new(sysroot.trim()).join("bin/clippy-driver"));
    // The arguments of `clippy`, as `cargo clippy` hands them over.
    doc.env("CLIPPY_ARGS", "--deny__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__");
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
            "agg-receiver,check-bytes,provisional,r2d2-receiver,rivals",
            "alloc,r2d2-receiver",
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
            "server,agg-receiver,check-bytes,number-masks,provisional-delivery,rivals,rustcrypto",
            "server,agg-receiver,loss-reports,scheme-changes,rustcrypto",
            "server,dtls12,r2d2-receiver,rustcrypto",
            "client,dtls12,liveness,rustcrypto,server",
            "client,many-associations,rustcrypto,server",
            "cookie-policies,eviction,half-rtt-data,rustcrypto,server",
            "hints,incoming,later-answers,rustcrypto,server",
            "client,exporter,rustcrypto",
            "client,parameters,rustcrypto",
            "client,key-exchange,key-log,rustcrypto",
            "client,persistence,rustcrypto",
            "dtls12,rustcrypto,server,sleep,statistics",
        ],
    ),
    (
        "lightseal-group",
        &[
            "axiom,listener",
            "compact,listener,sender",
            "axiom,compact,listener,sender",
            "alloc,axiom,listener",
            "alloc,axiom,sender",
            "alloc,compact,listener,sender",
            "alloc,axiom,compact,listener,sender",
            "compact,listener,rekeying,sender",
            "compact,listener,pairwise",
            "axiom,compact,listener,pairwise,rekeying,sender",
        ],
    ),
    ("lightseal-present", &[""]),
    ("lightmac", &["", "present"]),
    // One command alone, or one more for the proxy.
    (
        "lightseal",
        &[
            "proxy",
            "state",
            "fleet",
            "diagnose",
            "mac",
            "keygen",
            "group",
            "gateway",
            "macsec",
            "impair,lab,live-view,manual",
        ],
    ),
];

/// That packages compile with the features that small devices choose, and then have no unused
/// imports.
fn features() -> Result<(), String> {
    let stand_in = StandIn::write(&features_dir()).map_err(|error| error.to_string())?;
    for (package, sets) in FEATURE_SETS {
        for set in *sets {
            let arguments = ["clippy", "--quiet", "--no-default-features", "--package", package];
            let mut clippy = cargo(&arguments);
            clippy.arg("--target-dir").arg(features_dir()).args(["--features", set]);
            clippy.args(["--", "--allow", "clippy::all", "--deny", "warnings"]);
            stand_in.apply(&mut clippy, None);
            run_silently(clippy).map_err(|fault| format!("{package} with `{set}`: {fault}"))?;
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
