//! DTLS by others and by us, each behind the same small trait, so that any two can
//! meet over real sockets of the loopback interface.
//!
//! A peer is a program: its crash or hang ends with its process. What goes into its
//! standard input goes to the other end, and what came from there it prints. So the
//! same [`meet()`] judges all of them, and it believes none: the suite, the version and
//! the connection IDs are read from the datagrams, by [`wire`].

mod cell;
mod foreign;
pub mod gnutls;
pub mod library;
pub mod matrix;
mod meet;
pub mod openssl;
mod running;
pub mod wire;

pub use cell::{CID_BYTES, Cell, Cid, IDENTITY, KEY_HEX, Network, Role, Suite, Version};
pub use meet::{Failure, Meeting, Patience, meet};
pub use running::{Running, server_address};

use crate::foreign::Foreign;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// An implementation of DTLS that can be told to meet another.
pub trait Peer: Sync {
    /// Its name, the same in every run.
    fn name(&self) -> &'static str;

    /// Its version, in its own words.
    fn version(&self) -> String;

    /// Makes sure that it is there.
    ///
    /// # Errors
    /// What is missing.
    fn require(&self) -> Result<(), String>;

    /// Whether it can do its part of `cell`.
    ///
    /// # Errors
    /// What it cannot, in a few words.
    fn supports(&self, role: Role, cell: &Cell) -> Result<(), &'static str>;

    /// Whether it takes a record with several messages of a handshake for an error. RFC
    /// 6347, section 4.2.3, allows them.
    fn reads_first_message_only(&self) -> bool {
        false
    }

    /// The program that serves clients at `at`.
    fn serve(&self, at: SocketAddr, cell: &Cell) -> Program;

    /// The program that connects to `to`.
    fn connect(&self, to: SocketAddr, cell: &Cell) -> Program;
}

/// How to run one end. It ends when its standard input does, or when it is killed.
pub struct Program {
    /// The command line.
    pub command: Command,
    /// Whether a server sends back by itself what it receives. One that does not sends
    /// what it is given, as a client does.
    pub echoes: bool,
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
    line.map(str::to_owned).ok_or_else(|| format!("{program} says nothing of itself"))
}
