//! The proxy in front of applications.
//!
//! - [`lane`]: a socket towards the server and the flows that it carries;
//! - [`lane_run`]: the task of a lane;
//! - [`own_sockets`]: the sockets of flows that have one each;
//! - [`lanes`]: which socket a new flow gets;
//! - [`flow`]: what is known of a flow besides its association;
//! - [`open`]: the open flows by the addresses of their applications;
//! - [`check`]: the first handshake;
//! - [`hints`]: signs that the server may have lost associations or be back;
//! - [`reconnect`]: new handshakes for flows whose server does not answer;
//! - [`server_state`]: what is known of the server from all flows together;
//! - [`successors`]: flows that replace others.

mod check;
mod flow;
mod hints;
mod lane;
mod lane_run;
mod lanes;
mod open;
mod own_sockets;
mod reconnect;
mod server_state;
mod successors;

use super::counters::{Count, Totals};
use super::destination::Destination;
use super::limits::Refusal;
use super::metrics::{self, CONNECTED, HANDSHAKING, ProcessFacts};
use super::report::{self, Peer, ReportFacts};
use super::shares::Shares;
use super::status::FlowStates;
use super::{log_batches, overruns, unread};
use crate::credential::allow::AccessList;
use check::Check;
use lane::{Flow, Lane, LaneHost, Shared};
use lanes::{FlowBeginning, Lanes, outer_socket};
use lightseal_core::{AddressPair, Instant, Random};
use lightseal_dtls::{
    ClientConfig, CloseReason, Connection, Endpoint, Handle, Identity, Negotiated, Psk, SendError,
    Stats, Watch,
};
use lightseal_net::Clock;
use lightseal_net::address::Named;
use lightseal_net::batch::ReceiveBatch;
use lightseal_net::socket::AddressedSocket;
use lightseal_net::tokio::{Batch, Driver, SocketCounters};
use lightseal_service::metrics::Snapshot;
use open::OpenFlows;
use reconnect::{Action, Successors};
use serde_json::Value;
use server_state::{AttentionCalls, UNANSWERED};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use successors::{FlowStart, known_path_mtu};
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
    /// Whether flows share sockets where they can.
    pub(crate) shares_sockets: bool,
    /// Whether all ports of one local address have one flow.
    pub(crate) merges_ports: bool,
    /// The access list, which knows whom it has refused.
    pub(crate) list: Option<Arc<AccessList>>,
}

/// A running client proxy.
#[derive(Debug)]
pub(crate) struct ClientProxy {
    options: ClientProxyOptions,
    clock: Clock,
    config: Mutex<Arc<ClientConfig>>,
    flows: Arc<Mutex<Flows>>,
    shared: Arc<Shared>,
    /// The length in bytes of the longest message that is carried.
    longest: usize,
    /// How many datagrams dropped by the kernel have been logged so far.
    known_overruns: Count,
    /// Whether this end has no usable credential: no flow begins until it has one again.
    revoked: AtomicBool,
    /// Whether no new flow begins any more.
    draining: AtomicBool,
}

/// All flows. Whoever holds this lock may call lanes, and no lane takes it.
#[derive(Debug, Default)]
struct Flows {
    open: OpenFlows,
    successors: Successors,
    lanes: Lanes,
    shares: Shares,
}

impl Flows {
    /// All flows, and the handshakes that run beside flows and may replace them.
    fn all(&self) -> impl Iterator<Item = &Flow> {
        self.open.flows().chain(self.successors.flows())
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
        let (server, list) = (Arc::clone(&options.server), options.list.clone());
        Self {
            longest,
            known_overruns: Count::default(),
            options,
            clock: Clock::start(),
            config: Mutex::new(config),
            flows: Arc::default(),
            shared: Arc::new(Shared::new(local, server, list)),
            revoked: AtomicBool::new(false),
            draining: AtomicBool::new(false),
        }
    }

    /// The address that applications send to.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.local().local_addr()
    }

    fn local(&self) -> &UdpSocket {
        self.shared.local.get_ref()
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
        let finds_path_mtu = settings.path_mtu.is_some();
        let config = config.with_settings(settings).map_err(io::Error::other)?;
        let socket = UdpSocket::from_std(outer_socket(server, finds_path_mtu)?)?;
        let rng = Random::from_os().map_err(io::Error::other)?;
        let connection = Connection::client(Arc::new(config), server, self.clock.now(), rng);
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
        let stats = driver.call(|connection, _, _| connection.stats());
        self.flows().lanes.add(&stats, &driver.counters());
        Ok(driver.call(|_, check, _| {
            if check.answered {
                self.shared.answers.note(server);
                self.shared.sharing.note(server, check.can_keep, true);
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
        let (local, attention) = (&self.shared.local, &self.shared.attention);
        loop {
            tokio::select! {
                () = &mut resolving => {}
                failed = local.readable() => {
                    // The error reports that an application's port is closed.
                    if failed? {
                        let _ = local.take_error();
                    }
                    let more = ReceiveBatch::with(|batch| {
                        self.carry_batch(batch, &mut tasks).map(|()| batch.more_may_wait())
                    })?;
                    if more {
                        tokio::task::yield_now().await;
                    }
                }
                _ = sweep.tick() => self.sweep(&mut tasks),
                () = calls.next(attention) => self.sweep(&mut tasks),
                () = attention.some_ended() => self.remove_ended(),
                Some(_) = tasks.join_next() => {}
            }
        }
    }

    /// Closes all flows with a close_notify.
    pub(crate) fn close_all(&self) {
        let lanes: Vec<_> = self.flows().lanes.iter().cloned().collect();
        for lane in lanes {
            lane.driver.call(|endpoint, _, now| endpoint.close_all(now));
        }
    }

    /// Closes the flows whose server `accepts` does not accept, and all handshakes, since they may
    /// have begun with what is not accepted any more. Returns the number of those flows that were
    /// connected.
    pub(crate) fn end_unless(&self, accepts: impl Fn(&Negotiated) -> bool) -> usize {
        let all: Vec<_> = self.flows().all().cloned().collect();
        let ends = all.iter().filter(|flow| {
            let agreed = flow.look(|connection, _, _| connection.negotiated().cloned()).flatten();
            let ends = agreed.as_ref().is_none_or(|agreed| !accepts(agreed));
            if ends {
                flow.close();
            }
            ends && agreed.is_some()
        });
        ends.count()
    }

    /// The number of open flows.
    pub(crate) fn open_flows(&self) -> usize {
        self.remove_ended();
        self.flows().open.len()
    }

    /// The counters of this proxy.
    pub(crate) fn totals(&self) -> &Totals {
        &self.shared.totals
    }

    /// The sums of the counters of all associations and their sockets, open and ended.
    pub(crate) fn counters(&self) -> (Stats, SocketCounters) {
        self.flows().lanes.counters()
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
        let outer = self.flows().lanes.iter().map(|lane| lane.overruns()).sum();
        let overruns = (overruns(self.local()), outer);
        self.totals().json("client", self.open_flows(), socket, overruns, &stats)
    }

    /// The state as metrics, with what else the process knows.
    pub(crate) fn metrics(&self, known: &ProcessFacts<'_>) -> Snapshot {
        let open: Vec<_> = self.flows().open.flows().cloned().collect();
        let connected = |flow: &&Flow| flow.note(|host, _| host.is_connected()) == Some(true);
        let connected = open.iter().filter(connected).count();
        let states =
            [(HANDSHAKING, (open.len() - connected) as u64), (CONNECTED, connected as u64)];
        metrics::snapshot(&self.counted(), &states, known)
    }

    /// The peers of the open flows.
    fn peers(&self) -> Vec<Peer> {
        let open: Vec<_> = self.flows().open.iter().map(|(a, f)| (a, f.clone())).collect();
        let peers = open.into_iter().filter_map(|(application, flow)| {
            flow.look(|connection, host, now| {
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
        self.totals().unread.add(unread(self.local()));
    }

    /// A summary of the state of all open flows.
    pub(crate) fn standing(&self) -> FlowStates {
        let mut standing = FlowStates::new(self.counters().0);
        for flow in self.flows().open.flows() {
            flow.look(|connection, _, _| standing.add(connection));
        }
        standing
    }

    /// Carries the messages that wait at the local socket.
    fn carry_batch(&self, batch: &mut ReceiveBatch, tasks: &mut JoinSet<()>) -> io::Result<()> {
        match self.shared.local.try_receive(batch) {
            // As above. The next call receives from others.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(()),
            done => done?,
        }
        let flows = self.flows();
        let known = (0..batch.len()).map(|at| {
            let application = self.application(batch.addresses(at)?);
            flows.open.get(&application).cloned()
        });
        let known: Vec<_> = known.collect();
        drop(flows);
        let mut at = 0;
        while let (Some(flow), Some(from)) = (known.get(at), batch.addresses(at)) {
            let sent = flow.as_ref().map(|Flow { lane, .. }| {
                lane.driver.batch(|sending| self.send_by(lane, sending, batch, at, &known))
            });
            at = match sent {
                Some(Ok(next)) => next,
                // A flow begins, in place of one that has ended meanwhile.
                None | Some(Err(_)) => {
                    at = sent.and_then(Result::err).unwrap_or(at);
                    let from = batch.addresses(at).unwrap_or(from);
                    self.carry(from, batch.payload(at), tasks);
                    at + 1
                }
            };
        }
        Ok(())
    }

    /// Sends messages from number `at` on whose flows are at this lane. Returns the number of the
    /// first one that goes elsewhere.
    ///
    /// # Errors
    ///
    /// The number of a message whose flow has ended.
    fn send_by(
        &self,
        lane: &Arc<Lane>,
        sending: &mut Batch<'_, Endpoint, LaneHost>,
        batch: &mut ReceiveBatch,
        mut at: usize,
        known: &[Option<Flow>],
    ) -> Result<usize, usize> {
        while let Some(flow) = known.get(at).and_then(Option::as_ref)
            && Arc::ptr_eq(&flow.lane, lane)
        {
            let port = batch.addresses(at).map_or(0, |from| from.peer.port());
            let payload = batch.payload(at);
            if payload.is_empty() {
                self.totals().empty.one();
            } else if self.send(sending, flow.handle, port, payload) == Err(SendError::Closed) {
                return Err(at);
            }
            at += 1;
        }
        Ok(at)
    }

    fn carry(&self, from: AddressPair, payload: &[u8], tasks: &mut JoinSet<()>) {
        if payload.is_empty() {
            self.totals().empty.one();
            return;
        }
        let (application, port) = (self.application(from), from.peer.port());
        let send = |flow: &Flow| {
            flow.lane.driver.batch(|sending| self.send(sending, flow.handle, port, payload))
        };
        let known = self.flows().open.get(&application).cloned();
        // A flow that has just ended is replaced by a new one.
        if !matches!(known.as_ref().map(send), None | Some(Err(SendError::Closed))) {
            return;
        }
        let refused = |why: Refusal, text: &dyn std::fmt::Display| {
            self.totals().refused_messages.one();
            self.totals().count_refused(why, text);
        };
        let Some(hops) = self.shared.loops.hops(self.clock.now(), from.peer) else {
            let listen = self.local_addr().map(|listen| listen.to_string());
            return self.totals().count_loop(from.peer, &listen.unwrap_or_default());
        };
        if self.open_flows() >= self.options.max_flows && !self.make_room(from) {
            let max = self.options.max_flows;
            return refused(Refusal::Flows, &format!("{max} flows are open (--max-flows)"));
        }
        if self.draining.load(Ordering::Relaxed) {
            return refused(Refusal::Draining, &Refusal::Draining);
        }
        match self.open(application, FlowStart::New { hops }, tasks) {
            Ok(flow) if send(&flow) == Err(SendError::Closed) => {
                self.totals().refused_messages.one();
            }
            Ok(_) => {}
            Err(error) => refused(Refusal::NoSocket, &error),
        }
    }

    /// The application that sends from an address, as flows know it.
    fn application(&self, mut from: AddressPair) -> AddressPair {
        if self.options.merges_ports {
            from.peer.set_port(0);
        }
        from
    }

    fn send(
        &self,
        sending: &mut Batch<'_, Endpoint, LaneHost>,
        handle: Handle,
        port: u16,
        payload: &[u8],
    ) -> Result<(), SendError> {
        let sent = sending.send(|endpoint, host, now, datagram| {
            let Some(mut connection) = endpoint.connection_mut(handle) else {
                return Err((SendError::Closed, 0));
            };
            let sent = match payload.len() > self.longest {
                true => Err(SendError::TooLong),
                false => connection.send(now, payload, datagram),
            };
            host.sent(now, (handle, &connection), port, sent.as_ref().ok());
            sent.map_err(|error| (error, connection.max_payload().min(self.longest)))
        });
        self.totals().count_outward(payload, sent)
    }

    /// Begins a flow for an application.
    fn open(
        &self,
        application: AddressPair,
        beginning: FlowStart<'_>,
        tasks: &mut JoinSet<()>,
    ) -> io::Result<Flow> {
        let server = self.options.server.address()?;
        if self.revoked.load(Ordering::Relaxed) {
            return Err(io::Error::other(
                "there is no credential for it: an earlier line says why",
            ));
        }
        let answers = self.shared.answers.by(server).then_some(true);
        let mut flows = self.flows();
        let start = FlowBeginning {
            application,
            config: self.current_config(),
            server,
            watch: self.options.keepalive.map(|interval| Watch { interval, answers }),
            path_mtu: known_path_mtu(&flows, server),
            succeeds: beginning.is_beside(),
            hops: beginning.hops(),
            avoids: beginning.former(),
        };
        let shares = self.options.shares_sockets;
        let (flow, lane) = flows.lanes.begin(self.clock, &self.shared, shares, &start)?;
        if let Some(lane) = lane {
            tasks.spawn(serve(lane, Arc::clone(&self.flows), Arc::clone(&self.shared)));
        }
        if let Some(former) = beginning.former() {
            former.call(|former, former_host, _| {
                flow.call(|connection, host, _| {
                    connection.take_queue_of(former);
                    host.succeed(former_host);
                });
            });
        }
        match beginning {
            FlowStart::Beside | FlowStart::BesideInPlaceOf(_) => {
                flows.successors.began(application, flow.clone());
            }
            _ => flows.open.insert(application, flow.clone()),
        }
        drop(flows);
        self.totals().opened.one();
        Ok(flow)
    }

    /// Removes flows that have ended.
    fn remove_ended(&self) {
        let ended = self.shared.take_ended();
        if ended.is_empty() {
            return;
        }
        let mut flows = self.flows();
        for (application, id) in ended {
            // A successor may be in its place already.
            if flows.open.get(&application).is_some_and(|open| open.id() == id) {
                flows.open.remove(&application);
                flows.successors.forget(application);
            }
            flows.successors.ended(application, id);
        }
    }

    fn sweep(&self, tasks: &mut JoinSet<()>) {
        self.remove_ended();
        self.totals().complain_of_overruns(&self.known_overruns, overruns(self.local()));
        let mut flows = self.flows();
        let Flows { open, successors, .. } = &mut *flows;
        successors.forget_unless(|application| open.contains(application));
        let handshakes: Vec<_> = successors.flows().cloned().collect();
        let open: Vec<_> = open.iter().map(|(a, f)| (a, f.clone())).collect();
        drop(flows);
        let beginning = |flow: &Flow| flow.note(|host, _| host.is_connected()) == Some(false);
        for flow in open.iter().map(|(_, flow)| flow).chain(&handshakes).filter(|f| beginning(f)) {
            flow.look(|connection, host, now| {
                host.note_progress(connection, now);
                host.count_drops(connection, flow.lane.server, &self.shared.totals);
            });
        }
        for (application, flow) in open {
            let idle = flow.note(|host, now| {
                let since =
                    host.handshake.as_ref().map(|of| of.progressed_at.unwrap_or(of.began_at));
                if since.is_some_and(|since| now - since >= UNANSWERED) {
                    let server = self.options.server.named(flow.lane.server);
                    self.shared.server.silent(&server, now);
                }
                now - host.active_at >= self.options.idle_timeout
            });
            // It may have ended meanwhile.
            let Some(idle) = idle else { continue };
            if idle {
                flow.close();
                continue;
            }
            if self.is_to_go_elsewhere(&flow) {
                let beginning = FlowStart::InPlaceOf(&flow);
                if let Err(error) = self.open(application, beginning, tasks) {
                    self.totals().count_refused(Refusal::NoSocket, &error);
                }
                flow.close();
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
                        self.totals().count_refused(Refusal::NoSocket, &error);
                    }
                }
                Action::Replace(successor) => {
                    let former = flow.note(|host, now| {
                        (host.active_at, host.sent_at, host.port, host.pause.next(host.heard, now))
                    });
                    successor.note(|host, _| {
                        host.succeeds = false;
                        if let Some(former) = former {
                            (host.active_at, host.sent_at, host.port, host.pause) = former;
                        }
                    });
                    self.flows().open.insert(application, successor);
                    flow.close();
                }
            }
        }
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

/// Runs a lane until it has no flows.
async fn serve(lane: Arc<Lane>, flows: Arc<Mutex<Flows>>, shared: Arc<Shared>) {
    loop {
        if let Err(error) = lane.run().await {
            tracing::warn!("a socket towards {}: {error}", Named(lane.server));
            lane.driver.call(|endpoint, host, now| {
                host.fail();
                endpoint.close_all(now);
            });
        }
        let mut flows = flows.lock().unwrap_or_else(PoisonError::into_inner);
        if flows.lanes.remove(&lane, &shared) {
            return;
        }
    }
}
