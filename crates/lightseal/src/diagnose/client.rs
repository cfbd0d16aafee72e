//! `lightseal s_client`.

use super::args::{SClientArgs, Style, credentials, settings};
use super::exporter::{Exported, Exporter};
use super::inbox::{Happening, Inbox};
use super::session_file::{self, StoredSession};
use super::summary::{HandshakeCost, Summary};
use super::witness::Witness;
use super::{complain, exit_code, lines, payload, print};
use crate::address;
use crate::credential::refusal;
use crate::failure::{Context, Failure};
use crate::system::{Signal, Signals};
use lightseal_core::{Instant, Random};
use lightseal_dtls::{
    CertificateVerifier, ClientConfig, CloseReason, Connection, Event, Fault, Negotiated,
    ProtocolVersion, SendError, Session as ResumableSession, WhenRejected,
};
use lightseal_net::Clock;
use lightseal_net::address::Named;
use lightseal_net::socket;
use lightseal_net::tokio::{Driver, EngineHost};
use lightseal_pki::SpkiHash;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
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
    began: Instant,
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
    /// Whether the server has acknowledged the handshake.
    acknowledged: bool,
    /// Whether the server has given a session.
    has_session: bool,
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
        let acknowledged = connection.negotiated().is_some_and(|agreed| {
            agreed.version == ProtocolVersion::Dtls12 || connection.is_acknowledged()
        });
        let has_session = self.has_session || connection.session().is_some();
        if (acknowledged, has_session) != (self.acknowledged, self.has_session) {
            (self.acknowledged, self.has_session) = (acknowledged, has_session);
            self.inbox.wake().notify_one();
        }
        let Some((at, agreed)) = self.connected.take() else { return false };
        let cost = HandshakeCost::new(self.began, at, &connection.stats());
        let summary = Box::new(Summary::new(self.server, &agreed, cost));
        match Exported::of(&self.exporters, connection) {
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

/// What is said if there is nothing to resume.
const NO_SESSION: &str = "the server gave no session that could be resumed";

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
    let mut settings = settings(&args.offer, args.max_datagram, &args.own.alpn, ID_BYTES)?;
    let early = early_lines(args.early_data.as_deref())?;
    if args.early_data.is_some() {
        // The server says how much it accepts.
        settings.early_data = u32::MAX;
    }
    let server = address::well_formed(&args.server).map_err(Failure::new)?;
    let credentials = credentials(&args.credentials, (&args.own.cert, &args.own.key), &settings)?;
    let verifier = credentials.verifier().filter(|_| !args.no_verify);
    let witness = (verifier.is_some() || args.no_verify).then(|| Arc::new(Witness::new(verifier)));
    if args.no_verify {
        tracing::warn!("--no-verify: whoever is in between can read and change EVERYTHING");
    }
    let verifier = witness.clone().map(|witness| witness as _);
    let name = args.name.as_deref().unwrap_or_else(|| address::host(server));
    let config = credentials.client(args.identity.as_deref(), name, verifier, settings)?;
    let mut session = Session::new(args, quiet, witness, early, credentials.key_hashes());
    let config = session.resuming(config, credentials.verifier().filter(|_| !args.no_verify))?;
    let addresses = lightseal_net::address::resolve(server).context(server)?;
    let mut signals = Signals::listen()?;
    for (tried, address) in (1..).zip(&addresses) {
        let is_last = tried == addresses.len();
        let config = if is_last { config.clone() } else { hurried(&config)? };
        let outcome = session.attempt(*address, config.clone(), &mut signals).await;
        let server = Named(*address);
        let line = match outcome {
            Err(failure) if !is_last => failure.to_string(),
            Ok(Outcome::Unreachable(false)) => format!("{server}: nothing listens on this port"),
            Ok(Outcome::Unreachable(true)) => format!("{server} ended during the handshake"),
            Ok(Outcome::Ended(CloseReason::HandshakeTimeout, false)) => {
                format!("{server} does not answer")
            }
            outcome => match session.resume.take_if(|_| args.reconnect) {
                Some(first) => {
                    session.finish(server, outcome?)?;
                    return session.reconnect(*address, config, first, &mut signals).await;
                }
                None => {
                    if args.reconnect && matches!(outcome, Ok(Outcome::Ended(_, true))) {
                        tracing::warn!("no second connection: {NO_SESSION}");
                    }
                    return session.finish(server, outcome?);
                }
            },
        };
        if is_last {
            return session.failed(&line);
        }
        tracing::info!("{line}; trying {}", Named(addresses[tried]));
    }
    Err(Failure::new(format_args!("{server}: no address")))
}

/// The lines that are to be sent as early data.
fn early_lines(path: Option<&Path>) -> Result<VecDeque<Vec<u8>>, Failure> {
    let Some(path) = path else { return Ok(VecDeque::new()) };
    let content = std::fs::read(path).context(path.display())?;
    let lines = content.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let lines: VecDeque<_> = lines.map(<[u8]>::to_vec).collect();
    if lines.is_empty() {
        return Err(Failure::new(format_args!("{}: no line to send", path.display())));
    }
    Ok(lines)
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
    /// Whether standard input has ended.
    at_end: bool,
    /// Number of lines that were too long for a datagram.
    too_long: u64,
    /// When something was last sent or received.
    active_at: TokioInstant,
    witness: Option<Arc<Witness>>,
    /// The clock of all associations, by which the age of a session is known.
    clock: Clock,
    /// The session with which the server can be met again.
    resume: Option<ResumableSession>,
    /// What the last handshake took.
    cost: HandshakeCost,
    /// Whether the session of the session file is used.
    uses_stored: bool,
    /// Whether no other association follows.
    is_last: bool,
    /// Lines that the last association sends before the server has answered.
    early: VecDeque<Vec<u8>>,
    /// The hashes of this end's own keys, and what the server presented when the session was made.
    own: &'a [SpkiHash],
    presented: Option<session_file::Presented>,
}

impl<'a> Session<'a> {
    fn new(
        args: &'a SClientArgs,
        quiet: bool,
        witness: Option<Arc<Witness>>,
        early: VecDeque<Vec<u8>>,
        own: &'a [SpkiHash],
    ) -> Self {
        Self {
            args,
            style: args.shown.style(quiet),
            json: json!({ "connected": false }),
            received: Vec::new(),
            sent: 0,
            at_end: false,
            too_long: 0,
            active_at: TokioInstant::now(),
            witness,
            // A session file has times that the next run must understand.
            clock: Clock::unix(),
            resume: None,
            cost: HandshakeCost::default(),
            early,
            uses_stored: false,
            is_last: !args.reconnect,
            own,
            presented: None,
        }
    }

    /// The configuration with the session of the session file, if that can be used.
    fn resuming(
        &mut self,
        config: ClientConfig,
        verifier: Option<Arc<dyn CertificateVerifier>>,
    ) -> Result<ClientConfig, Failure> {
        let Some(path) = &self.args.session_file else { return Ok(config) };
        let Some(stored) = StoredSession::read(path)? else { return Ok(config) };
        match stored.session(&config, self.own, verifier.as_deref()) {
            Ok(session) => {
                self.presented = stored.presented;
                self.uses_stored = true;
                Ok(config.with_session(session))
            }
            Err(why) => {
                tracing::warn!("the session of {} is not used: {why}", path.display());
                Ok(config)
            }
        }
    }

    /// Stores the session of the association that has ended.
    fn store_session(&mut self) -> Result<(), Failure> {
        let Some(path) = &self.args.session_file else { return Ok(()) };
        match self.resume.take() {
            Some(session) => session_file::store(path, &session, self.own, self.presented.as_ref()),
            // The session that the file had was used by now.
            None if self.uses_stored => session_file::remove(path),
            None => {
                tracing::info!("{NO_SESSION}");
                Ok(())
            }
        }
    }

    /// Sends early data if the association may have some. Returns the lines that are to be sent when
    /// it is connected.
    fn send_early(&mut self, connection: &mut Connection) -> VecDeque<Vec<u8>> {
        if !self.is_last {
            return VecDeque::new();
        }
        let (now, mut later) = (self.clock.now(), self.early.clone());
        later.retain(|line| connection.send_early(now, line, WhenRejected::SendAgain).is_err());
        if !later.is_empty() {
            let (left, all) = (later.len(), self.early.len());
            tracing::info!("{left} of {all} lines cannot be early data, and are sent later");
        }
        later
    }

    /// Connects again with the session of the first association, and prints what that saved.
    async fn reconnect(
        &mut self,
        address: SocketAddr,
        config: ClientConfig,
        session: ResumableSession,
        signals: &mut Signals,
    ) -> Result<ExitCode, Failure> {
        let first = std::mem::take(&mut self.cost);
        (self.at_end, self.sent, self.is_last) = (true, 0, true);
        let outcome = self.attempt(address, config.with_session(session), signals).await?;
        let server = Named(address);
        if self.cost.microseconds > 0 {
            let second = &self.cost;
            let bytes = |cost: &HandshakeCost| cost.sent.bytes + cost.received.bytes;
            let resumed = self.json["resumed"] == true;
            let line = match resumed {
                true => format!(
                    "resumed: {} bytes instead of {}, {second} instead of {first}\n",
                    bytes(second),
                    bytes(&first)
                ),
                false => "not resumed: the server does not take its session again\n".to_owned(),
            };
            if matches!(self.style, Style::Full | Style::Brief) {
                print(&line)?;
            }
        }
        self.finish(server, outcome)
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
        let began = self.clock.now();
        let mut connection = Connection::client(Arc::new(config), server, began, rng);
        let mut later = self.send_early(&mut connection);
        let host = ClientHost {
            server,
            began,
            exporters: self.args.shown.exporter.clone(),
            inbox: Inbox::default(),
            connected: None,
            early: Vec::new(),
            is_connected: false,
            failure: None,
            unreachable: false,
            acknowledged: false,
            has_session: false,
        };
        let wake = host.inbox.wake();
        let driver = Driver::new(socket, self.clock, connection, host);
        let mut running = pin!(driver.run());
        let mut input = None;
        let mut unsent: Option<Vec<u8>> = None;
        let (mut closing, mut connected_once) = (false, false);
        loop {
            let mut ended = None;
            if self.keeps_session() && connected_once && self.resume.is_none() {
                self.resume = driver.call(|connection, _, _| connection.take_session());
            }
            let at_end = self.at_end && connected_once && unsent.is_none() && !closing;
            let acknowledged = driver.call(|_, host, _| host.acknowledged);
            let close_at = self.close_at(at_end, acknowledged);
            tokio::select! {
                done = &mut running => ended = Some(done.context("socket")?),
                () = wake.notified() => {}
                line = next(&mut input), if unsent.is_none() && !self.at_end => {
                    self.at_end = line.is_none();
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
                    if !connected_once {
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
                        connected_once = true;
                        if self.is_last {
                            let all = std::mem::take(&mut self.early);
                            self.sent += (all.len() - later.len()) as u64;
                        }
                        while let Some(line) = later.pop_front() {
                            // A line for which the queue has no room is lost, as on the network.
                            let _ = self.send(&driver, line);
                        }
                        if !self.at_end {
                            input = Some(lines::read());
                        }
                    }
                    Happening::Payload(data) | Happening::EarlyData(data) => {
                        self.received(&data)?;
                    }
                    // A server's certificates are shown with what was negotiated.
                    Happening::Certificates(_) => {}
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
                        let stats = driver.call(|connection, _, _| connection.stats());
                        Ok(Outcome::Unreachable(stats.received.datagrams > 0))
                    }
                };
            }
        }
    }

    /// Whether the session of the association is needed.
    const fn keeps_session(&self) -> bool {
        self.args.reconnect || self.args.session_file.is_some()
    }

    /// When the association is to be closed because the input has ended; `None` as long as it goes
    /// on.
    fn close_at(&self, at_end: bool, acknowledged: bool) -> Option<TokioInstant> {
        // A server of DTLS 1.3 accepts or refuses the client's certificate after the client has
        // completed the handshake, and then gives the session.
        let awaited =
            !acknowledged || self.sent > 0 || self.keeps_session() && self.resume.is_none();
        let wait = if awaited { self.args.wait.0 } else { Duration::ZERO };
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

    fn connected(&mut self, summary: &Summary, exported: &Exported) -> Result<(), Failure> {
        self.active_at = TokioInstant::now();
        self.json = serde_json::to_value(summary).context("summary")?;
        self.json["connected"] = true.into();
        exported.add_to(&mut self.json);
        self.cost = summary.handshake.clone();
        super::show(self.style, "", summary, exported)?;
        self.show_certificates()
    }

    /// Prints the certificates that the server presented.
    fn show_certificates(&mut self) -> Result<(), Failure> {
        let Some(presented) = self.witness.as_ref().and_then(|witness| witness.take_last()) else {
            return Ok(());
        };
        self.json["certificates"] = presented.json();
        self.presented = Some(presented.entries());
        match self.style {
            Style::Full => print(&presented.text()),
            _ => Ok(()),
        }
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
        let stats = driver.call(|connection, _, _| connection.stats());
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
        if connected && self.is_last {
            self.store_session()?;
        }
        if !connected || code != ExitCode::SUCCESS {
            let why = match reason {
                CloseReason::Fault(Fault::Certificate(why)) => {
                    let host = address::host(&self.args.server);
                    refusal(why, Some(self.args.name.as_deref().unwrap_or(host)))
                }
                reason => reason.to_string(),
            };
            return self.failed(&format!("{server}: {why}"));
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
        self.show_certificates()?;
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
