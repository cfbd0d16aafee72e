//! A meeting of two peers: a handshake, a payload to the server, and a payload back.

use super::wire::{self, Tap, WireObservations};
use super::{Again, Cell, Credential, Files, Network, Peer, Program, RECONNECT, Role, Running};
use crate::process::free_address;
use lightseal_net::relay::{Relay, RelaySettings};
use lightseal_net::{Impairments, Probability, socket};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use testkit::ports::is_bound;
use tokio::runtime::Handle;
use tokio::sync::Notify;

/// How long the parts of a meeting may take.
#[derive(Clone, Copy, Debug)]
pub struct MeetingTimeouts {
    /// Until the server listens.
    pub start: Duration,
    /// From the client's start to the return of the payload.
    pub meeting: Duration,
    /// From a change of the client's port to the return of another payload.
    pub rebound: Duration,
}

impl MeetingTimeouts {
    /// The times for `cell`. Peers retransmit after a second, and double that each time a flight is
    /// lost.
    pub const fn of(cell: &Cell) -> Self {
        let meeting = if matches!(cell.network, Network::Lossy) { 60 } else { 20 };
        let [start, meeting, rebound] = [10, meeting, 8];
        Self {
            start: Duration::from_secs(start),
            meeting: Duration::from_secs(meeting),
            rebound: Duration::from_secs(rebound),
        }
    }
}

/// The interval after which a payload that has not arrived is sent again.
const AGAIN: Duration = Duration::from_millis(700);
/// A line that the client sends while it waits for a payload.
const NUDGE: &str = "go on";
/// How long a client may take to close its connection.
const CLOSING: Duration = Duration::from_secs(5);
/// How often the output of the peers is checked.
const LOOK: Duration = Duration::from_millis(10);

/// A successful meeting.
#[derive(Clone, Debug)]
pub struct Meeting {
    /// How long the meeting took from the client's start.
    pub took: Duration,
    /// Number of datagrams that the client sent or received.
    pub datagrams: usize,
}

/// A failed meeting.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Why it failed, in one line.
    pub reason: String,
    /// Every datagram at the client's end, and the output of both programs.
    pub trace: String,
}

/// Lets `client` meet `server`. `seed` determines the payloads and the impairments of the line.
///
/// Both payloads must arrive unaltered, and the datagrams must show the cell's version, suite and
/// connection IDs. On a network that rebinds, another two payloads follow the change of the port.
///
/// # Errors
/// One of these conditions does not hold in time.
pub fn meet(
    client: &dyn Peer,
    server: &dyn Peer,
    cell: &Cell,
    files: &Files,
    seed: u64,
) -> Result<Meeting, Failure> {
    let early = |reason: String| Failure { reason, trace: String::new() };
    let patience = MeetingTimeouts::of(cell);
    let at = free_address();
    let mut serving = Running::start(server.serve(at, cell, files))
        .map_err(|error| early(format!("the server does not start: {error}")))?;
    wait_for_server(&mut serving, at, patience.start).map_err(|reason| Failure {
        reason,
        trace: format!("--- the server\n{}", serving.output()),
    })?;
    let line = (cell.network != Network::Good).then(|| Line::start(at, cell.network, seed));
    let tap = Tap::start(line.as_ref().map_or(at, Line::address));
    let connecting = Running::start(client.connect(tap.address(), cell, files))
        .map_err(|error| early(format!("the client does not start: {error}")))?;
    let mut both = BothEnds { client: connecting, server: serving };
    let started = Instant::now();
    let mut outcome = both.exchange(seed, started + patience.meeting);
    if let (Ok(()), Network::Rebinding, Some(line)) = (&outcome, cell.network, &line) {
        line.rebind();
        outcome = both
            .exchange(!seed, Instant::now() + patience.rebound)
            .map_err(|reason| format!("after a change of the client's port: {reason}"));
    }
    if outcome.is_ok() && cell.resumed {
        outcome = both
            .connect_again(|| client.connect(tap.address(), cell, files))
            .and_then(|()| both.exchange(!seed, Instant::now() + patience.meeting))
            .map_err(|reason| format!("at the second connection: {reason}"));
    }
    let took = started.elapsed();
    let datagrams = tap.datagrams();
    let outcome = outcome.and_then(|()| judge(&wire::shown(&datagrams), cell));
    match outcome {
        Ok(()) => Ok(Meeting { took, datagrams: datagrams.len() }),
        Err(mut reason) => {
            let alerts = wire::alerts(&datagrams);
            if !alerts.is_empty() {
                reason = format!("{reason} ({})", alerts.join(", "));
            }
            let trace = format!(
                "{}--- the client\n{}\n--- the server\n{}\n",
                wire::told(&datagrams),
                both.client.output(),
                both.server.output(),
            );
            Err(Failure { reason, trace })
        }
    }
}

/// Waits until a socket is bound to `at`.
fn wait_for_server(
    serving: &mut Running,
    at: SocketAddr,
    patience: Duration,
) -> Result<(), String> {
    let started = Instant::now();
    while !is_bound(at.port()) {
        if let Some(status) = serving.ended() {
            return Err(format!("the server ended before it listened: {status}"));
        }
        if started.elapsed() > patience {
            return Err("the server does not listen".into());
        }
        thread::sleep(LOOK);
    }
    Ok(())
}

struct BothEnds {
    client: Running,
    server: Running,
}

impl BothEnds {
    /// Lets the client connect with its session. `start` is the program of the client.
    fn connect_again(&mut self, start: impl FnOnce() -> Program) -> Result<(), String> {
        match self.client.again {
            Again::Line => self.client.tell(RECONNECT),
            Again::ByItself => {}
            Again::Restart => {
                self.client.finish(CLOSING)?;
                self.client = Running::start(start()).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// Exchanges a payload in each direction, sent again until it has arrived.
    fn exchange(&mut self, seed: u64, deadline: Instant) -> Result<(), String> {
        let there = payload(seed, Role::Server);
        let back = payload(seed, Role::Client);
        self.carry(Role::Server, &there, deadline)?;
        if self.server.echoes {
            // The server has printed the payload as well, so a reflection on the way does not pass.
            return self.carry(Role::Client, &there, deadline);
        }
        self.carry(Role::Client, &back, deadline)
    }

    /// Sends `payload` to `to` until it has arrived. A payload that the server echoes is sent by
    /// the client.
    fn carry(&mut self, to: Role, payload: &str, deadline: Instant) -> Result<(), String> {
        let mut next = Instant::now();
        loop {
            let receiver = if to == Role::Server { &self.server } else { &self.client };
            if receiver.has_said(payload) {
                return Ok(());
            }
            for (role, end) in [(Role::Client, &mut self.client), (Role::Server, &mut self.server)]
            {
                if let Some(status) = end.ended() {
                    return Err(format!("the {role} ended: {status}{}", last_words(end)));
                }
            }
            let now = Instant::now();
            if now > deadline {
                return Err(format!("no payload reached the {to} in time"));
            }
            if now >= next {
                next = now + AGAIN;
                let by_client = to == Role::Server || self.server.echoes;
                if by_client {
                    self.client.tell(payload);
                } else {
                    self.server.tell(payload);
                    // OpenSSL's server reads its input only after a datagram has arrived.
                    self.client.tell(NUDGE);
                }
            }
            thread::sleep(LOOK);
        }
    }
}

/// The last line of a program's output, to be appended to its exit status.
fn last_words(end: &Running) -> String {
    let output = end.output();
    let line = output.lines().rev().find(|line| !line.trim().is_empty());
    line.map(|line| format!(": {}", line.trim())).unwrap_or_default()
}

/// A line of text that no other meeting sends and that no peer takes for a command.
fn payload(seed: u64, to: Role) -> String {
    let number = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    format!("{number:016x} to the {to} {}", "0123456789abcdef".repeat(4))
}

/// Checks that the datagrams show the parameters of the cell.
fn judge(shown: &WireObservations, cell: &Cell) -> Result<(), String> {
    let Some(hello) = &shown.agreed else { return Err("no ServerHello was seen".into()) };
    let (version, suite) = (hello.version, hello.suite);
    if (version, suite) != (cell.suite.version(), cell.suite.code()) {
        return Err(format!("they agreed on DTLS {version} and suite {suite:#06x}"));
    }
    if cell.credential != Credential::Psk && shown.group != Some(cell.group.code()) {
        return Err(format!("they agreed on the group {:#06x?}", shown.group));
    }
    if cell.retried && shown.asked_for != Some(cell.group.code()) {
        return Err("no HelloRetryRequest asked for the group".into());
    }
    if cell.resumed && !shown.resumed {
        return Err("the second connection did not resume the session of the first".into());
    }
    for role in Role::BOTH {
        let wanted = cell.cid.reaches(role);
        let count = shown.with_cid[usize::from(role == Role::Server)];
        if wanted != (count > 0) {
            let verb = if wanted { "no" } else { "a" };
            return Err(format!("{verb} record to the {role} carries a connection ID"));
        }
    }
    Ok(())
}

/// A relay that runs on a thread of its own.
struct Line {
    address: SocketAddr,
    relay: Arc<Relay>,
    runtime: Handle,
    stop: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

impl Line {
    fn start(to: SocketAddr, network: Network, seed: u64) -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime needs no more than memory");
        let impaired = match network {
            Network::Good | Network::Rebinding => Impairments::NONE,
            Network::Lossy => Impairments {
                loss: Probability::ratio(1, 8),
                duplicate: Probability::ratio(1, 10),
                reorder: Probability::ratio(1, 10),
                reorder_by: Duration::from_millis(30),
                ..Impairments::NONE
            },
        };
        let settings =
            RelaySettings { up: impaired, down: impaired, seed, ..RelaySettings::new(to) };
        let relay = {
            let _guard = runtime.enter();
            Arc::new(Relay::new(socket::bind(listen).expect("loopback"), settings))
        };
        let address = relay.local_addr().expect("it is bound");
        let stop = Arc::new(Notify::new());
        let handle = runtime.handle().clone();
        let thread = thread::spawn({
            let (relay, stop) = (Arc::clone(&relay), Arc::clone(&stop));
            move || {
                runtime.block_on(async {
                    tokio::select! {
                        ended = relay.run() => drop(ended),
                        () = stop.notified() => {}
                    }
                });
            }
        });
        Self { address, relay, runtime: handle, stop, thread: Some(thread) }
    }

    fn address(&self) -> SocketAddr {
        self.address
    }

    /// Gives the client another port towards the server.
    fn rebind(&self) {
        let _guard = self.runtime.enter();
        self.relay.rebind_all().expect("there is one more port");
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has printed its message already.
            let _ = thread.join();
        }
    }
}
