//! The one way this program fails: one clear line, exit code 2.

use std::fmt;

/// Why a command could not do its work, in one line for whoever typed it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Failure(String);

impl Failure {
    /// Exit code of every failure, that of wrong usage as well.
    pub(crate) const EXIT_CODE: u8 = 2;

    /// A failure with a message that says what was wrong with what.
    pub(crate) fn new(message: impl fmt::Display) -> Self {
        // One line, whatever a library put into its message.
        let text = message.to_string();
        let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        Self(lines.join(": "))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Failure {
    /// Whether standard output was closed by its reader.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        let broken = std::io::Error::from_raw_os_error(EPIPE).to_string();
        self.0.starts_with("standard output: ") && self.0.ends_with(&broken)
    }
}

/// What the system calls a pipe without a reader.
const EPIPE: i32 = 32;

/// Names what was being done when an error came up.
pub(crate) trait Context<T> {
    /// Puts `what` and a colon before the error.
    fn context(self, what: impl fmt::Display) -> Result<T, Failure>;
}

impl<T, E: fmt::Display> Context<T> for Result<T, E> {
    fn context(self, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(format_args!("{what}: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_lines_become_one() {
        let failed: Result<(), _> = Err("TOML parse error\n  |\n\nat line 3").context("a.toml");
        assert_eq!(failed.unwrap_err().to_string(), "a.toml: TOML parse error: |: at line 3");
    }
}
