//! The management channel: one authenticated connection with each peer, whoever dialled it.
//!
//! A peer is its public key. Connections are TLS 1.3 over TCP with raw public keys both ways
//! (RFC 7250), a hybrid post-quantum key exchange, no certificates, no resumption and no early data.
//! [`Event::Up`] brings what the tunnel's keys are derived from; it is fresh on every connection.
//!
//! # One connection
//!
//! Both ends may dial, each where it knows the other's endpoint. The end with the lower public key
//! decides which connection counts, and says so on it; nothing is exchanged before. It takes the
//! first that is complete. Another one replaces that
//!
//! - if it comes from a gateway that was started anew;
//! - if the one who dialled says that it is a renewal: the old connection is read to its end before
//!   the new one is, and nothing that was taken to be sent is lost or changes places;
//! - if the peer dials [`Settings::handshake_timeout`] or more after the present one came up: it has
//!   lost that one, and we have not noticed.
//!
//! What is said goes out on the connection whose [`Event::Up`] was taken last, and on no other:
//! between the end of one and the next `Up` nothing is taken to be sent.
//!
//! # An open door
//!
//! Connections that are not authenticated are bounded in number and time. Where there are too many,
//! the oldest of the source with the most of them goes: one source alone pushes out only itself.
//!
//! # Time
//!
//! All of it is tokio's, which tests can stop and wind.

mod connection;
mod door;
mod frame;
mod greet;
mod peer;
#[cfg(test)]
mod tests;
mod tls;
mod transport;

use crate::OneLine;
use crate::config::Config;
use crate::identity::{Identity, PublicKey};
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
use vocabulary::Random;
use zeroize::Zeroizing;

/// The longest message, in bytes.
pub const MAX_MESSAGE: usize = 64 << 10;

/// Connections that the kernel accepts for us ahead of time.
const BACKLOG: i32 = 128;

/// A peer: its place in [`Settings::peers`], which is that in the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerIndex(pub usize);

/// What a channel is told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Who we are.
    pub identity: Identity,
    /// Who the others are, and where (`host:port`) if we know.
    pub peers: Vec<(PublicKey, Option<String>)>,
    /// A peer that was not heard of for so long is down.
    pub dead_after: Duration,
    /// A connection must be authenticated and agreed on within.
    pub handshake_timeout: Duration,
    /// Connections that came to us and are not authenticated yet, at a time.
    pub unauthenticated: usize,
    /// A connection is replaced by another with fresh secrets after this time, or up to a tenth
    /// sooner.
    pub renew_every: Duration,
    /// Between two attempts to dial: the first pause, and the longest. Each is twice as long as the
    /// one before; what is waited is drawn between half of it and all.
    pub pauses: (Duration, Duration),
    /// Events that wait to be taken. When there are more, peers wait.
    pub events: usize,
    /// Messages that wait to be sent to a peer. When there are more, [`Sender::send`] refuses.
    pub messages: usize,
    /// The same for those that may be lost, so that they leave room: [`Sender::offer`].
    pub offers: usize,
}

impl Settings {
    /// The defaults of the configuration.
    pub fn new(identity: Identity, peers: Vec<(PublicKey, Option<String>)>) -> Self {
        let management = crate::config::Management::default();
        Self {
            identity,
            peers,
            dead_after: management.dead_after,
            handshake_timeout: management.handshake_timeout,
            unauthenticated: management.unauthenticated as usize,
            renew_every: management.renew_every,
            pauses: (Duration::from_millis(200), Duration::from_secs(15)),
            events: 256,
            messages: 256,
            offers: 64,
        }
    }

    /// What a configuration says.
    pub fn from_config(config: &Config, identity: Identity) -> Self {
        let peers = config.peers.iter().map(|peer| (peer.public_key, peer.endpoint.clone()));
        let management = &config.management;
        Self {
            dead_after: management.dead_after,
            handshake_timeout: management.handshake_timeout,
            unauthenticated: management.unauthenticated as usize,
            renew_every: management.renew_every,
            // All that can be said of a peer's share of flows in one go (a half of them): that each
            // is new, that each of the peer's is known, and that each is gone.
            messages: 256 + 2 * config.limits.flows as usize,
            ..Self::new(identity, peers.collect())
        }
    }
}

/// What happens on a channel.
pub enum Event {
    /// A connection with a peer counts from now on, and is what is sent on. After another `Up`
    /// without a `Down` between them it is a renewal, and no message that was taken was lost, unless
    /// the peer did not finish with the old connection for two seconds.
    Up {
        /// With whom.
        peer: PeerIndex,
        /// What both ends know and nobody else: `TLS-Exporter("EXPORTER-lightseal-tunnel", context,
        /// 32)` (RFC 8446, section 7.5); the context is both public keys, the lower one first.
        exporter: Zeroizing<[u8; 32]>,
        /// We dialled it.
        initiator: bool,
        /// The other end of the connection. If it dialled, the port says nothing.
        remote: SocketAddr,
    },
    /// Something that the peer said, at most [`MAX_MESSAGE`] bytes.
    Message {
        /// Who.
        peer: PeerIndex,
        /// What.
        bytes: Zeroizing<Vec<u8>>,
    },
    /// There is no connection any more. What was not sent is gone.
    Down {
        /// With whom.
        peer: PeerIndex,
        /// Why.
        why: Cause,
    },
    /// There is no connection, and an attempt to dial came to nothing. Other attempts follow.
    NotReached {
        /// Whom.
        peer: PeerIndex,
        /// Why.
        why: Cause,
    },
}

impl fmt::Debug for Event {
    /// Without what is secret.
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

/// Why there is no connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The peer ended it in good order.
    Ended,
    /// The peer was not heard of for too long.
    Silent,
    /// The peer was started anew, or has lost the connection and come again.
    Replaced,
    /// The peer has another connection that counts.
    Refused,
    /// We closed it ([`Sender::close`]).
    Closed(String),
    /// The peer does what no gateway does.
    Protocol(&'static str),
    /// The network, TLS, or a key that is not the right one.
    Lost(String),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => f.write_str("it was ended there"),
            Self::Silent => f.write_str("nothing is heard of it"),
            Self::Replaced => f.write_str("it came again"),
            Self::Refused => f.write_str("it has another connection with us"),
            Self::Protocol(what) => write!(f, "it sent {what}"),
            Self::Closed(what) | Self::Lost(what) => f.write_str(what),
        }
    }
}

/// Why a message was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// There is no connection with the peer, or it has ended and the next one is not up yet.
    Down,
    /// The peer reads too slowly: [`Settings::messages`] wait already.
    Full,
    /// It is longer than [`MAX_MESSAGE`].
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

/// Sends messages, from any thread.
#[derive(Clone)]
pub struct Sender {
    slots: Arc<[Slot]>,
    offers: usize,
}

/// The connection whose [`Event::Up`] was taken last, until its [`Event::Down`] is.
#[derive(Default)]
struct Slot(Mutex<Option<Outgoing>>);

/// A connection's end that is written to.
struct Outgoing {
    queue: mpsc::Sender<Zeroizing<Vec<u8>>>,
    /// Ends the connection for a reason. Gone once that is done.
    close: Option<oneshot::Sender<String>>,
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<Outgoing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sender {
    /// Queues a message. It arrives once and in order, or the peer goes down.
    ///
    /// # Errors
    /// The peer is down, too slow, or unknown; or the message is too long.
    pub fn send(
        &self,
        peer: PeerIndex,
        message: impl Into<Zeroizing<Vec<u8>>>,
    ) -> Result<(), SendError> {
        self.queue(peer, message.into(), usize::MAX)
    }

    /// Queues a message that may be lost, unless [`Settings::offers`] messages wait.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn offer(&self, peer: PeerIndex, message: Vec<u8>) -> Result<(), SendError> {
        self.queue(peer, message.into(), self.offers)
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
        let slot = self.slots.get(peer.0).ok_or(SendError::Down)?.lock();
        let open = slot.as_ref().filter(|outgoing| outgoing.close.is_some());
        let queue = &open.ok_or(SendError::Down)?.queue;
        if queue.max_capacity() - queue.capacity() >= most {
            return Err(SendError::Full);
        }
        queue.try_send(message).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => SendError::Full,
            mpsc::error::TrySendError::Closed(_) => SendError::Down,
        })
    }

    /// Closes the connection with a peer, for what it says or because it does not read. What waits
    /// to be sent is gone; [`Event::Down`] follows, with [`Cause::Closed`], and then the peer is
    /// dialled as after any other loss. If a renewal was under way, its [`Event::Up`] follows
    /// instead.
    pub fn close(&self, peer: PeerIndex, why: String) {
        let slot = self.slots.get(peer.0).map(Slot::lock);
        let close = slot.and_then(|mut slot| slot.as_mut()?.close.take());
        // The connection may have ended by itself.
        let _gone = close.map(|close| close.send(why));
    }

    /// Whether there is a connection with a peer.
    pub fn is_up(&self, peer: PeerIndex) -> bool {
        let is_open = |outgoing: &Outgoing| outgoing.close.is_some() && !outgoing.queue.is_closed();
        self.slots.get(peer.0).is_some_and(|slot| slot.lock().as_ref().is_some_and(is_open))
    }
}

impl fmt::Debug for Sender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sender").field("peers", &self.slots.len()).finish_non_exhaustive()
    }
}

/// What happens on a channel, in order.
pub struct Events {
    told: mpsc::Receiver<Told>,
    slots: Arc<[Slot]>,
}

/// An event, with the connection that is sent on from then on.
enum Told {
    Up(Event, Outgoing),
    Other(Event),
}

impl Events {
    /// Waits for the next event; `None` when the channel has ended. Cancel safe.
    pub async fn recv(&mut self) -> Option<Event> {
        let told = self.told.recv().await?;
        Some(self.take(told))
    }

    /// The next event, if there is one.
    pub fn try_recv(&mut self) -> Option<Event> {
        let told = self.told.try_recv().ok()?;
        Some(self.take(told))
    }

    /// What is said next is of the connection that the one who says it knows of.
    fn take(&self, told: Told) -> Event {
        let (event, outgoing) = match told {
            Told::Up(event, outgoing) => (event, Some(outgoing)),
            Told::Other(event) => (event, None),
        };
        if let Event::Up { peer, .. } | Event::Down { peer, .. } = &event {
            *self.slots[peer.0].lock() = outgoing;
        }
        event
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Events")
    }
}

/// What all tasks of a channel share.
struct Shared {
    settings: Settings,
    credentials: tls::Credentials,
    /// Drawn when the channel was made.
    instance: [u8; 16],
    /// Of the next `Frame::Use`.
    number: AtomicU64,
    by_key: BTreeMap<PublicKey, PeerIndex>,
    events: mpsc::Sender<Told>,
    /// The channel comes to its end.
    stopping: watch::Receiver<bool>,
}

impl Shared {
    /// Whether we decide which connection with this peer counts.
    fn decides(&self, peer: PeerIndex) -> bool {
        self.credentials.own() < self.key(peer)
    }

    fn key(&self, peer: PeerIndex) -> PublicKey {
        self.settings.peers[peer.0].0
    }
}

/// All connections of a gateway.
pub struct Channel {
    shared: Arc<Shared>,
    transport: Arc<dyn Transport>,
    random: Random,
    stop: watch::Sender<bool>,
}

/// A socket that other gateways come to. `[::]` stands for IPv4 as well.
///
/// # Errors
/// Those of the operating system, for example that the port is in use.
pub fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    use socket2::{Domain, Protocol, Socket, Type};
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    // A gateway that is started again does not wait for connections of its former self.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

impl Channel {
    /// A channel over TCP that others come to on `listener` (see [`listen`]), how to send on it, and
    /// what happens on it. `random` draws pauses and this gateway's instance.
    ///
    /// Must be called within a tokio runtime.
    ///
    /// # Errors
    /// Two peers with one key, a peer with ours, or cryptography that does not work.
    pub fn new(
        listener: std::net::TcpListener,
        settings: Settings,
        random: Random,
    ) -> Result<(Self, Sender, Events), OneLine> {
        let listener = tokio::net::TcpListener::from_std(listener);
        let listener = listener.map_err(|error| OneLine::of("management channel", error))?;
        Self::over(Arc::new(Tcp(listener)), settings, random)
    }

    fn over(
        transport: Arc<dyn Transport>,
        settings: Settings,
        mut random: Random,
    ) -> Result<(Self, Sender, Events), OneLine> {
        let mut by_key = BTreeMap::new();
        for (index, (key, _)) in settings.peers.iter().enumerate() {
            if *key == settings.identity.public_key() {
                return Err(OneLine::new(format_args!("peer {key}: its key is our own")));
            }
            if by_key.insert(*key, PeerIndex(index)).is_some() {
                return Err(OneLine::new(format_args!("peer {key}: twice")));
            }
        }
        let credentials = tls::Credentials::new(&settings.identity, by_key.keys().copied())?;
        let slots: Arc<[Slot]> = settings.peers.iter().map(|_| Slot::default()).collect();
        let (events, told) = mpsc::channel(settings.events.max(1));
        let sender = Sender { slots: Arc::clone(&slots), offers: settings.offers };
        let (stop, stopping) = watch::channel(false);
        let shared = Arc::new(Shared {
            credentials,
            instance: random.array(),
            number: AtomicU64::new(0),
            by_key,
            events,
            stopping,
            settings,
        });
        Ok((Self { shared, transport, random, stop }, sender, Events { told, slots }))
    }

    /// Keeps connections with all peers until `until` is ready, and ends them then in good order,
    /// within a second. To drop this future ends them at once.
    pub async fn run(self, until: impl Future<Output = ()>) {
        let Self { shared, transport, mut random, stop } = self;
        let (mut peers, mut candidates) = (JoinSet::new(), Vec::new());
        for index in 0..shared.settings.peers.len() {
            // The door waits for a peer that is slow to look at what comes.
            let (tell, candidate) = mpsc::channel(1);
            candidates.push(tell);
            let (shared, transport) = (Arc::clone(&shared), Arc::clone(&transport));
            peers.spawn(peer::run(shared, transport, PeerIndex(index), candidate, random.fork()));
        }
        tokio::select! {
            () = until => {}
            () = door::attend(&shared, &*transport, &candidates) => {}
        }
        let _ = stop.send(true);
        let all = async { while peers.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(Duration::from_secs(1), all).await;
    }
}
