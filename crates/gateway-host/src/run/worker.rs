//! One thread of a gateway. It owns a pool of frames, a port of the LAN and a port of the underlay.
//! It carries frames from one port to the other, and sends in a lane of its own.
//!
//! A frame stays in its buffer while headers and tags are added or removed. Only frames for several
//! peers and frames in pieces are copied.

use super::mailbox::{Errand, Mailbox};
use super::ports::Ports;
use super::tally::Tally;
use lightseal_gateway::bridge::PeerIndex;
use lightseal_gateway::codepoints::Whole;
use lightseal_gateway::counters::Reason;
use lightseal_gateway::gateway::{Arrived, Gateway, Parcel, Plan, Released};
use lightseal_gateway::link::Link;
use lightseal_gateway::schemes::Sealed;
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
const PATIENCE: Duration = Duration::from_millis(500);
/// Interval between two reports of the ports' counters, since reading them takes system calls.
const TELL: Duration = Duration::from_millis(100);

/// The state of one thread.
pub(super) struct Worker {
    gateway: Arc<Gateway>,
    lane: u8,
    pool: Pool,
    lan: Box<dyn LanPort + Send>,
    underlay: Box<dyn Underlay + Send>,
    mailbox: Arc<Mailbox>,
    clock: Clock,
    tally: Arc<Tally>,
    /// When the ports' counters were reported last.
    told_at: lightseal_core::Instant,
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
        mailbox: Arc<Mailbox>,
        clock: Clock,
    ) -> Self {
        let Ports { pool, lan, underlay, tally } = ports;
        Self {
            gateway,
            lane,
            pool,
            lan,
            underlay,
            mailbox,
            clock,
            tally,
            told_at: lightseal_core::Instant::from_micros(0),
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
        let Self { pool, lan, underlay, tally, .. } = self;
        (Ports { pool, lan, underlay, tally }, ended)
    }

    fn carry(&mut self, stop: &AtomicBool, busy_wait: Duration) -> io::Result<()> {
        let mut waiter = Waiter::new(busy_wait);
        while !stop.load(Ordering::Relaxed) {
            if self.round()? > 0 {
                waiter.worked();
            } else {
                let sources: [&dyn lightseal_packet_io::Source; 3] =
                    [&*self.lan, &*self.underlay, &*self.mailbox];
                waiter.wait(&sources, Some(PATIENCE))?;
            }
        }
        Ok(())
    }

    /// Handles a batch of packets from each side, and the tasks in the mailbox. Returns how many
    /// there were.
    ///
    /// # Errors
    /// If a port is lost.
    pub(super) fn round(&mut self) -> io::Result<usize> {
        let now = self.clock.now();
        let from_lan = self.lan.receive(&mut self.pool, &mut self.frames)?;
        let from_peers = self.underlay.receive(&mut self.pool, &mut self.datagrams)?;
        let mut frames = std::mem::take(&mut self.frames);
        for frame in frames.drain(..) {
            self.out(now, frame);
        }
        self.frames = frames;
        let mut datagrams = std::mem::take(&mut self.datagrams);
        for datagram in datagrams.drain(..) {
            self.inward(now, datagram);
        }
        self.datagrams = datagrams;
        let mut errands = 0;
        while let Some(errand) = self.mailbox.take() {
            errands += 1;
            self.attend(errand);
        }
        while let Some(Released { peer, parcel, frame }) = self.gateway.poll_released() {
            match self.pool.allocate_with(&frame) {
                Some(frame) => self.send(now, peer, &parcel, frame),
                None => self.gateway.drops.count(Reason::NoBuffer),
            }
        }
        self.flush()?;
        if now - self.told_at >= TELL {
            self.told_at = now;
            self.tally.tell(self.lan.statistics(), self.underlay.statistics());
        }
        Ok(from_lan + from_peers + errands)
    }

    /// Sends all packets that are ready. Packets for which a queue has no room are dropped.
    fn flush(&mut self) -> io::Result<()> {
        if !self.outgoing.is_empty() {
            self.underlay.transmit(&mut self.pool, &mut self.outgoing)?;
            for datagram in self.outgoing.drain(..) {
                self.gateway.drops.count(Reason::Full);
                self.pool.release(datagram.frame);
            }
            self.forgive_probes();
        }
        if !self.deliveries.is_empty() {
            self.lan.transmit(&mut self.pool, &mut self.deliveries)?;
            for frame in self.deliveries.drain(..) {
                self.gateway.drops.count(Reason::Full);
                self.pool.release(frame);
            }
        }
        Ok(())
    }

    /// Does not count probes as refused that are longer than the interface allows: their loss is
    /// expected.
    fn forgive_probes(&mut self) {
        if self.probes.is_empty() {
            return;
        }
        let mut refusals = Vec::new();
        self.underlay.refusals(&mut refusals);
        let is_probe = |refusal: &&Refusal| {
            refusal.cause == RefusalCause::TooLong
                && self.probes.contains(&(refusal.remote, refusal.bytes))
        };
        self.tally.forgive(refusals.iter().filter(is_probe).count() as u64);
        self.probes.clear();
    }

    /// Handles a frame of the LAN.
    fn out(&mut self, now: lightseal_core::Instant, frame: Frame) {
        let Ok(mut parcel) = self.gateway.from_lan(now, self.pool.bytes(&frame)) else {
            self.pool.release(frame);
            return;
        };
        let mut frame = frame;
        let padding = frame.len() - parcel.len;
        self.pool.with(&mut frame, |packet| packet.take_back(padding).is_some());
        // The frame itself is sent to the last peer, and copies to the others.
        while let Some(peer) = parcel.to.next() {
            if parcel.to.is_empty() {
                self.send(now, peer, &parcel, frame);
                return;
            }
            match self.pool.copy(&frame) {
                Some(copy) => self.send(now, peer, &parcel, copy),
                None => self.gateway.drops.count(Reason::NoBuffer),
            }
        }
        self.pool.release(frame);
    }

    /// Sends a frame or a copy to one peer.
    fn send(
        &mut self,
        now: lightseal_core::Instant,
        peer: PeerIndex,
        parcel: &Parcel,
        frame: Frame,
    ) {
        let Some(way) = self.gateway.links.get(peer).and_then(Way::of) else {
            self.gateway.drops.count(Reason::NoPeer);
            self.pool.release(frame);
            return;
        };
        let mut frame = frame;
        match self.gateway.plan(peer, parcel) {
            Ok(Plan::Whole) => {
                let (gateway, lane) = (&self.gateway, self.lane);
                let sealed = self
                    .pool
                    .with(&mut frame, |packet| gateway.seal(now, lane, peer, parcel, packet));
                if sealed == Ok(Sealed::Ready) {
                    self.outgoing.push(way.datagram(frame, parcel.class));
                } else {
                    if sealed == Ok(Sealed::Hold) {
                        self.gateway.hold(now, peer, parcel, self.pool.bytes(&frame));
                    }
                    self.pool.release(frame);
                }
            }
            Ok(Plan::Pieces { number, split }) => {
                self.send_pieces(peer, parcel, (number, split.size), &frame, way);
                self.pool.release(frame);
            }
            Err(reason) => {
                self.gateway.drops.count(reason);
                self.pool.release(frame);
            }
        }
    }

    fn send_pieces(
        &mut self,
        peer: PeerIndex,
        parcel: &Parcel,
        (number, size): (u32, usize),
        frame: &Frame,
        way: Way,
    ) {
        let mut offset = 0;
        while offset < frame.len() {
            let end = frame.len().min(offset + size);
            self.scratch.clear();
            self.scratch.extend_from_slice(&self.pool.bytes(frame)[offset..end]);
            let Some(mut piece) = self.pool.allocate_with(&self.scratch) else {
                self.gateway.drops.count(Reason::NoBuffer);
                return;
            };
            let (gateway, lane) = (&self.gateway, self.lane);
            let sealed = self.pool.with(&mut piece, |packet| {
                gateway.seal_piece(lane, peer, parcel, (number, offset), packet)
            });
            if sealed.is_err() {
                self.pool.release(piece);
                return;
            }
            self.outgoing.push(way.datagram(piece, parcel.class));
            offset = end;
        }
    }

    /// Handles a datagram, whose sender is not known yet.
    fn inward(&mut self, now: lightseal_core::Instant, datagram: Datagram) {
        let Datagram { mut frame, remote, .. } = datagram;
        let gateway = &self.gateway;
        let arrived = self.pool.with(&mut frame, |packet| gateway.from_peer(now, remote, packet));
        match arrived {
            Ok(Arrived::Frame(_)) => self.deliveries.push(frame),
            Ok(Arrived::Reassembled(_, whole)) => {
                self.pool.release(frame);
                self.deliver(&whole);
            }
            Ok(Arrived::Nothing) | Err(_) => self.pool.release(frame),
        }
    }

    fn deliver(&mut self, bytes: &[u8]) {
        match self.pool.allocate_with(bytes) {
            Some(frame) => self.deliveries.push(frame),
            None => self.gateway.drops.count(Reason::NoBuffer),
        }
    }

    /// Handles a task of the control path.
    fn attend(&mut self, errand: Errand) {
        match errand {
            Errand::Datagram(peer, kind, content) => {
                let Some(way) = self.gateway.links.get(peer).and_then(Way::of) else {
                    return self.gateway.drops.count(Reason::NoPeer);
                };
                // The probe does not fit a frame of the pool. It gets no answer, like a probe that
                // is too long for the path.
                if kind == Whole::Probe && content.len() > self.pool.max_packet() {
                    return;
                }
                let Some(mut frame) = self.pool.allocate_with(&content) else {
                    return self.gateway.drops.count(Reason::NoBuffer);
                };
                let (gateway, lane) = (&self.gateway, self.lane);
                let sealed = self
                    .pool
                    .with(&mut frame, |packet| gateway.seal_whole(lane, peer, kind, packet));
                match sealed {
                    Ok(()) => {
                        if kind == Whole::Probe {
                            self.probes.push((way.remote, frame.len()));
                        }
                        self.outgoing.push(way.datagram(frame, 0));
                    }
                    Err(_) => self.pool.release(frame),
                }
            }
            Errand::Frame(bytes) => self.deliver(&bytes),
        }
    }
}

/// Where datagrams for a peer are sent, and whether from the port that the peer sends to.
#[derive(Clone, Copy)]
struct Way {
    remote: SocketAddr,
    answers: bool,
}

impl Way {
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
    use super::super::keeper;
    use super::*;
    use lightseal_packet_io::{PoolSettings, memory};

    #[test]
    fn probes_that_are_too_long_for_this_machine_are_no_losses() {
        let gateway = keeper::at_rest("", "").gateway;
        let link = gateway.links.get(PeerIndex(0)).unwrap();
        let far: SocketAddr = ([192, 0, 2, 2], 8885).into();
        link.set_address(Some(far));
        let secret = lightseal_gateway::keys::EpochSecret::new(&[1; 32], &[2; 32], &[3; 32]);
        let ends = (gateway.settings().id, link.id);
        let provider = &lightseal_macsec_aws_lc::PROVIDER;
        let outbound = lightseal_gateway::link::Outbound::new(secret, ends, 1, 7, provider);
        link.set_outbound(Some(Arc::new(outbound)));
        let tally = Arc::<Tally>::default();
        let ports = Ports {
            pool: Pool::new(PoolSettings { frame_bytes: 4096, frames: 64 }).unwrap(),
            lan: Box::new(memory::lan(64).0),
            underlay: Box::new(memory::Network::new(1472, 64).attach(([192, 0, 2, 1], 1).into())),
            tally: Arc::clone(&tally),
        };
        let mailbox = Arc::new(Mailbox::new().unwrap());
        let (own, clock) = (Arc::clone(&mailbox), Clock::start());
        let mut worker = Worker::new(Arc::clone(&gateway), 0, ports, own, clock);
        let refused = |worker: &mut Worker, kind, len| {
            assert!(mailbox.leave(Errand::Datagram(PeerIndex(0), kind, vec![0; len])));
            worker.round().unwrap();
            worker.tally.tell(worker.lan.statistics(), worker.underlay.statistics());
            Tally::total(&[Arc::clone(&tally)]).underlay.refused
        };
        for len in [1000, 1500, 9000] {
            assert_eq!(refused(&mut worker, Whole::Probe, len), 0, "{len}");
        }
        assert_eq!(worker.underlay.statistics().refused, 1, "the probe of 1500 bytes");
        assert_eq!(gateway.drops.total(), 0);
        assert_eq!(
            refused(&mut worker, Whole::Beacon, 1500),
            1,
            "packets other than probes are counted"
        );
        refused(&mut worker, Whole::Beacon, 9000);
        assert_eq!(gateway.drops.of(Reason::NoBuffer), 1);
    }

    #[test]
    fn an_errand_to_a_peer_without_an_address_costs_no_frame() {
        let gateway = keeper::at_rest("", "").gateway;
        let ports = Ports {
            pool: Pool::new(PoolSettings { frames: 64, ..PoolSettings::default() }).unwrap(),
            lan: Box::new(memory::lan(64).0),
            underlay: Box::new(memory::Network::new(1472, 64).attach(([192, 0, 2, 1], 1).into())),
            tally: Arc::default(),
        };
        let before = ports.pool.lent();
        let mailbox = Arc::new(Mailbox::new().unwrap());
        let (own, clock) = (Arc::clone(&mailbox), Clock::start());
        let mut worker = Worker::new(Arc::clone(&gateway), 0, ports, own, clock);
        for _ in 0..100 {
            assert!(mailbox.leave(Errand::Datagram(PeerIndex(0), Whole::Probe, vec![0; 8])));
        }
        assert_eq!(worker.round().unwrap(), 100);
        assert_eq!(worker.pool.lent(), before);
        assert_eq!(gateway.drops.of(Reason::NoPeer), 100);
    }
}
