//! wolfSSL behind the engine contract, so that every driver carries it.

use crate::wolfssl::{Context, Error, Peer};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use vocabulary::{Engine, Instant, Output};

/// One end of a connection that knows the other's address and its own deadline.
pub struct Driven {
    peer: Peer,
    /// A server learns it from the first datagram.
    to: Option<SocketAddr>,
    events: VecDeque<Event>,
    wake: Option<Instant>,
    sent_again: Option<std::time::Instant>,
    state: State,
    buffer: Vec<u8>,
}

/// How far apart two retransmissions must be, in real time: what the crate
/// `wolfssl-sys` sets as `DTLS13_MIN_RTX_INTERVAL`, and a little more.
const SENDS_AGAIN_AFTER: Duration = Duration::from_millis(105);

/// What happened to a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The handshake is complete.
    Connected,
    /// The payload of one record.
    Data(Vec<u8>),
    /// The other end has another address.
    Moved,
    /// Records of a direction are tagged in another way.
    Retagged,
    /// The other end closed it, or this one gave it up, and why.
    Closed(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Handshake,
    Connected,
    Closed,
}

impl Driven {
    /// A client of `server`, which speaks as soon as it is polled.
    pub fn client(context: &Rc<Context>, server: SocketAddr, now: Instant) -> Self {
        let mut client = Self::new(context, Some(server));
        client.go_on(now);
        client
    }

    /// A server of the first client that speaks to it.
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

    /// Seals `payload`; its datagram leaves at the next poll.
    ///
    /// # Errors
    /// As [`Peer::send`].
    pub fn send(&mut self, payload: &[u8]) -> Result<(), Error> {
        self.peer.send(payload)
    }

    /// Says goodbye; the datagram leaves at the next poll.
    pub fn close(&mut self) {
        self.peer.close();
        self.state = State::Closed;
    }

    /// wolfSSL's own object.
    pub fn peer(&mut self) -> &mut Peer {
        &mut self.peer
    }

    /// Whether the handshake is complete and nobody has closed.
    pub fn is_connected(&self) -> bool {
        self.state == State::Connected
    }

    /// Lets wolfSSL look at what arrived.
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
            // What was authentic came from where the other end is now.
            if self.events.len() > before {
                self.to = Some(from);
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.wake.is_none_or(|wake| now < wake) {
            return;
        }
        // wolfSSL reads the real clock to send nothing again too soon, whatever the
        // virtual time: a test that loses datagrams has to wait for it.
        let since = self.sent_again.map_or(SENDS_AGAIN_AFTER, |last| last.elapsed());
        std::thread::sleep(SENDS_AGAIN_AFTER.saturating_sub(since));
        self.sent_again = Some(std::time::Instant::now());
        if let Err(error) = self.peer.handle_timeout() {
            self.end(&error);
        }
        self.go_on(now);
        // Once connected, a timer that finds nothing to send again has done its work.
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
