//! Tests with the engines of two workers that ask one source.

use super::super::args::WhenUnavailable;
use super::super::known::tests::{id, psk};
use super::super::source::Kind;
use super::*;
use clap::Parser;
use lightseal_core::{Engine, Instant as EngineTime, Output, Random};
use lightseal_dtls::{
    ClientConfig, Connection, CookiePolicy, Endpoint, Lookup, PskStore, ServerConfig,
};
use std::net::{IpAddr, SocketAddr};

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    keys: KeySourceArgs,
}

fn network_of(client: SocketAddr) -> u128 {
    match client.ip() {
        IpAddr::V4(ip) => u32::from(ip).into(),
        IpAddr::V6(ip) => ip.into(),
    }
}

/// Two engines that ask one source, as those of two workers.
struct TwoEngines(Mutex<[Endpoint; 2]>);

struct Store(SourceLookup);

impl PskStore for Store {
    fn look_up(&self, identity: &[u8]) -> Lookup {
        match self.0.look_up(&Identity::Psk(identity.to_vec())) {
            Told::Found(Entry::Psk(psk)) => Lookup::Found(psk),
            Told::Found(Entry::Admitted) | Told::Unknown => Lookup::Unknown,
            Told::Later => Lookup::Later,
        }
    }
}

impl TwoEngines {
    fn of(shared: &Arc<Shared>) -> Arc<Self> {
        let shared = Arc::clone(shared);
        let place = Command::parse_from(["", "--psk-dir", "keys"]).keys.place(Kind::Psks);
        let place = place.unwrap().unwrap();
        let store = Store(SourceLookup { place, shared, threads: Vec::new() });
        let config = ServerConfig::new(Arc::new(store)).with_cookies(CookiePolicy::WhenRetrying);
        let config = Arc::new(config);
        let engine = |seed| Endpoint::server(Arc::clone(&config), Random::insecure(seed));
        Arc::new(Self(Mutex::new([1, 2].map(engine))))
    }

    /// A client sends its hello to an engine.
    fn greet(&self, engine: usize, from: SocketAddr, identity: &str) {
        let (now, rng) = (EngineTime::from_micros(1), Random::insecure(3));
        let config = Arc::new(ClientConfig::new(psk(identity, 7)));
        let mut client = Connection::client(config, from, now, rng);
        let mut buf = vec![0; 2048];
        let Output::Datagram { payload, .. } = client.poll_output(&mut buf) else {
            panic!("a client begins with a hello");
        };
        let mut hello = payload.to_vec();
        self.0.lock().unwrap()[engine].handle_datagram(now, from, &mut hello);
    }
}

impl KeyUser for TwoEngines {
    fn answered(&self, asks_for: &dyn Fn(u128)) {
        for engine in self.0.lock().unwrap().iter_mut() {
            let now = EngineTime::from_micros(1);
            engine.lookups_answered_for(now, |client| asks_for(network_of(client)));
        }
    }

    fn revoked(&self, _: &[Handle]) {}
}

/// The clients of one address may send through one load balancer; then all take turns.
#[test]
fn no_client_of_the_last_worker_waits_for_all_clients_that_come_to_the_first_one() {
    for (address, most_rounds) in [([192, 0, 2, 2], 2), ([192, 0, 2, 1], 65)] {
        let shared = Shared::new(Known::new(WhenUnavailable::Refuse));
        let engines = TwoEngines::of(&shared);
        shared.attach(Arc::clone(&engines) as Arc<dyn KeyUser>);
        let mut count = 0;
        let mut stranger = |engine| {
            count += 1;
            let from = SocketAddr::from(([192, 0, 2, 1], 1000 + count));
            engines.greet(engine, from, &format!("invented-{count}"));
        };
        (0..64).for_each(|_| stranger(0));
        (0..63).for_each(|_| stranger(1));
        engines.greet(1, SocketAddr::from((address, 1)), "device");
        shared.answered();
        let mut rounds = 0;
        let mut asked = Vec::new();
        while !asked.contains(&id("device")) {
            rounds += 1;
            assert!(rounds <= most_rounds, "the device at {address:?} still waits");
            (asked, _) = shared.known().take_waiting(2, 1000);
            let now = Instant::now();
            for identity in &asked {
                let _ = shared.known().store_found(now, identity, None, now);
            }
            (0..8).for_each(|_| stranger(0));
            shared.answered();
        }
    }
}
