//! One thread of a gateway. It owns a pool of frames, a port of the LAN and a port of the underlay.
//! It carries frames from one port to the other, and sends in a lane of its own.
//!
//! A frame stays in its buffer while headers and tags are added or removed. Only frames for several
//! peers and frames in pieces are copied.

use super::port_counters::SharedPortCounters;
use super::ports::Ports;
use super::task_queue::{Task, TaskQueue};
use lightseal_gateway::codepoints::EncryptedContent;
use lightseal_gateway::counters::Reason;
use lightseal_gateway::gateway::{DatagramPlan, Gateway, Received, ReleasedFrame, Route};
use lightseal_gateway::link::Link;
use lightseal_gateway::schemes::SealOutcome;
use lightseal_gateway::stations::PeerIndex;
use lightseal_net::Clock;
use lightseal_packet_io::{
    Datagram, Frame, LanPort, Pool, Refusal, RefusalCause, Underlay, Waiter,
};
use std::io;
use std::net::SocketAddr;
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
    /// The bytes of a piece while it is copied.
    scratch: Vec<u8>,
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
            scratch: Vec::new(),
            probes: Vec::new(),
        }
    }

    /// Carries frames until `stop` is set, and returns the ports. The thread sleeps after it had no
    /// work for `busy_wait`.
    ///
    /// The result is an error if a port is lost, for example with an interface that was removed.
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
                let sources: [&dyn lightseal_packet_io::Source; 3] =
                    [&*self.lan, &*self.underlay, &*self.task_queue];
                waiter.wait(&sources, Some(MAX_SLEEP))?;
            }
        }
        Ok(())
    }

    /// Handles a batch of packets from each side, and the tasks of the control path. Returns how
    /// many there were.
    ///
    /// # Errors
    /// If a port is lost.
    pub(super) fn poll_once(&mut self) -> io::Result<usize> {
        let now = self.clock.now();
        let from_lan = self.lan.receive(&mut self.pool, &mut self.frames)?;
        let from_peers = self.underlay.receive(&mut self.pool, &mut self.datagrams)?;
        let mut frames = std::mem::take(&mut self.frames);
        for frame in frames.drain(..) {
            self.handle_lan_frame(now, frame);
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
        while let Some(ReleasedFrame { peer, route, frame }) = self.gateway.poll_released() {
            match self.pool.allocate_with(&frame) {
                Some(frame) => self.send(now, peer, &route, frame),
                None => self.gateway.drops.increment(Reason::NoBuffer),
            }
        }
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
                self.gateway.drops.increment(Reason::Full);
                self.pool.release(datagram.frame);
            }
            self.ignore_refused_probes();
        }
        if !self.deliveries.is_empty() {
            self.lan.transmit(&mut self.pool, &mut self.deliveries)?;
            for frame in self.deliveries.drain(..) {
                self.gateway.drops.increment(Reason::Full);
                self.pool.release(frame);
            }
        }
        Ok(())
    }

    /// Does not count probes as refused that are longer than the interface allows: their loss is
    /// expected.
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

    /// Handles a frame of the LAN.
    fn handle_lan_frame(&mut self, now: lightseal_core::Instant, frame: Frame) {
        let Ok(mut route) = self.gateway.route_frame(now, self.pool.bytes(&frame)) else {
            self.pool.release(frame);
            return;
        };
        let mut frame = frame;
        let padding = frame.len() - route.len;
        self.pool.with(&mut frame, |packet| packet.take_back(padding).is_some());
        // The frame itself is sent to the last peer, and copies to the others.
        while let Some(peer) = route.peers.next() {
            if route.peers.is_empty() {
                self.send(now, peer, &route, frame);
                return;
            }
            match self.pool.copy(&frame) {
                Some(copy) => self.send(now, peer, &route, copy),
                None => self.gateway.drops.increment(Reason::NoBuffer),
            }
        }
        self.pool.release(frame);
    }

    /// Sends a frame or a copy to one peer.
    fn send(&mut self, now: lightseal_core::Instant, peer: PeerIndex, route: &Route, frame: Frame) {
        let Some(destination) = self.gateway.links.get(peer).and_then(Destination::of) else {
            self.gateway.drops.increment(Reason::NoPeer);
            self.pool.release(frame);
            return;
        };
        let mut frame = frame;
        match self.gateway.plan_datagrams(peer, route) {
            Ok(DatagramPlan::Single) => {
                let (gateway, lane) = (&self.gateway, self.lane);
                let sealed = self
                    .pool
                    .with(&mut frame, |packet| gateway.seal(now, lane, peer, route, packet));
                if sealed == Ok(SealOutcome::Ready) {
                    self.outgoing.push(destination.datagram(frame, route.class));
                } else {
                    if sealed == Ok(SealOutcome::Hold) {
                        self.gateway.hold(now, peer, route, self.pool.bytes(&frame));
                    }
                    self.pool.release(frame);
                }
            }
            Ok(DatagramPlan::Pieces { number, layout: split }) => {
                self.send_pieces(peer, route, (number, split.size), &frame, destination);
                self.pool.release(frame);
            }
            Err(reason) => {
                self.gateway.drops.increment(reason);
                self.pool.release(frame);
            }
        }
    }

    fn send_pieces(
        &mut self,
        peer: PeerIndex,
        route: &Route,
        (number, size): (u32, usize),
        frame: &Frame,
        destination: Destination,
    ) {
        let mut offset = 0;
        while offset < frame.len() {
            let end = frame.len().min(offset + size);
            self.scratch.clear();
            self.scratch.extend_from_slice(&self.pool.bytes(frame)[offset..end]);
            let Some(mut piece) = self.pool.allocate_with(&self.scratch) else {
                self.gateway.drops.increment(Reason::NoBuffer);
                return;
            };
            let (gateway, lane) = (&self.gateway, self.lane);
            let sealed = self.pool.with(&mut piece, |packet| {
                gateway.seal_piece(lane, peer, route, (number, offset), packet)
            });
            if sealed.is_err() {
                self.pool.release(piece);
                return;
            }
            self.outgoing.push(destination.datagram(piece, route.class));
            offset = end;
        }
    }

    /// Handles a datagram, whose sender is not known yet.
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
            None => self.gateway.drops.increment(Reason::NoBuffer),
        }
    }

    /// Handles a task of the control path.
    fn handle_task(&mut self, task: Task) {
        match task {
            Task::Datagram(peer, kind, content) => {
                let Some(destination) = self.gateway.links.get(peer).and_then(Destination::of)
                else {
                    return self.gateway.drops.increment(Reason::NoPeer);
                };
                // The probe does not fit a frame of the pool. It gets no answer, like a probe that
                // is too long for the path.
                if kind == EncryptedContent::Probe && content.len() > self.pool.max_packet() {
                    return;
                }
                let Some(mut frame) = self.pool.allocate_with(&content) else {
                    return self.gateway.drops.increment(Reason::NoBuffer);
                };
                let (gateway, lane) = (&self.gateway, self.lane);
                let sealed = self
                    .pool
                    .with(&mut frame, |packet| gateway.seal_encrypted(lane, peer, kind, packet));
                match sealed {
                    Ok(()) => {
                        if kind == EncryptedContent::Probe {
                            self.probes.push((destination.remote, frame.len()));
                        }
                        self.outgoing.push(destination.datagram(frame, 0));
                    }
                    Err(_) => self.pool.release(frame),
                }
            }
            Task::Frame(bytes) => self.deliver(&bytes),
        }
    }
}

/// Where datagrams for a peer are sent, and whether from the port that the peer sends to.
#[derive(Clone, Copy)]
struct Destination {
    remote: SocketAddr,
    answers: bool,
}

impl Destination {
    fn of(link: &Link) -> Option<Self> {
        let (remote, answers) = link.destination()?;
        Some(Self { remote, answers })
    }

    fn datagram(self, frame: Frame, class: u8) -> Datagram {
        let Self { remote, answers } = self;
        Datagram { frame, remote, class, answers }
    }
}

#[cfg(test)]
mod tests {
    use super::super::shared;
    use super::*;
    use lightseal_packet_io::{PoolSettings, memory};

    #[test]
    fn probes_that_are_too_long_for_this_machine_are_no_losses() {
        let gateway = shared::test_shared("", "").gateway;
        let link = gateway.links.get(PeerIndex(0)).unwrap();
        let far: SocketAddr = ([192, 0, 2, 2], 8885).into();
        link.set_address(Some(far));
        let secret = lightseal_gateway::keys::EpochSecret::new(&[1; 32], &[2; 32], &[3; 32]);
        let ends = (gateway.config().id, link.id);
        let provider = &lightseal_macsec_aws_lc::PROVIDER;
        let outbound = lightseal_gateway::link::Outbound::new(secret, ends, 1, 7, provider);
        link.set_outbound(Some(Arc::new(outbound)));
        let counters = Arc::<SharedPortCounters>::default();
        let ports = Ports {
            pool: Pool::new(PoolSettings { frame_bytes: 4096, frames: 64 }).unwrap(),
            lan: Box::new(memory::lan(64).0),
            underlay: Box::new(memory::Network::new(1472, 64).attach(([192, 0, 2, 1], 1).into())),
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
        assert_eq!(gateway.drops.total(), 0);
        assert_eq!(
            refused(&mut worker, EncryptedContent::Beacon, 1500),
            1,
            "packets other than probes are counted"
        );
        refused(&mut worker, EncryptedContent::Beacon, 9000);
        assert_eq!(gateway.drops.get(Reason::NoBuffer), 1);
    }

    #[test]
    fn an_errand_to_a_peer_without_an_address_costs_no_frame() {
        let gateway = shared::test_shared("", "").gateway;
        let ports = Ports {
            pool: Pool::new(PoolSettings { frames: 64, ..PoolSettings::default() }).unwrap(),
            lan: Box::new(memory::lan(64).0),
            underlay: Box::new(memory::Network::new(1472, 64).attach(([192, 0, 2, 1], 1).into())),
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
        assert_eq!(gateway.drops.get(Reason::NoPeer), 100);
    }
}
