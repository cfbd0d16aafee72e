//! Impairments between real sockets.
//!
//! A [`Relay`] stands between clients and one server. To the server each client
//! appears as a socket of its own, as behind a NAT. The relay can change that
//! socket's port at intervals, as NATs do.
//!
//! All clients share one line in each direction. Delays have the granularity of
//! the runtime's timer, one millisecond.

use crate::Clock;
use crate::blocking::{DATAGRAM_BYTES, is_loss};
use crate::delay_line::DelayLine;
use crate::impairment::{Counters, Impairments, Path};
use crate::socket::{self, AddressedSocket};
use ::tokio::net::UdpSocket;
use ::tokio::sync::Notify;
use ::tokio::task::JoinSet;
use ::tokio::time::{Instant as TokioInstant, sleep, sleep_until};
use core::net::SocketAddr;
use core::time::Duration;
use lightseal_core::{AddressPair, Instant, Random};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// How long a datagram waits if its socket has no room.
const RETRY: Duration = Duration::from_millis(1);

/// How far in the future a timer lies that is not set.
const NEVER: Duration = Duration::from_secs(86_400);

/// The settings of a [`Relay`].
#[derive(Clone, Copy, Debug)]
pub struct RelaySettings {
    /// The server to which clients' datagrams are sent.
    pub upstream: SocketAddr,
    /// Impairments from the clients to the server.
    pub up: Impairments,
    /// Impairments from the server to the clients.
    pub down: Impairments,
    /// Seed of all random choices.
    pub seed: u64,
    /// Interval at which each client gets a new source port towards the server.
    pub rebind_every: Option<Duration>,
    /// Number of a client's datagrams after which it gets a new source port.
    pub rebind_after: Option<u64>,
    /// How long a client may neither send nor receive before the relay forgets it.
    pub idle_timeout: Duration,
}

impl RelaySettings {
    /// A relay to `upstream` that impairs nothing and forgets clients after five minutes.
    pub const fn new(upstream: SocketAddr) -> Self {
        Self {
            upstream,
            up: Impairments::NONE,
            down: Impairments::NONE,
            seed: 1,
            rebind_every: None,
            rebind_after: None,
            idle_timeout: Duration::from_secs(300),
        }
    }
}

/// The counters of a [`Relay`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RelayCounters {
    /// Datagrams from the clients to the server.
    pub up: Counters,
    /// Datagrams from the server to the clients.
    pub down: Counters,
    /// Clients that the relay knows now.
    pub clients: u64,
    /// Clients that the relay has seen so far.
    pub clients_seen: u64,
    /// Changes of a client's source port.
    pub rebinds: u64,
    /// Datagrams that a socket refused, or for which no socket was available.
    pub refused: u64,
}

/// A relay on one listening socket.
#[derive(Debug)]
pub struct Relay {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    listen: AddressedSocket,
    settings: RelaySettings,
    clock: Clock,
    up: DirectionQueue,
    down: DirectionQueue,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    clients: HashMap<AddressPair, Arc<Client>>,
    clients_seen: u64,
    rebinds: u64,
    refused: u64,
}

#[derive(Debug)]
struct Client {
    /// The client's address, and the address of this host to which it sends and from which it is
    /// answered.
    addresses: AddressPair,
    state: Mutex<ClientState>,
    rebound: Notify,
}

#[derive(Debug)]
struct ClientState {
    upstream: Arc<UdpSocket>,
    datagrams: u64,
    active_at: Instant,
}

#[derive(Debug)]
struct DirectionQueue {
    delayed: Mutex<DelayedPath>,
    earlier: Notify,
}

#[derive(Debug)]
struct DelayedPath {
    path: Path,
    waiting: DelayLine<(Arc<Client>, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, Debug)]
enum Direction {
    Up,
    Down,
}

impl Relay {
    /// A relay that listens for clients on `listen`.
    pub fn new(listen: UdpSocket, settings: RelaySettings) -> Self {
        let mut rng = Random::insecure(settings.seed);
        let shared = Shared {
            listen: AddressedSocket::new(listen),
            settings,
            clock: Clock::start(),
            up: DirectionQueue::new(&settings.up, rng.fork()),
            down: DirectionQueue::new(&settings.down, rng.fork()),
            table: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The address that clients send to.
    ///
    /// # Errors
    ///
    /// Errors of the socket.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.shared.listen.get_ref().local_addr()
    }

    /// The counters so far.
    pub fn counters(&self) -> RelayCounters {
        let (up, down) = (self.shared.up.lock(), self.shared.down.lock());
        let (up, down) = (up.path.counters(), down.path.counters());
        let table = self.shared.table();
        RelayCounters {
            up,
            down,
            clients: table.clients.len() as u64,
            clients_seen: table.clients_seen,
            rebinds: table.rebinds,
            refused: table.refused,
        }
    }

    /// Changes the impairments while the relay runs.
    pub fn set(&self, up: &Impairments, down: &Impairments) {
        self.shared.up.lock().path.set(up);
        self.shared.down.lock().path.set(down);
    }

    /// Gives every client a new source port towards the server.
    ///
    /// # Errors
    ///
    /// If no socket is available. Clients that already have a new port keep it.
    pub fn rebind_all(&self) -> io::Result<()> {
        let clients: Vec<_> = self.shared.table().clients.values().cloned().collect();
        clients.iter().try_for_each(|client| self.shared.rebind(client))
    }

    /// Relays until the future is dropped.
    ///
    /// # Errors
    ///
    /// Errors of the listening socket.
    pub async fn run(&self) -> io::Result<()> {
        let mut tasks = JoinSet::new();
        for direction in [Direction::Up, Direction::Down] {
            let shared = Arc::clone(&self.shared);
            tasks.spawn(async move { shared.forward_delayed(direction).await });
        }
        let mut buf = vec![0; DATAGRAM_BYTES];
        loop {
            let (len, from) = match self.shared.listen.recv_from(&mut buf).await {
                Ok(arrived) => arrived,
                Err(error) if is_loss(&error) => continue,
                Err(error) => return Err(error),
            };
            while tasks.try_join_next().is_some() {}
            match self.client(from, &mut tasks) {
                Ok(client) => {
                    self.shared.count_up(&client);
                    self.shared.offer(Direction::Up, &client, &mut buf[..len]);
                }
                Err(_) => self.shared.table().refused += 1,
            }
        }
    }

    fn client(&self, addresses: AddressPair, tasks: &mut JoinSet<()>) -> io::Result<Arc<Client>> {
        let mut table = self.shared.table();
        let entry = match table.clients.entry(addresses) {
            Entry::Occupied(entry) => return Ok(Arc::clone(entry.get())),
            Entry::Vacant(entry) => entry,
        };
        let client = Arc::new(Client {
            addresses,
            state: Mutex::new(ClientState {
                upstream: Arc::new(socket::connect(self.shared.settings.upstream)?),
                datagrams: 0,
                active_at: self.shared.clock.now(),
            }),
            rebound: Notify::new(),
        });
        entry.insert(Arc::clone(&client));
        table.clients_seen += 1;
        let (shared, served) = (Arc::clone(&self.shared), Arc::clone(&client));
        tasks.spawn(async move { shared.serve(served).await });
        Ok(client)
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no holder panics")
    }

    const fn queue(&self, direction: Direction) -> &DirectionQueue {
        match direction {
            Direction::Up => &self.up,
            Direction::Down => &self.down,
        }
    }

    /// Carries the server's answers to one client until the client was idle for too long.
    async fn serve(self: Arc<Self>, client: Arc<Client>) {
        let mut buf = vec![0; DATAGRAM_BYTES];
        let every = self.settings.rebind_every;
        let mut rebind_at = every.map(|every| TokioInstant::now() + every);
        loop {
            let upstream = client.upstream();
            let next_rebind = rebind_at.unwrap_or_else(|| TokioInstant::now() + NEVER);
            ::tokio::select! {
                arrived = upstream.recv(&mut buf) => match arrived {
                    Ok(len) => {
                        client.lock().active_at = self.clock.now();
                        self.offer(Direction::Down, &client, &mut buf[..len]);
                    }
                    Err(error) if is_loss(&error) => {}
                    Err(_) => break,
                },
                () = client.rebound.notified() => {}
                () = sleep_until(next_rebind), if rebind_at.is_some() => {
                    rebind_at = every.map(|every| next_rebind + every);
                    if self.rebind(&client).is_err() {
                        self.table().refused += 1;
                    }
                }
                () = sleep(self.settings.idle_timeout) => {
                    let idle = self.clock.now() - client.lock().active_at;
                    if idle >= self.settings.idle_timeout {
                        break;
                    }
                }
            }
        }
        self.table().clients.remove(&client.addresses);
    }

    fn count_up(&self, client: &Arc<Client>) {
        let mut state = client.lock();
        state.active_at = self.clock.now();
        let due = self.settings.rebind_after.is_some_and(|after| {
            state.datagrams > 0 && after > 0 && state.datagrams.is_multiple_of(after)
        });
        state.datagrams += 1;
        drop(state);
        if due && self.rebind(client).is_err() {
            self.table().refused += 1;
        }
    }

    fn rebind(&self, client: &Client) -> io::Result<()> {
        let upstream = Arc::new(socket::connect(self.settings.upstream)?);
        client.lock().upstream = upstream;
        client.rebound.notify_one();
        self.table().rebinds += 1;
        Ok(())
    }

    fn offer(&self, direction: Direction, client: &Arc<Client>, datagram: &mut [u8]) {
        let queue = self.queue(direction);
        let mut delayed = queue.lock();
        let now = self.clock.now();
        let DelayedPath { path, waiting, spare } = &mut *delayed;
        let first_before = waiting.next_due();
        path.offer(now, datagram, &mut |at, bytes| {
            // A datagram may not overtake one that already waits for the same instant.
            let in_turn = waiting.next_due().is_none_or(|due| due > now);
            if at <= now && in_turn && self.send(direction, client, bytes) {
                return;
            }
            let mut copy = spare.pop().unwrap_or_default();
            copy.clear();
            copy.extend_from_slice(bytes);
            waiting.push(at.max(now), (Arc::clone(client), copy));
        });
        if delayed.waiting.next_due() != first_before {
            queue.earlier.notify_one();
        }
    }

    /// Sends the datagrams that were delayed, when they are due.
    async fn forward_delayed(&self, direction: Direction) {
        let queue = self.queue(direction);
        loop {
            let wait_until = {
                let mut delayed = queue.lock();
                let now = self.clock.now();
                let mut blocked = false;
                while !blocked && let Some((client, bytes)) = delayed.waiting.peek_due(now) {
                    blocked = !self.send(direction, client, bytes);
                    if !blocked && let Some((_, (_, bytes))) = delayed.waiting.pop_due(now) {
                        delayed.spare.push(bytes);
                    }
                }
                let due = if blocked { Some(now + RETRY) } else { delayed.waiting.next_due() };
                due.and_then(|due| self.clock.to_std(due)).map(TokioInstant::from_std)
            };
            ::tokio::select! {
                () = sleep_until(wait_until.unwrap_or_else(|| TokioInstant::now() + NEVER)) => {}
                () = queue.earlier.notified() => {}
            }
        }
    }

    /// Sends a datagram, or counts it as refused. Returns `false` if the socket has no room.
    fn send(&self, direction: Direction, client: &Client, datagram: &[u8]) -> bool {
        let sent = match direction {
            Direction::Up => client.upstream().try_send(datagram).map(drop),
            Direction::Down => self.listen.try_send_to(datagram, client.addresses),
        };
        match sent {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => false,
            Err(_) => {
                self.table().refused += 1;
                true
            }
        }
    }
}

impl Client {
    fn lock(&self) -> MutexGuard<'_, ClientState> {
        self.state.lock().expect("no holder panics")
    }

    fn upstream(&self) -> Arc<UdpSocket> {
        Arc::clone(&self.lock().upstream)
    }
}

impl DirectionQueue {
    fn new(impairments: &Impairments, rng: Random) -> Self {
        let path = Path::new(impairments, rng);
        let delayed = DelayedPath { path, waiting: DelayLine::new(), spare: Vec::new() };
        Self { delayed: Mutex::new(delayed), earlier: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, DelayedPath> {
        self.delayed.lock().expect("no holder panics")
    }
}
