//! Waiting for ports: the thread polls them for a while and then sleeps.

use crate::kernel::poll::PollList;
use crate::port::Pollable;
use std::io;
use std::time::{Duration, Instant};

/// Waits until one of several ports has packets to receive.
///
/// A sleeping thread takes some ten microseconds to wake, which is most of the delay that a gateway
/// adds to a packet. A virtual processor core that was given back to the hypervisor takes ten times
/// as long. For some time after the last packet a waiter therefore does not sleep: it yields the
/// processor to other threads, and the caller polls its ports again.
pub struct Waiter {
    list: PollList,
    spin: Duration,
    idle_since: Option<Instant>,
}

impl Waiter {
    /// A waiter that sleeps once no packet arrived for `spin`; zero sleeps at once.
    pub fn new(spin: Duration) -> Self {
        Self { list: PollList::default(), spin, idle_since: None }
    }

    /// Notes that there was work, which restarts the time before sleep.
    pub fn worked(&mut self) {
        self.idle_since = None;
    }

    /// Returns when a port may have packets, when `timeout` is over, or at once while it is too
    /// early to sleep. `None` waits without a limit.
    ///
    /// # Errors
    /// The kernel cannot wait for these descriptors.
    pub fn wait(&mut self, sources: &[&dyn Pollable], timeout: Option<Duration>) -> io::Result<()> {
        if sources.iter().any(|source| source.is_ready()) || timeout == Some(Duration::ZERO) {
            return Ok(());
        }
        if !self.spin.is_zero() {
            let now = Instant::now();
            let since = *self.idle_since.get_or_insert(now);
            if now.duration_since(since) < self.spin {
                std::thread::yield_now();
                return Ok(());
            }
        }
        self.list.clear();
        for source in sources {
            source.descriptors(&mut |fd| self.list.add(fd, false));
        }
        if self.list.wait(timeout)? {
            self.worked();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory;
    use crate::pool::{Pool, PoolSettings};
    use crate::port::LanPort;
    use std::net::UdpSocket;
    use std::os::fd::{AsFd, BorrowedFd};

    struct Socket(UdpSocket);

    impl Pollable for Socket {
        fn descriptors(&self, visit: &mut dyn FnMut(BorrowedFd<'_>)) {
            visit(self.0.as_fd());
        }
    }

    #[test]
    fn what_is_ready_ends_a_wait_without_end() {
        let mut pool = Pool::new(PoolSettings::new(2048, 1)).unwrap();
        let (mut near, far) = memory::lan(1);
        let mut frames = vec![pool.allocate_with(b"x").unwrap()];
        near.transmit(&mut pool, &mut frames).unwrap();
        let mut waiter = Waiter::new(Duration::ZERO);
        waiter.wait(&[&near, &far], None).unwrap();

        let socket = Socket(UdpSocket::bind("127.0.0.1:0").unwrap());
        socket.0.send_to(b"x", socket.0.local_addr().unwrap()).unwrap();
        waiter.wait(&[&near, &socket], None).unwrap();
    }

    #[test]
    fn a_wait_ends_with_its_timeout() {
        let socket = Socket(UdpSocket::bind("127.0.0.1:0").unwrap());
        for spin in [Duration::ZERO, Duration::from_micros(50)] {
            let mut waiter = Waiter::new(spin);
            for timeout in [Duration::ZERO, Duration::from_nanos(1), Duration::from_millis(1)] {
                waiter.wait(&[&socket], Some(timeout)).unwrap();
            }
        }
    }
}
