//! Addresses as users write them.

use crate::failure::{Context, Failure};
use lightseal_net::address::Named;
use lightseal_net::socket;
use std::net::SocketAddr;
use tokio::net::UdpSocket;

/// The value of the flag `--flag`, which must have the form `host:port`. Nothing is looked up.
///
/// # Errors
///
/// If the flag was not given, or its value does not have that form.
pub(crate) fn given<'a>(flag: &str, text: Option<&'a str>) -> Result<&'a str, Failure> {
    let Some(text) = text else {
        return Err(Failure::new(format_args!("no --{flag} address given")));
    };
    well_formed(text).map_err(|error| Failure::new(format_args!("--{flag} {error}")))
}

/// Checks that `text` has the form `host:port`, and returns it. Nothing is looked up.
///
/// # Errors
///
/// If it does not have that form. The message begins with `text`.
pub(crate) fn well_formed(text: &str) -> Result<&str, String> {
    let (host, port) = text.rsplit_once(':').unzip();
    if port.is_none_or(|port| port.is_empty() || port.ends_with(']')) {
        return Err(format!("{text}: the port is missing, as in {text}:5684"));
    }
    let unfit = |host: &str| host.is_empty() || host.contains(':') && !host.starts_with('[');
    if port.is_some_and(|port| port.parse::<u16>().is_err()) || host.is_some_and(unfit) {
        return Err(format!("{text}: not of the form HOST:PORT, [IPV6]:PORT"));
    }
    Ok(text)
}

/// The first address that `text` (`host:port`) resolves to; see [`lightseal_net::address::resolve`].
///
/// # Errors
///
/// If the flag was not given, or its value does not resolve.
pub(crate) fn resolve(flag: &str, text: Option<&str>) -> Result<SocketAddr, Failure> {
    let text = given(flag, text)?;
    let addresses =
        lightseal_net::address::resolve(text).context(format_args!("--{flag} {text}"))?;
    let first = addresses.first().copied();
    first.ok_or_else(|| Failure::new(format_args!("--{flag} {text}: no address")))
}

/// A socket bound to the address that `--listen` names.
///
/// # Errors
///
/// If the flag was not given, its value does not resolve, or the address cannot be bound.
pub(crate) fn listen(text: Option<&str>) -> Result<UdpSocket, Failure> {
    let address = resolve("listen", text)?;
    socket::bind(address).context(format_args!("cannot listen on {}", Named(address)))
}

/// The host of `HOST:PORT`, without the brackets and the interface of an IPv6 address.
pub(crate) fn host(server: &str) -> &str {
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.split_once('%').map_or(host, |(host, _)| host)
}
