//! One association whose ends ask each other for other aggregation schemes again and again, over a
//! lossy network that reorders, in virtual time.

use crate::credentials::{client, server};
use crate::setup::{client_address, defaults, server_address};
use lightseal_aggregation::scheme::Overprovision;
use lightseal_core::{Instant, Random, Sent};
use lightseal_dtls::crypto::CipherSuiteId;
use lightseal_dtls::{
    AggregationPolicy, CloseReason, Connection, ConnectionRef, Endpoint, EndpointEvent, Event,
    Handle, Negotiated, Scheme,
};
use lightseal_net::Either;
use lightseal_net::impairment::{Impairments, Probability};
use lightseal_net::virtual_time::{Network, NodeId};
use std::sync::Arc;
use std::time::Duration;
use testkit::pair::buffer_len;

/// The network's impairments: 20 % loss, 5 % duplication, 25 % reordering, 5 to 25 ms of delay.
const IMPAIRMENTS: Impairments = Impairments {
    loss: Probability::percent(20),
    duplicate: Probability::percent(5),
    reorder: Probability::percent(25),
    reorder_by: Duration::from_millis(15),
    delay: Duration::from_millis(5),
    jitter: Duration::from_millis(20),
    ..Impairments::NONE
};

/// The longest pause between two messages of an end, in microseconds.
const PAUSE_US: u64 = 8_000;
/// Bound on the length in bytes of a payload without its number.
const MOST_BYTES: u64 = 40;
/// One change in this many coincides with a KeyUpdate of either end.
const KEY_UPDATES: u64 = 10;
/// Number of messages in each direction on a network without loss at the end.
const LAST_MESSAGES: u64 = 400;
/// How many of the last messages may still be lost: they share tags with earlier lost ones, or
/// their receiver verified nothing for such a long time that it must first find the current numbers.
const NEAR_A_LOSS: u64 = 300;

/// The results for the association.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of changes that took effect, in both directions together.
    pub updates: u64,
    /// Number of messages sent, in both directions together.
    pub sent: u64,
    /// Number of messages delivered.
    pub delivered: u64,
    /// Number of messages that were delivered altered, or twice.
    pub wrong: u64,
    /// Whether both ends still agree on the schemes in the end, and receive each other's messages.
    pub in_step: bool,
    /// Number of datagrams offered to the network.
    pub datagrams: u64,
    /// Number of datagrams that the network lost.
    pub lost: u64,
    /// Number of KeyUpdates that were requested.
    pub key_updates: u64,
    /// Number of retransmitted flights.
    pub retransmissions: u64,
    /// Virtual time, in seconds.
    pub seconds: u64,
    /// Why the association ended, if it did.
    pub closed: Option<CloseReason>,
}

/// The state of one direction, from its sender and its receiver.
#[derive(Default)]
struct DirectionState {
    sent: u64,
    /// Whether each message was delivered.
    delivered: Vec<bool>,
    /// The scheme that the last change led to.
    scheme: Option<Scheme>,
    changes: u64,
    wrong: u64,
}

impl DirectionState {
    /// The message with this number in this direction. Its contents depend on both.
    fn message(direction: u8, number: u64) -> Vec<u8> {
        let mut rng = Random::insecure(number << 1 | u64::from(direction));
        let mut bytes = number.to_be_bytes().to_vec();
        bytes.resize(8 + rng.below(MOST_BYTES) as usize, 0);
        rng.fill(&mut bytes[8..]);
        bytes
    }

    fn take(&mut self, direction: u8, data: &[u8]) {
        let number = data.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
        let known = number.filter(|n| *n < self.sent && data == Self::message(direction, *n));
        let Some(number) = known else {
            self.wrong += 1;
            return;
        };
        self.delivered.resize(self.sent as usize, false);
        let slot = &mut self.delivered[number as usize];
        self.wrong += u64::from(*slot);
        *slot = true;
    }
}

fn schemes() -> Vec<Scheme> {
    let r2d2 = Overprovision::ALL.into_iter().map(Scheme::R2d2);
    (2..=16).filter_map(Scheme::agg).chain(r2d2).collect()
}

struct Association {
    network: Network<Either<Connection, Endpoint>>,
    client: NodeId,
    server: NodeId,
    handle: Option<Handle>,
    /// The directions to the client and to the server.
    ways: [DirectionState; 2],
    closed: Option<CloseReason>,
    /// Draws the buffers that are lent to senders.
    buffers: Random,
}

impl Association {
    fn new(suite: CipherSuiteId, seed: u64) -> Self {
        let mut rng = Random::insecure(seed);
        let schemes = schemes();
        let mut settings = defaults();
        settings.suites = vec![suite];
        settings.aggregation = AggregationPolicy::new(schemes.clone(), schemes);
        let (client, server) = (client(settings.clone()), server(settings));
        let mut network = Network::new(seed);
        let endpoint = Endpoint::server(Arc::new(server), rng.fork());
        let now = network.now();
        let connection = Connection::client(Arc::new(client), server_address(), now, rng.fork());
        let server = network.add(server_address(), Either::Right(endpoint));
        let client = network.add(client_address(), Either::Left(connection));
        let (ways, buffers) = (Default::default(), rng.fork());
        Self { network, client, server, handle: None, ways, closed: None, buffers }
    }

    fn run_until(&mut self, until: Instant) {
        let Self { network, handle, ways: [to_client, to_server], closed, .. } = self;
        network.run_until(until, |_, _, event| {
            let (event, side) = match event {
                Either::Left(event) => (event, 0),
                Either::Right(EndpointEvent { handle: new, event, .. }) => {
                    if matches!(event, Event::Connected(_)) {
                        *handle = Some(new);
                    }
                    (event, 1)
                }
            };
            let way = if side == 0 { &mut *to_client } else { &mut *to_server };
            match event {
                Event::Data(data) => way.take(side as u8, data),
                Event::AggregationChanged { receive, .. } => {
                    // The other end counts the changes of the other direction.
                    way.changes += u64::from(way.scheme != Some(receive));
                    way.scheme = Some(receive);
                }
                Event::Closed(reason) => *closed = Some(reason),
                Event::Connected(agreed) => way.scheme = Some(agreed.receive),
                _ => {}
            }
        });
    }

    fn run_for(&mut self, duration: Duration) {
        self.run_until(self.network.now() + duration);
    }

    fn connection(&self, side: usize) -> Option<ConnectionRef<'_>> {
        match (side, self.network.engine(self.client), self.network.engine(self.server)) {
            (0, Either::Left(client), _) => Some(client.into()),
            (_, _, Either::Right(server)) => server.connection(self.handle?),
            _ => None,
        }
    }

    fn agreed(&self, side: usize) -> Option<Negotiated> {
        self.connection(side)?.negotiated().cloned()
    }

    /// Whether both ends have the same view of both directions.
    fn agree(&self) -> bool {
        let schemes = |side| self.agreed(side).map(|agreed| (agreed.send, agreed.receive));
        let swapped = schemes(1).map(|(send, receive)| (receive, send));
        swapped.is_some() && schemes(0) == swapped
    }

    /// Makes an end send its next message.
    fn send(&mut self, side: usize) {
        let direction = 1 - side;
        let way = &mut self.ways[direction];
        let message = DirectionState::message(direction as u8, way.sent);
        let (node, handle) = ([self.client, self.server][side], self.handle);
        let mut datagram = [0; 2048];
        let lent = &mut datagram[..buffer_len(&mut self.buffers, message.len())];
        let sent = self.network.call(node, |node, now| match (node, handle) {
            (Either::Left(client), _) => client.send(now, &message, lent).ok(),
            (Either::Right(server), Some(handle)) => {
                server.connection_mut(handle)?.send(now, &message, lent).ok()
            }
            (Either::Right(_), None) => None,
        });
        way.sent += u64::from(sent.is_some());
        if let Some(Sent::Datagram { len, to }) = sent {
            self.network.transmit(node, to.peer, &lent[..len]);
        }
    }

    /// Makes an end ask for another scheme than the one it receives now.
    fn request(&mut self, side: usize, rng: &mut Random) {
        let Some(current) = self.agreed(side).map(|agreed| agreed.receive) else { return };
        let mut all = schemes();
        all.push(Scheme::Plain);
        all.retain(|scheme| *scheme != current);
        let next = all[rng.below(all.len() as u64) as usize];
        let (node, handle) = ([self.client, self.server][side], self.handle);
        self.network.call(node, |node, now| match (node, handle) {
            (Either::Left(client), _) => client.request_aggregation(now, next).is_ok(),
            (Either::Right(server), Some(handle)) => {
                let connection = server.connection_mut(handle);
                connection.is_some_and(|mut server| server.request_aggregation(now, next).is_ok())
            }
            (Either::Right(_), None) => false,
        });
    }

    fn update_keys(&mut self, side: usize) {
        let (node, handle) = ([self.client, self.server][side], self.handle);
        self.network.call(node, |node, now| match (node, handle) {
            (Either::Left(client), _) => client.update_keys(now),
            (Either::Right(server), Some(handle)) => {
                if let Some(mut connection) = server.connection_mut(handle) {
                    connection.update_keys(now);
                }
            }
            (Either::Right(_), None) => {}
        });
    }
}

/// Lets the ends of one association ask for other schemes until `updates` changes took effect, and
/// then exchange messages on a network without loss. `seed` determines everything.
pub fn run(suite: CipherSuiteId, seed: u64, updates: u64) -> Report {
    let mut it = Association::new(suite, seed);
    let mut rng = Random::insecure(!seed);
    it.run_for(Duration::from_secs(5));
    it.network.impair_all(&IMPAIRMENTS);
    // An update waits for 200 records, and sometimes for a few retransmissions.
    let most_seconds = 60 + updates * 30;
    let start = it.network.now();
    let deadline = start + Duration::from_secs(most_seconds);
    let (mut next, mut asked) = ([start; 2], [u64::MAX; 2]);
    let mut key_updates = 0;
    while it.closed.is_none()
        && it.ways.iter().map(|way| way.changes).sum::<u64>() < updates
        && it.network.now() < deadline
    {
        let side = usize::from(next[1] < next[0]);
        it.run_until(next[side]);
        it.send(side);
        next[side] += Duration::from_micros(1 + rng.below(PAUSE_US));
        if asked[side] != it.ways[side].changes {
            asked[side] = it.ways[side].changes;
            it.request(side, &mut rng);
            if rng.below(KEY_UPDATES) == 0 {
                key_updates += 1;
                it.update_keys(rng.below(2) as usize);
            }
        }
    }
    it.network.impair_all(&Impairments { delay: Duration::from_millis(10), ..Impairments::NONE });
    // Pending flights are completed: they are retransmitted at least once in a minute.
    it.run_for(Duration::from_secs(300));
    let agreed = it.agree();
    let from = [0, 1].map(|way| it.ways[way].sent as usize);
    for side in [0, 1] {
        for _ in 0..LAST_MESSAGES {
            it.send(side);
            it.run_for(Duration::from_millis(5));
        }
    }
    it.run_for(Duration::from_secs(5));
    let heard = |way: &DirectionState, from: usize| {
        let last = way.delivered.get(from + NEAR_A_LOSS as usize..).unwrap_or_default();
        last.len() as u64 == LAST_MESSAGES - NEAR_A_LOSS && last.iter().all(|there| *there)
    };
    let heard = heard(&it.ways[0], from[0]) && heard(&it.ways[1], from[1]);
    let counters =
        [it.network.counters(it.client, it.server), it.network.counters(it.server, it.client)];
    let sum = |of: fn(&DirectionState) -> u64| it.ways.iter().map(of).sum();
    Report {
        updates: sum(|way| way.changes),
        sent: sum(|way| way.sent),
        delivered: sum(|way| way.delivered.iter().filter(|there| **there).count() as u64),
        wrong: sum(|way| way.wrong),
        in_step: agreed && heard && it.closed.is_none(),
        datagrams: counters.iter().map(|way| way.offered).sum(),
        lost: counters.iter().map(|way| way.lost).sum(),
        key_updates,
        retransmissions: [0, 1]
            .into_iter()
            .filter_map(|side| it.connection(side))
            .map(|connection| connection.stats().sent.retransmissions)
            .sum(),
        seconds: it.network.now().saturating_since(Instant::ZERO).as_secs(),
        closed: it.closed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_changed_repeated_or_invented_is_noticed() {
        let mut way = DirectionState { sent: 2, ..DirectionState::default() };
        let mut message = DirectionState::message(0, 1);
        way.take(0, &message);
        assert_eq!((way.wrong, way.delivered.as_slice()), (0, &[false, true][..]));
        way.take(0, &message);
        way.take(1, &message);
        way.take(0, &DirectionState::message(0, 2));
        *message.last_mut().expect("it has a number") ^= 1;
        way.take(0, &message);
        way.take(0, b"short");
        assert_eq!(way.wrong, 5);
    }
}
