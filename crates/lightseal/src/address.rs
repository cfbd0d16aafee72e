//! Addresses as people give them.

use crate::failure::{Context, Failure};
use net::address::Named;
use net::socket;
use std::net::SocketAddr;
use tokio::net::UdpSocket;

/// The first address that `text` (`host:port`) resolves to; see [`net::address::resolve`].
///
/// # Errors
///
/// If it was not given or does not resolve.
pub(crate) fn resolve(flag: &str, text: Option<&str>) -> Result<SocketAddr, Failure> {
    let Some(text) = text else {
        return Err(Failure::new(format_args!("no --{flag} address given")));
    };
    let port = text.rsplit_once(':').map(|(_, port)| port);
    if port.is_none_or(|port| port.is_empty() || port.ends_with(']')) {
        return Err(Failure::new(format_args!(
            "--{flag} {text}: the port is missing, as in {text}:5684"
        )));
    }
    let addresses = net::address::resolve(text).context(format_args!("--{flag} {text}"))?;
    let first = addresses.first().copied();
    first.ok_or_else(|| Failure::new(format_args!("--{flag} {text}: no address")))
}

/// A socket on the address that `--listen` names.
///
/// # Errors
///
/// If it was not given, does not resolve or cannot be had.
pub(crate) fn listen(text: Option<&str>) -> Result<UdpSocket, Failure> {
    let address = resolve("listen", text)?;
    socket::bind(address).context(format_args!("cannot listen on {}", Named(address)))
}
