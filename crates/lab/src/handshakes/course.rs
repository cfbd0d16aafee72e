//! Handshakes in one world.

use super::end::{End, Sent};
use super::profile::{Making, Profile};
use super::tinydtls;
use crate::Error;
use crate::energy::Spent;
use crate::lowpan::FRAME_PAYLOAD;
use crate::network::Network;
use crate::world::{Frame, NodeId, World};
use core::time::Duration;
use dtls::KeyLog;
use std::collections::BTreeMap;
use std::sync::Arc;
use vocabulary::{Instant, Random};

/// After this a handshake has failed.
const PATIENCE: Duration = Duration::from_secs(600);

/// A recording goes on for so long after the last handshake.
const TAIL: Duration = Duration::from_secs(10);

/// Frames of a flight, each way, that our own timers allow for.
const FLIGHT_FRAMES: u32 = 2;

/// How often each of them may be sent where radios repeat what was lost: there a timer is the last
/// resort.
const REPETITIONS: u32 = 2;

/// Our own timers start at this at least.
const LEAST_TIMEOUT: Duration = Duration::from_millis(400);

/// Handshakes in one world, and how.
#[derive(Clone)]
pub struct Course<'a> {
    /// Where.
    pub network: &'a Network,
    /// Which.
    pub profile: &'static Profile,
    /// Who asks whom.
    pub pairs: Vec<[NodeId; 2]>,
    /// Clients begin at random times within so long.
    pub window: Duration,
    /// The first retransmission timeout; `None` for 2 s with tinydtls's timers, and with ours for
    /// one that suits the link: the longest that flights of two frames take there and back, twice
    /// where radios repeat what was lost. Between neighbours whose radios do not, ours send
    /// datagrams of a frame each, and wait as long as their hello and the first of its answer take.
    pub timeout: Option<Duration>,
    /// Of all randomness.
    pub seed: u64,
}

/// What a handshake cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Who asked whom.
    pub pair: [NodeId; 2],
    /// From the client's first datagram until both ends may send data; `None` if that never came.
    pub duration: Option<Duration>,
    /// What the client sent until then.
    pub client: Sent,
    /// What the server sent until then.
    pub server: Sent,
    /// What the client spent until then.
    pub spent: Spent,
}

/// What was on the air of a course, for captures.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// Every frame, in the order of their times.
    pub frames: Vec<Frame>,
}

impl<'a> Course<'a> {
    /// One handshake from the last node of `network` to its root, begun at a random time.
    pub fn single(network: &'a Network, profile: &'static Profile, seed: u64) -> Self {
        let last = NodeId(network.topology.len() as u16 - 1);
        let window = Duration::from_micros(network.layer.setting().period_micros());
        Self { network, profile, pairs: vec![[last, NodeId(0)]], window, timeout: None, seed }
    }

    /// Runs it.
    ///
    /// # Errors
    /// When the engine refuses its configuration, or the link layer the topology.
    pub fn run(&self) -> Result<Vec<Outcome>, Error> {
        self.play(None, None).map(|(outcomes, _)| outcomes)
    }

    /// Runs it and keeps every frame; secrets go to `keys`.
    ///
    /// # Errors
    /// As [`Self::run`].
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
        world.run(last + PATIENCE, |world, id| {
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
            // What was sent last is still on its way.
            world.run(world.now() + TAIL, |_, _| false);
            Recording { frames: world.captured() }
        });
        let outcomes = outcomes.into_iter().enumerate().map(|(index, outcome)| {
            outcome.or_else(|| self.outcome(&world, index, starts[index], false))
        });
        Ok((outcomes.flatten().collect(), recording))
    }

    /// How things stand with a handshake; `None` if it is not complete and is meant to be.
    fn outcome(
        &self,
        world: &World<End>,
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

    /// Adds all nodes; when each client begins.
    fn populate(
        &self,
        world: &mut World<End>,
        key_log: Option<Arc<dyn KeyLog>>,
        random: &mut Random,
    ) -> Result<Vec<Instant>, Error> {
        let topology = &self.network.topology;
        let hops = self.pairs.iter().map(|[client, server]| topology.hops(*client, *server)).max();
        let hops = hops.unwrap_or(1);
        let setting = self.network.layer.setting();
        let round_trip = Duration::from_micros(setting.round_trip_micros(hops));
        // Where a frame that is lost stays lost, each is better a datagram of its own: the others
        // count. Datagrams that are relayed would be shorter than the least that may be set.
        let alone = !setting.repeats_lost() && hops == 1;
        let allowed = match (alone, setting.repeats_lost()) {
            (true, _) => self.profile.question_frames() * round_trip / 2,
            (false, true) => FLIGHT_FRAMES * REPETITIONS * round_trip,
            (false, false) => FLIGHT_FRAMES * round_trip,
        };
        let making = Making {
            timeout: self.timeout.unwrap_or_else(|| match self.profile.tinydtls {
                true => tinydtls::TIMEOUT,
                false => allowed.max(LEAST_TIMEOUT),
            }),
            datagram_bytes: alone.then_some(FRAME_PAYLOAD),
            key_log,
        };
        let mut servers = BTreeMap::new();
        for [_, server] in &self.pairs {
            if !servers.contains_key(server) {
                servers.insert(*server, self.profile.server(&making, random.fork())?);
            }
        }
        let window = vocabulary::time::micros(self.window).max(1);
        let mut clients = BTreeMap::new();
        let mut starts = Vec::new();
        for [client, server] in &self.pairs {
            let start = Instant::from_micros(1_000_000 + random.below(window));
            let Some(endpoint) = servers.get_mut(server) else { continue };
            let ends = [*client, *server];
            let engine = self.profile.client(&making, ends, endpoint, start, random.fork())?;
            clients.insert(*client, (start, engine));
            starts.push(start);
        }
        for id in topology.nodes() {
            let (start, end) = match (clients.remove(&id), servers.remove(&id)) {
                (Some((start, engine)), _) => (start, End::client(self.profile, &making, engine)),
                // A server waits for datagrams from the beginning.
                (None, Some(engine)) => (Instant::ZERO, End::server(self.profile, &making, engine)),
                (None, None) => (Instant::ZERO, End::relay()),
            };
            world.add(start, end);
        }
        Ok(starts)
    }
}
