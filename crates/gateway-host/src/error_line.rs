//! An error message for people.

use std::fmt;

/// An error message in one line, which names the thing that it is about.
#[derive(Clone, PartialEq, Eq)]
pub struct ErrorLine(String);

impl ErrorLine {
    /// Makes one line of a message, even if a library has put several lines into it.
    pub fn new(message: impl fmt::Display) -> Self {
        let text = message.to_string();
        let lines: Vec<_> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        Self(lines.join(": "))
    }

    /// Makes a line of `what`, a colon, and the error.
    pub fn of(what: impl fmt::Display, error: impl fmt::Display) -> Self {
        Self::new(format_args!("{what}: {error}"))
    }
}

impl fmt::Display for ErrorLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ErrorLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ErrorLine {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_lines_become_one() {
        let error = ErrorLine::of("a.toml", "it says\n\n  no");
        assert_eq!(error.to_string(), "a.toml: it says: no");
    }
}
