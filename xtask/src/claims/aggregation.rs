//! Claims on the goodput that MAC aggregation gains.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{number, run_json};
use serde_json::Value;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "static-10-gain",
        about: "Gain in goodput, in %, of the best aggregation scheme over plain tags, for \
            messages of 10 B at 0.25 % loss over sockets; all datagram bytes count. Bar: the \
            gain reported by Wagner et al.",
        bar: Bar::AtLeast(90.6),
        seconds: 60,
        measure: || gain("10", "ours"),
    },
    Claim {
        name: "static-30-gain",
        about: "Gain in goodput, in %, of the best aggregation scheme over plain tags, for \
            messages of 30 B at 0.30 % loss over sockets; all datagram bytes count. Bar: the \
            gain reported by Wagner et al.",
        bar: Bar::AtLeast(36.5),
        seconds: 60,
        measure: || gain("30", "ours"),
    },
    Claim {
        name: "static-70-gain",
        about: "Gain in goodput, in %, of the best aggregation scheme over plain tags, for \
            messages of 70 B at 0.45 % loss over sockets; all datagram bytes count. Bar: the \
            gain reported by Wagner et al.",
        bar: Bar::AtLeast(16.6),
        seconds: 60,
        measure: || gain("70", "ours"),
    },
    Claim {
        name: "static-10-goodput",
        about: "Goodput, in %, of the best aggregation scheme for messages of 10 B at 0.25 % \
            loss over sockets: verified payload over all bytes sent. Bar: our own target; \
            Wagner et al. report 61.34",
        bar: Bar::AtLeast(66.0),
        seconds: 60,
        measure: || best("10", "ours", "goodput"),
    },
    Claim {
        name: "static-10-gain-paper",
        about: "Gain in goodput, in %, of the best aggregation scheme over plain tags, for \
            messages of 10 B at 0.25 % loss over sockets, by the accounting of Wagner et al. \
            (5 B beside payload and tags). Bar: our own target, just below their 90.6",
        bar: Bar::AtLeast(86.0),
        seconds: 60,
        measure: || gain("10", "paper"),
    },
    Claim {
        name: "static-30-gain-paper",
        about: "Gain in goodput, in %, of the best aggregation scheme over plain tags, for \
            messages of 30 B at 0.30 % loss over sockets, by the accounting of Wagner et al. \
            (5 B beside payload and tags). Bar: our own target, just below their 36.5",
        bar: Bar::AtLeast(35.0),
        seconds: 60,
        measure: || gain("30", "paper"),
    },
    Claim {
        name: "static-70-gain-paper",
        about: "Gain in goodput, in %, of the best aggregation scheme over plain tags, for \
            messages of 70 B at 0.45 % loss over sockets, by the accounting of Wagner et al. \
            (5 B beside payload and tags). Bar: our own target, just below their 16.6",
        bar: Bar::AtLeast(16.0),
        seconds: 60,
        measure: || gain("70", "paper"),
    },
    Claim {
        name: "dynamic-agg-gain",
        about: "Goodput of a moving sender whose Agg parameters follow the loss, over its \
            goodput with plain tags (30 B messages, 10 a second); median of nine courses. \
            Bar: our own target",
        bar: Bar::AtLeast(1.3),
        seconds: 20,
        measure: || drives("agg", "gain"),
    },
    Claim {
        name: "dynamic-r2d2-gain",
        about: "Goodput of a moving sender whose R2D2 parameters follow the loss, over its \
            goodput with plain tags (30 B messages, 10 a second); median of nine courses. \
            Bar: our own target",
        bar: Bar::AtLeast(1.3),
        seconds: 20,
        measure: || drives("r2d2", "gain"),
    },
    Claim {
        name: "dynamic-agg-windows",
        about: "Share, in %, of running averages over 200 packets in which a moving sender's \
            goodput with adaptive Agg is at least 0.98 of that with plain tags; median of \
            nine courses. Bar: our own target",
        bar: Bar::AtLeast(95.0),
        seconds: 20,
        measure: || drives("agg", "windows_percent"),
    },
    Claim {
        name: "dynamic-r2d2-windows",
        about: "Share, in %, of running averages over 200 packets in which a moving sender's \
            goodput with adaptive R2D2 is at least 0.98 of that with plain tags; median of \
            nine courses. Bar: our own target",
        bar: Bar::AtLeast(95.0),
        seconds: 20,
        measure: || drives("r2d2", "windows_percent"),
    },
];

/// Messages of a session: enough for confidence intervals of a third of a percent or less.
const MESSAGES: &str = "400000";

fn gain(payload: &str, accounting: &str) -> Result<Measured, Unmeasured> {
    best(payload, accounting, "gain")
}

/// The figure of the best scheme in a static scenario.
fn best(payload: &str, accounting: &str, what: &str) -> Result<Measured, Unmeasured> {
    let arguments = ["scenarios", "--payload", payload, "--messages", MESSAGES, "--json"];
    let result = run_json("lightseal-lab", "lightseal-lab", &arguments)?;
    let rows = result["scenarios"][0]["rows"].as_array();
    let rows = rows.ok_or_else(|| Unmeasured::Broken("there are no rows".into()))?;
    let mut detail = format!("{MESSAGES} messages each, intervals of 95 %\n");
    let mut figure = f64::MIN;
    for row in rows.iter().filter(|row| row["accounting"] == accounting) {
        let value = number(row, &format!("/{what}_percent"))?;
        detail += &format!(
            "{}: {what} {value:.2} ± {:.2} %, {:.3} % lost\n",
            row["scheme"].as_str().unwrap_or("?"),
            number(row, &format!("/{what}_error_percent"))?,
            number(row, "/loss_percent")?,
        );
        figure = figure.max(value);
    }
    Ok(Measured { figure, detail })
}

/// The figure of the median course of a family of schemes, in the usual hall.
fn drives(family: &str, what: &str) -> Result<Measured, Unmeasured> {
    let result = run_json("lightseal-lab", "lightseal-lab", &["drives", "--json"])?;
    let rows = result["drives"].as_array();
    let rows = rows.ok_or_else(|| Unmeasured::Broken("there are no drives".into()))?;
    let mut detail = String::new();
    let mut values = Vec::new();
    let of_family = |row: &&Value| row["family"] == family;
    for row in rows.iter().filter(of_family) {
        let hall = row["hall"].as_str().unwrap_or("?");
        detail += &format!(
            "{hall} course {}: goodput {:.1} %, {:.3} times plain tags', by the paper's accounting \
             {:.1} %, {:.3}; {:.1} % of windows, the worst {:.2}; {} changes\n",
            number(row, "/seed")?,
            number(row, "/goodput_percent")?,
            number(row, "/gain")?,
            number(row, "/paper_goodput_percent")?,
            number(row, "/paper_gain")?,
            number(row, "/windows_percent")?,
            number(row, "/worst_window")?,
            number(row, "/changes")?,
        );
        if hall == "usual" {
            values.push(number(row, &format!("/{what}"))?);
        }
    }
    values.sort_by(f64::total_cmp);
    let median = values.get(values.len() / 2).copied();
    let figure = median.ok_or_else(|| Unmeasured::Broken("no drive in the usual hall".into()))?;
    Ok(Measured { figure, detail })
}
