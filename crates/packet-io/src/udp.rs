//! A port for datagrams through the kernel's UDP sockets, many in one system call.

use crate::af_packet::set_buffers;
use crate::interface::OpenError;
use crate::kernel::messages::{Batch, OutgoingMessage, int};
use crate::kernel::socket;
use crate::pool::{Frame, HEADROOM, Pool};
use crate::port::{
    BATCH, Datagram, Pollable, Refusal, RefusalCause, Refusals, Statistics, Underlay,
};
use libc::c_int;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The largest number of datagrams in one `sendmmsg` call.
const MAX_DATAGRAMS_PER_CALL: usize = 4 * BATCH;
/// Number of coalesced messages received in one call. Each may be 64 KiB long.
const SEGMENTED_MESSAGES: usize = 16;
/// The largest number of datagrams in one segmented message, which every kernel since 4.18 accepts
/// (`UDP_MAX_SEGMENTS`).
const MAX_SEGMENTS: usize = 64;
/// The largest payload in bytes of one segmented message: with IPv6 headers it is a packet of less
/// than 64 KiB.
const MAX_SEGMENTED_PAYLOAD: usize = 65_000;

/// The settings of an underlay's sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UdpSettings {
    /// The addresses to receive at: one of IPv4, one of IPv6, or both. Port 0 means any free port.
    pub local: Vec<SocketAddr>,
    /// A lane's own addresses, of the same families, from which all datagrams are sent but those
    /// [from the shared port](Datagram::from_shared_port). Datagrams that arrive there are received
    /// as well.
    pub send_from: Vec<SocketAddr>,
    /// Whether other threads receive at `local` too. The kernel then assigns every source address
    /// and port to one of them.
    pub shared: bool,
    /// Whether the kernel segments and coalesces datagrams: those of one length to one peer are
    /// sent and received as one message (`UDP_SEGMENT`, `UDP_GRO`).
    pub segmentation: bool,
    /// Size in bytes of each socket's receive buffer, and of its send buffer.
    pub buffer_bytes: usize,
}

impl Default for UdpSettings {
    fn default() -> Self {
        Self {
            local: Vec::new(),
            send_from: Vec::new(),
            shared: false,
            segmentation: true,
            buffer_bytes: 8 << 20,
        }
    }
}

impl UdpSettings {
    /// The defaults, with these addresses to receive at.
    pub fn at(local: Vec<SocketAddr>) -> Self {
        Self { local, ..Self::default() }
    }
}

/// An underlay on UDP sockets, at most two for each address family.
///
/// No datagram that is sent may be fragmented, neither by routers nor by this host, which considers
/// the interface's MTU alone. The kernel's own path MTU is neither used nor learned from ICMP,
/// which anyone can forge: the caller probes the path.
pub struct UdpUnderlay {
    sockets: Vec<Socket>,
    batch: Batch,
    segmentation: bool,
    spare: Vec<Frame>,
    /// Number of datagrams in each message of the last call.
    datagrams_per_message: Vec<usize>,
    statistics: Statistics,
    refusals: Refusals,
}

struct Socket {
    fd: OwnedFd,
    local: SocketAddr,
    sends: bool,
}

impl UdpUnderlay {
    /// Opens and binds the sockets.
    ///
    /// # Errors
    /// This host does not have one of the addresses, or a port is in use.
    pub fn open(settings: &UdpSettings) -> Result<Self, OpenError> {
        let mut underlay = Self {
            sockets: Vec::new(),
            batch: Batch::new(BATCH, MAX_DATAGRAMS_PER_CALL),
            segmentation: settings.segmentation,
            spare: Vec::new(),
            datagrams_per_message: Vec::with_capacity(BATCH),
            statistics: Statistics::default(),
            refusals: Refusals::default(),
        };
        let both = settings.local.iter().map(|address| (address, settings.shared));
        let own = settings.send_from.iter().map(|address| (address, false));
        for (&address, shared) in both.chain(own) {
            let socket = open(address, shared, settings).map_err(|error| {
                OpenError::new(format!("a UDP socket at {address}"), "CAP_NET_BIND_SERVICE", error)
            })?;
            // The socket that was opened last sends for its family.
            for other in &mut underlay.sockets {
                other.sends &= other.local.is_ipv4() != address.is_ipv4();
            }
            underlay.sockets.push(socket);
        }
        Ok(underlay)
    }

    /// The addresses that the sockets are bound to, those of [`UdpSettings::local`] first.
    pub fn local(&self) -> impl Iterator<Item = SocketAddr> {
        self.sockets.iter().map(|socket| socket.local)
    }

    /// The address from which datagrams to one address family are sent.
    pub(crate) fn sends_from(&self, is_ipv4: bool) -> Option<SocketAddr> {
        let sends = |socket: &&Socket| socket.sends && socket.local.is_ipv4() == is_ipv4;
        self.sockets.iter().find(sends).map(|socket| socket.local)
    }

    fn refuse(&mut self, datagram: usize, error: Option<&io::Error>, all: &[Datagram]) {
        let Datagram { frame, remote, .. } = &all[datagram];
        let cause = match error.and_then(io::Error::raw_os_error) {
            Some(libc::EMSGSIZE) => RefusalCause::TooLong,
            None | Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::ENETDOWN) => {
                RefusalCause::Unreachable
            }
            Some(libc::EPERM | libc::EACCES) => RefusalCause::Forbidden,
            Some(_) => RefusalCause::Failed,
        };
        self.refusals.push(Refusal { remote: *remote, bytes: frame.len(), cause });
        self.statistics.refused += 1;
    }
}

fn open(address: SocketAddr, shared: bool, settings: &UdpSettings) -> io::Result<Socket> {
    let family = if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let socket = socket::open(family, libc::SOCK_DGRAM, 0)?;
    let fd = socket.as_fd();
    if address.is_ipv4() {
        socket::set(fd, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
        socket::set(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
    } else {
        socket::set(fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 1)?;
        socket::set(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
        socket::set(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
        socket::set(fd, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1)?;
    }
    if shared {
        socket::set(fd, libc::SOL_SOCKET, libc::SO_REUSEPORT, 1)?;
    }
    if settings.segmentation {
        socket::set(fd, libc::SOL_UDP, libc::UDP_GRO, 1)?;
    }
    set_buffers(fd, settings.buffer_bytes)?;
    socket::bind(fd, address)?;
    let local = socket::local_address(fd)?;
    Ok(Socket { fd: socket, local, sends: true })
}

impl Pollable for UdpUnderlay {
    fn descriptors(&self, visit: &mut dyn FnMut(BorrowedFd<'_>)) {
        for socket in &self.sockets {
            visit(socket.fd.as_fd());
        }
    }
}

/// Metadata that the kernel delivers beside a datagram.
#[derive(Clone, Copy, Default)]
struct DatagramMetadata {
    class: u8,
    /// Length in bytes of each datagram of a coalesced message but the last one.
    segment: Option<usize>,
}

impl DatagramMetadata {
    fn from_control(control: impl Iterator<Item = (c_int, c_int, impl AsRef<[u8]>)>) -> Self {
        let mut found = Self::default();
        for (level, kind, data) in control {
            let data = data.as_ref();
            match (level, kind) {
                (libc::IPPROTO_IP, libc::IP_TOS) => {
                    found.class = data.first().copied().unwrap_or_default();
                }
                (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    found.class = int(data).unwrap_or_default() as u8;
                }
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    found.segment = int(data).and_then(|bytes| usize::try_from(bytes).ok());
                }
                _ => {}
            }
        }
        found
    }
}

impl Underlay for UdpUnderlay {
    fn receive(&mut self, pool: &mut Pool, into: &mut Vec<Datagram>) -> io::Result<usize> {
        let before = into.len();
        for socket in &self.sockets {
            let fd = socket.fd.as_fd();
            if self.segmentation {
                receive_segmented(fd, &mut self.batch, pool, into, &mut self.statistics);
            } else {
                let (batch, spare) = (&mut self.batch, &mut self.spare);
                receive_singly(fd, batch, spare, pool, into, &mut self.statistics);
            }
        }
        let received = into.len() - before;
        self.statistics.received += received as u64;
        Ok(received)
    }

    fn transmit(&mut self, pool: &mut Pool, datagrams: &mut Vec<Datagram>) -> io::Result<usize> {
        let mut done = 0;
        let mut segmentation = self.segmentation;
        while done < datagrams.len() {
            let rest = &datagrams[done..];
            let from = |datagram: &Datagram| sending_socket(&self.sockets, datagram);
            let Some(socket) = from(&rest[0]) else {
                self.refuse(done, None, datagrams);
                done += 1;
                continue;
            };
            group_messages(rest, segmentation, from, &mut self.datagrams_per_message);
            let socket = &self.sockets[socket];
            let mut first = 0;
            let messages = self.datagrams_per_message.iter().map(|&count| {
                let message = &rest[first..first + count];
                first += count;
                OutgoingMessage {
                    frames: message.iter().map(|datagram| &datagram.frame),
                    to: Some(message[0].remote),
                    class: message[0].class,
                    segment: (count > 1).then(|| message[0].frame.len() as u16),
                }
            });
            match self.batch.transmit(socket.fd.as_fd(), pool, messages) {
                Ok(0) => break,
                Ok(sent) => {
                    let sent = self.datagrams_per_message[..sent].iter().sum::<usize>();
                    self.statistics.transmitted += sent as u64;
                    done += sent;
                }
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => break,
                Err(_) if self.datagrams_per_message[0] > 1 => {
                    // The route may not support segmentation, or one datagram of the message is too
                    // long: send each datagram on its own.
                    segmentation = false;
                }
                Err(error) => {
                    self.refuse(done, Some(&error), datagrams);
                    done += 1;
                }
            }
        }
        pool.release_all(datagrams.drain(..done).map(|datagram| datagram.frame));
        Ok(done)
    }

    fn refusals(&mut self, into: &mut Vec<Refusal>) {
        self.refusals.drain(into);
    }

    fn statistics(&self) -> Statistics {
        let mut statistics = self.statistics;
        for socket in &self.sockets {
            // In linux/sock_diag.h the last of nine counters is that of dropped packets.
            statistics.overruns += overruns(socket.fd.as_fd());
        }
        statistics
    }
}

/// Number of datagrams that the kernel dropped because they were not fetched from this socket in
/// time; 0 if it does not report it.
pub fn overruns(socket: BorrowedFd<'_>) -> u64 {
    let memory = socket::get(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, [0_u32; 9]);
    memory.map_or(0, |memory| u64::from(memory[8]))
}

/// The index of the socket from which a datagram is sent.
fn sending_socket(sockets: &[Socket], datagram: &Datagram) -> Option<usize> {
    let family = datagram.remote.is_ipv4();
    // The first socket of a family is bound to `local`, where all peers send to.
    let fits =
        |of: &Socket| (datagram.from_shared_port || of.sends) && of.local.is_ipv4() == family;
    sockets.iter().position(fits)
}

/// Groups the next datagrams into messages: writes to `datagrams_per_message` how many of the first
/// datagrams, all of which go `from` one socket, each message contains.
fn group_messages(
    datagrams: &[Datagram],
    segmentation: bool,
    from: impl Fn(&Datagram) -> Option<usize>,
    datagrams_per_message: &mut Vec<usize>,
) {
    datagrams_per_message.clear();
    let datagrams = &datagrams[..datagrams.len().min(MAX_DATAGRAMS_PER_CALL)];
    let first = from(&datagrams[0]);
    let of_one = datagrams.iter().take_while(|datagram| from(datagram) == first).count();
    let mut at = 0;
    while at < of_one && datagrams_per_message.len() < BATCH {
        let count = if segmentation { segment_count(&datagrams[at..of_one]) } else { 1 };
        datagrams_per_message.push(count);
        at += count;
    }
}

/// How many of the first datagrams, which go from one socket, can be sent as one message: to one
/// peer, of one class and one length, except that the last one may be shorter.
fn segment_count(datagrams: &[Datagram]) -> usize {
    let first = &datagrams[0];
    let len = first.frame.len();
    if len == 0 {
        return 1;
    }
    let most = MAX_SEGMENTS.min(MAX_SEGMENTED_PAYLOAD / len).max(1);
    let mut count = 1;
    for next in datagrams.iter().take(most).skip(1) {
        let fits = next.remote == first.remote
            && next.class == first.class
            && (1..=len).contains(&next.frame.len());
        if !fits {
            break;
        }
        count += 1;
        if next.frame.len() < len {
            break;
        }
    }
    count
}

/// An error when receiving is an ICMP error about a datagram that was sent before: nothing can be
/// done about it here.
fn receive_segmented(
    fd: BorrowedFd<'_>,
    batch: &mut Batch,
    pool: &mut Pool,
    into: &mut Vec<Datagram>,
    statistics: &mut Statistics,
) {
    for i in 0..batch.receive_segmented(fd, SEGMENTED_MESSAGES).unwrap_or(0) {
        let received = batch.received(i);
        let Some(remote) = received.from else { continue };
        let metadata = DatagramMetadata::from_control(received.control());
        let message = batch.segmented(i);
        let segment = metadata.segment.unwrap_or(message.len()).max(1);
        // An empty datagram is never coalesced with others, and is received like any other.
        let empty = message.is_empty().then_some(message);
        for payload in message.chunks(segment).chain(empty) {
            if payload.len() > pool.max_packet() {
                statistics.too_long += 1;
            } else if let Some(frame) = pool.allocate_with(payload) {
                into.push(Datagram {
                    frame,
                    remote,
                    class: metadata.class,
                    from_shared_port: false,
                });
            } else {
                statistics.starved += 1;
            }
        }
    }
}

fn receive_singly(
    fd: BorrowedFd<'_>,
    batch: &mut Batch,
    spare: &mut Vec<Frame>,
    pool: &mut Pool,
    into: &mut Vec<Datagram>,
    statistics: &mut Statistics,
) {
    while spare.len() < BATCH
        && let Some(frame) = pool.allocate()
    {
        spare.push(frame);
    }
    let count = batch.receive(fd, pool, spare, HEADROOM).unwrap_or(0);
    for (i, mut frame) in spare.drain(..).enumerate() {
        if i >= count {
            pool.release(frame);
            continue;
        }
        let received = batch.received(i);
        statistics.too_long += u64::from(received.truncated);
        match received.from {
            Some(remote) if !received.truncated => {
                pool.set(&mut frame, HEADROOM..HEADROOM + received.len);
                let class = DatagramMetadata::from_control(received.control()).class;
                into.push(Datagram { frame, remote, class, from_shared_port: false });
            }
            _ => pool.release(frame),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::PoolSettings;

    /// The number of datagrams in each message, with a socket for each family and, if `own` is set,
    /// further ones to send from. The top bit of a class marks an answer.
    fn datagrams_per_message(
        pool: &mut Pool,
        of: &[(usize, u8, &str)],
        segmentation: bool,
        own: bool,
    ) -> Vec<usize> {
        let datagrams: Vec<_> = of
            .iter()
            .map(|&(len, class, remote)| Datagram {
                frame: pool.allocate_with(&vec![0; len]).unwrap(),
                remote: remote.parse().unwrap(),
                class: class & 0x7f,
                from_shared_port: class > 0x7f,
            })
            .collect();
        let mut datagrams_per_message = Vec::new();
        let from = |of: &Datagram| {
            Some(usize::from(of.remote.is_ipv4()) + if own && !of.from_shared_port { 2 } else { 0 })
        };
        group_messages(&datagrams, segmentation, from, &mut datagrams_per_message);
        pool.release_all(datagrams.into_iter().map(|datagram| datagram.frame));
        datagrams_per_message
    }

    #[test]
    fn a_segmented_message_has_one_peer_class_and_length() {
        let mut pool = Pool::new(PoolSettings::new(2048, 512)).unwrap();
        let (a, b, six) = ("192.0.2.1:1", "192.0.2.2:1", "[2001:db8::1]:1");
        assert_eq!(
            datagrams_per_message(&mut pool, &[(9, 0, a), (9, 0x80, a)], true, false),
            [2],
            "one socket"
        );
        let mut group_messages = |of: &[_]| datagrams_per_message(&mut pool, of, true, true);
        assert_eq!(group_messages(&[(9, 0, a), (9, 0, a), (9, 0, b)]), [2, 1]);
        assert_eq!(group_messages(&[(9, 0, a), (9, 1, a)]), [1, 1]);
        assert_eq!(group_messages(&[(9, 0, a), (9, 0x80, a)]), [1], "one socket per call");
        assert_eq!(
            group_messages(&[(9, 0, a), (8, 0, a), (8, 0, a)]),
            [2, 1],
            "a shorter one is the last"
        );
        assert_eq!(group_messages(&[(9, 0, a), (10, 0, a)]), [1, 1]);
        assert_eq!(group_messages(&[(0, 0, a), (0, 0, a), (1, 0, a), (0, 0, a)]), [1, 1, 1, 1]);
        assert_eq!(group_messages(&[(9, 0, a), (9, 0, six)]), [1], "one address family per call");
        assert_eq!(group_messages(&[(1400, 0, a); 100]), [46, 46, 8]);
        assert_eq!(group_messages(&[(9, 0, a); 130]), [64, 64, 2]);
        assert_eq!(group_messages(&[(9, 0, a); 300]), [64; 4]);
        assert_eq!(datagrams_per_message(&mut pool, &[(9, 0, a); 100], false, true), [1; BATCH]);
    }
}
