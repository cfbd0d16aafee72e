//! Thousands of clients in one thread, whose datagrams go where the slots of their connection IDs are,
//! as the kernel's rules have it (`lightseal proxy fleet nft`).

use super::audit::{Audit, Captured};
use super::routes::Routes;
use crate::dtls_clients::identity;
use lightseal_core::{Engine, Instant as EngineInstant, Output, Random};
use lightseal_dtls::{
    ClientConfig, Connection, ConnectionIds, Event, KeyLog, ProtocolVersion, Psk, Settings,
};
use rustix::event::epoll;
use std::collections::{HashMap, HashSet};
use std::net::UdpSocket;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The address of the fleet, as clients see it. Nothing is sent there.
pub(crate) const FLEET: &str = "192.0.2.1:5684";

/// How long one round waits for datagrams.
const ROUND: Duration = Duration::from_millis(5);

#[derive(Default)]
struct Lines(Mutex<String>);

impl KeyLog for Lines {
    fn log(&self, line: &str) {
        let mut lines = self.0.lock().unwrap();
        lines.push_str(line);
        lines.push('\n');
    }
}

/// A client. It never begins a second handshake.
pub(crate) struct Seat {
    pub(crate) number: u64,
    socket: UdpSocket,
    connection: Connection,
    wake: Option<EngineInstant>,
    pub(crate) handshakes: u32,
    pub(crate) closed: u32,
    sent: u64,
    /// When each message was sent that has not come back.
    waiting: HashMap<u64, Instant>,
    received: HashSet<u64>,
    /// Messages that came more than once.
    pub(crate) repeated: u64,
    /// The slot of the datagram that it sent last, if that had a connection ID.
    pub(crate) slot: Option<u8>,
    next_send: Option<Instant>,
    pub(crate) pace: Duration,
    /// When something first came back since this was last reset.
    pub(crate) answered_at: Option<Instant>,
}

/// The clients.
pub(crate) struct Crowd {
    pub(crate) seats: Vec<Seat>,
    routes: Arc<Routes>,
    epoll: std::os::fd::OwnedFd,
    began: Instant,
    secrets: Arc<Lines>,
    before: Vec<Captured>,
    audit: Option<Audit>,
    /// The clients whose secrets the audit has: those that were there when it began.
    audited: usize,
    /// How long messages took to come back, in milliseconds, since this was last taken.
    pub(crate) delays: Vec<f64>,
    buf: Vec<u8>,
}

/// The slot that a datagram names, as the kernel's rules find it.
fn slot_of(datagram: &[u8]) -> Option<u8> {
    match datagram.first()? {
        first if first >> 4 == 0b0011 => datagram.get(1).copied(),
        25 => datagram.get(11).copied(),
        _ => None,
    }
}

impl Crowd {
    pub(crate) fn new(routes: Arc<Routes>) -> Self {
        Self {
            seats: Vec::new(),
            routes,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC).unwrap(),
            began: Instant::now(),
            secrets: Arc::default(),
            before: Vec::new(),
            audit: None,
            audited: usize::MAX,
            delays: Vec::new(),
            buf: vec![0; 4096],
        }
    }

    fn now(&self) -> EngineInstant {
        EngineInstant::ZERO + self.began.elapsed()
    }

    /// A client begins its handshake. Returns where it is in the list.
    pub(crate) fn begin(&mut self, number: u64, version: ProtocolVersion) -> usize {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut settings = Settings::new(&lightseal_dtls::crypto::rustcrypto::PROVIDER);
        settings.versions = vec![version];
        settings.connection_ids = ConnectionIds::of_bytes(0);
        settings.key_log = Some(Arc::clone(&self.secrets) as Arc<dyn KeyLog>);
        let identity = identity(number);
        let psk = Psk::external(identity.as_bytes(), &(0..16).collect::<Vec<u8>>()).unwrap();
        let config = Arc::new(ClientConfig::with(psk, settings).unwrap());
        let rng = Random::from_os().unwrap();
        let connection = Connection::client(config, FLEET.parse().unwrap(), self.now(), rng);
        let at = self.seats.len();
        let data = epoll::EventData::new_u64(at as u64);
        epoll::add(&self.epoll, &socket, data, epoll::EventFlags::IN).unwrap();
        self.seats.push(Seat {
            number,
            socket,
            connection,
            wake: None,
            handshakes: 0,
            closed: 0,
            sent: 0,
            waiting: HashMap::new(),
            received: HashSet::new(),
            repeated: 0,
            slot: None,
            next_send: None,
            pace: Duration::from_secs(1),
            answered_at: None,
        });
        self.flush(at);
        at
    }

    /// Connects clients, some at a time.
    pub(crate) fn connect(&mut self, numbers: std::ops::Range<u64>, version: ProtocolVersion) {
        let numbers: Vec<_> = numbers.collect();
        for some in numbers.chunks(64) {
            let some: Vec<_> = some.iter().map(|number| self.begin(*number, version)).collect();
            let until = Instant::now() + Duration::from_secs(60);
            while some.iter().any(|at| self.seats[*at].handshakes == 0) {
                assert!(Instant::now() < until, "clients do not connect");
                self.round();
            }
        }
    }

    /// Forgets the last clients.
    pub(crate) fn dismiss(&mut self, count: usize) {
        self.seats.truncate(self.seats.len() - count);
    }

    /// From now on all datagrams are read, those from before too.
    pub(crate) fn audit(&mut self) {
        let audit = Audit::start(&self.secrets.0.lock().unwrap(), FLEET.parse().unwrap());
        self.before.drain(..).for_each(|captured| audit.take(captured));
        self.audit = Some(audit);
        self.audited = self.seats.len();
    }

    pub(crate) fn take_audit(&mut self) -> Option<Audit> {
        self.audit.take()
    }

    /// The first clients send at this pace from now on, each beginning at a time of its own.
    pub(crate) fn talk(&mut self, count: usize, pace: Duration) {
        let now = Instant::now();
        for (at, seat) in self.seats.iter_mut().take(count).enumerate() {
            seat.pace = pace;
            seat.next_send = Some(now + pace.mul_f64(at as f64 / count as f64));
        }
    }

    pub(crate) fn hush(&mut self) {
        self.seats.iter_mut().for_each(|seat| seat.next_send = None);
    }

    /// One round: what has arrived, what is due.
    pub(crate) fn round(&mut self) {
        let mut events = Vec::with_capacity(1024);
        let wait = rustix::event::Timespec { tv_sec: 0, tv_nsec: ROUND.subsec_nanos().into() };
        let waited =
            epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&wait));
        if waited.is_ok() {
            for event in &events {
                let at = { event.data }.u64() as usize;
                self.receive(at);
            }
        }
        let (engine_now, now) = (self.now(), Instant::now());
        for at in 0..self.seats.len() {
            let seat = &mut self.seats[at];
            let mut acted = false;
            if seat.wake.is_some_and(|wake| wake <= engine_now) {
                seat.connection.handle_timeout(engine_now);
                acted = true;
            }
            if let Some(due) = seat.next_send.filter(|due| *due <= now) {
                seat.next_send = Some((due + seat.pace).max(now));
                seat.send(engine_now);
                acted = true;
            }
            if acted {
                self.flush(at);
            }
        }
    }

    pub(crate) fn rounds(&mut self, time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.round();
        }
    }

    /// Takes rounds until something is so, or this time has passed. Returns whether it is so.
    pub(crate) fn until(&mut self, most: Duration, done: impl Fn(&Self) -> bool) -> bool {
        let until = Instant::now() + most;
        while !done(self) {
            if Instant::now() >= until {
                return false;
            }
            self.round();
        }
        true
    }

    fn tap(&mut self, at: usize, from_client: bool, bytes: &[u8]) {
        if at >= self.audited {
            return;
        }
        let client = self.seats[at].socket.local_addr().unwrap();
        let captured = Captured { client, from_client, bytes: bytes.to_vec() };
        match &self.audit {
            Some(audit) => audit.take(captured),
            None => self.before.push(captured),
        }
    }

    fn receive(&mut self, at: usize) {
        let mut buf = std::mem::take(&mut self.buf);
        while let Ok((len, _)) = self.seats[at].socket.recv_from(&mut buf) {
            self.tap(at, false, &buf[..len]);
            let now = self.now();
            let fleet = FLEET.parse().unwrap();
            self.seats[at].connection.handle_datagram(now, fleet, &mut buf[..len]);
        }
        self.buf = buf;
        self.flush(at);
    }

    /// Sends what a client has to send, and takes its events.
    fn flush(&mut self, at: usize) {
        let mut buf = std::mem::take(&mut self.buf);
        let mut out = Vec::new();
        let seat = &mut self.seats[at];
        seat.wake = loop {
            match seat.connection.poll_output(&mut buf) {
                Output::Datagram { payload, .. } => out.push(payload.to_vec()),
                Output::Event(Event::Connected(_)) => seat.handshakes += 1,
                Output::Event(Event::Closed(_)) => seat.closed += 1,
                Output::Event(Event::Data(data)) => {
                    let number = u64::from_be_bytes(data.try_into().unwrap());
                    seat.answered_at.get_or_insert_with(Instant::now);
                    seat.repeated += u64::from(!seat.received.insert(number));
                    if let Some(then) = seat.waiting.remove(&number) {
                        self.delays.push(then.elapsed().as_secs_f64() * 1e3);
                    }
                }
                Output::Event(_) => {}
                Output::BufferTooSmall { needed } => buf.resize(needed, 0),
                Output::WakeAt(at) => break Some(at),
                Output::Idle => break None,
            }
        };
        self.buf = buf;
        for datagram in out {
            self.tap(at, true, &datagram);
            let seat = &mut self.seats[at];
            let slot = slot_of(&datagram);
            seat.slot = slot.or(seat.slot);
            if let Some(node) = self.routes.node(slot, seat.number) {
                let _ = seat.socket.send_to(&datagram, node);
            }
        }
    }

    /// How many messages were sent, and how many of them have not come back.
    pub(crate) fn lost(&self) -> (u64, u64) {
        let sent = self.seats.iter().map(|seat| seat.sent).sum();
        (sent, self.seats.iter().map(|seat| seat.waiting.len() as u64).sum())
    }
}

impl Seat {
    fn send(&mut self, now: EngineInstant) {
        let number = self.number << 32 | self.sent;
        if self.connection.send(now, &number.to_be_bytes(), &mut []).is_ok() {
            self.sent += 1;
            self.waiting.insert(number, Instant::now());
        }
    }

    /// The next message is due at once.
    pub(crate) fn hurry(&mut self, pace: Duration) {
        self.pace = pace;
        self.next_send = Some(Instant::now());
    }
}

/// A value in sorted ones, at this share of them.
pub(crate) fn at_share(values: &mut [f64], share: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = ((values.len() as f64 * share).ceil() as usize).clamp(1, values.len().max(1)) - 1;
    values.get(at).copied().unwrap_or(0.0)
}
