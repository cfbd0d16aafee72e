//! Ports for programs under test.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The first of the ports that tests take, and their number. They are below those that systems give to
/// whoever asks for any port (from 32768 on Linux, from 49152 elsewhere).
const FIRST: u16 = 20_000;
const COUNT: u32 = 12_000;

/// A port that is free on all addresses, for UDP and TCP, and that nobody gets who asks for any port. A
/// program can have it later, end, and have it again, whatever other tests open meanwhile. No two calls
/// of one process return the same port.
///
/// # Panics
///
/// If all ports are taken.
pub fn own_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Programs of tests that run at one time begin at different places.
    let start = std::process::id().wrapping_mul(97) % COUNT;
    for _ in 0..COUNT {
        let at = (start + NEXT.fetch_add(1, Relaxed)) % COUNT;
        let port = FIRST + at as u16;
        if is_free(port) {
            return port;
        }
    }
    panic!("no port is free from {FIRST} on");
}

fn is_free(port: u16) -> bool {
    fn taken<T>(bound: &io::Result<T>) -> bool {
        bound.as_ref().is_err_and(|error| error.kind() == ErrorKind::AddrInUse)
    }
    // Without IPv6 the second one says it.
    !taken(&UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)))
        && !taken(&UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)))
        && !taken(&TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)))
        && !taken(&TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_is_not_free_and_none_comes_twice() {
        let (one, other) = (own_port(), own_port());
        assert_ne!(one, other);
        for local in [Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST] {
            let held = UdpSocket::bind((local, one)).unwrap();
            assert!(!is_free(one), "{local}");
            drop(held);
        }
        let held = TcpListener::bind((Ipv4Addr::LOCALHOST, one)).unwrap();
        assert!(!is_free(one));
        drop(held);
        assert!(is_free(one));
    }
}
