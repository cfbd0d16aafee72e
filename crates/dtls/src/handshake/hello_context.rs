//! What a server needs to answer a client for which it has no state.

use super::cookie::CookieJar;
use super::session::Sessions;
use crate::config::ServerConfig;
use core::net::SocketAddr;
use lightseal_core::{Instant, Random};

/// What a server uses to answer a client for which it has no state.
#[derive(Debug)]
pub(crate) struct HelloContext<'r> {
    pub(crate) config: &'r ServerConfig,
    pub(crate) jar: &'r mut CookieJar,
    pub(crate) sessions: &'r mut Sessions,
    pub(crate) rng: &'r mut Random,
    pub(crate) now: Instant,
    /// The address from which the hello came.
    pub(crate) from: SocketAddr,
    pub(crate) proof: AddressProof,
}

/// When a client must prove its address by a cookie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressProof {
    /// As the configuration says.
    Configured,
    /// In any case.
    Required,
    /// In any case, and with a cookie that it gets now. A client of DTLS 1.3 is asked only once.
    Renewed,
}
