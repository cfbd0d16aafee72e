//! An [`ApplicationPort`] for applications behind a TUN device. They send UDP over IPv6 to the
//! group's and the members' inner addresses, and need not be changed.

use super::datagram::Datagram;
use super::inside::InnerNetwork;
use super::port::{ApplicationPort, Destination, Origin};
use etherparse::icmpv6::DestUnreachableCode;
use etherparse::{Icmpv6Type, NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use lightseal_core::{Encode, Writer};
use lightseal_group::SenderId;
use lightseal_group::member::{Listener, RequestKind, Roles};
use lightseal_net::interface::Interface;
use route_manager::{Route, RouteManager};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};
use tun_rs::{AsyncDevice, DeviceBuilder};

/// The minimum MTU of IPv6 (RFC 8200, section 5). The records with such packets fit into 1500
/// bytes.
const MTU: u16 = 1280;
const PREFIX_BITS: u8 = 64;
const HOP_LIMIT: u8 = 64;
/// The maximum number of bytes that an ICMPv6 message quotes, so that it is no longer than the MTU
/// (RFC 4443, section 2.4).
const MOST_QUOTED: usize = MTU as usize - 48;
/// The maximum number of applications' ports whose source address is stored, and of remote
/// applications whose direct requests are remembered.
const MOST_PORTS: usize = 1024;
/// How long after a direct request a datagram to the application that sent it counts as the
/// response to that request, even if a group request came from the same application in between: any
/// member can forge a group request, to draw the response to another address.
const DIRECT_FIRST: Duration = Duration::from_secs(30);
/// Linux's local routing table, which is looked up first, also for multicast.
const TABLE_LOCAL: u8 = 255;

/// A TUN device for one member.
pub struct Tun {
    device: AsyncDevice,
    inside: InnerNetwork,
    roles: Roles,
    own: Own,
    /// The member's inner address from which each application sent its last request, by source
    /// port.
    sources: BTreeMap<u16, Ipv6Addr>,
    answered: AnsweredRequests,
    packet: Vec<u8>,
    arrived: Vec<u8>,
}

/// A remote application: a sender, and the source port of its requests.
type Application = (SenderId, u16);

/// The kind of request that an application's datagram to a remote application answers. A packet
/// does not tell it, because its addresses are the same for both kinds.
#[derive(Default)]
struct AnsweredRequests {
    /// The remote applications that sent a direct request: when the last one came, and the kind of
    /// their last request.
    direct: BTreeMap<Application, (Instant, RequestKind)>,
}

impl AnsweredRequests {
    fn direct_request(&mut self, now: Instant, from: Application) {
        if self.direct.len() >= MOST_PORTS {
            self.direct.retain(|_, (at, _)| now < *at + DIRECT_FIRST);
        }
        if self.direct.len() < MOST_PORTS || self.direct.contains_key(&from) {
            self.direct.insert(from, (now, RequestKind::Direct));
        }
    }

    fn group_request(&mut self, from: Application) {
        if let Some((_, last)) = self.direct.get_mut(&from) {
            *last = RequestKind::Group;
        }
    }

    fn kind(&self, now: Instant, to: Application) -> RequestKind {
        match self.direct.get(&to) {
            Some((at, _)) if now < *at + DIRECT_FIRST => RequestKind::Direct,
            Some((_, last)) => *last,
            None => RequestKind::Group,
        }
    }
}

/// A member's own inner addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Own {
    sender: Option<Ipv6Addr>,
    listener: Ipv6Addr,
}

impl Tun {
    /// Creates a device for the member that other members know as `listener`, or takes over a
    /// device of this name from an earlier run, so that applications that use it can continue. The
    /// device is removed when this value is dropped, unless `stays` is true: then a later run can
    /// take it over.
    ///
    /// # Errors
    /// The operating system's error. To create devices requires root or `CAP_NET_ADMIN`.
    pub fn create(
        name: &str,
        inside: InnerNetwork,
        roles: Roles,
        listener: Listener,
        stays: bool,
    ) -> io::Result<Self> {
        let device = DeviceBuilder::new().name(name).mtu(MTU).build_async()?;
        if stays {
            device.persist()?;
        }
        let mut tun = Self {
            device,
            inside,
            roles,
            own: Own::new(&inside, roles, listener),
            sources: BTreeMap::new(),
            answered: AnsweredRequests::default(),
            packet: Vec::with_capacity(usize::from(MTU)),
            arrived: vec![0; usize::from(u16::MAX)],
        };
        tun.take_place(inside, roles, listener)?;
        Ok(tun)
    }

    /// Assigns the device to a member that has joined again. Applications that use the device can
    /// continue, even if the member has other inner addresses now.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn take_place(
        &mut self,
        inside: InnerNetwork,
        roles: Roles,
        listener: Listener,
    ) -> io::Result<()> {
        let own = Own::new(&inside, roles, listener);
        let wanted: Vec<Ipv6Addr> = own.addresses(roles).collect();
        let there = Interface::named(&self.device.name()?)?;
        let there = there.addresses().iter().filter_map(|address| match address {
            IpAddr::V6(address) if address.is_unique_local() => Some(*address),
            _ => None,
        });
        let there: Vec<Ipv6Addr> = there.collect();
        for address in there.iter().filter(|address| !wanted.contains(address)) {
            self.device.remove_address_v6(*address, PREFIX_BITS)?;
        }
        for address in wanted.iter().filter(|address| !there.contains(address)) {
            self.device.add_address_v6(*address, PREFIX_BITS)?;
        }
        match route(inside.group(), self.device.if_index()?) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            done => done?,
        }
        if self.inside != inside {
            self.sources.clear();
        }
        (self.inside, self.roles, self.own) = (inside, roles, own);
        Ok(())
    }

    /// The member's inner address for requests that it sends; `None` if it is not a sender.
    pub const fn sender_address(&self) -> Option<Ipv6Addr> {
        self.own.sender
    }

    /// The member's inner address for requests that it answers.
    pub const fn listener_address(&self) -> Ipv6Addr {
        self.own.listener
    }
}

impl Own {
    fn new(inside: &InnerNetwork, roles: Roles, listener: Listener) -> Self {
        Self {
            sender: roles.sender.map(|id| inside.sender(id)),
            listener: inside.listener(listener),
        }
    }

    /// The addresses that are assigned to the device.
    fn addresses(self, roles: Roles) -> impl Iterator<Item = Ipv6Addr> {
        let listens = roles.listener || self.sender.is_none();
        self.sender.into_iter().chain(listens.then_some(self.listener))
    }
}

/// Adds a route that sends packets for the group to this device, instead of the first device that
/// supports multicast. The route is removed with the device.
fn route(group: Ipv6Addr, index: u32) -> io::Result<()> {
    let route = Route::new(group.into(), 128).with_if_index(index).with_table(TABLE_LOCAL);
    RouteManager::new()?.add(&route)
}

/// The destination, the source address and the datagram of an application's packet; `None` if it is
/// not a UDP packet to the group's inner network.
fn read<'p>(
    packet: &'p [u8],
    inside: &InnerNetwork,
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
    let destination = if to == inside.group() {
        roles.sender.map(|_| Destination::Group)?
    } else if let Some(sender) = inside.sender_at(to).filter(|_| roles.listener) {
        Destination::Sender(sender)
    } else if let Some(listener) = inside.listener_at(to).filter(|_| roles.sender.is_some()) {
        Destination::Listener(listener)
    } else {
        Destination::Unreachable(Some(to).filter(|to| inside.contains(*to))?)
    };
    let (source, destination_port) = (udp.source_port(), udp.destination_port());
    let datagram = Datagram { source, destination: destination_port, data: udp.payload() };
    Some((destination, from, datagram))
}

impl ApplicationPort for Tun {
    async fn receive(&mut self, buf: &mut [u8]) -> io::Result<(Destination, usize)> {
        loop {
            let len = self.device.recv(&mut self.arrived).await?;
            // The kernel also sends packets of its own (neighbour discovery, multicast listener
            // reports), which are skipped.
            let packet = &self.arrived[..len];
            let Some((to, from, datagram)) = read(packet, &self.inside, self.roles) else {
                continue;
            };
            let mut to = to;
            if let Destination::Sender(sender) = to {
                let kind = self.answered.kind(Instant::now(), (sender, datagram.destination));
                if kind == RequestKind::Direct {
                    to = Destination::DirectSender(sender);
                }
            } else {
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

    /// Sends the application a Destination Unreachable message (RFC 4443, section 3.1).
    fn refuse(&mut self, to: Destination, datagram: Datagram<'_>) {
        let to = match to {
            Destination::Listener(id) => self.inside.listener(Listener::Id(id)),
            Destination::Unreachable(address) => address,
            Destination::Sender(id) | Destination::DirectSender(id) => self.inside.sender(id),
            // ICMPv6 errors are not sent for multicast packets.
            Destination::Group => return,
        };
        let known = self.sources.get(&datagram.source).copied();
        let from = known.or(self.own.sender).unwrap_or(self.own.listener);
        unreachable(&mut self.packet, (from, to), &datagram);
        self.hand_over();
    }

    fn deliver(&mut self, origin: Origin, datagram: Datagram<'_>) {
        let Datagram { source, destination, data } = datagram;
        let (from, to) = match origin {
            Origin::Sender(sender) => {
                self.answered.group_request((sender, source));
                (self.inside.sender(sender), self.inside.group())
            }
            Origin::DirectSender(sender) => {
                self.answered.direct_request(Instant::now(), (sender, source));
                (self.inside.sender(sender), self.own.listener)
            }
            Origin::Listener(listener) => {
                let asked_from = self.sources.get(&destination).copied();
                let Some(to) = asked_from.or(self.own.sender) else { return };
                (self.inside.listener(listener), to)
            }
        };
        self.packet.clear();
        let builder =
            PacketBuilder::ipv6(from.octets(), to.octets(), HOP_LIMIT).udp(source, destination);
        match builder.write(&mut self.packet, data) {
            Ok(()) => self.hand_over(),
            Err(error) => tracing::debug!("cannot deliver to the application: {error}"),
        }
    }
}

impl Tun {
    /// Passes the packet to the kernel.
    fn hand_over(&self) {
        if let Err(error) = self.device.try_send(&self.packet) {
            tracing::debug!("cannot deliver to the application: {error}");
        }
    }
}

/// Writes an ICMPv6 message Destination Unreachable (port unreachable) that quotes a sent datagram.
fn unreachable(packet: &mut Vec<u8>, (from, to): (Ipv6Addr, Ipv6Addr), sent: &Datagram<'_>) {
    let mut quoted = Vec::with_capacity(usize::from(MTU));
    let builder = PacketBuilder::ipv6(from.octets(), to.octets(), HOP_LIMIT)
        .udp(sent.source, sent.destination);
    packet.clear();
    if builder.write(&mut quoted, sent.data).is_ok() {
        quoted.truncate(MOST_QUOTED);
        let kind = Icmpv6Type::DestinationUnreachable(DestUnreachableCode::Port);
        let message = PacketBuilder::ipv6(to.octets(), from.octets(), HOP_LIMIT).icmpv6(kind);
        // Writing into a vector fails only if the packet is too long.
        let _ = message.write(packet, &quoted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lightseal_group::{GroupId, ListenerId};

    const BOTH: Roles = Roles { sender: Some(SenderId(1)), listener: true };

    fn packet(from: Ipv6Addr, to: Ipv6Addr, data: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        let builder = PacketBuilder::ipv6(from.octets(), to.octets(), 9).udp(4000, 5683);
        builder.write(&mut packet, data).unwrap();
        packet
    }

    #[test]
    fn only_datagrams_to_the_group_and_to_senders_leave() {
        let inside = InnerNetwork::new(&GroupId([1; 16]), "[ff15::1]:5684".parse().unwrap());
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
        let nobody = |to: &[u8], roles| match read(to, &inside, roles) {
            Some((Destination::Unreachable(_), ..)) => true,
            Some(_) => false,
            None => panic!("the packet was ignored"),
        };
        assert!(nobody(&to_sender, sender), "a sender cannot send to another sender");

        let id = ListenerId::new(5).unwrap();
        let to_listener = packet(own, inside.listener(Listener::Id(id)), b"get");
        let (to, _, _) = read(&to_listener, &inside, sender).unwrap();
        assert_eq!(to, Destination::Listener(id));
        assert!(nobody(&to_listener, listener));
        let behind = u128::from(inside.sender(SenderId(0))) + (1 << 20);
        assert!(nobody(&packet(own, behind.into(), b"x"), BOTH));

        for elsewhere in ["ff02::1", "ff15::2", "2001:db8::1", "fd00::1"] {
            let astray = packet(own, elsewhere.parse().unwrap(), b"x");
            assert_eq!(read(&astray, &inside, BOTH), None, "{elsewhere}");
        }
        for cut in 0..to_group.len() {
            assert_eq!(read(&to_group[..cut], &inside, BOTH), None, "{cut}");
        }
    }

    /// A forged group request between a direct request and its response changes nothing.
    #[test]
    fn a_response_soon_after_a_direct_request_answers_that_request() {
        let mut answered = AnsweredRequests::default();
        let (start, application) = (Instant::now(), (SenderId(7), 4000));
        answered.group_request(application);
        assert_eq!(answered.kind(start, application), RequestKind::Group);
        answered.direct_request(start, application);
        answered.group_request(application);
        let soon = start + DIRECT_FIRST - Duration::from_millis(1);
        assert_eq!(answered.kind(soon, application), RequestKind::Direct);
        assert_eq!(answered.kind(soon, (SenderId(7), 4001)), RequestKind::Group);
        assert_eq!(answered.kind(start + DIRECT_FIRST, application), RequestKind::Group);
        answered.direct_request(start, application);
        assert_eq!(answered.kind(start + DIRECT_FIRST * 9, application), RequestKind::Direct);
        // A full table makes room for new applications as soon as its entries are old.
        for port in 0..MOST_PORTS as u16 {
            answered.direct_request(start, (SenderId(8), port));
        }
        assert_eq!(answered.direct.len(), MOST_PORTS);
        answered.direct_request(start + DIRECT_FIRST, (SenderId(9), 1));
        assert_eq!(answered.direct.len(), 1);
    }

    #[test]
    fn what_reaches_nobody_is_quoted_to_who_sent_it() {
        let inside = InnerNetwork::new(&GroupId([1; 16]), "[ff15::1]:5684".parse().unwrap());
        let (from, to) = (inside.sender(SenderId(1)), inside.sender(SenderId(9)));
        for len in [0, 3, 1232, 9000] {
            let data = vec![7; len];
            let sent = Datagram { source: 4000, destination: 5683, data: &data };
            let mut message = Vec::new();
            unreachable(&mut message, (from, to), &sent);
            assert!(message.len() <= usize::from(MTU), "{}", message.len());
            let sliced = SlicedPacket::from_ip(&message).unwrap();
            let (Some(NetSlice::Ipv6(ip)), Some(TransportSlice::Icmpv6(icmp))) =
                (&sliced.net, &sliced.transport)
            else {
                panic!("not ICMPv6");
            };
            let header = ip.header();
            assert_eq!((header.source_addr(), header.destination_addr()), (to, from));
            assert_eq!((icmp.type_u8(), icmp.code_u8()), (1, 4));
            let (from, to) = (from.octets(), to.octets());
            assert!(icmp.header().checksum != 0 && icmp.is_checksum_valid(to, from));
            let quoted = &message[48..];
            assert_eq!(quoted[8..24], from);
            assert_eq!(quoted[40..44], [0x0f, 0xa0, 0x16, 0x33], "its ports");
        }
    }
}
