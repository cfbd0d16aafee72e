//! `coaps://`: libcoap's client and server over their own DTLS, with Lightseal's proxy in
//! the place of either.
//!
//! An unmodified client that speaks DTLS meets `lightseal proxy server` in front of a
//! server without DTLS, and the reverse.

use crate::coap::put_and_get_by;
use crate::peers::wire::{self, Tap};
use crate::peers::{IDENTITY, Version, server_address};
use crate::process::{Daemon, lightseal};
use std::fmt;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;

/// The key, which libcoap's programs take as text.
const KEY: &str = "a key of 16 byte";

/// Whose DTLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Ours: a proxy in front of libcoap's programs without DTLS.
    Lightseal,
    /// OpenSSL's, by libcoap.
    OpenSsl,
    /// GnuTLS's, by libcoap.
    GnuTls,
}

impl Side {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Lightseal, Self::OpenSsl, Self::GnuTls];

    /// What libcoap's programs end with.
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

/// Client and server of every meeting, but for our proxy with itself.
pub fn meetings() -> impl Iterator<Item = (Side, Side)> {
    let all = Side::ALL.into_iter();
    let all = all.flat_map(|client| Side::ALL.into_iter().map(move |server| (client, server)));
    all.filter(|both| *both != (Side::Lightseal, Side::Lightseal))
}

/// The client puts a content and gets it back: the suite they agreed on, where that can
/// be seen. Files are left in `folder`.
///
/// # Errors
/// What went wrong, with the datagrams between them.
///
/// # Panics
/// When a program does not start; libcoap's are in Debian's `libcoap3-bin`.
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

    let plain = two_addresses();
    let _daemons: [Option<Daemon>; 2];
    let dtls = if server == Side::Lightseal {
        let behind = coap_server(server, plain, plain);
        let exit = two_addresses();
        _daemons = [Some(behind), Some(proxy("server", exit, plain))];
        exit
    } else {
        let dtls = SocketAddr::new(plain.ip(), plain.port() + 1);
        _daemons = [Some(coap_server(server, plain, dtls)), None];
        dtls
    };
    // Each of a proxy's flows has a port of its own, which a tap would not keep apart.
    let tap = (client != Side::Lightseal).then(|| Tap::start(dtls));
    let (entrance, _daemon) = match &tap {
        Some(tap) => (tap.address(), None),
        None => {
            let entrance = two_addresses();
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
    match (back, wire::shown(&datagrams).agreed) {
        (Some(back), _) if back != content.as_bytes() => fail("another content came back"),
        (Some(_), Some((Version::Dtls12, suite))) => Ok(Some(suite)),
        (Some(_), None) if client == Side::Lightseal => Ok(None),
        (Some(_), agreed) => fail(&format!("they agreed on {agreed:?}")),
        (None, _) => fail("nothing came back"),
    }
}

/// libcoap's server, once it listens at `ready`.
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

/// An address that nobody used a moment ago, nor the next one: libcoap's server has
/// its DTLS there.
fn two_addresses() -> SocketAddr {
    loop {
        let address = server_address();
        let next = SocketAddr::new(address.ip(), address.port() + 1);
        if UdpSocket::bind(next).is_ok() {
            return address;
        }
    }
}
