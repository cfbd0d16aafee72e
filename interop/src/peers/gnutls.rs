//! GnuTLS's own client, `gnutls-cli`. GnuTLS's server cannot listen on the loopback interface
//! alone, so it is not used.

use super::{Cell, Cid, IDENTITY, KEY_HEX, Peer, Program, Role, Suite, Version, first_line};
use std::net::SocketAddr;
use std::process::Command;

/// The installed GnuTLS.
pub struct GnuTls;

/// GnuTLS's name of the suite's cipher; `None` if it does not have the suite.
const fn cipher(suite: Suite) -> Option<&'static str> {
    match suite {
        Suite::PskCcm8 => Some("AES-128-CCM-8"),
        Suite::PskCcm => Some("AES-128-CCM"),
        Suite::PskGcm => Some("AES-128-GCM"),
        Suite::PskChacha => Some("CHACHA20-POLY1305"),
        _ => None,
    }
}

impl Peer for GnuTls {
    fn name(&self) -> &'static str {
        "GnuTLS"
    }

    fn version(&self) -> String {
        first_line("gnutls-cli", &["--version"]).unwrap_or_else(|error| error)
    }

    fn require(&self) -> Result<(), String> {
        first_line("gnutls-cli", &["--version"]).map(|_| ())
    }

    fn supports(&self, role: Role, cell: &Cell) -> Result<(), &'static str> {
        if cell.suite.version() == Version::Dtls13 {
            return Err("GnuTLS has no DTLS 1.3");
        }
        if cipher(cell.suite).is_none() {
            return Err("not a suite of GnuTLS");
        }
        if cell.cid != Cid::None {
            return Err("GnuTLS has no connection IDs");
        }
        if role == Role::Server {
            return Err("gnutls-serv listens on every interface");
        }
        Ok(())
    }

    fn serve(&self, _: SocketAddr, _: &Cell) -> Program {
        unreachable!("not supported")
    }

    fn connect(&self, to: SocketAddr, cell: &Cell) -> Program {
        let cipher = cipher(cell.suite).unwrap_or_default();
        let priority =
            format!("NONE:+VERS-DTLS1.2:+PSK:+{cipher}:+AEAD:+COMP-NULL:+SIGN-ALL:+GROUP-ALL");
        let mut command = Command::new("gnutls-cli");
        command.args(["--udp", "--pskusername", IDENTITY, "--pskkey", KEY_HEX]);
        command.args(["--priority", &priority, "--port", &to.port().to_string()]);
        command.arg(to.ip().to_string());
        Program { command, echoes: false }
    }
}
