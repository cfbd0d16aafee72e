//! Why an operation failed.

use std::fmt;
use std::process::ExitCode;

/// Why an operation failed, in one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// This machine lacks something: a program, a permission, a feature of the kernel.
    NotHere(String),
    /// The operation was tried and failed.
    Broken(String),
    /// A signal asked this process to stop.
    Interrupted,
}

impl Failure {
    /// [`Self::Broken`] with the operation that failed.
    pub fn broken(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        Self::Broken(format!("{what}: {why}"))
    }

    /// Prints the reason to standard error and returns the exit code of a program that ends because
    /// of it: 1 if something failed, 2 if it could not be tried or was interrupted.
    pub fn exit(&self) -> ExitCode {
        eprintln!("{self}");
        ExitCode::from(if matches!(self, Self::Broken(_)) { 1 } else { 2 })
    }

    /// [`Self::NotHere`] with the operation that is not possible.
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
