//! An association over an ideal link between two nodes, captured.

use super::{Captured, KeyLog};
use crate::Error;
use crate::lowpan::{NodeCounters, Packet, Reassembly, address, frames};
use crate::world::{Frame, NodeId};
use core::time::Duration;
use lightseal_core::{Engine, Instant, Output, Random};
use lightseal_dtls::{ClientConfig, Connection, Endpoint, Event, Handle, ServerConfig, Settings};
use std::collections::VecDeque;
use std::sync::Arc;

const CLIENT: NodeId = NodeId(0);
const SERVER: NodeId = NodeId(1);
/// Time from one frame to the next.
const FRAME: Duration = Duration::from_millis(5);
/// Time from one message to the next.
const PAUSE: Duration = Duration::from_millis(100);
/// How long an event is waited for. An association that is not established by then never will be.
const ESTABLISHMENT_TIMEOUT: Duration = Duration::from_secs(300);

/// The configurations of two ends, and the messages that they exchange.
#[derive(Debug)]
pub struct Conversation {
    /// The client.
    pub client: ClientConfig,
    /// The server.
    pub server: ServerConfig,
    /// Messages of the client. The server sends each one back.
    pub messages: Vec<Vec<u8>>,
    /// The number of messages after which the client updates its keys; `None` for no update.
    pub new_keys_after: Option<usize>,
    /// Seed of all randomness.
    pub seed: u64,
}

/// Both engines and the link between them, while the conversation runs.
struct RunningConversation {
    now: Instant,
    client: Connection,
    server: Endpoint,
    peer: Option<Handle>,
    connected: bool,
    to_echo: VecDeque<Vec<u8>>,
    /// Frames under way: the receiver and the frame.
    link: VecDeque<(NodeId, Vec<u8>)>,
    numbers: [NodeCounters; 2],
    reassembly: [Reassembly; 2],
    echoed: usize,
    captured: Captured,
}

impl Conversation {
    /// Runs the association from its handshake to its end.
    ///
    /// # Errors
    ///
    /// Fails when an engine refuses its configuration, or the association is not established.
    pub fn run(self) -> Result<Captured, Error> {
        let keys = Arc::new(KeyLog::default());
        let with_log = |settings: &Settings| {
            let mut settings = settings.clone();
            settings.key_log = Some(keys.clone());
            settings
        };
        let (client, server) = (with_log(self.client.settings()), with_log(self.server.settings()));
        let client = self.client.with_settings(client).map_err(Error::Engine)?;
        let server = self.server.with_settings(server).map_err(Error::Engine)?;
        let mut random = Random::insecure(self.seed);
        let now = Instant::ZERO;
        let (client, server) = (Arc::new(client), Arc::new(server));
        let mut run = RunningConversation {
            now,
            client: Connection::client(client, address(SERVER), now, random.fork()),
            server: Endpoint::server(server, random.fork()),
            peer: None,
            connected: false,
            to_echo: VecDeque::new(),
            link: VecDeque::new(),
            numbers: [NodeCounters::default(); 2],
            reassembly: [Reassembly::default(), Reassembly::default()],
            echoed: 0,
            captured: Captured { frames: Vec::new(), keys },
        };
        run.until(now + ESTABLISHMENT_TIMEOUT, |run| run.connected && run.peer.is_some())?;
        for (at, message) in self.messages.iter().enumerate() {
            if self.new_keys_after == Some(at) {
                run.client.update_keys(run.now);
            }
            let _ = run.client.send(run.now, message, &mut []).map_err(|_| STUCK)?;
            run.until(run.now + PAUSE, |_| false)?;
        }
        // Messages that wait for a shared tag are delivered when the deadline of their run passes.
        run.until(run.now + ESTABLISHMENT_TIMEOUT, |run| run.echoed == self.messages.len())?;
        run.client.close(run.now);
        run.until(run.now + PAUSE, |_| false)?;
        Ok(run.captured)
    }
}

const STUCK: Error = Error::Stream("the association to capture was not established");

impl RunningConversation {
    /// Lets time pass until `end`, or until `done` holds. Fails if `done` still does not hold after
    /// [`ESTABLISHMENT_TIMEOUT`].
    fn until(&mut self, end: Instant, done: impl Fn(&Self) -> bool) -> Result<(), Error> {
        let waits = end - self.now >= ESTABLISHMENT_TIMEOUT;
        loop {
            let wake = self.drain();
            if done(self) {
                return Ok(());
            }
            if let Some((to, frame)) = self.link.pop_front() {
                self.now += FRAME;
                let bytes = frame.clone();
                self.captured.frames.push(Frame { at: self.now, bytes });
                self.deliver(to, &frame);
            } else if let Some(wake) = wake.filter(|wake| *wake <= end) {
                self.now = self.now.max(wake);
                self.client.handle_timeout(self.now);
                self.server.handle_timeout(self.now);
            } else if waits {
                return Err(STUCK);
            } else {
                self.now = self.now.max(end);
                return Ok(());
            }
        }
    }

    fn deliver(&mut self, to: NodeId, frame: &[u8]) {
        let reassembly = &mut self.reassembly[usize::from(to.0)];
        let Some(mut packet) = reassembly.take(self.now, frame) else { return };
        if to == SERVER {
            self.server.handle_datagram(self.now, address(CLIENT), &mut packet.payload);
        } else {
            self.client.handle_datagram(self.now, address(SERVER), &mut packet.payload);
        }
    }

    fn send(&mut self, from: NodeId, to: NodeId, datagram: &[u8]) {
        let packet = Packet::new(from, to, datagram);
        let numbers = &mut self.numbers[usize::from(from.0)];
        self.link.extend(frames(&packet, from, to, numbers).into_iter().map(|frame| (to, frame)));
    }

    /// Takes the output of both engines. Returns the earlier of their wake-up times.
    fn drain(&mut self) -> Option<Instant> {
        let mut buf = [0; 2048];
        let mut wake: Option<Instant> = None;
        loop {
            match self.client.poll_output(&mut buf) {
                Output::Datagram { payload, .. } => {
                    let datagram = payload.to_vec();
                    self.send(CLIENT, SERVER, &datagram);
                }
                Output::Event(Event::Connected(_)) => self.connected = true,
                Output::Event(Event::Data(_)) => self.echoed += 1,
                Output::Event(_) => {}
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(at) => {
                    wake = Some(at);
                    break;
                }
                Output::Idle => break,
            }
        }
        loop {
            match self.server.poll_output(&mut buf) {
                Output::Datagram { payload, .. } => {
                    let datagram = payload.to_vec();
                    self.send(SERVER, CLIENT, &datagram);
                    continue;
                }
                Output::Event(told) => {
                    match told.event {
                        Event::Connected(_) => self.peer = Some(told.handle),
                        Event::Data(data) => self.to_echo.push_back(data.to_vec()),
                        _ => {}
                    }
                    continue;
                }
                Output::BufferTooSmall { needed } => panic!("{needed} bytes are needed"),
                Output::WakeAt(at) => wake = Some(wake.map_or(at, |wake| wake.min(at))),
                Output::Idle => {}
            }
            let (Some(peer), Some(data)) = (self.peer, self.to_echo.pop_front()) else { break };
            // The association may already be closed.
            if let Some(mut connection) = self.server.connection_mut(peer) {
                let _ = connection.send(self.now, &data, &mut []);
            }
        }
        wake
    }
}
