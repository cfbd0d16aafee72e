//! Applications behind a network interface of their own: they speak UDP over IPv6 to the group's
//! address and to members' addresses, and need not be changed.

use super::datagram::Datagram;
use super::inside::Inside;
use super::port::{Destination, Origin, Port};
use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use group::member::{Listener, Roles};
use route_manager::{Route, RouteManager};
use std::collections::BTreeMap;
use std::io;
use std::net::Ipv6Addr;
use tun_rs::{AsyncDevice, DeviceBuilder};
use vocabulary::{Encode, Writer};

/// Every network carries such packets whole (RFC 8200, section 5), and what is sealed of them fits
/// where 1500 bytes fit.
const MTU: u16 = 1280;
const PREFIX_BITS: u8 = 64;
const HOP_LIMIT: u8 = 64;
/// Ports of applications whose source address is remembered.
const MOST_PORTS: usize = 1024;
/// Linux's table of addresses that are this machine's own, where multicast is looked up first.
const TABLE_LOCAL: u8 = 255;

/// A TUN device for one member.
pub struct Tun {
    device: AsyncDevice,
    inside: Inside,
    roles: Roles,
    own: Own,
    /// From which of the member's addresses an application asked, by its port.
    sources: BTreeMap<u16, Ipv6Addr>,
    packet: Vec<u8>,
    arrived: Vec<u8>,
}

/// A member's addresses inside of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Own {
    sender: Option<Ipv6Addr>,
    listener: Ipv6Addr,
}

impl Tun {
    /// Makes a device for the member that other members know as `listener`. It is gone with this.
    ///
    /// # Errors
    /// Those of the operating system: to make devices is for root, or `CAP_NET_ADMIN`.
    pub fn create(
        name: &str,
        inside: Inside,
        roles: Roles,
        listener: Listener,
    ) -> io::Result<Self> {
        let own = Own {
            sender: roles.sender.map(|id| inside.sender(id)),
            listener: inside.listener(listener),
        };
        let mut builder = DeviceBuilder::new().name(name).mtu(MTU);
        builder = match own.sender {
            Some(sender) if roles.listener => {
                builder.ipv6(sender, PREFIX_BITS).ipv6(own.listener, PREFIX_BITS)
            }
            Some(sender) => builder.ipv6(sender, PREFIX_BITS),
            None => builder.ipv6(own.listener, PREFIX_BITS),
        };
        let device = builder.build_async()?;
        route(inside.group(), device.if_index()?)?;
        Ok(Self {
            device,
            inside,
            roles,
            own,
            sources: BTreeMap::new(),
            packet: Vec::with_capacity(usize::from(MTU)),
            arrived: vec![0; usize::from(u16::MAX)],
        })
    }

    /// The member's address for requests that it sends, if it does.
    pub const fn sender_address(&self) -> Option<Ipv6Addr> {
        self.own.sender
    }

    /// The member's address for requests that it answers.
    pub const fn listener_address(&self) -> Ipv6Addr {
        self.own.listener
    }
}

/// Has what is sent to the group go to a device, not to the first that does multicast. The route
/// is gone with the device.
fn route(group: Ipv6Addr, index: u32) -> io::Result<()> {
    let route = Route::new(group.into(), 128).with_if_index(index).with_table(TABLE_LOCAL);
    RouteManager::new()?.add(&route)
}

/// What an application's packet says, and where to.
fn read<'p>(
    packet: &'p [u8],
    inside: &Inside,
    roles: Roles,
) -> Option<(Destination, Ipv6Addr, Datagram<'p>)> {
    let sliced = SlicedPacket::from_ip(packet).ok()?;
    let (Some(NetSlice::Ipv6(ip)), Some(TransportSlice::Udp(udp))) =
        (&sliced.net, &sliced.transport)
    else {
        return None;
    };
    if ip.is_payload_fragmented() {
        return None;
    }
    let (from, to) = (ip.header().source_addr(), ip.header().destination_addr());
    let destination = if to == inside.group() && roles.sender.is_some() {
        Destination::Group
    } else {
        Destination::Sender(inside.whose(to).filter(|_| roles.listener)?)
    };
    let (source, destination_port) = (udp.source_port(), udp.destination_port());
    let datagram = Datagram { source, destination: destination_port, data: udp.payload() };
    Some((destination, from, datagram))
}

impl Port for Tun {
    async fn receive(&mut self, buf: &mut [u8]) -> io::Result<(Destination, usize)> {
        loop {
            let len = self.device.recv(&mut self.arrived).await?;
            // The kernel's own packets among them: neighbours and multicast listeners.
            let packet = &self.arrived[..len];
            let Some((to, from, datagram)) = read(packet, &self.inside, self.roles) else {
                continue;
            };
            if to == Destination::Group {
                if self.sources.len() >= MOST_PORTS {
                    self.sources.clear();
                }
                self.sources.insert(datagram.source, from);
            }
            let mut w = Writer::new(buf);
            if datagram.write(&mut w).is_ok() {
                return Ok((to, w.len()));
            }
        }
    }

    fn deliver(&mut self, origin: Origin, datagram: Datagram<'_>) {
        let Datagram { source, destination, data } = datagram;
        let (from, to) = match origin {
            Origin::Sender(sender) => (self.inside.sender(sender), self.inside.group()),
            Origin::Listener(listener) => {
                let asked_from = self.sources.get(&destination).copied();
                let Some(to) = asked_from.or(self.own.sender) else { return };
                (self.inside.listener(listener), to)
            }
        };
        self.packet.clear();
        let builder =
            PacketBuilder::ipv6(from.octets(), to.octets(), HOP_LIMIT).udp(source, destination);
        let written = builder.write(&mut self.packet, data);
        let sent =
            written.map_err(io::Error::other).and_then(|()| self.device.try_send(&self.packet));
        if let Err(error) = sent {
            tracing::debug!("to the application: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use group::{GroupId, SenderId};

    const BOTH: Roles = Roles { sender: Some(SenderId(1)), listener: true };

    fn packet(from: Ipv6Addr, to: Ipv6Addr, data: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv6(from.octets(), to.octets(), 9).udp(4000, 5683);
        builder.write(&mut packet, data).unwrap();
        packet
    }

    #[test]
    fn only_datagrams_to_the_group_and_to_senders_leave() {
        let inside = Inside::new(&GroupId([1; 16]), "[ff15::1]:5684".parse().unwrap());
        let own = inside.sender(SenderId(1));
        let to_group = packet(own, inside.group(), b"get");
        let datagram = Datagram { source: 4000, destination: 5683, data: b"get" };
        assert_eq!(read(&to_group, &inside, BOTH), Some((Destination::Group, own, datagram)));
        let listener = Roles { sender: None, listener: true };
        assert_eq!(read(&to_group, &inside, listener), None);

        let to_sender = packet(own, inside.sender(SenderId(7)), b"on");
        let (to, _, _) = read(&to_sender, &inside, BOTH).unwrap();
        assert_eq!(to, Destination::Sender(SenderId(7)));
        let sender = Roles { sender: Some(SenderId(1)), listener: false };
        assert_eq!(read(&to_sender, &inside, sender), None);

        for elsewhere in ["ff02::1", "ff15::2", "2001:db8::1", "fd00::1"] {
            let astray = packet(own, elsewhere.parse().unwrap(), b"x");
            assert_eq!(read(&astray, &inside, BOTH), None, "{elsewhere}");
        }
        for cut in 0..to_group.len() {
            assert_eq!(read(&to_group[..cut], &inside, BOTH), None, "{cut}");
        }
    }
}
