//! `lightseal proxy`: carries local UDP flows through DTLS.
//!
//! - [`client`]: in front of applications. Each local source address is a
//!   flow with a socket and an association of its own;
//! - [`server`]: in front of a service. One socket for all associations, and
//!   for each of them a socket towards the service;
//! - [`command`]: the two as commands that run until told to stop;
//! - [`destination`]: where the other proxy or the service is;
//! - [`loops`]: whether what is carried comes back;
//! - [`reconnect`]: what becomes of flows whose server does not answer;
//! - [`shares`]: who gives way when all flows are taken;
//! - [`counters`]: what is counted, and how it is shown;
//! - [`report`]: what a proxy reports of itself and its peers, and why something was dropped;
//! - [`status_socket`], [`status_command`], [`status_text`]: a proxy that runs is asked for its report;
//! - [`status`]: how things stand now, in one line of the log.
//!
//! An empty record is a keepalive: the server proxy answers it with another
//! one. Empty datagrams of applications are therefore not carried; they are
//! counted.

pub(crate) mod client;
pub(crate) mod command;
pub(crate) mod counters;
pub(crate) mod destination;
pub(crate) mod loops;
mod reconnect;
pub(crate) mod report;
pub(crate) mod server;
pub(crate) mod shares;
pub(crate) mod status;
pub(crate) mod status_command;
pub(crate) mod status_socket;
pub(crate) mod status_text;

use vocabulary::Random;

/// Room for what arrives in one datagram: a jumbo frame's worth. The other
/// proxy may have been told to send larger ones than this one.
const ARRIVAL_BYTES: usize = 9_216;

/// The fastest provider this program was built with.
fn provider() -> &'static dtls::crypto::Provider {
    #[cfg(feature = "aws-lc")]
    return &dtls_aws_lc::PROVIDER;
    #[cfg(not(feature = "aws-lc"))]
    return &dtls::crypto::rustcrypto::PROVIDER;
}

/// The settings both ends start from.
///
/// # Errors
///
/// If the provider computes wrong results.
pub(crate) fn settings() -> Result<dtls::Settings, dtls::ConfigError> {
    dtls::Settings::new(provider())
}

/// What two ends agreed on, for the log. A suite of DTLS 1.2 says itself how it uses the key.
fn described(agreed: &dtls::Negotiated) -> String {
    let mode = match agreed.version {
        dtls::ProtocolVersion::Dtls12 => String::new(),
        dtls::ProtocolVersion::Dtls13 => format!(", {}", agreed.psk_mode()),
    };
    let dtls::Negotiated { version, suite_name, send, receive, .. } = agreed;
    format!("{version}, {suite_name}{mode}, tags {send} out, {receive} in")
}

/// How long a message may be, from a flow's first one on: shorter than most flows could carry in the
/// end, since before the handshake nobody knows what the other end asks for.
///
/// # Errors
///
/// If the settings are no good.
pub(crate) fn longest_message(settings: &dtls::Settings) -> Result<usize, dtls::ConfigError> {
    let psk = dtls::Psk::external(b"nobody", &[0; 32])?;
    let config =
        dtls::ClientConfig::with(psk, dtls::Settings { key_log: None, ..settings.clone() });
    let (anywhere, now) = (([127, 0, 0, 1], 9).into(), vocabulary::Instant::from_micros(0));
    let nothing = Random::from_seed([0; 32]);
    let connection = dtls::Connection::client(config.into(), anywhere, now, nothing)?;
    Ok(connection.max_payload())
}

/// Says that the other end shares no tags, though this one would.
pub(crate) fn unshared(
    wanted: &dtls::AggregationPolicy,
    agreed: &dtls::Negotiated,
) -> Option<String> {
    let missing = |list: &[dtls::Scheme], used: dtls::Scheme| {
        !used.aggregates() && !list.is_empty() && list.iter().all(|scheme| scheme.aggregates())
    };
    let (out, back) =
        (missing(&wanted.send, agreed.send), missing(&wanted.receive, agreed.receive));
    let direction = match (out, back) {
        (true, true) => "in neither direction",
        (true, false) => "not out of here",
        (false, true) => "not in to here",
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

/// The datagrams that the kernel dropped at a socket because this program was too slow.
pub(crate) fn overruns(socket: &tokio::net::UdpSocket) -> u64 {
    #[cfg(target_os = "linux")]
    return packet_io::udp::overruns(std::os::fd::AsFd::as_fd(socket));
    #[cfg(not(target_os = "linux"))]
    0
}

/// Reads to its end what waits at a socket that is about to be closed: how many datagrams nobody
/// read.
pub(crate) fn unread(socket: &tokio::net::UdpSocket) -> u64 {
    /// More than the largest receive buffer holds.
    const MOST: u64 = 1_000_000;
    let socket = socket2::SockRef::from(socket);
    let mut count = 0;
    while count < MOST {
        match socket.recv(&mut [std::mem::MaybeUninit::uninit(); 1]) {
            Ok(_) => count += 1,
            // An error of an earlier datagram: others may follow it.
            Err(error) if net::blocking::is_loss(&error) => {}
            Err(_) => break,
        }
    }
    count
}

/// Why a server did not take a client, for whoever set them up.
pub(crate) fn explained(server: std::net::SocketAddr, reason: &dtls::CloseReason) -> String {
    use dtls::codepoints::AlertDescription as Alert;
    match reason {
        dtls::CloseReason::PeerAlert(Alert::PROTOCOL_VERSION) => {
            format!("{server} speaks none of the DTLS versions that this end offers (--dtls)")
        }
        dtls::CloseReason::PeerAlert(Alert::INTERNAL_ERROR) => {
            format!("{server} cannot take another client (its --max-sessions or --max-flows)")
        }
        dtls::CloseReason::PeerAlert(Alert::HANDSHAKE_FAILURE | Alert::INSUFFICIENT_SECURITY) => {
            format!(
                "{server} and this end have no cipher suite, group or way to use the key in common"
            )
        }
        dtls::CloseReason::Fault(_) => {
            format!(
                "{server} does not answer as a DTLS server does ({reason}): is --connect right?"
            )
        }
        dtls::CloseReason::HandshakeTimeout => format!("{server} does not answer"),
        _ => format!("{server}: {reason}"),
    }
}

/// Lets this process have as many sockets as the system allows it.
///
/// Each flow takes one. The usual soft limit is low only for the sake of
/// programs that use `select`.
pub(crate) fn raise_socket_limit() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, getrlimit, setrlimit};
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = limit.maximum;
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::debug!("the limit on open sockets stays: {error}");
        }
    }
}

/// A generator seeded by the operating system.
///
/// # Errors
///
/// If the operating system has no randomness to give.
pub(crate) fn os_random() -> Result<Random, getrandom::Error> {
    let mut seed = zeroize::Zeroizing::new([0; 32]);
    getrandom::fill(&mut *seed)?;
    Ok(Random::from_seed(*seed))
}
