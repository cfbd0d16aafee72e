//! The flags for what is looked up one by one.

use super::directory::Directory;
use super::source::{KeySource, Kind, SourceError};
use super::{command::Program, table, table::Table};
use crate::credential::args::HEADING;
use crate::database::StoreUrl;
use crate::failure::{Context, Failure};
use clap::{Args, ValueEnum};
use std::fmt;
use std::num::NonZeroU32;
use std::path::PathBuf;

/// Where a server looks up keys, and whom it lets in.
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
    /// Directory of the public keys and names of certificates that are let in, a file for each: its
    /// name is the identity in the form of access lists, `spki:HASH` or `subject:NAME`, and what is
    /// in it does not matter. A raw public key needs nothing else to be accepted, a certificate an
    /// authority in --ca. An identity is looked up when its client has proved its key.
    #[arg(help_heading = HEADING, long, value_name = "DIR")]
    pub(crate) allow_dir: Option<PathBuf>,
    /// Program that knows which public keys and names of certificates are let in. It is asked as
    /// --psk-command is, for identities in the form of access lists, and answers `+` or `-`.
    #[arg(help_heading = HEADING, long, value_name = "PROGRAM")]
    pub(crate) allow_command: Option<PathBuf>,
    /// PostgreSQL database with the public keys and names of certificates that are let in, as
    /// --psk-table.
    #[arg(help_heading = HEADING, long, value_name = "URL")]
    pub(crate) allow_table: Option<StoreUrl>,
    /// What happens to a client while the directory, program or database does not answer in which it
    /// is looked up: `refuse` lets it wait, since it may have been revoked meanwhile; `admit` admits
    /// it if its key is in use or was in the last ten minutes. Associations go on in either case.
    #[arg(help_heading = HEADING, long, value_enum, default_value_t, value_name = "WHAT")]
    pub(crate) keys_unavailable: WhenUnavailable,
    /// Maximum number of keys that clients make this proxy look up in a second in a directory, program
    /// or database. Further ones wait their turn.
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

/// Where identities of one kind are looked up.
#[derive(Clone, Debug)]
pub(super) struct Place {
    kind: Kind,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Directory(PathBuf),
    Command(PathBuf),
    Table(Box<StoreUrl>),
}

impl KeySourceArgs {
    /// The place that the flags name for identities of this kind; `None` if they name none.
    ///
    /// # Errors
    ///
    /// If they name several.
    pub(super) fn place(&self, kind: Kind) -> Result<Option<Place>, Failure> {
        let (directory, command, table) = match kind {
            Kind::Psks => (&self.psk_dir, &self.psk_command, &self.psk_table),
            Kind::Peers => (&self.allow_dir, &self.allow_command, &self.allow_table),
        };
        let sources = [
            directory.clone().map(Source::Directory),
            command.clone().map(Source::Command),
            table.clone().map(|url| Source::Table(Box::new(url))),
        ];
        let mut sources = sources.into_iter().flatten();
        match (sources.next(), sources.next(), prefix(kind)) {
            (source, None, _) => Ok(source.map(|source| Place { kind, source })),
            (_, _, flag) => Err(Failure::new(format_args!(
                "{flag}-dir, {flag}-command and {flag}-table exclude each other: one of them says \
                 it all"
            ))),
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
        let kind = self.kind;
        let opened: Result<Box<dyn KeySource>, SourceError> = match &self.source {
            Source::Directory(path) => Directory::open(path, kind).map(|of| Box::new(of) as _),
            Source::Command(path) => Program::open(path).map(|of| Box::new(of) as _),
            Source::Table(url) => Table::open(url, kind).map(|of| Box::new(of) as _),
        };
        opened.context(self)
    }

    /// Whether keys would go through a network in clear on their way from there.
    pub(super) fn sends_keys_in_clear(&self) -> bool {
        match &self.source {
            Source::Table(url) => self.kind == Kind::Psks && table::leaves_host(url),
            Source::Directory(_) | Source::Command(_) => false,
        }
    }
}

/// What the flags for identities of a kind begin with.
const fn prefix(kind: Kind) -> &'static str {
    match kind {
        Kind::Psks => "--psk",
        Kind::Peers => "--allow",
    }
}

/// The flag with its value, without a password.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flag = prefix(self.kind);
        match &self.source {
            Source::Directory(path) => write!(f, "{flag}-dir {}", path.display()),
            Source::Command(path) => write!(f, "{flag}-command {}", path.display()),
            Source::Table(url) => write!(f, "{flag}-table {url}"),
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
        assert_eq!(parsed.place(Kind::Psks).unwrap().unwrap().to_string(), "--psk-dir keys.d");
        let both = Command::parse_from(["", "--psk-dir", "a", "--psk-command", "b"]).keys;
        assert!(both.place(Kind::Psks).unwrap_err().to_string().contains("exclude each other"));
        let url = "postgresql://proxy:secret@db/keys";
        let parsed = Command::parse_from(["", "--psk-table", url, "--keys-unavailable", "admit"]);
        assert_eq!(parsed.keys.keys_unavailable, WhenUnavailable::Admit);
        let shown = parsed.keys.place(Kind::Psks).unwrap().unwrap().to_string();
        assert_eq!(shown, "--psk-table postgresql://db/keys");
        assert!(parsed.keys.place(Kind::Peers).unwrap().is_none());
        let two = ["", "--psk-dir", "keys.d", "--allow-table", "postgresql://db/keys"];
        let parsed = Command::parse_from(two).keys;
        let shown = parsed.place(Kind::Peers).unwrap().unwrap().to_string();
        assert_eq!(shown, "--allow-table postgresql://db/keys");
    }
}
