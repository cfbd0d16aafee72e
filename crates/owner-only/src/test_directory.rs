//! Where tests make their files.

use std::path::PathBuf;

/// A path for a directory, which a test makes. What is there is removed when the test ends.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    /// A path that no other test has: no two of them have the same name.
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("lightseal-owner-only-{name}-{}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
