//! The claim on proxies under a load that exceeds their capacity.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Number of messages neither delivered nor counted as dropped, of 2 000 000 in each \
            direction at a rate that two proxies on the loopback interface cannot take. Bar: there \
            may be none"
            .claim("proxy-overload-unaccounted", AtMost(0.0), Seconds(40))
            .by(unaccounted()),
    ]
}

fn overloaded() -> Result<Value, Failure> {
    if !cfg!(target_os = "linux") {
        return Err(Failure::NotPossibleHere("the kernel's counts of dropped datagrams".into()));
    }
    let test = LongTest {
        package: "lightseal",
        file: "proxy_overload",
        name: "every_message_of_an_overload_is_delivered_or_counted",
        // Number of messages in each direction.
        length: ("LIGHTSEAL_OVERLOAD", 2_000_000),
        report: "LIGHTSEAL_OVERLOAD_REPORT",
    };
    test.run()
}

fn unaccounted() -> Reading {
    let line = "{sent} sent, {delivered} delivered, {counted} counted as dropped";
    let reading = read(overloaded)
        .each("out", format!("applications to service: {line}"))
        .each("back", format!("service to applications: {line}"));
    // If the proxies could take the load, the run shows nothing.
    let needs =
        ["out/sent >= 1000000", "back/sent >= 1000000", "out/counted > 0", "back/counted > 0"];
    let missing = |way| format!("|{way}/sent - {way}/delivered - {way}/counted|");
    needs.into_iter().fold(reading, Reading::needs).reduced(
        sum,
        "",
        [missing("out"), missing("back")].join(", "),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_too_much_counts_and_a_small_load_is_no_figure() {
        let way = |sent, delivered, counted| json!({ "sent": sent, "delivered": delivered, "counted": counted });
        let good = way(2_000_000, 500_000, 1_500_000);
        let figure = |out: Value| {
            let report = json!({ "out": out, "back": good });
            unaccounted().judge(&report).map(|measured| measured.figure)
        };
        assert!(figure(good.clone()).is_ok_and(|figure| figure == 0.0));
        assert!(figure(way(2_000_000, 500_000, 1_499_998)).is_ok_and(|figure| figure == 2.0));
        assert!(figure(way(2_000_000, 500_003, 1_500_000)).is_ok_and(|figure| figure == 3.0));
        assert!(matches!(figure(way(2_000_000, 2_000_000, 0)), Err(Failure::Failed(_))));
        assert!(matches!(figure(way(10, 5, 5)), Err(Failure::Failed(_))));
    }
}
