//! A port for datagrams through the kernel's UDP sockets, many in one system call.

use crate::af_packet::set_buffers;
use crate::interface::OpenError;
use crate::kernel::messages::{Batch, Outgoing, int};
use crate::kernel::socket;
use crate::pool::{Frame, HEADROOM, Pool};
use crate::port::{BATCH, Datagram, Refusal, RefusalCause, Refusals, Source, Statistics, Underlay};
use libc::c_int;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The largest number of datagrams in one `sendmmsg` call.
const SENT_AT_ONCE: usize = 4 * BATCH;
/// Number of runs received in one call. Each may be 64 KiB long.
const RUNS: usize = 16;
/// The largest number of datagrams in one run, which every kernel since 4.18 accepts
/// (`UDP_MAX_SEGMENTS`).
const RUN_DATAGRAMS: usize = 64;
/// The largest payload of one run in bytes: with IPv6 headers it is a packet of less than 64 KiB.
const RUN_PAYLOAD: usize = 65_000;

/// The settings of an underlay's sockets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The addresses to receive at: one of IPv4, one of IPv6, or both. Port 0 means any free port.
    pub local: Vec<SocketAddr>,
    /// A lane's own addresses, of the same families, from which all datagrams but
    /// [answers](Datagram::answers) are sent. Datagrams that arrive there are received as well.
    pub send_from: Vec<SocketAddr>,
    /// Whether other threads receive at `local` too. The kernel then assigns every source address
    /// and port to one of them.
    pub shared: bool,
    /// Whether datagrams of one length to one peer are handed to the kernel as one run, and
    /// received as runs (`UDP_SEGMENT`, `UDP_GRO`).
    pub runs: bool,
    /// Size in bytes of each socket's receive buffer, and of its send buffer.
    pub buffer_bytes: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            local: Vec::new(),
            send_from: Vec::new(),
            shared: false,
            runs: true,
            buffer_bytes: 8 << 20,
        }
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
    runs: bool,
    spare: Vec<Frame>,
    /// Number of datagrams in each message of the last call.
    planned: Vec<usize>,
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
    pub fn open(settings: &Settings) -> Result<Self, OpenError> {
        let mut underlay = Self {
            sockets: Vec::new(),
            batch: Batch::new(BATCH, SENT_AT_ONCE),
            runs: settings.runs,
            spare: Vec::new(),
            planned: Vec::with_capacity(BATCH),
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

    /// The addresses that the sockets are bound to, those of [`Settings::local`] first.
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

fn open(address: SocketAddr, shared: bool, settings: &Settings) -> io::Result<Socket> {
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
    if settings.runs {
        socket::set(fd, libc::SOL_UDP, libc::UDP_GRO, 1)?;
    }
    set_buffers(fd, settings.buffer_bytes)?;
    socket::bind(fd, address)?;
    let local = socket::local_address(fd)?;
    Ok(Socket { fd: socket, local, sends: true })
}

impl Source for UdpUnderlay {
    fn descriptors(&self, visit: &mut dyn FnMut(BorrowedFd<'_>)) {
        for socket in &self.sockets {
            visit(socket.fd.as_fd());
        }
    }
}

/// Metadata that the kernel delivers beside a datagram.
#[derive(Clone, Copy, Default)]
struct Beside {
    class: u8,
    /// Length in bytes of each datagram of a run but the last one.
    segment: Option<usize>,
}

impl Beside {
    fn of(control: impl Iterator<Item = (c_int, c_int, impl AsRef<[u8]>)>) -> Self {
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
            if self.runs {
                receive_runs(fd, &mut self.batch, pool, into, &mut self.statistics);
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
        let mut runs = self.runs;
        while done < datagrams.len() {
            let rest = &datagrams[done..];
            let from = |datagram: &Datagram| way(&self.sockets, datagram);
            let Some(socket) = from(&rest[0]) else {
                self.refuse(done, None, datagrams);
                done += 1;
                continue;
            };
            plan(rest, runs, from, &mut self.planned);
            let socket = &self.sockets[socket];
            let mut first = 0;
            let messages = self.planned.iter().map(|&count| {
                let run = &rest[first..first + count];
                first += count;
                Outgoing {
                    frames: run.iter().map(|datagram| &datagram.frame),
                    to: Some(run[0].remote),
                    class: run[0].class,
                    segment: (count > 1).then(|| run[0].frame.len() as u16),
                }
            });
            match self.batch.transmit(socket.fd.as_fd(), pool, messages) {
                Ok(0) => break,
                Ok(sent) => {
                    let sent = self.planned[..sent].iter().sum::<usize>();
                    self.statistics.transmitted += sent as u64;
                    done += sent;
                }
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => break,
                Err(_) if self.planned[0] > 1 => {
                    // The route may not support runs, or one datagram of the run is too long: send
                    // each datagram on its own.
                    runs = false;
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
    let told = socket::get(socket, libc::SOL_SOCKET, libc::SO_MEMINFO, [0_u32; 9]);
    told.map_or(0, |told| u64::from(told[8]))
}

/// The index of the socket from which a datagram is sent.
fn way(sockets: &[Socket], datagram: &Datagram) -> Option<usize> {
    let family = datagram.remote.is_ipv4();
    // The first socket of a family is bound to `local`, where all peers send to.
    let fits = |of: &Socket| (datagram.answers || of.sends) && of.local.is_ipv4() == family;
    sockets.iter().position(fits)
}

/// Plans the next messages: writes to `planned` how many of the first datagrams, all of which go
/// `from` one socket, each message contains.
fn plan(
    datagrams: &[Datagram],
    runs: bool,
    from: impl Fn(&Datagram) -> Option<usize>,
    planned: &mut Vec<usize>,
) {
    planned.clear();
    let datagrams = &datagrams[..datagrams.len().min(SENT_AT_ONCE)];
    let first = from(&datagrams[0]);
    let of_one = datagrams.iter().take_while(|datagram| from(datagram) == first).count();
    let mut at = 0;
    while at < of_one && planned.len() < BATCH {
        let count = if runs { run_length(&datagrams[at..of_one]) } else { 1 };
        planned.push(count);
        at += count;
    }
}

/// How many of the first datagrams, which go from one socket, can be sent as one run: to one peer,
/// of one class and one length, except that the last one may be shorter.
fn run_length(datagrams: &[Datagram]) -> usize {
    let first = &datagrams[0];
    let len = first.frame.len();
    if len == 0 {
        return 1;
    }
    let most = RUN_DATAGRAMS.min(RUN_PAYLOAD / len).max(1);
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
fn receive_runs(
    fd: BorrowedFd<'_>,
    batch: &mut Batch,
    pool: &mut Pool,
    into: &mut Vec<Datagram>,
    statistics: &mut Statistics,
) {
    for i in 0..batch.receive_runs(fd, RUNS).unwrap_or(0) {
        let received = batch.received(i);
        let Some(remote) = received.from else { continue };
        let beside = Beside::of(received.control());
        let run = batch.run(i);
        let segment = beside.segment.unwrap_or(run.len()).max(1);
        // An empty datagram is never part of a run, and is received like any other.
        let empty = run.is_empty().then_some(run);
        for payload in run.chunks(segment).chain(empty) {
            if payload.len() > pool.max_packet() {
                statistics.too_long += 1;
            } else if let Some(frame) = pool.allocate_with(payload) {
                into.push(Datagram { frame, remote, class: beside.class, answers: false });
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
                let class = Beside::of(received.control()).class;
                into.push(Datagram { frame, remote, class, answers: false });
            }
            _ => pool.release(frame),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::PoolSettings;

    /// The planned messages, with a socket for each family and, if `own` is set, further ones to
    /// send from. The top bit of a class marks an answer.
    fn planned(pool: &mut Pool, of: &[(usize, u8, &str)], runs: bool, own: bool) -> Vec<usize> {
        let datagrams: Vec<_> = of
            .iter()
            .map(|&(len, class, remote)| Datagram {
                frame: pool.allocate_with(&vec![0; len]).unwrap(),
                remote: remote.parse().unwrap(),
                class: class & 0x7f,
                answers: class > 0x7f,
            })
            .collect();
        let mut planned = Vec::new();
        let from = |of: &Datagram| {
            Some(usize::from(of.remote.is_ipv4()) + if own && !of.answers { 2 } else { 0 })
        };
        plan(&datagrams, runs, from, &mut planned);
        pool.release_all(datagrams.into_iter().map(|datagram| datagram.frame));
        planned
    }

    #[test]
    fn a_run_has_one_peer_class_and_length() {
        let mut pool = Pool::new(PoolSettings { frame_bytes: 2048, frames: 512 }).unwrap();
        let (a, b, six) = ("192.0.2.1:1", "192.0.2.2:1", "[2001:db8::1]:1");
        assert_eq!(planned(&mut pool, &[(9, 0, a), (9, 0x80, a)], true, false), [2], "one socket");
        let mut plan = |of: &[_]| planned(&mut pool, of, true, true);
        assert_eq!(plan(&[(9, 0, a), (9, 0, a), (9, 0, b)]), [2, 1]);
        assert_eq!(plan(&[(9, 0, a), (9, 1, a)]), [1, 1]);
        assert_eq!(plan(&[(9, 0, a), (9, 0x80, a)]), [1], "one socket per call");
        assert_eq!(plan(&[(9, 0, a), (8, 0, a), (8, 0, a)]), [2, 1], "a shorter one is the last");
        assert_eq!(plan(&[(9, 0, a), (10, 0, a)]), [1, 1]);
        assert_eq!(plan(&[(0, 0, a), (0, 0, a), (1, 0, a), (0, 0, a)]), [1, 1, 1, 1]);
        assert_eq!(plan(&[(9, 0, a), (9, 0, six)]), [1], "one address family per call");
        assert_eq!(plan(&[(1400, 0, a); 100]), [46, 46, 8]);
        assert_eq!(plan(&[(9, 0, a); 130]), [64, 64, 2]);
        assert_eq!(plan(&[(9, 0, a); 300]), [64; 4]);
        assert_eq!(planned(&mut pool, &[(9, 0, a); 100], false, true), [1; BATCH]);
    }
}
