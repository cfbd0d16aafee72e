//! How often a live server is considered dead, and how soon a dead one is, in virtual time: the
//! figures that `tests/it/liveness.rs` of `lightseal-dtls` bounds, as JSON.

use testkit::pair::Configs;
use testkit::watched::{self, Scenario};

/// Each scenario runs for an hour with each of this many seeds.
const SEEDS: u64 = 10;

fn main() {
    let count = |scenarios: Vec<Scenario>| {
        let runs = scenarios.iter().flat_map(|s| (0..SEEDS).map(|seed| (*s, seed)));
        let (mut alarms, mut most_bytes, mut hours) = (0, 0, 0);
        for (scenario, seed) in runs {
            let (new, bytes) = scenario.false_alarms(seed);
            alarms += new;
            most_bytes = most_bytes.max(bytes);
            hours += 1;
        }
        format!(
            r#"{{"false_alarms": {alarms}, "hours": {hours}, "most_probe_bytes_an_hour": {most_bytes}}}"#
        )
    };
    let noticed: Vec<_> = watched::lossy()
        .filter(|scenario| scenario.echoes)
        .take(1)
        .flat_map(|s| (0..SEEDS).map(move |seed| s.until_noticed(Configs::new(), seed, false)))
        .collect();
    let longest = noticed.iter().max().map_or(0.0, std::time::Duration::as_secs_f64);
    let (loss, slow) = (count(watched::lossy().collect()), count(watched::slow().collect()));
    println!(r#"{{"loss": {loss}, "slow": {slow}, "longest_until_noticed_s": {longest}}}"#);
}
