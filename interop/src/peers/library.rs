//! Libraries as peers, each through this package's program `peer`.

use super::{Cell, Cid, IDENTITY, KEY_HEX, Peer, Program, Role, Suite, Version};
use crate::library::{mbedtls, tinydtls, wolfssl};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A library with DTLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// Our own.
    Lightseal,
    /// Mbed TLS, as it comes with the crate `mbedtls-rs-sys`.
    MbedTls,
    /// tinydtls, as it comes with the crate `tinydtls-sys`.
    TinyDtls,
    /// wolfSSL, as it comes with the crate `wolfssl-sys`.
    WolfSsl,
}

impl Library {
    /// Every library.
    pub const ALL: [Self; 4] = [Self::Lightseal, Self::MbedTls, Self::TinyDtls, Self::WolfSsl];

    /// The library's name on the command line of `peer`.
    const fn word(self) -> &'static str {
        match self {
            Self::Lightseal => "lightseal",
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

    fn command(&self, end: &str, address: SocketAddr, role: Role, cell: &Cell) -> Program {
        let mut command = Command::new(&self.program);
        command.args([self.library.word(), end, &address.to_string()]);
        command.args(["--suite", cell.suite.name(), "--identity", IDENTITY]);
        let cid = cell.cid.of(role).map_or_else(|| "none".into(), |bytes| bytes.to_string());
        command.args(["--key-hex", KEY_HEX, "--cid", &cid]);
        if cell.single {
            command.arg("--single");
        }
        Program { command, echoes: role == Role::Server }
    }
}

impl Peer for LibraryPeer {
    fn name(&self) -> &'static str {
        match self.library {
            Library::Lightseal => "Lightseal",
            Library::MbedTls => "Mbed TLS",
            Library::TinyDtls => "tinydtls",
            Library::WolfSsl => "wolfSSL",
        }
    }

    fn version(&self) -> String {
        match self.library {
            Library::Lightseal => env!("CARGO_PKG_VERSION").into(),
            Library::MbedTls => mbedtls::version(),
            Library::TinyDtls => tinydtls::version(),
            Library::WolfSsl => crate::wolfssl::version().into(),
        }
    }

    fn require(&self) -> Result<(), String> {
        if self.program.is_file() { Ok(()) } else { Err("the program `peer` is not built".into()) }
    }

    fn supports(&self, _: Role, cell: &Cell) -> Result<(), &'static str> {
        match self.library {
            Library::MbedTls if cell.suite.version() == Version::Dtls13 => {
                Err("Mbed TLS has no DTLS 1.3")
            }
            Library::MbedTls if !mbedtls::has(cell.suite) => Err("not a suite of Mbed TLS"),
            Library::TinyDtls if cell.suite.version() == Version::Dtls13 => {
                Err("tinydtls has no DTLS 1.3")
            }
            Library::TinyDtls if cell.suite != Suite::PskCcm8 => Err("not a suite of tinydtls"),
            Library::TinyDtls if cell.cid != Cid::None => Err("tinydtls has no connection IDs"),
            Library::WolfSsl if wolfssl::suite(cell.suite).is_none() => {
                Err("not a suite of wolfSSL")
            }
            _ => Ok(()),
        }
    }

    fn reads_first_message_only(&self) -> bool {
        self.library == Library::TinyDtls
    }

    fn serve(&self, at: SocketAddr, cell: &Cell) -> Program {
        self.command("serve", at, Role::Server, cell)
    }

    fn connect(&self, to: SocketAddr, cell: &Cell) -> Program {
        self.command("connect", to, Role::Client, cell)
    }
}
