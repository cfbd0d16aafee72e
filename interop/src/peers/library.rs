//! Libraries as peers, each through this package's program `peer`.

use super::{
    Again, Cell, Cid, Credential, Files, Group, Peer, Program, Role, Suite, Version, arguments,
};
use crate::library::{dimpl, mbedtls, tinydtls, wolfssl};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A library with DTLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// Our own.
    Lightseal,
    /// dimpl, in Rust.
    Dimpl,
    /// Mbed TLS, as it comes with the crate `mbedtls-rs-sys`.
    MbedTls,
    /// tinydtls, as it comes with the crate `tinydtls-sys`.
    TinyDtls,
    /// wolfSSL, as it comes with the crate `wolfssl-sys`.
    WolfSsl,
}

impl Library {
    /// Every library.
    pub const ALL: [Self; 5] =
        [Self::Lightseal, Self::MbedTls, Self::TinyDtls, Self::WolfSsl, Self::Dimpl];

    /// The library's name on the command line of `peer`.
    const fn word(self) -> &'static str {
        match self {
            Self::Lightseal => "lightseal",
            Self::Dimpl => "dimpl",
            Self::MbedTls => "mbedtls",
            Self::TinyDtls => "tinydtls",
            Self::WolfSsl => "wolfssl",
        }
    }
}

/// A library as a peer, with the path of the program `peer`.
pub struct LibraryPeer {
    library: Library,
    program: PathBuf,
}

impl LibraryPeer {
    /// The peer of this library. `program` is the path of `peer`.
    pub fn new(library: Library, program: &Path) -> Self {
        Self { library, program: program.to_path_buf() }
    }

    fn command(&self, address: SocketAddr, role: Role, cell: &Cell, files: &Files) -> Program {
        let mut command = Command::new(&self.program);
        let end = if role == Role::Server { "serve" } else { "connect" };
        command.args([self.library.word(), end, &address.to_string()]);
        command.args(arguments(cell, role, files));
        if cell.single {
            command.arg("--single");
        }
        Program { command, echoes: role == Role::Server, again: Again::Line }
    }
}

impl Peer for LibraryPeer {
    fn name(&self) -> &'static str {
        match self.library {
            Library::Lightseal => "Lightseal",
            Library::Dimpl => "dimpl",
            Library::MbedTls => "Mbed TLS",
            Library::TinyDtls => "tinydtls",
            Library::WolfSsl => "wolfSSL",
        }
    }

    fn version(&self) -> String {
        match self.library {
            Library::Lightseal => env!("CARGO_PKG_VERSION").into(),
            Library::Dimpl => "0.9.0".into(),
            Library::MbedTls => mbedtls::version(),
            Library::TinyDtls => tinydtls::version(),
            Library::WolfSsl => crate::wolfssl::version().into(),
        }
    }

    fn require(&self) -> Result<(), String> {
        if self.program.is_file() { Ok(()) } else { Err("the program `peer` is not built".into()) }
    }

    fn supports(&self, role: Role, cell: &Cell) -> Result<(), &'static str> {
        match self.library {
            Library::Dimpl if cell.cid != Cid::None => Err("dimpl has no connection IDs"),
            Library::Dimpl if !dimpl::has(cell.suite) => Err("not a suite of dimpl"),
            Library::Dimpl if cell.credential == Credential::RawKey => {
                Err("dimpl has no raw public keys")
            }
            Library::Dimpl if cell.retried && role == Role::Client => {
                Err("dimpl's client sends a share for each group that it offers")
            }
            Library::Dimpl if cell.resumed => Err("dimpl does not resume sessions"),
            Library::Dimpl if [Credential::Ed25519, Credential::Rsa].contains(&cell.credential) => {
                Err("dimpl has certificates with ECDSA alone")
            }
            Library::Dimpl if cell.group == Group::X25519MlKem768 => {
                Err("dimpl has no X25519MLKEM768")
            }
            Library::MbedTls if cell.suite.version() == Version::Dtls13 => {
                Err("Mbed TLS has no DTLS 1.3")
            }
            Library::MbedTls if !mbedtls::has(cell.suite) => Err("not a suite of Mbed TLS"),
            Library::MbedTls if cell.credential == Credential::RawKey => {
                Err("Mbed TLS has no raw public keys")
            }
            Library::MbedTls if cell.credential == Credential::Ed25519 => {
                Err("Mbed TLS has no Ed25519")
            }
            Library::MbedTls if cell.group == Group::X25519MlKem768 => {
                Err("Mbed TLS has no X25519MLKEM768")
            }
            Library::TinyDtls if cell.suite.version() == Version::Dtls13 => {
                Err("tinydtls has no DTLS 1.3")
            }
            Library::TinyDtls if cell.suite != Suite::PskCcm8 => Err("not a suite of tinydtls"),
            Library::TinyDtls if cell.cid != Cid::None => Err("tinydtls has no connection IDs"),
            Library::WolfSsl if cell.retried && role == Role::Client => {
                Err("wolfSSL's client sends a share for each group that it offers")
            }
            Library::WolfSsl if cell.group == Group::X25519MlKem768 && role == Role::Server => {
                Err("this build of wolfSSL reads no ClientHello in several datagrams")
            }
            Library::WolfSsl if cell.credential == Credential::Ed25519 => {
                Err("this build of wolfSSL has no Ed25519")
            }
            Library::WolfSsl if wolfssl::suite(cell.suite).is_none() => {
                Err("not a suite of wolfSSL")
            }
            _ => Ok(()),
        }
    }

    fn reads_first_message_only(&self) -> bool {
        self.library == Library::TinyDtls
    }

    fn serve(&self, at: SocketAddr, cell: &Cell, files: &Files) -> Program {
        self.command(at, Role::Server, cell, files)
    }

    fn connect(&self, to: SocketAddr, cell: &Cell, files: &Files) -> Program {
        self.command(to, Role::Client, cell, files)
    }
}
