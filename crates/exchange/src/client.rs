//! A client that makes associations one after the other and sends payloads until all are echoed.

use crate::payload::{Label, SeenSerials};
use crate::{Exchange, Options, Request, step::Step};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;
use lightseal_core::time::micros;
use lightseal_core::{Engine, Instant, Output, Random, Sent};
use lightseal_dtls::{ClientConfig, CloseReason, ConfigError, Connection, Event, Negotiated};

/// The number of payloads that are sent before the client waits for their echoes.
const WINDOW: usize = 8;

/// After this time an association whose payloads are not all echoed has failed.
const ASSOCIATION_DEADLINE: Duration = Duration::from_secs(60);

/// What the client has counted.
#[derive(Clone, Debug, Default)]
pub struct ClientCounters {
    /// Handshakes that were completed.
    pub completed: u32,
    /// Handshakes that failed.
    pub incomplete: u32,
    /// Associations that ended before all payloads were echoed.
    pub broken: u32,
    /// Payloads whose echo arrived.
    pub echoed: u32,
    /// Payloads that were sent again because no echo arrived in time.
    pub repeated: u32,
    /// Received payloads that are no echo of a payload of the association.
    pub alien: u32,
    /// Echoes that were received twice.
    pub replayed: u32,
    /// Flights and KeyUpdates that were retransmitted.
    pub retransmissions: u64,
    /// Associations that continued after a change of the client's port.
    pub moved: u32,
    /// The time of all handshakes, and of the longest one.
    pub handshake_time: (Duration, Duration),
    /// Why the first association failed.
    pub failure: Option<String>,
}

/// The part of an association that is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Handshake,
    /// Payloads are sent and echoed; those without an echo are sent again at this time.
    Echoes(Instant),
    Closing,
    Over,
}

/// The client.
#[derive(Debug)]
pub struct Client {
    config: Arc<ClientConfig>,
    options: Options,
    server: SocketAddr,
    rng: Random,
    now: Instant,
    connection: Connection,
    began: Instant,
    stage: Stage,
    /// Whether the echo of each payload of the association has arrived.
    echoed: Vec<bool>,
    /// The payloads that are sent before the client waits, by index.
    window: Vec<u16>,
    /// How many payloads of the window have been sent.
    sent: usize,
    /// The serial number of the next payload, and that of the association's first one.
    serials: (u32, u32),
    seen: SeenSerials,
    has_moved: bool,
    request: Option<Request>,
    counters: ClientCounters,
}

impl Client {
    /// Makes the associations that the options ask for.
    ///
    /// # Errors
    /// The options do not go together.
    pub fn new(options: &Options, server: SocketAddr, now: Instant) -> Result<Self, ConfigError> {
        let config = options.client()?;
        let mut rng = Random::insecure(options.seed);
        let connection = Connection::client(Arc::clone(&config), server, now, rng.fork());
        Ok(Self {
            config,
            options: options.clone(),
            server,
            rng,
            now,
            connection,
            began: now,
            stage: Stage::Handshake,
            echoed: Vec::new(),
            window: Vec::new(),
            sent: 0,
            serials: (0, 0),
            seen: SeenSerials::default(),
            has_moved: false,
            request: None,
            counters: ClientCounters::default(),
        })
    }

    /// What the client has counted.
    pub const fn counters(&self) -> &ClientCounters {
        &self.counters
    }

    fn associations(&self) -> u32 {
        self.counters.completed + self.counters.incomplete
    }

    fn next_association(&mut self) {
        self.counters.retransmissions += self.connection.stats().sent.retransmissions;
        if self.associations() >= self.options.handshakes {
            self.stage = Stage::Over;
            self.request = Some(Request::End);
            return;
        }
        let config = Arc::clone(&self.config);
        self.connection = Connection::client(config, self.server, self.now, self.rng.fork());
        self.began = self.now;
        self.stage = Stage::Handshake;
        self.has_moved = false;
    }

    fn connected(&mut self, agreed: &Negotiated) {
        let took = self.now.saturating_since(self.began);
        let (sum, longest) = self.counters.handshake_time;
        self.counters.handshake_time = (sum + took, longest.max(took));
        self.counters.completed += 1;
        self.echoed = alloc::vec![false; self.options.payloads.into()];
        self.serials.1 = self.serials.0;
        if (agreed.send, agreed.receive) != (self.options.scheme, self.options.scheme) {
            self.counters.broken += 1;
            self.counters.failure.get_or_insert_with(|| "the scheme was not agreed on".into());
        }
        self.advance();
    }

    /// Sends the first payloads that have no echo yet, or closes the association if there are none.
    fn advance(&mut self) {
        let open = self.echoed.iter().enumerate().filter(|(_, echoed)| !**echoed);
        let open: Vec<u16> = open.map(|(index, _)| index as u16).take(WINDOW).collect();
        if open.is_empty() {
            self.counters.moved += u32::from(self.has_moved);
            self.stage = Stage::Closing;
            self.connection.close(self.now);
            return;
        }
        let half = usize::from(open[0]) * 2 >= self.echoed.len();
        if self.options.moves && !self.has_moved && half {
            self.has_moved = true;
            self.request = Some(Request::NewPort);
        }
        self.window = open;
        self.sent = 0;
        self.stage = Stage::Echoes(self.now + self.options.timeout);
    }

    fn received(&mut self, label: Option<Label>) {
        let own = self.serials.1..self.serials.0;
        let echoed = label
            .filter(|label| own.contains(&label.serial))
            .and_then(|label| Some((label, self.echoed.get_mut(usize::from(label.index))?)));
        let Some((label, echoed)) = echoed else {
            self.counters.alien += 1;
            return;
        };
        if !self.seen.insert(label.serial) {
            self.counters.replayed += 1;
        }
        if !core::mem::replace(echoed, true) {
            self.counters.echoed += 1;
        }
        if matches!(self.stage, Stage::Echoes(_)) && self.window_is_echoed() {
            self.advance();
        }
    }

    fn window_is_echoed(&self) -> bool {
        let echoed = |index: &u16| self.echoed.get(usize::from(*index)).copied().unwrap_or(true);
        self.sent == self.window.len() && self.window.iter().all(echoed)
    }

    fn closed(&mut self, reason: &CloseReason) {
        match self.stage {
            Stage::Handshake => self.counters.incomplete += 1,
            Stage::Echoes(_) => self.counters.broken += 1,
            Stage::Closing | Stage::Over => {}
        }
        if matches!(self.stage, Stage::Handshake | Stage::Echoes(_)) {
            self.counters.failure.get_or_insert_with(|| reason.to_string());
        }
        self.next_association();
    }

    /// Sends the next payload that is due. Returns the datagram, if there is one.
    fn send_due(&mut self, buf: &mut [u8]) -> Option<Step> {
        if !matches!(self.stage, Stage::Echoes(_)) {
            return None;
        }
        let index = *self.window.get(self.sent)?;
        let label = Label { serial: self.serials.0, index };
        let payload = label.payload(self.options.bytes);
        self.sent += 1;
        self.serials.0 += 1;
        match self.connection.send(self.now, &payload, buf) {
            Ok(Sent::Datagram { len, to }) => Some(Step::Datagram { to: to.peer, len }),
            Ok(Sent::Queued) | Err(_) => None,
        }
    }

    fn step(&mut self, buf: &mut [u8]) -> Step {
        loop {
            if let Some(request) = self.request.take() {
                return Step::Request(request);
            }
            if self.stage == Stage::Over {
                return Step::Idle;
            }
            let sent_before = self.sent;
            if let Some(step) = self.send_due(buf) {
                return step;
            }
            if self.sent > sent_before {
                continue;
            }
            let wake = match self.connection.poll_output(buf) {
                Output::Datagram { to, payload } => {
                    return Step::Datagram { to, len: payload.len() };
                }
                Output::Event(Event::Connected(agreed)) => {
                    self.connected(&agreed);
                    continue;
                }
                Output::Event(Event::Data(data)) => {
                    let label = Label::of(data);
                    self.received(label);
                    continue;
                }
                Output::Event(Event::Closed(reason)) => {
                    self.closed(&reason);
                    continue;
                }
                Output::Event(_) => continue,
                Output::BufferTooSmall { needed } => return Step::BufferTooSmall { needed },
                Output::WakeAt(at) => at,
                Output::Idle => Instant::MAX,
            };
            return match self.stage {
                Stage::Echoes(again) => Step::WakeAt(wake.min(again)),
                _ => Step::WakeAt(wake),
            };
        }
    }
}

impl Engine for Client {
    type Event<'a> = Request;

    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        self.now = self.now.max(now);
        self.connection.handle_datagram(now, from, datagram);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.now = self.now.max(now);
        self.connection.handle_timeout(now);
        if let Stage::Echoes(again) = self.stage
            && again <= now
        {
            if now.saturating_since(self.began) > ASSOCIATION_DEADLINE {
                self.counters.broken += 1;
                self.counters.failure.get_or_insert_with(|| "payloads were not echoed".into());
                self.next_association();
                return;
            }
            self.advance();
            self.counters.repeated += self.window.len() as u32;
        }
    }

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Request> {
        self.step(buf).output(buf)
    }
}

impl Exchange for Client {
    fn succeeded(&self) -> bool {
        let ClientCounters {
            completed, incomplete, broken, echoed, alien, replayed, moved, ..
        } = self.counters;
        let all = self.options.handshakes;
        let complete = completed == all
            && u64::from(echoed) == u64::from(all) * u64::from(self.options.payloads)
            && (moved == all || !self.options.moves)
            && incomplete + broken == 0;
        self.stage == Stage::Over && alien + replayed == 0 && (complete || self.options.attacked)
    }

    fn report(&self, out: &mut dyn fmt::Write) -> fmt::Result {
        let ClientCounters { completed, incomplete, broken, echoed, repeated, .. } = self.counters;
        let ClientCounters { alien, replayed, retransmissions, moved, .. } = self.counters;
        let (sum, longest) = self.counters.handshake_time;
        let mean = micros(sum) / u64::from(completed.max(1));
        write!(
            out,
            "\"role\": \"client\", \"completed\": {completed}, \"incomplete\": {incomplete}, \
             \"broken\": {broken}, \"echoed\": {echoed}, \"repeated\": {repeated}, \
             \"alien\": {alien}, \"replayed\": {replayed}, \"moved\": {moved}, \
             \"retransmissions\": {retransmissions}, \"handshake_us\": {mean}, \
             \"longest_handshake_us\": {}",
            micros(longest)
        )?;
        match &self.counters.failure {
            Some(failure) => write!(out, ", \"failure\": \"{failure}\""),
            None => Ok(()),
        }
    }
}
