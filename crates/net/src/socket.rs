//! UDP sockets with room for bursts, which answer from the address at which a datagram arrived.

use crate::batch::{ReceiveBatch, SendBatch};
use crate::blocking::is_loss;
pub use crate::non_blocking::NonBlocking;
use crate::system;
use lightseal_core::AddressPair;
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use socket2::{Domain, Protocol, Socket as RawSocket, Type};
use std::future::poll_fn;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket as StdSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// Number of datagrams that are received from one socket before other work is done.
pub const BATCH: usize = 32;

/// Size in bytes that each socket asks of the kernel for its receive and send buffers.
///
/// The kernel accounts about 800 bytes for a small datagram, so this holds about 5000 of them. The
/// kernel may grant less (`net.core.rmem_max`).
pub const BUFFER_BYTES: usize = 4 << 20;

/// Takes up to [`BATCH`] datagrams that wait in a socket. `receive` receives one without waiting.
/// Errors that an earlier datagram has caused count as losses.
///
/// # Errors
///
/// Other errors of the socket.
pub fn receive_batch<A>(
    buf: &mut [u8],
    receive: impl Fn(&mut [u8]) -> io::Result<(usize, A)>,
    mut take: impl FnMut(A, &mut [u8]),
) -> io::Result<()> {
    for _ in 0..BATCH {
        match receive(buf) {
            Ok((len, from)) => take(from, &mut buf[..len]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if is_loss(&error) || is_report(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A UDP socket bound to `address`, with large buffers.
///
/// Must be called within a tokio runtime.
///
/// # Errors
///
/// Errors of the operating system, for example that the address is in use.
pub fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    UdpSocket::from_std(bind_outside(address)?)
}

/// A socket as of [`bind`] that is in no runtime.
///
/// # Errors
///
/// The errors of [`bind`].
pub fn bind_outside(address: SocketAddr) -> io::Result<StdSocket> {
    bound(open(address)?, address)
}

/// A UDP socket with large buffers that does not block, and is not bound yet.
pub(crate) fn open(address: SocketAddr) -> io::Result<RawSocket> {
    let socket = RawSocket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
    // A smaller buffer is no reason to fail: it only loses datagrams in bursts.
    let _ = socket.set_recv_buffer_size(BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(BUFFER_BYTES);
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn bound(socket: RawSocket, address: SocketAddr) -> io::Result<StdSocket> {
    socket.bind(&address.into())?;
    Ok(socket.into())
}

/// A UDP socket on a free port that is connected to `peer`.
///
/// Must be called within a tokio runtime.
///
/// # Errors
///
/// Errors of the operating system, for example that there is no route to the peer.
pub fn connect(peer: SocketAddr) -> io::Result<UdpSocket> {
    UdpSocket::from_std(connect_from(&[], peer)?)
}

/// A socket as of [`connect`], from the first of `ports` that is free, or from any free port if none of
/// them is. It does not block, and is in no runtime.
///
/// # Errors
///
/// The errors of [`connect`].
pub fn connect_from(ports: &[u16], peer: SocketAddr) -> io::Result<StdSocket> {
    let any = any_address(peer);
    connect_by(ports, peer, |port| {
        let local = SocketAddr::from((any, port));
        bound(open(local)?, local)
    })
}

/// The most datagrams that are taken out of a new socket: more than its buffer holds.
const MOST_STRAY: usize = 1 << 16;

/// Binds a socket to the first of `ports` that is free, or to any, and connects it. What arrived before
/// it was connected, from anybody, is taken out: the peer has heard nothing from this socket yet.
fn connect_by(
    ports: &[u16],
    peer: SocketAddr,
    bind: impl Fn(u16) -> io::Result<StdSocket>,
) -> io::Result<StdSocket> {
    let chosen = ports.iter().find_map(|port| bind(*port).ok());
    let socket = chosen.map_or_else(|| bind(0), Ok)?;
    socket.connect(peer)?;
    let is_empty = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
    (0..MOST_STRAY).find(|_| socket.recv(&mut [0; 1]).is_err_and(|error| is_empty(&error)));
    Ok(socket)
}

/// Does what [`connect_from`] does, from the address `local`. The address need not be one of this
/// host's: routes must lead what is sent to it here. On systems other than Linux it must be the
/// host's.
///
/// # Errors
///
/// The errors of [`connect`], or if the system does not let this process use the address.
pub fn connect_from_address(
    local: IpAddr,
    ports: &[u16],
    peer: SocketAddr,
) -> io::Result<StdSocket> {
    connect_by(ports, peer, |port| {
        let local = SocketAddr::from((local, port));
        let socket = open(local)?;
        system::allow_foreign_address(&socket, local)?;
        bound(socket, local)
    })
}

/// Has the system keep the ICMP reports about datagrams of this socket that did not arrive,
/// although the socket is connected to no peer. [`AddressedSocket::take_reports`] reads them.
///
/// # Errors
///
/// Errors of the operating system. On systems other than Linux this has no effect.
pub fn report_unreachable(socket: &impl NonBlocking) -> io::Result<()> {
    system::report_unreachable(&socket.raw())
}

/// Whether an error is a report from the network that [`blocking`](crate::blocking) does not know:
/// an address to which nothing may be sent, or a datagram that is too long.
pub fn is_report(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(|code| system::REPORTS.contains(&code))
}

/// The local address for a socket that is connected to `peer`: a loopback address if `peer` is one,
/// else the unspecified address.
fn any_address(peer: SocketAddr) -> IpAddr {
    match peer.ip() {
        IpAddr::V4(ip) if ip.is_loopback() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(ip) if ip.is_loopback() => Ipv6Addr::LOCALHOST.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// A UDP socket that tells at which of this host's addresses each datagram arrived, and sends from
/// the address that it is given (`IP_PKTINFO`, `IPV6_PKTINFO`, and what other systems have).
///
/// Only a socket that is bound to all addresses of the host needs this. Otherwise the routing table
/// would choose the source address of each answer, and a client that asked another address drops
/// it.
#[derive(Debug)]
pub struct AddressedSocket<S = UdpSocket> {
    socket: S,
    /// State for batches, and for reading and setting addresses; `None` if the system does not
    /// support them.
    state: Option<UdpSocketState>,
    /// Whether the socket is bound to all addresses of the host, so that addresses are read and set.
    has_all: bool,
    /// Whether the socket is connected to one peer.
    connected: bool,
    /// Whether the system has a call that receives several datagrams, as far as is known.
    receives_batches: AtomicBool,
}

/// What became of a [`SendBatch`].
#[derive(Debug)]
pub struct BatchSent {
    /// The number of datagrams that the system has taken.
    pub sent: usize,
    /// Why the system has not taken the datagram behind those. Nothing was tried behind that one.
    pub error: Option<io::Error>,
}

impl<S: NonBlocking> AddressedSocket<S> {
    /// Wraps a bound socket.
    pub fn new(socket: S) -> Self {
        let local = socket.raw().local_addr().ok().and_then(|local| local.as_socket());
        let has_all = local.is_some_and(|local| local.ip().is_unspecified());
        // On a system without support, answers leave from the address that the routing table
        // chooses.
        // Elsewhere the state forbids fragments, and has no batches that would be worth it.
        let useful = has_all || cfg!(target_os = "linux");
        let state = useful.then(|| tell_addresses(&socket).ok()).flatten();
        let connected = socket.raw().peer_addr().is_ok();
        Self { socket, state, has_all, connected, receives_batches: AtomicBool::new(true) }
    }

    /// Whether the system receives several datagrams in one call, and sends several as one message.
    pub fn has_batches(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.max_gso_segments() > 1)
    }

    /// The socket itself.
    pub const fn get_ref(&self) -> &S {
        &self.socket
    }

    /// Receives a datagram. Returns its length, its source, and the address at which it arrived.
    ///
    /// # Errors
    ///
    /// Errors of the socket, above all [`io::ErrorKind::WouldBlock`].
    pub fn try_recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, AddressPair)> {
        let Some(state) = self.state.as_ref().filter(|_| self.has_all) else {
            let (len, peer) = self.socket.receive_from(buf)?;
            return Ok((len, AddressPair::to(peer)));
        };
        let meta = self.socket.try_io(Interest::READABLE, || {
            let mut meta = [RecvMeta::default()];
            state.recv(self.socket.udp(), &mut [IoSliceMut::new(buf)], &mut meta)?;
            Ok(meta)
        })?;
        let [RecvMeta { addr: peer, len, dst_ip, .. }] = meta;
        Ok((len, AddressPair { peer, local: dst_ip.filter(may_be_source) }))
    }

    /// Receives all datagrams that wait, as many as the batch holds, in one system call where the
    /// system has one. Nothing is received if none waits.
    ///
    /// # Errors
    ///
    /// Errors of the socket, also those that an earlier datagram has caused. `WouldBlock` is none.
    pub fn try_receive(&self, batch: &mut ReceiveBatch) -> io::Result<()> {
        let addresses = |meta: &RecvMeta| AddressPair {
            peer: meta.addr,
            local: meta.dst_ip.filter(|local| self.has_all && may_be_source(local)),
        };
        let one = |rooms: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]| {
            let (Some(room), Some(meta)) = (rooms.first_mut(), meta.first_mut()) else {
                return Ok((0, false));
            };
            let (len, from) = self.socket.receive_from(room)?;
            (meta.addr, meta.len, meta.stride, meta.dst_ip) = (from, len, len, None);
            Ok((1, true))
        };
        let receive = |rooms: &mut [IoSliceMut<'_>], meta: &mut [RecvMeta]| {
            let batches = self.receives_batches.load(Relaxed);
            let Some(state) = self.state.as_ref().filter(|_| batches) else {
                return one(rooms, meta);
            };
            let (mut count, mut more) = (0, true);
            let received = self.socket.try_io(Interest::READABLE, || {
                count = state.recv(self.socket.udp(), rooms, meta)?;
                // If there were fewer than fit, the next call would only say that it would have to
                // wait. This notes it without that call. The runtime ignores it if another datagram
                // has arrived meanwhile. Other systems may receive one at a time.
                more = !cfg!(target_os = "linux") || count == rooms.len();
                if more { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
            });
            match received {
                // A filter of system calls forbids it.
                Err(error) if count == 0 && is_forbidden(&error) => {
                    self.receives_batches.store(false, Relaxed);
                    one(rooms, meta)
                }
                Err(error) if count == 0 => Err(error),
                _ => Ok((count, more)),
            }
        };
        match batch.fill(receive, addresses) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            done => done,
        }
    }

    /// Reads the network's reports about datagrams that did not arrive, if [`report_unreachable`]
    /// has turned them on. Returns their number. Anybody can forge such reports.
    pub fn take_reports(&self) -> usize {
        system::take_reports(&self.socket)
    }

    /// Sends the datagrams of a batch, as one message where the system takes one, until it does not
    /// take one of them. `skip` is the number of datagrams that are left out at the front.
    pub fn try_send_batch(&self, batch: &SendBatch, skip: usize) -> BatchSent {
        let Some(addresses) = batch.addresses() else { return BatchSent { sent: 0, error: None } };
        let segment = batch.segment();
        let contents = batch.contents().get(skip * segment..).unwrap_or_default();
        let count = batch.count().saturating_sub(skip);
        if count > 1 {
            match self.try_send_segments(contents, segment, addresses) {
                Ok(()) => return BatchSent { sent: count, error: None },
                // One at a time they leave from another address.
                Err(error) if addresses.local.is_some() && is_about_source(&error) => {}
                // The error may belong to an earlier datagram.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock || is_loss(&error) => {
                    return BatchSent { sent: 0, error: Some(error) };
                }
                // The route may not support it, or the datagrams are too long for it.
                Err(_) => {}
            }
        }
        for (sent, datagram) in batch.datagrams(skip).enumerate() {
            if let Err(error) = self.try_send_to(datagram, addresses) {
                return BatchSent { sent, error: Some(error) };
            }
        }
        BatchSent { sent: count, error: None }
    }

    /// Sends datagrams of `segment` bytes as one message.
    fn try_send_segments(
        &self,
        contents: &[u8],
        segment: usize,
        AddressPair { peer, local }: AddressPair,
    ) -> io::Result<()> {
        let state = self.state.as_ref().filter(|state| state.max_gso_segments() > 1);
        let state = state.ok_or(io::ErrorKind::Unsupported)?;
        let transmit = Transmit {
            destination: peer,
            ecn: None,
            contents,
            segment_size: Some(segment),
            src_ip: local.filter(|_| self.has_all),
        };
        self.try_write(|| state.try_send(self.socket.udp(), &transmit))
    }

    /// Has `send` send something. The runtime takes a new socket for full until it has looked at it:
    /// nobody would send again what is refused then at a connected socket, so the runtime is asked
    /// only if that has no room.
    fn try_write(&self, send: impl Fn() -> io::Result<()>) -> io::Result<()> {
        let first = if self.connected { send() } else { Err(io::ErrorKind::WouldBlock.into()) };
        match first {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.socket.try_io(Interest::WRITABLE, send)
            }
            done => done,
        }
    }

    /// The error that a datagram which was sent earlier has caused, if there is one: after
    /// [`readable`](Self::readable) has returned `true`, for a socket that gets no reports.
    pub fn take_error(&self) -> Option<io::Error> {
        let taken =
            self.socket.try_io(Interest::ERROR, || match self.socket.raw().take_error()? {
                Some(error) => Err(error),
                // This ends the readiness.
                None => Err::<(), _>(io::ErrorKind::WouldBlock.into()),
            });
        taken.err().filter(|error| error.kind() != io::ErrorKind::WouldBlock)
    }

    /// Sends a datagram from `way.local`. If that is not known, or is no longer an address of this
    /// host, the routing table chooses the source.
    ///
    /// # Errors
    ///
    /// Errors of the socket, above all [`io::ErrorKind::WouldBlock`].
    pub fn try_send_to(&self, payload: &[u8], way: AddressPair) -> io::Result<()> {
        let unaddressed = || {
            let socket = self.socket.raw();
            self.try_write(|| {
                let sent = match self.connected {
                    true => socket.send(payload),
                    false => socket.send_to(payload, &way.peer.into()),
                };
                sent.map(drop)
            })
        };
        let (Some(state), Some(local), true) = (&self.state, way.local, self.has_all) else {
            return unaddressed();
        };
        let transmit = Transmit {
            destination: way.peer,
            ecn: None,
            contents: payload,
            segment_size: None,
            src_ip: Some(local),
        };
        let sent = self.try_write(|| state.try_send(self.socket.udp(), &transmit));
        match sent {
            Err(error) if is_about_source(&error) => unaddressed(),
            sent => sent,
        }
    }
}

/// Whether a datagram may leave from the address at which another one arrived. A multicast or
/// broadcast address cannot be a source.
fn may_be_source(local: &IpAddr) -> bool {
    let local = local.to_canonical();
    !local.is_multicast() && !local.is_unspecified() && local != Ipv4Addr::BROADCAST
}

/// Whether an error says that the source address is not one of this host's, or that no route leads
/// from it to the destination.
fn is_about_source(error: &io::Error) -> bool {
    use io::ErrorKind::{
        AddrNotAvailable, HostUnreachable, InvalidInput, NetworkUnreachable, NotFound,
    };
    matches!(
        error.kind(),
        AddrNotAvailable | HostUnreachable | InvalidInput | NetworkUnreachable | NotFound
    ) || matches!(error.raw_os_error(), Some(ENODEV) if cfg!(unix))
}

impl AddressedSocket {
    /// Does what [`try_recv_from`](Self::try_recv_from) does, for a task that is woken when a
    /// datagram arrives.
    ///
    /// # Errors
    ///
    /// Errors of the socket.
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

    /// Waits for a datagram. If the future is dropped while it waits, no datagram is lost.
    ///
    /// # Errors
    ///
    /// Errors of the socket.
    pub async fn recv_from(&self, buf: &mut [u8]) -> io::Result<(usize, AddressPair)> {
        poll_fn(|context| self.poll_recv_from(context, buf)).await
    }

    /// Waits until a datagram can be received, or until the network has reported that a datagram
    /// did not arrive. In the latter case it returns `true`, and [`Self::take_reports`] is to be
    /// called.
    ///
    /// # Errors
    ///
    /// Errors of the socket.
    pub async fn readable(&self) -> io::Result<bool> {
        system::readable(&self.socket).await
    }
}

/// Whether an error says that a system call does not exist or is forbidden.
fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::Unsupported | io::ErrorKind::PermissionDenied)
}

/// ENODEV, no such device. It has this number on all systems derived from Unix.
const ENODEV: i32 = 19;

/// Has the system tell at which address each datagram arrives, and leaves all other options of the
/// socket unchanged.
fn tell_addresses<S: NonBlocking>(socket: &S) -> io::Result<UdpSocketState> {
    // quinn-udp prepares sockets for QUIC, which discovers the path MTU itself and receives several
    // datagrams in one buffer.
    system::keep_options(&socket.raw(), || UdpSocketState::new(socket.udp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_batches_datagrams_are_received_one_at_a_time_and_more_may_wait() {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let to = socket.local_addr().unwrap();
        let socket = AddressedSocket::new(socket);
        socket.receives_batches.store(false, Relaxed);
        let peer = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for payload in [b"a", b"b"] {
            peer.send_to(payload, to).unwrap();
        }
        socket.readable().await.unwrap();
        ReceiveBatch::with(|batch| {
            for payload in [b"a", b"b"] {
                socket.try_receive(batch).unwrap();
                assert_eq!((batch.len(), &*batch.payload(0)), (1, &payload[..]));
                assert!(batch.more_may_wait());
            }
            socket.try_receive(batch).unwrap();
            assert!(batch.is_empty() && !batch.more_may_wait());
        });
    }

    #[test]
    fn nothing_that_a_stranger_sent_before_the_socket_was_connected_is_received() {
        let [peer, stranger] = [(); 2].map(|()| StdSocket::bind("127.0.0.1:0").unwrap());
        let to = peer.local_addr().unwrap();
        let socket = connect_by(&[], to, |port| {
            let local = SocketAddr::from(([127, 0, 0, 1], port));
            let socket = bound(open(local)?, local)?;
            for payload in [&b"forged"[..], b"", b"forged"] {
                stranger.send_to(payload, socket.local_addr()?)?;
            }
            Ok(socket)
        });
        let socket = socket.unwrap();
        socket.set_nonblocking(false).unwrap();
        peer.send_to(b"genuine", socket.local_addr().unwrap()).unwrap();
        let mut buf = [0; 16];
        let len = socket.recv(&mut buf).unwrap();
        assert_eq!(&buf[..len], b"genuine");
    }
}
