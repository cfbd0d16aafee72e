//! Ports for programs under test.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The first of the ports that tests take, and their number. They are below those that systems give to
/// whoever asks for any port (from 32768 on Linux, from 49152 elsewhere).
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;

/// How many of them one process has to itself.
const BLOCK: u16 = 500;

/// The ports of this process.
struct Block {
    /// The first one. A socket has it as long as this process runs, so no other process takes the block.
    _mark: UdpSocket,
    first: u16,
    /// How far behind the first one the next port is.
    next: u16,
}

/// A port that is free on all addresses, for UDP and TCP, and that nobody gets who asks for any port, nor
/// any other test. A program can have it later, end, and have it again, whatever other tests open
/// meanwhile. A process gets the same port again only after some hundreds of others.
///
/// # Panics
///
/// If all ports are taken.
pub fn own_port() -> u16 {
    own_ports(1)
}

/// The first of `count` such ports that follow each other.
///
/// # Panics
///
/// If there are not as many.
pub fn own_ports(count: u16) -> u16 {
    static OWN: Mutex<Option<Block>> = Mutex::new(None);
    let mut own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    own.get_or_insert_with(Block::taken).free_ports(count)
}

impl Block {
    /// A block that no other process has.
    fn taken() -> Self {
        let mut blocks = (FIRST..FIRST + COUNT).step_by(usize::from(BLOCK));
        let taken = blocks.find_map(|first| {
            let _mark = UdpSocket::bind((Ipv4Addr::LOCALHOST, first)).ok()?;
            Some(Self { _mark, first, next: 1 })
        });
        taken.expect("other processes have all ports of tests")
    }

    fn free_ports(&mut self, count: u16) -> u16 {
        for _ in 0..BLOCK {
            if self.next + count > BLOCK {
                self.next = 1;
            }
            let port = self.first + self.next;
            self.next += count;
            if (port..port + count).all(is_free) {
                return port;
            }
        }
        panic!("no {count} ports are free from {} on", self.first);
    }
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

/// Whether a UDP socket of this network namespace is bound to the port.
pub fn is_bound(port: u16) -> bool {
    is_listed(&["udp", "udp6"], port).unwrap_or_else(|| {
        taken(&UdpSocket::bind((Ipv6Addr::UNSPECIFIED, port)))
            || taken(&UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port)))
    })
}

fn is_free(port: u16) -> bool {
    // Without IPv6 the second one says it.
    let is_listening = || {
        taken(&TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)))
            || taken(&TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
    };
    !is_bound(port) && !is_listed(&["tcp", "tcp6"], port).unwrap_or_else(is_listening)
}

/// Whether one of Linux's tables of sockets has the port as a local one. `None` on other systems, where
/// only a socket can find out. It could take the port from a program that is about to bind it, and lives
/// on for a moment in a child process that starts.
fn is_listed(tables: &[&str], port: u16) -> Option<bool> {
    // A thread may have a network namespace of its own.
    let tables =
        tables.iter().map(|table| fs::read_to_string(format!("/proc/thread-self/net/{table}")));
    let mut tables = tables.filter_map(Result::ok).peekable();
    tables.peek()?;
    // Each line has a number, then the local address and the port in hex.
    let suffix = format!(":{port:04X}");
    let is_in = |table: String| {
        let mut local = table.lines().filter_map(|line| line.split_whitespace().nth(1));
        local.any(|address| address.ends_with(&suffix))
    };
    Some(tables.any(is_in))
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
    fn a_port_is_bound_while_a_socket_has_it() {
        let port = own_port();
        assert!(!is_bound(port));
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        assert!(is_bound(port));
        drop(socket);
        assert!(!is_bound(port));
    }

    #[test]
    fn another_process_takes_another_block_and_a_block_begins_anew_at_its_end() {
        let (mut one, other) = (Block::taken(), Block::taken());
        assert!(one.first.abs_diff(other.first) >= BLOCK);
        let first = one.free_ports(2);
        one.next = BLOCK - 2;
        assert_eq!([one.free_ports(2), one.free_ports(2)], [one.first + BLOCK - 2, first]);
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
