//! Dialogues and streams between two engines in virtual time.

use crate::pair::{Configs, Direction, Pair};
use lightseal_dtls::{Adapt, AggregationPolicy, Family};
use std::time::Duration;

pub const SCHEMES: [&str; 6] = ["agg:2", "agg:8", "agg:16", "r2d2:50", "r2d2:200", "auto"];

/// Schemes of steady streams.
pub const STEADY: [&str; 5] = ["agg:4", "agg:8", "agg:16", "r2d2:50", "r2d2:100"];

/// Schemes of streams with one message a second.
pub const LONG_SETS: [&str; 2] = ["agg:8", "agg:16"];

/// Configurations with default settings, in which either end uses this scheme.
pub fn configs(scheme: &str) -> Configs {
    if scheme != "auto" {
        return Configs::aggregated(scheme).learning();
    }
    let mut configs = Configs::new();
    for settings in [&mut configs.client.settings, &mut configs.server.settings] {
        settings.aggregation = AggregationPolicy::family(Family::Agg);
        settings.adapt = Some(Adapt::within(Family::Agg));
    }
    configs
}

/// A pair over a path with this one-way delay.
pub fn pair(configs: Configs, path: Duration, seed: u64) -> Pair<'static> {
    let mut pair =
        configs.pair(seed).with_rule(move |_, _, datagram| vec![(path, datagram.to_vec())]);
    pair.connect();
    pair.assert_connected();
    pair
}

/// Runs `count` exchanges, `window` of them at a time, and returns how long they took.
pub fn exchanges(pair: &mut Pair<'_>, count: usize, window: usize) -> Duration {
    let start = pair.now;
    let (mut sent, mut answered) = (pair.at_server.data.len(), pair.at_server.data.len());
    let end = pair.at_client.data.len() + count;
    let last = sent + count;
    for _ in 0..window {
        pair.client_send(&[1; 12]);
        sent += 1;
    }
    let mut heard = pair.at_client.data.len();
    while pair.at_client.data.len() < end {
        let going_on = pair.run_until(|pair| {
            pair.at_server.data.len() > answered || pair.at_client.data.len() > heard
        });
        assert!(going_on, "{} of {end}", pair.at_client.data.len());
        while answered < pair.at_server.data.len() {
            pair.server_send(&[2; 40]);
            answered += 1;
        }
        while heard < pair.at_client.data.len() {
            heard += 1;
            if sent < last {
                pair.client_send(&[3; 12]);
                sent += 1;
            }
        }
    }
    pair.now - start
}

/// The number of bytes sent to the server for each message of a steady stream.
pub fn bytes(configs: Configs, gap: Duration, count: usize) -> f64 {
    let mut pair = pair(configs, Duration::from_millis(10), 3);
    let before = pair.log.len();
    for _ in 0..count {
        pair.client_send(&[5; 30]);
        pair.run_for(gap);
    }
    pair.run_for(Duration::from_secs(30));
    // Messages that still wait for their set at the end are included.
    assert!(pair.at_server.data.len() > count - 64);
    let sent = pair.log[before..].iter().filter(|(to, _)| *to == Direction::ToServer);
    sent.map(|(_, datagram)| datagram.len()).sum::<usize>() as f64 / count as f64
}
