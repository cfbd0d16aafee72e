//! Why a figure could not be made or written.

use std::fmt;
use std::path::PathBuf;

/// Why a figure could not be made or written, in one line.
#[derive(Debug)]
pub enum Error {
    /// A file or directory could not be written.
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Data could not be put into a format.
    Format {
        /// Which format.
        format: &'static str,
        /// Why.
        reason: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Format { format, reason } => write!(f, "{format}: {reason}"),
        }
    }
}

impl std::error::Error for Error {}
