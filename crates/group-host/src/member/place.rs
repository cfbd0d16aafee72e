//! A member's two sockets on the interface of the group's network. They are opened again when an
//! interface with the same name is recreated, and when the member's address is replaced.

use super::MemberHostError;
use lightseal_core::Instant;
use lightseal_net::interface::{self, Interface};
use lightseal_net::multicast;
use socket2::SockRef;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::net::UdpSocket;

/// The interval between two checks of the interface. A member must send and receive again within
/// two seconds after a change.
const LOOK: Duration = Duration::from_millis(700);

/// A member's sockets on the group's network.
pub(super) struct GroupSockets {
    /// Receives datagrams that were sent to the group's address.
    pub(super) group: UdpSocket,
    /// Sends this member's datagrams, and receives those that were sent to its own address.
    pub(super) own: UdpSocket,
    interface: Interface,
    to: SocketAddr,
    local: IpAddr,
    /// Whether the operating system lists `local` as an address of this host. It does not if
    /// `local` is an address of a range that is routed to this host.
    is_listed: bool,
    hops: u8,
    look_at: Instant,
    /// The last reported reason for which the sockets cannot be opened again.
    missing: Option<String>,
}

impl GroupSockets {
    /// Opens the sockets for the group's address `to` and the address `local` of this host.
    pub(super) fn take(
        interface: Interface,
        to: SocketAddr,
        local: IpAddr,
        hops: u8,
        now: Instant,
    ) -> Result<Self, MemberHostError> {
        let local = match (to, local) {
            (SocketAddr::V4(_), IpAddr::V6(_)) => Ipv4Addr::UNSPECIFIED.into(),
            _ => local,
        };
        let group = multicast::listen(to, &interface);
        let group = group.map_err(|error| MemberHostError::Socket("the group's address", error))?;
        let own = multicast::member_socket(SocketAddr::new(local, 0), &interface, hops);
        let own = own.map_err(|error| MemberHostError::Socket("this member's address", error))?;
        let (look_at, is_listed) = (now + LOOK, interface::is_own(local));
        Ok(Self { group, own, interface, to, local, is_listed, hops, look_at, missing: None })
    }

    /// When [`Self::look`] is to be called next.
    pub(super) const fn look_at(&self) -> Instant {
        self.look_at
    }

    /// Checks the interface if a check is due, and opens the sockets again if it has changed.
    /// Returns the member's new address if that was replaced.
    pub(super) fn look(&mut self, now: Instant) -> Option<IpAddr> {
        if now < self.look_at {
            return None;
        }
        self.look_at = now + LOOK;
        let before = self.local;
        match self.follow() {
            Ok(()) => self.missing = None,
            Err(missing) if self.missing.as_ref() != Some(&missing) => {
                tracing::warn!("{missing}; waiting for it");
                self.missing = Some(missing);
            }
            Err(_) => {}
        }
        (self.local != before).then_some(self.local)
    }

    fn follow(&mut self) -> Result<(), String> {
        let name = self.interface.name();
        let found = Interface::named(name).map_err(|_| format!("interface {name} is gone"))?;
        let local = self.address_on(&found)?;
        let is_new = found.index() != self.interface.index();
        if is_new {
            let group = multicast::listen(self.to, &found);
            self.group = group.map_err(|error| format!("{found}: {}: {error}", self.to))?;
        }
        if is_new || local != self.local {
            let own = multicast::member_socket(SocketAddr::new(local, 0), &found, self.hops);
            self.own = own.map_err(|error| format!("{found}: {local}: {error}"))?;
        }
        if is_new {
            tracing::info!("interface {found} was recreated: joined the group {} again", self.to);
        }
        if local != self.local {
            tracing::info!("sends from {local}: {} is gone", self.local);
        }
        (self.interface, self.local) = (found, local);
        Ok(())
    }

    /// The address to send from: the current one or, if that is gone, another address of the
    /// interface.
    fn address_on(&self, found: &Interface) -> Result<IpAddr, String> {
        if !self.is_listed || interface::is_own(self.local) {
            return Ok(self.local);
        }
        let link_local = lightseal_net::address::needs_interface(self.local);
        let fits = |address: &&IpAddr| {
            address.is_ipv6() == self.local.is_ipv6()
                && lightseal_net::address::needs_interface(**address) == link_local
        };
        let other = found.addresses().iter().find(fits).copied();
        other.ok_or_else(|| format!("{found} has no address in place of {}", self.local))
    }

    /// Sends from this member's own address.
    pub(super) fn send(&mut self, to: SocketAddr, datagram: &[u8], now: Instant) -> io::Result<()> {
        // The system call is made directly, because the runtime does not know yet that a new socket
        // is writable.
        let sent = SockRef::from(&self.own).send_to(datagram, &to.into());
        if sent.is_err() {
            // The interface or the address may be gone.
            self.look_at = now;
        }
        sent.map(drop)
    }
}
