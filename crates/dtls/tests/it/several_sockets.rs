//! Associations of one endpoint that have a socket each: nothing but the socket tells them apart.

use crate::connection_ids::configs;
use lightseal_core::AddressPair;
use lightseal_dtls::ProtocolVersion::{Dtls12, Dtls13};
use lightseal_dtls::{
    ClientConfig, ConnectError, Endpoint, Engine, Event, Handle, Instant, Output, Psk, Random,
    ServerConfig,
};
use std::collections::BTreeMap;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use testkit::drain;
use testkit::pair::Configs;

const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V6(Ipv6Addr::LOCALHOST), 7);

fn psk() -> Psk {
    Psk::external(b"device", &[0x2a; 32]).unwrap()
}

/// A client endpoint with sockets at the ports from 100 on, and a server that answers payloads.
struct Sockets {
    now: Instant,
    client: Endpoint,
    server: Endpoint,
    received: Vec<(Handle, Vec<u8>)>,
    /// The datagrams that were sent to the client, with the number of the socket.
    arrived: Vec<(u32, Vec<u8>)>,
}

impl Sockets {
    fn at(number: u32) -> SocketAddr {
        SocketAddr::from((Ipv6Addr::LOCALHOST, 100 + number as u16))
    }

    /// Lets everything arrive that is under way.
    fn run(&mut self) {
        let Self { now, client, server, received, arrived } = self;
        loop {
            let mut out = Vec::new();
            let mut buf = [0; 4096];
            loop {
                let datagram = match client.poll_output_on(&mut buf).0 {
                    Output::Datagram { to, payload } => {
                        assert_eq!(to, SERVER);
                        payload.to_vec()
                    }
                    Output::Event(event) => {
                        if let Event::Data(data) = event.event {
                            received.push((event.handle, data.to_vec()));
                        }
                        continue;
                    }
                    _ => break,
                };
                out.push((client.sends_through(), datagram));
            }
            for (number, mut datagram) in out {
                server.handle_datagram(*now, Self::at(number), &mut datagram);
            }
            let mut answers = Vec::new();
            let mut sent = drain(server, |event| {
                if let Event::Data(data) = event.event {
                    answers.push((event.handle, data.to_vec()));
                }
            });
            for (handle, data) in answers {
                let _ = server.connection_mut(handle).unwrap().send(*now, &data, &mut []).unwrap();
            }
            sent.datagrams.extend(drain(server, |_| {}).datagrams);
            if sent.datagrams.is_empty() {
                return;
            }
            *now += Duration::from_millis(1);
            for (to, mut datagram) in sent.datagrams {
                let number = u32::from(to.port()) - 100;
                arrived.push((number, datagram.clone()));
                client.handle_datagram_at(*now, number, AddressPair::to(SERVER), &mut datagram);
            }
        }
    }
}

#[test]
fn associations_with_one_server_are_told_apart_by_their_sockets() {
    for (version, ids) in [(Dtls13, None), (Dtls12, None), (Dtls13, Some(4)), (Dtls12, Some(4))] {
        let Configs { client, server, .. } = configs(version, ids, ids);
        let server = ServerConfig::with(Arc::new(vec![psk()]), server.settings).unwrap();
        let settings = client.settings;
        let config = Arc::new(ClientConfig::with(psk(), settings.clone()).unwrap());
        let mut all = Sockets {
            now: Instant::from_micros(1),
            client: Endpoint::client(settings, Random::insecure(1)).unwrap(),
            server: Endpoint::server(Arc::new(server), Random::insecure(2)),
            received: Vec::new(),
            arrived: Vec::new(),
        };
        let (now, endpoint) = (all.now, &mut all.client);
        let mut begin =
            |number| endpoint.connect_through(now, number, Arc::clone(&config), SERVER).unwrap();
        let flows: BTreeMap<u32, Handle> = (0..5).map(|number| (number, begin(number))).collect();
        all.run();
        assert_eq!(all.server.open_connections(), 5, "{version}: none waits for another one");
        for (number, handle) in &flows {
            // A payload that is sealed at once leaves through the same socket.
            let mut buf = [0; 200];
            let mut connection = all.client.connection_mut(*handle).unwrap();
            let sealed = connection.send(all.now, &[*number as u8], &mut buf).unwrap();
            let lightseal_core::Sent::Datagram { len, .. } = sealed else { panic!("{sealed:?}") };
            drop(connection);
            assert_eq!(all.client.sends_through(), *number);
            all.server.handle_datagram(all.now, Sockets::at(*number), &mut buf[..len]);
        }
        all.arrived.clear();
        all.run();
        let expected: Vec<_> = flows.iter().map(|(n, handle)| (*handle, vec![*n as u8])).collect();
        all.received.sort();
        assert_eq!(all.received, expected, "{version}");
        // Only with connection IDs does a datagram find its association from another socket.
        let answers = std::mem::take(&mut all.arrived);
        let message = all.server.connections().map(|(handle, _)| handle).next().unwrap();
        let mut connection = all.server.connection_mut(message).unwrap();
        let _ = connection.send(all.now, b"astray", &mut []).unwrap();
        drop(connection);
        let (_, mut astray) = drain(&mut all.server, |_| {}).datagrams.remove(0);
        all.received.clear();
        all.client.handle_datagram_at(all.now, 3, AddressPair::to(SERVER), &mut astray);
        all.run();
        let expected: &[_] = if ids.is_some() { &[(flows[&0], b"astray".to_vec())] } else { &[] };
        assert_eq!((&*all.received, answers.len()), (expected, 5), "{version}");
        let again = all.client.connect_through(all.now, 3, Arc::clone(&config), SERVER);
        let taken = if ids.is_some() { Ok(()) } else { Err(ConnectError::AddressInUse) };
        assert_eq!(again.map(drop), taken, "{version}");
        // One that has ended leaves its socket to another one.
        all.client.connection_mut(flows[&2]).unwrap().close(all.now);
        all.run();
        let next = all.client.connect_through(all.now, 2, Arc::clone(&config), SERVER).unwrap();
        all.run();
        assert!(all.client.connection(next).unwrap().negotiated().is_some(), "{version}");
    }
}

#[test]
fn clients_are_accepted_at_the_first_socket_alone() {
    let ours = Arc::new(ClientConfig::new(psk()));
    let mut client = Endpoint::client(ours.settings().clone(), Random::insecure(1)).unwrap();
    let keys = Arc::new(vec![psk()]);
    let config = Arc::new(ServerConfig::new(keys));
    let mut server = Endpoint::server(config, Random::insecure(2));
    let now = Instant::from_micros(1);
    client.connect(now, ours, SERVER).unwrap();
    let (_, hello) = drain(&mut client, |_| {}).datagrams.remove(0);
    for number in [1, 0] {
        let from = AddressPair::to(Sockets::at(0));
        server.handle_datagram_at(now, number, from, &mut hello.clone());
        let answers = drain(&mut server, |_| {}).datagrams.len();
        assert_eq!(answers > 0, number == 0);
    }
}
