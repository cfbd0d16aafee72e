//! Where datagrams for a peer are sent.
//!
//! An authentic datagram from another IP address changes the address of any peer. The UDP port of a
//! peer with a configured endpoint stays that of the endpoint, since the peer's lanes may send from
//! other ports. The port of a peer without an endpoint follows its datagrams, since a NAT chooses
//! it.

use super::PeerPort;
use core::net::SocketAddr;
use core::time::Duration;

/// How long nothing must arrive from a peer's address before a datagram of another lane from
/// another port may change it: the peer's NAT may have restarted, so that the old port leads
/// nowhere. Lanes that send in turn at shorter intervals change nothing.
pub(super) const ROAMING_SILENCE: Duration = Duration::from_secs(2);

/// The source from which a peer's address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The configuration or the resolver.
    Configured,
    /// The management channel.
    Channel,
    /// An authentic datagram of this lane.
    Lane(u8),
}

/// The address of a peer: the one in use, and the one that was configured or resolved.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PeerAddress {
    current: Option<(SocketAddr, Source)>,
    configured: Option<SocketAddr>,
}

/// An authentic datagram, the newest of its lane, as evidence of the peer's address.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddressEvidence {
    pub(super) from: SocketAddr,
    pub(super) lane: u8,
    /// Whether it is the first datagram under new keys.
    pub(super) first: bool,
    /// Whether nothing has arrived from the peer's address for [`ROAMING_SILENCE`].
    pub(super) silent: bool,
    /// Whether nothing that this gateway sends to the peer is answered.
    pub(super) unanswered: bool,
}

/// What a datagram means for the peer's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AddressChange {
    /// The address is unchanged.
    Unchanged,
    /// The datagram came from another port, which has no effect.
    OtherPort,
    /// The peer has a new address.
    Moved,
}

impl PeerAddress {
    pub(super) const fn address(&self) -> Option<SocketAddr> {
        match self.current {
            Some((address, _)) => Some(address),
            None => None,
        }
    }

    /// Whether the address was learned from a datagram, which may have passed a NAT.
    pub(super) const fn is_learned(&self) -> bool {
        matches!(self.current, Some((_, Source::Lane(_))))
    }

    /// Sets the address, whatever was learned.
    pub(super) fn set(&mut self, address: Option<SocketAddr>) {
        self.configured = address;
        self.current = address.map(|address| (address, Source::Configured));
    }

    /// Notes the address from the configuration or the resolver. An address that was learned since
    /// is kept, unless the peer is `unanswered`: it answers nothing that is sent there.
    pub(super) fn configure(&mut self, address: SocketAddr, unanswered: bool) {
        self.configured = Some(address);
        match self.current {
            Some((_, Source::Lane(_) | Source::Channel)) if !unanswered => {}
            _ => self.current = Some((address, Source::Configured)),
        }
    }

    /// Notes the host that the management channel came from; the port of `address` is that of the
    /// endpoint. It is used only if no datagrams come from the present address any more.
    pub(super) fn note_channel(&mut self, address: SocketAddr, silent: bool, unanswered: bool) {
        match self.current {
            Some((known, _)) if known.ip() == address.ip() => {}
            Some((_, Source::Lane(_))) if !unanswered => {}
            Some(_) if !silent && !unanswered => {}
            _ => self.current = Some((address, Source::Channel)),
        }
    }

    /// Decides what a datagram means for the address.
    pub(super) fn assess(&self, evidence: &AddressEvidence, port: PeerPort) -> AddressChange {
        let &AddressEvidence { from, lane, first, silent, unanswered } = evidence;
        let Some((address, source)) = self.current else { return AddressChange::Moved };
        let another_port_counts = match source {
            _ if address == from => return AddressChange::Unchanged,
            _ if address.ip() != from.ip() => return AddressChange::Moved,
            Source::Lane(known) => known == lane || first || silent,
            Source::Configured | Source::Channel if port == PeerPort::Learned => first || silent,
            Source::Configured | Source::Channel => unanswered,
        };
        match another_port_counts {
            true => AddressChange::Moved,
            false if port == PeerPort::Learned || self.is_learned() => AddressChange::OtherPort,
            // The other port is that of one of the peer's lanes.
            false => AddressChange::Unchanged,
        }
    }

    /// Sets the address to that of the datagram. If the peer is back at the host of its endpoint,
    /// the port becomes that of the endpoint again.
    pub(super) fn move_to(&mut self, evidence: &AddressEvidence, port: PeerPort) {
        let &AddressEvidence { from, lane, .. } = evidence;
        let moves = self.address().is_none_or(|address| address.ip() != from.ip());
        let back = self.configured.filter(|configured| {
            moves && port == PeerPort::Configured && configured.ip() == from.ip()
        });
        self.current = Some(match back {
            Some(configured) => (configured, Source::Configured),
            None => (from, Source::Lane(lane)),
        });
    }
}
