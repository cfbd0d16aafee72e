//! A server with unknown clients: hellos that are hand-written, spoofed, fragmented and late.

use lightseal_core::{Decode, Encode, Engine, Instant, Random, Reader, Writer};
use lightseal_dtls::codepoints::{DTLS_1_3, ExtensionType, HandshakeType, LEGACY_VERSION};
use lightseal_dtls::crypto::{EarlySecret, Sha256, Transcript};
use lightseal_dtls::messages::extensions::write_extension;
use lightseal_dtls::messages::fragment::transcript_header;
use lightseal_dtls::messages::{Fragment, ServerHello};
use lightseal_dtls::record::PlaintextHeader;
use lightseal_dtls::tuning::COOKIE_ROTATION;
use lightseal_dtls::{Endpoint, ServerConfig};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use testkit::drain;
use testkit::pair::{self, Configs, Direction, client_address, pass, psk};

/// A ClientHello that our own client would not send.
#[derive(Clone, Copy, Default)]
struct Hello<'a> {
    session_id: &'a [u8],
    cookie: &'a [u8],
    /// The length in bytes of a second share, beside an X25519 share, in an unknown group.
    large_share: usize,
}

const POST_QUANTUM_SHARE: usize = 1216;

impl Hello<'_> {
    /// The body, with a binder under `transcript`.
    fn body(&self, mut transcript: Transcript) -> Vec<u8> {
        let mut buf = vec![0; 4096];
        let mut w = Writer::new(&mut buf);
        let mut binder_at = 0;
        w.u16(LEGACY_VERSION).unwrap();
        w.bytes(&[7; 32]).unwrap();
        w.vec8(|w| w.bytes(self.session_id)).unwrap();
        w.u8(0).unwrap();
        w.vec16(|w| w.u16(0x1301)).unwrap();
        w.vec8(|w| w.u8(0)).unwrap();
        w.vec16(|w| {
            write_extension(w, ExtensionType::SUPPORTED_VERSIONS, |w| w.vec8(|w| w.u16(DTLS_1_3)))?;
            if !self.cookie.is_empty() {
                write_extension(w, ExtensionType::COOKIE, |w| w.bytes(self.cookie))?;
            }
            write_extension(w, ExtensionType::PSK_KEY_EXCHANGE_MODES, |w| {
                w.vec8(|w| w.bytes(&[0, 1]))
            })?;
            write_extension(w, ExtensionType::SUPPORTED_GROUPS, |w| {
                w.vec16(|w| [0x11ec, 0x1d].into_iter().try_for_each(|group| w.u16(group)))
            })?;
            write_extension(w, ExtensionType::KEY_SHARE, |w| {
                w.vec16(|w| {
                    if self.large_share > 0 {
                        w.u16(0x11ec)?;
                        w.vec16(|w| w.bytes(&vec![3; self.large_share]))?;
                    }
                    w.u16(0x1d)?;
                    w.vec16(|w| w.bytes(&[9; 32]))
                })
            })?;
            write_extension(w, ExtensionType::PRE_SHARED_KEY, |w| {
                w.vec16(|w| {
                    w.vec16(|w| w.bytes(psk().identity()))?;
                    w.u32(0)
                })?;
                w.vec16(|w| {
                    w.vec8(|w| {
                        binder_at = w.len();
                        w.bytes(&[0; 32])
                    })
                })
            })
        })
        .unwrap();
        let len = w.len();
        buf.truncate(len);
        transcript.update(&transcript_header(HandshakeType::CLIENT_HELLO, len));
        transcript.update(&buf[..len - 35]);
        let key = EarlySecret::from_psk(&Sha256, &[0x1a; 32]).external_binder();
        buf[len - 32..].copy_from_slice(&key.verify_data(&transcript.hash()));
        buf
    }
}

/// The datagrams of a hello in fragments of at most `most` bytes.
fn datagrams(body: &[u8], sequence: u16, most: usize) -> Vec<Vec<u8>> {
    let pieces = body.chunks(most).zip(0u64..).map(|(piece, index)| {
        let fragment = Fragment {
            kind: HandshakeType::CLIENT_HELLO,
            length: body.len() as u32,
            sequence,
            offset: (index as usize * most) as u32,
            body: piece,
        };
        let mut buf = vec![0; PlaintextHeader::LEN + Fragment::HEADER + piece.len()];
        let mut w = Writer::new(&mut buf);
        let header = PlaintextHeader {
            kind: lightseal_dtls::codepoints::ContentType::HANDSHAKE,
            number: index,
            length: (Fragment::HEADER + piece.len()) as u16,
        };
        header.write(&mut w).unwrap();
        fragment.write(&mut w).unwrap();
        buf
    });
    pieces.collect()
}

/// Reorders and copies datagrams in transit.
type Order = fn(Vec<Vec<u8>>) -> Vec<Vec<u8>>;

struct Server {
    endpoint: Endpoint,
    now: Instant,
}

impl Server {
    fn new() -> Self {
        let config = ServerConfig::new(Arc::new(psk()));
        let endpoint = Endpoint::server(Arc::new(config), Random::insecure(1));
        Self { endpoint, now: Instant::from_micros(1_000_000) }
    }

    fn answers(&mut self) -> Vec<Vec<u8>> {
        drain(&mut self.endpoint, |_| {}).payloads().collect()
    }

    fn hear(&mut self, from: SocketAddr, datagram: &[u8]) -> Vec<Vec<u8>> {
        self.endpoint.handle_datagram(self.now, from, &mut datagram.to_vec());
        self.answers()
    }

    /// The body of the only ServerHello among the server's answers to the datagrams.
    fn hello(&mut self, datagrams: &[Vec<u8>]) -> Option<Vec<u8>> {
        let answers: Vec<_> =
            datagrams.iter().flat_map(|datagram| self.hear(client_address(), datagram)).collect();
        let first = answers.first()?;
        let header = PlaintextHeader::read(&mut Reader::new(first)).unwrap();
        let content = &first[PlaintextHeader::LEN..][..header.length.into()];
        let fragment = Fragment::decode(content).ok()?;
        assert_eq!(fragment.kind, HandshakeType::SERVER_HELLO);
        Some(fragment.body.to_vec())
    }
}

fn after_retry(first: &[u8], retry: &[u8]) -> Transcript {
    let mut transcript = Transcript::new(&Sha256);
    for (kind, body) in [(HandshakeType::CLIENT_HELLO, first), (HandshakeType::SERVER_HELLO, retry)]
    {
        if kind == HandshakeType::SERVER_HELLO {
            transcript.replace_with_message_hash();
        }
        transcript.update(&transcript_header(kind, body.len()));
        transcript.update(body);
    }
    transcript
}

fn cookie(retry: &[u8]) -> Vec<u8> {
    let retry = ServerHello::decode(retry).unwrap();
    assert!(retry.is_retry());
    retry.extensions.get(ExtensionType::COOKIE).unwrap().to_vec()
}

/// Sends both hellos in fragments of `most` bytes, in the order and number of copies that `arrange`
/// chooses; returns the ServerHello.
fn greet(
    server: &mut Server,
    hello: Hello<'_>,
    most: usize,
    arrange: impl Fn(Vec<Vec<u8>>) -> Vec<Vec<u8>>,
) -> Option<Vec<u8>> {
    let first = hello.body(Transcript::new(&Sha256));
    let retry = server.hello(&arrange(datagrams(&first, 0, most)))?;
    assert_eq!(server.endpoint.open_connections(), 0, "no state before the cookie");
    let cookie = cookie(&retry);
    let second = Hello { cookie: &cookie, ..hello }.body(after_retry(&first, &retry));
    server.hello(&arrange(datagrams(&second, 1, most)))
}

#[test]
fn hellos_of_any_size_come_in_any_fragments_and_order() {
    for large_share in [0, POST_QUANTUM_SHARE] {
        for most in [40, 300, 1200, 4000] {
            let hello = Hello { large_share, ..Hello::default() };
            let orders: [Order; 3] = [
                |datagrams| datagrams,
                |datagrams| datagrams.into_iter().rev().collect(),
                |datagrams| datagrams.iter().flat_map(|d| [d.clone(), d.clone()]).collect(),
            ];
            for arrange in orders {
                let mut server = Server::new();
                let answer = greet(&mut server, hello, most, arrange).expect("a ServerHello");
                assert!(!ServerHello::decode(&answer).unwrap().is_retry());
                assert_eq!(server.endpoint.open_connections(), 1);
            }
        }
    }
}

#[test]
fn a_hello_as_long_as_may_be_is_taken_and_one_byte_more_is_not() {
    let base = Hello { large_share: 1, ..Hello::default() }.body(Transcript::new(&Sha256)).len();
    let room = lightseal_dtls::tuning::MAX_HANDSHAKE_MESSAGE - base + 1;
    let retry = |large_share| {
        // The writer's buffer holds half as much; a longer hello needs no binder to be answered
        // with a retry.
        let hello = Hello { large_share: 1, ..Hello::default() }.body(Transcript::new(&Sha256));
        let at = hello.windows(4).position(|w| w == [0x11, 0xec, 0, 1]).unwrap();
        let mut long = hello[..at + 2].to_vec();
        long.extend((large_share as u16).to_be_bytes());
        long.extend(vec![3; large_share]);
        long.extend(&hello[at + 5..]);
        let grow = (large_share - 1) as u16;
        // The lengths of the shares, the extension and the block.
        let block = 2 + 32 + 1 + 1 + 4 + 2;
        for at in [at - 2, at - 4, block] {
            let length = u16::from_be_bytes([long[at], long[at + 1]]) + grow;
            long[at..at + 2].copy_from_slice(&length.to_be_bytes());
        }
        Server::new().hello(&datagrams(&long, 0, 1200))
    };
    assert!(retry(room).is_some());
    assert!(retry(room + 1).is_none());
}

#[test]
fn a_session_id_is_never_echoed() {
    let mut server = Server::new();
    let hello = Hello { session_id: &[5; 32], ..Hello::default() };
    let answer = greet(&mut server, hello, 2000, |datagrams| datagrams).expect("a ServerHello");
    assert_eq!(ServerHello::decode(&answer).unwrap().session_id, b"");
    let hello = Hello { session_id: &[5; 33], ..Hello::default() };
    assert_eq!(server.hello(&datagrams(&hello.body(Transcript::new(&Sha256)), 0, 2000)), None);
}

#[test]
fn a_server_says_no_more_to_a_stranger_than_the_stranger_said() {
    let mut server = Server::new();
    let hello = Hello::default().body(Transcript::new(&Sha256));
    for most in [60, 200, 2000] {
        let (mut heard, mut said) = (0, 0);
        for datagram in datagrams(&hello, 0, most) {
            heard += datagram.len();
            said += server.hear(client_address(), &datagram).iter().map(Vec::len).sum::<usize>();
        }
        assert!(said > 0 && said <= heard, "{said} for {heard}");
    }
}

#[test]
fn spoofed_hellos_leave_nothing_behind() {
    let mut server = Server::new();
    let hello = Hello::default().body(Transcript::new(&Sha256));
    let whole = &datagrams(&hello, 0, 2000)[0];
    let part = &datagrams(&hello, 0, 60)[0];
    for port in 1..=20_000 {
        let from = SocketAddr::new(client_address().ip(), port);
        server.hear(from, if port % 2 == 0 { whole } else { part });
    }
    assert_eq!((server.endpoint.open_connections(), server.endpoint.buffered_bytes()), (0, 0));
    assert_eq!(server.endpoint.stats().retries, 10_000);
    // Genuine clients are still served.
    greet(&mut server, Hello::default(), 2000, |datagrams| datagrams).expect("a ServerHello");
    assert_eq!(server.endpoint.open_connections(), 1);
}

#[test]
fn a_cookie_serves_its_address_until_two_rotations_have_passed() {
    let first = Hello::default().body(Transcript::new(&Sha256));
    for (wait, served) in
        [(COOKIE_ROTATION, true), (COOKIE_ROTATION * 2 + Duration::from_micros(1), false)]
    {
        let mut server = Server::new();
        let retry = server.hello(&datagrams(&first, 0, 2000)).expect("a retry request");
        let cookie = cookie(&retry);
        let hello = Hello { cookie: &cookie, ..Hello::default() };
        let second = &datagrams(&hello.body(after_retry(&first, &retry)), 1, 2000)[0];
        server.now += wait;
        let elsewhere = SocketAddr::new(client_address().ip(), 9);
        server.hear(elsewhere, second);
        assert_eq!(server.endpoint.open_connections(), 0, "another address");
        server.hear(client_address(), second);
        assert_eq!(server.endpoint.open_connections(), usize::from(served), "{wait:?}");
    }
}

#[test]
fn a_replayed_hello_neither_answers_twice_nor_replaces_its_own_association() {
    let mut pair = Configs::new().pair(1);
    pair.client_send(b"before");
    pair.connect();
    let hello = |datagram: &[u8]| datagram[0] == 22;
    let hellos: Vec<_> = pair
        .log
        .iter()
        .filter(|(direction, datagram)| *direction == Direction::ToServer && hello(datagram))
        .map(|(_, datagram)| datagram.clone())
        .collect();
    assert_eq!(hellos.len(), 2);
    let before = pair.log.len();
    for _ in 0..50 {
        // This is the second hello; the first one gets a stateless answer each time.
        pair.inject(Direction::ToServer, hellos[1].clone());
        pair.run_for(Duration::from_millis(1));
    }
    assert_eq!(pair.log.len(), before, "an established association has nothing to answer");
    pair.client_send(b"after");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data, [&b"before"[..], b"after"]);
    assert_eq!(pair.server.open_connections(), 1);
}

#[test]
fn a_lost_retry_request_is_sent_again() {
    for lost in 1..4 {
        let mut answers = 0;
        let mut pair = Configs::new().pair(2).with_rule(move |direction, _, datagram| {
            answers += usize::from(direction == Direction::ToClient);
            if direction == Direction::ToClient && answers <= lost {
                vec![]
            } else {
                pass(datagram)
            }
        });
        pair.connect();
        pair.assert_connected();
        assert_eq!(pair.server.stats().retries, lost as u64 + 1);
    }
}

#[test]
fn a_recorded_hello_of_a_closed_association_does_not_end_the_next_one() {
    let mut pair = Configs::new().pair(3);
    pair.connect();
    let is_hello = |(direction, datagram): &&(Direction, Vec<u8>)| {
        *direction == Direction::ToServer && datagram[0] == 22
    };
    let recorded = pair.log.iter().rfind(is_hello).expect("the hello with the cookie").1.clone();
    pair.client.close(pair.now);
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.server.open_connections(), 0);

    // The recording alone begins no handshake while its cookie is valid.
    for _ in 0..10 {
        pair.inject(Direction::ToServer, recorded.clone());
        pair.run_for(Duration::from_millis(1));
        assert_eq!(pair.server.open_connections(), 0);
    }

    let config = Configs::new().client.config();
    let rng = Random::insecure(77);
    pair.client = lightseal_dtls::Connection::client(config, pair::server_address(), pair.now, rng);
    (pair.at_client.connected, pair.at_server.connected) = (None, None);
    (pair.at_client.closed, pair.at_server.closed) = (None, None);
    pair.connect();
    pair.assert_connected();
    pair.inject(Direction::ToServer, recorded);
    pair.client_send(b"still there");
    pair.run_for(Duration::from_secs(1));
    assert_eq!(pair.at_server.data, [b"still there"]);
    assert_eq!((pair.server.open_connections(), pair.at_server.closed), (1, None));
}
