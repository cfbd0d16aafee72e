//! Many associations that one endpoint begins over one socket, and which of them a server keeps (RFC
//! 9147, sections 5.11 and 9).

use crate::connection_ids::configs;
use lightseal_dtls::ProtocolVersion::{self, Dtls12, Dtls13};
use lightseal_dtls::{
    ClientConfig, CloseReason, ConnectError, ConnectionIds, Endpoint, Engine, Event, Fault, Handle,
    Instant, Limit, MemorySessions, Psk, Random, ServerConfig, SessionSlots, Settings, WhenFull,
};
use std::collections::{BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use testkit::drain;
use testkit::pair::{Configs, Direction};

fn psk(n: usize) -> Psk {
    Psk::external(format!("device {n}").as_bytes(), &[0x2a; 32]).unwrap()
}

/// One endpoint that begins associations over one socket, and the servers that it speaks with. The
/// servers answer each payload with the same payload.
struct Crowd {
    now: Instant,
    client: Endpoint,
    servers: Vec<Endpoint>,
    /// Datagrams under way: to which server, and to the client from which server.
    network: VecDeque<(Direction, usize, Vec<u8>)>,
    /// One datagram of this number is lost.
    lose: Option<usize>,
    /// A server that is away.
    silent: Option<usize>,
    sent: usize,
    connected: BTreeSet<Handle>,
    received: Vec<(Handle, Vec<u8>)>,
    closed: Vec<(Handle, CloseReason)>,
}

const CROWD: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::LOCALHOST), 9);

fn server_at(n: usize) -> SocketAddr {
    SocketAddr::from((Ipv6Addr::LOCALHOST, 100 + n as u16))
}

impl Crowd {
    fn new(servers: usize, client: &Settings, server: &Settings) -> Self {
        let keys: Vec<Psk> = (0..200).map(psk).collect();
        let config = ServerConfig::with(Arc::new(keys), server.clone()).unwrap();
        let config = Arc::new(config.with_cookies(lightseal_dtls::CookiePolicy::Always));
        let begin = |n| Endpoint::server(Arc::clone(&config), Random::insecure(n));
        Self {
            now: Instant::from_micros(1),
            client: Endpoint::client(client.clone(), Random::insecure(99)).unwrap(),
            servers: (0..servers as u64).map(begin).collect(),
            network: VecDeque::new(),
            lose: None,
            silent: None,
            sent: 0,
            connected: BTreeSet::new(),
            received: Vec::new(),
            closed: Vec::new(),
        }
    }

    fn connect(&mut self, settings: &Settings, server: usize, n: usize) -> Handle {
        let config = Arc::new(ClientConfig::with(psk(n), settings.clone()).unwrap());
        self.client.connect(self.now, config, server_at(server)).unwrap()
    }

    fn send(&mut self, handle: Handle, payload: &[u8]) {
        let mut connection = self.client.connection_mut(handle).unwrap();
        let _ = connection.send(self.now, payload, &mut []).unwrap();
    }

    /// Sends a payload on each association, and asserts that its answer comes to the same one.
    fn assert_answers(&mut self, all: &[Handle], what: &str) {
        self.received.clear();
        for (n, handle) in all.iter().enumerate() {
            self.send(*handle, format!("for {n}").as_bytes());
        }
        self.run_for(Duration::from_secs(1));
        self.received.sort();
        let expected = all.iter().enumerate().map(|(n, h)| (*h, format!("for {n}").into_bytes()));
        assert!(self.received == expected.collect::<Vec<_>>(), "{what}: one answer each");
    }

    fn transmit(&mut self, direction: Direction, server: usize, datagram: Vec<u8>) {
        self.sent += 1;
        if self.silent != Some(server)
            && self.lose.is_none_or(|each| !self.sent.is_multiple_of(each))
        {
            self.network.push_back((direction, server, datagram));
        }
    }

    /// Drains all endpoints; returns the earliest wake-up time.
    fn drain(&mut self) -> Option<Instant> {
        let Self { client, servers, connected, received, closed, .. } = self;
        let drained = drain(client, |event| match event.event {
            Event::Connected(_) => assert!(connected.insert(event.handle)),
            Event::Data(data) => received.push((event.handle, data.to_vec())),
            Event::Closed(reason) => closed.push((event.handle, reason)),
            event => panic!("{event}"),
        });
        let mut wake = drained.wake;
        let to_server = |(to, datagram): (SocketAddr, _)| {
            (Direction::ToServer, usize::from(to.port()) - 100, datagram)
        };
        let mut out: Vec<_> = drained.datagrams.into_iter().map(to_server).collect();
        for (at, server) in servers.iter_mut().enumerate() {
            let mut answers = Vec::new();
            let first = drain(server, |event| {
                if let Event::Data(data) = event.event {
                    answers.push((event.handle, data.to_vec()));
                }
            });
            for (handle, data) in answers {
                let mut connection = server.connection_mut(handle).unwrap();
                let _ = connection.send(self.now, &data, &mut []).unwrap();
            }
            let then = drain(server, |event| panic!("{}", event.event));
            wake = wake.into_iter().chain(then.wake).min();
            for (to, datagram) in first.datagrams.into_iter().chain(then.datagrams) {
                assert_eq!(to, CROWD);
                out.push((Direction::ToClient, at, datagram));
            }
        }
        for (direction, server, datagram) in out {
            self.transmit(direction, server, datagram);
        }
        wake
    }

    /// Lets virtual time pass. Each datagram takes a millisecond.
    fn run_for(&mut self, duration: Duration) {
        let until = self.now + duration;
        loop {
            let wake = self.drain();
            if self.network.is_empty() {
                let Some(wake) = wake.filter(|wake| *wake <= until) else { break };
                self.now = self.now.max(wake);
                self.client.handle_timeout(self.now);
                for server in &mut self.servers {
                    server.handle_timeout(self.now);
                }
                continue;
            }
            self.now += Duration::from_millis(1);
            for (direction, server, mut datagram) in std::mem::take(&mut self.network) {
                if direction == Direction::ToServer {
                    self.servers[server].handle_datagram(self.now, CROWD, &mut datagram);
                } else {
                    let from = server_at(server);
                    self.client.handle_datagram(self.now, from, &mut datagram);
                }
            }
        }
        self.now = self.now.max(until);
    }
}

/// Settings of both ends with connection IDs of these lengths.
fn crowd_settings(
    version: ProtocolVersion,
    client: Option<u8>,
    server: Option<u8>,
) -> [Settings; 2] {
    let Configs { client, server, .. } = configs(version, client, server);
    [client.settings, server.settings]
}

#[test]
fn one_socket_carries_a_hundred_associations_with_one_server_and_more_with_others() {
    for (version, lose) in [(Dtls13, None), (Dtls12, None), (Dtls13, Some(11)), (Dtls12, Some(11))]
    {
        let [ours, theirs] = crowd_settings(version, Some(4), Some(4));
        let mut crowd = Crowd::new(4, &ours, &theirs);
        crowd.lose = lose;
        let mut all = Vec::new();
        for n in 0..160 {
            let server = if n < 100 { 0 } else { 1 + n % 3 };
            let handle = crowd.connect(&ours, server, n);
            crowd.send(handle, format!("early {n}").as_bytes());
            all.push(handle);
        }
        assert_eq!(crowd.client.open_connections(), 160);
        crowd.run_for(Duration::from_secs(900));
        assert_eq!(crowd.connected.len(), 160, "{version} {lose:?}: {:?}", crowd.closed);
        assert_eq!(crowd.servers[0].open_connections(), 100);
        crowd.lose = None;
        crowd.assert_answers(&all, &format!("{version} {lose:?}"));
        // The IDs that change later are the endpoint's too.
        for handle in &all {
            crowd.client.connection_mut(*handle).unwrap().rotate_connection_id(crowd.now);
        }
        crowd.run_for(Duration::from_secs(2));
        crowd.assert_answers(&all, &format!("{version} {lose:?}, after new connection IDs"));
        crowd.client.close_all(crowd.now);
        crowd.run_for(Duration::from_secs(30));
        assert_eq!((crowd.client.open_connections(), crowd.closed.len()), (0, 160));
        assert!(crowd.servers.iter().all(|server| server.open_connections() == 0));
    }
}

/// RFC 9147, section 5.11, has the older association end; a client that still has both keeps them.
#[test]
fn associations_of_one_identity_at_one_address_stay_as_long_as_their_client_has_them() {
    for (version, lose) in [(Dtls13, None), (Dtls12, None), (Dtls13, Some(11)), (Dtls12, Some(11))]
    {
        let [ours, theirs] = crowd_settings(version, Some(2), Some(4));
        let mut crowd = Crowd::new(1, &ours, &theirs);
        crowd.lose = lose;
        let all: Vec<_> = (0..20).map(|_| crowd.connect(&ours, 0, 0)).collect();
        crowd.run_for(Duration::from_secs(300));
        assert_eq!(crowd.connected.len(), 20, "{version} {lose:?}: {:?}", crowd.closed);
        assert_eq!(crowd.servers[0].open_connections(), 20, "{version} {lose:?}");
        crowd.lose = None;
        crowd.assert_answers(&all, &format!("{version} {lose:?}"));
        // The client loses its associations. Associations that have answered before stay until they idle.
        crowd.client = Endpoint::client(ours.clone(), Random::insecure(98)).unwrap();
        crowd.connected.clear();
        let next = crowd.connect(&ours, 0, 0);
        crowd.run_for(Duration::from_secs(1));
        assert_eq!(crowd.servers[0].open_connections(), 21, "{version}: the last one is asked");
        crowd.run_for(Duration::from_secs(40));
        assert!(crowd.connected.contains(&next), "{version}");
        assert_eq!(crowd.servers[0].open_connections(), 20, "{version}: the last one has ended");
    }
}

/// While all slots are taken, another client at the address of a silent one, such as a host that got it
/// from a NAT, is refused and ends nothing. The client itself is refused until it has been asked.
#[test]
fn a_stranger_at_a_silent_clients_address_ends_no_association_while_slots_are_taken() {
    for version in [Dtls13, Dtls12] {
        let [ours, theirs] = crowd_settings(version, Some(2), Some(4));
        let mut crowd = Crowd::new(1, &ours, &theirs);
        let keys: Vec<Psk> = (0..2).map(psk).collect();
        let slots = SessionSlots::at_most(NonZeroUsize::MIN, WhenFull::Refuse);
        let config = ServerConfig::with(Arc::new(keys), theirs.clone()).unwrap().with_slots(slots);
        crowd.servers[0] = Endpoint::server(Arc::new(config), Random::insecure(5));
        let silent = crowd.connect(&ours, 0, 0);
        crowd.run_for(Duration::from_secs(1));
        assert!(crowd.connected.contains(&silent), "{version}");
        let other = |seed| Endpoint::client(ours.clone(), Random::insecure(seed)).unwrap();
        let sleeper = std::mem::replace(&mut crowd.client, other(94));
        // One that has the key of another identity, and one that has none.
        for n in [1, 2] {
            crowd.connected.clear();
            crowd.connect(&ours, 0, n);
            crowd.run_for(Duration::from_secs(90));
            assert_eq!(crowd.servers[0].open_connections(), 1, "{version} {n}");
        }
        crowd.client = sleeper;
        crowd.assert_answers(&[silent], &version.to_string());
        // The client has lost its association.
        crowd.client = other(93);
        crowd.connected.clear();
        crowd.connect(&ours, 0, 0);
        crowd.run_for(Duration::from_secs(90));
        assert_eq!(crowd.servers[0].open_connections(), 0, "{version}: nobody has answered for it");
        let next = crowd.connect(&ours, 0, 0);
        crowd.run_for(Duration::from_secs(1));
        crowd.assert_answers(&[next], &version.to_string());
    }
}

/// In DTLS 1.2 the client sends the last flight of a resumed handshake, and nobody acknowledges it.
#[test]
fn handshakes_that_resume_sessions_follow_each_other_without_a_pause() {
    let [ours, theirs] = crowd_settings(Dtls12, Some(2), Some(4));
    let sessions = MemorySessions::new(NonZeroUsize::MIN);
    let config = ClientConfig::with(psk(0), ours.clone()).unwrap();
    let config = Arc::new(config.with_session_cache(Arc::new(sessions)));
    let mut crowd = Crowd::new(1, &ours, &theirs);
    for n in 0..5 {
        let config = Arc::clone(&config);
        let handle = crowd.client.connect(crowd.now, config, server_at(0)).unwrap();
        crowd.send(handle, b"first");
        crowd.run_for(Duration::from_millis(100));
        assert!(crowd.connected.contains(&handle), "{n}");
        let connection = crowd.client.connection(handle).unwrap();
        assert_eq!(connection.negotiated().unwrap().resumed, n > 0, "{n}");
        assert!(crowd.client.may_begin_with(server_at(0)), "{n}");
    }
}

/// A client without IDs of its own cannot tell two associations apart.
#[test]
fn an_older_association_that_could_not_be_told_from_the_newer_one_ends_at_once() {
    for version in [Dtls13, Dtls12] {
        let [ours, theirs] = crowd_settings(version, None, Some(4));
        let mut crowd = Crowd::new(1, &ours, &theirs);
        for seed in [97, 96] {
            crowd.client = Endpoint::client(ours.clone(), Random::insecure(seed)).unwrap();
            crowd.connected.clear();
            crowd.connect(&ours, 0, 0);
            crowd.run_for(Duration::from_millis(500));
            assert_eq!(crowd.servers[0].open_connections(), 1, "{version}");
        }
        assert!(crowd.closed.is_empty(), "{version}");
    }
}

#[test]
fn without_connection_ids_there_is_one_association_with_each_server() {
    let [mut ours, theirs] = crowd_settings(Dtls13, None, None);
    let mut crowd = Crowd::new(2, &ours, &theirs);
    let first = crowd.connect(&ours, 0, 0);
    let other = crowd.connect(&ours, 1, 0);
    let waits = crowd.connect(&ours, 0, 1);
    crowd.send(waits, b"never sent");
    crowd.run_for(Duration::from_secs(2));
    assert_eq!(crowd.connected, BTreeSet::from([first, other]));
    let fault = CloseReason::Fault(Fault::Limit(Limit::AddressInUse));
    assert_eq!(crowd.closed, [(waits, fault)]);
    let config = Arc::new(ClientConfig::with(psk(2), ours.clone()).unwrap());
    let again = crowd.client.connect(crowd.now, config, server_at(0));
    assert_eq!(again, Err(ConnectError::AddressInUse));
    ours.connection_ids = ConnectionIds::Bytes(4);
    let config = Arc::new(ClientConfig::with(psk(2), ours.clone()).unwrap());
    let again = crowd.client.connect(crowd.now, config, server_at(0));
    assert_eq!(again, Err(ConnectError::ConnectionIdLength));
    // When the association has ended, another one can begin.
    ours.connection_ids = ConnectionIds::Off;
    crowd.client.connection_mut(first).unwrap().close(crowd.now);
    crowd.run_for(Duration::from_secs(2));
    let next = crowd.connect(&ours, 0, 2);
    crowd.run_for(Duration::from_secs(2));
    assert!(crowd.connected.contains(&next));
}

#[test]
fn an_association_that_waits_can_be_closed_and_the_next_one_begins() {
    let [ours, theirs] = crowd_settings(Dtls13, Some(4), Some(4));
    let mut crowd = Crowd::new(1, &ours, &theirs);
    let all: Vec<_> = (0..3).map(|n| crowd.connect(&ours, 0, n)).collect();
    crowd.client.connection_mut(all[1]).unwrap().close(crowd.now);
    crowd.run_for(Duration::from_secs(2));
    assert_eq!(crowd.closed, [(all[1], CloseReason::Local)]);
    assert_eq!(crowd.connected, BTreeSet::from([all[0], all[2]]));
    assert_eq!(crowd.servers[0].stats().accepted, 2);
}

#[test]
fn a_server_that_does_not_answer_holds_up_no_other_server() {
    let [ours, theirs] = crowd_settings(Dtls13, Some(4), Some(4));
    let mut crowd = Crowd::new(2, &ours, &theirs);
    crowd.silent = Some(0);
    let first = crowd.connect(&ours, 0, 0);
    let behind = crowd.connect(&ours, 0, 1);
    let other = crowd.connect(&ours, 1, 2);
    crowd.run_for(ours.handshake_deadline - Duration::from_secs(1));
    assert_eq!((&crowd.connected, crowd.closed.len()), (&BTreeSet::from([other]), 0));
    crowd.run_for(Duration::from_secs(2));
    // The deadline of the one behind counts from now on.
    assert_eq!(crowd.closed, [(first, CloseReason::HandshakeTimeout)]);
    crowd.silent = None;
    crowd.run_for(ours.handshake_deadline / 2);
    assert_eq!(crowd.connected, BTreeSet::from([behind, other]));
}

#[test]
fn associations_that_an_endpoint_begins_take_its_slots() {
    let [ours, theirs] = crowd_settings(Dtls13, Some(4), Some(4));
    let three = NonZeroUsize::new(3).unwrap();
    let config = ServerConfig::with(Arc::new(psk(0)), ours.clone()).unwrap();
    let config = config.with_slots(SessionSlots::at_most(three, WhenFull::Refuse));
    let mut crowd = Crowd::new(2, &ours, &theirs);
    crowd.client = Endpoint::server(Arc::new(config), Random::insecure(7));
    let first: Vec<_> = (0..3).map(|n| crowd.connect(&ours, n % 2, n)).collect();
    let config = Arc::new(ClientConfig::with(psk(3), ours.clone()).unwrap());
    let full = crowd.client.connect(crowd.now, Arc::clone(&config), server_at(1));
    assert_eq!(full, Err(ConnectError::Full));
    crowd.run_for(Duration::from_secs(2));
    assert_eq!(crowd.connected.len(), 3);
    let full = crowd.client.connect(crowd.now, config, server_at(1));
    assert_eq!(full, Err(ConnectError::Full));
    crowd.client.connection_mut(first[0]).unwrap().close(crowd.now);
    crowd.run_for(Duration::from_secs(2));
    crowd.connect(&ours, 1, 4);
    crowd.run_for(Duration::from_secs(2));
    assert_eq!(crowd.connected.len(), 4);
}
