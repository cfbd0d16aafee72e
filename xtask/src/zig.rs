//! The PyPI package `ziglang`: a C compiler and a linker for many systems, with their C libraries or the
//! lists of what these export. `cargo-zigbuild` has cargo use it.

use crate::Failure;
use crate::process::{cargo, command, run, target_dir};
use crate::registry::pip;
use std::process::Command;

/// PyPI packages with the versions that are known to work together.
const PACKAGES: [&str; 2] = ["ziglang==0.17.1", "cargo-zigbuild==0.24.1"];

/// Cargo with this subcommand and this target, which compiles C and links by `ziglang`. Both packages are
/// installed in the target folder.
///
/// # Errors
/// If they cannot be had.
pub(crate) fn cargo_zigbuild(subcommand: &str, target: &str) -> Result<Command, Failure> {
    let tools = target_dir().join("tools").join(PACKAGES.join("-").replace("==", "-"));
    let (zig, zigbuild) = (tools.join("ziglang/zig"), tools.join("bin/cargo-zigbuild"));
    if !zig.is_file() || !zigbuild.is_file() {
        let mut install = pip("install");
        install.args(["--root-user-action", "ignore", "--upgrade"]);
        install.arg("--target").arg(&tools).args(PACKAGES);
        let absent = |why| Failure::NotPossibleHere(format!("{}: {why}", PACKAGES.join(" and ")));
        run(install).map_err(absent)?;
    }
    let arguments = [subcommand, "--quiet", "--target", target];
    let mut build = command(&zigbuild.to_string_lossy(), &arguments);
    // The cargo that this program was started by is the one that it uses.
    build.env("CARGO", cargo(&[]).get_program()).env("CARGO_ZIGBUILD_ZIG_PATH", zig);
    Ok(build)
}
