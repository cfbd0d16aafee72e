//! wolfSSL behind our engine contract, so that every driver can run it.

use crate::wolfssl::{Context, Error, Peer};
use lightseal_core::{Engine, Instant, Output};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// One end of a connection, with the other end's address and its own deadline.
pub struct Driven {
    peer: Peer,
    /// The other end's address. A server learns it from the first datagram.
    to: Option<SocketAddr>,
    events: VecDeque<Event>,
    wake: Option<Instant>,
    sent_again: Option<std::time::Instant>,
    state: State,
    buffer: Vec<u8>,
}

/// The least real time between two retransmissions: `DTLS13_MIN_RTX_INTERVAL` as set by the crate
/// `wolfssl-sys`, and a little more.
const SENDS_AGAIN_AFTER: Duration = Duration::from_millis(105);

/// An event of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete.
    Connected,
    /// The payload of a record.
    Data(Vec<u8>),
    /// The other end has a new address.
    Moved,
    /// The aggregation scheme of a direction has changed.
    Retagged,
    /// The other end closed the connection, or this end gave it up: why.
    Closed(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Handshake,
    Connected,
    Closed,
}

impl Driven {
    /// A client of `server`. It sends its hello when it is first polled.
    pub fn client(context: &Rc<Context>, server: SocketAddr, now: Instant) -> Self {
        Self::client_with(context, server, now, |_| {})
    }

    /// As [`Self::client`], after a call of `prepare`.
    pub fn client_with(
        context: &Rc<Context>,
        server: SocketAddr,
        now: Instant,
        prepare: impl FnOnce(&mut Peer),
    ) -> Self {
        let mut client = Self::new(context, Some(server));
        prepare(&mut client.peer);
        client.go_on(now);
        client
    }

    /// A server for the first client that sends it a datagram.
    pub fn server(context: &Rc<Context>) -> Self {
        Self::new(context, None)
    }

    fn new(context: &Rc<Context>, to: Option<SocketAddr>) -> Self {
        Self {
            peer: context.peer(),
            to,
            events: VecDeque::new(),
            wake: None,
            sent_again: None,
            state: State::Handshake,
            buffer: vec![0; 1 << 14],
        }
    }

    /// Seals `payload`. The datagram is sent at the next poll.
    ///
    /// # Errors
    /// As for [`Peer::send`].
    pub fn send(&mut self, payload: &[u8]) -> Result<(), Error> {
        self.peer.send(payload)
    }

    /// Closes the connection. The close_notify is sent at the next poll.
    pub fn close(&mut self) {
        self.peer.close();
        self.state = State::Closed;
    }

    /// The underlying wolfSSL object.
    pub fn peer(&mut self) -> &mut Peer {
        &mut self.peer
    }

    /// Whether the handshake is complete and neither end has closed.
    pub fn is_connected(&self) -> bool {
        self.state == State::Connected
    }

    /// Lets wolfSSL process the datagrams that arrived.
    fn go_on(&mut self, now: Instant) {
        if self.state == State::Handshake {
            match self.peer.handshake() {
                Ok(true) => {
                    self.state = State::Connected;
                    self.events.push_back(Event::Connected);
                }
                Ok(false) => {}
                Err(error) => self.end(&error),
            }
        }
        while self.state == State::Connected {
            match self.peer.recv(&mut self.buffer) {
                Ok(Some(length)) => {
                    self.events.push_back(Event::Data(self.buffer[..length].to_vec()));
                }
                Ok(None) => break,
                Err(error) => self.end(&error),
            }
        }
        self.wake = (self.state != State::Closed).then(|| now + self.peer.timeout());
    }

    fn end(&mut self, error: &Error) {
        self.state = State::Closed;
        self.events.push_back(Event::Closed(error.to_string()));
    }
}

impl Engine for Driven {
    type Event<'a> = Event;

    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        let is_known = *self.to.get_or_insert(from) == from || self.peer.has_cid();
        if is_known && self.state != State::Closed {
            let before = self.events.len();
            self.peer.deliver(datagram);
            self.go_on(now);
            // An authentic record shows where the other end is now.
            if self.events.len() > before {
                self.to = Some(from);
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.wake.is_none_or(|wake| now < wake) {
            return;
        }
        // wolfSSL uses the real clock so as not to retransmit too soon, whatever the virtual time
        // is. A test that loses datagrams therefore has to wait in real time.
        let since = self.sent_again.map_or(SENDS_AGAIN_AFTER, |last| last.elapsed());
        std::thread::sleep(SENDS_AGAIN_AFTER.saturating_sub(since));
        self.sent_again = Some(std::time::Instant::now());
        if let Err(error) = self.peer.handle_timeout() {
            self.end(&error);
        }
        self.go_on(now);
        // When the connection is complete and nothing was retransmitted, the timer is not needed
        // any more.
        if self.state == State::Connected && !self.peer.has_output() {
            self.wake = None;
        }
    }

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Event> {
        if let Some(to) = self.to
            && let Some(length) = self.peer.poll_transmit(buf)
        {
            return Output::Datagram { to, payload: &buf[..length] };
        }
        if let Some(event) = self.events.pop_front() {
            return Output::Event(event);
        }
        self.wake.filter(|_| self.to.is_some()).map_or(Output::Idle, Output::WakeAt)
    }
}
