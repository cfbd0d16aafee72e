//! UDP sockets with room for bursts, which answer from the address that was asked.

use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use socket2::{Domain, Protocol, Socket as RawSocket, Type};
use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use vocabulary::AddressPair;

/// Bytes asked of the kernel for each socket's receive and send buffer.
///
/// At the kernel's usual bookkeeping of some 800 bytes a small datagram this
/// holds about 5000 of them; the kernel may grant less (`net.core.rmem_max`).
pub const BUFFER_BYTES: usize = 4 << 20;

/// A UDP socket bound to `address`, with large buffers.
///
/// Must be called within a tokio runtime.
///
/// # Errors
///
/// Those of the operating system, for example that the address is in use.
pub fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = RawSocket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    // A smaller buffer is no reason to fail: it only costs datagrams in bursts.
    let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(BUFFER_BYTES);
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    UdpSocket::from_std(socket.into())
}

/// A UDP socket on a free port that talks to `peer` alone.
///
/// Must be called within a tokio runtime.
///
/// # Errors
///
/// Those of the operating system, for example that the peer has no route.
pub fn connect(peer: SocketAddr) -> io::Result<UdpSocket> {
    connect_from(&[], peer)
}

/// As [`connect`], from the first of `ports` that is free; from any free one if none of them is.
///
/// # Errors
///
/// As [`connect`].
pub fn connect_from(ports: &[u16], peer: SocketAddr) -> io::Result<UdpSocket> {
    let any = any_address(peer);
    let bound = ports.iter().find_map(|port| bind((any, *port).into()).ok());
    let socket = match bound {
        Some(socket) => socket,
        None => bind((any, 0).into())?,
    };
    socket2::SockRef::from(&socket).connect(&peer.into())?;
    Ok(socket)
}

/// Has the system keep what the network says of this socket's datagrams that did not arrive (ICMP), though
/// it is connected to no peer. [`AddressedSocket::take_reports`] takes it.
///
/// # Errors
///
/// Those of the operating system. Other systems than Linux tell nothing.
pub fn report_unreachable(socket: &UdpSocket) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::socket::{setsockopt, sockopt};
        match socket.local_addr()? {
            SocketAddr::V4(_) => setsockopt(socket, sockopt::Ipv4RecvErr, &true)?,
            SocketAddr::V6(_) => setsockopt(socket, sockopt::Ipv6RecvErr, &true)?,
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = socket;
    Ok(())
}

/// How many reports are taken before something else is done.
#[cfg(target_os = "linux")]
const MOST_REPORTS: usize = 64;

/// What the network may say of a datagram, that [`blocking`](crate::blocking) does not know of: an address that may
/// not be spoken to, or a datagram that is too long.
pub(crate) fn is_report(error: &io::Error) -> bool {
    /// Linux: EACCES, ENONET, EPROTO, EMSGSIZE, ENOPROTOOPT, EOPNOTSUPP, EHOSTDOWN.
    const REPORTS: [i32; 7] = [13, 64, 71, 90, 92, 95, 112];
    cfg!(target_os = "linux") && error.raw_os_error().is_some_and(|code| REPORTS.contains(&code))
}

/// The local address of a socket that talks to `peer` alone.
fn any_address(peer: SocketAddr) -> IpAddr {
    match peer.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(ip) if ip.is_loopback() => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// A UDP socket that tells which of this host's addresses each datagram arrived at, and sends
/// from the one that it is told (`IP_PKTINFO`, `IPV6_PKTINFO` and what other systems have).
///
/// Only a socket that is bound to all addresses of the host needs that: without it the routing
/// table chooses the source of every answer, and a client that asked another address drops it.
#[derive(Debug)]
pub struct AddressedSocket {
    socket: UdpSocket,
    /// Where the socket is bound to all addresses, and the system can tell them apart.
    state: Option<UdpSocketState>,
}

impl AddressedSocket {
    /// Takes a bound socket.
    pub fn new(socket: UdpSocket) -> Self {
        let has_all = socket.local_addr().is_ok_and(|local| local.ip().is_unspecified());
        // A system that cannot tell its addresses apart answers as its routes have it.
        let state = has_all.then(|| tell_addresses(&socket).ok()).flatten();
        Self { socket, state }
    }

    /// The socket itself.
    pub const fn get_ref(&self) -> &UdpSocket {
        &self.socket
    }

    /// Receives a datagram: its length, and whence and where it came.
    ///
    /// # Errors
    ///
    /// Those of the socket, above all [`io::ErrorKind::WouldBlock`].
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, AddressPair)> {
        let Some(state) = &self.state else {
            let (len, peer) = self.socket.try_recv_from(buf)?;
            return Ok((len, AddressPair::to(peer)));
        };
        let meta = self.socket.try_io(Interest::READABLE, || {
            let mut meta = [RecvMeta::default()];
            let socket = UdpSockRef::from(&self.socket);
            state.recv(socket, &mut [IoSliceMut::new(buf)], &mut meta)?;
            Ok(meta)
        })?;
        let [RecvMeta { addr: peer, len, dst_ip, .. }] = meta;
        Ok((len, AddressPair { peer, local: dst_ip.filter(may_be_source) }))
    }

    /// The same, for a task that is called again when a datagram arrives.
    ///
    /// # Errors
    ///
    /// Those of the socket.
    pub fn poll_recv_from(
        &self,
        context: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<(usize, AddressPair)>> {
        loop {
            ready!(self.socket.poll_recv_ready(context))?;
            match self.try_recv_from(buf) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    /// Waits for a datagram. Dropped while it waits, it has lost nothing.
    ///
    /// # Errors
    ///
    /// Those of the socket.
    pub async fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, AddressPair)> {
        poll_fn(|context| self.poll_recv_from(context, buf)).await
    }

    /// Waits until there is something to receive, or until the network has said that something did not
    /// arrive: then [`Self::take_reports`] is to be called.
    ///
    /// # Errors
    ///
    /// Those of the socket.
    pub async fn readable(&self) -> io::Result<bool> {
        #[cfg(target_os = "linux")]
        return Ok(self.socket.ready(Interest::READABLE | Interest::ERROR).await?.is_error());
        #[cfg(not(target_os = "linux"))]
        self.socket.readable().await.map(|()| false)
    }

    /// Takes what the network has said of datagrams that did not arrive, where [`report_unreachable`] wants
    /// it. Returns how many times. Anybody can forge it.
    pub fn take_reports(&self) -> usize {
        #[cfg(not(target_os = "linux"))]
        return 0;
        #[cfg(target_os = "linux")]
        {
            use rustix::net::{RecvAncillaryBuffer, RecvFlags, recvmsg};
            let mut count = 0;
            // What was sent and who says so is of no interest.
            let mut control = RecvAncillaryBuffer::default();
            let flags = RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT;
            let _ = self.socket.try_io(Interest::ERROR, || -> io::Result<()> {
                // Each call takes one; the error that says that there are no more ends the readiness.
                // Whoever floods us with reports does not keep us here.
                while count < MOST_REPORTS {
                    recvmsg(&self.socket, &mut [IoSliceMut::new(&mut [0])], &mut control, flags)?;
                    count += 1;
                }
                Ok(())
            });
            count
        }
    }

    /// Sends a datagram from `way.local`, or as the routes have it if that is not known or is no
    /// address of this host any more.
    ///
    /// # Errors
    ///
    /// Those of the socket, above all [`io::ErrorKind::WouldBlock`].
    pub fn try_send_to(&self, payload: &[u8], way: AddressPair) -> io::Result<()> {
        let (Some(state), Some(local)) = (&self.state, way.local) else {
            return self.socket.try_send_to(payload, way.peer).map(drop);
        };
        let transmit = Transmit {
            destination: way.peer,
            ecn: None,
            contents: payload,
            segment_size: None,
            src_ip: Some(local),
        };
        let sent = self.socket.try_io(Interest::WRITABLE, || {
            state.try_send(UdpSockRef::from(&self.socket), &transmit)
        });
        match sent {
            Err(error) if is_about_source(&error) => {
                self.socket.try_send_to(payload, way.peer).map(drop)
            }
            sent => sent,
        }
    }
}

/// Whether a datagram may leave from the address that another one arrived at: not where that was
/// sent to many.
fn may_be_source(local: &IpAddr) -> bool {
    let local = local.to_canonical();
    !local.is_multicast() && !local.is_unspecified() && local != Ipv4Addr::BROADCAST
}

/// What systems say of a source that is no address of theirs, or from which no route leads there.
fn is_about_source(error: &io::Error) -> bool {
    use io::ErrorKind::{
        AddrNotAvailable, HostUnreachable, InvalidInput, NetworkUnreachable, NotFound,
    };
    matches!(
        error.kind(),
        AddrNotAvailable | HostUnreachable | InvalidInput | NetworkUnreachable | NotFound
    ) || matches!(error.raw_os_error(), Some(ENODEV) if cfg!(unix))
}

/// No such device: on all systems derived from Unix.
const ENODEV: i32 = 19;

/// Has the system tell where datagrams arrive, and changes nothing else about the socket.
fn tell_addresses(socket: &UdpSocket) -> io::Result<UdpSocketState> {
    #[cfg(target_os = "linux")]
    let discovery = path_mtu::discovery(socket)?;
    let state = UdpSocketState::new(UdpSockRef::from(socket))?;
    // quinn-udp prepares sockets for QUIC, which measures the path's MTU itself and takes several
    // datagrams in one piece.
    #[cfg(target_os = "linux")]
    {
        use nix::sys::socket::{setsockopt, sockopt};
        path_mtu::set(socket, discovery)?;
        // Kernels before 5.0 have no such option.
        let _ = setsockopt(socket, sockopt::UdpGroSegment, &false);
        setsockopt(socket, sockopt::ReceiveTimestampns, &false)?;
    }
    #[cfg(target_vendor = "apple")]
    if socket.local_addr()?.is_ipv4() {
        nix::sys::socket::setsockopt(socket, nix::sys::socket::sockopt::IpDontFrag, &false)?;
    }
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    if socket.local_addr()?.is_ipv6() {
        nix::sys::socket::setsockopt(socket, nix::sys::socket::sockopt::Ipv6DontFrag, &false)?;
    }
    Ok(state)
}

/// Whether the kernel splits datagrams that are longer than the path's MTU.
#[cfg(target_os = "linux")]
mod path_mtu {
    use rustix::net::sockopt::{
        Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, ip_mtu_discover, ipv6_mtu_discover,
        set_ip_mtu_discover, set_ipv6_mtu_discover,
    };
    use std::io;
    use tokio::net::UdpSocket;

    type Discovery = (Ipv4PathMtuDiscovery, Option<Ipv6PathMtuDiscovery>);

    pub(super) fn discovery(socket: &UdpSocket) -> io::Result<Discovery> {
        let v6 = socket.local_addr()?.is_ipv6().then(|| ipv6_mtu_discover(socket)).transpose()?;
        Ok((ip_mtu_discover(socket)?, v6))
    }

    pub(super) fn set(socket: &UdpSocket, (v4, v6): Discovery) -> io::Result<()> {
        set_ip_mtu_discover(socket, v4)?;
        Ok(v6.map_or(Ok(()), |v6| set_ipv6_mtu_discover(socket, v6))?)
    }
}
