//! `lightseal demo group`, which itself fails if a result is not as it must be.

#[cfg(unix)]
use crate::program::Running;
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
fn an_evicted_server_reads_nothing_more_inside_of_one_process() {
    if let Err(reason) = skip::multicast() {
        return skip::test(reason);
    }
    let outcome = demonstrate(&["--in-process", "--servers", "5"]);
    assert_eq!(outcome["form"], "in-process");
    check(&outcome, 5);
}

/// Runs in namespaces with libcoap's programs if possible, otherwise inside one process.
#[test]
fn an_evicted_server_reads_nothing_more() {
    // Both forms need multicast.
    if let Err(reason) = skip::multicast() {
        return skip::test(reason);
    }
    let outcome = demonstrate(&["--servers", "3", "--profile", "axiom-1.2"]);
    if outcome["form"] != "namespaces" {
        skip::part("in namespaces", "needs root, iproute2, libcoap3-bin and TUN devices");
    }
    check(&outcome, 3);
}

/// The namespaces and directories of the demonstration with this process ID.
#[cfg(unix)]
fn left_by(id: u32) -> Vec<String> {
    let begins = format!("lightseal-demo-{id}-");
    let folders = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let folders = folders.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let namespaces = Command::new("ip").args(["netns", "list"]).output();
    let namespaces = namespaces.map(|output| output.stdout).unwrap_or_default();
    let namespaces = String::from_utf8_lossy(&namespaces).into_owned();
    let namespaces = namespaces.lines().map(str::to_owned).collect::<Vec<_>>();
    folders.chain(namespaces).filter(|name| name.starts_with(&begins)).collect()
}

#[cfg(unix)]
#[test]
fn a_demonstration_that_is_interrupted_leaves_nothing_behind() {
    if let Err(reason) = skip::multicast() {
        return skip::test(reason);
    }
    for (signal, inside) in
        [("INT", true), ("HUP", true), ("INT", false), ("TERM", false), ("HUP", false)]
    {
        let args: &[&str] = if inside { &["--in-process"] } else { &["--servers", "3"] };
        let mut demo = Running::start_quietly(&[&["demo", "group"], args].concat());
        demo.wait_for("a controller at");
        assert!(!left_by(demo.id()).is_empty(), "its keys lie in a folder");
        demo.signal(signal);
        assert_eq!(demo.wait(), Some(2), "{signal}");
        assert_eq!(left_by(demo.id()), [""; 0], "{signal}");
    }
}

/// A killed demonstration cannot clean up. The next one does it.
#[cfg(unix)]
#[test]
fn what_a_killed_demonstration_left_is_removed_by_the_next() {
    if let Err(reason) = skip::multicast() {
        return skip::test(reason);
    }
    let mut killed = Running::start_quietly(&["demo", "group", "--servers", "3"]);
    killed.wait_for("a controller at");
    killed.signal("KILL");
    killed.wait();
    assert!(!left_by(killed.id()).is_empty());
    demonstrate(&["--in-process", "--servers", "3"]);
    assert_eq!(left_by(killed.id()), [""; 0]);
}
