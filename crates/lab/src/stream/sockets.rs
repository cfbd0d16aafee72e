//! Real sockets on the loopback interface, with an impairment relay between them.

use super::{Direction, Link};
use crate::Error;
use core::time::Duration;
use lightseal_core::Instant;
use lightseal_net::Clock;
use lightseal_net::impairment::{Impairments, Probability};
use lightseal_net::relay::{Relay, RelayCounters, RelaySettings};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::sync::oneshot;

/// How long a datagram that the relay let through may take to arrive. After that the kernel has
/// dropped it.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(2);

/// Two sockets and a relay between them, which runs until this is dropped.
#[derive(Debug)]
pub struct Sockets {
    sender: UdpSocket,
    receiver: UdpSocket,
    /// The sender's address as the receiver sees it.
    sender_address: Option<SocketAddr>,
    relay: Arc<Relay>,
    clock: Clock,
    impairments: Impairments,
    /// Number of datagrams sent and received in each direction.
    sent: [u64; 2],
    received: [u64; 2],
    /// Number of the sender's datagrams that had reached the relay when loss began.
    offered_before_loss: u64,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Sockets {
    /// A path on which datagrams of both directions are lost with this probability.
    ///
    /// # Errors
    ///
    /// Fails when a socket or a thread cannot be made.
    pub fn new(loss: Probability, seed: u64) -> Result<Self, Error> {
        Self::open(loss, seed).map_err(|error| Error::Io { path: "sockets".into(), error })
    }

    fn open(loss: Probability, seed: u64) -> io::Result<Self> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let receiver = UdpSocket::bind(any)?;
        let settings = RelaySettings { seed, ..RelaySettings::new(receiver.local_addr()?) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let relay = {
            let _context = runtime.enter();
            Arc::new(Relay::new(lightseal_net::socket::bind(any)?, settings))
        };
        let (end, ended) = oneshot::channel();
        let running = Arc::clone(&relay);
        let thread = std::thread::Builder::new().name("relay".into()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    result = running.run() => result,
                    _ = ended => Ok(()),
                }
            })
        })?;
        let sender = UdpSocket::bind(any)?;
        sender.connect(relay.local_addr()?)?;
        sender.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        Ok(Self {
            sender,
            receiver,
            sender_address: None,
            relay,
            clock: Clock::start(),
            impairments: Impairments { loss, ..Impairments::NONE },
            sent: [0; 2],
            received: [0; 2],
            offered_before_loss: 0,
            end: Some(end),
            thread: Some(thread),
        })
    }

    /// The number of the sender's datagrams since the handshake that the relay lost, and the number
    /// of all of them.
    pub fn lost(&self) -> (u64, u64) {
        let up = self.relay.counters().up;
        (up.lost, up.offered.saturating_sub(self.offered_before_loss))
    }

    /// Whether every datagram that was sent has been lost by the relay or received.
    fn is_settled(&self, counters: &RelayCounters) -> bool {
        [counters.up, counters.down].iter().enumerate().all(|(direction, counted)| {
            counted.offered == self.sent[direction] && counted.delivered == self.received[direction]
        })
    }

    fn arrived(&mut self, buf: &mut [u8]) -> io::Result<Option<(Direction, usize)>> {
        match self.receiver.recv_from(buf) {
            Ok((len, from)) => {
                self.sender_address = Some(from);
                self.received[0] += 1;
                return Ok(Some((Direction::ToReceiver, len)));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        match self.sender.recv(buf) {
            Ok(len) => {
                self.received[1] += 1;
                Ok(Some((Direction::ToSender, len)))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn wait(&mut self, buf: &mut [u8]) -> io::Result<Option<(Direction, usize)>> {
        let mut since: Option<Instant> = None;
        loop {
            let counters = self.relay.counters();
            if let Some(arrived) = self.arrived(buf)? {
                return Ok(Some(arrived));
            }
            if self.is_settled(&counters) {
                return Ok(None);
            }
            let now = self.clock.now();
            if now.saturating_since(*since.get_or_insert(now)) > DELIVERY_TIMEOUT {
                return Err(io::Error::other("the kernel dropped datagrams"));
            }
            std::thread::yield_now();
        }
    }
}

impl Link for Sockets {
    fn send(&mut self, _: Duration, direction: Direction, datagram: &[u8]) -> Result<(), Error> {
        let sent = match (direction, self.sender_address) {
            (Direction::ToReceiver, _) => self.sender.send(datagram),
            (Direction::ToSender, Some(to)) => self.receiver.send_to(datagram, to),
            (Direction::ToSender, None) => return Ok(()),
        };
        sent.map_err(|error| Error::Io { path: "sockets".into(), error })?;
        self.sent[direction as usize] += 1;
        Ok(())
    }

    fn receive(&mut self, buf: &mut [u8]) -> Result<Option<(Direction, usize)>, Error> {
        self.wait(buf).map_err(|error| Error::Io { path: "sockets".into(), error })
    }

    fn begin(&mut self) {
        self.offered_before_loss = self.relay.counters().up.offered;
        self.relay.set(&self.impairments, &self.impairments);
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        // Sending fails if the relay has already ended by itself.
        let _ = self.end.take().map(|end| end.send(()));
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::{Stream, run};

    #[test]
    fn a_stream_over_sockets_loses_what_the_relay_loses() {
        let stream = Stream { batch: 16, ..Stream::new("off".parse().unwrap(), 10, 3000) };
        let mut link = Sockets::new(Probability::ratio(5, 100), 7).unwrap();
        let log = run(&stream, &mut link).unwrap();
        let (lost, offered) = link.lost();
        let delivered =
            log.messages.iter().filter(|message| message.delivered.is_some()).count() as u64;
        // The alert at the end may be among the lost datagrams.
        assert!((3000..=3002).contains(&offered), "{offered}");
        assert!(
            lost > 90 && (3000 - lost..=3001 - lost).contains(&delivered),
            "{lost} {delivered}"
        );
    }
}
