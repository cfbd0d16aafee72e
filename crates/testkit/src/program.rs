//! Programs under test, and folders for them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Runs a program and expects exit code 2 and a single line on standard error that begins with the
/// program's name and contains all of `expected`.
#[track_caller]
pub fn fails(command: &mut Command, expected: &[&str]) {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{command:?}: {errors}");
    let lines: Vec<_> = errors.lines().collect();
    assert_eq!(lines.len(), 1, "{command:?}: {errors}");
    let name = Path::new(command.get_program()).file_stem().unwrap().to_string_lossy();
    assert!(lines[0].starts_with(&format!("{name}: ")), "{command:?}: {errors}");
    for part in expected {
        assert!(lines[0].contains(part), "{command:?}: {part:?} is not in {errors}");
    }
    assert!(!errors.contains("panicked"), "{errors}");
}

/// A directory for one test. Dropping it removes the directory.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// An empty directory.
    #[expect(clippy::new_without_default, reason = "it makes a directory")]
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("lightseal-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// The path of a file in the directory.
    pub fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Writes a file in the directory that nobody else may read, and returns its path.
    pub fn file(&self, name: &str, content: &str) -> String {
        let path = self.path(name);
        #[cfg(windows)]
        {
            let _ = std::fs::remove_file(&path);
            drop(lightseal_owner_only::file::create_private(path.as_ref()).unwrap());
        }
        std::fs::write(&path, content).unwrap();
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        }
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
