//! One asynchronous socket that carries many associations with several servers.

use lightseal_core::{Instant, Random};
use lightseal_dtls::{
    ClientConfig, ConnectionIds, Endpoint, EndpointEvent, Event, Handle, Psk, SendError,
    ServerConfig, Settings,
};
use lightseal_net::Clock;
use lightseal_net::tokio::{Driver, EngineHost};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UdpSocket;

/// Notes what the associations receive.
#[derive(Default)]
struct Notes {
    connected: usize,
    received: BTreeMap<Handle, Vec<u8>>,
}

impl EngineHost<Endpoint> for Notes {
    fn event(&mut self, _: Instant, event: EndpointEvent<'_>) {
        match event.event {
            Event::Connected(_) => self.connected += 1,
            Event::Data(payload) => drop(self.received.insert(event.handle, payload.to_vec())),
            Event::Closed(reason) => panic!("{}: {reason}", event.handle),
            _ => {}
        }
    }
}

/// Answers each payload with the same payload.
#[derive(Default)]
struct Echo(Vec<(Handle, Vec<u8>)>);

impl EngineHost<Endpoint> for Echo {
    fn event(&mut self, _: Instant, event: EndpointEvent<'_>) {
        if let Event::Data(payload) = event.event {
            self.0.push((event.handle, payload.to_vec()));
        }
    }

    fn drained(&mut self, now: Instant, endpoint: &mut Endpoint) -> bool {
        let answered = !self.0.is_empty();
        for (handle, payload) in self.0.drain(..) {
            let connection = endpoint.connection_mut(handle);
            let _ = connection.map(|mut connection| connection.send(now, &payload, &mut []));
        }
        answered
    }
}

fn psk(n: usize) -> Psk {
    Psk::external(format!("device {n}").as_bytes(), &[0x2a; 32]).unwrap()
}

fn settings() -> Settings {
    let mut settings = crate::provider::settings().unwrap();
    settings.connection_ids = ConnectionIds::Bytes(4);
    settings
}

async fn local() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap()
}

/// A driver of an endpoint, which runs until the test ends.
fn running<H: EngineHost<Endpoint> + 'static>(
    socket: UdpSocket,
    endpoint: Endpoint,
    host: H,
) -> Arc<Driver<Endpoint, H>> {
    let driver = Arc::new(Driver::new(socket, Clock::start(), endpoint, host));
    let runs = Arc::clone(&driver);
    tokio::spawn(async move { runs.run().await });
    driver
}

/// Waits until the client has noted as many connections, and as many payloads.
async fn until(client: &Driver<Endpoint, Notes>, connected: usize, received: usize) {
    let is_done = || {
        client.call(|_, notes, _| notes.connected == connected && notes.received.len() == received)
    };
    let waited = tokio::time::timeout(Duration::from_secs(60), async {
        while !is_done() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    waited.await.expect("all associations are served");
}

#[tokio::test]
async fn one_socket_carries_a_hundred_associations_with_one_server_and_more_with_others() {
    let keys: Vec<Psk> = (0..150).map(psk).collect();
    let config = Arc::new(ServerConfig::with(Arc::new(keys), settings()).unwrap());
    let mut servers = Vec::new();
    for _ in 0..3 {
        let socket = local().await;
        let address = socket.local_addr().unwrap();
        let server = Endpoint::server(Arc::clone(&config), Random::from_os().unwrap());
        servers.push((address, running(socket, server, Echo::default())));
    }
    let client = Endpoint::client(settings(), Random::from_os().unwrap()).unwrap();
    let client = running(local().await, client, Notes::default());
    let connect = |n: usize| {
        let server = if n < 100 { 0 } else { 1 + n % 2 };
        let config = Arc::new(ClientConfig::with(psk(n), settings()).unwrap());
        client.call(|endpoint, _, now| endpoint.connect(now, config, servers[server].0)).unwrap()
    };
    let all: Vec<Handle> = (0..150).map(connect).collect();
    until(&client, all.len(), 0).await;
    for (n, handle) in all.iter().enumerate() {
        let sent = client.send(|endpoint, _, now, datagram| {
            let mut connection = endpoint.connection_mut(*handle).ok_or(SendError::Closed)?;
            connection.send(now, format!("for {n}").as_bytes(), datagram)
        });
        assert_eq!(sent, Ok(()));
    }
    until(&client, all.len(), all.len()).await;
    let received = client.call(|_, notes, _| notes.received.clone());
    for (n, handle) in all.iter().enumerate() {
        assert_eq!(received[handle], format!("for {n}").as_bytes());
    }
    let at_server = |(_, server): &(_, Arc<Driver<Endpoint, Echo>>)| {
        server.call(|endpoint, _, _| endpoint.open_connections())
    };
    assert_eq!(servers.iter().map(at_server).collect::<Vec<_>>(), [100, 25, 25]);
}
