//! A host of a LAN: it sends the flows that begin there, and looks at everything that comes.

use super::flows::{Checker, Flow, Seen};
use crate::Failure;
use crate::site::LAN;
use crate::station::Station;
use packet_io::BATCH;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// What may wait for a host, in the kernel's own measure: a host that is late has lost nothing.
const BUFFER_BYTES: usize = 64 << 20;
/// The pause after which a paced host sends what is due.
const PACE: Duration = Duration::from_millis(1);
/// What a host that was kept from sending makes up for; the rest of its debt is forgiven, or it
/// would send faster than it is to.
const DEBT: Duration = Duration::from_millis(20);
/// EtherType of gateways' announcements to each other.
const ANNOUNCEMENT: [u8; 2] = [0x88, 0xb5];

/// How fast a host sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as its interface takes frames.
    Flood,
    /// So many frames a second.
    Frames(f64),
}

/// What threads of hosts and the one that conducts share.
#[derive(Debug)]
pub struct Shared {
    /// Frames sent, by flow.
    pub sent: Vec<AtomicU64>,
    /// Frames that arrived where they were to be seen, by flow.
    pub delivered: Vec<AtomicU64>,
    /// Anything that arrived anywhere.
    pub heard: AtomicU64,
    /// Hosts that listen, and how many there are.
    pub listening: AtomicUsize,
    hosts: usize,
    /// No more is sent.
    pub stop: AtomicBool,
    /// No more is awaited.
    pub end: AtomicBool,
}

impl Shared {
    /// For so many flows between so many hosts.
    pub fn new(flows: usize, hosts: usize) -> Self {
        Self {
            sent: (0..flows).map(|_| AtomicU64::new(0)).collect(),
            delivered: (0..flows).map(|_| AtomicU64::new(0)).collect(),
            heard: AtomicU64::new(0),
            listening: AtomicUsize::new(0),
            hosts,
            stop: AtomicBool::new(false),
            end: AtomicBool::new(false),
        }
    }

    /// Whether no host misses what is sent now; it stays so until all are to end.
    fn all_listen(&self) -> bool {
        self.listening.load(Ordering::Relaxed) >= self.hosts
    }

    /// What arrived of all flows.
    pub fn arrived(&self) -> u64 {
        self.delivered.iter().map(|delivered| delivered.load(Ordering::Relaxed)).sum()
    }

    /// The number of the newest frame of every flow.
    pub fn newest(&self) -> Vec<u64> {
        self.sent.iter().map(|sent| sent.load(Ordering::Relaxed)).collect()
    }
}

/// What came to a host, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// First of their number, and to be seen here.
    pub delivered: u64,
    /// For another site: gateways did not know yet where its station is.
    pub elsewhere: u64,
    /// Seen here before.
    pub twice: u64,
    /// Not what was sent, or nothing that was sent.
    pub altered: u64,
    /// Sent by this host itself.
    pub own: u64,
    /// Announcements of the gateway.
    pub announcements: u64,
    /// Dropped by the kernel before this host looked.
    pub overrun: u64,
}

impl Came {
    /// What came since `earlier`.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            delivered: self.delivered - earlier.delivered,
            elsewhere: self.elsewhere - earlier.elsewhere,
            twice: self.twice - earlier.twice,
            altered: self.altered - earlier.altered,
            own: self.own - earlier.own,
            announcements: self.announcements - earlier.announcements,
            overrun: self.overrun - earlier.overrun,
        }
    }

    /// Every frame.
    pub const fn total(&self) -> u64 {
        self.delivered
            + self.elsewhere
            + self.twice
            + self.altered
            + self.own
            + self.announcements
            + self.overrun
    }
}

/// A host, and what it remembers from one stretch to the next.
#[derive(Debug)]
pub struct Host {
    site: usize,
    own: Vec<usize>,
    next: usize,
    /// By flow.
    pub seen: Vec<Seen>,
    /// What came so far.
    pub came: Came,
    /// Frames that its interface took.
    pub sent: u64,
}

impl Host {
    /// The host of this site.
    pub fn new(site: usize, flows: &[Flow]) -> Self {
        let own = (0..flows.len()).filter(|flow| flows[*flow].from == site).collect();
        let seen = vec![Seen::default(); flows.len()];
        Self { site, own, next: 0, seen, came: Came::default(), sent: 0 }
    }

    /// Sends and looks until it is told to end. To be called on a thread in the host's namespace.
    ///
    /// # Errors
    /// When its port cannot be used.
    pub fn run(
        &mut self,
        flows: &[Flow],
        seed: u64,
        pace: Pace,
        shared: &Shared,
    ) -> Result<(), Failure> {
        let mut station = Station::open_for_all(LAN, BUFFER_BYTES).inspect_err(|_| {
            shared.end.store(true, Ordering::Relaxed);
        })?;
        // What is sent before all listen is not heard.
        shared.listening.fetch_add(1, Ordering::Relaxed);
        let mut checker = Checker::new(flows, seed);
        let mut outbox = Outbox::default();
        let mut clock = Due::new(pace);
        let before = self.came.overrun;
        while !shared.end.load(Ordering::Relaxed) {
            let is_sending =
                shared.all_listen() && !shared.stop.load(Ordering::Relaxed) && !self.own.is_empty();
            let due = if is_sending { clock.due() } else { 0 };
            if due > 0 || !outbox.is_empty() {
                if outbox.is_empty() {
                    self.fill(&mut outbox, due, flows, seed, shared);
                }
                let took = outbox.send(&mut station, shared)?;
                self.sent += took as u64;
                clock.sent(took);
            }
            let patience = match pace {
                Pace::Flood if is_sending => Duration::ZERO,
                _ if is_sending && clock.due() > 0 => Duration::ZERO,
                _ => PACE,
            };
            let (site, seen, came) = (self.site, &mut self.seen, &mut self.came);
            let heard = station.receive(patience, |frame| {
                if let Some(flow) = look(site, flows, &mut checker, seen, came, frame) {
                    shared.delivered[flow].fetch_add(1, Ordering::Relaxed);
                }
            })?;
            shared.heard.fetch_add(heard as u64, Ordering::Relaxed);
        }
        self.came.overrun = before + station.statistics().overruns;
        shared.listening.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }

    /// Makes the next frames of all own flows in turn.
    fn fill(
        &mut self,
        outbox: &mut Outbox,
        count: usize,
        flows: &[Flow],
        seed: u64,
        shared: &Shared,
    ) {
        for _ in 0..count.min(BATCH) {
            let flow = self.own[self.next % self.own.len()];
            self.next = (self.next + 1) % self.own.len();
            // Of frames of this flow that are made and not yet sent the outbox knows.
            let number =
                shared.sent[flow].load(Ordering::Relaxed) + outbox.waiting_of(flow) as u64 + 1;
            flows[flow].make(seed, number, outbox.room(flow));
        }
    }
}

/// Notes one frame that came; its flow, if it was to be seen here and is new.
fn look(
    site: usize,
    flows: &[Flow],
    checker: &mut Checker<'_>,
    seen: &mut [Seen],
    came: &mut Came,
    frame: &[u8],
) -> Option<usize> {
    if frame.get(12..14) == Some(&ANNOUNCEMENT) {
        came.announcements += 1;
        return None;
    }
    let Some((flow, number)) = checker.check(frame) else {
        came.altered += 1;
        return None;
    };
    let is_new = seen[flow].note(number);
    let count = if flows[flow].from == site {
        &mut came.own
    } else if !is_new {
        &mut came.twice
    } else if flows[flow].reaches(site) {
        &mut came.delivered
    } else {
        &mut came.elsewhere
    };
    *count += 1;
    (is_new && flows[flow].reaches(site)).then_some(flow)
}

/// Frames that are made; those that the interface did not take are sent again.
#[derive(Default)]
struct Outbox {
    frames: Vec<Vec<u8>>,
    flows: Vec<usize>,
    gone: usize,
}

impl Outbox {
    fn is_empty(&self) -> bool {
        self.gone == self.flows.len()
    }

    fn waiting_of(&self, flow: usize) -> usize {
        self.flows[self.gone..].iter().filter(|waiting| **waiting == flow).count()
    }

    /// Memory for one more frame of a flow.
    fn room(&mut self, flow: usize) -> &mut Vec<u8> {
        if self.is_empty() {
            self.flows.clear();
            self.gone = 0;
        }
        self.flows.push(flow);
        if self.frames.len() < self.flows.len() {
            self.frames.push(Vec::new());
        }
        &mut self.frames[self.flows.len() - 1]
    }

    fn send(&mut self, station: &mut Station, shared: &Shared) -> Result<usize, Failure> {
        let ready = self.frames[self.gone..self.flows.len()].iter().map(Vec::as_slice);
        let took = station.send(ready)?;
        for flow in &self.flows[self.gone..self.gone + took] {
            shared.sent[*flow].fetch_add(1, Ordering::Relaxed);
        }
        self.gone += took;
        Ok(took)
    }
}

/// When frames are to be sent.
struct Due {
    pace: Pace,
    since: Instant,
    sent: f64,
}

impl Due {
    fn new(pace: Pace) -> Self {
        Self { pace, since: Instant::now(), sent: 0.0 }
    }

    /// How many are due now, a batch at most.
    fn due(&mut self) -> usize {
        let Pace::Frames(rate) = self.pace else { return BATCH };
        let owed = self.since.elapsed().as_secs_f64() * rate - self.sent;
        let most = (DEBT.as_secs_f64() * rate).max(1.0);
        if owed > most {
            self.sent += owed - most;
        }
        owed.clamp(0.0, most.min(BATCH as f64)) as usize
    }

    fn sent(&mut self, count: usize) {
        self.sent += count as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_sorted() {
        let flows = Flow::all(24);
        let mut host = Host::new(1, &flows);
        let mut checker = Checker::new(&flows, 1);
        let mut frame = Vec::new();
        let mut show = |flow: usize, alter: u8| {
            flows[flow].make(1, 1, &mut frame);
            frame[20] ^= alter;
            look(1, &flows, &mut checker, &mut host.seen, &mut host.came, &frame)
        };
        assert_eq!(show(0, 0), Some(0), "from 0 to 1");
        assert_eq!(show(0, 0), None, "again");
        assert_eq!(show(0, 1), None);
        assert_eq!(show(1, 0), None, "from 1 to 0");
        assert_eq!(show(5, 0), None, "from 2 to 0");
        assert_eq!(show(3, 0), Some(3), "from 0 to all");
        let expected =
            Came { delivered: 2, elsewhere: 1, twice: 1, altered: 1, own: 1, ..Came::default() };
        assert_eq!((host.came, host.came.total()), (expected, 6));
    }

    #[test]
    fn numbers_go_on_where_the_interface_took_no_more() {
        let flows = Flow::all(24);
        let shared = Shared::new(flows.len(), 1);
        let mut host = Host::new(0, &flows);
        let mut outbox = Outbox::default();
        host.fill(&mut outbox, 2 * host.own.len(), &flows, 1, &shared);
        let mut checker = Checker::new(&flows, 1);
        let numbers: Vec<_> =
            outbox.frames.iter().map(|frame| checker.check(frame).unwrap()).collect();
        let (first, second) = numbers.split_at(host.own.len());
        assert!(first.iter().all(|(_, number)| *number == 1));
        assert!(second.iter().all(|(_, number)| *number == 2));
    }

    #[test]
    fn a_debt_is_forgiven() {
        let mut due = Due::new(Pace::Frames(1000.0));
        assert!(due.due() <= 1);
        due.since -= Duration::from_secs(10);
        assert_eq!(due.due(), 20);
        due.sent(20);
        assert!(due.due() <= 1, "ten seconds are not made up for");
    }
}
