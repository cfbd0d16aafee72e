//! Handshakes in one simulated world.

use super::end::{HandshakeNode, Sent};
use super::profile::{EndSettings, Profile};
use super::tinydtls;
use crate::Error;
use crate::energy::ResourceUse;
use crate::lowpan::FRAME_PAYLOAD;
use crate::network::Network;
use crate::world::{Frame, NodeId, World};
use core::time::Duration;
use lightseal_core::{Instant, Random};
use lightseal_dtls::KeyLog;
use std::collections::BTreeMap;
use std::sync::Arc;

/// How long after the last start a handshake may take. One that takes longer has failed.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(600);

/// How long a recording goes on after the last handshake.
const TAIL: Duration = Duration::from_secs(10);

/// How often our own timers allow each frame to be sent where radios repeat lost frames. A timer is
/// the last resort there.
const REPETITIONS: u32 = 2;

/// The shortest first timeout of our own timers.
const MIN_TIMEOUT: Duration = Duration::from_millis(400);

/// Handshakes in one simulated world, and their setting.
#[derive(Clone)]
pub struct HandshakeRun<'a> {
    /// The network in which they take place.
    pub network: &'a Network,
    /// The kind of handshake.
    pub profile: &'static Profile,
    /// The client and the server of each handshake.
    pub pairs: Vec<[NodeId; 2]>,
    /// The window of random times in which clients begin.
    pub window: Duration,
    /// The first retransmission timeout. `None` stands for 2 s with tinydtls's timers, and for a
    /// timeout that suits the link with our own: the longest time that flights take in both
    /// directions, of two frames with a pre-shared key, and twice that where radios repeat lost
    /// frames. Between neighbours whose radios do not repeat frames, our ends send datagrams of one
    /// frame each, and wait as long as their hello and the first message of the answer take, or
    /// without a pre-shared key the whole answer.
    pub timeout: Option<Duration>,
    /// Seed of all randomness.
    pub seed: u64,
}

/// The result and the cost of a handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The client and the server.
    pub pair: [NodeId; 2],
    /// Time from the client's first datagram until both ends may send data; `None` if the handshake
    /// was not completed.
    pub duration: Option<Duration>,
    /// The datagrams that the client sent until then.
    pub client: Sent,
    /// The datagrams that the server sent until then.
    pub server: Sent,
    /// The time and the timeslots that the client spent until then.
    pub spent: ResourceUse,
}

/// The frames on the air during a run, for captures.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Every frame, in the order of time.
    pub frames: Vec<Frame>,
}

impl<'a> HandshakeRun<'a> {
    /// One handshake from the last node of `network` to its root, which begins at a random time.
    pub fn single(network: &'a Network, profile: &'static Profile, seed: u64) -> Self {
        let last = NodeId(network.topology.len() as u16 - 1);
        let window = Duration::from_micros(network.layer.settings().period_micros());
        Self { network, profile, pairs: vec![[last, NodeId(0)]], window, timeout: None, seed }
    }

    /// Runs the handshakes.
    ///
    /// # Errors
    ///
    /// Fails when the engine refuses its configuration, or the link layer the topology.
    pub fn run(&self) -> Result<Vec<Outcome>, Error> {
        self.play(None, None).map(|(outcomes, _)| outcomes)
    }

    /// Runs the handshakes and keeps every frame. The secrets of all ends go to `keys`.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::run`].
    pub fn record(&self, keys: Arc<dyn KeyLog>) -> Result<(Vec<Outcome>, Recording), Error> {
        self.play(Some(keys), Some(Recording::default()))
            .map(|(outcomes, recording)| (outcomes, recording.unwrap_or_default()))
    }

    fn play(
        &self,
        key_log: Option<Arc<dyn KeyLog>>,
        recording: Option<Recording>,
    ) -> Result<(Vec<Outcome>, Option<Recording>), Error> {
        let mut random = Random::insecure(self.seed);
        let mut world = self.network.world(random.fork())?;
        if recording.is_some() {
            world.capture();
        }
        let starts = self.populate(&mut world, key_log, &mut random)?;
        let mut outcomes: Vec<Option<Outcome>> = vec![None; self.pairs.len()];
        let mut by_node: BTreeMap<NodeId, Vec<usize>> = BTreeMap::new();
        for (index, pair) in self.pairs.iter().enumerate() {
            pair.iter().for_each(|id| by_node.entry(*id).or_default().push(index));
        }
        let mut left = self.pairs.len();
        let last = starts.iter().max().copied().unwrap_or(Instant::ZERO);
        world.run(last + HANDSHAKE_TIMEOUT, |world, id| {
            for index in by_node.get(&id).into_iter().flatten() {
                if outcomes[*index].is_none()
                    && let Some(outcome) = self.outcome(world, *index, starts[*index], true)
                {
                    outcomes[*index] = Some(outcome);
                    left -= 1;
                }
            }
            left == 0
        });
        let recording = recording.map(|_| {
            // The last datagrams are still under way.
            world.run(world.now() + TAIL, |_, _| false);
            Recording { frames: world.captured() }
        });
        let outcomes = outcomes.into_iter().enumerate().map(|(index, outcome)| {
            outcome.or_else(|| self.outcome(&world, index, starts[index], false))
        });
        Ok((outcomes.flatten().collect(), recording))
    }

    /// The outcome of a handshake so far. `None` if `complete` asks for a complete handshake and
    /// this one is not.
    fn outcome(
        &self,
        world: &World<HandshakeNode>,
        index: usize,
        start: Instant,
        complete: bool,
    ) -> Option<Outcome> {
        let pair @ [client, server] = self.pairs[index];
        let [there, here] = [world.node(server), world.node(client)];
        let both = here.connected_at(server).zip(there.connected_at(client));
        let duration = both.map(|(here, there)| here.max(there) - start);
        (duration.is_some() || !complete).then(|| Outcome {
            pair,
            duration,
            client: here.sent(server),
            server: there.sent(client),
            spent: world.spent(client, start),
        })
    }

    /// Adds all nodes to the world. Returns when each client begins.
    fn populate(
        &self,
        world: &mut World<HandshakeNode>,
        key_log: Option<Arc<dyn KeyLog>>,
        random: &mut Random,
    ) -> Result<Vec<Instant>, Error> {
        let topology = &self.network.topology;
        let hops = self.pairs.iter().map(|[client, server]| topology.hops(*client, *server)).max();
        let hops = hops.unwrap_or(1);
        let setting = self.network.layer.settings();
        let round_trip = Duration::from_micros(setting.round_trip_micros(hops));
        // Where radios do not repeat a lost frame, every frame is better a datagram of its own,
        // because the other frames then still count. Relayed datagrams would have to be shorter
        // than the smallest datagram size that may be set.
        let alone = !setting.repeats_lost() && hops == 1;
        let allowed = match (alone, setting.repeats_lost()) {
            (true, _) => self.profile.first_exchange_frames() * round_trip / 2,
            (false, true) => self.profile.flight_frames() * REPETITIONS * round_trip,
            (false, false) => self.profile.flight_frames() * round_trip,
        };
        let end_settings = EndSettings {
            timeout: self.timeout.unwrap_or_else(|| match self.profile.tinydtls {
                true => tinydtls::TIMEOUT,
                false => allowed.max(MIN_TIMEOUT),
            }),
            datagram_bytes: alone.then_some(FRAME_PAYLOAD),
            key_log,
        };
        let mut servers = BTreeMap::new();
        for [_, server] in &self.pairs {
            if !servers.contains_key(server) {
                servers.insert(*server, self.profile.server(&end_settings, random.fork())?);
            }
        }
        let window = lightseal_core::time::micros(self.window).max(1);
        let mut clients = BTreeMap::new();
        let mut starts = Vec::new();
        for [client, server] in &self.pairs {
            let start = Instant::from_micros(1_000_000 + random.below(window));
            let Some(endpoint) = servers.get_mut(server) else { continue };
            let ends = [*client, *server];
            let engine =
                self.profile.client(&end_settings, ends, endpoint, start, random.fork())?;
            clients.insert(*client, (start, engine));
            starts.push(start);
        }
        for id in topology.nodes() {
            let (start, end) = match (clients.remove(&id), servers.remove(&id)) {
                (Some((start, engine)), _) => {
                    (start, HandshakeNode::client(self.profile, &end_settings, engine))
                }
                // A server receives datagrams from the beginning.
                (None, Some(engine)) => {
                    (Instant::ZERO, HandshakeNode::server(self.profile, &end_settings, engine))
                }
                (None, None) => (Instant::ZERO, HandshakeNode::relay()),
            };
            world.add(start, end);
        }
        Ok(starts)
    }
}
