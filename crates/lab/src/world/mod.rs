//! A simulated world of nodes with radios in virtual time. The same seed always gives the same
//! course of events.
//!
//! - [`Node`]: a program on a device, which may run any engine;
//! - [`Topology`]: which nodes hear each other, and how packets are routed;
//! - [`World`]: nodes, 6LoWPAN between them, a link layer and its channels, and the event queue.
//!
//! Time is in integer microseconds. The course of events does not depend on memory addresses,
//! threads or the machine's clock.

pub use crate::links::Frame;
pub use crate::topology::{NodeId, Topology};

use crate::channels::Channels;
use crate::energy::{Activity, Computation, Cpu, Meter, ResourceUse, Timeslot};
use crate::links::{Air, Arrival, Frames, LinkLayer, Schedule, Timer};
use crate::lowpan::{NodeCounters, Packet, Reassembly, frames};
use core::time::Duration;
use lightseal_core::{Instant, Random};
use lightseal_net::delay_line::DelayLine;

/// A program on a device.
pub trait Node {
    /// Handles a datagram from another node.
    fn receive(&mut self, now: Instant, from: NodeId, datagram: &mut [u8]);

    /// Handles a datagram that its sender broadcast to all neighbours.
    fn receive_multicast(&mut self, _now: Instant, _from: NodeId, _datagram: &mut [u8]) {}

    /// Handles the wake-up time that the program asked for.
    fn wake(&mut self, now: Instant);

    /// Returns what the program wants next. It is called until the program wants to wait or is
    /// idle.
    fn poll(&mut self, now: Instant, buf: &mut [u8]) -> NextAction;

    /// Returns the computation since this function was called last, for the processor's account.
    fn work(&mut self) -> Computation {
        Computation::default()
    }
}

/// What a program wants to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextAction {
    /// Send the first `len` bytes of the buffer.
    Send {
        /// The receiver. [`NodeId::EVERYBODY`] sends to all neighbours, over link layers that
        /// [broadcast](crate::links::LinkLayerSettings::broadcasts).
        to: NodeId,
        /// Number of bytes to send.
        len: usize,
    },
    /// Wait until this time, or until a datagram arrives.
    WakeAt(Instant),
    /// Wait until a datagram arrives.
    Idle,
}

/// The kinds of events.
#[derive(Debug)]
enum Event {
    Wake(NodeId),
    Link(Timer),
    Arrival(Arrival),
    /// A processor has finished a packet, which is now sent.
    PacketReady(NodeId, Packet),
}

impl Schedule for DelayLine<Event> {
    fn timer(&mut self, timer: Timer) {
        self.push(timer.at, Event::Link(timer));
    }

    fn arrival(&mut self, arrival: Arrival) {
        self.push(arrival.at, Event::Arrival(arrival));
    }
}

/// A node with the state of its network stack.
struct NodeState<N> {
    node: N,
    /// When the program is woken. Other wake-up events of the node in the queue are void.
    wake_at: Option<Instant>,
    /// Until when the processor is busy.
    busy_until: Instant,
    reassembly: Reassembly,
    counters: NodeCounters,
}

/// The nodes of a world, and the air between them.
pub struct World<N> {
    now: Instant,
    nodes: Vec<NodeState<N>>,
    topology: Topology,
    link: Box<dyn LinkLayer>,
    channels: Channels,
    queue: DelayLine<Event>,
    random: Random,
    energy: Meter,
    cpu: Option<Cpu>,
    answer_delay_micros: u64,
    capture: Option<Frames>,
    buf: Vec<u8>,
}

impl<N: Node> World<N> {
    /// A world at time zero. All nodes of `topology` must be [added](Self::add) before the first
    /// event. All randomness of links and channels comes from `random`.
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
            queue: DelayLine::new(),
            random,
            energy,
            cpu: None,
            answer_delay_micros: 0,
            capture: None,
            buf: vec![0; 2048],
        }
    }

    /// Lets computation take time, as long as on this processor.
    pub const fn compute(&mut self, cpu: Cpu) {
        self.cpu = Some(cpu);
    }

    /// Lets every node wait this long after a datagram before it sends its answer. A waiting node
    /// receives other datagrams meanwhile.
    pub fn answer_delay(&mut self, wait: Duration) {
        self.answer_delay_micros = lightseal_core::time::micros(wait);
    }

    /// Captures every frame that is sent from now on.
    pub fn capture(&mut self) {
        self.capture.get_or_insert_default();
    }

    /// The captured frames, sorted by time.
    pub fn captured(&mut self) -> Vec<Frame> {
        self.capture.take().map(Frames::take).unwrap_or_default()
    }

    /// Adds the next node, whose program is first woken at `start`.
    pub fn add(&mut self, start: Instant, node: N) -> NodeId {
        let id = NodeId(self.nodes.len() as u16);
        self.nodes.push(NodeState {
            node,
            wake_at: Some(start),
            busy_until: Instant::ZERO,
            reassembly: Reassembly::default(),
            counters: NodeCounters::default(),
        });
        self.queue.push(start, Event::Wake(id));
        id
    }

    /// The current time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// The program of a node.
    pub fn node(&self, id: NodeId) -> &N {
        &self.node_state(id).node
    }

    /// The programs of all nodes, in the order in which they were added.
    pub fn into_nodes(self) -> impl Iterator<Item = N> {
        self.nodes.into_iter().map(|node_state| node_state.node)
    }

    /// Calls `act` with a node's program, for example to let it send, and then does what the
    /// program wants.
    pub fn with_node<T>(&mut self, id: NodeId, act: impl FnOnce(&mut N) -> T) -> T {
        let done = act(&mut self.node_state_mut(id).node);
        self.perform_actions(id, 0);
        done
    }

    /// What a node has spent until now. Idle listening is counted from `since` on.
    pub fn spent(&self, id: NodeId, since: Instant) -> ResourceUse {
        let mut spent = *self.energy.of(id);
        let elapsed = lightseal_core::time::micros(self.now.saturating_since(since));
        let idle = self.link.idle(&self.topology, id, elapsed);
        spent.micros[Activity::Listen as usize] += idle.listen_micros;
        let used = spent.slots[Timeslot::ReceiveAcknowledge as usize];
        spent.slots[Timeslot::IdleListen as usize] += idle.slots.saturating_sub(used);
        spent
    }

    /// The time of the next event; `None` if there is none.
    pub fn next_at(&self) -> Option<Instant> {
        self.queue.next_due()
    }

    /// Handles the next event. Returns the node whose program ran, if one did, or `None` if there
    /// is no event.
    pub fn step(&mut self) -> Option<Option<NodeId>> {
        let (at, event) = self.queue.pop_due(Instant::MAX)?;
        self.now = at;
        match event {
            Event::Wake(id) => {
                let node_state = self.node_state_mut(id);
                if node_state.wake_at != Some(at) {
                    return Some(None);
                }
                if node_state.busy_until > at {
                    node_state.wake_at = Some(node_state.busy_until);
                    let later = node_state.busy_until;
                    self.queue.push(later, Event::Wake(id));
                    return Some(None);
                }
                node_state.wake_at = None;
                node_state.node.wake(at);
                self.perform_actions(id, 0);
                Some(Some(id))
            }
            Event::Link(timer) => {
                let (link, mut air) = self.air();
                link.handle(&mut air, timer);
                Some(None)
            }
            Event::Arrival(arrival) => Some(self.arrive(arrival)),
            Event::PacketReady(id, packet) => {
                self.forward(id, &packet);
                Some(None)
            }
        }
    }

    /// Handles events until `done` holds for a node whose program ran, or until `until`. Returns
    /// whether `done` held.
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

    fn node_state(&self, id: NodeId) -> &NodeState<N> {
        &self.nodes[usize::from(id.0)]
    }

    fn node_state_mut(&mut self, id: NodeId) -> &mut NodeState<N> {
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
            events: &mut self.queue,
        };
        (&mut *self.link, air)
    }

    /// How long a node's processor takes for some computation. The time is added to the node's
    /// account.
    fn compute_micros(&mut self, id: NodeId, work: Computation) -> u64 {
        let Some(cpu) = &self.cpu else { return 0 };
        let micros = cpu.micros(work);
        self.energy.spend(id, Activity::Compute, micros);
        micros
    }

    /// Handles a frame that reached a radio.
    fn arrive(&mut self, arrival: Arrival) -> Option<NodeId> {
        let id = arrival.to;
        let now = self.now;
        let node_state = self.node_state_mut(id);
        if node_state.busy_until > now {
            let later = node_state.busy_until;
            self.queue.push(later, Event::Arrival(arrival));
            return None;
        }
        let mut packet = node_state.reassembly.take(now, &arrival.frame)?;
        if packet.to == id || packet.to == NodeId::EVERYBODY {
            let Packet { from, to, payload, .. } = &mut packet;
            match *to {
                NodeId::EVERYBODY => node_state.node.receive_multicast(now, *from, payload),
                _ => node_state.node.receive(now, *from, payload),
            }
            self.perform_actions(id, self.answer_delay_micros);
            return Some(id);
        }
        if packet.hops > 0 {
            packet.hops -= 1;
            let micros =
                self.compute_micros(id, Computation { datagrams: 1, ..Computation::default() });
            self.send_when_ready(id, packet, micros);
        }
        None
    }

    /// Sends a packet once the processor has finished it.
    fn send_when_ready(&mut self, id: NodeId, packet: Packet, micros: u64) {
        if micros == 0 {
            return self.forward(id, &packet);
        }
        let at = self.now.as_micros() + micros;
        self.queue.push(Instant::from_micros(at), Event::PacketReady(id, packet));
    }

    /// Gives the link layer the frames of a packet for the next hop.
    fn forward(&mut self, id: NodeId, packet: &Packet) {
        let next = match packet.to {
            NodeId::EVERYBODY => NodeId::EVERYBODY,
            to => self.topology.next_hop(id, to),
        };
        let made = frames(packet, id, next, &mut self.node_state_mut(id).counters);
        let (link, mut air) = self.air();
        for frame in made {
            link.send(&mut air, id, next, frame);
        }
    }

    /// Does what a node's program wants. Packets are sent `wait_micros` after the processor has
    /// finished them.
    fn perform_actions(&mut self, id: NodeId, wait_micros: u64) {
        let mut micros = 0;
        loop {
            let mut buf = core::mem::take(&mut self.buf);
            let now = self.now;
            let node_state = self.node_state_mut(id);
            let action = node_state.node.poll(now, &mut buf);
            let work = node_state.node.work();
            micros += self.compute_micros(id, work);
            match action {
                NextAction::Send { to, len } => {
                    let packet = Packet::new(id, to, &buf[..len]);
                    self.send_when_ready(id, packet, micros + wait_micros);
                }
                NextAction::WakeAt(at) => {
                    let at = at.max(now);
                    let node_state = self.node_state_mut(id);
                    if node_state.wake_at != Some(at) {
                        node_state.wake_at = Some(at);
                        self.queue.push(at, Event::Wake(id));
                    }
                }
                NextAction::Idle => self.node_state_mut(id).wake_at = None,
            }
            self.buf = buf;
            if !matches!(action, NextAction::Send { .. }) {
                break;
            }
        }
        self.node_state_mut(id).busy_until = Instant::from_micros(self.now.as_micros() + micros);
    }
}
