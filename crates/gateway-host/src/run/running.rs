//! A gateway under one configuration, until the configuration is read again: an engine, management
//! channels and threads.
//!
//! The ports are lent to it, and returned when the configuration is read again. Packets that arrive
//! meanwhile wait in the queues of the ports.

use super::MakeScheme;
use super::engine;
use super::path_report::{PathReporter, PathState};
use super::port_counters::SharedPortCounters;
use super::ports::Ports;
use super::shared::GatewayShared;
use super::task_queue::{Task, TaskQueue};
use super::worker::Worker;
use crate::ErrorLine;
use crate::channel::{self, Channel, Event as ChannelEvent, SendError};
use crate::config::Config;
use crate::credential::Credential;
use lightseal_gateway::control::{Control, Event, Output};
use lightseal_gateway::counters::Reason;
use lightseal_gateway::gateway::Gateway;
use lightseal_gateway::keys::GatewayId;
use lightseal_gateway::stations::PeerIndex;
use lightseal_net::Clock;
use lightseal_packet_io::xdp::Attachment;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{self, JoinSet};

/// Interval at which the names of endpoints are resolved again.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(60);
/// Most outputs of the control path that are handled in a row, before management channels get time
/// to send their messages.
const MAX_OUTPUTS_IN_A_ROW: usize = 64;
/// How long after the last notice of another gateway on the LAN it counts as gone. While it is
/// there, notices come at intervals of ten seconds.
const OTHER_GATEWAY_TIMEOUT: Duration = Duration::from_secs(25);
/// Interval at which the timers of the control path are checked.
const TICK_INTERVAL: Duration = Duration::from_millis(100);

/// State that outlives a configuration.
pub(super) struct HostState {
    /// What the gateway proves its identity with, until it is read again.
    pub(super) credential: Credential,
    pub(super) clock: Clock,
    pub(super) lan_address: [u8; 6],
    pub(super) io: String,
    pub(super) programs: [Option<Attachment>; 2],
    pub(super) management: std::net::TcpListener,
    pub(super) started: Instant,
    pub(super) port_counters: Vec<Arc<SharedPortCounters>>,
    /// Makes the scheme in place of the configured one.
    pub(super) make_scheme: Option<MakeScheme>,
}

/// An engine and its channels, before ports are lent to it.
pub(super) struct PreparedGateway {
    pub(super) shared: Arc<GatewayShared>,
    control: Control,
    channel: Channel,
    sender: channel::Sender,
    events: channel::Events,
    clock: Clock,
}

impl PreparedGateway {
    /// Creates everything that can fail because of the configuration.
    ///
    /// # Errors
    /// If the configuration is wrong, or something that it needs is missing.
    pub(super) fn new(
        host_state: &HostState,
        credential: &Credential,
        config: Config,
    ) -> Result<Self, ErrorLine> {
        let own = credential.known_by();
        config.check_own_key(&own)?;
        let mut random = lightseal_core::Random::from_os()
            .map_err(|error| ErrorLine::of("randomness of the operating system", error))?;
        let now = host_state.clock.now();
        let refused = |error| config.named(error);
        let scheme = match &host_state.make_scheme {
            Some(make) => make(engine::flow_limits(&config), &mut random, now),
            None => engine::scheme(&config, &mut random, now),
        };
        let gateway = Gateway::new(
            engine::settings(&config, &own, host_state.lan_address),
            engine::links(&config),
            scheme.map_err(refused)?,
            &mut random,
            now,
        );
        let gateway = Arc::new(gateway.map_err(refused)?);
        let provider = &lightseal_macsec_aws_lc::PROVIDER;
        let timing = engine::timing(&config);
        let control = Control::new(Arc::clone(&gateway), provider, timing, random.fork());
        let control = control.map_err(refused)?;
        let trust = config.load_trust()?;
        let settings = channel::ChannelSettings::from_config(&config, credential.clone(), trust);
        let management = host_state.management.try_clone();
        let management = management.map_err(|error| ErrorLine::of("management channel", error))?;
        let (channel, sender, events) = Channel::new(management, settings, random)?;
        let (io, programs) = (host_state.io.clone(), host_state.programs.clone());
        let (started, port_counters) = (host_state.started, host_state.port_counters.clone());
        let shared = GatewayShared::new(config, own, gateway, io, programs, started, port_counters);
        let shared = Arc::new(shared);
        Ok(Self { shared, control, channel, sender, events, clock: host_state.clock })
    }

    /// Starts one thread for each set of ports, and accepts connections from peers.
    ///
    /// # Errors
    /// If the operating system has no free descriptor or thread.
    pub(super) fn start(self, ports: Vec<Ports>) -> Result<RunningGateway, ErrorLine> {
        let Self { shared, control, channel, sender, events, clock } = self;
        let (end_channel, channel_ends) = oneshot::channel::<()>();
        let channel = tokio::spawn(channel.run(async {
            let _ended = channel_ends.await;
        }));
        let task_queues: Vec<_> = ports
            .iter()
            .map(|_| TaskQueue::new().map(Arc::new))
            .collect::<Result<_, _>>()
            .map_err(|error| ErrorLine::of("cannot create an event descriptor", error))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (failed, failures) = mpsc::channel(1);
        let busy_wait = Duration::from_micros(shared.config.lan.busy_wait_us.into());
        let mut threads = Vec::new();
        for (lane, (ports, task_queue)) in ports.into_iter().zip(&task_queues).enumerate() {
            let gateway = Arc::clone(&shared.gateway);
            let worker = Worker::new(gateway, lane as u8, ports, Arc::clone(task_queue), clock);
            let stop = Arc::clone(&stop);
            let work = move || worker.run(&stop, busy_wait);
            let thread = start_queue(lane, failed.clone(), work);
            threads.push(thread.map_err(|error| ErrorLine::of("cannot start a thread", error))?);
        }
        let resolving = tokio::spawn(resolve(Arc::clone(&shared)));
        let tick = tokio::time::interval(TICK_INTERVAL);
        let path_reporters = shared.config.peers.iter().map(|_| PathReporter::default()).collect();
        Ok(RunningGateway {
            shared,
            control,
            clock,
            sender,
            events,
            failures,
            has_more_outputs: false,
            other_gateway: None,
            path_reporters,
            tick,
            task_queues,
            stop,
            threads,
            channel,
            end_channel,
            resolving,
        })
    }
}

/// Starts the thread of a queue, which sends an error to `failed` if its work fails or panics.
fn start_queue<P: Send + 'static>(
    lane: usize,
    failed: mpsc::Sender<ErrorLine>,
    work: impl FnOnce() -> (P, io::Result<()>) + Send + 'static,
) -> io::Result<JoinHandle<P>> {
    thread::Builder::new().name(format!("queue {lane}")).spawn(move || {
        let alarm = Alarm(failed);
        let (ports, ended) = work();
        if let Err(error) = ended {
            let _ending = alarm.0.try_send(ErrorLine::of(format_args!("queue {lane}"), error));
        }
        ports
    })
}

/// Sends an error if the thread that owns it panics.
struct Alarm(mpsc::Sender<ErrorLine>);

impl Drop for Alarm {
    fn drop(&mut self) {
        if thread::panicking() {
            let _ending = self.0.try_send(panicked());
        }
    }
}

fn panicked() -> ErrorLine {
    ErrorLine::new("the thread of a queue has panicked")
}

/// A gateway that carries frames. Connects the control path of the engine with channels and
/// threads.
pub(super) struct RunningGateway {
    pub(super) shared: Arc<GatewayShared>,
    control: Control,
    clock: Clock,
    sender: channel::Sender,
    events: channel::Events,
    failures: mpsc::Receiver<ErrorLine>,
    /// Whether the control path has more outputs.
    has_more_outputs: bool,
    /// Another gateway on this LAN, and the time of the last notice of it.
    other_gateway: Option<(GatewayId, Instant)>,
    /// The reports about each peer's path.
    path_reporters: Vec<PathReporter>,
    tick: tokio::time::Interval,
    /// The task queue of each thread; tasks go to the first thread.
    task_queues: Vec<Arc<TaskQueue>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Ports>>,
    channel: task::JoinHandle<()>,
    end_channel: oneshot::Sender<()>,
    resolving: task::JoinHandle<()>,
}

impl RunningGateway {
    /// Waits for one event and handles it. The future may be dropped while it waits.
    ///
    /// # Errors
    /// If a port or the management channel is lost, or a thread has panicked.
    pub(super) async fn step(&mut self) -> Result<(), ErrorLine> {
        tokio::select! {
            event = self.events.recv() => match event {
                Some(event) => self.handle_channel_event(event),
                None => return Err(ErrorLine::new("the management channel has ended")),
            },
            Some(failure) = self.failures.recv() => return Err(failure),
            () = task::yield_now(), if self.has_more_outputs => {}
            _ = self.tick.tick() => {
                self.control.handle_timeout(self.clock.now());
                self.report_paths();
                if let Some((_, since)) = self.other_gateway && since.elapsed() > OTHER_GATEWAY_TIMEOUT {
                    self.other_gateway = None;
                    tracing::info!("no other gateway is on this LAN any more");
                }
            }
        }
        self.handle_outputs();
        Ok(())
    }

    /// Agrees on new keys with all peers.
    pub(super) fn rekey(&mut self) {
        self.control.rekey();
        self.handle_outputs();
    }

    /// Ends channels and threads, and returns their ports.
    ///
    /// # Errors
    /// If a thread has panicked, so that its ports are lost.
    pub(super) async fn end(self) -> Result<Vec<Ports>, ErrorLine> {
        self.resolving.abort();
        // The end of a channel to a distant or silent peer may take a while. Meanwhile frames are
        // still carried with the present keys.
        drop(self.events);
        let _gone = self.end_channel.send(());
        let _ended = self.channel.await;
        self.stop.store(true, Ordering::Relaxed);
        for task_queue in &self.task_queues {
            task_queue.wake();
        }
        let threads = self.threads;
        // The threads check at once whether they should stop, but a thread may have to wait for a
        // core.
        let joined = task::spawn_blocking(|| {
            threads.into_iter().map(JoinHandle::join).collect::<Result<_, _>>().ok()
        });
        joined.await.ok().flatten().ok_or_else(panicked)
    }

    fn handle_outputs(&mut self) {
        self.has_more_outputs = true;
        for _ in 0..MAX_OUTPUTS_IN_A_ROW {
            let Some(output) = self.control.poll(self.clock.now()) else {
                self.has_more_outputs = false;
                return;
            };
            self.perform(output);
        }
    }

    fn handle_channel_event(&mut self, event: ChannelEvent) {
        let now = self.clock.now();
        let index = |peer: channel::PeerIndex| PeerIndex(peer.0 as u8);
        match event {
            ChannelEvent::Up { peer, exporter, initiator, remote } => {
                self.shared.note_channel(peer.0, true, None);
                self.shared.note_remote(now, peer.0, remote, initiator);
                tracing::info!(peer = self.shared.name(index(peer)), %remote, "channel is up");
                self.control.handle_up(now, index(peer), exporter);
            }
            ChannelEvent::Message { peer, bytes } => {
                self.control.handle_message(now, index(peer), &bytes);
                // The message may have released frames that were held.
                self.task_queues[0].wake();
            }
            ChannelEvent::Down { peer, why } => {
                tracing::warn!(peer = self.shared.name(index(peer)), %why, "channel is down");
                self.shared.note_channel(peer.0, false, Some(why.to_string()));
                self.control.handle_down(now, index(peer));
            }
            ChannelEvent::NotReached { peer, why } => {
                let name = self.shared.name(index(peer));
                if self.shared.note_channel(peer.0, false, Some(why.to_string())) {
                    tracing::warn!(peer = name, %why, "the peer could not be reached");
                } else {
                    tracing::debug!(peer = name, %why, "the peer could not be reached");
                }
            }
        }
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Message(peer, bytes) => {
                let to = channel::PeerIndex(peer.0.into());
                if self.sender.send(to, bytes) == Err(SendError::Full) {
                    // The peer must not miss a message, so the channel is closed: the next one
                    // establishes all state again.
                    tracing::error!(peer = self.shared.name(peer), "{}", SendError::Full);
                    self.sender.close(to, SendError::Full.to_string());
                }
                // If the peer is down, nothing is lost: the next channel establishes all state
                // again.
            }
            Output::Mka(peer, bytes) => {
                let to = channel::PeerIndex(peer.0.into());
                if self.sender.send_lossy(to, bytes) == Err(SendError::Full)
                    && let Some(link) = self.shared.gateway.links().get(peer)
                {
                    link.counters().drops.increment(Reason::Full);
                }
            }
            Output::Datagram(peer, kind, content) => {
                self.queue_task(Task::Datagram(peer, kind, content));
            }
            Output::Frame(frame) => self.queue_task(Task::Frame(frame)),
            Output::Close(peer, error) => {
                let peer_name = self.shared.name(peer);
                let what = "a message of the peer is refused; its channel is closed";
                tracing::error!(peer = peer_name, %error, "{what}");
                self.sender.close(channel::PeerIndex(peer.0.into()), error.to_string());
            }
            Output::Event(event) => self.log_event(event),
        }
    }

    /// Logs reports about the peers' paths.
    fn report_paths(&mut self) {
        let now = Instant::now();
        for (link, reporter) in self.shared.gateway.links().iter().zip(&mut self.path_reporters) {
            let path = PathState {
                up_since: self.shared.up_since(link.peer()),
                unanswered: link.is_unanswered(),
                frames: link.counters().frames_out.packets.get(),
                split: link.counters().split.get(),
            };
            let (peer, mtu) = (self.shared.name(link.peer()), link.mtu());
            for report in reporter.due_reports(now, &path) {
                match report.is_warning() {
                    true => tracing::warn!(peer, mtu, "{report}"),
                    false => tracing::info!(peer, mtu, "{report}"),
                }
            }
        }
    }

    /// Gives a task to the first thread.
    fn queue_task(&self, task: Task) {
        if !self.task_queues[0].push(task) {
            self.shared.gateway.counters().drops.increment(Reason::Full);
        }
    }

    fn log_event(&mut self, event: Event) {
        let name = |peer| self.shared.name(peer);
        match event {
            Event::Up(peer, epoch) => tracing::info!(peer = name(peer), epoch, "new keys"),
            Event::Incompatible(peer, scheme, version) => {
                let what = "the peer's configuration has another scheme; both need the same one";
                tracing::error!(peer = name(peer), %scheme, version, "{what}");
            }
            // Without a channel the peer is down, and its MTU is of little interest.
            Event::Mtu(peer, bytes) if !self.shared.is_up(peer) => {
                tracing::debug!(peer = name(peer), bytes, "the path's MTU");
            }
            Event::Mtu(peer, bytes) => {
                tracing::info!(peer = name(peer), bytes, "the path's MTU");
            }
            // A warning follows once the channel has been up for a while.
            Event::Unanswered(peer) => {
                tracing::debug!(peer = name(peer), "the tunnel is not answered");
            }
            Event::Answered(peer) => {
                tracing::debug!(peer = name(peer), "the tunnel is answered again");
            }
            Event::SecondGateway(id) => {
                let before = self.other_gateway.replace((id, Instant::now()));
                if before.is_none_or(|(known, _)| known != id) {
                    let key = crate::identity::PublicKey::from_bytes(id.0);
                    let peers = &self.shared.config.peers;
                    let peer = peers.iter().find(|peer| peer.known_by().id() == id);
                    let key = match (peer, key) {
                        (Some(peer), _) => peer.known_by().to_string(),
                        (None, Some(key)) => key.to_string(),
                        (None, None) => "unknown".to_owned(),
                    };
                    let yields = self.shared.gateway.is_yielding(self.clock.now());
                    tracing::error!(key, yields, "another gateway is on this LAN");
                }
            }
            other => tracing::info!(?other, "an event without a text"),
        }
    }
}

/// Resolves the names of endpoints, at the start and then periodically.
async fn resolve(shared: Arc<GatewayShared>) {
    let mut tasks = JoinSet::new();
    for (at, peer) in shared.config.peers.iter().enumerate() {
        let Some(endpoint) = peer.endpoint.clone() else { continue };
        let (shared, name) = (Arc::clone(&shared), peer.name.clone());
        // Each name has its own task, since one that cannot be resolved takes long.
        tasks.spawn(async move {
            let mut every = tokio::time::interval(RESOLVE_INTERVAL);
            loop {
                every.tick().await;
                match tokio::net::lookup_host(&endpoint).await {
                    Ok(found) => shared.note_resolved(at, found),
                    Err(error) => {
                        tracing::warn!(peer = name, endpoint, %error, "name not resolved");
                    }
                }
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Identity;
    use lightseal_core::Decode;
    use lightseal_macsec::Header;
    use lightseal_net::Clock;
    use lightseal_packet_io::{Pool, PoolSettings, memory};
    use std::net::{SocketAddr, TcpListener};
    use zeroize::Zeroizing;

    /// A gateway with this seed, whose only peer is the other gateway, over ports in memory.
    fn running(
        seed: u8,
        listeners: &[TcpListener; 2],
        network: &memory::MemoryNetwork,
    ) -> RunningGateway {
        let own = usize::from(seed - 1);
        let [near, far]: [SocketAddr; 2] =
            [own, 1 - own].map(|at| listeners[at].local_addr().unwrap());
        let identity = |seed| Identity::from_seed(Zeroizing::new([seed; 32]));
        let config = format!(
            "[gateway]\nname = \"g{seed}\"\nidentity = \"unused\"\nscheme = \"sealed\"\n\
             compress = true\nmka = \"management\"\n[lan]\ninterface = \"lan\"\n\
             [underlay]\nlisten = \"{near}\"\n[[peer]]\nname = \"other\"\n\
             public_key = \"{}\"\nendpoint = \"{far}\"\n",
            identity(3 - seed).public_key()
        );
        let host_state = HostState {
            credential: identity(seed).into(),
            clock: Clock::start(),
            lan_address: [2, 0, 0, 0, 0, seed],
            io: String::new(),
            programs: [None, None],
            management: listeners[own].try_clone().unwrap(),
            started: Instant::now(),
            port_counters: Vec::new(),
            make_scheme: None,
        };
        let ports = Ports {
            pool: Pool::new(PoolSettings::new(4096, 64)).unwrap(),
            lan: Box::new(memory::lan(64).0),
            underlay: Box::new(network.attach(near)),
            counters: Arc::default(),
        };
        let config = Config::parse("test", &config).unwrap();
        let prepared = PreparedGateway::new(&host_state, &host_state.credential, config).unwrap();
        prepared.start(vec![ports]).unwrap()
    }

    /// The header of a frame of the flow with this number.
    fn header(flow: u16) -> Header {
        let [a, b] = flow.to_be_bytes();
        let source = [2, 0, 0, 1, a, b];
        let tag = [0x88, 0xe5, 0x2c, 0, 0, 0, 0, 1];
        let sci = [&source[..], &[0, 1]].concat();
        let bytes = [&[2, 0, 0, 2, 0, 1][..], &source, &tag, &sci].concat();
        Header::decode(&bytes).unwrap()
    }

    /// Runs both gateways until `is_reached`.
    async fn run(
        pair: &mut [RunningGateway; 2],
        is_reached: impl Fn(&[RunningGateway; 2]) -> bool,
    ) {
        let until = Instant::now() + Duration::from_secs(60);
        while !is_reached(pair) {
            let [one, other] = &mut *pair;
            tokio::select! {
                stepped = one.step() => stepped.unwrap(),
                stepped = other.step() => stepped.unwrap(),
            }
            assert!(Instant::now() < until);
        }
    }

    #[tokio::test]
    async fn a_peer_that_makes_no_sense_is_cut_off_and_heard_when_it_comes_again() {
        let listeners = [0, 1].map(|_| channel::listen(([127, 0, 0, 1], 0).into()).unwrap());
        let network = memory::MemoryNetwork::new(1472, 64);
        let mut pair = [1, 2].map(|seed| running(seed, &listeners, &network));
        let are = |pair: &[RunningGateway; 2], up, epoch| {
            let stands = |running: &RunningGateway| {
                let status = running.shared.status();
                status.peers[0].up == up && status.peers[0].epoch == Some(epoch)
            };
            pair.iter().all(stands)
        };
        for at in [0, 1] {
            run(&mut pair, |pair| are(pair, true, 1)).await;
            pair[0].rekey();
            run(&mut pair, |pair| are(pair, true, 2)).await;
            pair[at].sender.send(channel::PeerIndex(0), vec![99]).unwrap();
            // Both continue with their present keys until they agree on new ones.
            run(&mut pair, |pair| are(pair, false, 2)).await;
            let status = pair[1 - at].shared.status();
            assert!(
                status.peers[0].why_down.as_ref().is_some_and(|why| why.contains("message type"))
            );
        }
        run(&mut pair, |pair| are(pair, true, 1)).await;
        for running in pair {
            running.end().await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_burst_of_flows_and_a_flood_of_mka_lose_no_message() {
        const FLOWS: u16 = 1000;
        const PEER: PeerIndex = PeerIndex(0);
        let listeners = [0, 1].map(|_| channel::listen(([127, 0, 0, 1], 0).into()).unwrap());
        let network = memory::MemoryNetwork::new(1472, 64);
        let (mut one, mut other) =
            (running(1, &listeners, &network), running(2, &listeners, &network));
        let mut mka =
            [&[1, 0x80, 0xc2, 0, 0, 3][..], &[2; 6], &[0x88, 0x8e, 3, 5], &[7; 1000]].concat();
        let gateways = [&one, &other].map(|running| Arc::clone(&running.shared.gateway));
        let until = Instant::now() + Duration::from_secs(60);
        let mut rounds = 0;
        loop {
            tokio::select! {
                stepped = one.step() => stepped.unwrap(),
                stepped = other.step() => stepped.unwrap(),
            }
            let are_up = gateways.iter().all(|gateway| {
                gateway.links().get(PEER).and_then(lightseal_gateway::link::Link::epoch).is_some()
            });
            if are_up {
                rounds += 1;
                for (running, gateway) in [&one, &other].into_iter().zip(&gateways) {
                    let now = running.clock.now();
                    for number in rounds * 300..(rounds + 1) * 300_u32 {
                        // Every frame is different.
                        mka[100..104].copy_from_slice(&number.to_be_bytes());
                        let _dropped = gateway.route_frame(now, &mka);
                    }
                    // Each flow is used again and again, so that none expires on a slow machine.
                    for flow in (0..FLOWS).filter(|_| rounds % 50 == 1) {
                        gateway.scheme().flow_table().unwrap().send_form(now, PEER, &header(flow));
                    }
                }
            }
            let known = gateways.iter().all(|gateway| {
                (0..FLOWS).all(|flow| gateway.scheme().is_flow_known(PEER, &header(flow)))
            });
            if known && rounds > 100 {
                break;
            }
            let flows = || gateways.each_ref().map(|gateway| gateway.scheme().flow_counts());
            assert!(Instant::now() < until, "{:?} after {rounds} rounds", flows());
        }
        for running in [one, other] {
            let status = running.shared.status();
            assert!(status.peers[0].up && status.peers[0].epoch == Some(1), "{:?}", status.peers);
            running.end().await.unwrap();
        }
    }

    #[test]
    fn a_queue_that_ends_with_an_error_or_a_panic_says_so() {
        type Work = fn() -> (u8, io::Result<()>);
        let ends: [Work; 3] = [
            || (1, Ok(())),
            || (2, Err(io::ErrorKind::NotConnected.into())),
            || panic!("on purpose"),
        ];
        let ended = ends.map(|work| {
            let (failed, mut failures) = mpsc::channel(1);
            // The sender of another thread stays open.
            let _other = failed.clone();
            let ports = start_queue(7, failed, work).unwrap().join();
            (ports.ok(), failures.try_recv().ok().map(|failure| failure.to_string()))
        });
        assert_eq!(ended[0], (Some(1), None));
        assert!(
            matches!(&ended[1], (Some(2), Some(why)) if why.starts_with("queue 7: ")),
            "{ended:?}"
        );
        assert_eq!(ended[2], (None, Some("the thread of a queue has panicked".to_owned())));
    }
}
