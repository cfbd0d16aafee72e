//! `lightseal proxy`: carries local UDP flows through DTLS.
//!
//! - [`client`]: in front of applications. Each local source address is a
//!   flow with a socket and an association of its own;
//! - [`server`]: in front of a service. One socket for all associations, and
//!   for each of them a socket towards the service;
//! - [`command`]: the two as commands that run until told to stop;
//! - [`counters`]: what is counted, and how it is shown;
//! - [`status`]: how things stand now.
//!
//! An empty record is a keepalive: the server proxy answers it with another
//! one. Empty datagrams of applications are therefore not carried; they are
//! counted.

pub(crate) mod client;
pub(crate) mod command;
pub(crate) mod counters;
pub(crate) mod server;
pub(crate) mod status;

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
