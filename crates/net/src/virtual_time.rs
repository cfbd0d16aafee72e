//! A network of engines without sockets, threads or clocks.
//!
//! A [`Network`] drives any number of engines in virtual time from an event
//! queue, through [impairments](crate::impairment). Everything is determined by
//! the seed: two runs with the same seed and the same calls send the same bytes
//! at the same microseconds. Engines of two kinds can share one network through
//! [`Either`](crate::Either).
//!
//! The caller runs the network step by step, and a closure receives the events
//! of its engines. Between steps the caller may call any engine
//! ([`call`](Network::call)), impair links, move a node to another address, or
//! inject datagrams.

use crate::blocking::DATAGRAM_BYTES;
use crate::delay_line::DelayLine;
use crate::impairment::{Counters, Impairments, Path};
use core::net::SocketAddr;
use lightseal_core::{Engine, Instant, Output, Random};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// How often one engine may ask to be woken at the same instant before that counts as a live-lock.
/// Real engines ask a handful of times.
const WAKES_AT_ONE_INSTANT: u32 = 10_000;

/// One engine of a [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(usize);

/// A datagram as it was sent, before any impairment.
#[derive(Clone, Copy, Debug)]
pub struct Transmission<'a> {
    /// When the datagram was sent.
    pub at: Instant,
    /// The sender's address at that time.
    pub from: SocketAddr,
    /// The receiver's address.
    pub to: SocketAddr,
    /// The datagram.
    pub payload: &'a [u8],
}

type Tap = Box<dyn FnMut(Transmission<'_>) + Send>;

struct Node<E> {
    engine: E,
    address: SocketAddr,
    wake: Option<Instant>,
    /// Whether the engine was called since its output was last polled.
    dirty: bool,
}

struct InFlight {
    from: SocketAddr,
    to: SocketAddr,
    payload: Vec<u8>,
}

/// Engines, the links between them, and the virtual time.
pub struct Network<E> {
    now: Instant,
    nodes: Vec<Node<E>>,
    links: Links,
    wakes: BTreeSet<(Instant, NodeId)>,
    dirty: VecDeque<NodeId>,
    buf: Vec<u8>,
    repeated_wakes: (Instant, u32),
}

/// Everything between the engines.
struct Links {
    seed: u64,
    addresses: HashMap<SocketAddr, NodeId>,
    impairments: Impairments,
    paths: HashMap<(NodeId, NodeId), Path>,
    in_flight: DelayLine<InFlight>,
    spare: Vec<Vec<u8>>,
    tap: Option<Tap>,
    undeliverable: u64,
}

impl Links {
    fn path(&mut self, from: NodeId, to: NodeId) -> &mut Path {
        let (seed, impairments) = (self.seed, self.impairments);
        self.paths.entry((from, to)).or_insert_with(|| {
            let mut bytes = [0; 32];
            for (slot, word) in bytes.chunks_exact_mut(8).zip([seed, from.0 as u64, to.0 as u64]) {
                slot.copy_from_slice(&word.to_le_bytes());
            }
            Path::new(&impairments, Random::from_seed(bytes))
        })
    }

    fn buffer(&mut self, content: &[u8]) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(content);
        buffer
    }

    fn transmit(&mut self, sender: NodeId, sent: Transmission<'_>) {
        let Transmission { at, from, to, payload } = sent;
        if let Some(tap) = &mut self.tap {
            tap(sent);
        }
        let Some(receiver) = self.addresses.get(&to).copied() else {
            self.undeliverable += 1;
            return;
        };
        self.path(sender, receiver);
        let mut datagram = self.buffer(payload);
        let Self { paths, in_flight, spare, .. } = self;
        let Some(path) = paths.get_mut(&(sender, receiver)) else { return };
        path.offer(at, &mut datagram, &mut |at, bytes| {
            let mut payload = spare.pop().unwrap_or_default();
            payload.clear();
            payload.extend_from_slice(bytes);
            in_flight.push(at, InFlight { from, to, payload });
        });
        spare.push(datagram);
    }
}

impl<E: Engine + 'static> Network<E> {
    /// An empty network at time zero, with perfect links.
    pub fn new(seed: u64) -> Self {
        Self {
            now: Instant::ZERO,
            nodes: Vec::new(),
            links: Links {
                seed,
                addresses: HashMap::new(),
                impairments: Impairments::NONE,
                paths: HashMap::new(),
                in_flight: DelayLine::new(),
                spare: Vec::new(),
                tap: None,
                undeliverable: 0,
            },
            wakes: BTreeSet::new(),
            dirty: VecDeque::new(),
            buf: vec![0; DATAGRAM_BYTES],
            repeated_wakes: (Instant::ZERO, 0),
        }
    }

    /// The virtual time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// Adds an engine at an address, which must be free.
    pub fn add(&mut self, address: SocketAddr, engine: E) -> NodeId {
        let id = NodeId(self.nodes.len());
        let taken = self.links.addresses.insert(address, id);
        assert!(taken.is_none(), "two nodes at {address}");
        self.nodes.push(Node { engine, address, wake: None, dirty: false });
        self.mark(id);
        id
    }

    /// The number of engines.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are no engines.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// The node's address.
    pub fn address(&self, node: NodeId) -> SocketAddr {
        self.nodes[node.0].address
    }

    /// Moves a node to another free address, as a NAT does that has lost its mapping. Datagrams on
    /// their way to the old address are lost.
    pub fn rebind(&mut self, node: NodeId, address: SocketAddr) {
        self.links.addresses.remove(&self.nodes[node.0].address);
        let taken = self.links.addresses.insert(address, node);
        assert!(taken.is_none(), "two nodes at {address}");
        self.nodes[node.0].address = address;
    }

    /// Sets the impairments of every link from now on, in both directions.
    pub fn impair_all(&mut self, impairments: &Impairments) {
        self.links.impairments = *impairments;
        for path in self.links.paths.values_mut() {
            path.set(impairments);
        }
    }

    /// The path from one node to another, whose impairments can be changed and to which rules can
    /// be added.
    ///
    /// Its random choices depend only on the seed and the two nodes.
    pub fn path(&mut self, from: NodeId, to: NodeId) -> &mut Path {
        self.links.path(from, to)
    }

    /// The counters of the datagrams from one node to another.
    pub fn counters(&self, from: NodeId, to: NodeId) -> Counters {
        self.links.paths.get(&(from, to)).map(Path::counters).unwrap_or_default()
    }

    /// The number of datagrams that arrived at an address that no node had.
    pub const fn undeliverable(&self) -> u64 {
        self.links.undeliverable
    }

    /// Shows every datagram to `tap` as it is sent, before any impairment.
    pub fn tap(&mut self, tap: impl FnMut(Transmission<'_>) + Send + 'static) {
        self.links.tap = Some(Box::new(tap));
    }

    /// Lets a datagram arrive at `to` now without any impairment, as an attacker may.
    pub fn inject(&mut self, from: SocketAddr, to: SocketAddr, datagram: &[u8]) {
        let payload = self.links.buffer(datagram);
        self.links.in_flight.push(self.now, InFlight { from, to, payload });
    }

    /// The engine of a node.
    pub fn engine(&self, node: NodeId) -> &E {
        &self.nodes[node.0].engine
    }

    /// Calls an engine as its application would. What the engine then wants to send leaves at the
    /// next step, at the same virtual time.
    pub fn call<R>(&mut self, node: NodeId, call: impl FnOnce(&mut E, Instant) -> R) -> R {
        self.mark(node);
        call(&mut self.nodes[node.0].engine, self.now)
    }

    /// Transmits a datagram that a node's engine has sealed straight into its host's buffer.
    pub fn transmit(&mut self, node: NodeId, to: SocketAddr, datagram: &[u8]) {
        let from = self.address(node);
        self.links.transmit(node, Transmission { at: self.now, from, to, payload: datagram });
    }

    /// When the next event will happen; `None` if the network is idle.
    pub fn next_event(&self) -> Option<Instant> {
        if !self.dirty.is_empty() {
            return Some(self.now);
        }
        let wake = self.wakes.first().map(|(at, _)| *at);
        let arrival = self.links.in_flight.next_due();
        wake.into_iter().chain(arrival).min().map(|at| at.max(self.now))
    }

    /// Lets the next event happen. At one instant, output of engines that were called comes first,
    /// then arrivals, then wake-ups. Returns whether there was an event.
    ///
    /// # Panics
    ///
    /// If an engine asks without end to be woken at the same instant.
    pub fn step(&mut self, mut event: impl for<'a> FnMut(NodeId, Instant, E::Event<'a>)) -> bool {
        self.step_until(Instant::MAX, &mut event)
    }

    /// Runs until no event is left up to `deadline`. The time is then `deadline`, unless it was
    /// later before.
    pub fn run_until(
        &mut self,
        deadline: Instant,
        mut event: impl for<'a> FnMut(NodeId, Instant, E::Event<'a>),
    ) {
        while self.step_until(deadline, &mut event) {}
        self.now = self.now.max(deadline);
    }

    fn step_until(
        &mut self,
        deadline: Instant,
        event: &mut impl for<'a> FnMut(NodeId, Instant, E::Event<'a>),
    ) -> bool {
        if let Some(node) = self.dirty.pop_front() {
            self.nodes[node.0].dirty = false;
            self.drain(node, event);
            return true;
        }
        let wake = self.wakes.first().map(|(at, _)| *at);
        let arrival = self.links.in_flight.next_due();
        let Some(at) = wake.into_iter().chain(arrival).min() else { return false };
        if at > deadline || at == Instant::MAX {
            return false;
        }
        self.now = self.now.max(at);
        if let Some((_, mut datagram)) = self.links.in_flight.pop_due(self.now) {
            if let Some(node) = self.links.addresses.get(&datagram.to).copied() {
                let engine = &mut self.nodes[node.0].engine;
                engine.handle_datagram(self.now, datagram.from, &mut datagram.payload);
                self.drain(node, event);
            } else {
                self.links.undeliverable += 1;
            }
            self.links.spare.push(datagram.payload);
        } else if let Some((_, node)) = self.wakes.pop_first() {
            self.nodes[node.0].wake = None;
            self.nodes[node.0].engine.handle_timeout(self.now);
            self.drain(node, event);
            self.count_wake(node);
        }
        true
    }

    fn drain(
        &mut self,
        node: NodeId,
        event: &mut impl for<'a> FnMut(NodeId, Instant, E::Event<'a>),
    ) {
        let Self { now, nodes, links, buf, .. } = self;
        let Node { engine, address: from, .. } = &mut nodes[node.0];
        let wake = loop {
            let needed = match engine.poll_output(buf) {
                Output::Datagram { to, payload } => {
                    links.transmit(node, Transmission { at: *now, from: *from, to, payload });
                    continue;
                }
                Output::Event(what) => {
                    event(node, *now, what);
                    continue;
                }
                Output::BufferTooSmall { needed } => needed,
                Output::WakeAt(at) => break Some(at),
                Output::Idle => break None,
            };
            buf.resize(needed, 0);
        };
        let slot = &mut self.nodes[node.0].wake;
        if let Some(old) = core::mem::replace(slot, wake) {
            self.wakes.remove(&(old, node));
        }
        if let Some(at) = wake {
            self.wakes.insert((at, node));
        }
    }

    fn mark(&mut self, node: NodeId) {
        if !core::mem::replace(&mut self.nodes[node.0].dirty, true) {
            self.dirty.push_back(node);
        }
    }

    fn count_wake(&mut self, node: NodeId) {
        let overdue = self.nodes[node.0].wake.is_some_and(|at| at <= self.now);
        let (since, count) = self.repeated_wakes;
        self.repeated_wakes = if overdue && since == self.now {
            assert!(count < WAKES_AT_ONE_INSTANT, "an engine never stops asking to be woken");
            (since, count + 1)
        } else {
            (self.now, 0)
        };
    }
}

impl<E> core::fmt::Debug for Network<E> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Network")
            .field("now", &self.now)
            .field("nodes", &self.nodes.len())
            .field("in_flight", &self.links.in_flight.len())
            .finish_non_exhaustive()
    }
}
