//! Runs every fuzz target for a short time, always with the same inputs.

use fuzz::targets::{Target, drive, named};

fn run(name: &str, iterations: u64) {
    let target = named(name).expect("a target of this name");
    let outcome = drive(target, 1, |iteration| iteration < iterations);
    match outcome {
        Ok(inputs) => assert_eq!(inputs, iterations),
        Err(found) => panic!("{name}: {found}"),
    }
}

#[test]
fn messages() {
    run("messages", 200_000);
}

#[test]
fn messages12() {
    run("messages12", 200_000);
}

#[test]
fn headers() {
    run("headers", 100_000);
}

#[test]
fn client() {
    run("client", 10_000);
}

#[test]
fn server() {
    run("server", 10_000);
}

#[test]
fn plaintext() {
    run("plaintext", 5_000);
}

#[test]
fn opener() {
    run("opener", 5_000);
}

#[test]
fn a_fault_is_found_and_found_again() {
    let run = |input: &[u8]| assert!(input.len() < 4 || input[3] != 0x7f, "the fault");
    let target = Target { name: "faulty", run, seeds: || vec![vec![0; 8]] };
    let found = drive(&target, 5, |iteration| iteration < 100_000).expect_err("there is one");
    assert_eq!(found.input[3], 0x7f);
    assert_eq!(drive(&target, 5, |_| true), Err(found));
}

#[test]
fn rekey() {
    run("rekey", 100_000);
}

#[test]
fn saved() {
    run("saved", 100_000);
}

#[test]
fn group_control() {
    run("group_control", 100_000);
}

#[test]
fn group_records() {
    run("group_records", 50_000);
}

#[test]
fn macsec() {
    run("macsec", 10_000);
}
