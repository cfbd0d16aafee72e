//! Runs other programs in the workspace's top folder.

use crate::Failure;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The workspace's top folder.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask lies one folder below the top")
        .to_path_buf()
}

/// Cargo's target folder.
pub(crate) fn target_dir() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    target.map_or_else(|| workspace().join("target"), PathBuf::from)
}

/// The target folder of checks that build one package at a time, with features of its own. They do
/// not wait for builds in the usual folder.
pub(crate) fn features_dir() -> PathBuf {
    target_dir().join("features")
}

/// A folder that comes first in the search path of started programs.
static PREFERRED: OnceLock<PathBuf> = OnceLock::new();

/// From now on, started programs search `folder` first.
pub(crate) fn prefer(folder: PathBuf) {
    // Only one folder is ever preferred, so a second call with the same folder changes nothing.
    let _ = PREFERRED.set(folder);
}

/// `program arguments...`, to be run in the workspace's top folder.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(workspace());
    if let Some(folder) = PREFERRED.get() {
        let before = std::env::var_os("PATH").unwrap_or_default();
        let all = std::iter::once(folder.clone()).chain(std::env::split_paths(&before));
        if let Ok(all) = std::env::join_paths(all) {
            command.env("PATH", all);
        }
    }
    command
}

/// The cargo that started this program, with `arguments`.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let mut command = command(&cargo, arguments);
    // Cargo set these variables for this program; if inherited, they make cargo rebuild packages.
    for (name, _) in std::env::vars_os() {
        let inherited = name.to_string_lossy();
        if inherited.starts_with("CARGO_PKG_") || inherited.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs `command` with its output shown. The error names the command and its exit status.
pub(crate) fn run(mut command: impl std::borrow::BorrowMut<Command>) -> Result<(), String> {
    let command = command.borrow_mut();
    let status = command.status().map_err(|error| format!("{}: {error}", shown(command)))?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", shown(command))) }
}

/// Runs `command` without showing its output, which is part of the error.
pub(crate) fn run_silently(mut command: Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{}: {error}", shown(&command)))?;
    if output.status.success() {
        return Ok(());
    }
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    Err(format!("{}: {}\n{}", shown(&command), output.status, said.concat().trim_end()))
}

/// Runs `program`, with its output shown, by `command`. Its exit code 1 means that it `failed`, any
/// other but 0 that it could not run here.
pub(crate) fn judge(mut command: Command, program: &str, failed: &str) -> Result<(), Failure> {
    let status = command.status().map_err(|error| Failure::NotPossibleHere(error.to_string()))?;
    match status.code() {
        Some(0) => Ok(()),
        Some(1) => Err(Failure::Failed(failed.into())),
        _ => Err(Failure::NotPossibleHere(format!("{program} ended with {status}"))),
    }
}

/// The command-line options with a value that have one, and the flags that are set.
pub(crate) fn options<'a>(
    named: &[(&'static str, &'a Option<String>)],
    flags: &[(&'static str, bool)],
) -> Vec<&'a str> {
    let named = named.iter().filter_map(|(name, value)| Some([*name, value.as_deref()?]));
    let flags = flags.iter().filter_map(|(name, is_set)| is_set.then_some(*name));
    named.flatten().chain(flags).collect()
}

/// Runs `command` and returns its standard output; its standard error is shown.
pub(crate) fn capture(mut command: Command) -> Result<String, String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("{}: {error}", shown(&command)))?;
    if !output.status.success() {
        return Err(format!("{}: {}", shown(&command), output.status));
    }
    String::from_utf8(output.stdout).map_err(|error| format!("{}: {error}", shown(&command)))
}

/// Whether `command` can be started and succeeds. Its output is not shown.
pub(crate) fn succeeds(mut command: Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// The command line for messages: the program without its folder, and the arguments.
fn shown(command: &Command) -> String {
    let mut line = Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program())
        .to_string_lossy()
        .into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}
