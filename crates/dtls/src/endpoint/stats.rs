//! The counters of an endpoint.

use crate::error::{Fault, ReasonCounts};
use core::net::SocketAddr;
use core::ops::AddAssign;

/// Counters of datagrams and clients that belong to no association, or not yet. Without the feature
/// `statistics` all of them are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct EndpointStats {
    /// HelloRetryRequests and HelloVerifyRequests sent.
    pub retries: u64,
    /// Associations accepted. The client has proved its key (in DTLS 1.2 it does so later), and its
    /// address if cookies are used.
    pub accepted: u64,
    /// ClientHellos refused. Well-formed ones are answered with an alert.
    pub refused: u64,
    /// The refused ClientHellos by the class of the reason, without those that the application refused
    /// ([`Endpoint::refuse`](super::Endpoint::refuse)).
    pub refused_by: ReasonCounts,
    /// Ignored datagrams: those of no association that are not a ClientHello, and repeated or
    /// outdated ClientHellos of associations.
    pub ignored: u64,
    /// Clients for which no session slot was free. A client is refused either when its ClientHello
    /// arrives, which also counts in `refused`, or when its handshake is complete.
    pub full: u64,
    /// Associations that were evicted and whose slot was given to another client.
    pub evicted: u64,
    /// Hints sent to peers whose records belong to no known association.
    pub hints: u64,
    /// The last client that was refused, and the reason.
    pub last_refusal: Option<(SocketAddr, Fault)>,
}

impl EndpointStats {
    const NONE: Self = Self {
        retries: 0,
        accepted: 0,
        refused: 0,
        refused_by: ReasonCounts::NONE,
        ignored: 0,
        full: 0,
        evicted: 0,
        hints: 0,
        last_refusal: None,
    };
}

/// Sums the counters of several endpoints. The last refusal is that of the last one that has one.
impl AddAssign<&Self> for EndpointStats {
    fn add_assign(&mut self, other: &Self) {
        self.retries += other.retries;
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.refused_by += &other.refused_by;
        self.ignored += other.ignored;
        self.full += other.full;
        self.evicted += other.evicted;
        self.hints += other.hints;
        self.last_refusal = other.last_refusal.or(self.last_refusal);
    }
}

/// What an endpoint counts: nothing in a build without the feature `statistics`.
#[derive(Debug)]
pub(super) struct EndpointCounters(#[cfg(feature = "statistics")] EndpointStats);

#[cfg_attr(not(feature = "statistics"), allow(unused_variables, clippy::unused_self))]
impl EndpointCounters {
    pub(super) const fn new() -> Self {
        Self(
            #[cfg(feature = "statistics")]
            EndpointStats::NONE,
        )
    }

    pub(super) const fn get(&self) -> &EndpointStats {
        #[cfg(feature = "statistics")]
        return &self.0;
        #[cfg(not(feature = "statistics"))]
        &EndpointStats::NONE
    }

    /// Counts something.
    #[inline]
    pub(super) fn note(&mut self, count: impl FnOnce(&mut EndpointStats)) {
        #[cfg(feature = "statistics")]
        count(&mut self.0);
    }
}
