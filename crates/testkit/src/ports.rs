//! Ports for programs under test.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

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

/// What `open` returns, once the port that it opens is no longer in use. A socket that this program has
/// closed lives on for a moment in a child process that starts, and another test may have been given its
/// port.
///
/// # Panics
///
/// If the port stays in use for 10 seconds, or cannot be opened for another reason.
pub fn opened_again<T>(open: impl Fn() -> io::Result<T>) -> T {
    let waits = std::iter::repeat_n(Duration::from_millis(50), 200);
    let mut opened = waits.map(|wait| {
        let opened = open();
        if taken(&opened) {
            thread::sleep(wait);
        }
        opened
    });
    opened.find(|opened| !taken(opened)).expect("the port stays in use").unwrap()
}

fn taken<T>(opened: &io::Result<T>) -> bool {
    opened.as_ref().is_err_and(|error| error.kind() == ErrorKind::AddrInUse)
}

fn is_free(port: u16) -> bool {
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

    #[test]
    fn a_port_that_is_let_go_of_late_is_opened_all_the_same() {
        let held = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = held.local_addr().unwrap();
        let holding = thread::spawn(move || {
            thread::sleep(Duration::from_millis(120));
            drop(held);
        });
        assert_eq!(opened_again(|| UdpSocket::bind(port)).local_addr().unwrap(), port);
        holding.join().unwrap();
    }
}
