//! Figures and results as users get them: files, and JSON for scripts.

use crate::program;

use program::{TempDir, fails, printed};
use serde_json::Value;

#[test]
fn every_listed_figure_is_written_and_what_is_said_to_be_written_is_there() {
    let dir = TempDir::new();
    let out = dir.path("new/folder");
    let list = printed(&["figure", "--list"]);
    assert_eq!(list, printed(&["figure"]));
    // The number of messages is as low as possible, since this tests the files and not the figures.
    let said = printed(&["figure", "all", "--messages", "500", "--runs", "2", "--out", &out]);
    assert_eq!(said.lines().count(), list.lines().count());
    for line in said.lines() {
        let files: Vec<_> = line.split(", ").filter(|part| part.starts_with(&out)).collect();
        assert!(files.len() >= 2, "{line}");
        for file in files {
            let file = file.split(" (").next().unwrap();
            let text = std::fs::read_to_string(file).unwrap();
            if file.ends_with(".json") {
                let value: Value = serde_json::from_str(&text).unwrap();
                assert!(list.contains(value["name"].as_str().unwrap()));
            } else if file.ends_with(".svg") {
                assert!(text.starts_with("<svg") && text.contains("</svg>"), "{file}");
            } else {
                assert!(text.lines().count() > 2, "{file}");
            }
        }
    }
}

#[test]
fn only_the_formats_asked_for_are_written() {
    let dir = TempDir::new();
    let out = dir.path("");
    printed(&["figure", "lightmac-figure-1", "--out", &out, "--format", "svg"]);
    let names: Vec<_> = std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["lightmac-figure-1.svg"]);
}

#[test]
fn a_quick_report_has_every_figure_wherever_it_is_made() {
    let dir = TempDir::new();
    let out = dir.path("report.html");
    // The directory has no `results`: stored results come from the program itself.
    let mut report = program::lab(&["report", "--quick", "--out", &out]);
    let ran = report.current_dir(dir.path("")).output().unwrap();
    assert!(ran.status.success() && ran.stderr.is_empty());
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(said.starts_with(&out) && said.lines().count() == 1, "{said}");
    let page = std::fs::read_to_string(&out).unwrap();
    for line in printed(&["figure", "--list"]).lines() {
        let name = line.split(' ').next().unwrap();
        assert!(page.contains(&format!("<h3 id=\"{name}\">")), "{name}");
        assert!(page.contains(&format!("<code>lightseal lab figure {name} ")), "{name}");
    }
    // Figures of stored results are there too.
    for name in [
        "lightmac-table-3",
        "lightmac-table-4",
        "lightmac-device",
        "aggregation-device",
        "duty-device",
        "group-figure-7",
        "group-figure-8",
        "group-figure-9",
        "gateway-table-2",
        "gateway-figure-5a",
        "gateway-figure-5b",
    ] {
        assert!(page.contains(&format!("<h3 id=\"{name}\">")), "{name}");
    }
    assert!(!page.contains("Missing.") && page.ends_with("</html>\n"));
    assert!(!page.contains("Not asked for"));
}

#[test]
fn a_report_of_some_figures_reads_stored_results_and_replaces_the_page_before_it() {
    let dir = TempDir::new();
    let out = dir.path("report.html");
    std::fs::write(&out, "x".repeat(1 << 24)).unwrap();
    let results = concat!(env!("CARGO_MANIFEST_DIR"), "/../../results");
    let only = "lightmac-table-1,lightmac-figure-1";
    printed(&["report", "--only", only, "--results", results, "--out", &out]);
    let page = std::fs::read_to_string(&out).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert_eq!(page.matches("Made by <code>lightseal lab figure").count(), 2);
    assert!(
        page.contains("Measured by <code>cargo xtask measure") && page.contains("Not asked for")
    );
    std::fs::write(dir.path("broken.json"), "{").unwrap();
    let broken = ["report", "--results", &dir.path(""), "--out", &out];
    fails(&broken, &["stored results", "broken.json"]);
}

#[test]
fn sessions_answer_scripts() {
    let of = |policy| {
        let args = ["sessions", "--attempts", "500", "--json", "--policy", policy];
        serde_json::from_str::<Value>(&printed(&args)).unwrap()
    };
    let (refuse, evict) = (of("refuse"), of("evict-idle:2h"));
    assert_eq!(refuse["formula"], evict["formula"]);
    let time = refuse["formula"]["time_congestion_percent"].as_f64().unwrap();
    assert!((time - 500.0 / 29.0).abs() < 1e-9);
    assert!(refuse["counted"]["attempts"].as_u64().unwrap() > 300);
    assert_eq!(refuse["counted"]["evicted"], 0);
    assert!(evict["counted"]["refused"].as_u64().unwrap() > 0);
    assert_eq!(evict["policy"], "evict-idle:7200s");
    let text = printed(&["sessions", "--attempts", "100"]);
    assert!(text.contains("formula  17.24") && text.lines().count() == 5, "{text}");
}

/// The JSON that a subcommand prints.
fn json(args: &[&str]) -> Value {
    serde_json::from_str(&printed(&[args, &["--json"]].concat())).unwrap()
}

#[test]
fn handshakes_are_measured_over_link_layers() {
    let args = ["handshake", "--profile", "tinydtls,1.3-no-cookie", "--runs", "10"];
    for link in [
        "x-mac,check_interval_ms=125",
        "tsch,slotframe=31,cells=1",
        "beacon,beacon_order=3,superframe_order=1",
        "always-on,retries=3",
    ] {
        let found = json(&[&args[..], &["--link", link]].concat());
        let of = |profile: &str| found["profiles"][profile]["duration_s"].as_f64().unwrap();
        assert!(of("1.3-no-cookie") < of("tinydtls"), "{link}");
        assert_eq!(found, json(&[&args[..], &["--link", link]].concat()), "{link}");
    }
    fails(&["handshake", "--link", "x-mac"], &["--link", "check_interval_ms"]);
    fails(
        &["handshake", "--link", "x-mac,check_interval_ms=1", "--runs", "1"],
        &["check_interval_ms", "from 12.5"],
    );
    fails(&["handshake", "--profile", "3.0"], &["3.0"]);
    fails(&["handshake", "--delivery", "1.5"], &["delivery", "from 0 to 1"]);
}

#[test]
fn the_best_scheme_is_the_first_and_suits() {
    let channel = ["--channel", "bernoulli,delivery=0.98", "--messages", "400"];
    let found = json(&[&["advise", "--max-delay", "5"], &channel[..]].concat());
    let schemes = found["schemes"].as_array().unwrap();
    let goodput = |of: &Value| of["goodput_percent"].as_f64().unwrap();
    assert_eq!(schemes[0]["suits"], true);
    let off = schemes.iter().find(|row| row["scheme"] == "off").unwrap();
    assert!(goodput(&schemes[0]) > goodput(off));
    let found = json(&[&["stream", "--scheme", "agg:4"], &channel[..]].concat());
    let of_stream = &found["schemes"][0];
    let of_advice = schemes.iter().find(|row| row["scheme"] == "agg:4").unwrap();
    assert_eq!(goodput(of_stream), goodput(of_advice));
    let any = ["advise", "--max-delay", "any"];
    fails(&[&any[..], &["--channel", "bernoulli,delivery=2"]].concat(), &["delivery"]);
    fails(&["advise"], &["required", "--max-delay"]);
    let soon = ["advise", "--max-delay", "0.5", "--messages", "100"];
    let text = printed(&soon);
    for part in ["one each 1 s", "within 0.5 s", "is more than 0.5 s", "best: --aggregate off"] {
        assert!(text.contains(part), "no {part:?} in {text}");
    }
    let long = ["advise", "--max-delay", "9", "--messages", "400"];
    let text = printed(&long);
    assert!(text.contains("best: --aggregate agg:8 --max-wait 9s"), "{text}");
}
