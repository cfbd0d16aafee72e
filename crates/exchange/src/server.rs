//! A server that sends every payload back.

use crate::payload::{Label, SeenSerials};
use crate::{Exchange, Options, Request, step::Step};
use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use lightseal_core::{Engine, Instant, Output, Random, Sent};
use lightseal_dtls::{CloseReason, ConfigError, Endpoint, EndpointEvent, Event, Handle};

/// Payloads that wait to be sent back; more are not echoed.
const MOST_WAITING: usize = 32;

/// What the server has counted.
#[derive(Clone, Debug, Default)]
pub struct ServerCounters {
    /// Handshakes that were completed.
    pub completed: u32,
    /// Received payloads.
    pub delivered: u32,
    /// Received payloads that no client of an exchange sends.
    pub alien: u32,
    /// Payloads that were received twice.
    pub replayed: u32,
    /// How often a client was found at another address.
    pub moved: u32,
    /// Why the first association ended otherwise than by its client.
    pub failure: Option<String>,
}

/// The server.
#[derive(Debug)]
pub struct Server {
    endpoint: Endpoint,
    options: Options,
    now: Instant,
    /// When the last datagram arrived.
    active: Instant,
    echoes: VecDeque<(Handle, Vec<u8>)>,
    seen: SeenSerials,
    counters: ServerCounters,
    /// Whether the driver is to be told that the exchange is over.
    ends: bool,
}

impl Server {
    /// Accepts the associations that the options ask for, and stops when all was quiet afterwards.
    ///
    /// # Errors
    /// The options do not go together.
    pub fn new(options: &Options) -> Result<Self, ConfigError> {
        let endpoint = Endpoint::server(options.server()?, Random::insecure(options.seed));
        Ok(Self {
            endpoint,
            options: options.clone(),
            now: Instant::ZERO,
            active: Instant::ZERO,
            echoes: VecDeque::new(),
            seen: SeenSerials::default(),
            counters: ServerCounters::default(),
            ends: false,
        })
    }

    /// What the server has counted.
    pub const fn counters(&self) -> &ServerCounters {
        &self.counters
    }

    /// When the server stops unless something arrives; `None` if it waits for associations.
    fn end(&self) -> Option<Instant> {
        let all = self.counters.completed >= self.options.handshakes;
        all.then(|| self.active + self.options.quiet)
    }

    fn received(&mut self, handle: Handle, payload: &[u8]) {
        self.counters.delivered += 1;
        match Label::of(payload) {
            None => self.counters.alien += 1,
            Some(label) if !self.seen.insert(label.serial) => self.counters.replayed += 1,
            Some(_) => {}
        }
        if self.echoes.len() < MOST_WAITING {
            self.echoes.push_back((handle, payload.to_vec()));
        }
    }

    fn closed(&mut self, reason: &CloseReason) {
        if !matches!(reason, CloseReason::Peer | CloseReason::Replaced) {
            self.counters.failure.get_or_insert_with(|| reason.to_string());
        }
    }

    /// Sends the next echo. Returns the datagram, if there is one.
    fn send_echo(&mut self, buf: &mut [u8]) -> Option<Step> {
        let (handle, payload) = self.echoes.pop_front()?;
        let mut association = self.endpoint.connection_mut(handle)?;
        match association.send(self.now, &payload, buf) {
            Ok(Sent::Datagram { len, to }) => Some(Step::Datagram { to: to.peer, len }),
            Ok(Sent::Queued) | Err(_) => None,
        }
    }

    fn step(&mut self, buf: &mut [u8]) -> Step {
        loop {
            if core::mem::take(&mut self.ends) {
                return Step::Request(Request::End);
            }
            let waiting = self.echoes.len();
            if let Some(step) = self.send_echo(buf) {
                return step;
            }
            if waiting > 0 {
                continue;
            }
            let wake = match self.endpoint.poll_output(buf) {
                Output::Datagram { to, payload } => {
                    return Step::Datagram { to, len: payload.len() };
                }
                Output::Event(EndpointEvent { handle, event, .. }) => {
                    match event {
                        Event::Connected(_) => self.counters.completed += 1,
                        Event::Data(payload) => {
                            let payload = payload.to_vec();
                            self.received(handle, &payload);
                        }
                        Event::PeerMoved { .. } => self.counters.moved += 1,
                        Event::Closed(reason) => self.closed(&reason),
                        _ => {}
                    }
                    continue;
                }
                Output::BufferTooSmall { needed } => return Step::BufferTooSmall { needed },
                Output::WakeAt(at) => at,
                Output::Idle => Instant::MAX,
            };
            return Step::WakeAt(self.end().map_or(wake, |end| wake.min(end)));
        }
    }
}

impl Engine for Server {
    type Event<'a> = Request;

    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        self.now = self.now.max(now);
        self.active = self.now;
        self.endpoint.handle_datagram(now, from, datagram);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.endpoint.handle_timeout(now);
        self.ends |= self.end().is_some_and(|end| end <= now);
    }

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Request> {
        self.step(buf).output(buf)
    }
}

impl Exchange for Server {
    fn succeeded(&self) -> bool {
        let ServerCounters { completed, alien, replayed, .. } = self.counters;
        let complete = completed >= self.options.handshakes || self.options.attacked;
        complete && alien + replayed == 0
    }

    fn report(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let ServerCounters { completed, delivered, alien, replayed, moved, .. } = self.counters;
        write!(
            out,
            "\"role\": \"server\", \"completed\": {completed}, \"delivered\": {delivered}, \
             \"alien\": {alien}, \"replayed\": {replayed}, \"moved\": {moved}"
        )?;
        match &self.counters.failure {
            Some(failure) => write!(out, ", \"failure\": \"{failure}\""),
            None => Ok(()),
        }
    }
}
