//! A way to the database on which its answers can be delayed.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// A relay in front of a database. Its threads end with their connections, or with the process.
pub(crate) struct SlowDatabase {
    pub(crate) address: SocketAddr,
    delay_ms: Arc<AtomicU64>,
}

impl SlowDatabase {
    /// A relay to the database that listens at this port of the loopback interface.
    pub(crate) fn start(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, delay_ms) = (listener.local_addr().unwrap(), Arc::<AtomicU64>::default());
        let delay = Arc::clone(&delay_ms);
        std::thread::spawn(move || {
            for node in listener.incoming().map_while(Result::ok) {
                let Ok(database) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                carry(&node, &database, Arc::default());
                carry(&database, &node, Arc::clone(&delay));
            }
        });
        Self { address, delay_ms }
    }

    /// Delays all answers from now on.
    pub(crate) fn delay(&self, delay: Duration) {
        self.delay_ms.store(delay.as_millis() as u64, Relaxed);
    }
}

/// Carries one direction of a connection.
fn carry(from: &TcpStream, to: &TcpStream, delay_ms: Arc<AtomicU64>) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    let (send, received) = channel::<(Instant, Vec<u8>)>();
    std::thread::spawn(move || {
        let mut buf = [0; 16_384];
        while let Ok(len @ 1..) = from.read(&mut buf) {
            let due = Instant::now() + Duration::from_millis(delay_ms.load(Relaxed));
            if send.send((due, buf[..len].to_vec())).is_err() {
                return;
            }
        }
    });
    std::thread::spawn(move || {
        for (due, bytes) in received {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if to.write_all(&bytes).is_err() {
                break;
            }
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}
