//! One request to all listeners and all of their responses, in one simulated world.

use super::account::TransactionPhase;
use super::configuration::Configuration;
use super::listener::Listener;
use super::members::members;
use super::sender::Sender;
use crate::Error;
use crate::energy::{Activity, Computation, Device, ResourceUse};
use crate::handshakes::{EndSettings, Sent};
use crate::links::{Layer, always_on};
use crate::lowpan::address;
use crate::network::Network;
use crate::world::{NextAction, Node, NodeId, Topology, World};
use core::time::Duration;
use lightseal_core::{Instant, Random};
use lightseal_group::SenderId;
use lightseal_group::member::Roles;

/// How often radios repeat a frame that is not acknowledged: the default of radios without duty
/// cycles.
const RETRIES: u32 = 3;
/// When the sender begins.
const START: Instant = Instant::from_micros(1_000_000);
/// How long a transaction may take. All are shorter.
const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(600);
/// How long the world goes on after the last response, so that datagrams under way arrive.
const TAIL: Duration = Duration::from_millis(100);
/// The first retransmission timeout. It is longer than any handshake here, because radios repeat
/// what is lost.
const TIMEOUT: Duration = Duration::from_secs(2);

/// A first transaction of a group, and its setting.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// How requests and responses are sent and secured.
    pub configuration: &'static Configuration,
    /// Number of listeners.
    pub listeners: u16,
    /// The longest time that a listener waits before it responds to a multicast request.
    pub leisure: Duration,
    /// The device that all nodes are.
    pub device: Device,
    /// Seed of all randomness.
    pub seed: u64,
}

/// The result of a transaction.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The duration of each handshake, in order.
    pub handshakes: Vec<Duration>,
    /// The duration of the messages, from the first request to the last response.
    pub messages: Duration,
    /// The duration of handshakes and messages together.
    pub duration: Duration,
    /// The datagrams that all nodes sent in handshakes.
    pub sent_in_handshakes: Sent,
    /// The datagrams that all nodes sent as requests and responses.
    pub sent_in_messages: Sent,
    /// The energy that the sender spent.
    pub sender: Spending,
    /// The mean energy that a listener spent.
    pub listener: Spending,
}

/// The energy that a node spent, in mJ.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spending {
    /// Energy for handshakes, or for deriving keys.
    pub keys: EnergyByComponent,
    /// Energy for requests and responses.
    pub messages: EnergyByComponent,
    /// Energy of idle listening, during which no frame for the node was on the air. The paper
    /// leaves it out.
    pub idle: f64,
}

/// Energy by component, in mJ.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EnergyByComponent {
    /// Energy of the processor.
    pub cpu: f64,
    /// Energy of the radio while it sends.
    pub send: f64,
    /// Energy of the radio while it receives frames for the node.
    pub receive: f64,
}

impl EnergyByComponent {
    /// The energy of all components.
    pub fn sum(&self) -> f64 {
        self.cpu + self.send + self.receive
    }
}

impl Spending {
    /// The node's total energy as the paper counts it, without idle listening.
    pub fn sum(&self) -> f64 {
        self.keys.sum() + self.messages.sum()
    }
}

/// A node of a transaction.
enum TransactionNode {
    Sender(Box<Sender>),
    Listener(Box<Listener>),
}

impl Node for TransactionNode {
    fn receive(&mut self, now: Instant, from: NodeId, datagram: &mut [u8]) {
        match self {
            Self::Sender(sender) => sender.receive(now, from, datagram),
            Self::Listener(listener) => listener.receive(now, from, datagram),
        }
    }

    fn receive_multicast(&mut self, now: Instant, from: NodeId, datagram: &mut [u8]) {
        if let Self::Listener(listener) = self {
            listener.receive_multicast(now, from, datagram);
        }
    }

    fn wake(&mut self, now: Instant) {
        match self {
            Self::Sender(sender) => sender.wake(now),
            Self::Listener(listener) => listener.wake(now),
        }
    }

    fn poll(&mut self, now: Instant, buf: &mut [u8]) -> NextAction {
        match self {
            Self::Sender(sender) => sender.poll(now, buf),
            Self::Listener(listener) => listener.poll(now, buf),
        }
    }

    fn work(&mut self) -> Computation {
        match self {
            Self::Sender(sender) => sender.account.take(),
            Self::Listener(listener) => listener.account.take(),
        }
    }
}

const ROOT: NodeId = NodeId(0);

impl Transaction {
    /// The paper's setting: three listeners that wait for up to 0.25 s, and CC2538 nodes under
    /// Contiki.
    pub fn paper(configuration: &'static Configuration, seed: u64) -> Self {
        let device = Device::by_name("cc2538-contiki").expect("a known device");
        let leisure = Duration::from_millis(250);
        Self { configuration, listeners: 3, leisure, device, seed }
    }

    /// Runs the transaction.
    ///
    /// # Errors
    ///
    /// Fails when the engines refuse their configuration, or a listener does not respond.
    pub fn run(&self) -> Result<Outcome, Error> {
        self.play().map(|(outcome, _)| outcome)
    }

    fn play(&self) -> Result<(Outcome, World<TransactionNode>), Error> {
        let mut random = Random::insecure(self.seed);
        let network = Network {
            topology: Topology::star(self.listeners),
            layer: Layer::AlwaysOn(always_on::AlwaysOnSettings { retries: Some(RETRIES) }),
            device: self.device.clone(),
            computes: true,
            ..Network::line(2, Layer::AlwaysOn(always_on::AlwaysOnSettings { retries: None }))
        };
        let mut world = network.world(random.fork())?;
        self.populate(&mut world, &mut random)?;
        let ids: Vec<_> = network.topology.nodes().collect();
        let spent = |world: &World<TransactionNode>| -> Vec<ResourceUse> {
            ids.iter().map(|id| world.spent(*id, START)).collect()
        };
        let end = START + TRANSACTION_TIMEOUT;
        let silent = Error::Stream("a transaction was not completed");
        let mut before = vec![ResourceUse::default(); ids.len()];
        if self.configuration.handshakes().is_some() {
            let is_ready = |world: &World<TransactionNode>, id| {
                id == ROOT && sender(world).is_some_and(Sender::is_ready)
            };
            if !world.run(end, is_ready) {
                return Err(silent);
            }
            before = spent(&world);
        }
        if !world.run(end, |world, id| id == ROOT && sender(world).is_some_and(Sender::is_done)) {
            return Err(silent);
        }
        let Some(asked) = sender(&world) else { return Err(silent) };
        let working = Duration::from_micros(self.device.cpu.micros(asked.account.last));
        let (done, began) = (world.now() + working, asked.began.unwrap_or(START));
        let handshakes = &asked.handshakes;
        let took = handshakes.iter().filter_map(|(began, ended)| Some((*ended)? - *began));
        let (first, handshakes) =
            (handshakes.first().map_or(began, |(at, _)| *at), took.collect::<Vec<_>>());
        world.run(world.now() + TAIL, |_, _| false);
        let after = spent(&world);
        let spending: Vec<_> = ids
            .iter()
            .zip(before.iter().zip(&after))
            .map(|(id, (before, after))| self.spending(&world, *id, [before, after], done - first))
            .collect();
        let sent = |phase| {
            let all = ids.iter().map(|id| account(&world, *id).sent(phase));
            all.fold(Sent::default(), |sum, sent| Sent {
                datagrams: sum.datagrams + sent.datagrams,
                bytes: sum.bytes + sent.bytes,
                again: sum.again + sent.again,
            })
        };
        let outcome = Outcome {
            handshakes,
            messages: done - began,
            duration: done - first,
            sent_in_handshakes: sent(TransactionPhase::Handshakes),
            sent_in_messages: sent(TransactionPhase::Messages),
            sender: spending[0],
            listener: mean(&spending[1..]),
        };
        Ok((outcome, world))
    }

    /// Sets the number of listeners, and extends the time for responses in proportion.
    #[must_use]
    pub fn among(mut self, listeners: u16) -> Self {
        self.leisure = self.leisure * listeners.max(3).into() / 3;
        self.listeners = listeners;
        self
    }

    fn spending(
        &self,
        world: &World<TransactionNode>,
        id: NodeId,
        [before, after]: [&ResourceUse; 2],
        duration: Duration,
    ) -> Spending {
        let currents = self.device.milliamperes;
        // The product of microseconds, mA and V is in nJ.
        let energy = |micros: u64, current: f64| micros as f64 * current * self.device.volts / 1e6;
        let parts = |spent: &ResourceUse| EnergyByComponent {
            cpu: energy(spent.of(Activity::Compute), currents.compute),
            send: energy(spent.of(Activity::Send), currents.send),
            receive: energy(spent.received_micros, currents.listen),
        };
        let derived = self.device.cpu.micros(account(world, id).keys);
        let derived = energy(derived, currents.compute);
        let (mut keys, mut messages) = (parts(before), parts(&after.since(before)));
        keys.cpu += derived;
        messages.cpu -= derived;
        let used = after.of(Activity::Send) + after.received_micros;
        let idle = lightseal_core::time::micros(duration).saturating_sub(used);
        let idle = energy(idle, currents.listen);
        Spending { keys, messages, idle }
    }

    fn populate(
        &self,
        world: &mut World<TransactionNode>,
        random: &mut Random,
    ) -> Result<(), Error> {
        let ids: Vec<_> = (1..=self.listeners).map(NodeId).collect();
        let end_settings = EndSettings { timeout: TIMEOUT, datagram_bytes: None, key_log: None };
        let profile = self.configuration.handshakes();
        let roles = (0..=self.listeners).map(|id| {
            let roles = match id {
                0 => Roles { sender: Some(SenderId(0)), listener: false },
                _ => Roles { sender: None, listener: true },
            };
            (roles, address(NodeId(id)).ip())
        });
        let mut group = match self.configuration.records() {
            Some(records) => members(records, &roles.collect::<Vec<_>>(), random)?,
            None => Vec::new(),
        }
        .into_iter();
        let client = profile.map(|profile| profile.client_config(&end_settings)).transpose()?;
        let multicast = self.configuration.multicast;
        let sender = Sender::new(ids.clone(), multicast, client, group.next(), random.fork());
        world.add(START, TransactionNode::Sender(Box::new(sender)));
        for _ in ids {
            let server = profile.map(|profile| profile.server(&end_settings, random.fork()));
            let (server, member) = (server.transpose()?, group.next());
            let listener = Listener::new(server, member, self.leisure, random.fork());
            world.add(Instant::ZERO, TransactionNode::Listener(Box::new(listener)));
        }
        Ok(())
    }
}

fn sender(world: &World<TransactionNode>) -> Option<&Sender> {
    match world.node(ROOT) {
        TransactionNode::Sender(sender) => Some(sender),
        TransactionNode::Listener(_) => None,
    }
}

fn account(world: &World<TransactionNode>, id: NodeId) -> &super::account::NodeAccount {
    match world.node(id) {
        TransactionNode::Sender(sender) => &sender.account,
        TransactionNode::Listener(listener) => &listener.account,
    }
}

fn mean(all: &[Spending]) -> Spending {
    let count = all.len().max(1) as f64;
    let of = |value: fn(&Spending) -> f64| all.iter().map(value).sum::<f64>() / count;
    Spending {
        keys: EnergyByComponent {
            cpu: of(|s| s.keys.cpu),
            send: of(|s| s.keys.send),
            receive: of(|s| s.keys.receive),
        },
        messages: EnergyByComponent {
            cpu: of(|s| s.messages.cpu),
            send: of(|s| s.messages.send),
            receive: of(|s| s.messages.receive),
        },
        idle: of(|s| s.idle),
    }
}
