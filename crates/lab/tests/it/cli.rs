//! The command line as users see it: wrong usage is one line on standard error and exit code 2.

use crate::program;

use program::{TempDir, fails, lab, printed};
use serde_json::Value;

#[test]
fn help_exists_for_every_command() {
    for command in [
        "",
        "run",
        "figure",
        "handshake",
        "stream",
        "advise",
        "sessions",
        "speed",
        "report",
        "mac bench",
        "mac bounds",
        "man",
        "completions",
    ] {
        let mut args: Vec<&str> = command.split_whitespace().collect();
        args.push("--help");
        assert!(printed(&args).contains("Usage: lightseal-lab"), "{command}");
    }
}

#[test]
fn every_command_has_a_manual_page_and_completions() {
    let dir = TempDir::new();
    let into = dir.path("man1");
    printed(&["man", &into]);
    let script = printed(&["completions", "bash"]);
    for (command, flag) in [
        ("lightseal-lab", "--verbose"),
        ("lightseal-lab-advise", "--max-delay"),
        ("lightseal-lab-sweep", "--shard"),
        ("lightseal-lab-report", "--results"),
        ("lightseal-lab-mac-bench", "--kernel"),
    ] {
        let page = std::fs::read_to_string(format!("{into}/{command}.1")).unwrap();
        // roff needs hyphens to be escaped.
        assert!(page.replace("\\-", "-").contains(flag), "{command}: {page}");
        assert!(script.contains(flag), "{command} {flag}");
    }
}

#[test]
fn wrong_usage_is_one_line_that_names_it() {
    for (wrong, expected) in [
        ("fly", "unrecognized subcommand 'fly'"),
        ("sessions --rho 0", "a number from 0.001 to 1000"),
        ("sessions --slots 0", "0 is not in 1..=100000"),
        ("sessions --session 0.5s", "--session must be 1s to 100h"),
        ("sessions --talk 1s", "--talk must be at least a thousandth"),
        ("sessions --policy evict-idle:5", "expected a time"),
        ("figure nosuch", "no figure nosuch"),
        ("figure all --list", "cannot be used with"),
        ("figure all --format png", "possible values: csv, json, svg"),
        ("figure all --list", "cannot be used with"),
        ("figure all --out Cargo.toml/x", "Cargo.toml/x"),
        ("report --only lightmac-table-1,nosuch", "no figure nosuch"),
        ("report --results nosuch", "stored results: nosuch"),
        ("report --out Cargo.toml/x", "Cargo.toml/x"),
        ("report --runs 1", "1 is not in 2..=1000000"),
        ("mac bounds --block-bits 33", "block of 33 bits"),
        ("mac bounds --counter-bits 33", "half a block's bits"),
        ("mac bounds --probability 2", "expected a probability such as 2^-20"),
        ("mac bounds --length 0", "expected blocks as 16"),
    ] {
        fails(&wrong.split_whitespace().collect::<Vec<_>>(), &[expected]);
    }
}

#[test]
fn without_a_subcommand_the_program_shows_what_there_is() {
    let output = lab(&[]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    for part in ["Usage:", "Commands:", "handshake", "advise", "completions"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    for command in [&["completions", "zsh"][..], &["figure", "--list"]] {
        let mut child = lab(command);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = child.stdout(writer).stderr(std::process::Stdio::piped()).output().unwrap();
        assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]), "{command:?}");
    }
}

/// The test checks that there are figures, and not their values.
#[test]
fn the_bench_fills_its_cells() {
    let bench = |args: &[&str]| {
        printed(&[&["mac", "bench", "--quick", "--kernel", "portable"], args].concat())
    };
    let modes = ["--mode", "lightmac,cmac", "--bytes", "64,2048"];
    let json = bench(&[&modes[..], &["--cipher", "present-80", "--json"]].concat());
    let json: Value = serde_json::from_str(&json).unwrap();
    let rows = json["rows"].as_array().unwrap();
    let row = |bytes: u64, s: u64| {
        rows.iter().find(|row| row["bytes"] == bytes && row["counter_bits"] == s)
    };
    assert!(row(64, 8).is_some() && row(2048, 24).is_some());
    assert!(row(2048, 8).is_none(), "longer than 8 counter bits allow");
    for row in rows {
        let [low, median, high] =
            ["low", "median", "high"].map(|part| row["cycles"][part].as_f64().unwrap());
        assert!(0.0 < low && low <= median && median <= high, "{row}");
        assert_eq!(row["kernel"], "portable");
    }
    let csv = bench(&["--cipher", "aes-256", "--mode", "gmac", "--bytes", "16", "--csv"]);
    let columns = |line: &str| line.split(',').count();
    assert_eq!(csv.lines().count(), 1 + 2 + 2, "{csv}");
    assert!(csv.lines().all(|line| columns(line) == columns(csv.lines().next().unwrap())), "{csv}");
    let text = bench(&["--bytes", "16", "--mode", "emac"]);
    for part in ["aes-128, kernel portable", "present-80, kernel portable", "EMAC", "GHz"] {
        assert!(text.contains(part), "{text}");
    }
    for (wrong, expected) in [
        (&["--kernel", "fast"][..], "--kernel fast: aes-128 has portable, "),
        (&["--bytes", "0"], "0 is not in 1.."),
        (
            &["--cipher", "aes-128", "--kernel", "avx512-gfni"],
            "none of these ciphers has this kernel",
        ),
        (&["--json", "--csv"], "cannot be used with"),
    ] {
        fails(&[&["mac", "bench", "--quick"], wrong].concat(), &[expected]);
    }
}

#[test]
fn bounds_answer_scripts_with_the_papers_example() {
    let text = printed(&["mac", "bounds", "--block-bits", "32", "--length", "16", "--json"]);
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["lightmac"]["theorem_1"]["messages"], 63);
    assert_eq!(value["lightmac"]["birthday_term"]["messages"], 64);
    let modes = value["modes"].as_array().unwrap();
    let typical = modes.iter().find(|mode| mode["name"] == "typical").unwrap();
    assert_eq!(typical["lengths"][0]["data_bytes"], 1024.0);
    let short = modes.iter().find(|mode| mode["name"] == "emac-short").unwrap();
    assert!(short["lengths"][0]["most_messages"].is_null());
    assert!(short["lengths"][0]["unproved"].is_string());
}
