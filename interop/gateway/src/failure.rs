//! Why something here did not go well.

use std::fmt;
use std::process::ExitCode;

/// Why something here did not go well, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// This machine lacks something: a program, a right, a kernel's part.
    NotHere(String),
    /// It went wrong.
    Broken(String),
    /// Somebody asked us to stop.
    Interrupted,
}

impl Failure {
    /// [`Self::Broken`], with what was being done.
    pub fn broken(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::Broken(format!("{what}: {why}"))
    }

    /// Says why on the standard error stream; the exit code of a program that ends for it: 1 for what
    /// went wrong, 2 for what could not be tried.
    pub fn exit(&self) -> ExitCode {
        eprintln!("{self}");
        ExitCode::from(if matches!(self, Self::Broken(_)) { 1 } else { 2 })
    }

    /// [`Self::NotHere`], with what was being done.
    pub fn not_here(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::NotHere(format!("{what}: {why}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotHere(reason) | Self::Broken(reason) => f.write_str(reason),
            Self::Interrupted => f.write_str("interrupted"),
        }
    }
}

impl std::error::Error for Failure {}
