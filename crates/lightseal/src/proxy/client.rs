//! The proxy in front of applications.
//!
//! - [`reconnect`]: new handshakes for flows whose server does not answer.

mod flow;
mod reconnect;
mod successors;

use super::counters::{Count, Totals, add_socket};
use super::deliveries::Deliveries;
use super::destination::Destination;
use super::limits::Refusal;
use super::loops::LoopGuard;
use super::metrics::{self, CONNECTED, HANDSHAKING, ProcessFacts};
use super::report::{self, Peer, ReportFacts};
use super::shares::Shares;
use super::status::FlowStates;
use super::{log_batches, overruns, unread};
use crate::credential::allow::AccessList;
use flow::FlowHost;
use lightseal_core::{AddressPair, Instant, Random};
use lightseal_dtls::{
    ClientConfig, CloseReason, Connection, Event, Identity, Negotiated, Psk, SendError, Stats,
    Watch,
};
use lightseal_net::Clock;
use lightseal_net::address::Named;
use lightseal_net::batch::ReceiveBatch;
use lightseal_net::path_mtu;
use lightseal_net::socket::{self, AddressedSocket};
use lightseal_net::tokio::{Batch, Driver, EngineHost, SocketCounters};
use lightseal_service::metrics::Snapshot;
use reconnect::{
    Action, Answering, Attention, AttentionCalls, HandshakePause, Server, Successors, UNANSWERED,
};
use serde_json::Value;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use successors::FlowStart;
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

/// How often flows are checked for silence.
const SWEEP: Duration = Duration::from_millis(500);

/// How long the first handshake waits for an answer to its keepalive. The start takes this long
/// only with a server that answers no keepalives.
const ANSWER: Duration = Duration::from_millis(700);

/// How a client proxy behaves.
#[derive(Clone, Debug)]
pub(crate) struct ClientProxyOptions {
    /// The server proxy.
    pub(crate) server: Arc<Destination>,
    /// Maximum number of open flows.
    pub(crate) max_flows: usize,
    /// How long a flow may be silent in both directions before it is closed.
    pub(crate) idle_timeout: Duration,
    /// How long a flow may be silent in either direction before a keepalive is sent. `None` sends
    /// none.
    pub(crate) keepalive: Option<Duration>,
    /// The access list, which knows whom it has refused.
    pub(crate) list: Option<Arc<AccessList>>,
}

pub(super) type Flow = Driver<Connection, FlowHost>;

/// A running client proxy.
#[derive(Debug)]
pub(crate) struct ClientProxy {
    local: Arc<AddressedSocket>,
    options: ClientProxyOptions,
    clock: Clock,
    config: Mutex<Arc<ClientConfig>>,
    flows: Arc<Mutex<Flows>>,
    totals: Arc<Totals>,
    /// The length in bytes of the longest message that is carried.
    longest: usize,
    loops: Arc<LoopGuard>,
    /// How many datagrams dropped by the kernel have been logged so far.
    known_overruns: Count,
    /// Whether this end has no usable credential: no flow begins until it has one again.
    revoked: AtomicBool,
    /// Whether no new flow begins any more.
    draining: AtomicBool,
    /// Which server answers keepalives.
    answers: Arc<Answering>,
    server: Arc<Server>,
    /// Called when a flow has a change that [`ClientProxy::sweep`] should handle at once.
    attention: Arc<Attention>,
}

#[derive(Debug, Default)]
struct Flows {
    open: HashMap<AddressPair, Arc<Flow>>,
    successors: Successors,
    /// Counters of the flows that have ended.
    ended: Stats,
    ended_socket: SocketCounters,
    shares: Shares,
}

impl Flows {
    /// All flows, and the handshakes that run beside flows and may replace them.
    fn all(&self) -> impl Iterator<Item = &Arc<Flow>> {
        self.open.values().chain(self.successors.flows())
    }
}

impl ClientProxy {
    /// A proxy that serves applications on `local`.
    pub(crate) fn new(
        local: UdpSocket,
        config: Arc<ClientConfig>,
        options: ClientProxyOptions,
    ) -> Self {
        let longest = config.settings().longest_first_payload();
        let local = Arc::new(AddressedSocket::new(local));
        log_batches(local.has_batches());
        Self {
            longest,
            loops: Arc::default(),
            known_overruns: Count::default(),
            local,
            options,
            clock: Clock::start(),
            config: Mutex::new(config),
            flows: Arc::default(),
            totals: Arc::default(),
            revoked: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            answers: Arc::default(),
            server: Arc::default(),
            attention: Arc::default(),
        }
    }

    /// The address that applications send to.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.local.get_ref().local_addr()
    }

    /// The length in bytes of the longest message that is carried.
    pub(crate) const fn longest_message(&self) -> usize {
        self.longest
    }

    /// Uses `config` for flows that begin from now on.
    pub(crate) fn set_config(&self, config: Arc<ClientConfig>) {
        self.revoked.store(false, Ordering::Relaxed);
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
    }

    /// Closes all flows, and begins no new flow until there is [another credential](Self::set_config).
    pub(crate) fn revoke(&self) {
        self.revoked.store(true, Ordering::Relaxed);
        self.close_all();
    }

    /// Begins no new flow any more; those that exist go on.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Completes a handshake with `server`, exchanges a keepalive, and closes the association. If
    /// the handshake fails, this returns `Ok(Err(reason))`.
    ///
    /// # Errors
    ///
    /// If no socket or no randomness is available.
    pub(crate) async fn check(
        &self,
        server: SocketAddr,
        patience: Duration,
    ) -> io::Result<Result<(), CloseReason>> {
        let config = ClientConfig::clone(&self.current_config());
        let mut settings = config.settings().clone();
        settings.handshake_deadline = patience.min(settings.handshake_deadline);
        let config = config.with_settings(settings).map_err(io::Error::other)?;
        let socket = self.outer_socket(server)?;
        let connection = self.connection(server, Arc::new(config))?;
        let driver = Driver::new(socket, self.clock, connection, Check::default());
        let mut running = pin!(driver.run());
        loop {
            tokio::select! {
                ended = &mut running => break ended?,
                () = tokio::time::sleep(ANSWER) => driver.call(|connection, check, now| {
                    if check.connected {
                        connection.close(now);
                    }
                }),
            }
        }
        // The server proxy counts this association too, so it must not be missing here.
        let mut flows = self.flows();
        driver.call(|connection, _, _| flows.ended += connection.stats());
        add_socket(&mut flows.ended_socket, &driver.counters());
        drop(flows);
        Ok(driver.call(|_, check, _| {
            if check.answered {
                self.answers.note(server);
            }
            match check.ended {
                // A server of DTLS 1.3 refuses a certificate when the client's handshake is complete.
                Some(reason @ CloseReason::PeerAlert(_)) => Err(reason),
                Some(reason) if !check.connected => Err(reason),
                _ => Ok(()),
            }
        }))
    }

    /// Carries datagrams until the future is dropped.
    ///
    /// # Errors
    ///
    /// Errors of the local socket.
    pub(crate) async fn run(&self) -> io::Result<()> {
        let mut tasks = JoinSet::new();
        let mut sweep = tokio::time::interval(self.sweep_interval());
        let mut calls = AttentionCalls::default();
        let mut resolving = pin!(self.options.server.run());
        loop {
            tokio::select! {
                () = &mut resolving => {}
                failed = self.local.readable() => {
                    // The error reports that an application's port is closed.
                    if failed? {
                        let _ = self.local.take_error();
                    }
                    let more = ReceiveBatch::with(|batch| {
                        self.carry_batch(batch, &mut tasks).map(|()| batch.more_may_wait())
                    })?;
                    if more {
                        tokio::task::yield_now().await;
                    }
                }
                _ = sweep.tick() => self.sweep(&mut tasks),
                () = calls.next(&self.attention) => self.sweep(&mut tasks),
                Some(_) = tasks.join_next() => {}
            }
        }
    }

    /// Closes all flows with a close_notify.
    pub(crate) fn close_all(&self) {
        let open: Vec<_> = self.flows().all().cloned().collect();
        for flow in open {
            flow.call(|connection, _, now| connection.close(now));
        }
    }

    /// Closes the flows whose server `accepts` does not accept, and all handshakes, since they may
    /// have begun with what is not accepted any more. Returns the number of those flows that were
    /// connected.
    pub(crate) fn end_unless(&self, accepts: impl Fn(&Negotiated) -> bool) -> usize {
        let all: Vec<_> = self.flows().all().cloned().collect();
        let ends = all.iter().filter(|flow| {
            flow.call(|connection, _, now| {
                let agreed = connection.negotiated();
                let connected = agreed.is_some();
                let ends = agreed.is_none_or(|agreed| !accepts(agreed));
                if ends {
                    connection.close(now);
                }
                ends && connected
            })
        });
        ends.count()
    }

    /// The number of open flows.
    pub(crate) fn open_flows(&self) -> usize {
        self.flows().open.len()
    }

    /// The counters of this proxy.
    pub(crate) fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The sums of the counters of all associations and their sockets, open and ended.
    pub(crate) fn counters(&self) -> (Stats, SocketCounters) {
        let flows = self.flows();
        let (mut stats, mut socket) = (flows.ended, flows.ended_socket);
        for flow in flows.all() {
            flow.call(|connection, _, _| stats += connection.stats());
            add_socket(&mut socket, &flow.counters());
        }
        (stats, socket)
    }

    /// The statistics of this proxy, as they go into files and status reports.
    pub(crate) fn statistics(&self) -> Value {
        let mut value = self.counted();
        value["status"] = self.standing().json();
        let facts = ReportFacts {
            uptime: self.clock.now().saturating_since(Instant::ZERO),
            listen: self.local_addr().ok(),
            connect: self.options.server.to_string(),
            peers: self.peers(),
        };
        report::complete(&mut value, facts);
        value
    }

    /// All counters, without what is known of each flow.
    fn counted(&self) -> Value {
        let (stats, socket) = self.counters();
        let overruns = (overruns(self.local.get_ref()), self.outer_overruns());
        self.totals.json("client", self.open_flows(), socket, overruns, &stats)
    }

    /// The state as metrics, with what else the process knows.
    pub(crate) fn metrics(&self, known: &ProcessFacts<'_>) -> Snapshot {
        let open: Vec<_> = self.flows().open.values().cloned().collect();
        let connected = open.iter().filter(|flow| flow.call(|c, _, _| c.is_connected())).count();
        let states =
            [(HANDSHAKING, (open.len() - connected) as u64), (CONNECTED, connected as u64)];
        metrics::snapshot(&self.counted(), &states, known)
    }

    /// The number of datagrams that the kernel dropped at the sockets of open flows.
    fn outer_overruns(&self) -> u64 {
        self.flows().all().map(|flow| overruns(flow.socket())).sum()
    }

    /// The peers of the open flows.
    fn peers(&self) -> Vec<Peer> {
        let open: Vec<_> = self.flows().open.iter().map(|(a, f)| (*a, Arc::clone(f))).collect();
        let peers = open.into_iter().map(|(application, flow)| {
            flow.call(|connection, host, now| {
                let mut peer = Peer::of(connection, now.saturating_since(host.active_at));
                peer.application = Some(Named::from(application).to_string());
                if !peer.connected {
                    let identity = host.config.psk().map(Psk::identity).map(<[u8]>::to_vec);
                    let identity = identity.map(|identity| Identity::Psk(identity).to_string());
                    peer.identity = identity.unwrap_or_default();
                }
                peer
            })
        });
        peers.collect()
    }

    /// Counts the datagrams of applications that are still unread when the proxy ends.
    pub(crate) fn count_unread(&self) {
        self.totals.unread.add(unread(self.local.get_ref()));
    }

    /// A summary of the state of all open flows.
    pub(crate) fn standing(&self) -> FlowStates {
        let mut standing = FlowStates::new(self.counters().0);
        for flow in self.flows().open.values() {
            flow.call(|connection, _, _| standing.add(connection));
        }
        standing
    }

    /// Carries the messages that wait at the local socket.
    fn carry_batch(&self, batch: &mut ReceiveBatch, tasks: &mut JoinSet<()>) -> io::Result<()> {
        match self.local.try_receive(batch) {
            // As above. The next call receives from others.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            done => done?,
        }
        let mut at = 0;
        while let Some(from) = batch.addresses(at) {
            let known = self.flows().open.get(&from).cloned();
            if let Some(flow) = known {
                at = flow.batch(|sending| self.send_from(batch, at, from, sending));
            }
            if batch.addresses(at) == Some(from) {
                self.carry(from, batch.payload(at), tasks);
                at += 1;
            }
        }
        Ok(())
    }

    /// Sends the messages of one application from number `at` on. Returns the number of the first
    /// message that is another application's, or for which the flow is closed.
    fn send_from(
        &self,
        batch: &mut ReceiveBatch,
        mut at: usize,
        from: AddressPair,
        sending: &mut Batch<'_, Connection, FlowHost>,
    ) -> usize {
        while batch.addresses(at) == Some(from) {
            let payload = batch.payload(at);
            if payload.is_empty() {
                self.totals.empty.one();
            } else if self.send(sending, payload) == Err(SendError::Closed) {
                break;
            }
            at += 1;
        }
        at
    }

    fn carry(&self, from: AddressPair, payload: &[u8], tasks: &mut JoinSet<()>) {
        if payload.is_empty() {
            self.totals.empty.one();
            return;
        }
        let known = self.flows().open.get(&from).cloned();
        let sent = known.as_ref().map(|flow| flow.batch(|flow| self.send(flow, payload)));
        // A flow that has just ended is replaced by a new one.
        if matches!(sent, None | Some(Err(SendError::Closed))) {
            let Some(hops) = self.loops.hops(self.clock.now(), from.peer) else {
                let listen = self.local_addr().map(|listen| listen.to_string());
                return self.totals.count_loop(from.peer, &listen.unwrap_or_default());
            };
            if self.open_flows() >= self.options.max_flows && !self.make_room(from) {
                let max = self.options.max_flows;
                let why = format!("{max} flows are open (--max-flows)");
                self.totals.refused_messages.one();
                return self.totals.count_refused(Refusal::Flows, &why);
            }
            if self.draining.load(Ordering::Relaxed) {
                self.totals.refused_messages.one();
                return self.totals.count_refused(Refusal::Draining, &Refusal::Draining);
            }
            match self.open(from, FlowStart::New { hops }, tasks) {
                Ok(flow) => {
                    if flow.batch(|flow| self.send(flow, payload)) == Err(SendError::Closed) {
                        self.totals.refused_messages.one();
                    }
                }
                Err(error) => {
                    self.totals.count_refused(Refusal::NoSocket, &error);
                    self.totals.refused_messages.one();
                }
            }
        }
    }

    fn send(
        &self,
        flow: &mut Batch<'_, Connection, FlowHost>,
        payload: &[u8],
    ) -> Result<(), SendError> {
        let sent = flow.send(|connection, host, now, datagram| {
            let sent = match payload.len() > self.longest {
                true => Err(SendError::TooLong),
                false => connection.send(now, payload, datagram),
            };
            if sent.is_ok() {
                (host.active_at, host.sent_at) = (now, now);
            }
            sent.map_err(|error| (error, connection.max_payload().min(self.longest)))
        });
        self.totals.count_outward(payload, sent)
    }

    /// Begins a flow for an application.
    fn open(
        &self,
        application: AddressPair,
        beginning: FlowStart<'_>,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<Arc<Flow>> {
        let server = self.options.server.address()?;
        if self.revoked.load(Ordering::Relaxed) {
            return Err(io::Error::other(
                "there is no credential for it: an earlier line says why",
            ));
        }
        let now = self.clock.now();
        let config = self.current_config();
        let host = FlowHost {
            local: Arc::clone(&self.local),
            application,
            deliveries: Deliveries::new(|application| Named::from(application).to_string()),
            server,
            destination: Arc::clone(&self.options.server),
            list: self.options.list.clone(),
            tries: 0,
            config: Arc::clone(&config),
            totals: Arc::clone(&self.totals),
            loops: Arc::clone(&self.loops),
            hops: Some(beginning.hops()),
            identity: None,
            succeeds: beginning.is_beside(),
            stale: 0,
            too_long: 0,
            active_at: now,
            sent_at: now,
            began_at: now,
            opened_at: now,
            progress: (0, 0),
            progressed_at: None,
            heard: false,
            pause: HandshakePause::default(),
            silent: false,
            hints: 0,
            hinted: false,
            answers: Arc::clone(&self.answers),
            answers_noted: false,
            state: Arc::clone(&self.server),
            attention: Arc::clone(&self.attention),
            ended: None,
        };
        let socket = self.outer_socket(server)?;
        // On systems without such reports, only the early notice of an unreachable server is lost.
        let _ = socket::report_unreachable(&socket);
        let mut connection = self.connection(server, config)?;
        if let Some(interval) = self.options.keepalive {
            let answers = self.answers.by(server).then_some(true);
            connection.watch(now, Watch { interval, answers });
        }
        let flow = Driver::new(socket, self.clock, connection, host);
        let flow = Arc::new(flow);
        self.presume_path_mtu(server, &flow);
        if let Some(former) = beginning.former() {
            former.call(|former, former_host, _| {
                flow.call(|connection, host, _| {
                    connection.take_queue_of(former);
                    host.succeed(former_host);
                });
            });
        }
        let mut flows = self.flows();
        match beginning {
            FlowStart::Beside | FlowStart::BesideInPlaceOf(_) => {
                flows.successors.began(application, Arc::clone(&flow));
            }
            _ => drop(flows.open.insert(application, Arc::clone(&flow))),
        }
        drop(flows);
        self.totals.opened.one();
        let totals = Arc::clone(&self.totals);
        tasks.spawn(serve(Arc::clone(&flow), Arc::clone(&self.flows), totals, application));
        Ok(flow)
    }

    fn sweep(&self, tasks: &mut JoinSet<()>) {
        self.totals.complain_of_overruns(&self.known_overruns, overruns(self.local.get_ref()));
        let mut flows = self.flows();
        let Flows { open, successors, .. } = &mut *flows;
        successors.forget_unless(|application| open.contains_key(application));
        let open: Vec<_> = open.iter().map(|(a, f)| (*a, Arc::clone(f))).collect();
        drop(flows);
        for (application, flow) in open {
            let idle = flow.call(|connection, host, now| {
                let idle = now - host.active_at >= self.options.idle_timeout;
                if idle {
                    connection.close(now);
                } else if host.is_waiting(connection)
                    && now - host.progressed_at.unwrap_or(host.began_at) >= UNANSWERED
                {
                    host.state.silent(&host.destination.named(host.server), now);
                }
                idle
            });
            if idle {
                continue;
            }
            if self.is_to_go_elsewhere(&flow) {
                let beginning = FlowStart::InPlaceOf(&flow);
                if let Err(error) = self.open(application, beginning, tasks) {
                    self.totals.count_refused(Refusal::NoSocket, &error);
                }
                flow.call(|connection, _, now| connection.close(now));
                continue;
            }
            self.move_successor(application, tasks);
            let action = self.flows().successors.look_after(application, &flow);
            match action {
                Action::Nothing => {}
                // The new handshake gets a slot in `open` only when it is complete.
                Action::Begin => {
                    self.options.server.look_again();
                    if let Err(error) = self.open(application, FlowStart::Beside, tasks) {
                        self.totals.count_refused(Refusal::NoSocket, &error);
                    }
                }
                Action::Replace(successor) => {
                    let (times, pause) = flow.call(|_, host, now| {
                        ((host.active_at, host.sent_at), host.pause.next(host.heard, now))
                    });
                    successor.call(|_, host, _| {
                        ((host.active_at, host.sent_at), host.pause) = (times, pause);
                    });
                    self.flows().open.insert(application, successor);
                    flow.call(|connection, _, now| connection.close(now));
                }
            }
        }
    }

    fn connection(&self, server: SocketAddr, config: Arc<ClientConfig>) -> io::Result<Connection> {
        let rng = Random::from_os().map_err(io::Error::other)?;
        Ok(Connection::client(config, server, self.clock.now(), rng))
    }

    fn outer_socket(&self, server: SocketAddr) -> io::Result<UdpSocket> {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = socket::bind((any, 0).into())?;
        if self.current_config().settings().path_mtu.is_some() {
            path_mtu::forbid_fragments(&socket)?;
        }
        Ok(socket)
    }

    fn sweep_interval(&self) -> Duration {
        (self.options.idle_timeout / 2).clamp(Duration::from_millis(5), SWEEP)
    }

    fn current_config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn flows(&self) -> MutexGuard<'_, Flows> {
        self.flows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a flow until it ends, and keeps its counters.
async fn serve(
    flow: Arc<Flow>,
    flows: Arc<Mutex<Flows>>,
    totals: Arc<Totals>,
    application: AddressPair,
) {
    if let Err(error) = flow.run().await {
        tracing::warn!("flow {application}: {error}");
    }
    let counters = flow.counters();
    totals.overruns_outer.add(overruns(flow.socket()));
    totals.unread.add(unread(flow.socket()));
    let mut flows = flows.lock().unwrap_or_else(PoisonError::into_inner);
    flow.call(|connection, _, _| flows.ended += connection.stats());
    add_socket(&mut flows.ended_socket, &counters);
    // A successor may be in its slot already.
    if flows.open.get(&application).is_some_and(|open| Arc::ptr_eq(open, &flow)) {
        flows.open.remove(&application);
        flows.successors.forget(application);
    }
    flows.successors.ended(application, &flow);
}

/// Sends a keepalive when the handshake is complete, and closes the association when it is
/// answered.
#[derive(Debug, Default)]
struct Check {
    connected: bool,
    asked: bool,
    answered: bool,
    ended: Option<CloseReason>,
}

impl EngineHost<Connection> for Check {
    fn event(&mut self, _: Instant, event: Event<'_>) {
        match event {
            Event::Connected(_) => self.connected = true,
            Event::Data(payload) => self.answered |= payload.is_empty(),
            Event::Closed(reason) => self.ended = Some(reason),
            _ => {}
        }
    }

    fn drained(&mut self, now: Instant, connection: &mut Connection) -> bool {
        if self.connected && !self.asked {
            self.asked = true;
            return connection.send(now, &[], &mut []).is_ok();
        }
        let goodbye = self.answered && connection.is_connected();
        if goodbye {
            connection.close(now);
        }
        goodbye
    }

    fn is_finished(&self, _: &Connection) -> bool {
        self.ended.is_some()
    }
}
