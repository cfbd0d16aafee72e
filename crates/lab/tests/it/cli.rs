//! The command line as users see it: wrong usage is one line on standard error and exit code 2.

use crate::program;

use program::{TempDir, fails, lab, printed};

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
