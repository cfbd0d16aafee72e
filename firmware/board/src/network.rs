//! An engine without I/O, run over UDP.

use crate::ethernet::Ethernet;
use crate::lan9118::Unusable;
use crate::{Clock, tick};
use alloc::vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use lightseal_core::{AddressPair, Engine, Instant, Output};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::udp::{self, PacketBuffer, PacketMetadata};
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr, IpEndpoint, Ipv4Cidr};

/// The longest UDP payload of an Ethernet frame, in bytes.
const DATAGRAM_BYTES: usize = 1472;
/// Room for bursts, in datagrams and in bytes.
const DATAGRAMS: usize = 32;
const BYTES: usize = 16 * 1024;

/// What a program wants after an engine's event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Go on.
    Continue,
    /// Go on from another UDP port.
    NewPort,
    /// Return.
    Stop,
}

/// The addresses of the board.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// The board's address and the length of its network's prefix in bits.
    pub own: (Ipv4Addr, u8),
    /// The router to other networks.
    pub gateway: Ipv4Addr,
    /// The UDP port.
    pub port: u16,
}

/// The network, with one UDP socket.
pub struct Network {
    clock: Clock,
    device: Ethernet,
    interface: Interface,
    sockets: SocketSet<'static>,
    socket: SocketHandle,
    port: u16,
    buf: [u8; DATAGRAM_BYTES],
}

impl Network {
    /// Switches the Ethernet controller on and opens the socket. The processor's tick is started
    /// too, which ends waits.
    ///
    /// # Errors
    /// There is no such controller, or it does not become ready.
    pub fn start(addresses: Addresses, seed: u64) -> Result<Self, Unusable> {
        let mut clock = Clock::start();
        let mut device = Ethernet::start()?;
        let mac = HardwareAddress::Ethernet(EthernetAddress(device.address()?));
        let mut config = Config::new(mac);
        config.random_seed = seed;
        let mut interface = Interface::new(config, &mut device, moment(clock.now()));
        let (own, prefix) = addresses.own;
        interface.update_ip_addrs(|list| {
            // The list has room for two addresses, and this is the only one.
            let _ = list.push(IpCidr::Ipv4(Ipv4Cidr::new(own, prefix)));
        });
        // The table has room for more than one route.
        let _ = interface.routes_mut().add_default_ipv4_route(addresses.gateway);
        let buffer = || PacketBuffer::new(vec![PacketMetadata::EMPTY; DATAGRAMS], vec![0; BYTES]);
        let mut sockets = SocketSet::new(vec![]);
        let socket = sockets.add(udp::Socket::new(buffer(), buffer()));
        tick::start(None);
        let buf = [0; DATAGRAM_BYTES];
        let mut network = Self { clock, device, interface, sockets, socket, port: 0, buf };
        network.bind(addresses.port);
        Ok(network)
    }

    /// Receives what is sent to a multicast group too, and tells routers so. The engine is told
    /// which datagrams were sent to the group.
    ///
    /// # Errors
    /// The controller does not become ready.
    pub fn join(&mut self, group: Ipv4Addr) -> Result<(), Unusable> {
        // Routers ask all hosts.
        for address in [group, Ipv4Addr::new(224, 0, 0, 1)] {
            self.device.listen_to(ethernet_address(address))?;
        }
        // Only addresses that are no group's, and a full table, are errors.
        let _ = self.interface.join_multicast_group(group);
        Ok(())
    }

    /// The time since the start.
    pub fn now(&mut self) -> Instant {
        self.clock.now()
    }

    /// Carries datagrams between the engine and the network, until an event makes `event` stop.
    pub fn run<E: Engine>(&mut self, engine: &mut E, mut event: impl FnMut(E::Event<'_>) -> Next) {
        loop {
            let now = self.poll();
            if let Some((len, way)) = self.receive() {
                let datagram = self.buf.get_mut(..len).unwrap_or_default();
                engine.handle_datagram_on(now, way, datagram);
            } else {
                engine.handle_timeout(now);
            }
            let wake = loop {
                let next = match engine.poll_output(&mut self.buf) {
                    Output::Datagram { to, payload } => {
                        let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.socket);
                        if let SocketAddr::V4(to) = to {
                            // A datagram for which there is no room is lost, as in any network.
                            let _ = socket.send_slice(payload, IpEndpoint::from(to));
                        }
                        Next::Continue
                    }
                    Output::Event(what) => event(what),
                    Output::WakeAt(wake) => break wake,
                    Output::BufferTooSmall { .. } | Output::Idle => break Instant::MAX,
                };
                self.poll();
                match next {
                    Next::Continue => {}
                    Next::NewPort => self.bind(self.port + 1),
                    Next::Stop => return,
                }
            };
            self.wait(wake);
        }
    }

    /// Sleeps until a tick if there is nothing to do.
    fn wait(&mut self, wake: Instant) {
        let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.socket);
        if !socket.can_recv() && !self.device.has_frame() && self.clock.now() < wake {
            cortex_m::asm::wfi();
        }
    }

    /// Carries frames between the controller and the socket.
    fn poll(&mut self) -> Instant {
        let now = self.clock.now();
        self.interface.poll(moment(now), &mut self.device, &mut self.sockets);
        now
    }

    fn receive(&mut self) -> Option<(usize, AddressPair)> {
        let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.socket);
        let (len, from) = socket.recv_slice(&mut self.buf).ok()?;
        let IpAddress::Ipv4(address) = from.endpoint.addr;
        let local = from.local_address.map(|IpAddress::Ipv4(local)| IpAddr::V4(local));
        let peer = SocketAddr::new(IpAddr::V4(address), from.endpoint.port);
        Some((len, AddressPair { peer, local }))
    }

    fn bind(&mut self, port: u16) {
        let socket = self.sockets.get_mut::<udp::Socket<'_>>(self.socket);
        socket.close();
        // Only port zero cannot be bound.
        let _ = socket.bind(port.max(1));
        self.port = port.max(1);
    }
}

/// The Ethernet address of an IPv4 multicast group (RFC 1112, section 6.4).
fn ethernet_address(group: Ipv4Addr) -> [u8; 6] {
    let [_, a, b, c] = group.octets();
    [0x01, 0x00, 0x5e, a & 0x7f, b, c]
}

fn moment(now: Instant) -> smoltcp::time::Instant {
    smoltcp::time::Instant::from_micros(i64::try_from(now.as_micros()).unwrap_or(i64::MAX))
}
