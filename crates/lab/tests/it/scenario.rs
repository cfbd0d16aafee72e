//! Scenarios, sweeps and their shards as users run them.

use crate::program;

use program::{TempDir, fails, printed};
use serde_json::Value;

const SCENARIO: &str = r#"about = "Two hops of TSCH"
runs = 6

[network]
topology = "line"
nodes = 3

[link]
layer = "tsch"
slotframe = 11
cells = 1

[channel]
model = "bernoulli"
delivery = 0.9

[handshake]
profile = "1.3"
"#;

const SWEEP: &str = "
[sweep]
handshake.profile = ['tinydtls', '1.3']
channel.delivery = [1.0, 0.9, 0.8]
";

fn content(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn a_run_writes_a_row_for_each_handshake_and_what_they_come_to() {
    let dir = TempDir::new();
    let file = dir.file("two-hops.toml", SCENARIO);
    let out = dir.path("new/folder");
    let said = printed(&["run", &file, "--out", &out, "--log", "--pcap", "--seed", "7"]);
    assert!(said.contains("6 runs of 1.3 over tsch, 3 nodes, 1 handshake a run, seed 7"), "{said}");
    assert!(said.contains("Two hops of TSCH"), "{said}");
    let handshakes = content(&format!("{out}/two-hops-handshakes.csv"));
    let seeds: Vec<_> =
        handshakes.lines().skip(1).filter_map(|line| line.split(',').next()).collect();
    assert_eq!(seeds, ["7", "8", "9", "10", "11", "12"]);
    let rows: Value =
        serde_json::from_str(&content(&format!("{out}/two-hops-handshakes.json"))).unwrap();
    let durations = rows.as_array().unwrap().iter().filter_map(|row| row["duration_s"].as_f64());
    let durations: Vec<f64> = durations.collect();
    let summary: Value =
        serde_json::from_str(&content(&format!("{out}/two-hops-summary.json"))).unwrap();
    let mean = durations.iter().sum::<f64>() / durations.len() as f64;
    assert!((summary[0]["duration_s"].as_f64().unwrap() - mean).abs() < 1e-9);
    assert_eq!(summary[0]["success_share"].as_f64(), Some(durations.len() as f64 / 6.0));
    assert!(
        content(&format!("{out}/two-hops-summary.csv")).starts_with("handshakes,success_share,")
    );
    for line in content(&format!("{out}/two-hops-frames.jsonl")).lines() {
        let frame: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            frame["frame"].as_str().map(str::len),
            frame["bytes"].as_u64().map(|n| 2 * n as usize)
        );
    }
    let capture = format!("{out}/two-hops.pcap");
    let read = printed(&["decrypt", &capture, "--keys", &format!("{out}/two-hops.keys")]);
    assert!(read.contains("finished"), "{read}");
    // Without a directory no files are written.
    let alone = printed(&["run", &file, "--seed", "7"]);
    assert!(said.starts_with(&alone));
}

#[test]
fn any_number_of_threads_makes_the_same_bytes() {
    let dir = TempDir::new();
    let file = dir.file("s.toml", SCENARIO);
    let sweep = dir.file("g.toml", &format!("{SCENARIO}{SWEEP}"));
    let written = |threads: &str| {
        let out = dir.path(threads);
        printed(&["run", &file, "--threads", threads, "--out", &out, "--log"]);
        let files =
            ["handshakes.csv", "handshakes.json", "summary.csv", "summary.json", "frames.jsonl"];
        let rows = printed(&["sweep", &sweep, "--runs", "3", "--rows", "--threads", threads]);
        (files.map(|name| content(&format!("{out}/s-{name}"))), rows)
    };
    assert_eq!(written("1"), written("2"));
}

#[test]
fn shards_come_together_as_what_the_whole_sweep_writes() {
    let dir = TempDir::new();
    let file = dir.file("g.toml", &format!("{SCENARIO}{SWEEP}"));
    for format in [&["--format", "csv"][..], &["--format", "jsonl", "--rows"]] {
        let sweep = |shard: &str, name: &str| {
            let path = dir.path(name);
            let args = ["sweep", &file, "--runs", "3", "--shard", shard, "--out", &path];
            printed(&[&args[..], format].concat());
            path
        };
        let whole = content(&sweep("1/1", "whole"));
        let [a, b, c] = ["1/3", "2/3", "3/3"].map(|shard| sweep(shard, &shard.replace('/', "-")));
        let merged = dir.path("merged");
        printed(&["merge", &c, &a, &b, "--out", &merged]);
        assert_eq!(content(&merged), whole);
        assert_eq!(whole, printed(&["merge", &merged]));
        assert!(whole.lines().count() > 6);
        fails(&["merge", &a, &c], &["shard 2/3 is missing"]);
        fails(&["merge", &a, &b, &a, &c], &["is shard 1/3, as is", &a]);
        // The same points with another seed are another sweep.
        let args = ["sweep", &file, "--runs", "3", "--shard", "3/3", "--seed", "2"];
        let other = dir.path("other");
        printed(&[&args[..], format, &["--out", &other]].concat());
        fails(&["merge", &a, &b, &other], &["other: belongs to another sweep", &a]);
        let text = content(&b);
        let cut = dir.file("cut", &text[..text.len() - 5]);
        fails(&["merge", &a, &cut, &c], &["cut: has ", " and a part of one instead of "]);
        let altered = dir.file("altered", &text.replacen("0.9,", "0.7,", 1));
        assert_ne!(content(&altered), text);
        fails(&["merge", &a, &altered, &c], &["altered: was changed: "]);
    }
    fails(&["merge", &file], &["g.toml: was not written by lightseal lab sweep"]);
    fails(&["merge", &dir.path("none")], &["none: "]);
}

/// The shards divide the runs of one point, or of few points if that is asked for.
#[test]
fn shards_of_runs_come_together_as_what_one_machine_writes() {
    let dir = TempDir::new();
    let point = dir.file("s.toml", SCENARIO);
    let grid = dir.file("g.toml", &format!("{SCENARIO}{SWEEP}"));
    for (file, options) in [
        (&point, &[][..]),
        (&point, &["--rows"]),
        (&point, &["--format", "jsonl"]),
        (&grid, &["--split", "runs"]),
        (&grid, &["--split", "runs", "--format", "jsonl", "--rows"]),
    ] {
        let sweep = |shard: &str, name: &str| {
            let path = dir.path(name);
            // There are fewer runs than shards, so one shard is empty.
            let args = ["sweep", file, "--runs", "3", "--shard", shard, "--out", &path];
            printed(&[&args[..], options].concat());
            path
        };
        let whole = content(&sweep("1/1", "whole"));
        let parts = [1, 2, 3, 4].map(|index| sweep(&format!("{index}/4"), &format!("p{index}")));
        let [a, b, c, d] = parts.each_ref().map(String::as_str);
        assert_eq!(printed(&["merge", d, b, a, c]), whole, "{file} {options:?}");
        fails(&["merge", a, b, c], &["shard 4/4 is missing"]);
        let all = [a, b, c, d].map(content);
        assert!(all.iter().any(|text| text.contains(" rows=0 ")), "{all:?}");
    }
    // One sweep cannot be divided both by runs and by points.
    let [a, b] = ["1/2", "2/2"].map(|shard| {
        let path = dir.path(&shard.replace('/', "-"));
        let split = if shard == "1/2" { "runs" } else { "points" };
        let args = ["sweep", &grid, "--runs", "2", "--rows", "--shard", shard];
        printed(&[&args[..], &["--split", split, "--out", &path]].concat());
        path
    });
    fails(&["merge", &a, &b], &["belongs to another sweep"]);
}

#[test]
fn a_sweep_has_a_row_for_each_point() {
    let dir = TempDir::new();
    let file = dir.file("g.toml", &format!("{SCENARIO}{SWEEP}"));
    let text = printed(&["sweep", &file, "--runs", "2", "--format", "jsonl"]);
    let rows: Vec<Value> =
        text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let fields = |row: &Value| {
        let profile = row["handshake.profile"].as_str().unwrap().to_owned();
        (row["point"].as_u64().unwrap(), profile, row["channel.delivery"].as_f64().unwrap())
    };
    assert_eq!(rows.len(), 6);
    assert_eq!(fields(&rows[0]), (0, "tinydtls".into(), 1.0));
    assert_eq!(fields(&rows[5]), (5, "1.3".into(), 0.8));
    // Without loss tinydtls sends ten datagrams each time.
    assert_eq!(rows[0]["datagrams"], 10.0);
}

/// Each kind of mistake, with what its line must contain.
#[test]
fn mistakes_give_one_line_with_file_line_and_field() {
    let dir = TempDir::new();
    let wrong = [
        ("nodes = 3", "nodes = 1", ":6: network.nodes: must be from 2 to 10000"),
        ("nodes = 3", "nodes = 'x'", ":6: network.nodes: invalid type"),
        ("nodes = 3", "", ":4: network.nodes: is missing"),
        ("cells = 1", "cell = 1", ":11: link.cell: unknown field"),
        ("cells = 1", "cells = 10", ":11: link.cells: must be from 1 to 5"),
        ("0.9", "1.9", ":15: channel.delivery: must be from 0 to 1"),
        ("\"1.3\"", "'1.9'", ":18: handshake.profile: must be one of"),
        ("runs = 6", "runs = 0", ":2: runs: must be from 1"),
        ("runs = 6", "runs 6", ":2: "),
    ];
    for (from, to, expected) in wrong {
        let file = dir.file("s.toml", &SCENARIO.replace(from, to));
        fails(&["run", &file], &[&format!("{file}{expected}")]);
        fails(&["sweep", &file], &[&format!("{file}{expected}")]);
    }
    let file = dir
        .file("s.toml", &SCENARIO.replace("[handshake]", "[device]\nfile = 'd.toml'\n[handshake]"));
    fails(&["run", &file], &["d.toml: "]);
    dir.file("d.toml", "about = 'x'\nvolts = 'y'\n");
    fails(&["run", &file], &["d.toml:2: volts: invalid type"]);
    let empty = dir.file("g.toml", &format!("{SCENARIO}\n[sweep]\nruns = []"));
    fails(&["sweep", &empty], &["g.toml:21: sweep.runs: must have a value"]);
    let sweep = dir.file("g.toml", &format!("{SCENARIO}{SWEEP}"));
    fails(&["run", &sweep], &["g.toml:21: sweep.handshake.profile: is for lightseal lab sweep"]);
    fails(&["run", &dir.path("none.toml")], &["none.toml: "]);
    fails(&["run"], &["SCENARIO"]);
    for shard in ["0/2", "3/2", "x"] {
        fails(&["sweep", &sweep, "--shard", shard], &["expected I/N"]);
    }
    let good = dir.file("s.toml", SCENARIO);
    for threads in ["0", "1025", "x"] {
        fails(&["run", &good, "--threads", threads], &["from 1 to 1024"]);
    }
    fails(&["run", &good, "--log"], &["--out"]);
    fails(&["run", &good, "--out", &good], &["s.toml"]);
}

#[test]
fn the_schema_is_json() {
    let schema: Value = serde_json::from_str(&printed(&["run", "--schema"])).unwrap();
    assert_eq!(schema["title"], "Scenario");
    assert!(schema["properties"]["handshake"].is_object());
}
