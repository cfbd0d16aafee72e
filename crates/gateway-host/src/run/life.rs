//! A gateway from one reading of its configuration to the next: an engine, channels and threads.
//!
//! Its ports are lent to it, and given back when the configuration is read again: what arrives
//! meanwhile waits in their queues.

use super::engine;
use super::keeper::Keeper;
use super::mailbox::{Errand, Mailbox};
use super::ports::Ports;
use super::tally::Tally;
use super::worker::Worker;
use crate::OneLine;
use crate::channel::{self, Channel, Event as ChannelEvent};
use crate::config::Config;
use crate::identity::Identity;
use gateway::bridge::PeerIndex;
use gateway::control::{Control, Event, Output};
use gateway::gateway::Gateway;
use gateway::keys::GatewayId;
use net::Clock;
use packet_io::xdp::Attachment;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot};
use tokio::task;

/// Names are resolved again so often.
const RESOLVE: Duration = Duration::from_secs(60);
/// Timers are looked at so often.
const TICK: Duration = Duration::from_millis(100);

/// What outlives a reading of the configuration.
pub(super) struct Fixed {
    pub(super) identity: Identity,
    pub(super) clock: Clock,
    pub(super) lan_address: [u8; 6],
    pub(super) io: String,
    pub(super) programs: [Option<Attachment>; 2],
    pub(super) management: std::net::TcpListener,
    pub(super) started: Instant,
    pub(super) tallies: Vec<Arc<Tally>>,
}

/// An engine and its channels, ready for ports.
pub(super) struct Life {
    pub(super) keeper: Arc<Keeper>,
    control: Control,
    channel: Channel,
    sender: channel::Sender,
    events: mpsc::Receiver<ChannelEvent>,
    clock: Clock,
}

impl Life {
    /// Everything that can fail for what a configuration says.
    ///
    /// # Errors
    /// What is wrong with it, or missing.
    pub(super) fn new(fixed: &Fixed, config: Config) -> Result<Self, OneLine> {
        let mut random = crate::os_random()
            .map_err(|error| OneLine::of("randomness of the operating system", error))?;
        let now = fixed.clock.now();
        let gateway = Arc::new(Gateway::new(
            engine::settings(&config, &fixed.identity, fixed.lan_address),
            engine::links(&config),
            engine::scheme(&config, &mut random, now),
            &mut random,
            now,
        ));
        let provider = &macsec_aws_lc::PROVIDER;
        let timing = engine::timing(&config);
        let control = Control::new(Arc::clone(&gateway), provider, timing, random.fork());
        let settings = channel::Settings::from_config(&config, fixed.identity.clone());
        let management = fixed.management.try_clone();
        let management = management.map_err(|error| OneLine::of("management channel", error))?;
        let (channel, sender, events) = Channel::new(management, settings, random)?;
        let public_key = fixed.identity.public_key();
        let (io, programs) = (fixed.io.clone(), fixed.programs.clone());
        let (started, tallies) = (fixed.started, fixed.tallies.clone());
        let keeper = Keeper::new(config, public_key, gateway, io, programs, started, tallies);
        let keeper = Arc::new(keeper);
        Ok(Self { keeper, control, channel, sender, events, clock: fixed.clock })
    }

    /// Starts threads, with one set of ports each, and lets peers come.
    ///
    /// # Errors
    /// The operating system has no descriptor or thread left.
    pub(super) fn start(self, ports: Vec<Ports>) -> Result<Living, OneLine> {
        let Self { keeper, control, channel, sender, events, clock } = self;
        let (end_channel, channel_ends) = oneshot::channel::<()>();
        let channel = tokio::spawn(channel.run(async {
            let _ended = channel_ends.await;
        }));
        let mailboxes: Vec<_> = ports
            .iter()
            .map(|_| Mailbox::new().map(Arc::new))
            .collect::<Result<_, _>>()
            .map_err(|error| OneLine::of("an event descriptor", error))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (failed, failures) = mpsc::channel(1);
        let busy_wait = Duration::from_micros(keeper.config.lan.busy_wait_us.into());
        let mut threads = Vec::new();
        for (lane, (ports, mailbox)) in ports.into_iter().zip(&mailboxes).enumerate() {
            let gateway = Arc::clone(&keeper.gateway);
            let worker = Worker::new(gateway, lane as u8, ports, Arc::clone(mailbox), clock);
            let (stop, failed) = (Arc::clone(&stop), failed.clone());
            let named = thread::Builder::new().name(format!("queue {lane}"));
            let thread = named.spawn(move || {
                let (ports, ended) = worker.run(&stop, busy_wait);
                if let Err(error) = ended {
                    let _ending = failed.try_send(OneLine::of(format_args!("queue {lane}"), error));
                }
                ports
            });
            threads.push(thread.map_err(|error| OneLine::of("a thread", error))?);
        }
        let resolving = tokio::spawn(resolve(Arc::clone(&keeper)));
        let tick = tokio::time::interval(TICK);
        Ok(Living {
            keeper,
            control,
            clock,
            sender,
            events,
            failures,
            tick,
            mailboxes,
            stop,
            threads,
            channel,
            end_channel,
            resolving,
        })
    }
}

/// A gateway that carries. Brings the engine's control path together with channels and threads.
pub(super) struct Living {
    pub(super) keeper: Arc<Keeper>,
    control: Control,
    clock: Clock,
    sender: channel::Sender,
    events: mpsc::Receiver<ChannelEvent>,
    failures: mpsc::Receiver<OneLine>,
    tick: tokio::time::Interval,
    /// One a thread; errands are the first's.
    mailboxes: Vec<Arc<Mailbox>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Ports>>,
    channel: task::JoinHandle<()>,
    end_channel: oneshot::Sender<()>,
    resolving: task::JoinHandle<()>,
}

impl Living {
    /// Waits for something to do and does it. May be dropped between two things.
    ///
    /// # Errors
    /// A port or the management channel is lost.
    pub(super) async fn step(&mut self) -> Result<(), OneLine> {
        tokio::select! {
            event = self.events.recv() => match event {
                Some(event) => self.channel(event),
                None => return Err(OneLine::new("the management channel has ended")),
            },
            Some(failure) = self.failures.recv() => return Err(failure),
            _ = self.tick.tick() => self.control.handle_timeout(self.clock.now()),
        }
        self.attend();
        Ok(())
    }

    /// Agrees on new keys with all peers.
    pub(super) fn rekey(&mut self) {
        self.control.rekey();
        self.attend();
    }

    /// Ends channels and threads; their ports.
    ///
    /// # Errors
    /// A thread has panicked, and its ports are lost.
    pub(super) async fn end(self) -> Result<Vec<Ports>, OneLine> {
        self.stop.store(true, Ordering::Relaxed);
        for mailbox in &self.mailboxes {
            mailbox.ring();
        }
        let _gone = self.end_channel.send(());
        self.resolving.abort();
        let _ended = self.channel.await;
        let threads = self.threads;
        // They look at once whether they should stop, but one may be waiting for its core.
        let joined = task::spawn_blocking(|| {
            threads.into_iter().map(JoinHandle::join).collect::<Result<_, _>>().ok()
        });
        joined.await.ok().flatten().ok_or_else(|| OneLine::new("a queue's thread has panicked"))
    }

    fn attend(&mut self) {
        while let Some(output) = self.control.poll(self.clock.now()) {
            self.act(output);
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
                self.mailboxes[0].ring();
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
                self.mailboxes[0].leave(Errand::Datagram(peer, kind, content));
            }
            Output::Frame(frame) => {
                self.mailboxes[0].leave(Errand::Frame(frame));
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
