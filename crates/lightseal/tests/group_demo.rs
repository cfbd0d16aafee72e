//! `lightseal demo group`, which fails by itself if it does not show what it is to show.

use serde_json::Value;
use std::process::Command;

fn demonstrate(args: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lightseal"));
    let output = command.args(["demo", "group", "--json"]).args(args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn check(outcome: &Value, servers: u64) {
    assert_eq!(outcome["answers"], servers);
    assert_eq!(outcome["answers_after"], servers - 1);
    assert_eq!(outcome["evicted_read"], 0);
    assert_eq!(outcome["evicted_answers"], 0);
}

#[test]
fn who_is_put_out_reads_nothing_more_inside_of_one_process() {
    if let Err(reason) = skip::multicast() {
        return skip::test(reason);
    }
    let outcome = demonstrate(&["--in-process", "--servers", "5"]);
    assert_eq!(outcome["form"], "in-process");
    check(&outcome, 5);
}

/// In namespaces where they can be had, with libcoap's programs; in one process elsewhere.
#[test]
fn who_is_put_out_reads_nothing_more() {
    // Either form has it.
    if let Err(reason) = skip::multicast() {
        return skip::test(reason);
    }
    let outcome = demonstrate(&["--servers", "3", "--profile", "axiom-1.2"]);
    if outcome["form"] != "namespaces" {
        skip::part("in namespaces", "needs root, iproute2, libcoap3-bin and TUN devices");
    }
    check(&outcome, 3);
}
