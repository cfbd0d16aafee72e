//! Attacks on the MACsec gateway's tunnel, without sockets: observers, loss, forgeries and floods,
//! and what the tunnel costs. The simulated sites and the trials are shared with the tests of
//! `lightseal-gateway` and `lightseal-gateway-papers`.
//!
//! Each function runs the named schemes and returns JSON with a row for each.

mod bytes;
mod loss;

pub use bytes::bytes;
pub use loss::loss;

use crate::parallel;
use lightseal_core::math;
use lightseal_gateway::{flows, stations};
use serde_json::{Value, json};
use testkit::gateway::trials::claimed::{self, Claimed};
use testkit::gateway::trials::flood::{self, Flood};
use testkit::gateway::trials::forgeries::{self, KINDS};
use testkit::gateway::trials::observer::{Capture, FLOWS};
use testkit::gateway::trials::{ALL, Make, narrowing};

/// The names of all schemes; `compressed` is `sealed` with short headers.
pub fn schemes() -> [&'static str; ALL.len()] {
    ALL.map(|(name, _)| name)
}

/// A row for each scheme of these names, or for all schemes if none is named.
fn rows(names: &[String], row: impl Fn(&'static str, Make) -> Value + Sync) -> Value {
    let is_meant = |name: &str| names.is_empty() || names.iter().any(|meant| meant == name);
    let jobs: Vec<_> = ALL.into_iter().filter(|(name, _)| is_meant(name)).collect();
    json!({ "rows": parallel::shared(&jobs, |(name, make)| row(name, *make)) })
}

/// What an observer finds in `packets` datagrams, and how much information about flows the most
/// telling field gives.
pub fn observer(seed: u64, names: &[String], packets: usize) -> Value {
    rows(names, |scheme, make| {
        let mut capture = Capture::of(make, seed, packets);
        let leaks = capture.leaks();
        let told = capture.information();
        json!({
            "scheme": scheme,
            "packets": packets,
            "flows": FLOWS,
            "leaks": leaks.total(),
            "addresses": leaks.addresses,
            "scis": leaks.scis,
            "pns": leaks.pns,
            "ans": leaks.ans,
            "ethertypes": leaks.ethertypes,
            "constant_positions": capture.constant_positions(),
            "features": told.features,
            "information_bits": told.most,
            "chance_bits": told.chance,
            "flow_bits": math::log2(FLOWS as f64),
        })
    })
}

/// How many of `count` forgeries reach the LAN.
pub fn forgeries(seed: u64, names: &[String], count: u64) -> Value {
    rows(names, |scheme, make| {
        let outcome = forgeries::run(make, seed, count);
        let kinds = KINDS.iter().zip(outcome.tried).zip(outcome.passed).map(
            |((kind, tried), passed)| json!({ "kind": kind, "tried": tried, "passed": passed }),
        );
        json!({
            "scheme": scheme,
            "forgeries": outcome.tried.iter().sum::<u64>(),
            "passed": outcome.passed(),
            "passed_of_delivered": outcome.passed_of_delivered(),
            "kinds": kinds.collect::<Vec<_>>(),
            "raced": outcome.raced,
            "burnt": outcome.burnt,
        })
    })
}

/// How many of 25 frames per second the listener of a one-way flow misses while another station
/// sends frames with the listener's address. The listener sends as often as the flow, or every
/// three seconds; the other station sends one frame, or 15 at intervals of a second.
pub fn claims(names: &[String]) -> Value {
    rows(names, |scheme, make| {
        let lost = |every, claims| claimed::run(make, Claimed { every, claims });
        let (one, fifteen, slow) = (lost(40, 1), lost(40, 15), lost(3000, 1));
        json!({
            "scheme": scheme,
            "frames": one.sent,
            "lost": one.lost(),
            "lost_of_fifteen_claims": fifteen.lost(),
            "lost_of_a_slow_station": slow.lost(),
        })
    })
}

/// For how many seconds frames of 1300 bytes do not arrive when a path of 1500 bytes narrows
/// to 1300.
pub fn narrowing(names: &[String]) -> Value {
    rows(
        names,
        |scheme, make| json!({ "scheme": scheme, "worst_seconds": narrowing::worst_seconds(make) }),
    )
}

/// What state a flood of frames with invented sources, `frames_a_second` for `seconds`, leaves
/// behind. `heap` returns the number of bytes allocated. Schemes run one after the other, because
/// they share the heap.
pub fn flood(names: &[String], seconds: u32, frames_a_second: u32, heap: fn() -> usize) -> Value {
    let is_meant = |name: &str| names.is_empty() || names.iter().any(|meant| meant == name);
    let (stations, flows) = (stations::StationLimits::default(), flows::FlowLimits::default());
    let row = |(scheme, make): (&str, Make)| {
        let outcome = flood::run(make, Flood { seconds, frames_a_second }, heap);
        let more = |bytes: usize| bytes.saturating_sub(outcome.bytes_before);
        json!({
            "scheme": scheme,
            "invented": outcome.invented,
            "flows_cap": flows.flows_a_peer,
            "stations_cap": stations.stations,
            "stations_a_port_cap": stations.stations_a_port,
            "flows_sent": outcome.flows.0,
            "flows_received": outcome.flows.1,
            "stations": outcome.stations.0,
            "stations_a_port": outcome.stations.1,
            "first_half_bytes": more(outcome.bytes[0]),
            "second_half_bytes": more(outcome.bytes[1]),
            "old": outcome.old,
            "old_lost": outcome.old_lost,
        })
    };
    let rows: Vec<_> = ALL.into_iter().filter(|(name, _)| is_meant(name)).map(row).collect();
    json!({ "rows": rows })
}
