//! `lightseal s_server`.

use super::args::{SServerArgs, Style, credentials, settings};
use super::exporter::{Exported, Exporter};
use super::inbox::{Happening, Inbox};
use super::summary::{HandshakeCost, Summary};
use super::witness::Witness;
use super::{complain, exit_code, lines, payload, print};
use crate::address;
use crate::credential::ClientPolicy;
use crate::failure::{Context, Failure};
use crate::system::{Signal, Signals};
use crate::units::{Bytes, Quantity};
use lightseal_core::{Instant, Random};
use lightseal_dtls::{
    CloseReason, CookiePolicy, Endpoint, EndpointEvent, Event, Handle, Negotiated, SendError,
    SessionSlots, WhenFull,
};
use lightseal_net::Clock;
use lightseal_net::address::Named;
use lightseal_net::tokio::{Driver, EngineHost};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant as TokioInstant, sleep_until, timeout};

/// Length of a server's connection IDs, as of the server proxy.
const ID_BYTES: u8 = 4;

/// How long the server waits on exit until its clients have been told.
const FAREWELL: Duration = Duration::from_millis(300);

/// How long a server with `--once` goes on answering a client that it refused. A client takes an
/// alert without protection for a hint, and asks again before it gives up.
const LINGER: Duration = Duration::from_secs(3);

/// Maximum number of payloads of one association that are kept for its JSON object.
const MOST_KEPT: usize = 4096;

/// Maximum number of payloads that wait to be sent back.
const MOST_ECHOES: usize = 4096;

/// A payload of a client.
#[derive(Debug)]
enum Payload {
    /// It came before the client had proved that it is present.
    Early(Vec<u8>),
    Ordinary(Vec<u8>),
}

/// One association, as the engine's host knows it.
#[derive(Debug)]
struct Association {
    number: u64,
    began: Instant,
    is_connected: bool,
}

/// The host of the server's engine.
#[derive(Debug)]
struct ServerHost {
    exporters: Vec<Exporter>,
    witness: Option<Arc<Witness>>,
    echo: bool,
    inbox: Inbox,
    associations: HashMap<Handle, Association>,
    /// The number of the newest association.
    newest: u64,
    /// Parameters of associations that were connected in this turn. What their handshakes took is
    /// known when the engine has sent everything.
    connected: Vec<(Instant, Handle, SocketAddr, Box<Negotiated>)>,
    /// Payloads of this turn, which are printed after what was negotiated.
    payloads: Vec<(Handle, Payload)>,
    echoes: Vec<(Handle, Vec<u8>)>,
    /// The client that lines of standard input are sent to.
    last: Option<Handle>,
    accepted: u64,
    refused: u64,
    refusals: Vec<String>,
    failure: Option<Failure>,
    now: Instant,
}

impl ServerHost {
    fn association(&mut self, handle: Handle) -> &mut Association {
        let (newest, now) = (&mut self.newest, self.now);
        self.associations.entry(handle).or_insert_with(|| {
            *newest += 1;
            Association { number: *newest, began: now, is_connected: false }
        })
    }

    fn take_payloads(&mut self) {
        for (handle, payload) in std::mem::take(&mut self.payloads) {
            let number = self.association(handle).number;
            let (Payload::Early(data) | Payload::Ordinary(data)) = &payload;
            if self.echo && self.echoes.len() < MOST_ECHOES {
                self.echoes.push((handle, data.clone()));
            }
            self.inbox.put(
                number,
                match payload {
                    Payload::Early(data) => Happening::EarlyData(data),
                    Payload::Ordinary(data) => Happening::Payload(data),
                },
            );
        }
    }

    fn take_connected(&mut self, endpoint: &Endpoint) {
        for (at, handle, peer, agreed) in std::mem::take(&mut self.connected) {
            let Some(connection) = endpoint.connection(handle) else { continue };
            let (began, number) = (self.association(handle).began, self.association(handle).number);
            let cost = HandshakeCost::new(began, at, &connection.stats());
            let summary = Box::new(Summary::new(peer, &agreed, cost));
            match Exported::of(&self.exporters, &connection) {
                Ok(exported) => {
                    self.inbox.put(number, Happening::Connected(summary, exported));
                    let presented = agreed.peer_key().zip(self.witness.as_ref());
                    let presented =
                        presented.and_then(|(key, witness)| witness.take(&key.spki_sha256));
                    if let Some(presented) = presented {
                        self.inbox.put(number, Happening::Certificates(presented));
                    }
                }
                Err(failure) => self.failure = Some(failure),
            }
        }
    }
}

impl EngineHost<Endpoint> for ServerHost {
    fn event(&mut self, now: Instant, event: EndpointEvent<'_>) {
        self.now = now;
        let EndpointEvent { handle, peer, event, .. } = event;
        match event {
            Event::Connected(agreed) => {
                self.association(handle).is_connected = true;
                self.last = Some(handle);
                self.connected.push((now, handle, peer, agreed));
            }
            Event::Data(data) => self.payloads.push((handle, Payload::Ordinary(data.to_vec()))),
            Event::EarlyData(data) => self.payloads.push((handle, Payload::Early(data.into()))),
            Event::Closed(reason) => {
                let Association { number, is_connected, .. } = *self.association(handle);
                self.take_payloads();
                self.associations.remove(&handle);
                self.inbox.put(number, Happening::Closed(reason, is_connected));
            }
            other => {
                let number = self.association(handle).number;
                self.inbox.put(number, Happening::Note(format!("{}: {other}", Named(peer))));
            }
        }
    }

    fn drained(&mut self, now: Instant, endpoint: &mut Endpoint) -> bool {
        self.now = now;
        let stats = endpoint.stats();
        if stats.accepted != self.accepted {
            self.accepted = stats.accepted;
            let all: Vec<_> = endpoint.connections().map(|(handle, _)| handle).collect();
            for handle in all {
                self.association(handle);
            }
        }
        if stats.refused != self.refused {
            self.refused = stats.refused;
            if let Some((peer, why)) = stats.last_refusal {
                self.refusals.push(format!("{}: {why}", Named(peer)));
                self.inbox.wake().notify_one();
            }
        }
        self.take_connected(endpoint);
        self.take_payloads();
        let answers = !self.echoes.is_empty();
        for (handle, data) in self.echoes.drain(..) {
            if let Some(mut connection) = endpoint.connection_mut(handle) {
                // A payload that the peer could send is one that this end can send, and if the
                // queue is full, the network loses it too.
                let _ = connection.send(now, &data, &mut []);
            }
        }
        answers
    }

    fn is_finished(&self, _: &Endpoint) -> bool {
        self.failure.is_some()
    }
}

type Server = Driver<Endpoint, ServerHost>;

/// Serves clients until a signal stops the program, or with `--once` until the first association
/// has ended.
///
/// # Errors
///
/// If the settings, the keys or the address are invalid.
pub(crate) async fn run(args: &SServerArgs, quiet: bool) -> Result<ExitCode, Failure> {
    let mut settings = settings(&args.offer, args.max_datagram, &args.own.alpn, ID_BYTES)?;
    if let Some(Quantity(Bytes(bytes))) = args.early_data {
        settings.early_data = u32::try_from(bytes).unwrap_or(u32::MAX);
        settings.psk_tickets = settings.psk_tickets.max(1);
    }
    let credentials = credentials(&args.credentials, (&args.own.cert, &args.own.key), &settings)?;
    let witness = credentials.verifier().map(|verifier| Arc::new(Witness::new(Some(verifier))));
    let clients = match (args.require_client, args.request_client) {
        (true, _) => ClientPolicy::Required,
        (false, true) => ClientPolicy::Requested,
        (false, false) => ClientPolicy::Ignored,
    };
    let verifier = witness.clone().map(|witness| witness as _);
    let slots = SessionSlots::at_most(args.max_sessions, WhenFull::Refuse);
    let mut config = credentials.server(clients, verifier, settings)?.with_slots(slots);
    if args.early_data.is_some() {
        config = config.with_cookies(CookiePolicy::WhenRetrying);
    }
    let mut signals = Signals::listen()?;
    let socket = address::listen(Some(&args.listen))?;
    let listen = socket.local_addr().context("listening socket")?;
    let rng = Random::from_os().context("randomness")?;
    let host = ServerHost {
        exporters: args.shown.exporter.clone(),
        witness,
        echo: args.echo,
        inbox: Inbox::default(),
        associations: HashMap::new(),
        newest: 0,
        connected: Vec::new(),
        payloads: Vec::new(),
        echoes: Vec::new(),
        last: None,
        accepted: 0,
        refused: 0,
        refusals: Vec::new(),
        failure: None,
        now: Instant::ZERO,
    };
    let wake = host.inbox.wake();
    let driver = Driver::new(socket, Clock::start(), Endpoint::server(Arc::new(config), rng), host);
    tracing::info!("serving DTLS on {}", Named(listen));
    let mut session = Session {
        args,
        style: args.shown.style(quiet),
        clients: HashMap::new(),
        refusal: String::new(),
    };
    let mut running = pin!(driver.run());
    let mut input = lines::read();
    let mut at_end = false;
    let mut linger = None;
    let code = loop {
        tokio::select! {
            () = sleep_until(linger.unwrap_or_else(TokioInstant::now)), if linger.is_some() => {
                break ExitCode::from(super::FAILED);
            }
            done = &mut running => {
                done.context("socket")?;
                if let Some(failure) = driver.call(|_, host, _| host.failure.take()) {
                    return Err(failure);
                }
            }
            () = wake.notified() => {}
            line = input.recv(), if !at_end => match line {
                Some(line) => send(&driver, &line),
                None => at_end = true,
            },
            signal = signals.next() => if signal == Signal::Stop {
                break ExitCode::SUCCESS;
            }
        }
        let (happenings, dropped) = driver.call(|_, host, _| host.inbox.take());
        if dropped > 0 {
            tracing::warn!("{dropped} payloads were dropped: standard output is too slow");
        }
        if linger.is_some() {
            continue;
        }
        let mut first = None;
        for (number, happening) in happenings {
            first = first.or(session.take(number, happening)?);
        }
        for refusal in driver.call(|_, host, _| std::mem::take(&mut host.refusals)) {
            if first.is_none() {
                session.refused(&refusal)?;
                first = Some(ExitCode::from(super::FAILED));
            }
        }
        match first {
            Some(code) if args.once && code == ExitCode::SUCCESS => break code,
            Some(_) if args.once => linger = Some(TokioInstant::now() + LINGER),
            _ => {}
        }
    };
    driver.call(|endpoint, _, now| endpoint.close_all(now));
    let _ = timeout(FAREWELL, async {
        while driver.call(|endpoint, _, _| endpoint.open_connections()) > 0 {
            let _ = timeout(Duration::from_millis(5), &mut running).await;
        }
    })
    .await;
    let (happenings, _) = driver.call(|_, host, _| host.inbox.take());
    for (number, happening) in happenings {
        session.take(number, happening)?;
    }
    Ok(code)
}

/// Sends a line to the client that connected last.
fn send(driver: &Server, line: &[u8]) {
    let sent = driver.send(|endpoint, host, now, datagram| {
        let connection = host.last.and_then(|handle| endpoint.connection_mut(handle));
        let mut connection = connection.ok_or((SendError::Closed, 0))?;
        let sent = connection.send(now, line, datagram);
        sent.map_err(|error| (error, connection.max_payload()))
    });
    match sent {
        Ok(()) => {}
        Err((SendError::TooLong, most)) => {
            let len = line.len();
            tracing::error!("a line of {len} bytes is not sent: {most} bytes fit into a datagram");
        }
        Err((SendError::Closed, _)) => {
            tracing::error!("a line is not sent: no client is connected");
        }
        Err((error, _)) => tracing::error!("a line is not sent: {error}"),
    }
}

/// The user's side of all associations.
struct Session<'a> {
    args: &'a SServerArgs,
    style: Style,
    /// The JSON objects of open associations, and the payloads that they received.
    clients: HashMap<u64, (Value, Vec<Value>)>,
    /// The line that reported the last refusal. A refused client asks several times.
    refusal: String,
}

impl Session<'_> {
    /// Reports a happening. Returns an exit code if the association has ended.
    fn take(&mut self, number: u64, happening: Happening) -> Result<Option<ExitCode>, Failure> {
        let prefix = format!("[{number}] ");
        match happening {
            Happening::Connected(summary, exported) => {
                if self.style == Style::Json {
                    let mut json = serde_json::to_value(&summary).context("summary")?;
                    json["connected"] = true.into();
                    exported.add_to(&mut json);
                    // Early data came before.
                    let (known, _) = self.clients.entry(number).or_default();
                    *known = json;
                } else {
                    super::show(self.style, &prefix, &summary, &exported)?;
                }
            }
            Happening::Certificates(presented) => match self.style {
                Style::Json => {
                    let (json, _) = self.clients.entry(number).or_default();
                    json["certificates"] = presented.json();
                }
                Style::Full => print(&presented.text())?,
                Style::Payloads | Style::Brief => {}
            },
            Happening::EarlyData(data) => match self.style {
                Style::Json => {
                    let (_, received) = self.clients.entry(number).or_default();
                    if received.len() < MOST_KEPT {
                        let mut payload = payload::json(&data);
                        payload["early"] = true.into();
                        received.push(payload);
                    }
                }
                Style::Payloads => payload::print("", &data)?,
                Style::Full | Style::Brief => {
                    payload::print(&format!("{prefix}early data: "), &data)?;
                }
            },
            Happening::Payload(data) => match self.style {
                Style::Json => {
                    let (_, received) = self.clients.entry(number).or_default();
                    if received.len() < MOST_KEPT {
                        received.push(payload::json(&data));
                    }
                }
                Style::Payloads => payload::print("", &data)?,
                Style::Full | Style::Brief => payload::print(&prefix, &data)?,
            },
            Happening::Note(note) => tracing::info!("{prefix}{note}"),
            Happening::Closed(reason, connected) => {
                return self.closed(number, reason, connected).map(Some);
            }
        }
        Ok(None)
    }

    fn closed(
        &mut self,
        number: u64,
        reason: CloseReason,
        connected: bool,
    ) -> Result<ExitCode, Failure> {
        let code = match exit_code(&reason) {
            code if connected => code,
            _ => ExitCode::from(super::FAILED),
        };
        let prefix = format!("[{number}] ");
        match self.style {
            Style::Json => {
                let (mut json, received) = self.clients.remove(&number).unwrap_or_default();
                if json.is_null() {
                    json = json!({ "connected": false });
                }
                json["received"] = received.into();
                self.print_json(json, &reason.to_string())?;
            }
            Style::Full if connected => print(&format!("{prefix}{reason}\n"))?,
            _ => {}
        }
        if code != ExitCode::SUCCESS {
            complain(format_args!("{prefix}{reason}"));
        }
        Ok(code)
    }

    /// Reports a client for which no association began.
    fn refused(&mut self, why: &str) -> Result<(), Failure> {
        if self.refusal == why {
            return Ok(());
        }
        why.clone_into(&mut self.refusal);
        if self.style == Style::Json {
            self.print_json(json!({ "connected": false }), why)?;
        }
        complain(why);
        Ok(())
    }

    fn print_json(&self, mut json: Value, ended: &str) -> Result<(), Failure> {
        json["ended"] = ended.into();
        print(&match self.args.once {
            true => format!("{json:#}\n"),
            // One object in each line, for programs that read a stream of them.
            false => format!("{json}\n"),
        })
    }
}
