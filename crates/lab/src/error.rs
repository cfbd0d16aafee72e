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
    /// The engine refuses its configuration.
    Engine(dtls::error::ConfigError),
    /// A network that cannot be.
    Fault(crate::links::Fault),
    /// A simulated association did not live as long as it was meant to.
    Stream(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Format { format, reason } => write!(f, "{format}: {reason}"),
            Self::Engine(error) => write!(f, "the engine: {error}"),
            Self::Fault(fault) => write!(f, "{}: {}", fault.field, fault.reason),
            Self::Stream(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Error {}
