//! Several sockets at one address, each for a worker of its own.
//!
//! On Linux the system shares datagrams out (`SO_REUSEPORT`): those with a connection ID by a byte of
//! it that names the worker, all others by the addresses of their sender and receiver. Elsewhere all
//! workers have the same socket, and whichever is awake first receives a datagram.

pub use crate::system::WorkerByte;

use crate::{socket, system};
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
    let open = || socket::open(address);
    let (sockets, by_sender) = system::bind_group(first, open, address, count, places)?;
    Ok(SocketGroup { sockets, by_sender })
}

#[cfg(all(test, target_os = "linux"))]
mod tests_on_linux {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_socket_has_its_address_alone() {
        let group = bind("127.0.0.1:0".parse().unwrap(), 1, &[]).unwrap();
        assert_eq!(group.sockets.len(), 1);
        let to = group.sockets[0].local_addr().unwrap();
        assert!(bind(to, 1, &[]).is_err() && bind(to, 2, &[]).is_err());
    }
}
