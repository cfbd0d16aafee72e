//! Peers in other languages, as [`crate::foreign`] builds them.

use super::{Cell, IDENTITY, KEY_HEX, Peer, Program, Role, Suite, Version};
use crate::foreign::Foreign;
use std::net::SocketAddr;

fn program(peer: Foreign, end: &str, address: SocketAddr, role: Role, cell: &Cell) -> Program {
    let mut command = peer.command();
    command.args([end, &address.to_string(), "--suite", cell.suite.name()]);
    let cid = cell.cid.of(role).map_or_else(|| "none".into(), |bytes| bytes.to_string());
    command.args(["--identity", IDENTITY, "--key-hex", KEY_HEX, "--cid", &cid]);
    Program { command, echoes: role == Role::Server }
}

impl Peer for Foreign {
    fn name(&self) -> &'static str {
        (*self).name()
    }

    fn version(&self) -> String {
        let version = (*self).version();
        match self {
            Self::Pion => format!("pion/dtls {version}"),
            Self::Scandium => format!("Eclipse Californium Scandium {version}"),
        }
    }

    fn require(&self) -> Result<(), String> {
        self.build()
    }

    fn supports(&self, _: Role, cell: &Cell) -> Result<(), &'static str> {
        match (self, cell.suite) {
            (_, suite) if suite.version() == Version::Dtls13 => match self {
                Self::Pion => Err("pion has no DTLS 1.3"),
                Self::Scandium => Err("Scandium has no DTLS 1.3"),
            },
            (Self::Pion, Suite::EcdhePskGcm | Suite::EcdhePskCcm8) => {
                Err("not a suite of pion, which has ECDHE_PSK with ChaCha20 and CBC alone")
            }
            (Self::Scandium, Suite::PskChacha) => Err("not a suite of Scandium"),
            _ => Ok(()),
        }
    }

    fn serve(&self, at: SocketAddr, cell: &Cell) -> Program {
        program(*self, "serve", at, Role::Server, cell)
    }

    fn connect(&self, to: SocketAddr, cell: &Cell) -> Program {
        program(*self, "connect", to, Role::Client, cell)
    }
}
