//! A host with several addresses: which of them an association uses, and when that changes.

use lightseal_core::{AddressPair, Engine, Instant, Output, Random};
use lightseal_dtls::ProtocolVersion::{self, Dtls12, Dtls13};
use lightseal_dtls::{Connection, Endpoint, EndpointEvent, Event, Handle};
use std::net::{IpAddr, Ipv6Addr};
use testkit::drain;
use testkit::pair::{self, Configs, client_address, server_address};

const NOW: Instant = Instant::from_micros(1_000_000);

/// One of the server's addresses.
const fn address(number: u16) -> Option<IpAddr> {
    Some(IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, number)))
}

/// A client and a server with several addresses.
struct Ends {
    client: Connection,
    server: Endpoint,
    handle: Option<Handle>,
    /// The server address at which the client's datagrams arrive.
    asked: Option<IpAddr>,
    /// The datagrams that the client has sent.
    sent: Vec<Vec<u8>>,
    /// The addresses from which the server's datagrams were sent.
    sources: Vec<Option<IpAddr>>,
    /// Payloads that the server delivered.
    delivered: usize,
}

impl Ends {
    fn new(version: ProtocolVersion, id: Option<u8>) -> Self {
        let mut configs = Configs::new();
        for settings in [&mut configs.client.settings, &mut configs.server.settings] {
            settings.versions = vec![version];
            settings.connection_ids = pair::ids(id);
        }
        let (client, server) = (configs.client.config(), configs.server.config());
        let client = Connection::client(client, server_address(), NOW, Random::insecure(1));
        let mut ends = Self {
            client,
            server: Endpoint::server(server, Random::insecure(2)),
            handle: None,
            asked: address(1),
            sent: Vec::new(),
            sources: Vec::new(),
            delivered: 0,
        };
        while ends.carry() {}
        assert!(ends.client.is_connected() && ends.handle.is_some());
        ends
    }

    fn deliver(&mut self, datagram: &[u8], local: Option<IpAddr>) {
        let way = AddressPair { peer: client_address(), local };
        self.server.handle_datagram_on(NOW, way, &mut datagram.to_vec());
    }

    /// Delivers the datagrams that both ends send now; false if there are none.
    fn carry(&mut self) -> bool {
        let mut buf = vec![0; 4096];
        let datagrams: Vec<_> = drain(&mut self.client, |_| {}).payloads().collect();
        for datagram in &datagrams {
            self.deliver(datagram, self.asked);
        }
        let mut any = !datagrams.is_empty();
        self.sent.extend(datagrams);
        loop {
            match self.server.poll_output_on(&mut buf) {
                (Output::Datagram { payload, .. }, source) => {
                    any = true;
                    self.sources.push(source);
                    let way = AddressPair { peer: server_address(), local: address(9) };
                    self.client.handle_datagram_on(NOW, way, &mut payload.to_vec());
                }
                (Output::Event(EndpointEvent { handle, event, .. }), _) => match event {
                    Event::Connected(_) => self.handle = Some(handle),
                    Event::Data(_) => self.delivered += 1,
                    _ => {}
                },
                _ => return any,
            }
        }
    }

    /// The address from which the server's next payload is sent.
    fn source(&mut self) -> Option<IpAddr> {
        while self.carry() {}
        self.sources.clear();
        let _ = self
            .server
            .connection_mut(self.handle.unwrap())
            .unwrap()
            .send(NOW, b"to you", &mut [])
            .unwrap();
        while self.carry() {}
        assert!(!self.sources.is_empty());
        self.sources[0]
    }
}

const CASES: [(ProtocolVersion, Option<u8>); 4] =
    [(Dtls13, Some(4)), (Dtls13, None), (Dtls12, Some(4)), (Dtls12, None)];

#[test]
fn every_datagram_of_a_handshake_leaves_from_the_address_that_was_asked() {
    for (version, id) in CASES {
        let ends = Ends::new(version, id);
        // This includes the answer that asks for a cookie, for which no state is kept.
        assert!(ends.sources.len() >= 2);
        assert!(ends.sources.iter().all(|source| *source == address(1)), "{:?}", ends.sources);
    }
}

#[test]
fn a_new_authentic_record_moves_the_source_and_nothing_else_does() {
    for (version, id) in CASES {
        let mut ends = Ends::new(version, id);
        let _ = ends.client.send(NOW, b"one", &mut []).unwrap();
        assert_eq!(ends.source(), address(1));
        let old = ends.sent.last().unwrap().clone();

        ends.deliver(&old, address(2));
        assert_eq!(ends.source(), address(1), "a replayed record");
        let mut forged = old;
        *forged.last_mut().unwrap() ^= 1;
        ends.deliver(&forged, address(2));
        assert_eq!(ends.source(), address(1), "a forged record");
        ends.deliver(b"noise", address(2));
        assert_eq!(ends.source(), address(1), "noise");

        let before = ends.delivered;
        ends.asked = address(2);
        let _ = ends.client.send(NOW, b"two", &mut []).unwrap();
        assert_eq!(ends.source(), address(2));
        assert_eq!(ends.delivered, before + 1);
    }
}

#[test]
fn a_client_keeps_its_source_until_it_is_told_to_forget_it() {
    for (version, id) in CASES {
        let mut ends = Ends::new(version, id);
        ends.source();
        assert_eq!(ends.client.local(), address(9));
        ends.client.forget_local();
        assert_eq!(ends.client.local(), None);
        let _ = ends.client.send(NOW, b"still there?", &mut []).unwrap();
        let mut buf = [0; 4096];
        assert_eq!(ends.client.poll_output_on(&mut buf).1, None);
        ends.source();
        assert_eq!(ends.client.local(), address(9));
    }
}
