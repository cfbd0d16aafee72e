//! DTLS by others and by us, each implementation behind the same small trait, so that any two can
//! meet over real sockets of the loopback interface.
//!
//! A peer is a program, so that a crash or a hang affects only its process. Lines of its standard
//! input are sent to the other end, and payloads from there are printed. The same [`meet()`] judges
//! all peers, and trusts none: it reads the suite, the version and the connection IDs from the
//! datagrams, by [`wire`].

mod cell;
pub mod files;
mod foreign;
pub mod gnutls;
pub mod library;
pub mod matrix;
mod meet;
pub mod openssl;
mod page;
mod plan;
mod running;
pub mod wire;

pub use cell::{
    CID_BYTES, Cell, Cid, Credential, Group, IDENTITY, KEY_HEX, Network, Role, Suite, Version,
};
pub use files::Files;
pub use meet::{Failure, Meeting, MeetingTimeouts, meet};
pub use page::page;
pub use plan::cells;
pub use running::Running;

use crate::foreign::Foreign;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// An implementation of DTLS that can meet another one.
pub trait Peer: Sync {
    /// The name, the same in every run.
    fn name(&self) -> &'static str;

    /// The version, as the implementation reports it.
    fn version(&self) -> String;

    /// Makes sure that the peer can be run.
    ///
    /// # Errors
    /// What is missing.
    fn require(&self) -> Result<(), String>;

    /// Checks whether the peer can play its part in `cell`.
    ///
    /// # Errors
    /// What it cannot do, in a few words.
    fn supports(&self, role: Role, cell: &Cell) -> Result<(), &'static str>;

    /// Whether the peer rejects a record with several handshake messages, which RFC 6347, section
    /// 4.2.3, allows.
    fn reads_first_message_only(&self) -> bool {
        false
    }

    /// The program that serves clients at the address `at`. `files` has the keys and certificates.
    fn serve(&self, at: SocketAddr, cell: &Cell, files: &Files) -> Program;

    /// The program that connects to the address `to`. `files` has the keys and certificates.
    fn connect(&self, to: SocketAddr, cell: &Cell, files: &Files) -> Program;
}

/// How to run one end. The program ends when its standard input does, or when it is killed.
pub struct Program {
    /// The command line.
    pub command: Command,
    /// Whether a server sends back by itself what it receives. Another server sends the lines of
    /// its standard input, as a client does.
    pub echoes: bool,
    /// How the client connects again with its session.
    pub again: Again,
}

/// How a client program connects again with the session of its first connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Again {
    /// By the line [`RECONNECT`] of its standard input.
    #[default]
    Line,
    /// It does so without being told, before it sends anything.
    ByItself,
    /// It stores its session, and resumes it when it is run again.
    Restart,
}

/// The line by which a client is told to connect again.
pub const RECONNECT: &str = "reconnect";

/// The arguments with which every program of this package describes a cell to its end.
fn arguments(cell: &Cell, role: Role, files: &Files) -> Vec<String> {
    let cid = cell.cid.of(role).map_or_else(|| "none".into(), |bytes| bytes.to_string());
    let mut words: Vec<String> = vec!["--suite".into(), cell.suite.name().into()];
    for (name, value) in [
        ("--identity", IDENTITY),
        ("--key-hex", KEY_HEX),
        ("--cid", &cid),
        ("--credential", cell.credential.word()),
        ("--files", &files.path().to_string_lossy()),
        ("--group", cell.group.name()),
        ("--mutual", if cell.mutual { "yes" } else { "no" }),
        ("--retried", if cell.retried { "yes" } else { "no" }),
        ("--resumed", if cell.resumed { "yes" } else { "no" }),
    ] {
        words.extend([name.to_owned(), value.to_owned()]);
    }
    words
}

/// Every peer. `programs` is the folder of this package's own programs.
pub fn all(programs: &Path) -> Vec<Box<dyn Peer>> {
    let program = programs.join("peer");
    let library = |library| Box::new(library::LibraryPeer::new(library, &program)) as Box<dyn Peer>;
    let mut peers: Vec<Box<dyn Peer>> = library::Library::ALL.into_iter().map(library).collect();
    peers.push(Box::new(openssl::OpenSsl));
    peers.push(Box::new(gnutls::GnuTls));
    for peer in Foreign::ALL {
        peers.push(Box::new(peer));
    }
    peers
}

/// The first line that `program arguments...` prints, or why there is none.
fn first_line(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("{program} cannot be run: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next().map(str::trim).filter(|line| !line.is_empty());
    line.map(str::to_owned).ok_or_else(|| format!("{program} prints no version"))
}
