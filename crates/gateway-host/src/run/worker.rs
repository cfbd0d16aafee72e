//! One thread of a gateway. It owns a pool of frames, a port of the LAN and a port of the underlay.
//! It carries frames from one port to the other, and sends in a lane of its own: with a key and a
//! packet counter that no other thread uses.
//!
//! A frame stays in its buffer while headers and tags are added or removed. Only frames for several
//! peers and frames in pieces are copied.

use super::port_counters::SharedPortCounters;
use super::ports::Ports;
use super::task_queue::{Task, TaskQueue};
use lightseal_core::PacketBuf;
use lightseal_gateway::codepoints::EncryptedContent;
use lightseal_gateway::counters::Reason;
use lightseal_gateway::gateway::{Destination, Gateway, Received, Sink};
use lightseal_net::Clock;
use lightseal_packet_io::{
    Datagram, Frame, LanPort, Pool, Refusal, RefusalCause, Underlay, Waiter,
};
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest time that a thread sleeps before it checks whether it should stop.
const MAX_SLEEP: Duration = Duration::from_millis(500);
/// Interval between two reports of the ports' counters, since reading them takes system calls.
const REPORT_INTERVAL: Duration = Duration::from_millis(100);

/// The state of one thread.
pub(super) struct Worker {
    gateway: Arc<Gateway>,
    lane: u8,
    pool: Pool,
    lan: Box<dyn LanPort + Send>,
    underlay: Box<dyn Underlay + Send>,
    task_queue: Arc<TaskQueue>,
    clock: Clock,
    counters: Arc<SharedPortCounters>,
    /// When the ports' counters were reported last.
    reported_at: lightseal_core::Instant,
    frames: Vec<Frame>,
    datagrams: Vec<Datagram>,
    /// Datagrams to send with the next flush.
    outgoing: Vec<Datagram>,
    /// Frames to put on the LAN with the next flush.
    deliveries: Vec<Frame>,
    /// Probes among `outgoing`: the destination and the length in bytes of each.
    probes: Vec<(SocketAddr, usize)>,
}

impl Worker {
    /// A worker that sends in `lane`.
    pub(super) fn new(
        gateway: Arc<Gateway>,
        lane: u8,
        ports: Ports,
        task_queue: Arc<TaskQueue>,
        clock: Clock,
    ) -> Self {
        let Ports { pool, lan, underlay, counters } = ports;
        Self {
            gateway,
            lane,
            pool,
            lan,
            underlay,
            task_queue,
            clock,
            counters,
            reported_at: lightseal_core::Instant::from_micros(0),
            frames: Vec::new(),
            datagrams: Vec::new(),
            outgoing: Vec::new(),
            deliveries: Vec::new(),
            probes: Vec::new(),
        }
    }

    /// Carries frames until `stop` is set, and returns the ports. A thread that has had no work for
    /// the time `busy_wait` sleeps until a port has work again.
    ///
    /// The result is an error if a port cannot be used any more, for example because its interface
    /// was removed.
    pub(super) fn run(mut self, stop: &AtomicBool, busy_wait: Duration) -> (Ports, io::Result<()>) {
        let ended = self.carry(stop, busy_wait);
        let Self { pool, lan, underlay, counters, .. } = self;
        (Ports { pool, lan, underlay, counters }, ended)
    }

    fn carry(&mut self, stop: &AtomicBool, busy_wait: Duration) -> io::Result<()> {
        let mut waiter = Waiter::new(busy_wait);
        while !stop.load(Ordering::Relaxed) {
            if self.poll_once()? > 0 {
                waiter.worked();
            } else {
                let sources: [&dyn lightseal_packet_io::Pollable; 3] =
                    [&*self.lan, &*self.underlay, &*self.task_queue];
                waiter.wait(&sources, Some(MAX_SLEEP))?;
            }
        }
        Ok(())
    }

    /// Handles one batch of frames from the LAN, one batch of datagrams from peers, and the tasks of
    /// the control path. Returns the number of frames, datagrams and tasks together.
    ///
    /// # Errors
    /// If a port is lost.
    pub(super) fn poll_once(&mut self) -> io::Result<usize> {
        let now = self.clock.now();
        let from_lan = self.lan.receive(&mut self.pool, &mut self.frames)?;
        let from_peers = self.underlay.receive(&mut self.pool, &mut self.datagrams)?;
        let mut frames = std::mem::take(&mut self.frames);
        for frame in frames.drain(..) {
            let (gateway, lane, mut sink) = self.sending();
            gateway.dispatch(now, lane, frame, &mut sink);
        }
        self.frames = frames;
        let mut datagrams = std::mem::take(&mut self.datagrams);
        for datagram in datagrams.drain(..) {
            self.handle_datagram(now, datagram);
        }
        self.datagrams = datagrams;
        let mut tasks = 0;
        while let Some(task) = self.task_queue.pop() {
            tasks += 1;
            self.handle_task(task);
        }
        let (gateway, lane, mut sink) = self.sending();
        gateway.dispatch_released(now, lane, &mut sink);
        self.flush()?;
        if now - self.reported_at >= REPORT_INTERVAL {
            self.reported_at = now;
            self.counters.report(self.lan.statistics(), self.underlay.statistics());
        }
        Ok(from_lan + from_peers + tasks)
    }

    /// Sends all packets that are ready. Packets for which a queue has no room are dropped.
    fn flush(&mut self) -> io::Result<()> {
        if !self.outgoing.is_empty() {
            self.underlay.transmit(&mut self.pool, &mut self.outgoing)?;
            for datagram in self.outgoing.drain(..) {
                self.gateway.counters().drops.increment(Reason::Full);
                self.pool.release(datagram.frame);
            }
            self.ignore_refused_probes();
        }
        if !self.deliveries.is_empty() {
            self.lan.transmit(&mut self.pool, &mut self.deliveries)?;
            for frame in self.deliveries.drain(..) {
                self.gateway.counters().drops.increment(Reason::Full);
                self.pool.release(frame);
            }
        }
        Ok(())
    }

    /// Subtracts from the counter of refused packets the probes that were refused because they are
    /// longer than the interface allows: a probe tests whether its length is possible.
    fn ignore_refused_probes(&mut self) {
        if self.probes.is_empty() {
            return;
        }
        let mut refusals = Vec::new();
        self.underlay.refusals(&mut refusals);
        let is_probe = |refusal: &&Refusal| {
            refusal.cause == RefusalCause::TooLong
                && self.probes.contains(&(refusal.remote, refusal.bytes))
        };
        self.counters.ignore_refused_probes(refusals.iter().filter(is_probe).count() as u64);
        self.probes.clear();
    }

    /// What the engine's methods for sending need: the engine itself, this thread's lane, and the
    /// buffers with the queue of outgoing datagrams.
    fn sending(&mut self) -> (&Gateway, u8, OutgoingQueue<'_>) {
        let Self { gateway, lane, pool, outgoing, .. } = self;
        (gateway, *lane, OutgoingQueue { pool, outgoing })
    }

    /// Opens a datagram and puts the frame in it on the LAN. Only opening shows which peer sent it.
    fn handle_datagram(&mut self, now: lightseal_core::Instant, datagram: Datagram) {
        let Datagram { mut frame, remote, .. } = datagram;
        let gateway = &self.gateway;
        let arrived =
            self.pool.with(&mut frame, |packet| gateway.open_datagram(now, remote, packet));
        match arrived {
            Ok(Received::Frame(_)) => self.deliveries.push(frame),
            Ok(Received::Reassembled(_, whole)) => {
                self.pool.release(frame);
                self.deliver(&whole);
            }
            Ok(Received::Nothing) | Err(_) => self.pool.release(frame),
        }
    }

    fn deliver(&mut self, bytes: &[u8]) {
        match self.pool.allocate_with(bytes) {
            Some(frame) => self.deliveries.push(frame),
            None => self.gateway.counters().drops.increment(Reason::NoBuffer),
        }
    }

    /// Handles a task of the control path.
    fn handle_task(&mut self, task: Task) {
        match task {
            Task::Datagram(peer, kind, content) => {
                // A probe that is longer than the pool's buffers is not sent. It gets no answer, like
                // a probe that is too long for the path.
                let is_probe = kind == EncryptedContent::Probe;
                if is_probe && content.len() > self.pool.max_packet() {
                    return;
                }
                let before = self.outgoing.len();
                let (gateway, lane, mut sink) = self.sending();
                gateway.dispatch_content(lane, peer, kind, &content, &mut sink);
                if is_probe {
                    let sent = self.outgoing[before..].iter();
                    self.probes.extend(sent.map(|probe| (probe.remote, probe.frame.len())));
                }
            }
            Task::Frame(bytes) => self.deliver(&bytes),
        }
    }
}

/// The buffers of a thread, and the datagrams that it sends with the next flush.
struct OutgoingQueue<'a> {
    pool: &'a mut Pool,
    outgoing: &'a mut Vec<Datagram>,
}

impl Sink for OutgoingQueue<'_> {
    type Buffer = Frame;

    fn bytes<'a>(&'a self, frame: &'a Frame) -> &'a [u8] {
        self.pool.bytes(frame)
    }

    fn with<R>(&mut self, frame: &mut Frame, change: impl FnOnce(&mut PacketBuf<'_>) -> R) -> R {
        self.pool.with(frame, change)
    }

    fn allocate_with(&mut self, bytes: &[u8]) -> Option<Frame> {
        self.pool.allocate_with(bytes)
    }

    fn copy(&mut self, frame: &Frame) -> Option<Frame> {
        self.pool.copy(frame)
    }

    fn copy_part(&mut self, frame: &Frame, part: Range<usize>) -> Option<Frame> {
        self.pool.copy_part(frame, part)
    }

    fn send(&mut self, to: Destination, frame: Frame) {
        let Destination { remote, class, from_shared_port, .. } = to;
        self.outgoing.push(Datagram { frame, remote, class, from_shared_port });
    }

    fn release(&mut self, frame: Frame) {
        self.pool.release(frame);
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared;
    use super::*;
    use lightseal_gateway::stations::PeerIndex;
    use lightseal_packet_io::{PoolSettings, memory};

    #[test]
    fn probes_that_are_too_long_for_this_machine_are_not_counted_as_refused() {
        let gateway = shared::test_shared("", "").gateway;
        let link = gateway.links().get(PeerIndex(0)).unwrap();
        let far: SocketAddr = ([192, 0, 2, 2], 8885).into();
        link.set_address(Some(far));
        let secret = lightseal_gateway::keys::EpochSecret::new(&[1; 32], &[2; 32], &[3; 32]);
        let ends = (gateway.settings().id, link.id());
        let provider = &lightseal_macsec_aws_lc::PROVIDER;
        let outbound = lightseal_gateway::link::Outbound::new(secret, ends, 1, 7, provider);
        link.set_outbound(Some(Arc::new(outbound)));
        let counters = Arc::<SharedPortCounters>::default();
        let ports = Ports {
            pool: Pool::new(PoolSettings::new(4096, 64)).unwrap(),
            lan: Box::new(memory::lan(64).0),
            underlay: Box::new(
                memory::MemoryNetwork::new(1472, 64).attach(([192, 0, 2, 1], 1).into()),
            ),
            counters: Arc::clone(&counters),
        };
        let task_queue = Arc::new(TaskQueue::new().unwrap());
        let (own, clock) = (Arc::clone(&task_queue), Clock::start());
        let mut worker = Worker::new(Arc::clone(&gateway), 0, ports, own, clock);
        let refused = |worker: &mut Worker, kind, len| {
            assert!(task_queue.push(Task::Datagram(PeerIndex(0), kind, vec![0; len])));
            worker.poll_once().unwrap();
            worker.counters.report(worker.lan.statistics(), worker.underlay.statistics());
            SharedPortCounters::total(&[Arc::clone(&counters)]).underlay.refused
        };
        for len in [1000, 1500, 9000] {
            assert_eq!(refused(&mut worker, EncryptedContent::Probe, len), 0, "{len}");
        }
        assert_eq!(worker.underlay.statistics().refused, 1, "the probe of 1500 bytes");
        assert_eq!(gateway.counters().drops.total(), 0);
        assert_eq!(
            refused(&mut worker, EncryptedContent::Beacon, 1500),
            1,
            "packets other than probes are counted"
        );
        refused(&mut worker, EncryptedContent::Beacon, 9000);
        assert_eq!(gateway.counters().drops.get(Reason::NoBuffer), 1);
    }

    #[test]
    fn a_task_for_a_peer_without_an_address_takes_no_buffer_of_the_pool() {
        let gateway = shared::test_shared("", "").gateway;
        let ports = Ports {
            pool: Pool::new(PoolSettings::new(4096, 64)).unwrap(),
            lan: Box::new(memory::lan(64).0),
            underlay: Box::new(
                memory::MemoryNetwork::new(1472, 64).attach(([192, 0, 2, 1], 1).into()),
            ),
            counters: Arc::default(),
        };
        let before = ports.pool.lent();
        let task_queue = Arc::new(TaskQueue::new().unwrap());
        let (own, clock) = (Arc::clone(&task_queue), Clock::start());
        let mut worker = Worker::new(Arc::clone(&gateway), 0, ports, own, clock);
        for _ in 0..100 {
            assert!(task_queue.push(Task::Datagram(
                PeerIndex(0),
                EncryptedContent::Probe,
                vec![0; 8]
            )));
        }
        assert_eq!(worker.poll_once().unwrap(), 100);
        assert_eq!(worker.pool.lent(), before);
        assert_eq!(gateway.counters().drops.get(Reason::NoPeer), 100);
    }
}
