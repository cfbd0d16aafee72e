//! Runs the program under test.
#![allow(dead_code, reason = "not every test binary uses everything")]

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

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
    let output = lab(args).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{args:?}: {errors}");
    let lines: Vec<_> = errors.lines().collect();
    assert_eq!(lines.len(), 1, "{args:?}: {errors}");
    assert!(lines[0].starts_with("lightseal-lab: "), "{args:?}: {errors}");
    for part in expected {
        assert!(lines[0].contains(part), "{args:?}: {part:?} is not in {errors}");
    }
    assert!(!errors.contains("panicked"), "{errors}");
}

/// A directory for one test. Dropping it removes the directory.
pub(crate) struct TempDir(PathBuf);

impl TempDir {
    /// An empty directory.
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("lightseal-lab-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The path of a file in the directory.
    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file in the directory and returns its path.
    pub(crate) fn file(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
