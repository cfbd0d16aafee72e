//! Several gateways in one process, over streams without a network and with paused time.

use super::transport::{Connected, Stream};
use super::*;
use crate::identity::Identity;
use std::pin::Pin;
use std::sync::Mutex as StdMutex;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout};

type Arrivals = (mpsc::Sender<Box<dyn Stream>>, Arc<Mutex<mpsc::Receiver<Box<dyn Stream>>>>);

/// Gateways that can reach each other by name, over connections that can be cut silently.
#[derive(Clone)]
struct Wires {
    hosts: Arc<StdMutex<BTreeMap<String, Arrivals>>>,
    /// How many times all connections were cut: existing connections stay open, but carry nothing
    /// any more.
    cuts: watch::Sender<u32>,
    dialled: Arc<StdMutex<Vec<Instant>>>,
}

impl Wires {
    fn new() -> Self {
        Self { hosts: Arc::default(), cuts: watch::channel(0).0, dialled: Arc::default() }
    }

    fn arrivals(&self, name: &str) -> Arrivals {
        let mut hosts = self.hosts.lock().unwrap();
        let fresh = || {
            let (to, from) = mpsc::channel(16);
            (to, Arc::new(Mutex::new(from)))
        };
        hosts.entry(name.to_owned()).or_insert_with(fresh).clone()
    }
}

struct Host {
    name: String,
    wires: Wires,
}

/// The source address of all connections in these tests.
fn somewhere() -> SocketAddr {
    "192.0.2.1:1".parse().unwrap()
}

impl Transport for Host {
    fn dial<'a>(
        &'a self,
        endpoint: &'a str,
    ) -> Pin<Box<dyn Future<Output = Connected> + Send + 'a>> {
        Box::pin(async move {
            self.wires.dialled.lock().unwrap().push(Instant::now());
            sleep(Duration::from_millis(10)).await;
            let host = self.wires.hosts.lock().unwrap().get(endpoint).map(|host| host.0.clone());
            let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
            let (ours, mut wire_a) = tokio::io::duplex(1 << 20);
            let (mut wire_b, theirs) = tokio::io::duplex(1 << 20);
            host.ok_or_else(refused)?.try_send(Box::new(theirs)).map_err(|_| refused())?;
            let mut cuts = self.wires.cuts.subscribe();
            tokio::spawn(async move {
                tokio::select! {
                    _ = tokio::io::copy_bidirectional(&mut wire_a, &mut wire_b) => {}
                    _ = cuts.changed() => std::future::pending().await,
                }
            });
            Ok((Box::new(ours) as Box<dyn Stream>, somewhere()))
        })
    }

    fn accept(&self) -> Pin<Box<dyn Future<Output = Connected> + Send + '_>> {
        let arrivals = self.wires.arrivals(&self.name).1;
        Box::pin(async move {
            let stream = arrivals.lock().await.recv().await;
            Ok((stream.ok_or(io::ErrorKind::NotConnected)?, somewhere()))
        })
    }
}

fn identity(seed: u8) -> Identity {
    Identity::from_seed(Zeroizing::new([seed; 32]))
}

/// A running gateway with one peer.
struct Gateway {
    events: Events,
    sender: Sender,
    stop: Option<oneshot::Sender<()>>,
    task: tokio::task::JoinHandle<()>,
}

const PEER: PeerIndex = PeerIndex(0);

impl Gateway {
    /// `name` is the seed of its key. It dials `peer` if `dials`.
    fn start(
        wires: &Wires,
        name: u8,
        peer: u8,
        dials: bool,
        adjust: impl Fn(&mut ChannelSettings),
    ) -> Self {
        let endpoint = dials.then(|| peer.to_string());
        let peers = vec![(identity(peer).public_key(), endpoint)];
        let mut settings = ChannelSettings::new(identity(name), peers);
        adjust(&mut settings);
        static RUNS: AtomicU64 = AtomicU64::new(1);
        let seed = RUNS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // Connections that an earlier gateway of this name has not accepted.
        wires.hosts.lock().unwrap().remove(&name.to_string());
        wires.arrivals(&name.to_string());
        let host = Arc::new(Host { name: name.to_string(), wires: wires.clone() });
        let (channel, sender, events) =
            Channel::over(host, settings, Random::insecure(seed)).unwrap();
        let (stop, until) = oneshot::channel();
        let task = tokio::spawn(channel.run(async move {
            let _ = until.await;
        }));
        Self { events, sender, stop: Some(stop), task }
    }

    async fn next(&mut self) -> Event {
        let limit = Duration::from_secs(100_000);
        timeout(limit, self.events.recv()).await.expect("an event").expect("a channel")
    }

    /// The secret of the next connection that comes up, and whether this gateway dialled.
    async fn up(&mut self) -> ([u8; 32], bool) {
        loop {
            match self.next().await {
                Event::Up { exporter, initiator, .. } => return (*exporter, initiator),
                Event::NotReached { .. } => {}
                other => panic!("{other:?} before the connection was up"),
            }
        }
    }

    async fn down(&mut self) -> Cause {
        loop {
            match self.next().await {
                Event::Down { why, .. } => return why,
                Event::NotReached { .. } => {}
                other => panic!("{other:?} before the connection was down"),
            }
        }
    }

    async fn message(&mut self) -> Vec<u8> {
        match self.next().await {
            Event::Message { bytes, .. } => bytes.to_vec(),
            other => panic!("{other:?} instead of a message"),
        }
    }

    fn say(&self, text: &[u8]) {
        self.sender.send(PEER, text.to_vec()).unwrap();
    }

    /// Stops the gateway abruptly, as if its power failed.
    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    async fn stop(mut self) {
        let _ = self.stop.take().map(|stop| stop.send(()));
        self.task.await.unwrap();
    }
}

/// Each end receives the message of the other, and no other message.
async fn talk(a: &mut Gateway, b: &mut Gateway) {
    a.say(b"from a");
    b.say(b"from b");
    assert_eq!(b.message().await, b"from a");
    assert_eq!(a.message().await, b"from b");
}

fn as_is(_: &mut ChannelSettings) {}

#[tokio::test(start_paused = true)]
async fn both_ends_have_one_secret_and_every_connection_another() {
    // Each of the two gateways has the lower key once.
    for (a, b) in [(1, 2), (2, 1)] {
        let wires = Wires::new();
        let mut one = Gateway::start(&wires, a, b, true, as_is);
        let mut other = Gateway::start(&wires, b, a, false, as_is);
        let (first, dialled) = one.up().await;
        assert_eq!((first, false), other.up().await);
        assert!(dialled);
        talk(&mut one, &mut other).await;
        other.stop().await;
        assert_eq!(one.down().await, Cause::Ended);
        assert!(!one.sender.is_up(PEER));
        assert_eq!(one.sender.send(PEER, Vec::new()), Err(SendError::Down));
        let mut other = Gateway::start(&wires, b, a, false, as_is);
        let (second, _) = one.up().await;
        assert_eq!((second, false), other.up().await);
        assert_ne!(first, second);
        talk(&mut one, &mut other).await;
    }
}

#[tokio::test(start_paused = true)]
async fn where_both_dial_at_once_one_connection_stays() {
    let wires = Wires::new();
    let mut one = Gateway::start(&wires, 1, 2, true, as_is);
    let mut other = Gateway::start(&wires, 2, 1, true, as_is);
    let ((a, one_dialled), (b, other_dialled)) = tokio::join!(one.up(), other.up());
    assert_eq!(a, b);
    assert_ne!(one_dialled, other_dialled);
    // An hour without any other message.
    for gateway in [&mut one, &mut other] {
        assert!(timeout(Duration::from_secs(3600), gateway.events.recv()).await.is_err());
    }
    talk(&mut one, &mut other).await;
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_falls_silent_is_down_within_ten_seconds_and_comes_again() {
    for (a, b) in [(1, 2), (2, 1)] {
        let wires = Wires::new();
        let mut one = Gateway::start(&wires, a, b, true, as_is);
        let mut other = Gateway::start(&wires, b, a, false, as_is);
        let _ = tokio::join!(one.up(), other.up());
        sleep(Duration::from_secs(1000)).await;
        let before = Instant::now();
        wires.cuts.send_modify(|cuts| *cuts += 1);
        let (why, _) = tokio::join!(one.down(), other.down());
        assert_eq!(why, Cause::Silent);
        assert!(before.elapsed() <= Duration::from_secs(10), "{:?}", before.elapsed());
        let (one_up, other_up) = tokio::join!(one.up(), other.up());
        assert_eq!(one_up.0, other_up.0);
        talk(&mut one, &mut other).await;
    }
}

#[tokio::test(start_paused = true)]
async fn who_has_lost_a_connection_need_not_wait_for_the_other_to_notice() {
    for (a, b) in [(1, 2), (2, 1)] {
        let wires = Wires::new();
        let impatient =
            |settings: &mut ChannelSettings| settings.dead_after = Duration::from_secs(2);
        let patient =
            |settings: &mut ChannelSettings| settings.dead_after = Duration::from_secs(300);
        let mut one = Gateway::start(&wires, a, b, true, impatient);
        let mut other = Gateway::start(&wires, b, a, false, patient);
        let _ = tokio::join!(one.up(), other.up());
        sleep(Duration::from_secs(1000)).await;
        wires.cuts.send_modify(|cuts| *cuts += 1);
        let before = Instant::now();
        assert_eq!(one.down().await, Cause::Silent);
        assert_eq!(other.down().await, Cause::Replaced);
        assert_eq!(one.up().await.0, other.up().await.0);
        assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
        talk(&mut one, &mut other).await;
    }
}

#[tokio::test(start_paused = true)]
async fn either_end_may_start_anew() {
    for killed_dials in [false, true] {
        let wires = Wires::new();
        let mut stays = Gateway::start(&wires, 1, 2, !killed_dials, as_is);
        let mut killed = Gateway::start(&wires, 2, 1, killed_dials, as_is);
        let _ = tokio::join!(stays.up(), killed.up());
        for _ in 0..5 {
            killed.kill().await;
            killed = Gateway::start(&wires, 2, 1, killed_dials, as_is);
            let (secret, ()) = tokio::join!(killed.up(), async {
                stays.down().await;
            });
            assert_eq!(stays.up().await.0, secret.0);
            talk(&mut stays, &mut killed).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_loses_nothing_and_changes_no_order() {
    for (a, b) in [(1, 2), (2, 1)] {
        let wires = Wires::new();
        let hourly =
            |settings: &mut ChannelSettings| settings.renew_every = Duration::from_secs(3600);
        let mut one = Gateway::start(&wires, a, b, true, hourly);
        let mut other = Gateway::start(&wires, b, a, false, hourly);
        let mut secrets = vec![(one.up().await.0, other.up().await.0)];
        let began = Instant::now();
        let (mut said, mut heard) = (0_u32, [0_u32; 2]);
        let mut renewed = [0; 2];
        while renewed != [3, 3] {
            for gateway in [&one, &other] {
                gateway.say(&said.to_be_bytes());
            }
            said += 1;
            sleep(Duration::from_secs(7)).await;
            for (at, gateway) in [&mut one, &mut other].into_iter().enumerate() {
                while let Some(event) = gateway.events.try_recv() {
                    match event {
                        Event::Message { bytes, .. } => {
                            assert_eq!(bytes[..], heard[at].to_be_bytes());
                            heard[at] += 1;
                        }
                        Event::Up { exporter, .. } => {
                            renewed[at] += 1;
                            secrets.resize(secrets.len().max(renewed[at] + 1), Default::default());
                            let entry = &mut secrets[renewed[at]];
                            *(if at == 0 { &mut entry.0 } else { &mut entry.1 }) = *exporter;
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            assert!(began.elapsed() < Duration::from_secs(4 * 3600), "{renewed:?}");
        }
        assert_eq!(heard, [said; 2]);
        assert!(secrets.iter().all(|(one, other)| one == other));
        secrets.sort();
        secrets.dedup();
        assert_eq!(secrets.len(), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_fails_changes_nothing_until_one_succeeds() {
    for (a, b) in [(1, 2), (2, 1)] {
        let wires = Wires::new();
        let hourly =
            |settings: &mut ChannelSettings| settings.renew_every = Duration::from_secs(3600);
        let mut one = Gateway::start(&wires, a, b, true, hourly);
        let mut other = Gateway::start(&wires, b, a, false, hourly);
        let _ = tokio::join!(one.up(), other.up());
        let host = wires.hosts.lock().unwrap().remove(&b.to_string()).unwrap();
        let dialled = wires.dialled.lock().unwrap().len();
        sleep(Duration::from_secs(2 * 3600)).await;
        assert!(wires.dialled.lock().unwrap().len() > dialled + 10);
        assert!(one.events.try_recv().is_none() && other.events.try_recv().is_none());
        talk(&mut one, &mut other).await;
        wires.hosts.lock().unwrap().insert(b.to_string(), host);
        assert_eq!(one.up().await.0, other.up().await.0);
        talk(&mut one, &mut other).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_starts_anew_during_a_renewal_says_nothing_of_its_former_life() {
    for (a, b) in [(1, 2), (2, 1)] {
        let wires = Wires::new();
        let slow = |settings: &mut ChannelSettings| settings.events = 1;
        let often = |settings: &mut ChannelSettings| settings.renew_every = Duration::from_secs(1);
        let mut one = Gateway::start(&wires, a, b, false, slow);
        let mut other = Gateway::start(&wires, b, a, true, often);
        let _ = tokio::join!(one.up(), other.up());
        (0..9).for_each(|number| other.say(&[number]));
        // The replacing connection is up, and the old one has not been read to its end.
        sleep(Duration::from_millis(1500)).await;
        other.kill().await;
        let mut other = Gateway::start(&wires, b, a, true, as_is);
        other.up().await;
        sleep(Duration::from_millis(100)).await;
        loop {
            match one.next().await {
                Event::Message { .. } => {}
                Event::Down { why, .. } => break assert_eq!(why, Cause::Replaced),
                event => panic!("{event:?}"),
            }
        }
        one.up().await;
        talk(&mut one, &mut other).await;
    }
}

/// The content of a message: the number of the `Up` of its sender, and its number on that
/// connection.
fn numbered(up: u32, count: u32) -> Vec<u8> {
    [up.to_be_bytes(), count.to_be_bytes()].concat()
}

#[tokio::test(start_paused = true)]
async fn what_is_said_goes_out_on_the_connection_that_its_speaker_knows_of() {
    for (a, b) in [(1, 2), (2, 1)] {
        let wires = Wires::new();
        let often =
            |settings: &mut ChannelSettings| settings.renew_every = Duration::from_millis(500);
        let one = Gateway::start(&wires, a, b, true, often);
        let other = Gateway::start(&wires, b, a, false, often);
        let mut gateways = [one, other];
        let (mut ups, mut said, mut heard) = ([0_u32; 2], [0_u32; 2], [(0_u32, 0_u32); 2]);
        let mut refused = 0;
        while ups.iter().any(|&ups| ups < 20) {
            for at in [0, 1] {
                // The gateways are out of step, so that each of them is late sometimes.
                if ups[1 - at] % 7 != ups[at] % 5 {
                    sleep(Duration::from_micros(700)).await;
                }
                if let Some(event) = gateways[at].events.try_recv() {
                    match event {
                        Event::Up { .. } => {
                            ups[at] += 1;
                            said[at] = 0;
                            // The next message to receive is the first one on this connection.
                            heard[at] = (ups[at], 0);
                        }
                        Event::Message { bytes, .. } => {
                            assert_eq!(bytes[..], numbered(heard[at].0, heard[at].1));
                            heard[at].1 += 1;
                        }
                        Event::NotReached { .. } => {}
                        other => panic!("{other:?}"),
                    }
                }
                match gateways[at].sender.send(PEER, numbered(ups[at], said[at])) {
                    Ok(()) => said[at] += 1,
                    Err(error) => {
                        assert_eq!(error, SendError::Down);
                        refused += 1;
                    }
                }
            }
            sleep(Duration::from_millis(1)).await;
        }
        assert!(refused > 0, "no message was sent during a renewal");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_closed_is_down_at_both_ends_and_comes_again() {
    for (a, b, closes) in [(1, 2, 0), (1, 2, 1), (2, 1, 0), (2, 1, 1)] {
        let wires = Wires::new();
        let one = Gateway::start(&wires, a, b, true, as_is);
        let other = Gateway::start(&wires, b, a, false, as_is);
        let mut gateways = [one, other];
        for _ in 0..3 {
            let [one, other] = &mut gateways;
            assert_eq!(one.up().await.0, other.up().await.0);
            talk(one, other).await;
            sleep(Duration::from_secs(20)).await;
            let before = Instant::now();
            let closing = &mut gateways[closes];
            closing.sender.close(PEER, "it makes no sense".into());
            closing.sender.close(PEER, "twice".into());
            assert!(!closing.sender.is_up(PEER));
            assert_eq!(closing.sender.send(PEER, Vec::new()), Err(SendError::Down));
            assert_eq!(closing.down().await, Cause::Closed("it makes no sense".into()));
            assert!(matches!(gateways[1 - closes].down().await, Cause::Lost(_)));
            assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_be_lost_leaves_room_for_what_may_not() {
    let wires = Wires::new();
    let few =
        |settings: &mut ChannelSettings| (settings.messages, settings.max_lossy_messages) = (4, 2);
    let mut one = Gateway::start(&wires, 1, 2, true, few);
    let mut other = Gateway::start(&wires, 2, 1, false, few);
    let _ = tokio::join!(one.up(), other.up());
    let offered: Vec<_> = (0..4).map(|at| one.sender.send_lossy(PEER, vec![at])).collect();
    assert_eq!(offered, [Ok(()), Ok(()), Err(SendError::Full), Err(SendError::Full)]);
    let sent: Vec<_> = (4..7).map(|at| one.sender.send(PEER, vec![at])).collect();
    assert_eq!(sent, [Ok(()), Ok(()), Err(SendError::Full)]);
    for heard in [0, 1, 4, 5] {
        assert_eq!(other.message().await, [heard]);
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_between_attempts_grow_to_fifteen_seconds_and_are_drawn() {
    let wires = Wires::new();
    let _alone = Gateway::start(&wires, 1, 2, true, as_is);
    sleep(Duration::from_secs(600)).await;
    let dialled = wires.dialled.lock().unwrap().clone();
    let pauses: Vec<_> = dialled.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (first, last) = (pauses[0], &pauses[10..]);
    assert!((90..=230).contains(&first.as_millis()), "{pauses:?}");
    let range = Duration::from_millis(7_500)..=Duration::from_millis(15_050);
    assert!(last.len() > 30 && last.iter().all(|pause| range.contains(pause)), "{pauses:?}");
    assert!(last.windows(2).any(|pair| pair[0].abs_diff(pair[1]) > Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_nobody_reads_is_full_and_its_peer_still_alive() {
    let wires = Wires::new();
    let few = |settings: &mut ChannelSettings| (settings.events, settings.messages) = (2, 4);
    let mut one = Gateway::start(&wires, 1, 2, true, few);
    let mut other = Gateway::start(&wires, 2, 1, false, few);
    let _ = tokio::join!(one.up(), other.up());
    let message = vec![7; MAX_MESSAGE];
    assert_eq!(one.sender.send(PEER, vec![0; MAX_MESSAGE + 1]), Err(SendError::TooLong));
    assert_eq!(one.sender.send(PeerIndex(1), Vec::new()), Err(SendError::Down));
    let mut sent = 0;
    loop {
        match one.sender.send(PEER, message.clone()) {
            Ok(()) => sent += 1,
            Err(error) => {
                // The connection buffers a limited number of bytes too.
                sleep(Duration::from_secs(1)).await;
                if one.sender.send(PEER, message.clone()) == Err(SendError::Full) {
                    assert_eq!(error, SendError::Full);
                    break;
                }
                sent += 1;
            }
        }
        assert!(sent < 200);
    }
    // An hour later the peer reads all messages.
    sleep(Duration::from_secs(3600)).await;
    for _ in 0..sent {
        assert_eq!(other.message().await, message);
    }
    talk(&mut one, &mut other).await;
}

#[tokio::test(start_paused = true)]
async fn two_peers_with_one_key_and_ourselves_are_no_peers() {
    let host = || Arc::new(Host { name: "1".into(), wires: Wires::new() });
    let refused = |peers: &[u8]| {
        let peers = peers.iter().map(|seed| (identity(*seed).public_key(), None)).collect();
        let settings = ChannelSettings::new(identity(1), peers);
        Channel::over(host(), settings, Random::insecure(1)).err().map(|e| e.to_string())
    };
    assert_eq!(refused(&[2, 3]), None);
    assert!(refused(&[2, 2]).unwrap().contains("twice"));
    assert!(refused(&[2, 1]).unwrap().contains("our own"));
}
