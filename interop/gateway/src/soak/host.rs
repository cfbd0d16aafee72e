//! A host of a LAN, which sends the flows of its site and checks every frame that arrives.

use super::flows::{Checker, Flow, Seen};
use crate::Failure;
use crate::site::LAN;
use crate::station::Station;
use lightseal_packet_io::BATCH;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Bytes of frames that may wait for a host in the kernel, so that a late host loses none.
const BUFFER_BYTES: usize = 64 << 20;
/// The pause between two batches of a paced host.
const PACE: Duration = Duration::from_millis(1);
/// How much time a delayed host catches up on. A longer debt is forgiven, or the host would send
/// faster than its rate.
const DEBT: Duration = Duration::from_millis(20);
/// EtherType of gateways' announcements to each other.
const ANNOUNCEMENT: [u8; 2] = [0x88, 0xb5];

/// How fast a host sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as its interface takes frames.
    Flood,
    /// This number of frames a second.
    Frames(f64),
}

/// State that the threads of the hosts share with the one that runs the soak.
#[derive(Debug)]
pub struct Shared {
    /// Number of frames sent, by flow.
    pub sent: Vec<AtomicU64>,
    /// Number of frames that arrived at one of their receivers, by flow.
    pub delivered: Vec<AtomicU64>,
    /// Number of frames of any kind that arrived at any host.
    pub heard: AtomicU64,
    /// Number of hosts that are listening.
    pub listening: AtomicUsize,
    hosts: usize,
    /// Tells hosts to send no more.
    pub stop: AtomicBool,
    /// Tells hosts to end.
    pub end: AtomicBool,
}

impl Shared {
    /// The state for this number of flows and hosts.
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

    /// Whether all hosts are listening, so that none misses a frame that is sent now. They listen
    /// until all are told to end.
    fn all_listen(&self) -> bool {
        self.listening.load(Ordering::Relaxed) >= self.hosts
    }

    /// Number of frames that arrived at their receivers, over all flows.
    pub fn arrived(&self) -> u64 {
        self.delivered.iter().map(|delivered| delivered.load(Ordering::Relaxed)).sum()
    }

    /// The number of the newest frame of every flow.
    pub fn newest(&self) -> Vec<u64> {
        self.sent.iter().map(|sent| sent.load(Ordering::Relaxed)).collect()
    }
}

/// Counts of the frames that a host received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Came {
    /// Frames that belong here and arrived for the first time.
    pub delivered: u64,
    /// Frames for another site, which gateways sent here because they did not know the station yet.
    pub elsewhere: u64,
    /// Frames that had arrived here before.
    pub twice: u64,
    /// Frames that differ from what was sent, or were never sent.
    pub altered: u64,
    /// Frames that this host itself sent.
    pub own: u64,
    /// Announcements of the gateway.
    pub announcements: u64,
    /// Frames that the kernel dropped before this host read them.
    pub overrun: u64,
}

impl Came {
    /// The growth since `earlier`.
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

    /// Number of all frames.
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

/// A host, and the state that it keeps from one stretch to the next.
#[derive(Debug)]
pub struct Host {
    site: usize,
    own: Vec<usize>,
    next: usize,
    /// The frames that have arrived, by flow.
    pub seen: Vec<Seen>,
    /// Counts of the frames that have arrived.
    pub came: Came,
    /// Number of frames that its interface accepted.
    pub sent: u64,
}

impl Host {
    /// The host of this site.
    pub fn new(site: usize, flows: &[Flow]) -> Self {
        let own = (0..flows.len()).filter(|flow| flows[*flow].from == site).collect();
        let seen = vec![Seen::default(); flows.len()];
        Self { site, own, next: 0, seen, came: Came::default(), sent: 0 }
    }

    /// Sends and receives until it is told to end. It must run on a thread in the host's namespace.
    ///
    /// # Errors
    /// The host's port cannot be used.
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
        // Frames that are sent before all hosts listen may not be received.
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

    /// Makes the next frames of all flows of this site in turn.
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
            // The outbox counts the frames of this flow that are made and not yet sent.
            let number =
                shared.sent[flow].load(Ordering::Relaxed) + outbox.waiting_of(flow) as u64 + 1;
            flows[flow].make(seed, number, outbox.room(flow));
        }
    }
}

/// Notes a frame that arrived. Returns its flow if it belongs here and is new.
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

/// Frames that are made and wait to be sent. Frames that the interface does not accept are retried.
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

    /// The memory for one more frame of a flow.
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

/// The schedule by which a host sends.
struct Due {
    pace: Pace,
    since: Instant,
    sent: f64,
}

impl Due {
    fn new(pace: Pace) -> Self {
        Self { pace, since: Instant::now(), sent: 0.0 }
    }

    /// Number of frames to send now, at most a batch.
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
