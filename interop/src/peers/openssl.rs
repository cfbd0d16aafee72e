//! OpenSSL's own programs, `s_client` and `s_server`.

use super::{Cell, Cid, IDENTITY, KEY_HEX, Peer, Program, Role, Suite, Version, first_line};
use std::net::SocketAddr;
use std::process::Command;

/// The installed OpenSSL.
pub struct OpenSsl;

/// OpenSSL's name of a suite; `None` if it does not have the suite.
const fn cipher(suite: Suite) -> Option<&'static str> {
    // The tag of 64 bits is below OpenSSL's default security level.
    match suite {
        Suite::PskCcm8 => Some("PSK-AES128-CCM8:@SECLEVEL=0"),
        Suite::PskCcm => Some("PSK-AES128-CCM"),
        Suite::PskGcm => Some("PSK-AES128-GCM-SHA256"),
        Suite::PskChacha => Some("PSK-CHACHA20-POLY1305"),
        _ => None,
    }
}

fn program(role: &str, cell: &Cell) -> Command {
    let mut command = Command::new("openssl");
    command.args([role, "-quiet", "-dtls1_2", "-psk", KEY_HEX, "-psk_identity", IDENTITY]);
    command.args(cipher(cell.suite).into_iter().flat_map(|cipher| ["-cipher", cipher]));
    command
}

impl Peer for OpenSsl {
    fn name(&self) -> &'static str {
        "OpenSSL"
    }

    fn version(&self) -> String {
        first_line("openssl", &["version"]).unwrap_or_else(|error| error)
    }

    fn require(&self) -> Result<(), String> {
        first_line("openssl", &["version"]).map(|_| ())
    }

    fn supports(&self, _: Role, cell: &Cell) -> Result<(), &'static str> {
        if cell.suite.version() == Version::Dtls13 {
            return Err("OpenSSL has DTLS 1.3 from 4.1 on");
        }
        if cipher(cell.suite).is_none() {
            return Err("not a suite of OpenSSL");
        }
        if cell.cid != Cid::None {
            return Err("OpenSSL has no connection IDs");
        }
        Ok(())
    }

    fn serve(&self, at: SocketAddr, cell: &Cell) -> Program {
        let mut command = program("s_server", cell);
        // The option -listen makes the server send a cookie, as a server on a network would.
        command.args(["-nocert", "-listen", "-accept", &at.to_string()]);
        Program { command, echoes: false }
    }

    fn connect(&self, to: SocketAddr, cell: &Cell) -> Program {
        let mut command = program("s_client", cell);
        command.args(["-connect", &to.to_string()]);
        Program { command, echoes: false }
    }
}
