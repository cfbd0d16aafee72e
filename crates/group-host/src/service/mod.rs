//! The controller as a service: devices come over DTLS with mutual authentication, an administrator
//! over a socket of the machine, and the groups hear rekeys by multicast.

mod admin;
mod credentials;
mod registry;
mod request;

pub use admin::{AskError, ask, serve};
pub use credentials::{Credentials, Devices, Proven};
pub(crate) use credentials::{harden, own_identity};
pub use registry::{Refusal, Registry};
pub use request::{
    AdminRequest, Create, CreateText, Described, DescribedDevice, DescribedMember, Enrol, suites,
};

use dtls::{CloseReason, Endpoint, EndpointEvent, Event, Handle};
use group::GroupId;
use group::control::Asked;
use group::controller::Output;
use net::multicast::{self, Interface};
use net::tokio::{Driver, Host};
use net::{Clock, RateLimitedLog, socket};
use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UdpSocket, UnixListener};
use tokio::sync::Notify;
use vocabulary::{Instant, Random};

/// How often associations are looked at for silence.
const SWEEP: Duration = Duration::from_secs(1);
/// Devices that say nothing for so long are let go: they come back with a handshake.
const IDLE: Duration = Duration::from_secs(120);
/// Requests of an association that may wait for their answers at once.
const MOST_ASKED: usize = 16;

/// How a controller is reached.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where devices come to.
    pub listen: SocketAddr,
    /// The interface that groups are on.
    pub interface: Interface,
    /// How many hops multicast takes.
    pub hops: u8,
    /// Whether devices may come that speak version 1 of the control protocol.
    pub allow_version_1: bool,
    /// Whether devices are believed which address they have in groups of `axiom-1.2`. Otherwise it
    /// is the one that they speak to the controller from.
    pub trust_addresses: bool,
}

/// A running controller.
pub struct Service {
    driver: Arc<Driver<Endpoint, Desk>>,
    admin: UnixListener,
    changed: Arc<Notify>,
}

/// What stands between devices and groups.
struct Desk {
    registry: Registry,
    options: Options,
    peers: BTreeMap<Handle, Peer>,
    /// The association that each device spoke through last.
    speaks: BTreeMap<String, Handle>,
    sockets: BTreeMap<GroupId, (UdpSocket, SocketAddr)>,
    unwelcome: Vec<Handle>,
    changed: Arc<Notify>,
    logs: Logs,
}

/// What devices and strangers can have logged, each kind limited in rate.
#[derive(Default)]
struct Logs {
    handshakes: RateLimitedLog,
    answers: RateLimitedLog,
    conflicts: RateLimitedLog,
}

struct Peer {
    device: String,
    by_token: bool,
    /// Numbers of its last requests: of two copies of a device each gets its own answers.
    asked: VecDeque<u32>,
    active_at: Instant,
}

impl Host<Endpoint> for Desk {
    fn event(&mut self, now: Instant, event: EndpointEvent<'_>) {
        let EndpointEvent { handle, peer: address, event } = event;
        match event {
            Event::Connected(negotiated) => match self.registry.devices().device(&negotiated) {
                Some(Proven { device, by_token }) => {
                    tracing::debug!("{address}: device {device:?}");
                    let asked = VecDeque::new();
                    self.peers.insert(handle, Peer { device, by_token, asked, active_at: now });
                }
                None => self.unwelcome.push(handle),
            },
            Event::Data(request) => {
                let Some(peer) = self.peers.get_mut(&handle) else { return };
                peer.active_at = now;
                if !self.registry.devices().read().contains_key(&peer.device) {
                    return self.unwelcome.push(handle);
                }
                if let Some((_, number)) = Asked::head(request) {
                    peer.asked.truncate(MOST_ASKED - 1);
                    peer.asked.push_front(number);
                }
                self.speaks.insert(peer.device.clone(), handle);
                if peer.by_token {
                    self.registry.handle_by_token(now, &peer.device, address.ip(), request);
                } else {
                    self.registry.handle_from(now, &peer.device, address.ip(), request);
                }
                self.changed.notify_one();
            }
            Event::Closed(reason) => {
                if let Some(Peer { device, .. }) = self.peers.remove(&handle) {
                    if self.speaks.get(&device) == Some(&handle) {
                        self.speaks.remove(&device);
                    }
                    tracing::debug!("{address}: device {device:?}: {reason}");
                } else if !matches!(reason, CloseReason::Local | CloseReason::Peer)
                    && let Some(count) = self.logs.handshakes.due()
                {
                    tracing::info!(
                        "{address}: no association: {reason} ({count} since the last line)"
                    );
                }
            }
            _ => {}
        }
    }

    fn drained(&mut self, now: Instant, endpoint: &mut Endpoint) -> bool {
        let mut called = false;
        while let Some((group, output)) = self.registry.poll() {
            match output {
                Output::Multicast(datagram) => self.announce(group, &datagram),
                Output::Answer { device, answer } => {
                    let Some(handle) = self.asker(&device, &answer) else { continue };
                    called = true;
                    if let Err(error) = endpoint.send(handle, now, &answer)
                        && let Some(count) = self.logs.answers.due()
                    {
                        tracing::warn!("device {device:?}: {error} ({count} since the last line)");
                    }
                }
                Output::Clone { device, reason } => {
                    self.registry.note_clone(&group, &device, reason);
                }
                Output::Unfit(device) => {
                    tracing::debug!("group {group}: device {device:?} asks what cannot be taken");
                }
                Output::Conflict(device) => {
                    if let Some(count) = self.logs.conflicts.due() {
                        tracing::warn!(
                            "group {group}: {device:?} says that another has its SenderID ({count} \
                             since the last line)"
                        );
                    }
                }
            }
        }
        for handle in self.unwelcome.drain(..) {
            called = true;
            endpoint.close(handle, now);
        }
        called
    }
}

impl Desk {
    /// The association that an answer belongs to.
    fn asker(&self, device: &str, answer: &[u8]) -> Option<Handle> {
        let (_, number) = Asked::head(answer)?;
        let asked = |peer: &Peer| peer.device == device && peer.asked.contains(&number);
        let last = self.speaks.get(device).copied();
        if last.and_then(|handle| self.peers.get(&handle)).is_some_and(asked) {
            return last;
        }
        self.peers.iter().find(|(_, peer)| asked(peer)).map(|(handle, _)| *handle)
    }

    fn announce(&mut self, group: GroupId, datagram: &[u8]) {
        if let Err(error) = self.try_announce(group, datagram) {
            // Members that miss it ask.
            tracing::warn!("group {group}: {error}");
            self.sockets.remove(&group);
        }
    }

    fn try_announce(&mut self, group: GroupId, datagram: &[u8]) -> io::Result<()> {
        let address = self.registry.addresses().find(|(id, _)| *id == group);
        let Some((_, address)) = address else { return Ok(()) };
        if !self.sockets.contains_key(&group) {
            let Options { listen, ref interface, hops, .. } = self.options;
            let local: IpAddr = match (address, listen.ip()) {
                (SocketAddr::V4(_), IpAddr::V4(ip)) => ip.into(),
                (SocketAddr::V4(_), _) => Ipv4Addr::UNSPECIFIED.into(),
                (SocketAddr::V6(_), IpAddr::V6(ip)) => ip.into(),
                (SocketAddr::V6(_), _) => Ipv6Addr::UNSPECIFIED.into(),
            };
            let socket = multicast::send_from(SocketAddr::new(local, 0), interface, hops)?;
            self.sockets.insert(group, (socket, address));
        }
        let Some((socket, address)) = self.sockets.get(&group) else { return Ok(()) };
        // Past the runtime, which has not heard yet that a fresh socket is writable.
        socket2::SockRef::from(socket).send_to(datagram, &(*address).into())?;
        Ok(())
    }

    /// Lets go who has been silent for long, and who may not come any more.
    fn sweep(&mut self, now: Instant) {
        let devices = self.registry.devices().read();
        let ends =
            |peer: &Peer| now - peer.active_at >= IDLE || !devices.contains_key(&peer.device);
        let ending = self.peers.iter().filter(|(_, peer)| ends(peer)).map(|(handle, _)| *handle);
        self.unwelcome.extend(ending);
    }
}

/// Why a controller does not start.
#[derive(Debug)]
pub enum StartError {
    /// Its groups or store.
    Registry(Refusal),
    /// Its socket for devices.
    Listen(SocketAddr, io::Error),
    /// The administrator's door.
    Admin(io::Error),
    /// Cryptography or randomness.
    Config(dtls::ConfigError),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Registry(refusal) => refusal.fmt(f),
            Self::Listen(address, error) => write!(f, "cannot listen on {address}: {error}"),
            Self::Admin(error) => write!(f, "the administrator's socket: {error}"),
            Self::Config(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

impl Service {
    /// A controller of what `directory` holds.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(directory: &Path, options: Options, mut rng: Random) -> Result<Self, StartError> {
        let clock = Clock::start();
        let store = crate::store::ControllerStore::open(directory);
        let store = store.map_err(|error| StartError::Registry(error.into()))?;
        let registry = Registry::open(store, clock.now(), rng.fork());
        let mut registry = registry.map_err(StartError::Registry)?;
        registry.trust_addresses(options.trust_addresses);
        let config = Arc::clone(registry.devices()).server().map_err(StartError::Config)?;
        let endpoint =
            Endpoint::server(Arc::new(config), rng.fork()).map_err(StartError::Config)?;
        if options.allow_version_1 {
            registry.allow_version_1();
        }
        let listen = options.listen;
        let socket = socket::bind(listen).map_err(|error| StartError::Listen(listen, error))?;
        let admin = admin::listen(directory).map_err(StartError::Admin)?;
        registry.begin_anew(clock.now()).map_err(StartError::Registry)?;
        let changed = Arc::new(Notify::new());
        let desk = Desk {
            registry,
            options,
            peers: BTreeMap::new(),
            speaks: BTreeMap::new(),
            sockets: BTreeMap::new(),
            unwelcome: Vec::new(),
            changed: Arc::clone(&changed),
            logs: Logs::default(),
        };
        let driver = Arc::new(Driver::new(socket, clock, endpoint, desk));
        Ok(Self { driver, admin, changed })
    }

    /// Where devices come to.
    ///
    /// # Errors
    /// The operating system's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.driver.socket().local_addr()
    }

    /// Serves until something fails that cannot be.
    ///
    /// # Errors
    /// A socket's, or a group's store has failed.
    pub async fn run(&self) -> io::Result<()> {
        tokio::select! {
            ended = self.driver.run() => ended,
            ended = self.keep_time() => ended,
            never = self.attend() => match never {},
        }
    }

    /// Ends all associations in good order.
    pub fn close(&self) {
        self.driver.call(|endpoint, _, now| endpoint.close_all(now));
    }

    async fn keep_time(&self) -> io::Result<()> {
        let mut sweep_at = self.driver.clock().now();
        loop {
            let (wake, failed) = self.driver.call(|_, desk, now| {
                desk.registry.handle_timeout(now);
                if now >= sweep_at {
                    desk.sweep(now);
                    sweep_at = now + SWEEP;
                }
                let failed =
                    desk.registry.failed().map(|name| format!("group {name}: store failed"));
                (desk.registry.wake_at().map_or(sweep_at, |at| at.min(sweep_at)), failed)
            });
            if let Some(failed) = failed {
                // What is in memory is not what is on disk: only a new start helps.
                return Err(io::Error::other(failed));
            }
            let wait = wake.saturating_since(self.driver.clock().now());
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    async fn attend(&self) -> Infallible {
        loop {
            let (stream, _) = match self.admin.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!("administrator: {error}");
                    // Out of descriptors, or it went away while it waited: neither for long.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let answer = |request| {
                let answer = self.driver.call(|_, desk, now| {
                    let answer = serve(&mut desk.registry, now, request);
                    // Before the name of who was revoked can be another's.
                    desk.sweep(now);
                    answer
                });
                self.changed.notify_one();
                answer
            };
            // One at a time: they are few and quick, but none may stand in the door.
            let patience = Duration::from_secs(5);
            match tokio::time::timeout(patience, admin::attend(stream, answer)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!("administrator: {error}"),
                Err(_) => tracing::debug!("administrator: too slow"),
            }
        }
    }
}
