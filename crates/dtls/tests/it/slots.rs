//! A server with few session slots, and more clients than that.

use lightseal_core::{Engine, Instant, Random};
use lightseal_dtls::codepoints::{AlertDescription, ContentType, PskKeyExchangeMode};
use lightseal_dtls::error::Limit;
use lightseal_dtls::{
    CloseReason, Connection, CookiePolicy, Endpoint, Event, Fault, Handle,
    ProtocolVersion::{self, Dtls12, Dtls13},
    Psk, SessionSlots, WhenFull,
};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use testkit::drain;
use testkit::pair::{self, ClientParts, ServerParts, psk, server_address};

const VERSIONS: [ProtocolVersion; 2] = [Dtls12, Dtls13];
const MINUTE: Duration = Duration::from_secs(60);

struct Client {
    connection: Connection,
    address: SocketAddr,
    /// The number of datagrams that it may still send.
    breath: usize,
    connected: bool,
    received: Vec<Vec<u8>>,
    closed: Option<(Instant, CloseReason)>,
}

/// Any number of clients, a server, and a network that delivers without delay.
struct Crowd {
    now: Instant,
    server: Endpoint,
    clients: Vec<Client>,
    version: ProtocolVersion,
    /// The sessions of which the server's application knows, in order of connection.
    open: Vec<(Handle, SocketAddr)>,
    closed: Vec<(SocketAddr, CloseReason)>,
    received: Vec<Vec<u8>>,
    /// Datagrams to an address without a client.
    strays: Vec<Vec<u8>>,
    /// The last datagram of a client.
    last_sent: Vec<u8>,
    to_server: VecDeque<(SocketAddr, Vec<u8>)>,
}

fn address(number: u16) -> SocketAddr {
    SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, 1, number], 40_000))
}

fn slots(most: usize, when_full: WhenFull) -> SessionSlots {
    SessionSlots::at_most(NonZeroUsize::new(most).unwrap(), when_full)
}

fn server_config(version: ProtocolVersion, slots: SessionSlots) -> ServerParts {
    let mut config = ServerParts::new(Arc::new(psk()));
    config.settings.versions = vec![version];
    config.slots = slots;
    config
}

impl Crowd {
    fn new(version: ProtocolVersion, most: usize, when_full: WhenFull) -> Self {
        Self::with(version, server_config(version, slots(most, when_full)))
    }

    fn with(version: ProtocolVersion, config: ServerParts) -> Self {
        Self {
            now: Instant::from_micros(1_000_000),
            server: Endpoint::server(config.config(), Random::insecure(1)),
            clients: Vec::new(),
            version,
            open: Vec::new(),
            closed: Vec::new(),
            received: Vec::new(),
            strays: Vec::new(),
            last_sent: Vec::new(),
            to_server: VecDeque::new(),
        }
    }

    /// A client that sends this many datagrams and is silent from then on.
    fn add(&mut self, address: SocketAddr, breath: usize) -> usize {
        self.add_with(psk(), address, breath)
    }

    /// Adds a client with this key.
    fn add_with(&mut self, psk: Psk, address: SocketAddr, breath: usize) -> usize {
        let mut config = ClientParts::new(psk);
        config.settings.versions = vec![self.version];
        config.settings.psk_modes = vec![PskKeyExchangeMode::PSK_KE];
        let rng = Random::insecure(100 + self.clients.len() as u64);
        let connection = Connection::client(config.config(), server_address(), self.now, rng);
        let (received, closed) = (Vec::new(), None);
        self.clients.push(Client {
            connection,
            address,
            breath,
            connected: false,
            received,
            closed,
        });
        self.clients.len() - 1
    }

    /// Adds a client and lets one second pass, in which it is admitted or not.
    fn come(&mut self) -> usize {
        let client = self.add(address(self.clients.len() as u16), usize::MAX);
        self.run_for(Duration::from_secs(1));
        client
    }

    fn fill(&mut self, clients: usize) {
        for _ in 0..clients {
            self.come();
        }
    }

    fn stall_many(&mut self, clients: usize) {
        for _ in 0..clients {
            self.stall();
        }
    }

    /// A handshake that stops after the client has sent its hello with a cookie.
    fn stall(&mut self) -> usize {
        let client = self.add(address(self.clients.len() as u16), 2);
        self.run_for(Duration::from_millis(1));
        client
    }

    fn send(&mut self, client: usize, payload: &[u8]) {
        let now = self.now;
        let _ = self.clients[client].connection.send(now, payload, &mut []).unwrap();
        self.run_for(Duration::from_millis(1));
    }

    /// Delivers datagrams until all ends are idle; returns the next deadline.
    fn settle(&mut self) -> Option<Instant> {
        loop {
            let mut wakes = Vec::new();
            for client in &mut self.clients {
                let Client { connection, connected, received, closed, .. } = client;
                let drained = drain(connection, |event| match event {
                    Event::Connected(_) => *connected = true,
                    Event::Data(data) => received.push(data.to_vec()),
                    Event::Closed(reason) => *closed = Some((self.now, reason)),
                    event => panic!("{event:?}"),
                });
                wakes.extend(drained.wake);
                for datagram in drained.payloads() {
                    self.last_sent.clone_from(&datagram);
                    if client.breath > 0 {
                        client.breath -= 1;
                        self.to_server.push_back((client.address, datagram));
                    }
                }
            }
            // Datagrams are delivered one at a time, as from a socket.
            if let Some((from, mut datagram)) = self.to_server.pop_front() {
                self.server.handle_datagram(self.now, from, &mut datagram);
            }
            let Self { server, open, received, closed, .. } = self;
            let drained = drain(server, |event| match event.event {
                Event::Connected(_) => open.push((event.handle, event.peer)),
                Event::Data(data) => {
                    let known = |(handle, _): &(Handle, _)| *handle == event.handle;
                    assert!(open.iter().any(known), "data before Connected");
                    received.push(data.to_vec());
                }
                Event::Closed(reason) => {
                    open.retain(|(handle, _)| *handle != event.handle);
                    closed.push((event.peer, reason));
                }
                other => panic!("{other:?}"),
            });
            wakes.extend(drained.wake);
            let to_clients = drained.datagrams;
            let quiet = to_clients.is_empty() && self.to_server.is_empty();
            for (to, mut datagram) in to_clients {
                let mut clients = self.clients.iter_mut().rev();
                match clients.find(|client| client.address == to && client.closed.is_none()) {
                    Some(client) => {
                        let connection = &mut client.connection;
                        connection.handle_datagram(self.now, server_address(), &mut datagram);
                    }
                    None => self.strays.push(datagram),
                }
            }
            if quiet {
                return wakes.into_iter().min();
            }
        }
    }

    fn run_for(&mut self, duration: Duration) {
        let until = self.now + duration;
        while let Some(wake) = self.settle().filter(|wake| *wake <= until) {
            self.now = self.now.max(wake);
            for client in &mut self.clients {
                client.connection.handle_timeout(self.now);
            }
            self.server.handle_timeout(self.now);
        }
        self.now = until;
    }

    /// The clients with which the server's application has sessions, in order.
    fn inside(&self) -> Vec<usize> {
        let of = |address| self.clients.iter().rposition(|client| client.address == address);
        self.open.iter().map(|(_, address)| of(*address).unwrap()).collect()
    }

    fn reason(&self, client: usize) -> Option<CloseReason> {
        self.clients[client].closed.map(|(_, reason)| reason)
    }
}

const REFUSED: Option<CloseReason> = Some(CloseReason::PeerAlert(AlertDescription::INTERNAL_ERROR));

#[test]
fn a_client_too_many_is_refused_and_knows_it_soon() {
    for version in VERSIONS {
        let mut crowd = Crowd::new(version, 3, WhenFull::Refuse);
        for client in 0..3 {
            assert_eq!(crowd.come(), client);
        }
        assert_eq!(crowd.inside(), [0, 1, 2], "up to the limit all clients are admitted");
        let came = crowd.now;
        let late = crowd.come();
        crowd.run_for(Duration::from_secs(9));
        assert_eq!((crowd.inside(), crowd.reason(late)), (vec![0, 1, 2], REFUSED));
        let (at, _) = crowd.clients[late].closed.unwrap();
        assert!(at.saturating_since(came) <= Duration::from_secs(7), "{version}: {at:?}");
        let stats = crowd.server.stats();
        assert!(stats.full > 0 && stats.full == stats.refused && stats.evicted == 0, "{stats:?}");
        let last = stats.last_refusal.map(|(_, fault)| fault);
        assert_eq!(last, Some(Fault::Limit(Limit::SessionSlots)));
        assert_eq!(crowd.server.open_connections(), 3);

        // A slot that is free again can be taken by any client.
        let now = crowd.now;
        crowd.clients[1].connection.close(now);
        assert_eq!(crowd.come(), 4);
        assert_eq!(crowd.inside(), [0, 2, 4]);
    }
}

#[test]
fn without_a_limit_all_get_in() {
    let mut crowd = Crowd::with(Dtls13, server_config(Dtls13, SessionSlots::default()));
    crowd.fill(40);
    assert_eq!(crowd.inside().len(), 40);
}

/// The slot may become free while a refused client still tries.
#[test]
fn a_refused_client_that_still_tries_gets_the_slot() {
    for version in VERSIONS {
        let mut crowd = Crowd::new(version, 1, WhenFull::Refuse);
        crowd.come();
        let next = crowd.add(address(1), usize::MAX);
        crowd.run_for(Duration::from_millis(1));
        assert!(crowd.server.stats().full > 0);
        let now = crowd.now;
        crowd.clients[0].connection.close(now);
        crowd.run_for(Duration::from_secs(3));
        assert_eq!((crowd.inside(), crowd.reason(next)), (vec![next], None), "{version}");
    }
}

#[test]
fn the_oldest_session_makes_room_and_is_told() {
    for version in VERSIONS {
        let mut crowd = Crowd::new(version, 2, WhenFull::EvictOldest);
        crowd.fill(2);
        // Sending data does not prevent eviction.
        crowd.send(0, b"busy");
        let (handle, _) = crowd.open[0];
        let _ = crowd
            .server
            .connection_mut(handle)
            .unwrap()
            .send(crowd.now, b"last words", &mut [])
            .unwrap();
        for next in 2..5 {
            assert_eq!(crowd.come(), next);
            assert_eq!(crowd.inside(), [next - 1, next], "{version}");
            assert_eq!(crowd.reason(next - 2), Some(CloseReason::Peer), "close_notify");
            assert_eq!(crowd.closed.pop(), Some((address(next as u16 - 2), CloseReason::Evicted)));
        }
        assert_eq!(crowd.clients[0].received, [b"last words"]);
        assert_eq!((crowd.server.stats().evicted, crowd.server.stats().full), (3, 0));
        assert_eq!(crowd.server.open_connections(), 2);
        crowd.send(4, b"ping");
        assert_eq!(crowd.received.last().unwrap(), b"ping");
    }
}

/// A client that begins anew from another port gives up a session of its own.
#[test]
fn a_client_that_begins_anew_evicts_its_own_silent_session() {
    for version in VERSIONS {
        let other = || Psk::external(b"other", &[0x2b; 32]).unwrap();
        let mut config = server_config(version, slots(2, WhenFull::EvictOldest));
        config.psks = Arc::new(vec![psk(), other()]);
        let mut crowd = Crowd::with(version, config);
        let third_party = crowd.come();
        let lost = crowd.add_with(other(), address(1), usize::MAX);
        crowd.run_for(Duration::from_secs(1));
        assert_eq!(crowd.inside(), [third_party, lost]);
        let successor = crowd.add_with(other(), address(2), usize::MAX);
        crowd.run_for(Duration::from_secs(1));
        assert_eq!(crowd.inside(), [third_party, successor], "{version}");
        // A client that has no silent session evicts the oldest one, as ever.
        let fourth = crowd.add(address(3), 2);
        crowd.run_for(Duration::from_millis(1));
        crowd.clients[fourth].breath = usize::MAX;
        crowd.send(third_party, b"still here");
        crowd.run_for(Duration::from_secs(5));
        assert_eq!(crowd.inside(), [successor, fourth], "{version}");
    }
}

#[test]
fn the_session_idle_longest_makes_room_if_it_is_idle_long_enough() {
    for version in VERSIONS {
        let mut crowd = Crowd::new(version, 3, WhenFull::EvictIdle(MINUTE));
        crowd.fill(3);
        // The order is reversed, so that age and silence differ.
        for client in [2, 1, 0] {
            crowd.send(client, b"ping");
            crowd.run_for(Duration::from_secs(1));
        }
        // Neither the server's data nor noise from the peer's address counts.
        crowd.run_for(MINUTE - Duration::from_secs(4));
        let (handle, _) = crowd.open[2];
        let _ = crowd
            .server
            .connection_mut(handle)
            .unwrap()
            .send(crowd.now, b"hello?", &mut [])
            .unwrap();
        let mut noise = [0x2f; 40];
        crowd.server.handle_datagram(crowd.now, address(2), &mut noise);
        let early = crowd.come();
        assert_eq!((crowd.inside(), crowd.server.stats().evicted), (vec![0, 1, 2], 0));
        crowd.run_for(Duration::from_millis(500));
        let late = crowd.come();
        assert_eq!(crowd.reason(2), Some(CloseReason::Peer), "{version}");
        assert!(crowd.inside().contains(&0) && crowd.inside().contains(&1));
        // The first client that was refused may have got the slot, since it was still trying.
        let (early, late) = (crowd.inside().contains(&early), crowd.inside().contains(&late));
        assert!(early || late);
        assert_eq!(crowd.inside().len(), 3);
    }
}

/// The time of completion counts: a client that was heard while the other handshake was in progress
/// stays.
#[test]
fn a_session_that_wakes_up_in_time_is_not_evicted() {
    for version in VERSIONS {
        let mut crowd = Crowd::new(version, 1, WhenFull::EvictIdle(MINUTE));
        crowd.come();
        crowd.run_for(MINUTE);
        // A handshake begins, and its last flight is delayed.
        let late = crowd.add(address(1), 2);
        crowd.run_for(Duration::from_millis(1));
        assert_eq!(crowd.server.open_connections(), 2);
        crowd.send(0, b"awake");
        let now = crowd.now;
        let _ = crowd.clients[late].connection.send(now, b"not to be seen", &mut []).unwrap();
        crowd.clients[late].breath = usize::MAX;
        crowd.run_for(Duration::from_secs(10));
        assert_eq!(crowd.inside(), [0], "{version}");
        // In DTLS 1.3 the client completes the handshake first.
        assert_eq!(crowd.clients[late].connected, version == Dtls13);
        assert_eq!(crowd.reason(late), REFUSED, "{version}");
        assert_eq!(
            crowd.received,
            [b"awake"],
            "the application never learns of the refused client"
        );
        let refused = CloseReason::Fault(Fault::Limit(Limit::SessionSlots));
        assert_eq!(crowd.closed, [(address(1), refused)]);
        assert_eq!(crowd.server.stats().full, 1);
    }
}

/// A handshake that is not complete evicts no session.
#[test]
fn who_has_no_key_evicts_nobody() {
    for when_full in [WhenFull::Refuse, WhenFull::EvictOldest, WhenFull::EvictIdle(Duration::ZERO)]
    {
        for version in VERSIONS {
            let mut crowd = Crowd::new(version, 3, when_full);
            crowd.fill(3);
            for _ in 0..60 {
                crowd.stall();
                assert!(crowd.server.open_connections() <= 6, "{when_full:?}");
                crowd.run_for(Duration::from_millis(500));
            }
            assert_eq!(crowd.inside(), [0, 1, 2], "{version} {when_full:?}");
            for client in 0..3 {
                crowd.send(client, b"still here");
            }
            assert_eq!(crowd.received.len(), 3);
            assert_eq!(crowd.server.stats().evicted, 0);
        }
    }
}

/// Without cookies, anybody who has seen a hello of DTLS 1.3 can replay it from any address.
#[test]
fn recorded_hellos_evict_nobody_and_keep_nobody_out() {
    let mut config = server_config(Dtls13, slots(3, WhenFull::EvictOldest));
    config.cookies = CookiePolicy::WhenRetrying;
    config.settings.psk_modes = vec![PskKeyExchangeMode::PSK_KE];
    let mut crowd = Crowd::with(Dtls13, config);
    crowd.fill(3);
    let mut len = 0;
    for number in 3..103 {
        // A hello that never reached the server.
        crowd.add(address(number), 0);
        crowd.settle();
        let mut hello = crowd.last_sent.clone();
        len = hello.len();
        crowd.server.handle_datagram(crowd.now, address(1000 + number), &mut hello);
        crowd.run_for(Duration::from_millis(100));
        assert!(crowd.server.open_connections() <= 6);
    }
    assert_eq!((crowd.inside(), crowd.server.stats().evicted), (vec![0, 1, 2], 0));
    // Refusals are shorter than the hello.
    let alerts = crowd.strays.iter().filter(|stray| stray[0] == ContentType::ALERT.0);
    assert!(alerts.clone().count() > 50);
    assert!(alerts.clone().all(|alert| alert.len() * 4 < len));
    // After the flood, four seconds are enough for its handshakes to give up their slots.
    crowd.run_for(Duration::from_secs(4));
    let next = crowd.come();
    assert_eq!(crowd.inside(), [1, 2, next]);
}

/// Handshakes without proof hold their slots for a while, but not against a client with a key.
#[test]
fn stalled_handshakes_give_way() {
    // In DTLS 1.2 they give up their slots to other such handshakes after four seconds, not before.
    let mut crowd = Crowd::new(Dtls12, 3, WhenFull::Refuse);
    crowd.stall_many(3);
    assert_eq!(crowd.server.open_connections(), 3);
    let early = crowd.stall();
    assert_eq!((crowd.server.open_connections(), crowd.server.stats().full), (3, 1));
    assert_eq!(crowd.closed, []);
    crowd.run_for(Duration::from_secs(4));
    let next = crowd.come();
    assert_eq!(crowd.inside(), [next]);
    assert_eq!(crowd.closed, [(address(0), CloseReason::Crowded)]);
    assert_eq!(crowd.server.open_connections(), 3);
    // The clients of these handshakes were sent a plaintext alert, which is not believed
    // immediately.
    crowd.run_for(Duration::from_secs(20));
    assert_eq!((crowd.reason(0), crowd.reason(early)), (REFUSED, REFUSED));

    // They give up a slot immediately to a client that has proved key and address: in DTLS 1.3,
    // with a cookie.
    let mut config = server_config(Dtls12, slots(3, WhenFull::Refuse));
    config.settings.versions = vec![Dtls13, Dtls12];
    let mut crowd = Crowd::with(Dtls12, config);
    crowd.stall_many(3);
    crowd.version = Dtls13;
    let next = crowd.come();
    assert_eq!(crowd.inside(), [next]);
    // Once its handshake is complete no other client displaces it.
    crowd.version = Dtls12;
    for _ in 0..20 {
        crowd.stall();
        crowd.run_for(Duration::from_secs(2));
    }
    assert_eq!(crowd.inside(), [next]);
}

/// A handshake whose client has proved its key keeps its slot until its deadline.
#[test]
fn a_slow_client_with_a_key_keeps_its_slot() {
    let mut crowd = Crowd::new(Dtls13, 1, WhenFull::Refuse);
    let slow = crowd.stall();
    crowd.run_for(Duration::from_secs(10));
    let other = crowd.come();
    assert_eq!(crowd.server.open_connections(), 1);
    crowd.clients[slow].breath = usize::MAX;
    crowd.run_for(Duration::from_secs(20));
    assert_eq!((crowd.inside(), crowd.reason(other)), (vec![slow], REFUSED));
}

#[test]
fn a_client_that_begins_anew_takes_its_own_slot() {
    for ids in [None, Some(4)] {
        for version in VERSIONS {
            for when_full in [WhenFull::Refuse, WhenFull::EvictOldest] {
                let mut config = server_config(version, slots(2, when_full));
                config.settings.connection_ids = pair::ids(ids);
                let mut crowd = Crowd::with(version, config);
                crowd.fill(2);
                // The client's power failed, so it sends no close_notify.
                crowd.clients[1].closed = Some((crowd.now, CloseReason::Local));
                let again = crowd.add(address(1), usize::MAX);
                crowd.run_for(Duration::from_secs(1));
                assert_eq!(crowd.inside(), [0, again], "{version} {when_full:?}");
                assert_eq!(crowd.closed, [(address(1), CloseReason::Replaced)]);
                assert_eq!(crowd.server.stats().evicted, 0);
                assert_eq!(crowd.server.open_connections(), 2);
            }
        }
    }
}

/// More simultaneous handshakes than slots: there are never more sessions than slots.
#[test]
fn handshakes_at_once_share_the_slots() {
    for version in VERSIONS {
        for when_full in
            [WhenFull::Refuse, WhenFull::EvictOldest, WhenFull::EvictIdle(Duration::ZERO)]
        {
            let mut crowd = Crowd::new(version, 4, when_full);
            for number in 0..12 {
                crowd.add(address(number), usize::MAX);
            }
            crowd.run_for(Duration::from_secs(30));
            assert_eq!(crowd.inside().len(), 4, "{version} {when_full:?}");
            for client in crowd.inside() {
                crowd.send(client, b"ping");
            }
            assert_eq!(crowd.received.len(), 4);
            let stats = *crowd.server.stats();
            assert_eq!(when_full == WhenFull::Refuse, stats.evicted == 0, "{stats:?}");
            // Clients without a session have been told so.
            let told = crowd.clients.iter().filter(|client| client.closed.is_some()).count();
            assert_eq!(told, 8);
        }
    }
}

/// A lowered limit applies to new clients.
#[test]
fn a_lower_limit_ends_sessions_when_the_next_client_comes() {
    let mut crowd = Crowd::new(Dtls13, 5, WhenFull::EvictOldest);
    crowd.fill(5);
    let config = server_config(Dtls13, slots(2, WhenFull::EvictOldest));
    crowd.server.set_config(config.config()).unwrap();
    crowd.run_for(Duration::from_secs(1));
    assert_eq!(crowd.inside().len(), 5);
    let next = crowd.come();
    assert_eq!(crowd.inside(), [4, next]);
}
