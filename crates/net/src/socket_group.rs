//! Several sockets at one address, each for a worker of its own.
//!
//! On Linux the system shares datagrams out (`SO_REUSEPORT`): those with a connection ID by a byte of
//! it that names the worker, all others by the addresses of their sender and receiver. Elsewhere all
//! workers have the same socket, and whichever is awake first receives a datagram.

use crate::socket;
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Sockets at one address.
#[derive(Debug)]
pub struct SocketGroup {
    /// The sockets, by the number of their worker.
    pub sockets: Vec<UdpSocket>,
    /// Whether the system gives all datagrams of one sender without a connection ID to one socket.
    pub by_sender: bool,
}

/// Where connection IDs name a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerByte {
    /// The offset in bytes, in the payload of a datagram whose first byte says `kind`.
    pub at: u8,
    /// The bits of the first byte that say so.
    pub mask: u8,
    /// What they say.
    pub kind: u8,
}

/// A socket group of `count` sockets, at least one, that are bound to `address`. A datagram to which
/// one of `places` applies goes to the socket whose number is that byte modulo `count`. A group of
/// several sockets must not be changed: the system numbers its sockets in the order in which they came.
///
/// The sockets do not block. With one of them the address is this process's alone; with several, on
/// Linux, other processes of the same user could join the group.
///
/// # Errors
///
/// Errors of the operating system, for example that the address is in use, also by another group.
pub fn bind(address: SocketAddr, count: usize, places: &[WorkerByte]) -> io::Result<SocketGroup> {
    let first = socket::open(address)?;
    if count <= 1 {
        first.bind(&address.into())?;
        return Ok(SocketGroup { sockets: vec![first.into()], by_sender: true });
    }
    #[cfg(target_os = "linux")]
    return linux::bind(first, address, count, places);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = places;
        first.bind(&address.into())?;
        let first = UdpSocket::from(first);
        let others = (1..count).map(|_| first.try_clone());
        let sockets = others.collect::<io::Result<Vec<_>>>()?;
        let sockets = std::iter::once(first).chain(sockets).collect();
        Ok(SocketGroup { sockets, by_sender: false })
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{SocketGroup, WorkerByte, socket};
    use nix::libc::{self, sock_filter, sock_fprog};
    use nix::sys::socket::{setsockopt, sockopt};
    use socket2::Socket;
    use std::io;
    use std::net::{SocketAddr, UdpSocket};

    pub(super) fn bind(
        first: Socket,
        address: SocketAddr,
        count: usize,
        places: &[WorkerByte],
    ) -> io::Result<SocketGroup> {
        // Without the option this fails if another group has the address, which could be joined else.
        if address.port() > 0 {
            socket::open(address)?.bind(&address.into())?;
        }
        first.set_reuse_port(true)?;
        first.bind(&address.into())?;
        let bound = first.local_addr()?;
        let mut sockets = vec![UdpSocket::from(first)];
        for _ in 1..count {
            let next = socket::open(address)?;
            next.set_reuse_port(true)?;
            next.bind(&bound)?;
            sockets.push(next.into());
        }
        let mut program = program(count as u32, places);
        let program =
            sock_fprog { len: program.len() as libc::c_ushort, filter: program.as_mut_ptr() };
        setsockopt(&sockets[0], sockopt::AttachReusePortCbpf, &program)?;
        Ok(SocketGroup { sockets, by_sender: true })
    }

    /// Loads the length of the payload, or a byte of it.
    const LENGTH: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_LEN;
    const BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;

    /// A classic BPF program, which the system runs with the payload of each datagram. It returns the
    /// number of a socket, or one that does not exist: then the addresses decide.
    pub(super) fn program(count: u32, places: &[WorkerByte]) -> Vec<sock_filter> {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::time::Duration;

    const PATIENCE: Duration = Duration::from_secs(5);

    /// The numbers of the sockets that have received something, and what.
    fn received(group: &SocketGroup) -> Vec<(usize, Vec<u8>)> {
        let mut all = Vec::new();
        for (worker, socket) in group.sockets.iter().enumerate() {
            let mut buf = [0; 64];
            while let Ok(len) = socket.recv(&mut buf) {
                all.push((worker, buf[..len].to_vec()));
            }
        }
        all
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_byte_names_the_worker_and_the_sender_decides_about_the_rest() {
        let places = [
            WorkerByte { at: 3, mask: 0xf0, kind: 0x30 },
            WorkerByte { at: 12, mask: 0xff, kind: 25 },
        ];
        for local in ["127.0.0.1:0", "[::1]:0"] {
            let local: SocketAddr = local.parse().unwrap();
            if local.is_ipv6()
                && let Err(reason) = skip::ipv6()
            {
                skip::part("IPv6", reason);
                continue;
            }
            let group = bind(local, 3, &places).unwrap();
            let to = group.sockets[0].local_addr().unwrap();
            assert!(bind(to, 3, &places).is_err(), "nobody joins the group");
            for sender in 0..20 {
                let from = UdpSocket::bind(local).unwrap();
                let mut sent = Vec::new();
                for worker in 0..6 {
                    sent.push((worker % 3, vec![0x3f, 1, 1, worker as u8, sender]));
                    let mut long = vec![sender; 20];
                    (long[0], long[12]) = (25, worker as u8);
                    sent.push((worker % 3, long));
                }
                // Too short, or of another kind.
                for without in [&[0x3f, 1, 1][..], &[25; 12], &[22; 40], &[0x2f, 1, 1, 1], &[]] {
                    sent.push((usize::MAX, without.to_vec()));
                }
                for (_, datagram) in &sent {
                    from.send_to(datagram, to).unwrap();
                }
                let mut all = Vec::new();
                let began = std::time::Instant::now();
                while all.len() < sent.len() && began.elapsed() < PATIENCE {
                    all.extend(received(&group));
                }
                assert_eq!(all.len(), sent.len());
                let mut others = BTreeSet::new();
                for (worker, datagram) in all {
                    let (expected, _) = sent.iter().find(|(_, sent)| *sent == datagram).unwrap();
                    if *expected == usize::MAX {
                        others.insert(worker);
                    } else {
                        assert_eq!(worker, *expected, "{datagram:?}");
                    }
                }
                assert_eq!(others.len(), 1, "one sender, one socket");
            }
        }
    }

    #[test]
    fn one_socket_has_its_address_alone() {
        let group = bind("127.0.0.1:0".parse().unwrap(), 1, &[]).unwrap();
        assert_eq!(group.sockets.len(), 1);
        let to = group.sockets[0].local_addr().unwrap();
        assert!(bind(to, 1, &[]).is_err() && bind(to, 2, &[]).is_err());
    }
}
