//! Why a figure could not be made or written.

use std::fmt;
use std::path::PathBuf;

/// The reason why a figure could not be made or written, as one line.
#[derive(Debug)]
pub enum Error {
    /// A file or directory could not be written.
    Io {
        /// The path of the file or directory.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
    /// Data could not be put into a format.
    Format {
        /// The name of the format.
        format: &'static str,
        /// The reason why the data does not fit it.
        reason: String,
    },
    /// The engine refused its configuration.
    Engine(lightseal_dtls::ConfigError),
    /// The description of a network is invalid.
    InvalidSetting(crate::links::InvalidSetting),
    /// A simulated association ended early, or an engine did something that the simulation does not
    /// expect.
    Stream(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Format { format, reason } => write!(f, "{format}: {reason}"),
            Self::Engine(error) => write!(f, "the engine: {error}"),
            Self::InvalidSetting(fault) => write!(f, "{}: {}", fault.field, fault.reason),
            Self::Stream(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Error {}
