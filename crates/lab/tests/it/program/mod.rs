//! Runs the program under test.
#![allow(dead_code, reason = "not every test binary uses everything")]

pub(crate) use testkit::program::TempDir;

use std::process::{Command, Stdio};

/// The command that runs the program with these arguments.
pub(crate) fn lab(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lightseal-lab"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs the program, expects it to succeed without a word on standard error, and returns what it
/// prints.
pub(crate) fn printed(args: &[&str]) -> String {
    let output = lab(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the program and expects exit code 2 and a single line on standard error that contains all
/// of `expected`.
pub(crate) fn fails(args: &[&str], expected: &[&str]) {
    testkit::program::fails(&mut lab(args), expected);
}
