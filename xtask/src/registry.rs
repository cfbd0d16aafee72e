//! Fetches sources from package registries into the target folder.

use crate::process::{capture, cargo, command, run};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// Fetches a crate with its dependencies, and returns the folder with its sources. `project` is a
/// folder for a package that does nothing but depend on it.
pub(crate) fn crate_sources(name: &str, version: &str, project: &Path) -> Result<PathBuf, String> {
    let manifest = project.join("Cargo.toml");
    let text = format!(
        "[package]\nname = \"fetch\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [dependencies]\n{name} = \"={version}\"\n"
    );
    fs::create_dir_all(project.join("src"))
        .and_then(|()| fs::write(&manifest, text))
        .and_then(|()| fs::write(project.join("src").join("lib.rs"), ""))
        .map_err(|error| error.to_string())?;
    let mut metadata = cargo(&["metadata", "--format-version", "1", "--quiet"]);
    let printed = capture({
        metadata.arg("--manifest-path").arg(&manifest);
        metadata
    })?;
    let printed: Value = serde_json::from_str(&printed).map_err(|error| error.to_string())?;
    let mut packages = printed["packages"].as_array().into_iter().flatten();
    let found = packages.find(|package| package["name"] == name);
    let manifest = found.and_then(|package| package["manifest_path"].as_str());
    let folder = manifest.and_then(|manifest| Path::new(manifest).parent());
    folder.map(Path::to_owned).ok_or_else(|| format!("cargo fetched no {name}"))
}

/// A command of pip, without its questions and advice. It runs in the system's Python, which it
/// leaves as it is if the command writes into a folder of ours.
pub(crate) fn pip(verb: &str) -> std::process::Command {
    let mut pip = command("python3", &["-m", "pip", verb, "--quiet", "--no-input", "--no-deps"]);
    pip.args(["--disable-pip-version-check"]);
    pip
}

/// Fetches the sources of a PyPI package and unpacks them in `folder`, which then has one folder
/// named after the package and its version.
pub(crate) fn python_sources(name: &str, version: &str, folder: &Path) -> Result<(), String> {
    fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut fetch = pip("download");
    fetch.args(["--no-binary", ":all:", "--dest"]).arg(folder).arg(format!("{name}=={version}"));
    run(fetch).map_err(|error| format!("{name} of PyPI cannot be had: {error}"))?;
    let is_archive = |path: &PathBuf| path.to_string_lossy().ends_with(".tar.gz");
    let files = fs::read_dir(folder).map_err(|error| error.to_string())?;
    let archive = files.flatten().map(|file| file.path()).find(is_archive);
    let archive = archive.ok_or_else(|| format!("pip fetched no sources of {name}"))?;
    let mut tar = command("tar", &["--extract", "--gzip", "--file"]);
    run(tar.arg(archive).arg("--directory").arg(folder))
}
