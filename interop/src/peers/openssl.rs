//! OpenSSL's own programs, `s_client` and `s_server`.

use super::files::SERVER_NAME;
use super::{
    Again, Cell, Cid, Credential, Files, Group, IDENTITY, KEY_HEX, Peer, Program, Role, Suite,
    Version, first_line,
};
use std::net::SocketAddr;
use std::process::Command;

/// The installed OpenSSL.
pub struct OpenSsl;

/// OpenSSL's name of a suite; `None` if it does not have the suite.
const fn cipher(suite: Suite) -> Option<&'static str> {
    // Tags of 64 bits are below OpenSSL's default security level.
    match suite {
        Suite::PskCcm8 => Some("PSK-AES128-CCM8:@SECLEVEL=0"),
        Suite::PskCcm => Some("PSK-AES128-CCM"),
        Suite::PskGcm => Some("PSK-AES128-GCM-SHA256"),
        Suite::PskChacha => Some("PSK-CHACHA20-POLY1305"),
        Suite::EcdsaGcm => Some("ECDHE-ECDSA-AES128-GCM-SHA256"),
        Suite::EcdsaGcm256 => Some("ECDHE-ECDSA-AES256-GCM-SHA384"),
        Suite::EcdsaChacha => Some("ECDHE-ECDSA-CHACHA20-POLY1305"),
        Suite::EcdsaCcm => Some("ECDHE-ECDSA-AES128-CCM"),
        Suite::EcdsaCcm8 => Some("ECDHE-ECDSA-AES128-CCM8:@SECLEVEL=0"),
        Suite::RsaGcm => Some("ECDHE-RSA-AES128-GCM-SHA256"),
        _ => None,
    }
}

/// OpenSSL's name of a group; `None` if it does not have the group.
const fn group(group: Group) -> Option<&'static str> {
    match group {
        Group::X25519 => Some("X25519"),
        Group::P256 => Some("P-256"),
        Group::P384 => Some("P-384"),
        Group::X25519MlKem768 => None,
    }
}

/// The arguments of both roles.
fn program(role: Role, cell: &Cell, files: &Files) -> Command {
    let mut command = Command::new("openssl");
    command.arg(if role == Role::Client { "s_client" } else { "s_server" });
    // A blocking read for a datagram that arrives twice would not end until the next one.
    command.args(["-quiet", "-nbio", "-dtls1_2"]);
    command.args(cipher(cell.suite).into_iter().flat_map(|cipher| ["-cipher", cipher]));
    if cell.credential == Credential::Psk {
        command.args(["-psk", KEY_HEX, "-psk_identity", IDENTITY]);
        return command;
    }
    // The groups of DTLS 1.2 are those of certificates too (RFC 8422, section 5.1).
    let mut groups: Vec<_> = group(cell.group).into_iter().collect();
    groups.extend(["P-256", "P-384"].into_iter().filter(|more| Some(*more) != group(cell.group)));
    command.args(["-groups", &groups.join(":")]);
    if role == Role::Server || cell.mutual {
        command.arg("-cert").arg(files.file(cell.credential, role, "pem"));
        command.arg("-key").arg(files.file(cell.credential, role, "key"));
    }
    if role == Role::Client || cell.mutual {
        command.arg("-CAfile").arg(files.authority()).arg("-verify_return_error");
    }
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

    fn supports(&self, role: Role, cell: &Cell) -> Result<(), &'static str> {
        if cell.suite.version() == Version::Dtls13 {
            return Err("OpenSSL has DTLS 1.3 from 4.1 on");
        }
        if cipher(cell.suite).is_none() {
            return Err("not a suite of OpenSSL");
        }
        if cell.cid != Cid::None {
            return Err("OpenSSL has no connection IDs");
        }
        if cell.credential == Credential::RawKey {
            return Err("OpenSSL has raw public keys from 3.2 on");
        }
        if cell.credential == Credential::Ed25519 && role == Role::Server {
            return Err("OpenSSL's server has Ed25519 in TLS alone");
        }
        if group(cell.group).is_none() {
            return Err("OpenSSL has X25519MLKEM768 from 3.5 on");
        }
        Ok(())
    }

    fn serve(&self, at: SocketAddr, cell: &Cell, files: &Files) -> Program {
        let mut command = program(Role::Server, cell, files);
        if cell.credential == Credential::Psk {
            command.arg("-nocert");
        }
        if cell.mutual {
            command.args(["-Verify", "1"]);
        }
        // The option -listen makes the server send a cookie, as a server on a network would.
        command.args(["-listen", "-accept", &at.to_string()]);
        Program { command, echoes: false, again: Again::Line }
    }

    fn connect(&self, to: SocketAddr, cell: &Cell, files: &Files) -> Program {
        let mut command = program(Role::Client, cell, files);
        command.args(["-no_ign_eof", "-connect", &to.to_string()]);
        if cell.credential != Credential::Psk {
            command.args(["-servername", SERVER_NAME, "-verify_hostname", SERVER_NAME]);
            command.args(["-verify", "1"]);
        }
        let session = files.path().join(format!("openssl-session-{}", to.port()));
        if cell.resumed {
            command.arg(if session.exists() { "-sess_in" } else { "-sess_out" }).arg(&session);
        }
        Program { command, echoes: false, again: Again::Restart }
    }
}
