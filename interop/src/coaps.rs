//! `coaps://`: libcoap's client and server over their own DTLS, with Lightseal's proxy in the place
//! of either.
//!
//! An unmodified client with DTLS connects to `lightseal proxy server` in front of a server without
//! DTLS, and the other way round.

use crate::coap::put_and_get_by;
use crate::peers::wire::{self, Tap};
use crate::peers::{IDENTITY, Version};
use crate::process::{Daemon, free_address, lightseal};
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

/// The pre-shared key, which libcoap's programs take as text.
const KEY: &str = "a key of 16 byte";

/// The implementation of DTLS at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Our DTLS: a proxy in front of libcoap's programs without DTLS.
    Lightseal,
    /// OpenSSL's DTLS, used by libcoap.
    OpenSsl,
    /// GnuTLS's DTLS, used by libcoap.
    GnuTls,
}

impl Side {
    /// Every implementation.
    pub const ALL: [Self; 3] = [Self::Lightseal, Self::OpenSsl, Self::GnuTls];

    /// The suffix of the names of libcoap's programs.
    const fn build(self) -> &'static str {
        match self {
            Self::Lightseal => "notls",
            Self::OpenSsl => "openssl",
            Self::GnuTls => "gnutls",
        }
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lightseal => "Lightseal's proxy",
            Self::OpenSsl => "libcoap with OpenSSL",
            Self::GnuTls => "libcoap with GnuTLS",
        })
    }
}

/// The client and the server of every meeting, except our proxy with itself.
pub fn meetings() -> impl Iterator<Item = (Side, Side)> {
    let all = Side::ALL.into_iter();
    let all = all.flat_map(|client| Side::ALL.into_iter().map(move |server| (client, server)));
    all.filter(|both| *both != (Side::Lightseal, Side::Lightseal))
}

/// The client puts a representation and gets it back. Returns the suite that the ends agreed on, if
/// the datagrams between them were seen. Files are left in `folder`.
///
/// # Errors
/// Why the meeting failed, with the datagrams between the ends.
///
/// # Panics
/// A program does not start; libcoap's programs are in Debian's `libcoap3-bin`.
pub fn meet(client: Side, server: Side, folder: &Path) -> Result<Option<u16>, String> {
    std::fs::create_dir_all(folder).expect("a place for files");
    let keys = folder.join("keys.psk");
    let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(&keys, format!("{IDENTITY}:{hex}\n")).expect("a place for keys");
    let owner_alone = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(&keys, owner_alone).expect("a file of our own");

    let proxy = |role: &str, listen: SocketAddr, connect: SocketAddr| {
        let mut command = Command::new(lightseal());
        command.args(["proxy", role, "--listen", &listen.to_string()]);
        command.args(["--connect", &connect.to_string(), "--psk-file"]).arg(&keys);
        let mut daemon = Daemon::start(&mut command).expect("it was built just now");
        daemon.listens_at(listen);
        daemon
    };

    let plain = free_address();
    let _daemons: [Option<Daemon>; 2];
    let dtls = if server == Side::Lightseal {
        let behind = coap_server(server, plain, plain);
        let exit = free_address();
        _daemons = [Some(behind), Some(proxy("server", exit, plain))];
        exit
    } else {
        let dtls = SocketAddr::new(plain.ip(), plain.port() + 1);
        _daemons = [Some(coap_server(server, plain, dtls)), None];
        dtls
    };
    // Each flow of a proxy has a port of its own, and the tap would merge them.
    let tap = (client != Side::Lightseal).then(|| Tap::start(dtls));
    let (entrance, _daemon) = match &tap {
        Some(tap) => (tap.address(), None),
        None => {
            let entrance = free_address();
            (entrance, Some(proxy("client", entrance, dtls)))
        }
    };

    let content = format!("from {client:?} to {server:?} {}", "0123456789abcdef".repeat(20));
    let scheme = if client == Side::Lightseal { "coap" } else { "coaps" };
    let mut words = Vec::new();
    if client != Side::Lightseal {
        words.extend(["-u", IDENTITY, "-k", KEY]);
    }
    let program = format!("coap-client-{}", client.build());
    let uri = format!("{scheme}://{entrance}/content");
    let back = put_and_get_by(&program, &words, &uri, content.as_bytes(), folder)
        .map_err(|error| error.to_string())?;
    let datagrams = tap.map(|tap| tap.datagrams());
    let datagrams = datagrams.unwrap_or_default();
    let fail = |reason: &str| Err(format!("{reason}\n{}", wire::told(&datagrams)));
    let agreed = wire::shown(&datagrams).agreed.map(|hello| (hello.version, hello.suite));
    match (back, agreed) {
        (Some(back), _) if back != content.as_bytes() => {
            fail("a different representation came back")
        }
        (Some(_), Some((Version::Dtls12, suite))) => Ok(Some(suite)),
        (Some(_), None) if client == Side::Lightseal => Ok(None),
        (Some(_), agreed) => fail(&format!("they agreed on {agreed:?}")),
        (None, _) => fail("nothing came back"),
    }
}

/// Starts libcoap's server and waits until it listens at `ready`.
fn coap_server(side: Side, at: SocketAddr, ready: SocketAddr) -> Daemon {
    let mut command = Command::new(format!("coap-server-{}", side.build()));
    command.args(["-A", "127.0.0.1", "-d", "10", "-p", &at.port().to_string()]);
    if side != Side::Lightseal {
        command.args(["-k", KEY]);
    }
    let mut daemon = Daemon::start(&mut command).expect("libcoap3-bin is installed");
    daemon.listens_at(ready);
    daemon
}
