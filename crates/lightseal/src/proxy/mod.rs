//! `lightseal proxy`: carries local UDP flows through DTLS.
//!
//! - [`client`]: in front of applications. Each local source address is a
//!   flow with a socket and an association of its own;
//! - [`server`]: in front of a service. One socket for all associations, and
//!   for each of them a socket towards the service;
//! - [`command`]: the two as commands that run until told to stop;
//! - [`counters`]: what is counted, and how it is shown.
//!
//! An empty record is a keepalive: the server proxy answers it with another
//! one. Empty datagrams of applications are therefore not carried; they are
//! counted.

pub(crate) mod client;
pub(crate) mod command;
pub(crate) mod counters;
pub(crate) mod server;

use vocabulary::Random;

/// Room for what arrives in one datagram: a jumbo frame's worth. The other
/// proxy may have been told to send larger ones than this one.
const ARRIVAL_BYTES: usize = 9_216;

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
