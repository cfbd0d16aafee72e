//! GnuTLS's own client, `gnutls-cli`. GnuTLS's server cannot listen on the loopback interface
//! alone, so it is not used.

use super::files::SERVER_NAME;
use super::{
    Again, Cell, Cid, Credential, Files, Group, IDENTITY, KEY_HEX, Peer, Program, Role, Suite,
    Version, first_line,
};
use std::net::SocketAddr;
use std::process::Command;

/// The installed GnuTLS.
pub struct GnuTls;

/// GnuTLS's names of the suite's key exchange and of its cipher; `None` if it does not have the suite.
const fn cipher(suite: Suite) -> Option<(&'static str, &'static str)> {
    match suite {
        Suite::PskCcm8 => Some(("PSK", "AES-128-CCM-8")),
        Suite::PskCcm => Some(("PSK", "AES-128-CCM")),
        Suite::PskGcm => Some(("PSK", "AES-128-GCM")),
        Suite::PskChacha => Some(("PSK", "CHACHA20-POLY1305")),
        Suite::EcdsaGcm => Some(("ECDHE-ECDSA", "AES-128-GCM")),
        Suite::EcdsaGcm256 => Some(("ECDHE-ECDSA", "AES-256-GCM")),
        Suite::EcdsaChacha => Some(("ECDHE-ECDSA", "CHACHA20-POLY1305")),
        Suite::EcdsaCcm => Some(("ECDHE-ECDSA", "AES-128-CCM")),
        Suite::EcdsaCcm8 => Some(("ECDHE-ECDSA", "AES-128-CCM-8")),
        Suite::RsaGcm => Some(("ECDHE-RSA", "AES-128-GCM")),
        _ => None,
    }
}

/// GnuTLS's name of the group; `None` if it does not have the group.
const fn group(group: Group) -> Option<&'static str> {
    match group {
        Group::X25519 => Some("GROUP-X25519"),
        Group::P256 => Some("GROUP-SECP256R1"),
        Group::P384 => Some("GROUP-SECP384R1"),
        Group::X25519MlKem768 => None,
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
        if group(cell.group).is_none() {
            return Err("not a group of GnuTLS");
        }
        Ok(())
    }

    fn serve(&self, _: SocketAddr, _: &Cell, _: &Files) -> Program {
        unreachable!("not supported")
    }

    fn connect(&self, to: SocketAddr, cell: &Cell, files: &Files) -> Program {
        let (exchange, cipher) = cipher(cell.suite).unwrap_or_default();
        let mut priority =
            format!("NONE:+VERS-DTLS1.2:+{exchange}:+{cipher}:+AEAD:+COMP-NULL:+SIGN-ALL");
        let mut command = Command::new("gnutls-cli");
        command.args(["--udp", "--port", &to.port().to_string()]);
        if cell.credential == Credential::Psk {
            priority += ":+GROUP-ALL";
            command.args(["--pskusername", IDENTITY, "--pskkey", KEY_HEX]);
        } else {
            let group = group(cell.group).unwrap_or_default();
            let kind = if cell.credential == Credential::RawKey { "RAWPK" } else { "X509" };
            // The groups of DTLS 1.2 are those of certificates too (RFC 8422, section 5.1).
            priority += &format!(":+{group}:+GROUP-SECP256R1:+GROUP-SECP384R1");
            priority += &format!(":+CTYPE-SRV-{kind}:+CTYPE-CLI-{kind}");
            command.args(["--sni-hostname", SERVER_NAME, "--verify-hostname", SERVER_NAME]);
            command.arg("--x509cafile").arg(files.authority());
            let own = |kind| files.file(cell.credential, Role::Client, kind);
            if cell.credential == Credential::RawKey {
                // It has no option for the raw public key that it expects.
                command.arg("--insecure");
            }
            match (cell.mutual, cell.credential) {
                (false, _) => {}
                (true, Credential::RawKey) => {
                    command.arg("--rawpkkeyfile").arg(own("key"));
                    command.arg("--rawpkfile").arg(own("pub"));
                }
                (true, _) => {
                    command.arg("--x509keyfile").arg(own("key"));
                    command.arg("--x509certfile").arg(own("pem"));
                }
            }
        }
        if cell.resumed {
            command.arg("--resume");
        }
        command.args(["--priority", &priority]).arg(to.ip().to_string());
        Program { command, echoes: false, again: Again::ByItself }
    }
}
