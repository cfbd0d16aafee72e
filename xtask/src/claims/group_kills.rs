//! The claim on groups whose processes are killed.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::number;
use crate::process::{capture, cargo};
use serde_json::Value;

pub(super) const CLAIMS: &[Claim] = &[Claim {
    name: "group-kills",
    about: "Number of members, acknowledged changes and groups lost, and of record numbers used \
        twice, after kill -9 of a controller or member at 200 random moments. Bar: there may \
        be none",
    bar: Bar::AtMost(0.0),
    seconds: 240,
    measure,
}];

/// Number of kills.
const KILLS: u32 = 200;
/// The test that is run with this number of kills.
const TEST: &str = "a_group_works_on_when_controller_and_members_are_killed";

fn measure() -> Result<Measured, Unmeasured> {
    let name = format!("lightseal-group-kills-{}.json", std::process::id());
    let report = std::env::temp_dir().join(name);
    let words = ["test", "--quiet", "--release", "--package", "lightseal", "--test", "group_kills"];
    let mut test = cargo(&[&words[..], &["--", "--exact", TEST]].concat());
    test.env("LIGHTSEAL_KILLS", KILLS.to_string()).env("LIGHTSEAL_KILLS_REPORT", &report);
    let ran = capture(test);
    let text = std::fs::read_to_string(&report);
    let _ = std::fs::remove_file(&report);
    ran.map_err(Unmeasured::Broken)?;
    let text = text.map_err(|error| Unmeasured::Broken(format!("no report: {error}")))?;
    let report: Value = serde_json::from_str(&text)
        .map_err(|error| Unmeasured::Broken(format!("the report is no JSON: {error}")))?;
    judged(&report)
}

fn judged(report: &Value) -> Result<Measured, Unmeasured> {
    let count = |name| number(report, &format!("/{name}"));
    let kills = count("kills")?;
    let mut detail = format!(
        "{kills} kills, {} of them of a controller; all answered again after {} ms (median), at most {} ms\n",
        count("kills_of_controller")?,
        count("median_ms")?,
        count("worst_ms")?,
    );
    let mut figure = 0.0;
    for (what, name) in
        [("lost", "lost"), ("number used twice", "reused"), ("did not work on", "stuck")]
    {
        let found = report[name].as_array().map(Vec::as_slice).unwrap_or_default();
        figure += found.len() as f64;
        for line in found.iter().filter_map(Value::as_str).take(20) {
            detail += &format!("{what}: {line}\n");
        }
    }
    if kills < f64::from(KILLS) {
        return Err(Unmeasured::Broken(detail));
    }
    if report["records"].is_null() {
        let why = report["why_no_records"].as_str().unwrap_or_default();
        return Err(Unmeasured::NotHere(format!("capturing on the loopback interface: {why}")));
    }
    let records = count("records")?;
    detail += &format!("{records} different records on the wire\n");
    // Dozens of requests and answers are sent for each kill.
    if records < 10.0 * kills {
        return Err(Unmeasured::Broken(detail));
    }
    Ok(Measured { figure, detail })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_lost_counts_and_what_was_not_watched_is_no_figure() {
        let mut report = json!({
            "kills": 200, "kills_of_controller": 70, "median_ms": 1, "worst_ms": 2, "records": 9000,
            "lost": [], "reused": [], "stuck": [],
        });
        assert!(judged(&report).is_ok_and(|measured| measured.figure == 0.0));
        report["lost"] = json!(["one"]);
        report["reused"] = json!(["two", "three"]);
        assert!(judged(&report).is_ok_and(|measured| measured.figure == 3.0));
        report["records"] = json!(7);
        assert!(matches!(judged(&report), Err(Unmeasured::Broken(_))));
        report["records"] = Value::Null;
        assert!(matches!(judged(&report), Err(Unmeasured::NotHere(_))));
        report["kills"] = json!(199);
        assert!(matches!(judged(&report), Err(Unmeasured::Broken(_))));
    }
}
