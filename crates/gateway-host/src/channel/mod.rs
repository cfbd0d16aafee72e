//! The management channel: one authenticated connection with each peer, whichever of the two
//! dialled it.
//!
//! A peer is identified by its public key, or by the name in its certificate. Connections use TLS 1.3
//! over TCP, where either end has a raw public key (RFC 7250) or a certificate, and a hybrid
//! post-quantum key exchange; without resumption or early data. [`Event::Up`] contains the secret from which the keys of the tunnel
//! are derived. It is fresh on every connection.
//!
//! # One connection
//!
//! Both gateways may dial, each if it knows the other's endpoint. The gateway with the lower
//! [`id`](KnownBy::id) decides which connection is used and announces its decision on that connection; no messages
//! are exchanged before. It accepts the first connection that completes. Another connection
//! replaces the present one
//!
//! - if it comes from a gateway that was restarted;
//! - if the gateway that dialled declares it a renewal: the old connection is then read to its end
//!   before the new one is read, so that no message that was accepted for sending is lost or
//!   reordered;
//! - if the peer dials [`ChannelSettings::handshake_timeout`] or more after the present connection
//!   came up: the peer has lost the present connection, and this gateway has not noticed yet.
//!
//! Messages are sent on the connection whose [`Event::Up`] was received last, and on no other.
//! Between the end of a connection and the next `Up` no message is accepted for sending.
//!
//! # Unauthenticated connections
//!
//! Connections that are not authenticated yet are limited in number and in time. If there are too
//! many, the oldest connection of the source with the most connections is closed. A single source
//! can therefore only displace its own connections.
//!
//! # Time
//!
//! All time is tokio's, which tests can stop and advance.

mod accept;
mod connection;
mod frame;
mod handshake;
mod peer;
#[cfg(test)]
mod tests;
mod tls;
mod transport;

use crate::ErrorLine;
use crate::config::Config;
use crate::credential::{Credential, KnownBy, Trust};
use lightseal_core::Random;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use transport::{Tcp, Transport};
use zeroize::Zeroizing;

/// The longest message in bytes.
pub const MAX_MESSAGE: usize = 64 << 10;

/// The length of the kernel's queue of connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// A peer, by its position in [`ChannelSettings::peers`] and in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerIndex(pub usize);

/// The settings of a channel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChannelSettings {
    /// What this gateway proves its identity with.
    pub credential: Credential,
    /// Verifies certificates of peers. Without it, peers have raw public keys.
    pub trust: Option<Trust>,
    /// What each peer is known by, and its endpoint (`host:port`) if it is known.
    pub peers: Vec<(KnownBy, Option<String>)>,
    /// How long a peer may be silent before its connection is considered dead.
    pub dead_after: Duration,
    /// How long a connection may take to be authenticated and agreed on.
    pub handshake_timeout: Duration,
    /// Most incoming connections that are not authenticated yet.
    pub unauthenticated: usize,
    /// The time after which a connection is replaced by a new one with fresh secrets. The time is
    /// shortened by a random part of at most a tenth.
    pub renew_every: Duration,
    /// The pauses between attempts to dial: the first and the longest. Each pause is twice as long
    /// as the one before; the actual time is drawn between half of the pause and the whole.
    pub pauses: (Duration, Duration),
    /// Most events that wait to be received. If the queue is full, the connections wait.
    pub events: usize,
    /// Most messages that wait to be sent to a peer. If the queue is full, [`Sender::send`] returns
    /// an error.
    pub messages: usize,
    /// Most messages that may wait for [`Sender::send_lossy`] to accept one more. Messages that may
    /// be lost thus leave room for the others.
    pub max_lossy_messages: usize,
}

impl ChannelSettings {
    /// Settings with the defaults of the configuration.
    pub fn new<K: Into<KnownBy>>(
        credential: impl Into<Credential>,
        peers: Vec<(K, Option<String>)>,
    ) -> Self {
        let management = crate::config::Management::default();
        Self {
            credential: credential.into(),
            trust: None,
            peers: peers.into_iter().map(|(peer, endpoint)| (peer.into(), endpoint)).collect(),
            dead_after: management.dead_after,
            handshake_timeout: management.handshake_timeout,
            unauthenticated: management.unauthenticated as usize,
            renew_every: management.renew_every,
            pauses: (Duration::from_millis(200), Duration::from_secs(15)),
            events: 256,
            messages: 256,
            max_lossy_messages: 64,
        }
    }

    /// The settings of a configuration.
    pub fn from_config(config: &Config, credential: Credential, trust: Option<Trust>) -> Self {
        let peers = config.peers.iter().map(|peer| (peer.known_by(), peer.endpoint.clone()));
        let management = &config.management;
        Self {
            dead_after: management.dead_after,
            handshake_timeout: management.handshake_timeout,
            unauthenticated: management.unauthenticated as usize,
            renew_every: management.renew_every,
            // The most messages about flows at one time, if a peer has its full share of half of
            // the flows: each of our flows is registered, each of the peer's flows is acknowledged,
            // and each flow is removed.
            messages: 256 + 2 * config.limits.flows as usize,
            trust,
            ..Self::new(credential, peers.collect())
        }
    }
}

/// An event on a channel.
pub enum Event {
    /// A connection with a peer is in use from now on, for messages in both directions. An `Up`
    /// that follows another one without a `Down` between them is a renewal: no message that was
    /// accepted for sending was lost, unless the peer took more than two seconds to finish the old
    /// connection.
    Up {
        /// The peer.
        peer: PeerIndex,
        /// A secret that only both ends know: `TLS-Exporter("EXPORTER-lightseal-tunnel", context,
        /// 32)` (RFC 8446, section 7.5). The context is both identities, the lower one first.
        exporter: Zeroizing<[u8; 32]>,
        /// Whether this gateway dialled the connection.
        initiator: bool,
        /// The address of the other end. If the peer dialled, the port is an ephemeral one.
        remote: SocketAddr,
    },
    /// A message from the peer, of at most [`MAX_MESSAGE`] bytes.
    Message {
        /// The peer.
        peer: PeerIndex,
        /// The content of the message.
        bytes: Zeroizing<Vec<u8>>,
    },
    /// The connection has ended. Messages that were not sent yet are lost.
    Down {
        /// The peer.
        peer: PeerIndex,
        /// The reason.
        why: Cause,
    },
    /// There is no connection, and an attempt to dial has failed. Further attempts follow.
    NotReached {
        /// The peer.
        peer: PeerIndex,
        /// The reason.
        why: Cause,
    },
}

impl fmt::Debug for Event {
    /// Omits what is secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up { peer, initiator, remote, .. } => f
                .debug_struct("Up")
                .field("peer", peer)
                .field("initiator", initiator)
                .field("remote", remote)
                .finish_non_exhaustive(),
            Self::Message { peer, bytes } => {
                let mut event = f.debug_struct("Message");
                event.field("peer", peer).field("len", &bytes.len()).finish_non_exhaustive()
            }
            Self::Down { peer, why } => {
                f.debug_struct("Down").field("peer", peer).field("why", why).finish()
            }
            Self::NotReached { peer, why } => {
                f.debug_struct("NotReached").field("peer", peer).field("why", why).finish()
            }
        }
    }
}

/// Why a connection has ended or was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The peer closed the connection properly.
    Ended,
    /// The peer was silent for too long.
    Silent,
    /// The peer was restarted, or has lost the connection and connected again.
    Replaced,
    /// The peer has decided to use another connection.
    Refused,
    /// This gateway closed the connection ([`Sender::close`]).
    Closed(String),
    /// The peer violated the protocol.
    Protocol(&'static str),
    /// The network failed, or TLS did, or a key was not the expected one.
    Lost(String),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("the peer closed the connection"),
            Self::Silent => f.write_str("the peer is silent"),
            Self::Replaced => f.write_str("the peer has connected again"),
            Self::Refused => f.write_str("the peer uses another connection"),
            Self::Protocol(what) => write!(f, "the peer sent {what}"),
            Self::Closed(what) | Self::Lost(what) => f.write_str(what),
        }
    }
}

/// Why a message was not accepted for sending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// There is no connection with the peer, or the connection has ended and the next one is not up
    /// yet.
    Down,
    /// The peer reads too slowly: the limit of waiting messages is reached.
    Full,
    /// The message is longer than [`MAX_MESSAGE`].
    TooLong,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Down => "the peer is not connected",
            Self::Full => "too many messages wait for the peer",
            Self::TooLong => "the message is too long",
        })
    }
}

impl std::error::Error for SendError {}

/// Sends messages to peers; may be used from any thread.
#[derive(Clone)]
pub struct Sender {
    connections: Arc<[CurrentConnection]>,
    max_lossy_messages: usize,
}

/// The connection with one peer whose [`Event::Up`] was received last, until its [`Event::Down`] is
/// received.
#[derive(Default)]
struct CurrentConnection(Mutex<Option<ConnectionSender>>);

/// The sending half of a connection.
struct ConnectionSender {
    queue: mpsc::Sender<Zeroizing<Vec<u8>>>,
    /// Closes the connection for a reason; `None` after this was used.
    close: Option<oneshot::Sender<String>>,
}

impl CurrentConnection {
    fn lock(&self) -> MutexGuard<'_, Option<ConnectionSender>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sender {
    /// Queues a message. It arrives once and in order, or the peer goes down.
    ///
    /// # Errors
    /// If the peer is down, too slow or unknown, or the message is too long.
    pub fn send(
        &self,
        peer: PeerIndex,
        message: impl Into<Zeroizing<Vec<u8>>>,
    ) -> Result<(), SendError> {
        self.queue(peer, message.into(), usize::MAX)
    }

    /// Queues a message that may be lost, unless [`ChannelSettings::max_lossy_messages`] messages
    /// wait already.
    ///
    /// # Errors
    /// As for [`send`](Self::send).
    pub fn send_lossy(&self, peer: PeerIndex, message: Vec<u8>) -> Result<(), SendError> {
        self.queue(peer, message.into(), self.max_lossy_messages)
    }

    fn queue(
        &self,
        peer: PeerIndex,
        message: Zeroizing<Vec<u8>>,
        most: usize,
    ) -> Result<(), SendError> {
        if message.len() > MAX_MESSAGE {
            return Err(SendError::TooLong);
        }
        let current = self.connections.get(peer.0).ok_or(SendError::Down)?.lock();
        let open = current.as_ref().filter(|outgoing| outgoing.close.is_some());
        let queue = &open.ok_or(SendError::Down)?.queue;
        if queue.max_capacity() - queue.capacity() >= most {
            return Err(SendError::Full);
        }
        queue.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => SendError::Full,
            mpsc::error::TrySendError::Closed(_) => SendError::Down,
        })
    }

    /// Closes the connection with a peer, because of its messages or because it does not read.
    /// Messages that wait to be sent are lost. [`Event::Down`] follows with [`Cause::Closed`], and
    /// then the peer is dialled as after any other loss. If a renewal was in progress, its
    /// [`Event::Up`] follows instead.
    pub fn close(&self, peer: PeerIndex, why: String) {
        let current = self.connections.get(peer.0).map(CurrentConnection::lock);
        let close = current.and_then(|mut current| current.as_mut()?.close.take());
        // The connection may have ended already.
        let _gone = close.map(|close| close.send(why));
    }

    /// Whether there is a connection with a peer.
    pub fn is_up(&self, peer: PeerIndex) -> bool {
        let is_open =
            |outgoing: &ConnectionSender| outgoing.close.is_some() && !outgoing.queue.is_closed();
        self.connections
            .get(peer.0)
            .is_some_and(|current| current.lock().as_ref().is_some_and(is_open))
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("peers", &self.connections.len()).finish_non_exhaustive()
    }
}

/// The events of a channel, in order.
pub struct Events {
    queue: mpsc::Receiver<QueuedEvent>,
    connections: Arc<[CurrentConnection]>,
}

/// An event on its way to the receiver; `Up` comes with the connection that messages are sent on
/// from then on.
enum QueuedEvent {
    Up(Event, ConnectionSender),
    Other(Event),
}

impl Events {
    /// Waits for the next event; `None` when the channel has ended. Cancel safe.
    pub async fn recv(&mut self) -> Option<Event> {
        let queued = self.queue.recv().await?;
        Some(self.switch(queued))
    }

    /// The next event, if one is waiting.
    pub fn try_recv(&mut self) -> Option<Event> {
        let queued = self.queue.try_recv().ok()?;
        Some(self.switch(queued))
    }

    /// Switches to the new connection only when its event is received, so that a message is always
    /// sent on the connection that the sender of the message knows of.
    fn switch(&self, queued: QueuedEvent) -> Event {
        let (event, outgoing) = match queued {
            QueuedEvent::Up(event, outgoing) => (event, Some(outgoing)),
            QueuedEvent::Other(event) => (event, None),
        };
        if let Event::Up { peer, .. } | Event::Down { peer, .. } = &event {
            *self.connections[peer.0].lock() = outgoing;
        }
        event
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

/// State that all tasks of a channel share.
struct ChannelShared {
    settings: ChannelSettings,
    credentials: tls::Credentials,
    /// Random identifier of this run of the gateway.
    instance: [u8; 16],
    /// The number for the next `Frame::Use`.
    number: AtomicU64,
    by_key: BTreeMap<KnownBy, PeerIndex>,
    events: mpsc::Sender<QueuedEvent>,
    /// Becomes true when the channel is to end.
    stopping: watch::Receiver<bool>,
}

impl ChannelShared {
    /// Whether this gateway decides which connection with the peer is used, rather than the peer.
    fn decides(&self, peer: PeerIndex) -> bool {
        self.credentials.own().id() < self.key(peer).id()
    }

    fn key(&self, peer: PeerIndex) -> &KnownBy {
        &self.settings.peers[peer.0].0
    }
}

/// All connections of a gateway.
pub struct Channel {
    shared: Arc<ChannelShared>,
    transport: Arc<dyn Transport>,
    random: Random,
    stop: watch::Sender<bool>,
}

/// Opens the TCP socket for incoming connections. `[::]` stands for IPv4 too.
///
/// # Errors
/// Errors of the operating system, for example that the port is in use.
pub fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // A gateway that restarts does not wait until connections of its former process have timed out.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

impl Channel {
    /// Creates a channel over TCP which accepts connections on `listener` (see [`listen`]),
    /// together with the means to send on it and to receive its events. `random` draws the pauses
    /// and the identifier of this run.
    ///
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// If two peers have the same key, a peer has our key, or TLS cannot be set up.
    pub fn new(
        listener: std::net::TcpListener,
        settings: ChannelSettings,
        random: Random,
    ) -> Result<(Self, Sender, Events), ErrorLine> {
        let listener = tokio::net::TcpListener::from_std(listener);
        let listener = listener.map_err(|error| ErrorLine::of("management channel", error))?;
        Self::over(Arc::new(Tcp(listener)), settings, random)
    }

    fn over(
        transport: Arc<dyn Transport>,
        settings: ChannelSettings,
        mut random: Random,
    ) -> Result<(Self, Sender, Events), ErrorLine> {
        let mut by_key = BTreeMap::new();
        for (index, (key, _)) in settings.peers.iter().enumerate() {
            if *key == settings.credential.known_by() {
                return Err(ErrorLine::new(format_args!("peer {key}: its key is our own")));
            }
            if by_key.insert(key.clone(), PeerIndex(index)).is_some() {
                return Err(ErrorLine::new(format_args!("peer {key}: it is configured twice")));
            }
        }
        let peers = by_key.keys().cloned();
        let credentials =
            tls::Credentials::new(&settings.credential, settings.trust.clone(), peers)?;
        let connections: Arc<[CurrentConnection]> =
            settings.peers.iter().map(|_| CurrentConnection::default()).collect();
        let (events, queue) = mpsc::channel(settings.events.max(1));
        let sender = Sender {
            connections: Arc::clone(&connections),
            max_lossy_messages: settings.max_lossy_messages,
        };
        let (stop, stopping) = watch::channel(false);
        let shared = Arc::new(ChannelShared {
            credentials,
            instance: random.array(),
            number: AtomicU64::new(0),
            by_key,
            events,
            stopping,
            settings,
        });
        Ok((Self { shared, transport, random, stop }, sender, Events { queue, connections }))
    }

    /// Keeps connections with all peers until `until` is ready, and then closes them properly,
    /// within a second. If this future is dropped, the connections are closed at once.
    pub async fn run(self, until: impl Future<Output = ()>) {
        let Self { shared, transport, mut random, stop } = self;
        let (mut peers, mut candidates) = (JoinSet::new(), Vec::new());
        for index in 0..shared.settings.peers.len() {
            // Incoming connections wait if a peer's task is slow to consider them.
            let (tell, candidate) = mpsc::channel(1);
            candidates.push(tell);
            let (shared, transport) = (Arc::clone(&shared), Arc::clone(&transport));
            peers.spawn(peer::run(shared, transport, PeerIndex(index), candidate, random.fork()));
        }
        tokio::select! {
            () = until => {}
            () = accept::accept_connections(&shared, &*transport, &candidates) => {}
        }
        let _ = stop.send(true);
        let all = async { while peers.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(Duration::from_secs(1), all).await;
    }
}
