//! `lightseal proxy`: carries local UDP flows through DTLS.
//!
//! - [`args`]: the flags;
//! - [`client`]: in front of applications. Each local source address is a
//!   flow with a socket and an association of its own;
//! - [`server`]: in front of a service. One socket for all associations, and
//!   for each of them a socket towards the service;
//! - [`command`]: the two proxies as commands that run until a signal stops
//!   them;
//! - [`workers`]: the threads of a server proxy, and which of them a datagram is for;
//! - [`destination`]: the addresses of the other proxy or the service;
//! - [`loops`]: detects that what is carried comes back;
//! - [`shares`]: which flow ends when there are too many;
//! - [`limits`]: limits by network and by identity;
//! - [`metrics`]: the counters as metrics;
//! - [`counters`]: the counters, and their form in JSON;
//! - [`deliveries`]: messages on their way to the local side;
//! - [`proxy_protocol`]: who a message is from, for services that read it;
//! - [`settings_reload`]: settings that change while a server proxy runs;
//! - [`source_address`]: an address of its own for each identity;
//! - [`report`]: the report of a proxy on itself and its peers, with the reasons of drops;
//! - [`drain_command`]: how a proxy is told to take nothing new;
//! - [`state`]: associations that survive a server proxy;
//! - [`store_command`]: what their flags open;
//! - [`fleet`]: several server proxies that share their associations;
//! - [`routing`]: which process a datagram belongs to;
//! - [`nft`]: rules that have the kernel share out the datagrams of a fleet;
//! - [`status_socket`], [`status_command`], [`status_text`]: how a running proxy is asked for its
//!   report, and how the report is shown;
//! - [`status`]: the status line of the log.
//!
//! An empty record is a keepalive, and the server proxy answers it with an
//! empty record. Empty datagrams of applications are therefore not carried;
//! they are counted.

pub(crate) mod args;
pub(crate) mod client;
pub(crate) mod command;
pub(crate) mod counters;
pub(crate) mod deliveries;
pub(crate) mod destination;
pub(crate) mod drain_command;
pub(crate) mod fleet;
pub(crate) mod limits;
pub(crate) mod loops;
pub(crate) mod metrics;
#[cfg(feature = "fleet")]
pub(crate) mod nft;
#[cfg(test)]
mod one_socket;
pub(crate) mod proxy_protocol;
pub(crate) mod report;
pub(crate) mod routing;
pub(crate) mod server;
pub(crate) mod settings_reload;
pub(crate) mod shares;
pub(crate) mod source_address;
pub(crate) mod state;
pub(crate) mod status;
pub(crate) mod status_command;
pub(crate) mod status_socket;
pub(crate) mod status_text;
mod store_command;
pub(crate) mod workers;

/// The length in bytes of the buffer for one arriving datagram, which holds a jumbo frame. The
/// other proxy may be configured to send larger datagrams than this one.
const ARRIVAL_BYTES: usize = 9_216;

use crate::system;
use lightseal_net::socket::NonBlocking;

/// The peer and what was agreed with it, for the log.
fn described(agreed: &lightseal_dtls::Negotiated) -> String {
    let peer = crate::credential::shown(agreed);
    let exchange = key_exchange(agreed).map(|how| format!(", {how}")).unwrap_or_default();
    let resumed = if agreed.resumed { ", resumed" } else { "" };
    let lightseal_dtls::Negotiated { version, suite_name, send, receive, .. } = agreed;
    format!("{peer}, {version}, {suite_name}{exchange}{resumed}, tags {send} out, {receive} in")
}

/// How the keys of an association came about: the mode in which a PSK is used, or the group.
/// `None` in DTLS 1.2, where the name of the suite already says it.
pub(crate) fn key_exchange(agreed: &lightseal_dtls::Negotiated) -> Option<String> {
    match agreed.version {
        lightseal_dtls::ProtocolVersion::Dtls12 => None,
        _ if !agreed.psk_identity.is_empty() => Some(agreed.psk_mode().to_string()),
        _ => agreed.group.map(|group| group.to_string()),
    }
}

/// A text that says that the other end shares no tags although this end would, or `None` if it
/// does.
pub(crate) fn unshared(
    wanted: &lightseal_dtls::AggregationPolicy,
    agreed: &lightseal_dtls::Negotiated,
) -> Option<String> {
    let missing = |list: &[lightseal_dtls::Scheme], used: lightseal_dtls::Scheme| {
        !used.aggregates() && !list.is_empty() && list.iter().all(|scheme| scheme.aggregates())
    };
    let (out, back) =
        (missing(&wanted.send, agreed.send), missing(&wanted.receive, agreed.receive));
    let direction = match (out, back) {
        (true, true) => "in neither direction",
        (true, false) => "not in what is sent",
        (false, true) => "not in what is received",
        (false, false) => return None,
    };
    let list = if out { &wanted.send } else { &wanted.receive };
    let list: Vec<_> = list.iter().map(ToString::to_string).collect();
    Some(format!(
        "tags are shared {direction}: this end's --aggregate is {}, and the other end takes none of \
         it; both need the same",
        list.join(",")
    ))
}

/// Logs once that this system forbids the calls for batches of datagrams, which costs processor time.
/// Windows never has these calls.
fn log_batches(has_batches: bool) {
    static ONCE: std::sync::Once = std::sync::Once::new();
    if !has_batches && !cfg!(windows) {
        ONCE.call_once(|| {
            tracing::info!(
                "this system receives and sends datagrams one at a time, which is slower"
            );
        });
    }
}

/// The number of datagrams that the kernel dropped at a socket because this program was too slow.
pub(crate) fn overruns(socket: &impl NonBlocking) -> u64 {
    system::overruns(&socket.raw())
}

/// Reads everything that waits at a socket that is about to be closed, and returns the number of
/// datagrams.
pub(crate) fn unread(socket: &impl NonBlocking) -> u64 {
    /// A limit that is higher than what the largest receive buffer holds.
    const MOST: u64 = 1_000_000;
    let socket = socket.raw();
    // On Windows a datagram that is longer than the buffer is an error, and not counted.
    let mut room = Vec::with_capacity(lightseal_net::blocking::DATAGRAM_BYTES);
    let mut count = 0;
    while count < MOST {
        match socket.recv(room.spare_capacity_mut()) {
            Ok(_) => count += 1,
            // The error belongs to a datagram that was sent earlier: further datagrams may wait
            // behind it.
            Err(error) if lightseal_net::blocking::is_loss(&error) => {}
            Err(_) => break,
        }
    }
    count
}

/// Why an association with a server did not come about, in words for the administrator of both.
/// `list` is the client's access list, and `name` the name that the server's certificate must have.
pub(crate) fn explained(
    server: std::net::SocketAddr,
    reason: &lightseal_dtls::CloseReason,
    list: Option<&crate::credential::allow::AccessList>,
    name: Option<&str>,
) -> String {
    use lightseal_dtls::codepoints::AlertDescription as Alert;
    match reason {
        lightseal_dtls::CloseReason::PeerAlert(Alert::PROTOCOL_VERSION) => {
            format!("{server} speaks none of the DTLS versions that this end offers (--dtls)")
        }
        lightseal_dtls::CloseReason::PeerAlert(Alert::INTERNAL_ERROR) => {
            format!(
                "{server} cannot take another client (its --max-sessions, --max-flows or \
                 --flows-per-network), or drains"
            )
        }
        lightseal_dtls::CloseReason::PeerAlert(
            Alert::HANDSHAKE_FAILURE | Alert::INSUFFICIENT_SECURITY,
        ) => {
            format!(
                "{server} and this end have no cipher suite, group or way to use the key in common"
            )
        }
        lightseal_dtls::CloseReason::Fault(lightseal_dtls::Fault::Certificate(why)) => {
            match list.and_then(crate::credential::allow::AccessList::take_refused) {
                Some(refused) => format!("{server} is not accepted: {refused}"),
                None => {
                    let why = crate::credential::refusal(*why, name);
                    format!("{server} is not accepted: {why}")
                }
            }
        }
        lightseal_dtls::CloseReason::PeerAlert(Alert::CERTIFICATE_REQUIRED) => {
            format!("{server} refused this client without a certificate or key: {reason}")
        }
        lightseal_dtls::CloseReason::PeerAlert(
            Alert::BAD_CERTIFICATE
            | Alert::UNSUPPORTED_CERTIFICATE
            | Alert::CERTIFICATE_REVOKED
            | Alert::CERTIFICATE_EXPIRED
            | Alert::CERTIFICATE_UNKNOWN
            | Alert::UNKNOWN_CA,
        ) => {
            format!("{server} refused the certificate or key of this end: {reason}")
        }
        lightseal_dtls::CloseReason::Fault(_) => {
            format!(
                "{server} does not answer as a DTLS server does ({reason}): is --connect right?"
            )
        }
        lightseal_dtls::CloseReason::HandshakeTimeout => format!("{server} does not answer"),
        _ => format!("{server}: {reason}"),
    }
}

/// Raises this process's limit on open sockets to the most that the system allows.
///
/// Each flow takes one socket. The usual soft limit is low only for programs that use `select`.
pub(crate) fn raise_socket_limit() {
    if let Err(error) = system::raise_socket_limit() {
        tracing::debug!("the limit on open sockets stays unchanged: {error}");
    }
}
