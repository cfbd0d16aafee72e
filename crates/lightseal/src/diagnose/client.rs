//! `lightseal s_client`.

use super::args::{SClientArgs, Style, keys, settings};
use super::exporter::{Exporter, export};
use super::inbox::{Happening, Inbox};
use super::summary::{HandshakeCost, Summary};
use super::{complain, exit_code, lines, payload, print};
use crate::address;
use crate::failure::{Context, Failure};
use crate::signals::{Signal, Signals};
use lightseal_core::{Instant, Random};
use lightseal_dtls::{ClientConfig, CloseReason, Connection, Event, Negotiated, SendError};
use lightseal_net::Clock;
use lightseal_net::address::Named;
use lightseal_net::socket;
use lightseal_net::tokio::{Driver, EngineHost};
use serde_json::{Value, json};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant as TokioInstant, sleep, sleep_until};

/// A client has one socket per association and needs no connection IDs of its own.
const ID_BYTES: u8 = 0;

/// How long the handshake may take at each address of a server but the last one.
const TRY: Duration = Duration::from_secs(5);

/// How long the program waits until it offers a line again that found the send queue full.
const QUEUE_PAUSE: Duration = Duration::from_millis(5);

/// Maximum number of payloads that are kept for the JSON object.
const MOST_KEPT: usize = 4096;

/// The association's number in the inbox. A client has only one.
const ONLY: u64 = 0;

/// The host of the client's engine.
#[derive(Debug)]
struct ClientHost {
    server: SocketAddr,
    exporters: Vec<Exporter>,
    inbox: Inbox,
    /// The negotiated parameters until the engine has sent everything, and what the handshake took
    /// is known.
    connected: Option<(Instant, Box<Negotiated>)>,
    /// Payloads that arrived with the end of the handshake.
    early: Vec<Vec<u8>>,
    is_connected: bool,
    failure: Option<Failure>,
    /// Whether the network reported that nothing listens at the server's port.
    unreachable: bool,
}

impl EngineHost<Connection> for ClientHost {
    fn event(&mut self, now: Instant, event: Event<'_>) {
        match event {
            Event::Connected(agreed) => {
                self.is_connected = true;
                self.connected = Some((now, agreed));
            }
            Event::Data(data) if self.connected.is_some() => self.early.push(data.to_vec()),
            Event::Data(data) => self.inbox.put(ONLY, Happening::Payload(data.to_vec())),
            Event::Closed(reason) => {
                self.inbox.put(ONLY, Happening::Closed(reason, self.is_connected));
            }
            other => self.inbox.put(ONLY, Happening::Note(other.to_string())),
        }
    }

    fn drained(&mut self, _: Instant, connection: &mut Connection) -> bool {
        let Some((at, agreed)) = self.connected.take() else { return false };
        let cost = HandshakeCost::new(Instant::ZERO, at, connection.stats());
        let summary = Box::new(Summary::new(self.server, &agreed, cost));
        match export(&self.exporters, connection) {
            Ok(exported) => self.inbox.put(ONLY, Happening::Connected(summary, exported)),
            Err(failure) => self.failure = Some(failure),
        }
        for data in self.early.drain(..) {
            self.inbox.put(ONLY, Happening::Payload(data));
        }
        false
    }

    fn unreachable(&mut self, _: Instant, connection: &mut Connection) {
        self.unreachable |= !connection.is_connected();
    }

    fn is_finished(&self, connection: &Connection) -> bool {
        connection.is_closed() || self.unreachable || self.failure.is_some()
    }
}

type Client = Driver<Connection, ClientHost>;

/// What came of an association.
#[derive(Debug)]
enum Outcome {
    /// It ended, for this reason; the flag says whether it was connected.
    Ended(CloseReason, bool),
    /// The network reported that nothing listens at the server's port. The flag says whether the
    /// server had answered before.
    Unreachable(bool),
    /// A signal stopped the program before the handshake was complete.
    Stopped,
}

/// Connects to the server, sends the lines of standard input, and prints what arrives.
///
/// # Errors
///
/// If the settings, the key or the address are invalid, or a line could not be sent.
pub(crate) async fn run(args: &SClientArgs, quiet: bool) -> Result<ExitCode, Failure> {
    let settings = settings(&args.offer, args.max_datagram, ID_BYTES)?;
    let psk = keys(args.psk_file.as_ref())?.choose(args.identity.as_deref())?;
    let config = ClientConfig::with(psk, settings).context("settings")?;
    let server = address::well_formed(&args.server).map_err(Failure::new)?;
    let addresses = lightseal_net::address::resolve(server).context(server)?;
    let mut signals = Signals::listen()?;
    let mut session = Session::new(args, quiet);
    for (tried, address) in (1..).zip(&addresses) {
        let is_last = tried == addresses.len();
        let config = if is_last { config.clone() } else { hurried(&config)? };
        let outcome = session.attempt(*address, config, &mut signals).await;
        let server = Named(*address);
        let line = match outcome {
            Err(failure) if !is_last => failure.to_string(),
            Ok(Outcome::Unreachable(false)) => format!("{server}: nothing listens on this port"),
            Ok(Outcome::Unreachable(true)) => format!("{server} ended during the handshake"),
            Ok(Outcome::Ended(CloseReason::HandshakeTimeout, false)) => {
                format!("{server} does not answer")
            }
            outcome => return session.finish(server, outcome?),
        };
        if is_last {
            return session.failed(&line);
        }
        tracing::info!("{line}; trying {}", Named(addresses[tried]));
    }
    Err(Failure::new(format_args!("{server}: no address")))
}

/// The configuration for an address that is not the last one.
fn hurried(config: &ClientConfig) -> Result<ClientConfig, Failure> {
    let mut settings = config.settings().clone();
    settings.handshake_deadline = settings.handshake_deadline.min(TRY);
    config.clone().with_settings(settings).context("settings")
}

/// The user's side of an association.
struct Session<'a> {
    args: &'a SClientArgs,
    style: Style,
    /// The object for `--json`, as far as it is known.
    json: Value,
    received: Vec<Value>,
    sent: u64,
    /// Number of lines that were too long for a datagram.
    too_long: u64,
    /// When something was last sent or received.
    active_at: TokioInstant,
}

impl<'a> Session<'a> {
    fn new(args: &'a SClientArgs, quiet: bool) -> Self {
        Self {
            args,
            style: args.shown.style(quiet),
            json: json!({ "connected": false }),
            received: Vec::new(),
            sent: 0,
            too_long: 0,
            active_at: TokioInstant::now(),
        }
    }

    /// Completes a handshake with one address, and carries lines until the association ends.
    async fn attempt(
        &mut self,
        server: SocketAddr,
        config: ClientConfig,
        signals: &mut Signals,
    ) -> Result<Outcome, Failure> {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = socket::bind((any, 0).into()).context("socket")?;
        socket::report_unreachable(&socket).context("socket")?;
        let rng = Random::from_os().context("randomness")?;
        let connection = Connection::client(Arc::new(config), server, Instant::ZERO, rng);
        let host = ClientHost {
            server,
            exporters: self.args.shown.exporter.clone(),
            inbox: Inbox::default(),
            connected: None,
            early: Vec::new(),
            is_connected: false,
            failure: None,
            unreachable: false,
        };
        let wake = host.inbox.wake();
        let driver = Driver::new(socket, Clock::start(), connection, host);
        let mut running = pin!(driver.run());
        let mut input = None;
        let mut unsent: Option<Vec<u8>> = None;
        let (mut at_end, mut closing) = (false, false);
        loop {
            let mut ended = None;
            let close_at = self.close_at(at_end && unsent.is_none() && !closing);
            tokio::select! {
                done = &mut running => ended = Some(done.context("socket")?),
                () = wake.notified() => {}
                line = next(&mut input), if unsent.is_none() && !at_end => {
                    at_end = line.is_none();
                    unsent = line.and_then(|line| self.send(&driver, line));
                }
                () = sleep(QUEUE_PAUSE), if unsent.is_some() => {
                    unsent = unsent.take().and_then(|line| self.send(&driver, line));
                }
                () = sleep_until(close_at.unwrap_or_else(TokioInstant::now)), if close_at.is_some() => {
                    closing = true;
                    driver.call(|connection, _, now| connection.close(now));
                }
                signal = signals.next() => if signal == Signal::Stop {
                    if input.is_none() {
                        return Ok(Outcome::Stopped);
                    }
                    driver.call(|connection, _, now| connection.close(now));
                }
            }
            let (happenings, dropped) = driver.call(|_, host, _| host.inbox.take());
            if dropped > 0 {
                tracing::warn!("{dropped} payloads were dropped: standard output is too slow");
            }
            for (_, happening) in happenings {
                match happening {
                    Happening::Connected(summary, exported) => {
                        self.connected(&summary, &exported)?;
                        input = Some(lines::read());
                    }
                    Happening::Payload(data) => self.received(&data)?,
                    Happening::Note(note) => tracing::info!("{}: {note}", Named(server)),
                    Happening::Closed(reason, connected) => {
                        self.count(&driver);
                        return Ok(Outcome::Ended(reason, connected));
                    }
                }
            }
            if ended.is_some() {
                return match driver.call(|_, host, _| host.failure.take()) {
                    Some(failure) => Err(failure),
                    None => {
                        let stats = driver.call(|connection, _, _| *connection.stats());
                        Ok(Outcome::Unreachable(stats.received.datagrams > 0))
                    }
                };
            }
        }
    }

    /// When the association is to be closed because the input has ended; `None` as long as it goes
    /// on.
    fn close_at(&self, at_end: bool) -> Option<TokioInstant> {
        let wait = if self.sent == 0 { Duration::ZERO } else { self.args.wait.0 };
        at_end.then(|| self.active_at + wait)
    }

    /// Sends a line, and returns it if the send queue has no room.
    fn send(&mut self, driver: &Client, line: Vec<u8>) -> Option<Vec<u8>> {
        let sent = driver.send(|connection, _, now, datagram| {
            let sent = connection.send(now, &line, datagram);
            sent.map_err(|error| (error, connection.max_payload()))
        });
        self.active_at = TokioInstant::now();
        match sent {
            Ok(()) => self.sent += 1,
            Err((SendError::QueueFull, _)) => return Some(line),
            Err((SendError::TooLong, most)) => {
                let len = line.len();
                tracing::error!(
                    "a line of {len} bytes is not sent: {most} bytes fit into a datagram"
                );
                self.too_long += 1;
            }
            // The end of the association is reported by itself.
            Err(_) => {}
        }
        None
    }

    fn connected(&mut self, summary: &Summary, exported: &Value) -> Result<(), Failure> {
        self.active_at = TokioInstant::now();
        self.json = serde_json::to_value(summary).context("summary")?;
        self.json["connected"] = true.into();
        self.json["exported"] = exported.clone();
        super::show(self.style, "", summary, exported)
    }

    fn received(&mut self, data: &[u8]) -> Result<(), Failure> {
        self.active_at = TokioInstant::now();
        match self.style {
            Style::Json if self.received.len() < MOST_KEPT => {
                self.received.push(payload::json(data));
            }
            Style::Json => {}
            _ => payload::print("", data)?,
        }
        Ok(())
    }

    /// Adds to the JSON object what the whole association took.
    fn count(&mut self, driver: &Client) {
        let stats = driver.call(|connection, _, _| *connection.stats());
        self.json["total"] = json!({
            "sent": { "datagrams": stats.sent.datagrams, "bytes": stats.sent.bytes },
            "received": { "datagrams": stats.received.datagrams, "bytes": stats.received.bytes },
            "retransmissions": stats.sent.retransmissions,
        });
    }

    /// Prints how the association ended.
    fn finish(&mut self, server: Named, outcome: Outcome) -> Result<ExitCode, Failure> {
        let (reason, connected) = match outcome {
            Outcome::Ended(reason, connected) => (reason, connected),
            Outcome::Unreachable(_) | Outcome::Stopped => {
                return self
                    .failed(&format!("{server}: stopped before the handshake was complete"));
            }
        };
        let code = exit_code(&reason);
        if !connected || code != ExitCode::SUCCESS {
            return self.failed(&format!("{server}: {reason}"));
        }
        self.print_json(&reason.to_string())?;
        if self.style == Style::Full {
            print(&format!("{reason}\n"))?;
        }
        match self.too_long {
            0 => Ok(code),
            1 => Err(Failure::new("a line was not sent")),
            count => Err(Failure::new(format_args!("{count} lines were not sent"))),
        }
    }

    /// Reports that the handshake or the association failed.
    fn failed(&mut self, why: &str) -> Result<ExitCode, Failure> {
        self.print_json(why)?;
        complain(why);
        Ok(ExitCode::from(super::FAILED))
    }

    fn print_json(&mut self, ended: &str) -> Result<(), Failure> {
        if self.style != Style::Json {
            return Ok(());
        }
        self.json["server"] = self.args.server.as_str().into();
        self.json["ended"] = ended.into();
        self.json["sent"] = self.sent.into();
        self.json["received"] = std::mem::take(&mut self.received).into();
        print(&format!("{:#}\n", self.json))
    }
}

/// The next line, once there is an input.
async fn next(input: &mut Option<tokio::sync::mpsc::Receiver<Vec<u8>>>) -> Option<Vec<u8>> {
    match input {
        Some(lines) => lines.recv().await,
        None => std::future::pending().await,
    }
}
