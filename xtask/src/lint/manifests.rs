//! The example for Kubernetes, against the schemas of a release that a PyPI package carries.

use super::run_command;
use crate::process::{command, succeeds, target_dir, workspace};
use std::path::Path;

/// The PyPI package, and its pinned version, which is the release of Kubernetes.
const PACKAGE: (&str, &str) = ("kubernetes-validate", "1.37.0");
/// The files that are checked.
const FILES: &[&str] = &["packaging/fleet/kubernetes.yaml"];

pub(super) fn check() -> Result<(), String> {
    let (name, version) = PACKAGE;
    let folder = target_dir().join("tools").join(format!("{name}-{version}"));
    if !folder.join("kubernetes_validate").is_dir()
        && let Err(error) = fetch(&folder)
    {
        println!("lint manifests: the manifests were NOT checked, {name} cannot be had: {error}");
        return Ok(());
    }
    for file in FILES {
        let mut validate = command("python3", &["-m", "kubernetes_validate", "--strict"]);
        validate.env("PYTHONPATH", &folder).arg(workspace().join(file));
        run_command(validate)?;
    }
    Ok(())
}

/// Fetches the package and what it needs into a folder of our own.
fn fetch(folder: &Path) -> Result<(), String> {
    if !succeeds(command("python3", &["-m", "pip", "--version"])) {
        return Err("python3 has no pip".into());
    }
    let (name, version) = PACKAGE;
    let mut pip = command("python3", &["-m", "pip", "install", "--quiet", "--no-input"]);
    pip.args(["--disable-pip-version-check", "--root-user-action", "ignore", "--target"])
        .arg(folder)
        .arg(format!("{name}=={version}"));
    run_command(pip)
}
