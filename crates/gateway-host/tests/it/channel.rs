//! The management channel over real sockets on the loopback interface.

use lightseal_core::Random;
use lightseal_gateway_host::channel::{
    Cause, Channel, ChannelSettings, Event, Events, MAX_MESSAGE, PeerIndex, SendError, Sender,
    listen,
};
use lightseal_gateway_host::identity::{Identity, PublicKey};
use std::net::SocketAddr;
use std::time::Duration;
use testkit::ports::opened_again;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use zeroize::Zeroizing;

const PEER: PeerIndex = PeerIndex(0);
/// The time after which a test gives up waiting.
const PATIENCE: Duration = Duration::from_secs(30);

fn identity(seed: u8) -> Identity {
    Identity::from_seed(Zeroizing::new([seed; 32]))
}

fn key(seed: u8) -> PublicKey {
    identity(seed).public_key()
}

struct Gateway {
    address: SocketAddr,
    events: Events,
    sender: Sender,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<()>,
}

impl Gateway {
    /// Starts a gateway with the key of `own` and the peer `peer`, which is at `endpoint` if that
    /// is known.
    fn start(at: &str, own: u8, peer: u8, endpoint: Option<SocketAddr>) -> Self {
        Self::adjusted(at, own, peer, endpoint, |_| {})
    }

    fn adjusted(
        at: &str,
        own: u8,
        peer: u8,
        endpoint: Option<SocketAddr>,
        adjust: impl FnOnce(&mut ChannelSettings),
    ) -> Self {
        let at: SocketAddr = at.parse().unwrap();
        // It may be the address of a gateway before.
        let listener = opened_again(|| listen(at));
        let address = listener.local_addr().unwrap();
        let peers = vec![(key(peer), endpoint.map(|endpoint| endpoint.to_string()))];
        let mut settings = ChannelSettings::new(identity(own), peers);
        adjust(&mut settings);
        let random = Random::insecure(u64::from(address.port()));
        let (channel, sender, events) = Channel::new(listener, settings, random).unwrap();
        let (stop, until) = oneshot::channel();
        let task = tokio::spawn(channel.run(async {
            let _ = until.await;
        }));
        Self { address, events, sender, stop, task }
    }

    async fn next(&mut self) -> Event {
        timeout(PATIENCE, self.events.recv()).await.expect("an event").expect("a channel")
    }

    async fn up(&mut self) -> ([u8; 32], bool) {
        loop {
            match self.next().await {
                Event::Up { exporter, initiator, .. } => return (*exporter, initiator),
                Event::NotReached { .. } => {}
                other => panic!("{other:?} before it was up"),
            }
        }
    }

    async fn down(&mut self) -> Cause {
        loop {
            match self.next().await {
                Event::Down { why, .. } => return why,
                Event::NotReached { .. } => {}
                other => panic!("{other:?} before it was down"),
            }
        }
    }

    async fn not_reached(&mut self) -> String {
        match self.next().await {
            Event::NotReached { why, .. } => why.to_string(),
            other => panic!("{other:?}"),
        }
    }

    async fn message(&mut self) -> Vec<u8> {
        match self.next().await {
            Event::Message { bytes, .. } => bytes.to_vec(),
            other => panic!("{other:?} instead of a message"),
        }
    }

    async fn stop(self) {
        let _ = self.stop.send(());
        self.task.await.unwrap();
    }

    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }
}

async fn talk(a: &mut Gateway, b: &mut Gateway) {
    for len in [0, 1, 1000, MAX_MESSAGE] {
        a.sender.send(PEER, vec![1; len]).unwrap();
        b.sender.send(PEER, vec![2; len]).unwrap();
        assert_eq!(b.message().await, vec![1; len]);
        assert_eq!(a.message().await, vec![2; len]);
    }
    assert_eq!(a.sender.send(PEER, vec![1; MAX_MESSAGE + 1]), Err(SendError::TooLong));
}

#[tokio::test]
async fn two_gateways_meet_over_ipv4_and_ipv6_and_restart() {
    let mut addresses = vec!["127.0.0.1:0"];
    match skip::ipv6() {
        Ok(()) => addresses.extend(["[::1]:0", "[::]:0"]),
        Err(reason) => skip::part("IPv6", reason),
    }
    for at in addresses {
        let mut a = Gateway::start(at, 1, 2, None);
        let mut endpoint = a.address;
        if endpoint.ip().is_unspecified() {
            // A socket that listens at `[::]` accepts IPv4 too.
            endpoint.set_ip("127.0.0.1".parse().unwrap());
        }
        let mut b = Gateway::start("127.0.0.1:0", 2, 1, Some(endpoint));
        let (secret, dialled) = b.up().await;
        assert!(dialled);
        match a.next().await {
            Event::Up { exporter, initiator: false, remote, .. } => {
                assert_eq!(*exporter, secret);
                let is_v4 = endpoint.is_ipv4();
                assert!(remote.ip().is_loopback() && remote.is_ipv4() == is_v4, "{remote}");
            }
            other => panic!("{other:?}"),
        }
        talk(&mut a, &mut b).await;
        // The gateway stops once properly and once abruptly.
        a.stop().await;
        assert_eq!(b.down().await, Cause::Ended);
        let mut a = Gateway::start(&endpoint.to_string(), 1, 2, None);
        let (second, third) = (b.up().await.0, a.up().await.0);
        assert_eq!(second, third);
        assert_ne!(second, secret);
        b.kill().await;
        a.down().await;
        let mut b = Gateway::start("127.0.0.1:0", 2, 1, Some(endpoint));
        assert_eq!(b.up().await.0, a.up().await.0);
        talk(&mut a, &mut b).await;
    }
}

#[tokio::test]
async fn names_are_resolved_anew_and_both_may_dial() {
    // Each gateway needs the other's port before that port is open.
    let ports = [(); 2].map(|()| {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        socket.local_addr().unwrap()
    });
    let mut a = Gateway::start(&ports[0].to_string(), 1, 2, Some(ports[1]));
    sleep(Duration::from_millis(100)).await;
    let mut b = Gateway::start(&ports[1].to_string(), 2, 1, Some(ports[0]));
    let (one, other) = tokio::join!(a.up(), b.up());
    assert_eq!(one.0, other.0);
    assert_ne!(one.1, other.1);
    talk(&mut a, &mut b).await;
    sleep(Duration::from_secs(1)).await;
    assert!(a.events.try_recv().is_none() && b.events.try_recv().is_none());
}

#[tokio::test]
async fn a_wrong_key_is_refused_in_both_directions() {
    // The gateway that answers has another key than expected.
    let mut other = Gateway::start("127.0.0.1:0", 3, 1, None);
    let mut dials = Gateway::start("127.0.0.1:0", 1, 2, Some(other.address));
    let why = dials.not_reached().await;
    assert!(why.contains("another key"), "{why}");
    drop(dials);
    // The gateway that dials is not known.
    let mut unknown = Gateway::start("127.0.0.1:0", 4, 3, Some(other.address));
    let why = unknown.not_reached().await;
    assert!(why.contains("does not know our key"), "{why}");
    assert!(!unknown.sender.is_up(PEER));
    assert!(other.events.try_recv().is_none());
    // A gateway with the right key can still connect.
    let mut right = Gateway::start("127.0.0.1:0", 1, 3, Some(other.address));
    assert_eq!(right.up().await.0, other.up().await.0);
}

#[tokio::test]
async fn garbage_and_slow_clients_keep_nobody_out() {
    let few = |settings: &mut ChannelSettings| {
        settings.unauthenticated = 4;
        settings.handshake_timeout = Duration::from_secs(5);
    };
    let mut a = Gateway::adjusted("127.0.0.1:0", 1, 2, None, few);
    let mut held = Vec::new();
    let mut random = Random::insecure(7);
    for round in 0..50 {
        let mut stream = TcpStream::connect(a.address).await.unwrap();
        match round % 4 {
            // A TLS record that never ends.
            0 => stream.write_all(&[22, 3, 1, 0x3f, 0xff, 1]).await.unwrap(),
            1 => {
                let junk: [u8; 300] = random.array();
                stream.write_all(&junk).await.unwrap();
            }
            2 => stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap(),
            _ => {}
        }
        held.push(stream);
    }
    let mut b = Gateway::start("127.0.0.1:0", 2, 1, Some(a.address));
    assert_eq!(b.up().await.0, a.up().await.0);
    talk(&mut a, &mut b).await;
    // All but the last few connections have been closed by now; the others are closed when their
    // time has run out.
    for mut stream in held {
        let gone = timeout(PATIENCE, async {
            let mut buf = [0; 100];
            while stream.read(&mut buf).await.is_ok_and(|len| len > 0) {}
        });
        gone.await.expect("sent away");
    }
    talk(&mut a, &mut b).await;
}

#[tokio::test]
async fn who_answers_with_garbage_is_not_reached() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let mut held = Vec::new();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.write_all(b"SSH-2.0-OpenSSH\r\n").await;
            held.push(stream);
        }
    });
    let mut a = Gateway::start("127.0.0.1:0", 1, 2, Some(address));
    let why = a.not_reached().await;
    assert!(why.starts_with("TLS: "), "{why}");
    server.abort();
}

#[tokio::test]
async fn a_name_that_means_nothing_is_told() {
    let listener = listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let peers = vec![(key(2), Some("nowhere.invalid:8885".to_owned()))];
    let settings = ChannelSettings::new(identity(1), peers);
    let (channel, _, mut events) = Channel::new(listener, settings, Random::insecure(1)).unwrap();
    tokio::spawn(channel.run(std::future::pending()));
    match timeout(PATIENCE, events.recv()).await {
        Ok(Some(Event::NotReached { .. })) => {}
        other => panic!("{other:?}"),
    }
}
