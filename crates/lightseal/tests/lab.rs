//! Figures and bounds as a user gets them: files, and JSON for scripts.

mod program;

use program::{TempDir, lightseal};
use serde_json::Value;

fn printed(args: &[&str]) -> String {
    let output = lightseal(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{args:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_listed_figure_is_written_and_what_is_said_to_be_written_is_there() {
    let dir = TempDir::new();
    let out = dir.path("new/folder");
    let list = printed(&["lab", "figure", "--list"]);
    assert_eq!(list, printed(&["lab", "figure"]));
    // As few messages as may be: what is tested are the files.
    let said = printed(&["lab", "figure", "all", "--messages", "500", "--out", &out]);
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
    printed(&["lab", "figure", "lightmac-figure-1", "--out", &out, "--format", "svg"]);
    let names: Vec<_> = std::fs::read_dir(&out).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["lightmac-figure-1.svg"]);
}

#[test]
fn sessions_answer_scripts() {
    let of = |policy| {
        let args = ["lab", "sessions", "--attempts", "500", "--json", "--policy", policy];
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
    let text = printed(&["lab", "sessions", "--attempts", "100"]);
    assert!(text.contains("formula  17.24") && text.lines().count() == 5, "{text}");
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

#[test]
fn ciphers_answer_scripts() {
    let value: Value = serde_json::from_str(&printed(&["mac", "ciphers", "--json"])).unwrap();
    let taken = value.as_array().unwrap().iter().filter(|size| !size["taken_as"].is_null());
    assert_eq!(taken.count(), 4);
}
