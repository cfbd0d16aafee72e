//! The claim on proxies under a load that exceeds their capacity.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::number;
use crate::process::{capture, cargo};
use serde_json::Value;

pub(super) const CLAIMS: &[Claim] = &[Claim {
    name: "proxy-overload-unaccounted",
    about: "Number of messages neither delivered nor counted as dropped, of 2 000 000 in each \
        direction at a rate that two proxies on the loopback interface cannot take. Bar: \
        there may be none",
    bar: Bar::AtMost(0.0),
    seconds: 40,
    measure,
}];

/// Number of messages in each direction.
const MESSAGES: u32 = 2_000_000;
/// The test that is run with this number of messages.
const TEST: &str = "every_message_of_an_overload_is_delivered_or_counted";

fn measure() -> Result<Measured, Unmeasured> {
    if !cfg!(target_os = "linux") {
        return Err(Unmeasured::NotHere("the kernel's counts of dropped datagrams".into()));
    }
    let name = format!("lightseal-overload-{}.json", std::process::id());
    let report = std::env::temp_dir().join(name);
    let words =
        ["test", "--quiet", "--release", "--package", "lightseal", "--test", "proxy_overload"];
    let mut test = cargo(&[&words[..], &["--", "--exact", TEST]].concat());
    test.env("LIGHTSEAL_OVERLOAD", MESSAGES.to_string()).env("LIGHTSEAL_OVERLOAD_REPORT", &report);
    let ran = capture(test);
    let text = std::fs::read_to_string(&report);
    let _ = std::fs::remove_file(&report);
    // A test that fails because messages are missing writes its report before.
    let text = match (ran, text) {
        (_, Ok(text)) => text,
        (Err(why), Err(_)) => return Err(Unmeasured::Broken(why)),
        (Ok(_), Err(error)) => return Err(Unmeasured::Broken(format!("no report: {error}"))),
    };
    let report: Value = serde_json::from_str(&text)
        .map_err(|error| Unmeasured::Broken(format!("the report is no JSON: {error}")))?;
    judged(&report)
}

fn judged(report: &Value) -> Result<Measured, Unmeasured> {
    let (mut figure, mut detail) = (0.0, String::new());
    for (way, title) in [("out", "applications to service"), ("back", "service to applications")] {
        let count = |name| number(report, &format!("/{way}/{name}"));
        let (sent, delivered, counted) = (count("sent")?, count("delivered")?, count("counted")?);
        detail +=
            &format!("{title}: {sent} sent, {delivered} delivered, {counted} counted as dropped\n");
        // If the proxies could take the load, the run shows nothing.
        if sent < f64::from(MESSAGES) / 2.0 || counted == 0.0 {
            return Err(Unmeasured::Broken(format!("no overload\n{detail}")));
        }
        figure += (sent - delivered - counted).abs();
    }
    Ok(Measured { figure, detail })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_missing_or_too_much_counts_and_a_small_load_is_no_figure() {
        let way = |sent, delivered, counted| json!({ "sent": sent, "delivered": delivered, "counted": counted });
        let good = way(2_000_000, 500_000, 1_500_000);
        let figure = |out: Value| {
            judged(&json!({ "out": out, "back": good })).map(|measured| measured.figure)
        };
        assert!(figure(good.clone()).is_ok_and(|figure| figure == 0.0));
        assert!(figure(way(2_000_000, 500_000, 1_499_998)).is_ok_and(|figure| figure == 2.0));
        assert!(figure(way(2_000_000, 500_003, 1_500_000)).is_ok_and(|figure| figure == 3.0));
        assert!(matches!(figure(way(2_000_000, 2_000_000, 0)), Err(Unmeasured::Broken(_))));
        assert!(matches!(figure(way(10, 5, 5)), Err(Unmeasured::Broken(_))));
    }
}
