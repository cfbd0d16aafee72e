//! The controller as a service. Devices connect over DTLS with mutual authentication, an
//! administrator connects over a Unix socket of the machine, and rekeys are announced to the groups
//! by multicast.

mod admin;
mod announcer;
mod credentials;
mod devices;
mod metrics;
mod registry;
mod request;
#[cfg(test)]
mod tests;

pub use admin::{AskError, ask, serve};
pub use announcer::Announcements;
pub(crate) use credentials::link_settings;
pub use credentials::{AccessList, Credentials};
pub use devices::Devices;
pub(crate) use devices::own_identity;
pub use registry::{Refusal, Registry};
pub use request::{
    AdminRequest, CreateRequest, Described, DescribedDevice, DescribedMember, Enrol, NewToken,
    suites,
};

use announcer::Announcer;
use credentials::{AuthenticatedDevice, Authentication};
use lightseal_core::{Instant, Random};
use lightseal_dtls::{CloseReason, Endpoint, EndpointEvent, Event, Handle, Identity, PeerKey};
use lightseal_group::GroupId;
use lightseal_group::control::RequestMessage;
use lightseal_group::controller::Output;
use lightseal_net::address::Named;
use lightseal_net::multicast::Interface;
use lightseal_net::tokio::{Driver, EngineHost};
use lightseal_net::{Clock, RateLimitedLog, socket};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// The interval between two checks for idle associations.
const SWEEP: Duration = Duration::from_secs(1);
/// How long an association may be idle before it is closed. The device can connect again with a new
/// handshake.
const IDLE: Duration = Duration::from_secs(120);
/// The maximum number of requests of an association that may wait for their answers at the same
/// time.
const MOST_ASKED: usize = 16;

/// Whether a controller admits devices that speak version 1 of the control protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version1 {
    /// They are refused.
    #[default]
    Refused,
    /// They are admitted, although copies of such a device are not detected.
    Admitted,
}

/// What a controller does with the address that a device states in a join to a group of `axiom-1.2`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StatedAddress {
    /// It must be the address from which the device sends to the controller.
    #[default]
    MustBeSource,
    /// It is trusted, as is needed if a NAT is between devices and the controller.
    Trusted,
}

/// The settings of a controller's service.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Options {
    /// The UDP address that devices connect to.
    pub listen: SocketAddr,
    /// The network interface of the groups.
    pub interface: Interface,
    /// The hop limit of multicast datagrams.
    pub hops: u8,
    /// Whether devices that speak version 1 of the control protocol are admitted.
    pub version_1: Version1,
    /// What is done with the addresses that devices state.
    pub stated_address: StatedAddress,
    /// How devices and the controller authenticate each other, besides tokens.
    pub credentials: Credentials,
}

impl Options {
    /// A service at `listen` for groups on `interface`, whose multicast datagrams no router forwards.
    pub fn new(listen: SocketAddr, interface: Interface) -> Self {
        let (version_1, stated_address) = (Version1::default(), StatedAddress::default());
        let credentials = Credentials::default();
        Self { listen, interface, hops: 1, version_1, stated_address, credentials }
    }
}

/// A running controller.
pub struct Service {
    /// Its file is removed while the driver still locks the store: another controller makes its own
    /// after that.
    admin: admin::AdminSocket,
    driver: Arc<Driver<Endpoint, ControllerHost>>,
    changed: Arc<Notify>,
}

/// The host of the controller's DTLS endpoint, which connects devices with groups.
struct ControllerHost {
    registry: Registry,
    authentication: Arc<Authentication>,
    peers: BTreeMap<Handle, Peer>,
    /// The association over which each device sent its last request.
    speaks: BTreeMap<String, Handle>,
    announcer: Announcer,
    unwelcome: Vec<Handle>,
    changed: Arc<Notify>,
    logs: Logs,
    counters: metrics::Counters,
}

/// Logs of events that devices or strangers can cause, each limited in rate.
#[derive(Default)]
struct Logs {
    handshakes: RateLimitedLog,
    answers: RateLimitedLog,
    conflicts: RateLimitedLog,
}

struct Peer {
    known: AuthenticatedDevice,
    /// The numbers of its last requests. By these, each of two copies of a device gets the answers
    /// to its own requests.
    asked: VecDeque<u32>,
    active_at: Instant,
}

impl EngineHost<Endpoint> for ControllerHost {
    fn event(&mut self, now: Instant, event: EndpointEvent<'_>) {
        let EndpointEvent { handle, peer: address, event, .. } = event;
        match event {
            Event::Connected(negotiated) => match self.authentication.device(&negotiated) {
                Some(known) => {
                    let (device, identity) = (&known.device, &known.identities[0]);
                    tracing::debug!(
                        peer.address = %Named(address),
                        peer.identity = %identity,
                        "{}: device {device:?}, {identity}",
                        Named(address)
                    );
                    self.counters.handshakes += 1;
                    let asked = VecDeque::new();
                    self.peers.insert(handle, Peer { known, asked, active_at: now });
                }
                None => {
                    self.counters.unknown_devices += 1;
                    self.unwelcome.push(handle);
                }
            },
            Event::Data(request) => {
                let Some(peer) = self.peers.get_mut(&handle) else { return };
                peer.active_at = now;
                self.counters.requests += 1;
                if !self.authentication.is_valid(&peer.known) {
                    return self.unwelcome.push(handle);
                }
                if let Some((_, number)) = RequestMessage::head(request) {
                    peer.asked.truncate(MOST_ASKED - 1);
                    peer.asked.push_front(number);
                }
                let device = &peer.known.device;
                self.speaks.insert(device.clone(), handle);
                if peer.known.is_by_token() {
                    self.registry.handle_by_token(now, device, address.ip(), request);
                } else {
                    self.registry.handle_from(now, device, address.ip(), request);
                }
                self.changed.notify_one();
            }
            Event::Closed(reason) => {
                if let Some(Peer { known, .. }) = self.peers.remove(&handle) {
                    self.counters.ended.count(reason.class());
                    let device = &known.device;
                    if self.speaks.get(device) == Some(&handle) {
                        self.speaks.remove(device);
                    }
                    tracing::debug!(
                        peer.address = %Named(address),
                        peer.identity = %known.identities[0],
                        "{}: device {device:?}: {reason}",
                        Named(address)
                    );
                } else if !matches!(reason, CloseReason::Local | CloseReason::Peer) {
                    self.counters.failed_handshakes.count(reason.class());
                    if let Some(count) = self.logs.handshakes.due() {
                        tracing::info!(
                            peer.address = %Named(address),
                            "{}: no association: {reason} ({count} since the last line)",
                            Named(address)
                        );
                    }
                }
            }
            _ => {}
        }
    }

    fn drained(&mut self, now: Instant, endpoint: &mut Endpoint) -> bool {
        let mut called = self.turn_away(now, endpoint);
        while let Some((group, output)) = self.registry.poll() {
            match output {
                Output::Multicast(datagram) => {
                    self.counters.announcements += 1;
                    self.announce(group, &datagram);
                }
                Output::Answer { device, answer } => {
                    let Some(handle) = self.asker(&device, &answer) else { continue };
                    called = true;
                    let Some(mut asker) = endpoint.connection_mut(handle) else { continue };
                    self.counters.answers += 1;
                    if let Err(error) = asker.send(now, &answer, &mut [])
                        && let Some(count) = self.logs.answers.due()
                    {
                        tracing::warn!("device {device:?}: {error} ({count} since the last line)");
                    }
                }
                Output::CopyDetected { device, reason } => {
                    self.registry.note_clone(&group, &device, reason);
                }
                Output::MalformedRequest(device) => {
                    tracing::debug!("group {group}: device {device:?} sent a malformed request");
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
            if let Some(mut connection) = endpoint.connection_mut(handle) {
                connection.close(now);
            }
        }
        called
    }
}

impl ControllerHost {
    /// The association that sent the request with this answer's number.
    fn asker(&self, device: &str, answer: &[u8]) -> Option<Handle> {
        let (_, number) = RequestMessage::head(answer)?;
        let asked = |peer: &Peer| peer.known.device == device && peer.asked.contains(&number);
        let last = self.speaks.get(device).copied();
        if last.and_then(|handle| self.peers.get(&handle)).is_some_and(asked) {
            return last;
        }
        self.peers.iter().find(|(_, peer)| asked(peer)).map(|(handle, _)| *handle)
    }

    fn announce(&mut self, group: GroupId, datagram: &[u8]) {
        let address = self.registry.addresses().find(|(id, _)| *id == group);
        if let Some((_, address)) = address {
            self.announcer.announce(group, address, datagram);
        }
    }

    /// Adapts to changes of the interface of the groups' network, and removes the announcer's state
    /// for groups that were removed.
    fn look(&mut self) {
        self.announcer.look();
        let groups: Vec<GroupId> = self.registry.addresses().map(|(id, _)| id).collect();
        self.announcer.forget(|group| groups.contains(group));
    }

    /// Completes the answer to an administrator after the first announcement was sent or failed. A
    /// failure is reported, because an evicted device can continue to read records until the
    /// members have the new keys.
    fn told(&self, is_announced: bool, answer: Result<Value, String>) -> Result<Value, String> {
        let mut answer = answer?;
        let id = |group: &Value| -> Option<GroupId> {
            let all = self.registry.addresses();
            all.map(|(id, _)| id).find(|id| group["id"] == id.to_string())
        };
        let about = id(&answer);
        if let Some(group) = about {
            let announcements = serde_json::to_value(self.announcer.announcements(&group));
            answer["announcements"] = announcements.map_err(|error| error.to_string())?;
        }
        let mut failures = self.announcer.failures();
        let concerned = failures.find(|(group, _)| about.is_none_or(|about| about == **group));
        match concerned {
            Some((group, failure)) if is_announced => {
                let group = answer["name"].as_str().map_or_else(|| group.to_string(), quoted);
                Err(format!(
                    "done, but group {group} has not heard of its new keys, and continues with the \
                     old ones: {failure}; the controller tries again every second"
                ))
            }
            _ => Ok(answer),
        }
    }

    /// Closes associations that were idle for too long, and those whose device was removed or whose
    /// credential is void.
    fn sweep(&mut self, now: Instant) {
        let (peers, authentication) = (&self.peers, &self.authentication);
        let ends =
            |peer: &Peer| now - peer.active_at >= IDLE || !authentication.is_valid(&peer.known);
        let ending = peers.iter().filter(|(_, peer)| ends(peer)).map(|(handle, _)| *handle);
        self.unwelcome.extend(ending);
    }

    /// Closes the associations of devices for which `accepts` is false, given their identities and
    /// public key. Returns the number of associations.
    ///
    /// All requests that wait are forgotten: they may have come over an association that has closed
    /// since, with a credential that is not accepted any more.
    fn end_unless(&mut self, accepts: impl Fn(&[Identity], Option<&PeerKey>) -> bool) -> usize {
        let ends = |peer: &Peer| !accepts(&peer.known.identities, peer.known.key.as_ref());
        let ending = self.peers.iter().filter(|(_, peer)| ends(peer));
        let (handles, devices): (Vec<Handle>, BTreeSet<&str>) =
            ending.map(|(handle, peer)| (*handle, &*peer.known.device)).unzip();
        for device in devices {
            if let Some(warning) = still_a_member(device, &self.registry.groups_of(device)) {
                tracing::warn!("{warning}");
            }
        }
        self.registry.forget_all_requests();
        let count = handles.len();
        self.unwelcome.extend(handles);
        count
    }
}

/// What the log says of a device whose credential is no longer accepted while it is a member of
/// these groups; `None` if there are none.
fn still_a_member(device: &str, groups: &[String]) -> Option<String> {
    (!groups.is_empty()).then(|| {
        format!(
            "device {device:?}: its credential is no longer accepted, but it remains a member of {} \
             and gets their new keys: `admin evict GROUP DEVICE` removes it from a group, and `admin \
             revoke DEVICE` from all",
            groups.join(", ")
        )
    })
}

/// Aborts every handshake that is not complete. The key of a handshake is looked up when it begins:
/// the holder of a key that was revoked since then could wait until the device's name is enrolled
/// again with another key, and complete the handshake under that name. Other clients start a new
/// handshake on their own.
fn end_handshakes(endpoint: &mut Endpoint, now: Instant) {
    let unfinished = endpoint.connections().filter(|(_, connection)| !connection.is_connected());
    let unfinished: Vec<Handle> = unfinished.map(|(handle, _)| handle).collect();
    for handle in unfinished {
        if let Some(mut connection) = endpoint.connection_mut(handle) {
            connection.close(now);
        }
    }
}

fn quoted(name: &str) -> String {
    format!("{name:?}")
}

/// Why a controller cannot be started.
#[derive(Debug)]
pub enum StartError {
    /// The groups or the store cannot be opened.
    Registry(Refusal),
    /// The socket for devices cannot be opened.
    Listen(SocketAddr, io::Error),
    /// The administrator's socket cannot be opened.
    Admin(io::Error),
    /// The DTLS configuration is not possible.
    Config(lightseal_dtls::ConfigError),
    /// The implementation of the cryptography computes wrong results.
    SelfTest(lightseal_dtls::crypto::SelfTestFailed),
}

impl std::fmt::Display for StartError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Registry(refusal) => refusal.fmt(f),
            Self::Listen(address, error) => {
                write!(f, "cannot listen on {}: {error}", Named(*address))
            }
            Self::Admin(error) => write!(f, "the administrator's socket: {error}"),
            Self::Config(error) => error.fmt(f),
            Self::SelfTest(failed) => failed.fmt(f),
        }
    }
}

impl std::error::Error for StartError {}

impl Service {
    /// Starts a controller for the groups and devices in the store of `directory`.
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(directory: &Path, options: Options, mut rng: Random) -> Result<Self, StartError> {
        crate::provider::self_test().map_err(StartError::SelfTest)?;
        let clock = Clock::start();
        let store = crate::store::ControllerStore::open(directory);
        let store = store.map_err(|error| StartError::Registry(error.into()))?;
        let registry = Registry::open(store, clock.now(), rng.fork());
        let mut registry = registry.map_err(StartError::Registry)?;
        if options.stated_address == StatedAddress::Trusted {
            registry.trust_addresses();
        }
        let authentication =
            Authentication::new(Arc::clone(registry.devices()), options.credentials);
        let config = authentication.server().map_err(StartError::Config)?;
        let endpoint = Endpoint::server(Arc::new(config), rng.fork());
        if options.version_1 == Version1::Admitted {
            registry.allow_version_1();
        }
        let listen = options.listen;
        let socket = socket::bind(listen).map_err(|error| StartError::Listen(listen, error))?;
        let admin = admin::listen(directory).map_err(StartError::Admin)?;
        registry.rekey_all(clock.now()).map_err(StartError::Registry)?;
        let changed = Arc::new(Notify::new());
        let announcer = Announcer::new(options.interface, listen.ip(), options.hops);
        let host = ControllerHost {
            registry,
            authentication,
            peers: BTreeMap::new(),
            speaks: BTreeMap::new(),
            announcer,
            unwelcome: Vec::new(),
            changed: Arc::clone(&changed),
            logs: Logs::default(),
            counters: metrics::Counters::default(),
        };
        let driver = Arc::new(Driver::new(socket, clock, endpoint, host));
        Ok(Self { driver, admin, changed })
    }

    /// The UDP address that devices connect to.
    ///
    /// # Errors
    /// The operating system does not tell it.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.driver.socket().local_addr()
    }

    /// Serves devices and the administrator until an unrecoverable error occurs.
    ///
    /// # Errors
    /// A socket or the store of a group has failed.
    pub async fn run(&self) -> io::Result<()> {
        tokio::select! {
            ended = self.driver.run() => ended,
            ended = self.keep_time() => ended,
            never = self.accept_administrators() => match never {},
        }
    }

    /// Closes the associations of devices for which `accepts` is false, given their identities and
    /// their public key, aborts all handshakes that are not complete, and forgets the requests of all
    /// devices that are not carried out yet. A device whose credential is still accepted connects
    /// again and repeats its requests. Returns the number of associations that were closed.
    ///
    /// A device whose association is closed remains a member of its groups, and the log says so.
    ///
    /// A host calls this when the files behind [`Credentials`] have changed.
    pub fn end_unless(&self, accepts: impl Fn(&[Identity], Option<&PeerKey>) -> bool) -> usize {
        self.driver.call(|endpoint, host, now| {
            end_handshakes(endpoint, now);
            host.end_unless(accepts)
        })
    }

    /// Closes all associations with `close_notify` alerts.
    pub fn close(&self) {
        self.driver.call(|endpoint, _, now| endpoint.close_all(now));
    }

    async fn keep_time(&self) -> io::Result<()> {
        let mut sweep_at = self.driver.clock().now();
        loop {
            let (wake, failed) = self.driver.call(|_, host, now| {
                host.registry.handle_timeout(now);
                if now >= sweep_at {
                    host.sweep(now);
                    host.look();
                    sweep_at = now + SWEEP;
                }
                let failed =
                    host.registry.failed().map(|name| format!("group {name}: store failed"));
                (host.registry.wake_at().map_or(sweep_at, |at| at.min(sweep_at)), failed)
            });
            if let Some(failed) = failed {
                // The state in memory may differ from the state on disk, so the program must be
                // restarted.
                return Err(io::Error::other(failed));
            }
            let wait = wake.saturating_since(self.driver.clock().now());
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.changed.notified() => {}
            }
        }
    }

    async fn accept_administrators(&self) -> Infallible {
        loop {
            let stream = match self.admin.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!("administrator: {error}");
                    // The process has no free file descriptor, or the client has disconnected. Both
                    // are temporary.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            };
            let answer = |request: AdminRequest| {
                let is_announced = request.is_announced();
                let revokes = request.revokes();
                let answer = self.driver.call(|endpoint, host, now| {
                    let answer = serve(&mut host.registry, now, request);
                    if revokes {
                        end_handshakes(endpoint, now);
                    }
                    // The associations of a void credential are closed at once, and those of a
                    // revoked device before its name can be enrolled again.
                    host.sweep(now);
                    answer
                });
                self.changed.notify_one();
                // By now the announcements were sent or have failed.
                self.driver.call(|_, host, _| host.told(is_announced, answer))
            };
            // Requests are served one at a time, because they are few and quick. A timeout keeps a
            // slow client from blocking others.
            let patience = Duration::from_secs(5);
            match tokio::time::timeout(patience, admin::serve_connection(stream, answer)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!("administrator: {error}"),
                Err(_) => tracing::debug!("administrator: too slow"),
            }
        }
    }
}
