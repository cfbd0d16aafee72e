//! A world of nodes with radios in virtual time: one seed, one course of events.
//!
//! - [`Node`]: a program on a device; any engine can be one;
//! - [`Topology`]: who hears whom, and which way packets go;
//! - [`World`]: nodes, 6LoWPAN between them, a link layer and its channels, and the queue of what
//!   happens;
//! - [`Air`]: what a [link layer](crate::links::LinkLayer) may do.
//!
//! Time is integer microseconds. Nothing depends on addresses in memory, on threads or on the
//! machine's clock.

mod air;
mod capture;
mod queue;
mod topology;

pub use air::Air;
pub use capture::Frame;
pub use topology::Topology;

use crate::channels::Channels;
use crate::energy::{Cpu, Meter, Slot as Timeslot, Spent, Use, Work};
use crate::links::{Arrival, LinkLayer, Timer};
use crate::lowpan::{Packet, Reassembly, Sequence, frames};
use capture::Frames;
use core::time::Duration;
use queue::Queue;
use vocabulary::{Instant, Random};

/// A node's place in its world, and what its addresses are made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u16);

impl NodeId {
    /// Every node that hears the sender: the broadcast address.
    pub const EVERYBODY: Self = Self(u16::MAX);
}

/// A program on a device.
pub trait Node {
    /// A datagram came from another node.
    fn receive(&mut self, now: Instant, from: NodeId, datagram: &mut [u8]);

    /// A datagram came that was for all neighbours of the node that sent it.
    fn receive_multicast(&mut self, _now: Instant, _from: NodeId, _datagram: &mut [u8]) {}

    /// The time it wanted to be woken at has come.
    fn wake(&mut self, now: Instant);

    /// What it wants next; asked until it waits or is idle.
    fn poll(&mut self, now: Instant, buf: &mut [u8]) -> Wish;

    /// What it has computed since it was last asked, for the processor's account.
    fn work(&mut self) -> Work {
        Work::default()
    }
}

/// What a node wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// To send so many bytes of the buffer.
    Send {
        /// To whom; to all neighbours with [`NodeId::EVERYBODY`], over link layers that
        /// [broadcast](crate::links::Setting::broadcasts).
        to: NodeId,
        /// How many.
        len: usize,
    },
    /// To be woken then, unless a datagram comes before.
    WakeAt(Instant),
    /// Nothing until a datagram comes.
    Idle,
}

/// What happens.
#[derive(Debug)]
enum Event {
    Wake(NodeId),
    Link(Timer),
    Arrival(Arrival),
    /// A processor has made a packet.
    Made(NodeId, Packet),
}

/// A node and what its stack remembers.
struct Slot<N> {
    node: N,
    /// When it is woken; other wake-ups of it in the queue are void.
    wake_at: Option<Instant>,
    /// Until when its processor works.
    busy_until: Instant,
    reassembly: Reassembly,
    sequence: Sequence,
}

/// Nodes and the air between them.
pub struct World<N> {
    now: Instant,
    nodes: Vec<Slot<N>>,
    topology: Topology,
    link: Box<dyn LinkLayer>,
    channels: Channels,
    queue: Queue<Event>,
    random: Random,
    energy: Meter,
    cpu: Option<Cpu>,
    answer_after_micros: u64,
    capture: Option<Frames>,
    buf: Vec<u8>,
}

impl<N: Node> World<N> {
    /// A world at time zero. All nodes of `topology` must be [added](Self::add) before anything
    /// happens; all randomness of links and channels is from `random`.
    pub fn new(
        topology: Topology,
        link: Box<dyn LinkLayer>,
        channels: Channels,
        random: Random,
    ) -> Self {
        let energy = Meter::new(topology.len());
        Self {
            now: Instant::ZERO,
            nodes: Vec::with_capacity(topology.len()),
            topology,
            link,
            channels,
            queue: Queue::default(),
            random,
            energy,
            cpu: None,
            answer_after_micros: 0,
            capture: None,
            buf: vec![0; 2048],
        }
    }

    /// Lets processors take their time.
    pub const fn compute(&mut self, cpu: Cpu) {
        self.cpu = Some(cpu);
    }

    /// Has every node wait this long after a datagram before it sends what it says to it. A node
    /// that waits takes other datagrams meanwhile.
    pub fn answer_after(&mut self, wait: Duration) {
        self.answer_after_micros = vocabulary::time::micros(wait);
    }

    /// Keeps every frame that is sent from now on.
    pub fn capture(&mut self) {
        self.capture.get_or_insert_default();
    }

    /// The frames kept, ordered by time.
    pub fn captured(&mut self) -> Vec<Frame> {
        self.capture.take().map(Frames::take).unwrap_or_default()
    }

    /// Adds the next node, which is first woken at `start`.
    pub fn add(&mut self, start: Instant, node: N) -> NodeId {
        let id = NodeId(self.nodes.len() as u16);
        self.nodes.push(Slot {
            node,
            wake_at: Some(start),
            busy_until: Instant::ZERO,
            reassembly: Reassembly::default(),
            sequence: Sequence::default(),
        });
        self.queue.add(start, Event::Wake(id));
        id
    }

    /// The time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// A node.
    pub fn node(&self, id: NodeId) -> &N {
        &self.slot(id).node
    }

    /// The nodes, in the order in which they were added.
    pub fn into_nodes(self) -> impl Iterator<Item = N> {
        self.nodes.into_iter().map(|slot| slot.node)
    }

    /// Lets something be done with a node from outside, such as to have it send, and then what it
    /// wants.
    pub fn with_node<T>(&mut self, id: NodeId, act: impl FnOnce(&mut N) -> T) -> T {
        let done = act(&mut self.slot_mut(id).node);
        self.serve(id, 0);
        done
    }

    /// What a node spent until now; listening though nobody speaks to it is counted from `since` on.
    pub fn spent(&self, id: NodeId, since: Instant) -> Spent {
        let mut spent = *self.energy.of(id);
        let elapsed = vocabulary::time::micros(self.now.saturating_since(since));
        let idle = self.link.idle(&self.topology, id, elapsed);
        spent.micros[Use::Listen as usize] += idle.listen_micros;
        let used = spent.slots[Timeslot::ReceiveAcknowledge as usize];
        spent.slots[Timeslot::IdleListen as usize] += idle.slots.saturating_sub(used);
        spent
    }

    /// What happens next is at this time; `None` when nothing ever will.
    pub fn next_at(&self) -> Option<Instant> {
        self.queue.next_at()
    }

    /// Lets the next thing happen, and says which node's program ran, if one did; `None` when
    /// nothing ever will.
    pub fn step(&mut self) -> Option<Option<NodeId>> {
        let (at, event) = self.queue.next()?;
        self.now = at;
        match event {
            Event::Wake(id) => {
                let slot = self.slot_mut(id);
                if slot.wake_at != Some(at) {
                    return Some(None);
                }
                if slot.busy_until > at {
                    slot.wake_at = Some(slot.busy_until);
                    let later = slot.busy_until;
                    self.queue.add(later, Event::Wake(id));
                    return Some(None);
                }
                slot.wake_at = None;
                slot.node.wake(at);
                self.serve(id, 0);
                Some(Some(id))
            }
            Event::Link(timer) => {
                let (link, mut air) = self.air();
                link.handle(&mut air, timer);
                Some(None)
            }
            Event::Arrival(arrival) => Some(self.arrive(arrival)),
            Event::Made(id, packet) => {
                self.forward(id, &packet);
                Some(None)
            }
        }
    }

    /// Lets everything happen until `done` says so of a node whose program ran, or until `until`.
    /// Returns whether it was done.
    pub fn run(&mut self, until: Instant, mut done: impl FnMut(&Self, NodeId) -> bool) -> bool {
        while self.next_at().is_some_and(|next| next <= until) {
            if let Some(Some(id)) = self.step()
                && done(self, id)
            {
                return true;
            }
        }
        false
    }

    fn slot(&self, id: NodeId) -> &Slot<N> {
        &self.nodes[usize::from(id.0)]
    }

    fn slot_mut(&mut self, id: NodeId) -> &mut Slot<N> {
        &mut self.nodes[usize::from(id.0)]
    }

    fn air(&mut self) -> (&mut dyn LinkLayer, Air<'_>) {
        let air = Air {
            now: self.now,
            random: &mut self.random,
            energy: &mut self.energy,
            topology: &self.topology,
            channels: &mut self.channels,
            capture: self.capture.as_mut(),
            queue: &mut self.queue,
        };
        (&mut *self.link, air)
    }

    /// How long a node's processor takes, which is put on its account.
    fn compute_micros(&mut self, id: NodeId, work: Work) -> u64 {
        let Some(cpu) = &self.cpu else { return 0 };
        let micros = cpu.micros(work);
        self.energy.spend(id, Use::Compute, micros);
        micros
    }

    /// A frame reached a radio.
    fn arrive(&mut self, arrival: Arrival) -> Option<NodeId> {
        let id = arrival.to;
        let now = self.now;
        let slot = self.slot_mut(id);
        if slot.busy_until > now {
            let later = slot.busy_until;
            self.queue.add(later, Event::Arrival(arrival));
            return None;
        }
        let mut packet = slot.reassembly.take(now, &arrival.frame)?;
        if packet.to == id || packet.to == NodeId::EVERYBODY {
            let Packet { from, to, payload, .. } = &mut packet;
            match *to {
                NodeId::EVERYBODY => slot.node.receive_multicast(now, *from, payload),
                _ => slot.node.receive(now, *from, payload),
            }
            self.serve(id, self.answer_after_micros);
            return Some(id);
        }
        if packet.hops > 0 {
            packet.hops -= 1;
            let micros = self.compute_micros(id, Work { datagrams: 1, ..Work::default() });
            self.hand_over(id, packet, micros);
        }
        None
    }

    /// Sends a packet once the processor has made it.
    fn hand_over(&mut self, id: NodeId, packet: Packet, micros: u64) {
        if micros == 0 {
            return self.forward(id, &packet);
        }
        let at = self.now.as_micros() + micros;
        self.queue.add(Instant::from_micros(at), Event::Made(id, packet));
    }

    /// Hands the link layer a packet's frames for the next hop.
    fn forward(&mut self, id: NodeId, packet: &Packet) {
        let next = match packet.to {
            NodeId::EVERYBODY => NodeId::EVERYBODY,
            to => self.topology.next_hop(id, to),
        };
        let made = frames(packet, id, next, &mut self.slot_mut(id).sequence);
        let (link, mut air) = self.air();
        for frame in made {
            link.send(&mut air, id, next, frame);
        }
    }

    /// Does what a node wants. Packets are sent `wait_micros` later than the processor has made them.
    fn serve(&mut self, id: NodeId, wait_micros: u64) {
        let mut micros = 0;
        loop {
            let mut buf = core::mem::take(&mut self.buf);
            let now = self.now;
            let slot = self.slot_mut(id);
            let wish = slot.node.poll(now, &mut buf);
            let work = slot.node.work();
            micros += self.compute_micros(id, work);
            match wish {
                Wish::Send { to, len } => {
                    let packet = Packet::new(id, to, &buf[..len]);
                    self.hand_over(id, packet, micros + wait_micros);
                }
                Wish::WakeAt(at) => {
                    let at = at.max(now);
                    let slot = self.slot_mut(id);
                    if slot.wake_at != Some(at) {
                        slot.wake_at = Some(at);
                        self.queue.add(at, Event::Wake(id));
                    }
                }
                Wish::Idle => self.slot_mut(id).wake_at = None,
            }
            self.buf = buf;
            if !matches!(wish, Wish::Send { .. }) {
                break;
            }
        }
        self.slot_mut(id).busy_until = Instant::from_micros(self.now.as_micros() + micros);
    }
}
