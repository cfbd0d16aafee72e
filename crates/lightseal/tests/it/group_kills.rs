//! `kill -9` of a group's controller and members at random moments. `cargo xtask claim group-kills`
//! runs this test for longer.
#![cfg(unix)]

use crate::kills;

/// The environment variable with the number of kills; 6 if it is not set.
const KILLS: &str = "LIGHTSEAL_KILLS";
/// The environment variable with the seed of all random choices.
const SEED: &str = "LIGHTSEAL_KILLS_SEED";
/// The environment variable with a file for the report. If it is set, nothing is asserted.
const REPORT: &str = "LIGHTSEAL_KILLS_REPORT";

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

#[test]
fn a_group_works_on_when_controller_and_members_are_killed() {
    if let Err(reason) = skip::multicast() {
        return skip::test(reason);
    }
    let kills = setting(KILLS).unwrap_or(6) as u32;
    let seed = setting(SEED).unwrap_or(1);
    let groups = if kills < 40 { 2 } else { 4 };
    let report = kills::trial(kills, groups, seed);
    if let Some(path) = std::env::var_os(REPORT) {
        std::fs::write(path, report.json().to_string()).unwrap();
        return;
    }
    println!("seed {seed}: {}", report.json());
    assert_eq!(report.kills, kills);
    assert!(report.lost.is_empty(), "seed {seed}: {:#?}", report.lost);
    assert!(report.stuck.is_empty(), "seed {seed}: {:#?}", report.stuck);
    assert!(report.reused().is_empty(), "seed {seed}: {:#?}", report.reused());
    if let Some(records) = report.records() {
        assert!(records > 100, "{records} records were seen");
    } else {
        skip::part("numbers on the wire", format_args!("no capture: {}", report.why_no_wire));
    }
}
