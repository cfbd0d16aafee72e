//! A client that watches its server, in virtual time.

use crate::pair::{Configs, Direction, Pair, psk};
use lightseal_core::Random;
use lightseal_dtls::{Endpoint, ServerConfig, Watch};
use std::sync::Arc;
use std::time::Duration;

pub const INTERVAL: Duration = Duration::from_secs(30);
pub const HOUR: Duration = Duration::from_secs(3600);

/// A path, and the traffic of an application on it.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The one-way delay.
    pub one_way: Duration,
    /// The percentage of datagrams lost in each direction.
    pub loss_percent: u64,
    /// The interval between two messages of the application.
    pub every: Duration,
    /// Whether the service answers.
    pub echoes: bool,
}

/// All scenarios in which there must be no false alarm: an hour each at 5 % loss, with many
/// messages and with few, answered and not.
pub fn lossy() -> impl Iterator<Item = Scenario> {
    scenarios(Duration::from_millis(10), 5)
}

/// The traffic patterns over a path with a round trip of three seconds, with and without loss.
pub fn slow() -> impl Iterator<Item = Scenario> {
    let one_way = Duration::from_millis(1500);
    scenarios(one_way, 0).chain(scenarios(one_way, 5))
}

fn scenarios(one_way: Duration, loss_percent: u64) -> impl Iterator<Item = Scenario> {
    [500, 7_000, 45_000].into_iter().flat_map(move |every| {
        [true, false].map(|echoes| {
            let every = Duration::from_millis(every);
            Scenario { one_way, loss_percent, every, echoes }
        })
    })
}

impl Scenario {
    /// A connected pair.
    pub fn pair<'a>(self, configs: Configs, seed: u64) -> Pair<'a> {
        let mut random = Random::insecure(seed);
        let mut pair = configs.pair(seed).with_rule(move |_, _, datagram| {
            if random.below(100) < self.loss_percent {
                return Vec::new();
            }
            vec![(self.one_way, datagram.to_vec())]
        });
        (pair.answers_probes, pair.echoes) = (true, self.echoes);
        pair.client.watch(pair.now, Watch { interval: INTERVAL, answers: Some(true) });
        pair.connect();
        pair.assert_connected();
        pair
    }

    /// Lets the application exchange messages for `time`.
    pub fn talk(self, pair: &mut Pair<'_>, time: Duration) {
        let until = pair.now + time;
        while pair.now < until {
            pair.client_send(b"how are you?");
            pair.run_for(self.every);
            pair.log.clear();
            pair.at_server.data.clear();
            pair.at_client.data.clear();
        }
    }

    /// The number of times in an hour that the server is considered dead, and the bytes of the
    /// client's probes.
    pub fn false_alarms(self, seed: u64) -> (u64, u64) {
        let mut pair = self.pair(Configs::new(), seed);
        self.talk(&mut pair, HOUR);
        let stats = pair.client.stats();
        (stats.received.silences, stats.sent.probe_bytes)
    }

    /// How long after its death a server is considered dead, after a minute of traffic.
    pub fn until_noticed(self, configs: Configs, seed: u64, restarts: bool) -> Duration {
        let mut pair = self.pair(configs, seed);
        self.talk(&mut pair, Duration::from_secs(60));
        let died = pair.now;
        if restarts {
            restart(&mut pair, seed);
        } else {
            pair.rule = Box::new(|_, _, _| Vec::new());
        }
        while !pair.client.peer_is_silent() {
            assert!(pair.now < died + Duration::from_secs(120), "it is not noticed: {self:?}");
            if (pair.now - died).as_micros().is_multiple_of(self.every.as_micros()) {
                pair.client_send(b"how are you?");
            }
            pair.run_for(Duration::from_millis(10));
        }
        pair.now - died
    }
}

/// Replaces the server with one that has the same keys and no state.
pub fn restart(pair: &mut Pair<'_>, seed: u64) {
    let config = Arc::new(ServerConfig::new(Arc::new(psk())));
    pair.server = Endpoint::server(config, Random::insecure(seed ^ 0xdead));
    pair.handle = None;
}

/// Datagrams to the client that are hints.
pub fn hints<'a>(pair: &'a Pair<'_>) -> impl Iterator<Item = &'a [u8]> {
    pair.log
        .iter()
        .filter(|(direction, _)| *direction == Direction::ToClient)
        .filter_map(|(_, datagram)| (datagram.first() == Some(&0xe3)).then_some(&datagram[..]))
}
