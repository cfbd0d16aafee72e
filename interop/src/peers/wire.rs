//! A forwarder between two peers that keeps every datagram, and what can be read from datagrams
//! without a key.

use super::{CID_BYTES, Role, Version};
use std::fmt::Write as _;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How often a forwarding thread checks whether it should end.
const LOOK_UP: Duration = Duration::from_millis(50);
/// The largest number of datagrams that are kept. A meeting needs a few dozen.
const MAX_DATAGRAMS: usize = 4096;

/// A datagram that was forwarded.
#[derive(Clone, Debug)]
pub struct Datagram {
    /// The time since the start of the tap.
    pub after: Duration,
    /// The role of the receiver.
    pub to: Role,
    /// The payload of UDP.
    pub bytes: Vec<u8>,
}

/// Forwards between one client and one server, and keeps every datagram.
pub struct Tap {
    address: SocketAddr,
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    inside: UdpSocket,
    outside: UdpSocket,
    client: Mutex<Option<SocketAddr>>,
    stop: AtomicBool,
    started: Instant,
    datagrams: Mutex<Vec<Datagram>>,
}

impl Tap {
    /// Starts forwarding from a new port to `server`.
    ///
    /// # Panics
    /// There is no loopback interface.
    pub fn start(server: SocketAddr) -> Self {
        let outside = bind();
        outside.connect(server).expect("loopback");
        let inside = bind();
        let address = inside.local_addr().expect("it is bound");
        let shared = Arc::new(Shared {
            inside,
            outside,
            client: Mutex::new(None),
            stop: AtomicBool::new(false),
            started: Instant::now(),
            datagrams: Mutex::default(),
        });
        let threads = Role::BOTH.map(|to| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.forward(to))
        });
        Self { address, shared, threads: threads.into() }
    }

    /// The address for the client.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The datagrams until now.
    pub fn datagrams(&self) -> Vec<Datagram> {
        self.shared.datagrams.lock().expect("no holder panics").clone()
    }
}

impl Drop for Tap {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic of the thread has printed its message already.
            let _ = thread.join();
        }
    }
}

fn bind() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("there is a loopback interface");
    socket.set_read_timeout(Some(LOOK_UP)).expect("not zero");
    socket
}

impl Shared {
    fn forward(&self, to: Role) {
        let from = match to {
            Role::Server => &self.inside,
            Role::Client => &self.outside,
        };
        let mut buffer = vec![0; 65_535];
        while !self.stop.load(Ordering::Relaxed) {
            let Ok((length, source)) = from.recv_from(&mut buffer) else { continue };
            let bytes = &buffer[..length];
            {
                let mut datagrams = self.datagrams.lock().expect("no holder panics");
                if datagrams.len() < MAX_DATAGRAMS {
                    let after = self.started.elapsed();
                    datagrams.push(Datagram { after, to, bytes: bytes.to_vec() });
                }
            }
            let mut client = self.client.lock().expect("no holder panics");
            // A datagram that cannot be sent is lost, as on any network.
            let _ = match (to, *client) {
                (Role::Server, _) => {
                    *client = Some(source);
                    self.outside.send(bytes)
                }
                (Role::Client, Some(client)) => self.inside.send_to(bytes, client),
                (Role::Client, None) => Ok(0),
            };
        }
    }
}

/// One record, as far as it can be read without a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A handshake message or a fragment of one, in epoch 0.
    Handshake {
        /// The message type (RFC 8446 B.3).
        message: u8,
        /// The message sequence number.
        sequence: u16,
        /// Where this part of the message's body begins.
        offset: u32,
        /// The part of the message's body that is in this record.
        body: Vec<u8>,
    },
    /// An alert in epoch 0.
    Alert(u8, u8),
    /// Any other record of DTLS 1.2, or any other epoch 0 record of DTLS 1.3.
    Other {
        /// The content type.
        content: u8,
        /// The epoch.
        epoch: u16,
        /// The length of the fragment in bytes.
        length: usize,
    },
    /// A protected record of DTLS 1.3.
    Unified {
        /// Whether the C bit is set: the record has a connection ID.
        cid: bool,
    },
    /// A protected `tls12_cid` record (RFC 9146), with its connection ID.
    Cid(Vec<u8>),
    /// Bytes that are no record.
    Noise,
}

const HANDSHAKE: u8 = 22;
const ALERT: u8 = 21;
const TLS12_CID: u8 = 25;
const SERVER_HELLO: u8 = 2;
const SERVER_KEY_EXCHANGE: u8 = 12;
const CLIENT_KEY_EXCHANGE: u8 = 16;
/// The kind of curve in a ServerKeyExchange (RFC 8422, section 5.4).
const NAMED_CURVE: u8 = 3;

/// The records of a datagram.
///
/// ```text
/// type (1) version (2) epoch (2) sequence (6) [connection ID] length (2)   RFC 6347, 9146
/// 001CSLEE [connection ID] sequence (1 or 2) [length (2)]                  RFC 9147
/// ```
pub fn records(datagram: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    let mut rest = datagram;
    while let Some(&first) = rest.first() {
        if first >> 5 == 1 {
            records.push(Record::Unified { cid: first & 0x10 != 0 });
            let cid = if first & 0x10 != 0 { CID_BYTES } else { 0 };
            let header = 1 + cid + if first & 0x08 != 0 { 2 } else { 1 };
            let length = match rest.get(header..header + 2) {
                Some(&[high, low]) if first & 0x04 != 0 => {
                    2 + usize::from(u16::from_be_bytes([high, low]))
                }
                _ => break,
            };
            rest = rest.get(header + length..).unwrap_or_default();
            continue;
        }
        let cid = if first == TLS12_CID { CID_BYTES } else { 0 };
        let Some((header, body)) = rest.split_at_checked(13 + cid) else {
            records.push(Record::Noise);
            break;
        };
        let length = usize::from(u16::from_be_bytes([header[11 + cid], header[12 + cid]]));
        let Some((body, next)) = body.split_at_checked(length) else {
            records.push(Record::Noise);
            break;
        };
        let epoch = u16::from_be_bytes([header[3], header[4]]);
        if (first, epoch) == (HANDSHAKE, 0) {
            records.extend(messages(body));
            rest = next;
            continue;
        }
        records.push(match (first, epoch, body) {
            (TLS12_CID, _, _) => Record::Cid(header[11..11 + cid].to_vec()),
            (ALERT, 0, &[level, description]) => Record::Alert(level, description),
            (content, _, _) => Record::Other { content, epoch, length },
        });
        rest = next;
    }
    records
}

/// The handshake messages of one record (RFC 6347, section 4.2.2).
fn messages(mut content: &[u8]) -> Vec<Record> {
    let mut messages = Vec::new();
    while let [message, _, _, _, high, low, o1, o2, o3, l1, l2, l3, body @ ..] = content {
        let length = u32::from_be_bytes([0, *l1, *l2, *l3]) as usize;
        let (body, rest) = body.split_at(length.min(body.len()));
        messages.push(Record::Handshake {
            message: *message,
            sequence: u16::from_be_bytes([*high, *low]),
            offset: u32::from_be_bytes([0, *o1, *o2, *o3]),
            body: body.to_vec(),
        });
        content = rest;
    }
    if !content.is_empty() {
        messages.push(Record::Noise);
    }
    messages
}

/// What the datagrams of a meeting show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WireObservations {
    /// The last ServerHello that is no HelloRetryRequest.
    pub agreed: Option<ServerHello>,
    /// The group of the last key exchange.
    pub group: Option<u16>,
    /// The group that a HelloRetryRequest has asked for.
    pub asked_for: Option<u16>,
    /// Whether the last handshake has resumed a session: in DTLS 1.3 the server has taken a PSK, in 1.2
    /// no key exchange followed its hello, which has the session ID of an earlier one or a ticket.
    pub resumed: bool,
    /// Number of records with a connection ID, to the client and to the server.
    pub with_cid: [usize; 2],
    /// Number of protected records without a connection ID, to the client and to the server.
    /// Handshake messages do not count.
    pub without_cid: [usize; 2],
}

/// Reads what the datagrams show.
pub fn shown(datagrams: &[Datagram]) -> WireObservations {
    let mut shown = WireObservations::default();
    // A ServerHello that arrives twice says nothing new.
    let mut last_hello = Vec::new();
    for datagram in datagrams {
        let to = usize::from(datagram.to == Role::Server);
        for record in records(&datagram.bytes) {
            match record {
                Record::Handshake { offset: 1.., .. } => {}
                Record::Handshake { message: SERVER_HELLO, body, .. } if body == last_hello => {}
                Record::Handshake { message: SERVER_HELLO, body, .. } => {
                    match ServerHello::read(&body) {
                        Some(hello) if hello.retries => {
                            shown.asked_for = hello.group.or(shown.asked_for);
                        }
                        Some(hello) => {
                            shown.group = hello.group.or(shown.group);
                            // A full handshake of DTLS 1.2 goes on with a certificate.
                            shown.resumed = hello.psk || hello.version == Version::Dtls12;
                            shown.agreed = Some(hello);
                        }
                        None => {}
                    }
                    last_hello = body;
                }
                Record::Handshake { message: SERVER_KEY_EXCHANGE, body, .. } => {
                    shown.resumed = false;
                    if let [NAMED_CURVE, high, low, ..] = body[..] {
                        shown.group = Some(u16::from_be_bytes([high, low]));
                    }
                }
                Record::Handshake { message: CLIENT_KEY_EXCHANGE, .. } => shown.resumed = false,
                Record::Unified { cid: true } | Record::Cid(_) => shown.with_cid[to] += 1,
                Record::Unified { cid: false } => shown.without_cid[to] += 1,
                Record::Other { epoch: 1.., .. } => shown.without_cid[to] += 1,
                _ => {}
            }
        }
    }
    shown
}

/// What a ServerHello says (RFC 5246 section 7.4.1.3, RFC 8446 section 4.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerHello {
    /// The version.
    pub version: Version,
    /// The suite.
    pub suite: u16,
    /// The group of the server's share, or the one that it asks for.
    pub group: Option<u16>,
    /// Whether the server has taken a PSK of DTLS 1.3.
    pub psk: bool,
    /// Whether it is a HelloRetryRequest.
    pub retries: bool,
}

impl ServerHello {
    fn read(body: &[u8]) -> Option<Self> {
        const PRE_SHARED_KEY: u16 = 41;
        const SUPPORTED_VERSIONS: u16 = 43;
        const KEY_SHARE: u16 = 51;
        /// The first bytes of a HelloRetryRequest's random value (RFC 8446, section 4.1.3).
        const RETRIES: [u8; 8] = [0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11];
        let session = usize::from(*body.get(34)?);
        let rest = body.get(35 + session..)?;
        let suite = u16::from_be_bytes([*rest.first()?, *rest.get(1)?]);
        let retries = body[2..].starts_with(&RETRIES);
        let mut hello = Self { version: Version::Dtls12, suite, group: None, psk: false, retries };
        // The compression method and the length of the extensions precede the extensions.
        let mut extensions = rest.get(5..).unwrap_or_default();
        while let [t1, t2, l1, l2, content @ ..] = extensions {
            let length = usize::from(u16::from_be_bytes([*l1, *l2]));
            match (u16::from_be_bytes([*t1, *t2]), content) {
                (SUPPORTED_VERSIONS, [0xfe, 0xfc, ..]) => hello.version = Version::Dtls13,
                (KEY_SHARE, [high, low, ..]) => {
                    hello.group = Some(u16::from_be_bytes([*high, *low]));
                }
                (PRE_SHARED_KEY, _) => hello.psk = true,
                _ => {}
            }
            extensions = content.get(length..).unwrap_or_default();
        }
        Some(hello)
    }
}

/// The datagrams in words, one line each, followed by up to 256 of their bytes in hex.
pub fn told(datagrams: &[Datagram]) -> String {
    const SHOWN_BYTES: usize = 256;
    let mut text = String::new();
    for Datagram { after, to, bytes } in datagrams {
        let records: Vec<_> = records(bytes).iter().map(Record::told).collect();
        let _ = write!(
            text,
            "{:7.3} s  {:3} B to the {to}: {}\n            ",
            after.as_secs_f64(),
            bytes.len(),
            records.join(", "),
        );
        for byte in bytes.iter().take(SHOWN_BYTES) {
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
    }
    text
}

/// The alerts that were sent in clear, in words, in their order.
pub fn alerts(datagrams: &[Datagram]) -> Vec<String> {
    let records = datagrams.iter().flat_map(|datagram| {
        records(&datagram.bytes).into_iter().map(move |record| (datagram.to.other(), record))
    });
    let alerts = records.filter(|(_, record)| matches!(record, Record::Alert(..)));
    alerts.map(|(by, record)| format!("{} by the {by}", record.told())).collect()
}

impl Record {
    fn told(&self) -> String {
        match self {
            Self::Handshake { message, sequence, offset, body } => {
                let name = match *message {
                    0 => "HelloRequest",
                    1 => "ClientHello",
                    SERVER_HELLO => "ServerHello",
                    3 => "HelloVerifyRequest",
                    11 => "Certificate",
                    12 => "ServerKeyExchange",
                    14 => "ServerHelloDone",
                    16 => "ClientKeyExchange",
                    _ => return format!("handshake message {message}, number {sequence}"),
                };
                let from = if *offset > 0 { format!(" from {offset}") } else { String::new() };
                format!("{name} {sequence}{from} ({} B)", body.len())
            }
            Self::Alert(level, description) => format!("alert {level}/{description}"),
            Self::Other { content, epoch, length } => {
                let name = match *content {
                    20 => "ChangeCipherSpec",
                    ALERT => "alert",
                    HANDSHAKE => "handshake",
                    23 => "data",
                    26 => "ACK",
                    _ => return format!("content {content} in epoch {epoch} ({length} B)"),
                };
                format!("{name} in epoch {epoch} ({length} B)")
            }
            Self::Unified { cid } => format!("1.3 record{}", if *cid { " with CID" } else { "" }),
            Self::Cid(_) => "1.2 record with CID".into(),
            Self::Noise => "no record".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record with this content type, epoch and body.
    fn record(content: u8, epoch: u8, body: &[u8]) -> Vec<u8> {
        let mut record = vec![content, 0xfe, 0xfd, 0, epoch, 0, 0, 0, 0, 0, 0, 0, body.len() as u8];
        record.extend_from_slice(body);
        record
    }

    fn hello(extensions: &[u8]) -> Vec<u8> {
        let length = 40 + extensions.len() as u8;
        let mut message = vec![SERVER_HELLO, 0, 0, length, 0, 1, 0, 0, 0, 0, 0, length, 0xfe, 0xfd];
        message.extend_from_slice(&[7; 32]);
        message.extend_from_slice(&[0, 0xc0, 0xa8, 0, 0, extensions.len() as u8]);
        message.extend_from_slice(extensions);
        record(HANDSHAKE, 0, &message)
    }

    fn passed(bytes: Vec<u8>, to: Role) -> Datagram {
        Datagram { after: Duration::ZERO, to, bytes }
    }

    #[test]
    fn a_server_hello_shows_its_version_and_suite() {
        for (extensions, version) in [
            (&[][..], Version::Dtls12),
            (&[0, 23, 0, 0], Version::Dtls12),
            (&[0, 23, 0, 0, 0, 43, 0, 2, 0xfe, 0xfc], Version::Dtls13),
        ] {
            let shown = shown(&[passed(hello(extensions), Role::Client)]);
            let agreed = shown.agreed.map(|hello| (hello.version, hello.suite));
            assert_eq!(agreed, Some((version, 0xc0a8)));
        }
    }

    #[test]
    fn records_with_and_without_connection_ids_are_told_apart() {
        let mut cid = vec![TLS12_CID, 0xfe, 0xfd, 0, 1, 0, 0, 0, 0, 0, 1];
        cid.extend_from_slice(&[9; CID_BYTES]);
        cid.extend_from_slice(&[0, 3, 1, 2, 3]);
        let both = [record(HANDSHAKE, 1, &[0; 24]), cid].concat();
        let shown = shown(&[
            passed(both, Role::Server),
            passed(vec![0x3f, 0, 0, 0, 0, 0, 0, 5, 5, 0, 0], Role::Client),
            passed(vec![0x2e, 5, 5, 0, 0], Role::Client),
        ]);
        assert_eq!(shown.with_cid, [1, 1]);
        assert_eq!(shown.without_cid, [1, 1]);
    }

    #[test]
    fn what_is_cut_is_noise_and_no_panic() {
        let whole = [hello(&[0, 23, 0, 0]), record(ALERT, 0, &[2, 40])].concat();
        assert!(matches!(records(&whole)[..], [Record::Handshake { .. }, Record::Alert(2, 40)]));
        for cut in 0..whole.len() {
            let _ = shown(&[passed(whole[..cut].to_vec(), Role::Client)]);
        }
        assert_eq!(records(&whole[..5]), [Record::Noise]);
    }

    #[test]
    fn both_ways_pass_and_are_kept() {
        let (server, client) = (bind(), bind());
        let tap = Tap::start(server.local_addr().expect("bound"));
        let mut buffer = [0; 16];
        client.send_to(b"there", tap.address()).expect("loopback");
        server.set_read_timeout(Some(Duration::from_secs(5))).expect("not zero");
        client.set_read_timeout(Some(Duration::from_secs(5))).expect("not zero");
        let (length, from) = server.recv_from(&mut buffer).expect("it is forwarded");
        assert_eq!(&buffer[..length], b"there");
        server.send_to(b"back", from).expect("loopback");
        assert_eq!(client.recv(&mut buffer).expect("it is forwarded"), 4);
        let kept: Vec<_> = tap.datagrams().into_iter().map(|kept| (kept.to, kept.bytes)).collect();
        assert_eq!(kept, [(Role::Server, b"there".to_vec()), (Role::Client, b"back".to_vec())]);
    }
}
