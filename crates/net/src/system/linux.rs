//! What Linux alone has.

use super::WorkerByte;
use crate::non_blocking::NonBlocking;
use nix::libc::{self, sock_filter, sock_fprog};
use nix::sys::socket::{setsockopt, sockopt};
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, ip_mtu, ip_mtu_discover, ipv6_mtu,
    ipv6_mtu_discover, set_ip_freebind, set_ip_mtu_discover, set_ipv6_freebind,
    set_ipv6_mtu_discover,
};
use rustix::net::{RecvAncillaryBuffer, RecvFlags, recvmsg};
use socket2::Socket;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket as StdSocket};
use std::path::PathBuf;
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// EACCES, ENONET, EPROTO, EMSGSIZE, ENOPROTOOPT, EOPNOTSUPP and EHOSTDOWN: errors of a socket that are
/// reports from the network.
pub(crate) const REPORTS: &[i32] = &[13, 64, 71, 90, 92, 95, 112];

/// How many reports are read at a time.
const MOST_REPORTS: usize = 64;

/// The MTU of the interface towards `peer`, to which the socket is connected, in bytes; `None` if the
/// system does not tell.
pub(crate) fn mtu_of(socket: &UdpSocket, peer: SocketAddr) -> Option<usize> {
    let mtu = if peer.is_ipv4() { ip_mtu(socket) } else { ipv6_mtu(socket) };
    Some(usize::try_from(mtu.ok()?).unwrap_or(usize::MAX))
}

/// The largest MTU of an interface to other hosts, in bytes; `None` if the system does not tell.
pub(crate) fn largest_mtu() -> Option<usize> {
    let interfaces = std::fs::read_dir("/sys/class/net").ok()?.filter_map(Result::ok);
    let others = interfaces.filter(|interface| interface.file_name() != "lo");
    let mtu = |path: PathBuf| std::fs::read_to_string(path.join("mtu")).ok()?.trim().parse().ok();
    others.filter_map(|interface| mtu(interface.path())).max()
}

/// Has datagrams refused or dropped on their path that are longer than an interface's MTU. The kernel's
/// own path MTU discovery would fragment datagrams that it believes to be too long.
pub(crate) fn forbid_fragments(socket: &Socket) -> io::Result<()> {
    if socket.local_addr()?.is_ipv6() {
        set_ipv6_mtu_discover(socket, Ipv6PathMtuDiscovery::PROBE)?;
    }
    Ok(set_ip_mtu_discover(socket, Ipv4PathMtuDiscovery::PROBE)?)
}

/// Runs `prepare`, which changes options of the socket that are none of its business, and undoes these
/// changes.
pub(crate) fn keep_options<T>(
    socket: &Socket,
    prepare: impl FnOnce() -> io::Result<T>,
) -> io::Result<T> {
    let is_v6 = socket.local_addr()?.is_ipv6();
    let v6 = is_v6.then(|| ipv6_mtu_discover(socket)).transpose()?;
    let v4 = ip_mtu_discover(socket)?;
    let prepared = prepare();
    // Kernels before 5.0 lack this option.
    let _ = setsockopt(socket, sockopt::UdpGroSegment, &false);
    let _ = setsockopt(socket, sockopt::ReceiveTimestampns, &false);
    set_ip_mtu_discover(socket, v4)?;
    if let Some(v6) = v6 {
        set_ipv6_mtu_discover(socket, v6)?;
        setsockopt(socket, sockopt::Ipv6DontFrag, &false)?;
    }
    prepared
}

/// Lets the socket be bound to an address that is not this host's.
pub(crate) fn allow_foreign_address(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    match address {
        SocketAddr::V4(_) => set_ip_freebind(socket, true)?,
        SocketAddr::V6(_) => set_ipv6_freebind(socket, true)?,
    }
    Ok(())
}

/// Has the system keep reports about datagrams that did not arrive.
pub(crate) fn report_unreachable(socket: &Socket) -> io::Result<()> {
    match socket.local_addr()?.is_ipv6() {
        false => setsockopt(socket, sockopt::Ipv4RecvErr, &true)?,
        true => setsockopt(socket, sockopt::Ipv6RecvErr, &true)?,
    }
    Ok(())
}

/// Waits until something can be received. Returns whether there are reports.
pub(crate) async fn readable(socket: &UdpSocket) -> io::Result<bool> {
    Ok(socket.ready(Interest::READABLE | Interest::ERROR).await?.is_error())
}

/// Reads the reports and returns their number.
pub(crate) fn take_reports(socket: &impl NonBlocking) -> usize {
    let mut count = 0;
    // The content of a report is not needed, nor its sender.
    let mut control = RecvAncillaryBuffer::default();
    let flags = RecvFlags::ERRQUEUE | RecvFlags::DONTWAIT;
    let _ = socket.try_io(Interest::ERROR, || -> io::Result<()> {
        // Each call reads one report. The error that says that there are no more ends the readiness.
        // The limit keeps a flood of reports from holding us here.
        while count < MOST_REPORTS {
            recvmsg(&*socket.raw(), &mut [IoSliceMut::new(&mut [0])], &mut control, flags)?;
            count += 1;
        }
        Ok(())
    });
    count
}

/// `count` sockets at one address, among which the system shares datagrams out, and whether it gives
/// all datagrams of one sender to one of them.
pub(crate) fn bind_group(
    first: Socket,
    open: impl Fn() -> io::Result<Socket>,
    address: SocketAddr,
    count: usize,
    places: &[WorkerByte],
) -> io::Result<(Vec<StdSocket>, bool)> {
    // Without the option this fails if another group has the address, which could be joined else.
    if address.port() > 0 {
        open()?.bind(&address.into())?;
    }
    first.set_reuse_port(true)?;
    first.bind(&address.into())?;
    let bound = first.local_addr()?;
    let mut sockets = vec![StdSocket::from(first)];
    for _ in 1..count {
        let next = open()?;
        next.set_reuse_port(true)?;
        next.bind(&bound)?;
        sockets.push(next.into());
    }
    let mut program = program(count as u32, places);
    let program = sock_fprog { len: program.len() as libc::c_ushort, filter: program.as_mut_ptr() };
    setsockopt(&sockets[0], sockopt::AttachReusePortCbpf, &program)?;
    Ok((sockets, true))
}

/// Loads the length of the payload, or a byte of it.
const LENGTH: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_LEN;
const BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;

/// A classic BPF program, which the system runs with the payload of each datagram. It returns the
/// number of a socket, or one that does not exist: then the addresses decide.
fn program(count: u32, places: &[WorkerByte]) -> Vec<sock_filter> {
    let step = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
    let mut program = Vec::new();
    for place in places {
        let at = u32::from(place.at);
        program.extend([
            // What lies beyond the end would be read as 0, and end the program.
            step(LENGTH, 0, 0, 0),
            step(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, 0, 6, at),
            step(BYTE, 0, 0, 0),
            step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, place.mask.into()),
            step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 3, place.kind.into()),
            step(BYTE, 0, 0, at),
            step(libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K, 0, 0, count),
            step(libc::BPF_RET | libc::BPF_A, 0, 0, 0),
        ]);
    }
    program.push(step(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX));
    program
}
