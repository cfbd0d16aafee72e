//! A gateway that runs: sockets, a thread a queue, and one task for all that is not a frame.
//!
//! ```text
//!  LAN ── PacketPort ─┐                      ┌─ UdpUnderlay ── peers' tunnels
//!                     ├─ Worker (a thread) ──┤
//!  LAN ── PacketPort ─┘   Arc<Gateway>       └─ UdpUnderlay
//!                             │
//!                    Control (one task) ── Channel ── peers' management
//!                             └─ status, metrics
//! ```
//!
//! Order matters at the start: sockets are opened, privileges are given up, and only then are
//! threads started and peers heard.

mod engine;
mod mailbox;
mod ports;
mod standing;
mod worker;

use crate::channel::{self, Channel, Event as ChannelEvent};
use crate::config::Config;
use crate::identity::Identity;
use crate::privileges::{self, Keep, User};
use crate::service_manager::{self, Notice};
use crate::status::{self, Request, Standing};
use crate::{OneLine, metrics};
use gateway::bridge::PeerIndex;
use gateway::control::{Control, Event, Output};
use gateway::gateway::Gateway;
use gateway::keys::GatewayId;
use mailbox::{Errand, Mailbox};
use net::Clock;
use packet_io::xdp::Attachment;
use ports::Opened;
use standing::{About, standing};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use worker::Worker;

/// Names are resolved again so often.
const RESOLVE: Duration = Duration::from_secs(60);
/// Timers are looked at so often.
const TICK: Duration = Duration::from_millis(100);

/// A gateway whose sockets are open.
pub struct Host {
    config: Config,
    identity: Identity,
    gateway: Arc<Gateway>,
    control: Control,
    workers: Vec<Worker>,
    mailbox: Arc<Mailbox>,
    clock: Clock,
    io: String,
    programs: [Option<Attachment>; 2],
    management: std::net::TcpListener,
    status: tokio::net::UnixListener,
    metrics: Option<tokio::net::TcpListener>,
}

/// The management channels, as they stand.
struct Channels(Vec<ChannelState>);

#[derive(Clone, Debug)]
struct ChannelState {
    up: bool,
    since: Instant,
    why_down: Option<String>,
}

impl Host {
    /// Opens all sockets. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// What is missing, in use or not allowed.
    pub async fn open(config: Config, identity: Identity) -> Result<Self, OneLine> {
        if config.peers.len() > gateway::set::PeerSet::MOST {
            return Err(OneLine::new("a gateway has at most 256 peers"));
        }
        let clock = Clock::start();
        let mut random = crate::os_random()
            .map_err(|error| OneLine::of("randomness of the operating system", error))?;
        let opened = ports::open(&config)?;
        let gateway = Arc::new(Gateway::new(
            engine::settings(&config, &identity, opened.interface.mac),
            engine::links(&config),
            engine::scheme(&config, &mut random, clock.now()),
            &mut random,
            clock.now(),
        ));
        let provider = &macsec_aws_lc::PROVIDER;
        let control =
            Control::new(Arc::clone(&gateway), provider, engine::timing(&config), random.fork());
        let mailbox = Mailbox::new().map_err(|error| OneLine::of("an event descriptor", error))?;
        let mailbox = Arc::new(mailbox);
        let io = opened.describe();
        let programs = opened.programs.clone();
        let workers = workers(opened, &gateway, &mailbox, clock)?;
        let listen = config.underlay.listen;
        let management = channel::listen(listen)
            .map_err(|error| OneLine::of(format_args!("TCP port {listen}"), error))?;
        let state = config.state();
        let status = status::listen(&state)
            .map_err(|error| OneLine::of(format_args!("socket in {}", state.display()), error))?;
        let metrics = match &config.metrics {
            Some(metrics) => {
                Some(tokio::net::TcpListener::bind(metrics.listen).await.map_err(|error| {
                    OneLine::of(format_args!("metrics on {}", metrics.listen), error)
                })?)
            }
            None => None,
        };
        Ok(Self {
            config,
            identity,
            gateway,
            control,
            workers,
            mailbox,
            clock,
            io,
            programs,
            management,
            status,
            metrics,
        })
    }

    /// How frames and datagrams come and go.
    pub fn io(&self) -> &str {
        &self.io
    }

    /// Gives up all rights that open sockets do not need. To be called before [`serve`](Self::serve),
    /// while the process has one thread.
    ///
    /// # Errors
    /// The operating system refuses, or there is no such user.
    pub fn drop_privileges(&self) -> Result<(), OneLine> {
        let user = self.config.gateway.user.as_deref().map(User::named).transpose()?;
        privileges::drop_to(user, Keep::Nothing)
    }

    /// Carries frames until `until` is ready.
    ///
    /// # Errors
    /// A socket or an interface is lost.
    pub async fn serve(self, until: impl Future<Output = ()>) -> Result<(), OneLine> {
        let random = crate::os_random()
            .map_err(|error| OneLine::of("randomness of the operating system", error))?;
        let channel_settings = channel::Settings::from_config(&self.config, self.identity.clone());
        let (channel, sender, events) = Channel::new(self.management, channel_settings, random)?;
        let (end_channel, channel_ends) = oneshot::channel::<()>();
        let channel = tokio::spawn(channel.run(async {
            let _ended = channel_ends.await;
        }));
        let stop = Arc::new(AtomicBool::new(false));
        let (failed, failures) = mpsc::channel(1);
        let busy_wait = Duration::from_micros(self.config.lan.busy_wait_us.into());
        let threads = start(self.workers, busy_wait, &stop, &failed)?;
        let started = Instant::now();
        let state = ChannelState { up: false, since: started, why_down: None };
        let keeper = Arc::new(Keeper {
            channels: Mutex::new(Channels(vec![state; self.config.peers.len()])),
            public_key: self.identity.public_key(),
            gateway: self.gateway,
            config: self.config,
            io: self.io,
            programs: self.programs,
            started,
        });
        let (commands, requests) = mpsc::channel(4);
        let answering = tokio::spawn(status::serve(self.status, answerer(&keeper, commands)));
        let counting = self.metrics.map(|listener| {
            let keeper = Arc::clone(&keeper);
            tokio::spawn(metrics::serve(listener, move || (&keeper.standing()).into()))
        });
        let resolving = tokio::spawn(resolve(Arc::clone(&keeper)));
        let socket = status::socket(&keeper.config.state());
        let manager = Manager {
            control: self.control,
            clock: self.clock,
            mailbox: self.mailbox,
            sender,
            keeper,
        };
        let _not_under_systemd = service_manager::notify(&Notice::Ready);
        let outcome = manager.run(events, requests, failures, until).await;
        let _not_under_systemd = service_manager::notify(&Notice::Stopping);
        stop.store(true, Ordering::Relaxed);
        let _gone = end_channel.send(());
        let _ended = channel.await;
        resolving.abort();
        answering.abort();
        if let Some(counting) = counting {
            counting.abort();
        }
        for thread in threads {
            let _panicked = thread.join();
        }
        let _gone_already = std::fs::remove_file(socket);
        outcome
    }
}

/// What tasks share to say how the gateway stands.
struct Keeper {
    config: Config,
    public_key: crate::identity::PublicKey,
    gateway: Arc<Gateway>,
    channels: Mutex<Channels>,
    io: String,
    programs: [Option<Attachment>; 2],
    started: Instant,
}

impl Keeper {
    fn standing(&self) -> Standing {
        let channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        standing(&About {
            config: &self.config,
            public_key: self.public_key,
            gateway: &self.gateway,
            channels: &channels,
            started: self.started,
            now: Instant::now(),
            io: &self.io,
            passed: self.programs[0].as_ref().map_or(0, |program| program.passed().foreign),
        })
    }

    fn note(&self, peer: usize, up: bool, why: Option<String>) {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(state) = channels.0.get_mut(peer) {
            if state.up != up {
                state.since = Instant::now();
            }
            state.up = up;
            state.why_down = why;
        }
    }

    fn name(&self, peer: PeerIndex) -> &str {
        self.config.peers.get(usize::from(peer.0)).map_or("?", |peer| &peer.name)
    }
}

/// What an administrator wants done.
enum Command {
    Rekey,
}

fn answerer(
    keeper: &Arc<Keeper>,
    commands: mpsc::Sender<Command>,
) -> impl Fn(Request) -> std::future::Ready<Result<serde_json::Value, String>> + Send + Sync + 'static
{
    let keeper = Arc::clone(keeper);
    move |request| {
        std::future::ready(match request {
            Request::Status => {
                serde_json::to_value(keeper.standing()).map_err(|error| error.to_string())
            }
            Request::Rekey => match commands.try_send(Command::Rekey) {
                Ok(()) => Ok(serde_json::Value::Null),
                Err(_) => Err("it is busy".to_owned()),
            },
            Request::Reload => Err("start it again instead: frames wait less than a second".into()),
        })
    }
}

/// Brings the engine's control path together with channels, threads and whoever asks.
struct Manager {
    control: Control,
    clock: Clock,
    mailbox: Arc<Mailbox>,
    sender: channel::Sender,
    keeper: Arc<Keeper>,
}

impl Manager {
    async fn run(
        mut self,
        mut events: mpsc::Receiver<ChannelEvent>,
        mut requests: mpsc::Receiver<Command>,
        mut failures: mpsc::Receiver<OneLine>,
        until: impl Future<Output = ()>,
    ) -> Result<(), OneLine> {
        let mut tick = tokio::time::interval(TICK);
        tokio::pin!(until);
        loop {
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => self.channel(event),
                    None => return Err(OneLine::new("the management channel has ended")),
                },
                Some(Command::Rekey) = requests.recv() => self.control.rekey(),
                Some(failure) = failures.recv() => return Err(failure),
                _ = tick.tick() => self.control.handle_timeout(self.clock.now()),
                () = &mut until => return Ok(()),
            }
            while let Some(output) = self.control.poll(self.clock.now()) {
                self.act(output);
            }
        }
    }

    fn channel(&mut self, event: ChannelEvent) {
        let now = self.clock.now();
        let index = |peer: channel::PeerIndex| PeerIndex(peer.0 as u8);
        match event {
            ChannelEvent::Up { peer, exporter, remote, .. } => {
                self.keeper.note(peer.0, true, None);
                tracing::info!(peer = self.keeper.name(index(peer)), %remote, "channel is up");
                self.control.handle_up(now, index(peer), *exporter);
            }
            ChannelEvent::Message { peer, bytes } => {
                self.control.handle_message(now, index(peer), &bytes);
                // It may have let go what was held.
                self.mailbox.ring();
            }
            ChannelEvent::Down { peer, why } => {
                tracing::warn!(peer = self.keeper.name(index(peer)), %why, "channel is down");
                self.keeper.note(peer.0, false, Some(why.to_string()));
                self.control.handle_down(now, index(peer));
            }
            ChannelEvent::NotReached { peer, why } => {
                tracing::debug!(peer = self.keeper.name(index(peer)), %why, "not reached");
                self.keeper.note(peer.0, false, Some(why.to_string()));
            }
        }
    }

    fn act(&mut self, output: Output) {
        match output {
            Output::Message(peer, bytes) => {
                // A peer that reads too slowly, or is gone, is told all when it comes again.
                let _gone = self.sender.send(channel::PeerIndex(peer.0.into()), bytes);
            }
            Output::Datagram(peer, kind, content) => {
                self.mailbox.leave(Errand::Datagram(peer, kind, content));
            }
            Output::Frame(frame) => {
                self.mailbox.leave(Errand::Frame(frame));
            }
            Output::Close(peer, error) => {
                tracing::error!(peer = self.keeper.name(peer), %error, "the peer makes no sense");
                self.keeper.note(peer.0.into(), false, Some(error.to_string()));
            }
            Output::Event(event) => self.tell(event),
        }
    }

    fn tell(&self, event: Event) {
        let name = |peer| self.keeper.name(peer);
        match event {
            Event::Up(peer, epoch) => tracing::info!(peer = name(peer), epoch, "new keys"),
            Event::Incompatible(peer, scheme, version) => {
                tracing::error!(peer = name(peer), %scheme, version, "set to something else");
            }
            Event::Mtu(peer, bytes) => {
                tracing::info!(peer = name(peer), bytes, "the path's MTU");
            }
            Event::SecondGateway(GatewayId(id)) => {
                let key = crate::identity::PublicKey::from_bytes(id);
                let key = key.map_or_else(|| "unknown".to_owned(), |key| key.to_string());
                tracing::error!(key, "another gateway is on this LAN: frames may go in circles");
            }
        }
    }
}

fn start(
    workers: Vec<Worker>,
    busy_wait: Duration,
    stop: &Arc<AtomicBool>,
    failed: &mpsc::Sender<OneLine>,
) -> Result<Vec<JoinHandle<()>>, OneLine> {
    let thread = |(at, worker): (usize, Worker)| {
        let (stop, failed) = (Arc::clone(stop), failed.clone());
        thread::Builder::new().name(format!("queue {at}")).spawn(move || {
            if let Err(error) = worker.run(&stop, busy_wait) {
                let _ending = failed.try_send(OneLine::of(format_args!("queue {at}"), error));
            }
        })
    };
    let threads = workers.into_iter().enumerate().map(thread);
    threads.collect::<Result<_, _>>().map_err(|error| OneLine::of("a thread", error))
}

fn workers(
    opened: Opened,
    gateway: &Arc<Gateway>,
    mailbox: &Arc<Mailbox>,
    clock: Clock,
) -> Result<Vec<Worker>, OneLine> {
    let mut workers = Vec::new();
    for (lane, ports) in opened.threads.into_iter().enumerate() {
        // Errands are the first thread's: the others have a mailbox that stays empty.
        let mailbox = match lane {
            0 => Arc::clone(mailbox),
            _ => {
                Arc::new(Mailbox::new().map_err(|error| OneLine::of("an event descriptor", error))?)
            }
        };
        let ports::Ports { pool, lan, underlay } = ports;
        let gateway = Arc::clone(gateway);
        workers.push(Worker::new(gateway, lane as u8, pool, lan, underlay, mailbox, clock));
    }
    Ok(workers)
}

/// Finds out where peers with a name are, at the start and again and again.
async fn resolve(keeper: Arc<Keeper>) {
    let mut every = tokio::time::interval(RESOLVE);
    let v6 = keeper.config.underlay.listen.is_ipv6();
    loop {
        every.tick().await;
        for (link, peer) in keeper.gateway.links.iter().zip(&keeper.config.peers) {
            let Some(endpoint) = &peer.endpoint else { continue };
            match tokio::net::lookup_host(endpoint).await {
                Ok(mut found) => {
                    let usable = |address: &SocketAddr| v6 || address.is_ipv4();
                    if let Some(address) = found.find(usable) {
                        link.set_address(Some(address));
                    }
                }
                Err(error) => tracing::warn!(peer = peer.name, endpoint, %error, "no address"),
            }
        }
    }
}
