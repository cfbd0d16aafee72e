//! A toy engine. It sends numbered datagrams, acknowledges what arrives, and
//! repeats what was not acknowledged in time.

use lightseal_core::{Engine, Instant, Output};
use std::collections::{BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

const RETRY: Duration = Duration::from_millis(100);

/// Sends one number at a time to its peer, if it has one.
pub(crate) struct Toy {
    peer: Option<SocketAddr>,
    last: u32,
    next: u32,
    retry_at: Option<Instant>,
    out: VecDeque<(SocketAddr, [u8; 6])>,
    heard: BTreeSet<(SocketAddr, u32)>,
    reports: VecDeque<(SocketAddr, u32)>,
    pub(crate) timeouts: u64,
}

impl Toy {
    pub(crate) fn server() -> Self {
        Self {
            peer: None,
            last: 0,
            next: 0,
            retry_at: None,
            out: VecDeque::new(),
            heard: BTreeSet::new(),
            reports: VecDeque::new(),
            timeouts: 0,
        }
    }

    /// A client that sends the numbers below `count` to `peer`, in order.
    pub(crate) fn client(peer: SocketAddr, count: u32) -> Self {
        let mut toy = Self { peer: Some(peer), last: count, ..Self::server() };
        toy.transmit(Instant::ZERO);
        toy
    }

    #[allow(dead_code, reason = "not every test binary asks")]
    pub(crate) fn is_done(&self) -> bool {
        self.next == self.last
    }

    #[allow(dead_code, reason = "not every test binary asks")]
    pub(crate) fn is_client(&self) -> bool {
        self.peer.is_some()
    }

    fn transmit(&mut self, now: Instant) {
        let Some(peer) = self.peer else { return };
        self.retry_at = (self.next < self.last).then(|| now + RETRY);
        if self.next < self.last {
            self.out.push_back((peer, message(b'D', self.next)));
        }
    }
}

fn message(kind: u8, number: u32) -> [u8; 6] {
    let [a, b, c, d] = number.to_be_bytes();
    [kind, a, b, c, d, kind ^ a ^ b ^ c ^ d]
}

impl Engine for Toy {
    type Event<'a> = (SocketAddr, u32);

    fn handle_datagram(&mut self, now: Instant, from: SocketAddr, datagram: &mut [u8]) {
        let [kind, a, b, c, d, check] = *datagram else { return };
        let number = u32::from_be_bytes([a, b, c, d]);
        if check != kind ^ a ^ b ^ c ^ d {
            return;
        }
        if kind == b'D' {
            self.out.push_back((from, message(b'A', number)));
            if self.heard.insert((from, number)) {
                self.reports.push_back((from, number));
            }
        } else if number == self.next && Some(from) == self.peer {
            self.next += 1;
            self.transmit(now);
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        if self.retry_at.is_some_and(|at| at <= now) {
            self.timeouts += 1;
            self.transmit(now);
        }
    }

    fn poll_output<'a>(&'a mut self, buf: &'a mut [u8]) -> Output<'a, Self::Event<'a>> {
        if let Some(report) = self.reports.pop_front() {
            return Output::Event(report);
        }
        if let Some((to, bytes)) = self.out.pop_front() {
            let payload = &mut buf[..bytes.len()];
            payload.copy_from_slice(&bytes);
            return Output::Datagram { to, payload };
        }
        self.retry_at.map_or(Output::Idle, Output::WakeAt)
    }
}
