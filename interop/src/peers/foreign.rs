//! Peers in other languages, as [`crate::foreign`] builds them.

use super::{
    Again, Cell, Cid, Credential, Files, Group, Peer, Program, Role, Suite, Version, arguments,
};
use crate::foreign::Foreign;
use std::net::SocketAddr;

fn program(peer: Foreign, address: SocketAddr, role: Role, cell: &Cell, files: &Files) -> Program {
    let mut command = peer.command();
    command.args([if role == Role::Server { "serve" } else { "connect" }, &address.to_string()]);
    command.args(arguments(cell, role, files));
    Program { command, echoes: role == Role::Server, again: Again::Line }
}

/// Whether pion or Scandium has what a cell with certificates or raw public keys asks for.
fn certified(peer: Foreign, role: Role, cell: &Cell) -> Result<(), &'static str> {
    match (peer, cell.credential, cell.group) {
        (Foreign::Pion, ..) if cell.resumed && cell.mutual && role == Role::Server => {
            Err("pion's server does not store sessions of clients with certificates")
        }
        (Foreign::Pion, Credential::RawKey, _) => Err("pion has no raw public keys"),
        (Foreign::Scandium, ..) if cell.suite == Suite::EcdsaChacha => {
            Err("not a suite of Scandium")
        }
        (_, _, Group::X25519MlKem768) => Err("not a group of DTLS 1.2"),
        _ => Ok(()),
    }
}

/// Whether NSS has what the cell asks for.
fn nss(cell: &Cell) -> Result<(), &'static str> {
    match (cell.credential, cell.suite) {
        (_, suite) if suite.version() == Version::Dtls13 => {
            Err("this NSS has a draft of DTLS 1.3 alone (its hello offers version 7f2b)")
        }
        _ if cell.cid != Cid::None => Err("NSS has no connection IDs"),
        (Credential::Psk, _) => Err("NSS has no PSKs in DTLS 1.2"),
        (Credential::RawKey, _) => Err("NSS has no raw public keys"),
        (Credential::Ed25519, _) => Err("this NSS has no Ed25519"),
        (_, Suite::EcdsaCcm | Suite::EcdsaCcm8) => Err("not a suite of NSS"),
        _ if cell.group == Group::X25519MlKem768 => Err("this NSS has no X25519MLKEM768"),
        _ => Ok(()),
    }
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
            Self::Nss => format!("NSS {version}"),
        }
    }

    fn require(&self) -> Result<(), String> {
        self.build()
    }

    fn supports(&self, role: Role, cell: &Cell) -> Result<(), &'static str> {
        if *self == Self::Nss {
            return nss(cell);
        }
        if cell.suite.version() == Version::Dtls12 && cell.credential != Credential::Psk {
            return certified(*self, role, cell);
        }
        match (self, cell.suite) {
            (_, suite) if suite.version() == Version::Dtls13 => match self {
                Self::Pion => Err("pion has no DTLS 1.3"),
                Self::Scandium => Err("Scandium has no DTLS 1.3"),
                Self::Nss => Ok(()),
            },
            (Self::Pion, Suite::EcdhePskGcm | Suite::EcdhePskCcm8) => {
                Err("not a suite of pion, which has ECDHE_PSK with ChaCha20 and CBC alone")
            }
            (Self::Scandium, Suite::PskChacha) => Err("not a suite of Scandium"),
            _ => Ok(()),
        }
    }

    fn serve(&self, at: SocketAddr, cell: &Cell, files: &Files) -> Program {
        program(*self, at, Role::Server, cell, files)
    }

    fn connect(&self, to: SocketAddr, cell: &Cell, files: &Files) -> Program {
        program(*self, to, Role::Client, cell, files)
    }
}
