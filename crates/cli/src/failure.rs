//! Every failure of this program is one line on standard error and exit code 2.

use std::{fmt, io};

/// Why a command could not do its work, in one line for the user who typed it.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure(String);

impl Failure {
    /// Exit code of every failure, wrong usage included.
    pub const EXIT_CODE: u8 = 2;

    /// A failure. The message names the thing that failed and says what is wrong with it.
    pub fn new(message: impl fmt::Display) -> Self {
        // Messages of libraries may have several lines; they are joined into one.
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
    pub fn is_closed_pipe(&self) -> bool {
        let is_it = |code: &i32| self.0.ends_with(&io::Error::from_raw_os_error(*code).to_string());
        self.0.starts_with("standard output: ") && CLOSED.iter().any(is_it)
    }
}

/// The operating system's error numbers for writing to a pipe without a reader: EPIPE, and on Windows
/// ERROR_BROKEN_PIPE and ERROR_NO_DATA.
const CLOSED: &[i32] = if cfg!(windows) { &[109, 232] } else { &[32] };

/// Adds to an error what was being done when it occurred.
pub trait Context<T> {
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
