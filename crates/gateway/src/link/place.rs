//! Where datagrams for a peer are sent.
//!
//! An authentic datagram from another IP address changes the address of any peer. The UDP port of a
//! peer with a configured endpoint stays that of the endpoint, since the peer's lanes may send from
//! other ports. The port of a peer without an endpoint follows its datagrams, since a NAT chooses
//! it.

use core::net::SocketAddr;
use core::time::Duration;

/// How long nothing must arrive from a peer's address before a datagram of another lane from
/// another port may change it: the peer's NAT may have restarted, so that the old port leads nowhere.
/// Lanes that send in turn at shorter intervals change nothing.
pub(super) const SILENCE: Duration = Duration::from_secs(2);

/// The source from which a peer's address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The configuration or the resolver.
    Told,
    /// The management channel.
    Channel,
    /// An authentic datagram of this lane.
    Lane(u8),
}

/// The address of a peer: the one in use, and the one that was configured or resolved.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Whereabouts {
    place: Option<(SocketAddr, Source)>,
    told: Option<SocketAddr>,
}

/// An authentic datagram, the newest of its lane, as evidence of the peer's address.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sighting {
    pub(super) from: SocketAddr,
    pub(super) lane: u8,
    /// Whether it is the first datagram under new keys.
    pub(super) first: bool,
    /// Whether nothing has arrived from the peer's address for [`SILENCE`].
    pub(super) silent: bool,
    /// Whether nothing that this gateway sends to the peer is answered.
    pub(super) lost: bool,
}

/// What a datagram means for the peer's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The address is unchanged.
    Here,
    /// The datagram came from another port, which has no effect.
    Elsewhere,
    /// The peer has a new address.
    Moved,
}

impl Whereabouts {
    pub(super) const fn address(&self) -> Option<SocketAddr> {
        match self.place {
            Some((address, _)) => Some(address),
            None => None,
        }
    }

    /// Whether the address was learned from a datagram, which may have passed a NAT.
    pub(super) const fn is_learned(&self) -> bool {
        matches!(self.place, Some((_, Source::Lane(_))))
    }

    /// Sets the address, whatever was learned.
    pub(super) fn set(&mut self, address: Option<SocketAddr>) {
        self.told = address;
        self.place = address.map(|address| (address, Source::Told));
    }

    /// Notes the address from the configuration or the resolver. An address that was learned since
    /// is kept, unless the peer is `lost`: nothing that is sent there is answered.
    pub(super) fn tell(&mut self, address: SocketAddr, lost: bool) {
        self.told = Some(address);
        match self.place {
            Some((_, Source::Lane(_) | Source::Channel)) if !lost => {}
            _ => self.place = Some((address, Source::Told)),
        }
    }

    /// Notes the host that the management channel came from; the port of `address` is that of the
    /// endpoint. It is used only if no datagrams come from the present address any more.
    pub(super) fn connect(&mut self, address: SocketAddr, silent: bool, lost: bool) {
        match self.place {
            Some((known, _)) if known.ip() == address.ip() => {}
            Some((_, Source::Lane(_))) if !lost => {}
            Some(_) if !silent && !lost => {}
            _ => self.place = Some((address, Source::Channel)),
        }
    }

    /// Decides what a datagram means for the address. `roams`: the peer has no configured endpoint.
    pub(super) fn judge(&self, sighting: &Sighting, roams: bool) -> Verdict {
        let &Sighting { from, lane, first, silent, lost } = sighting;
        let Some((address, source)) = self.place else { return Verdict::Moved };
        let another_port_counts = match source {
            _ if address == from => return Verdict::Here,
            _ if address.ip() != from.ip() => return Verdict::Moved,
            Source::Lane(known) => known == lane || first || silent,
            Source::Told | Source::Channel if roams => first || silent,
            Source::Told | Source::Channel => lost,
        };
        match another_port_counts {
            true => Verdict::Moved,
            false if roams || self.is_learned() => Verdict::Elsewhere,
            // The other port is that of one of the peer's lanes.
            false => Verdict::Here,
        }
    }

    /// Sets the address to that of the datagram. If the peer is back at the host of its endpoint,
    /// the port becomes that of the endpoint again.
    pub(super) fn follow(&mut self, sighting: &Sighting, roams: bool) {
        let &Sighting { from, lane, .. } = sighting;
        let moves = self.address().is_none_or(|address| address.ip() != from.ip());
        let back = self.told.filter(|told| moves && !roams && told.ip() == from.ip());
        self.place = Some(match back {
            Some(told) => (told, Source::Told),
            None => (from, Source::Lane(lane)),
        });
    }
}
