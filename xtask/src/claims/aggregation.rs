//! Claims on the goodput that MAC aggregation gains.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    [static_gains(), static_goodput(), static_gains_by_the_paper(), drives()]
        .into_iter()
        .flatten()
        .collect()
}

/// Bytes of a message, loss in percent, the gain that Wagner et al. report, and our own target by
/// their accounting.
const SCENARIOS: [(&str, &str, f64, f64); 3] =
    [("10", "0.25", 90.6, 86.0), ("30", "0.30", 36.5, 35.0), ("70", "0.45", 16.6, 16.0)];

/// The figure of the best scheme in a static scenario. The number of messages is enough for
/// confidence intervals of a third of a percent or less.
fn best(payload: &str, accounting: &str, what: &str) -> Reading {
    let rows = format!("scenarios/0/rows[accounting={accounting}]");
    let line = format!(
        "{{scheme}}: {what} {{{what}_percent:.2}} ± {{{what}_error_percent:.2}} %, \
         {{loss_percent:.3}} % lost"
    );
    read(LAB.run(format!("scenarios --payload {payload} --messages 400000 --json")))
        .line("400000 messages each, intervals of 95 %")
        .each(rows.clone(), line)
        .reduced(greatest, rows, format!("{what}_percent"))
}

fn static_gains() -> Vec<Claim> {
    let row = |(payload, loss, bar, _)| {
        format!(
            "Gain in goodput, in %, of the best aggregation scheme over plain tags, for messages \
             of {payload} B at {loss} % loss over sockets; all datagram bytes count. Bar: the gain \
             reported by Wagner et al."
        )
        .claim(format!("static-{payload}-gain"), AtLeast(bar), Seconds(60))
        .by(best(payload, "ours", "gain"))
    };
    SCENARIOS.map(row).into()
}

fn static_goodput() -> Vec<Claim> {
    vec![
        "Goodput, in %, of the best aggregation scheme for messages of 10 B at 0.25 % loss over \
            sockets: verified payload over all bytes sent. Bar: our own target; Wagner et al. \
            report 61.34"
            .claim("static-10-goodput", AtLeast(66.0), Seconds(60))
            .by(best("10", "ours", "goodput")),
    ]
}

fn static_gains_by_the_paper() -> Vec<Claim> {
    let row = |(payload, loss, paper, bar)| {
        format!(
            "Gain in goodput, in %, of the best aggregation scheme over plain tags, for messages \
             of {payload} B at {loss} % loss over sockets, by the accounting of Wagner et al. (5 B \
             beside payload and tags). Bar: our own target, just below their {paper}"
        )
        .claim(format!("static-{payload}-gain-paper"), AtLeast(bar), Seconds(60))
        .by(best(payload, "paper", "gain"))
    };
    SCENARIOS.map(row).into()
}

fn drives() -> Vec<Claim> {
    let families = [("agg", "Agg"), ("r2d2", "R2D2")];
    let gains = families.map(|(family, name)| {
        format!(
            "Goodput of a moving sender whose {name} parameters follow the loss, over its goodput \
             with plain tags (30 B messages, 10 a second); median of nine courses. Bar: our own \
             target"
        )
        .claim(format!("dynamic-{family}-gain"), AtLeast(1.3), Seconds(20))
        .by(median_drive(family, "gain"))
    });
    let windows = families.map(|(family, name)| {
        format!(
            "Share, in %, of running averages over 200 packets in which a moving sender's goodput \
             with adaptive {name} is at least 0.98 of that with plain tags; median of nine \
             courses. Bar: our own target"
        )
        .claim(format!("dynamic-{family}-windows"), AtLeast(95.0), Seconds(20))
        .by(median_drive(family, "windows_percent"))
    });
    gains.into_iter().chain(windows).collect()
}

/// The figure of the median course of a family of schemes, in the usual hall. The detail has all
/// halls.
fn median_drive(family: &str, what: &'static str) -> Reading {
    read(LAB.run("drives --json"))
        .each(
            format!("drives[family={family}]"),
            "{hall} course {seed}: goodput {goodput_percent:.1} %, {gain:.3} times plain tags', by \
             the paper's accounting {paper_goodput_percent:.1} %, {paper_gain:.3}; \
             {windows_percent:.1} % of windows, the worst {worst_window:.2}; {changes} changes",
        )
        .reduced(median, format!("drives[family={family}][hall=usual]"), what)
}
