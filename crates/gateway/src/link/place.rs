//! Where datagrams for a peer go.
//!
//! An authentic datagram from another IP address moves every peer. The UDP port of a peer with an
//! endpoint stays that of the endpoint, since the peer's lanes may send from ports of their own; the
//! port of a peer without one is followed, since a NAT chooses it.

use core::net::SocketAddr;
use core::time::Duration;

/// How long nothing must come from a peer's address before a datagram of another lane, from another
/// port, may change it: a NAT may have forgotten the port. Lanes that take turns more quickly change
/// nothing.
pub(super) const SILENCE: Duration = Duration::from_secs(2);

/// What a peer's address was learned from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    /// The configuration, or the resolver.
    Told,
    /// The management channel.
    Channel,
    /// An authentic datagram of this lane.
    Lane(u8),
}

/// Where a peer is, and where it was said to be.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Whereabouts {
    place: Option<(SocketAddr, Source)>,
    told: Option<SocketAddr>,
}

/// An authentic datagram, the newest of its lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sighting {
    pub(super) from: SocketAddr,
    pub(super) lane: u8,
    /// It is the first under new keys.
    pub(super) first: bool,
    /// Nothing has come from the peer's address for [`SILENCE`].
    pub(super) silent: bool,
    /// Nothing that this gateway sends there is answered.
    pub(super) lost: bool,
}

/// What a datagram says of the peer's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The peer is where it was.
    Here,
    /// The datagram came from another port, which changes nothing.
    Elsewhere,
    /// The peer has moved.
    Moved,
}

impl Whereabouts {
    pub(super) const fn address(&self) -> Option<SocketAddr> {
        match self.place {
            Some((address, _)) => Some(address),
            None => None,
        }
    }

    /// Whether the address is that of a datagram, which may have come through a NAT.
    pub(super) const fn is_learned(&self) -> bool {
        matches!(self.place, Some((_, Source::Lane(_))))
    }

    /// Sets the address, whatever was learned.
    pub(super) fn set(&mut self, address: Option<SocketAddr>) {
        self.told = address;
        self.place = address.map(|address| (address, Source::Told));
    }

    /// The configuration or the resolver says where the peer is. What was learned since counts more
    /// unless nothing that goes there is answered.
    pub(super) fn tell(&mut self, address: SocketAddr, lost: bool) {
        self.told = Some(address);
        match self.place {
            Some((_, Source::Lane(_) | Source::Channel)) if !lost => {}
            _ => self.place = Some((address, Source::Told)),
        }
    }

    /// The management channel came from the host of `address`, whose port is that of the endpoint.
    /// Counts unless datagrams still come from where the peer is.
    pub(super) fn connect(&mut self, address: SocketAddr, silent: bool, lost: bool) {
        match self.place {
            Some((known, _)) if known.ip() == address.ip() => {}
            Some((_, Source::Lane(_))) if !lost => {}
            Some(_) if !silent && !lost => {}
            _ => self.place = Some((address, Source::Channel)),
        }
    }

    /// What a datagram says. `roams`: the peer has no endpoint.
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
            // The port of a lane of its own.
            false => Verdict::Here,
        }
    }

    /// The peer is where the datagram came from.
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
