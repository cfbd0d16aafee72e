//! The claim on groups whose processes are killed.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Number of members, acknowledged changes and groups lost, and of record numbers used \
            twice, after kill -9 of a controller or member at 200 random moments. Bar: there may \
            be none"
            .claim("group-kills", AtMost(0.0), Seconds(240))
            .by(kills()),
    ]
}

const TEST: LongTest = LongTest {
    package: "lightseal",
    file: "group_kills",
    name: "a_group_works_on_when_controller_and_members_are_killed",
    length: ("LIGHTSEAL_KILLS", 200),
    report: "LIGHTSEAL_KILLS_REPORT",
};

fn kills() -> Reading {
    read(TEST)
        .line(
            "{kills} kills, {kills_of_controller} of them of a controller; all answered again \
             after {median_ms} ms (median), at most {worst_ms} ms",
        )
        .each("lost[]", "lost: {}")
        .each("reused[]", "number used twice: {}")
        .each("stuck[]", "did not work on: {}")
        .needs("passed == 1")
        .needs("kills >= 200")
        .possible_if("#records == 1", "capturing on the loopback interface: {why_no_records}")
        .line("{records} different records on the wire")
        // Dozens of requests and answers are sent for each kill.
        .needs("records >= 10 * kills")
        .figure("#lost[] + #reused[] + #stuck[]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_counts_and_what_was_not_watched_is_no_figure() {
        let mut report = json!({
            "kills": 200, "kills_of_controller": 70, "median_ms": 1, "worst_ms": 2, "records": 9000,
            "why_no_records": "not root", "passed": 1, "lost": [], "reused": [], "stuck": [],
        });
        let judged = |report: &Value| kills().judge(report);
        assert!(judged(&report).is_ok_and(|measured| measured.figure == 0.0));
        report["lost"] = json!(["one"]);
        report["reused"] = json!(["two", "three"]);
        assert!(judged(&report).is_ok_and(|measured| measured.figure == 3.0));
        report["records"] = json!(7);
        assert!(matches!(judged(&report), Err(Failure::Failed(_))));
        report["records"] = Value::Null;
        assert!(matches!(judged(&report), Err(Failure::NotPossibleHere(_))));
        report["kills"] = json!(199);
        assert!(matches!(judged(&report), Err(Failure::Failed(_))));
        (report["kills"], report["passed"]) = (json!(200), json!(0));
        assert!(matches!(judged(&report), Err(Failure::Failed(_))));
    }
}
