//! DTLS 1.2 with unknown peers: hand-written hellos, and datagrams that anybody can inject.

use lightseal_core::wire::BufferFull;
use lightseal_core::{Decode, Encode, Engine, Instant, Random, Reader, Writer};
use lightseal_dtls::codepoints::{
    AlertDescription, ContentType, DTLS_1_2, ExtensionType, FALLBACK_SCSV, HandshakeType,
};
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::messages::extensions::write_extension;
use lightseal_dtls::messages::{Fragment, HelloVerifyRequest, RecordNumber, ServerHello, ack};
use lightseal_dtls::record::PlaintextHeader;
use lightseal_dtls::{CloseReason, Endpoint, Fault, ProtocolVersion, Settings};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use testkit::drain;
use testkit::pair::{self, Configs, Direction, ServerParts, client_address, pass, psk};

/// A plaintext record, which anybody can send.
fn plaintext(
    kind: ContentType,
    content: impl FnOnce(&mut Writer<'_>) -> Result<(), BufferFull>,
) -> Vec<u8> {
    let mut buf = [0; 2048];
    let (head, body) = buf.split_at_mut(PlaintextHeader::LEN);
    let mut w = Writer::new(body);
    content(&mut w).unwrap();
    let length = w.len();
    let header = PlaintextHeader { kind, number: 77, length: length as u16 };
    header.write(&mut Writer::new(head)).unwrap();
    buf[..PlaintextHeader::LEN + length].to_vec()
}

/// A ClientHello that our own client would not send.
#[derive(Clone, Copy)]
struct Hello<'a> {
    version: u16,
    random: u8,
    session_id: &'a [u8],
    suites: &'a [u16],
    extensions: &'a [(ExtensionType, &'a [u8])],
}

const EXTENDED_MASTER_SECRET: (ExtensionType, &[u8]) = (ExtensionType::EXTENDED_MASTER_SECRET, &[]);
const CCM: u16 = CipherSuiteId::PSK_WITH_AES_128_CCM.0;

const HELLO: Hello<'_> = Hello {
    version: DTLS_1_2,
    random: 7,
    session_id: &[],
    suites: &[CCM],
    extensions: &[EXTENDED_MASTER_SECRET],
};

impl Hello<'_> {
    fn datagram(&self, cookie: &[u8], sequence: u16) -> Vec<u8> {
        let mut buf = vec![0; 1024];
        let mut w = Writer::new(&mut buf);
        w.u16(self.version).unwrap();
        w.bytes(&[self.random; 32]).unwrap();
        w.vec8(|w| w.bytes(self.session_id)).unwrap();
        w.vec8(|w| w.bytes(cookie)).unwrap();
        w.vec16(|w| self.suites.iter().try_for_each(|suite| w.u16(*suite))).unwrap();
        w.vec8(|w| w.u8(0)).unwrap();
        w.vec16(|w| {
            let mut extensions = self.extensions.iter();
            extensions.try_for_each(|(kind, content)| {
                write_extension(w, *kind, |w| w.bytes(content)).map(drop)
            })
        })
        .unwrap();
        let body = w.finish();
        let kind = HandshakeType::CLIENT_HELLO;
        let fragment = Fragment { kind, length: body.len() as u32, sequence, offset: 0, body };
        plaintext(ContentType::HANDSHAKE, |w| fragment.write(w))
    }
}

/// What a server answers.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Cookie(Vec<u8>),
    Hello(Vec<u8>),
    Alert(AlertDescription),
}

struct Server {
    endpoint: Endpoint,
    now: Instant,
}

impl Server {
    fn new(change: impl Fn(&mut Settings)) -> Self {
        let mut config = ServerParts::new(Arc::new(psk()));
        config.settings.versions = vec![ProtocolVersion::Dtls12];
        change(&mut config.settings);
        let endpoint = Endpoint::server(config.config(), Random::insecure(1));
        Self { endpoint, now: Instant::from_micros(1_000_000) }
    }

    fn hear(&mut self, from: SocketAddr, datagram: &[u8]) -> Option<Answer> {
        self.endpoint.handle_datagram(self.now, from, &mut datagram.to_vec());
        let mut first = None;
        for payload in drain(&mut self.endpoint, |_| {}).payloads() {
            let header = PlaintextHeader::read(&mut Reader::new(&payload)).unwrap();
            let content = &payload[PlaintextHeader::LEN..][..header.length.into()];
            first.get_or_insert(match header.kind {
                ContentType::ALERT => Answer::Alert(AlertDescription(content[1])),
                _ => match Fragment::decode(content).unwrap() {
                    Fragment { kind: HandshakeType::HELLO_VERIFY_REQUEST, body, .. } => {
                        Answer::Cookie(HelloVerifyRequest::decode(body).unwrap().cookie.to_vec())
                    }
                    Fragment { body, .. } => Answer::Hello(body.to_vec()),
                },
            });
        }
        first
    }

    /// Sends a hello, and sends it again with the cookie.
    fn greet(&mut self, hello: Hello<'_>) -> Option<Answer> {
        match self.hear(client_address(), &hello.datagram(&[], 0)) {
            Some(Answer::Cookie(cookie)) => {
                self.hear(client_address(), &hello.datagram(&cookie, 1))
            }
            other => other,
        }
    }
}

#[test]
fn hellos_are_refused_with_the_alerts_of_their_standards() {
    let accepted = [
        (ExtensionType::RECORD_SIZE_LIMIT, &[0, 64][..]),
        (ExtensionType::RENEGOTIATION_INFO, &[0]),
        (ExtensionType::EC_POINT_FORMATS, &[2, 1, 0]),
    ];
    let refused = [
        (ExtensionType::RECORD_SIZE_LIMIT, &[0, 63][..], AlertDescription::ILLEGAL_PARAMETER),
        (ExtensionType::RENEGOTIATION_INFO, &[1, 7], AlertDescription::HANDSHAKE_FAILURE),
        (ExtensionType::EC_POINT_FORMATS, &[1, 1], AlertDescription::ILLEGAL_PARAMETER),
        (ExtensionType::MAX_FRAGMENT_LENGTH, &[5], AlertDescription::ILLEGAL_PARAMETER),
    ];
    for (kind, content) in accepted {
        let extensions = [EXTENDED_MASTER_SECRET, (kind, content)];
        let answer = Server::new(|_| {}).greet(Hello { extensions: &extensions, ..HELLO });
        assert!(matches!(answer, Some(Answer::Hello(_))), "{kind} {content:?}: {answer:?}");
    }
    for (kind, content, alert) in refused {
        let extensions = [EXTENDED_MASTER_SECRET, (kind, content)];
        let answer = Server::new(|_| {}).greet(Hello { extensions: &extensions, ..HELLO });
        assert_eq!(answer, Some(Answer::Alert(alert)), "{kind} {content:?}");
    }
}

/// RFC 7507, section 3: the fallback signalling value.
#[test]
fn a_client_that_was_made_to_fall_back_is_told() {
    let hello = Hello { suites: &[CCM, FALLBACK_SCSV], ..HELLO };
    let answer = Server::new(|_| {}).greet(hello);
    assert!(matches!(answer, Some(Answer::Hello(_))), "1.2 is the best it has: {answer:?}");
    let both = vec![ProtocolVersion::Dtls13, ProtocolVersion::Dtls12];
    let answer = Server::new(|settings| settings.versions = both.clone()).greet(hello);
    assert_eq!(answer, Some(Answer::Alert(AlertDescription::INAPPROPRIATE_FALLBACK)));
}

#[test]
fn a_cookie_is_good_for_one_address_and_one_hello() {
    let other: SocketAddr = "[2001:db8::7]:1".parse().unwrap();
    let mut server = Server::new(|_| {});
    let Some(Answer::Cookie(cookie)) = server.hear(client_address(), &HELLO.datagram(&[], 0))
    else {
        panic!("a cookie is asked for")
    };
    let changed = [
        Hello { version: 0xfefc, ..HELLO },
        Hello { session_id: &[1], ..HELLO },
        Hello { suites: &[CCM, 0xc0a8], ..HELLO },
    ];
    for hello in changed {
        let answer = server.hear(client_address(), &hello.datagram(&cookie, 1));
        assert!(matches!(answer, Some(Answer::Cookie(_))), "{answer:?}");
    }
    let answer = server.hear(other, &HELLO.datagram(&cookie, 1));
    assert!(matches!(answer, Some(Answer::Cookie(_))), "{answer:?}");
    assert_eq!(server.endpoint.open_connections(), 0);
    let answer = server.hear(client_address(), &HELLO.datagram(&cookie, 1));
    assert!(matches!(answer, Some(Answer::Hello(_))), "{answer:?}");
}

fn older(change: impl Fn(&mut Settings)) -> Configs {
    let mut configs = Configs::new().suite(CipherSuiteId::PSK_WITH_AES_128_CCM);
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.versions = vec![ProtocolVersion::Dtls12];
        change(settings);
    }
    configs
}

/// RFC 7627, section 5.3: an attacker that removes the extension from a hello gets no weaker keys.
#[test]
fn a_session_with_extended_master_secret_is_not_resumed_without() {
    let mut configs = older(|settings| settings.require_extended_master_secret = false);
    configs.client.settings.session_tickets = false;
    let mut pair = configs.pair(2);
    pair.connect().assert_connected();
    let mut hellos = pair.log.iter().filter(|(direction, datagram)| {
        *direction == Direction::ToClient && datagram.get(13) == Some(&2)
    });
    let (_, datagram) = hellos.next_back().expect("a ServerHello");
    let header = PlaintextHeader::read(&mut Reader::new(datagram)).unwrap();
    let content = &datagram[PlaintextHeader::LEN..][..header.length.into()];
    let id = ServerHello::decode(Fragment::decode(content).unwrap().body).unwrap().session_id;
    assert!(!id.is_empty());

    let mut server = Server::new(|_| {});
    std::mem::swap(&mut server.endpoint, &mut pair.server);
    server.now = pair.now;
    let stripped = Hello { session_id: id, extensions: &[], ..HELLO };
    let answer = server.greet(stripped);
    assert_eq!(answer, Some(Answer::Alert(AlertDescription::HANDSHAKE_FAILURE)));
    let answer = server.greet(Hello { session_id: id, ..HELLO });
    assert!(matches!(answer, Some(Answer::Hello(_))), "{answer:?}");
}

#[test]
fn a_server_that_answers_about_a_renegotiation_is_refused() {
    let mut pair = older(|_| {}).pair(3).with_rule(|direction, _, datagram| {
        let mut datagram = datagram.to_vec();
        let info = [0xff, 1, 0, 1, 0];
        let at = datagram.windows(info.len()).position(|window| window == info);
        if let (Direction::ToClient, Some(at)) = (direction, at) {
            datagram[at + 4] = 7;
        }
        pass(&datagram)
    });
    pair.connect();
    let Some(CloseReason::Fault(fault)) = pair.at_client.closed else {
        panic!("{:?}", pair.at_client.closed)
    };
    assert_eq!(fault.alert(), AlertDescription::HANDSHAKE_FAILURE, "{fault}");
    assert!(!matches!(fault, Fault::Internal(_)));
}

/// DTLS 1.2 has no ACKs: a plaintext one must not prevent the retransmission of a lost flight.
#[test]
fn acks_in_clear_stop_no_flight() {
    let mut lost = false;
    let mut pair = older(|_| {}).pair(4).with_rule(move |direction, _, datagram| {
        // The client's second flight begins with its ClientKeyExchange.
        let second = direction == Direction::ToServer && datagram.get(13) == Some(&16);
        if second && !std::mem::replace(&mut lost, true) { Vec::new() } else { pass(datagram) }
    });
    pair.run_for(Duration::from_millis(60));
    let records: Vec<_> = (0..8).map(|number| RecordNumber { epoch: 0, number }).collect();
    pair.inject(Direction::ToClient, plaintext(ContentType::ACK, |w| ack::write(&records, w)));
    pair.connect().assert_connected();
}

/// RFC 6347, section 4.2.8, lets a cookie end the previous association; this server requires a
/// Finished.
#[test]
fn who_has_no_key_does_not_end_an_association_from_its_own_address() {
    for ids in [None, Some(4)] {
        let mut pair = older(|settings| settings.connection_ids = pair::ids(ids)).pair(5);
        pair.connect().assert_connected();
        let handle = pair.handle;
        // An attacker that reads the traffic, and so gets a cookie for the client's address.
        let mut server = Server::new(|_| {});
        for random in 1..4 {
            std::mem::swap(&mut server.endpoint, &mut pair.server);
            server.now = pair.now;
            let answer = server.greet(Hello { random, ..HELLO });
            assert!(matches!(answer, Some(Answer::Hello(_))), "{answer:?}");
            std::mem::swap(&mut server.endpoint, &mut pair.server);
            for _ in 0..3 {
                pair.client_send(b"ping");
                pair.server_send(b"pong");
                pair.run_for(Duration::from_secs(1));
            }
        }
        assert_eq!((pair.at_server.data.len(), pair.at_client.data.len()), (9, 9));
        // These handshakes end, and the association continues.
        pair.run_for(Duration::from_secs(90));
        pair.client_send(b"ping");
        pair.server_send(b"pong");
        pair.run_for(Duration::from_secs(1));
        assert_eq!((pair.at_server.data.len(), pair.at_client.data.len()), (10, 10));
        assert_eq!((pair.handle, pair.server.open_connections()), (handle, 1));
    }
}

#[test]
fn a_client_that_starts_anew_at_its_address_takes_its_own_place() {
    for ids in [None, Some(4)] {
        for packing in [lightseal_dtls::Packing::Auto, lightseal_dtls::Packing::RecordPerDatagram] {
            let configs = || {
                older(|settings| {
                    settings.connection_ids = pair::ids(ids);
                    settings.packing = packing;
                })
            };
            let mut first = configs().pair(6);
            first.connect().assert_connected();
            let mut second = first.reconnect(configs().client, 7);
            second.connect().assert_connected();
            if ids.is_some() {
                // The server asks first whether the client still has its older association.
                second.run_for(Duration::from_secs(20));
            }
            assert_eq!(second.at_server.closed, Some(CloseReason::Replaced));
            assert_eq!(second.server.open_connections(), 1);
            second.client_send(b"ping");
            second.server_send(b"pong");
            second.run_for(Duration::from_secs(1));
            assert_eq!((second.at_server.data.len(), second.at_client.data.len()), (1, 1));
        }
    }
}

/// A hello of DTLS 1.2 proves no key, and some attackers have many addresses.
#[test]
fn handshakes_without_end_are_bounded() {
    let mut pair = older(|_| {}).pair(8);
    pair.connect().assert_connected();
    let mut server = Server::new(|_| {});
    std::mem::swap(&mut server.endpoint, &mut pair.server);
    server.now = pair.now;
    let most = lightseal_dtls::tuning::MAX_UNPROVED;
    for n in 0..most as u16 + 100 {
        let from = SocketAddr::from(([0x2001, 0xdb8, 9, 0, 0, 0, 0, n], 9));
        let Some(Answer::Cookie(cookie)) = server.hear(from, &HELLO.datagram(&[], 0)) else {
            panic!("a cookie is asked for")
        };
        let answer = server.hear(from, &HELLO.datagram(&cookie, 1));
        assert!(matches!(answer, Some(Answer::Hello(_))), "{answer:?}");
        assert!(server.endpoint.open_connections() <= most + 1);
    }
    // The oldest handshakes were given up: a client with a key is admitted, and complete
    // associations stay.
    let mut next = older(|_| {}).pair(9);
    next.client_address = "[2001:db8::1]:40001".parse().unwrap();
    std::mem::swap(&mut next.server, &mut server.endpoint);
    next.connect().assert_connected();
    std::mem::swap(&mut next.server, &mut pair.server);
    pair.client_send(b"ping");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data, [b"ping"]);
}

/// Before this end's ChangeCipherSpec the peer cannot read protected records.
#[test]
fn alerts_before_our_change_of_keys_are_in_clear() {
    // After the ClientKeyExchange comes a plaintext Finished, or the ClientKeyExchange again as the
    // next message: neither is valid there.
    for kind in [HandshakeType::FINISHED, HandshakeType::CLIENT_KEY_EXCHANGE] {
        let mut pair = older(|_| {}).pair(10).with_rule(move |direction, _, datagram| {
            if direction != Direction::ToServer || datagram.get(13) != Some(&16) {
                return pass(datagram);
            }
            let header = PlaintextHeader::read(&mut Reader::new(datagram)).unwrap();
            let (exchange, _) =
                datagram.split_at(PlaintextHeader::LEN + usize::from(header.length));
            let sequence = u16::from_be_bytes([datagram[17], datagram[18]]) + 1;
            let body = &[1; 12];
            let next = Fragment { kind, length: 12, sequence, offset: 0, body };
            let next = plaintext(ContentType::HANDSHAKE, |w| next.write(w));
            pass(&[exchange, &next].concat())
        });
        pair.run_for(Duration::from_millis(200));
        let Some(CloseReason::Fault(fault)) = pair.at_server.closed else {
            panic!("{:?}", pair.at_server.closed)
        };
        assert_eq!(fault.alert(), AlertDescription::UNEXPECTED_MESSAGE);
        let said = pair.log.iter().filter(|(to, _)| *to == Direction::ToClient).map(|(_, d)| d);
        let alerts: Vec<_> = said.filter(|d| d[0] == ContentType::ALERT.0).collect();
        assert!(!alerts.is_empty());
        assert!(alerts.iter().all(|alert| alert[3..5] == [0, 0]), "epoch 0");
    }
}

/// RFC 7627, section 5: the alert is handshake_failure, which peers of DTLS 1.2 know.
#[test]
fn a_client_without_the_extended_master_secret_is_told_in_words_it_knows() {
    let answer = Server::new(|_| {}).greet(Hello { extensions: &[], ..HELLO });
    assert_eq!(answer, Some(Answer::Alert(AlertDescription::HANDSHAKE_FAILURE)));
    let mut configs = older(|_| {});
    configs.server.settings.require_extended_master_secret = false;
    // The edit that removes the extension from the answer keeps all lengths.
    let mut pair = configs.pair(11).with_rule(|direction, _, datagram| {
        let mut datagram = datagram.to_vec();
        let extension = [0, 23, 0, 0];
        let at = datagram.windows(extension.len()).position(|window| window == extension);
        if let (Direction::ToClient, Some(at)) = (direction, at) {
            datagram[at + 1] = 255;
        }
        pass(&datagram)
    });
    pair.connect();
    assert!(
        matches!(pair.at_client.closed, Some(CloseReason::Fault(_))),
        "{:?}",
        pair.at_client.closed
    );
}
