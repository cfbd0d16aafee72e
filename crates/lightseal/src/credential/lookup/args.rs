//! The flags for keys that are looked up one by one.

use super::directory::Directory;
use super::source::{KeySource, SourceError};
use super::{command::Program, table::Table};
use crate::credential::args::HEADING;
use crate::database::StoreUrl;
use crate::failure::{Context, Failure};
use clap::{Args, ValueEnum};
use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Where a server looks keys up.
#[derive(Clone, Debug, Args)]
pub(crate) struct KeySourceArgs {
    /// Directory of pre-shared keys, one file for each: its name is the identity, with bytes other
    /// than visible ASCII, `%`, `/` and a leading `.` written as `%` and two hexadecimal digits, and
    /// it has one line as a PSK file. A key is read when its client comes.
    #[arg(help_heading = HEADING, long, value_name = "DIR")]
    pub(crate) psk_dir: Option<PathBuf>,
    /// Program that knows the pre-shared keys. It gets an identity in each line of its standard
    /// input, in the form of access lists without `psk:`, and answers each with a line: the key in
    /// hexadecimal digits, or `-` if there is none. It is started anew for each question, without
    /// arguments and without a shell, and has five seconds.
    #[arg(help_heading = HEADING, long, value_name = "PROGRAM")]
    pub(crate) psk_command: Option<PathBuf>,
    /// PostgreSQL database with the pre-shared keys, as a URL or as `host=… dbname=…`, with the tables
    /// that `lightseal proxy key-table` prints. Over a network, `sslmode=verify-full` with
    /// `sslrootcert=FILE` encrypts the connection.
    #[arg(help_heading = HEADING, long, value_name = "URL")]
    pub(crate) psk_table: Option<StoreUrl>,
    /// What happens to a client while --psk-dir, --psk-command or --psk-table does not answer:
    /// `refuse` lets it wait, since its key may have been revoked meanwhile; `admit` admits it if its
    /// key is in use or was in the last ten minutes. Associations go on in either case.
    #[arg(help_heading = HEADING, long, value_enum, default_value_t, value_name = "WHAT")]
    pub(crate) keys_unavailable: WhenUnavailable,
    /// Maximum number of keys that clients make this proxy look up in a second. Further ones wait
    /// their turn.
    #[arg(help_heading = HEADING, long, value_name = "N", default_value = "100")]
    pub(crate) key_lookups: NonZeroU32,
}

/// What happens to clients while the source of keys does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhenUnavailable {
    /// Keys that were known before are accepted.
    Admit,
    /// No association begins.
    #[default]
    Refuse,
}

/// Where keys are looked up.
#[derive(Clone, Debug)]
pub(super) enum Place {
    Directory(PathBuf),
    Command(PathBuf),
    Table(Box<StoreUrl>),
}

impl KeySourceArgs {
    /// The place that the flags name; `None` if they name none.
    ///
    /// # Errors
    ///
    /// If they name several.
    pub(super) fn place(&self) -> Result<Option<Place>, Failure> {
        let places = [
            self.psk_dir.clone().map(Place::Directory),
            self.psk_command.clone().map(Place::Command),
            self.psk_table.clone().map(|url| Place::Table(Box::new(url))),
        ];
        let mut places = places.into_iter().flatten();
        match (places.next(), places.next()) {
            (place, None) => Ok(place),
            _ => Err(Failure::new(
                "--psk-dir, --psk-command and --psk-table exclude each other: keys have one source",
            )),
        }
    }
}

impl Place {
    /// Opens the source for one thread. Whatever would never work is found out here.
    ///
    /// # Errors
    ///
    /// If the source cannot be used.
    pub(super) fn open(&self) -> Result<Box<dyn KeySource>, Failure> {
        let opened: Result<Box<dyn KeySource>, SourceError> = match self {
            Self::Directory(path) => Directory::open(path).map(|source| Box::new(source) as _),
            Self::Command(path) => Program::open(path).map(|source| Box::new(source) as _),
            Self::Table(url) => Table::open(url).map(|source| Box::new(source) as _),
        };
        opened.context(self)
    }
}

/// The flag with its value, without a password.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(f, "--psk-dir {}", path.display()),
            Self::Command(path) => write!(f, "--psk-command {}", path.display()),
            Self::Table(url) => write!(f, "--psk-table {url}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        keys: KeySourceArgs,
    }

    #[test]
    fn keys_have_one_source_and_nobody_comes_in_while_it_is_away() {
        let parsed = Command::parse_from(["", "--psk-dir", "keys.d"]).keys;
        assert_eq!(parsed.keys_unavailable, WhenUnavailable::Refuse);
        assert_eq!(parsed.place().unwrap().unwrap().to_string(), "--psk-dir keys.d");
        let both = Command::parse_from(["", "--psk-dir", "a", "--psk-command", "b"]).keys;
        assert!(both.place().unwrap_err().to_string().contains("exclude each other"));
        let url = "postgresql://proxy:secret@db/keys";
        let parsed = Command::parse_from(["", "--psk-table", url, "--keys-unavailable", "admit"]);
        assert_eq!(parsed.keys.keys_unavailable, WhenUnavailable::Admit);
        let shown = parsed.keys.place().unwrap().unwrap().to_string();
        assert_eq!(shown, "--psk-table postgresql://db/keys");
    }
}
