//! Claims on groups that are attacked by their own members.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::number;
use crate::process::{capture, cargo};
use serde_json::Value;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "group-evict-seconds",
        about: "Longest time, in seconds, from an eviction until the last sender has left the \
            old epoch, over profiles, suites and policies, when the evicted device has used \
            up the controller's record numbers and the controller's datagrams are lost \
            (none, 20 %, the first second, both). Bar: our own target",
        bar: Bar::AtMost(5.0),
        seconds: 120,
        measure: || evicted(HEARD, "senders_seconds"),
    },
    Claim {
        name: "group-evict-jammed",
        about: "Longest time, in seconds, from an eviction until the last member has left the \
            old epoch, when nothing that the controller multicasts arrives. Bar: our own \
            target",
        bar: Bar::AtMost(300.0),
        seconds: 120,
        measure: || evicted(JAMMED, "all_seconds"),
    },
    Claim {
        name: "group-evict-opened",
        about: "Number of records sealed in the new epoch that the evicted device opens, plus \
            members that never enter that epoch, in the evictions of the two claims above. \
            Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 240,
        measure: opened,
    },
    Claim {
        name: "group-evict-waiting-join",
        about: "Number of keys given to, and memberships after a restart of, a device that was \
            evicted or revoked while its join was waiting. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 10,
        measure: || {
            let test = "a_join_that_waits_is_refused_when_its_device_is_evicted_or_revoked";
            let report = report("lightseal-group-host", "attack", test)?;
            Ok(Measured { figure: number(&report, "/keys")?, detail: String::new() })
        },
    },
    Claim {
        name: "group-rejoins",
        about: "Requests that listeners receive, in %, while devices join again and again for \
            ten minutes and 5 % of the controller's announcements are lost. Bar: our own \
            target",
        bar: Bar::AtLeast(99.0),
        seconds: 20,
        measure: rejoins,
    },
];

const HEARD: &str = "senders_leave_the_epoch_of_an_evicted_device_within_five_seconds";
const JAMMED: &str = "where_nothing_of_the_controller_arrives_members_ask_it_from_time_to_time";
/// Number of seeds that are run for each policy and kind of loss.
const SEEDS: u32 = 25;

/// The JSON report that a test writes of its long run.
fn report(package: &str, file: &str, test: &str) -> Result<Value, Unmeasured> {
    let name = format!("lightseal-{test}-{}.json", std::process::id());
    let path = std::env::temp_dir().join(name);
    let words = ["test", "--quiet", "--release", "--package", package, "--test", file];
    let mut test = cargo(&[&words[..], &["--", "--exact", test]].concat());
    test.env("LIGHTSEAL_SEEDS", SEEDS.to_string()).env("LIGHTSEAL_REPORT", &path);
    let ran = capture(test);
    let text = std::fs::read_to_string(&path);
    let _ = std::fs::remove_file(&path);
    // A test writes its report before it fails.
    match (ran, text) {
        (_, Ok(text)) => serde_json::from_str(&text)
            .map_err(|error| Unmeasured::Broken(format!("the report is no JSON: {error}"))),
        (Err(error), Err(_)) => Err(Unmeasured::Broken(error)),
        (Ok(_), Err(error)) => Err(Unmeasured::Broken(format!("no report: {error}"))),
    }
}

fn evicted(test: &str, column: &str) -> Result<Measured, Unmeasured> {
    let report = report("lightseal-group", "eviction", test)?;
    let of = |name: &str| number(&report, &format!("/{name}"));
    if of("behind")? > 0.0 {
        return Err(Unmeasured::Broken(format!("members never left the old epoch: {report}")));
    }
    let detail = format!(
        "{} evictions: the last sender after {:.2} s, the last member after {:.2} s\n",
        of("trials")?,
        of("senders_seconds")?,
        of("all_seconds")?,
    );
    Ok(Measured { figure: of(column)?, detail })
}

fn opened() -> Result<Measured, Unmeasured> {
    let (mut figure, mut detail) = (0.0, String::new());
    for test in [HEARD, JAMMED] {
        let report = report("lightseal-group", "eviction", test)?;
        let of = |name: &str| number(&report, &format!("/{name}"));
        let (opened, behind) = (of("opened")?, of("behind")?);
        figure += opened + behind;
        detail += &format!("{} evictions: {opened} opened, {behind} behind\n", of("trials")?);
    }
    Ok(Measured { figure, detail })
}

fn rejoins() -> Result<Measured, Unmeasured> {
    let test = "devices_that_join_again_and_again_keep_nobody_from_hearing";
    let report = report("lightseal-group", "attack", test)?;
    let lines = report["lines"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let detail = lines.map(|line| format!("{line}\n")).collect();
    Ok(Measured { figure: number(&report, "/heard_percent")?, detail })
}
