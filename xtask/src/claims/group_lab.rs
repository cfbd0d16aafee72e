//! Claims on groups in the lab: the Axiom paper's configurations, a group of 10 000 listeners, an
//! eviction under loss.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{number, run_json};
use crate::process::{capture, cargo};
use serde_json::Value;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "group-energy-sender",
        about: "Energy of the sender in the configurations DTLS Uni-Uni and Mul-Uni, over its \
            energy with Axiom: the smaller ratio. Bar: the factor of 7 reported by Tiloca et \
            al. (Axiom)",
        bar: Bar::AtLeast(7.0),
        seconds: 5,
        measure: || times("group-figure-11", &["DTLS Uni-Uni", "DTLS Mul-Uni"], "energy_mj", "mJ"),
    },
    Claim {
        name: "group-energy-listener",
        about: "Energy of a listener in the configurations DTLS Uni-Uni and Mul-Uni, over its \
            energy with Axiom: the smaller ratio. Bar: our own target; Tiloca et al. (Axiom) \
            report 6, and 6.5 in Table II",
        bar: Bar::AtLeast(5.5),
        seconds: 5,
        measure: || times("group-figure-12", &["DTLS Uni-Uni", "DTLS Mul-Uni"], "energy_mj", "mJ"),
    },
    Claim {
        name: "group-energy-paper",
        about: "Largest deviation, in %, of the four energy ratios of the two claims above from \
            Table II of Tiloca et al. (Axiom). Bar: our own target",
        bar: Bar::AtMost(15.0),
        seconds: 5,
        measure: off_paper,
    },
    Claim {
        name: "group-time-uni-uni",
        about: "Duration of a first transaction with DTLS Uni-Uni over that with Axiom. Bar: our \
            own target; Tiloca et al. (Axiom) report 5, most of which is neither radio nor \
            processor",
        bar: Bar::AtLeast(1.3),
        seconds: 5,
        measure: || times("group-figure-10", &["DTLS Uni-Uni"], "duration_s", "s"),
    },
    Claim {
        name: "group-time-mul-uni",
        about: "Duration of a first transaction with DTLS Mul-Uni over that with Axiom. Bar: our \
            own target; Tiloca et al. (Axiom) report 6, most of which is neither radio nor \
            processor",
        bar: Bar::AtLeast(2.0),
        seconds: 5,
        measure: || times("group-figure-10", &["DTLS Mul-Uni"], "duration_s", "s"),
    },
    Claim {
        name: "group-crowd-memory",
        about: "Heap, in bytes for each listener, of a sender that 10 000 listeners have \
            answered: the worse profile. Bar: our own target",
        bar: Bar::AtMost(128.0),
        seconds: 30,
        measure: crowd_memory,
    },
    Claim {
        name: "group-crowd-time",
        about: "A sender's processor time for each of 10 000 listeners over that for each of \
            1000, medians: the worse profile. Bar: our own target",
        bar: Bar::AtMost(1.3),
        seconds: 30,
        measure: crowd_time,
    },
    Claim {
        name: "group-rekey-step",
        about: "Number of members without the new keys after an eviction at 20 % loss, in groups \
            of 10 to 10 000 members, both profiles. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 40,
        measure: step,
    },
];

/// Values of the column `by`: rows measured by the lab, and rows from the paper.
const MEASURERS: [&str; 2] = ["lab", "paper"];

fn figure(name: &str) -> Result<Value, Unmeasured> {
    run_json("lightseal-lab", "lightseal-lab", &["figure", name, "--print"])
}

fn rows(figure: &Value) -> impl Iterator<Item = &Value> {
    figure["rows"].as_array().into_iter().flatten()
}

/// A configuration's value over that of Axiom.
fn ratio(figure: &Value, by: &str, configuration: &str) -> Result<f64, Unmeasured> {
    let is_meant = |row: &&Value| row["by"] == by && row["configuration"] == configuration;
    let row = rows(figure).find(is_meant);
    number(row.unwrap_or(&Value::Null), "/times_axiom")
}

/// The least ratio of some configurations; the detail shows all rows.
fn times(
    name: &str,
    configurations: &[&str],
    column: &str,
    unit: &str,
) -> Result<Measured, Unmeasured> {
    let figure = figure(name)?;
    let mut detail = String::new();
    for row in rows(&figure) {
        let text = |name: &str| row[name].as_str().unwrap_or("?").to_owned();
        detail += &format!(
            "{} by the {}: {:.3} {unit}, {:.2} times Axiom's\n",
            text("configuration"),
            text("by"),
            number(row, &format!("/{column}"))?,
            number(row, "/times_axiom")?,
        );
    }
    let mut least = f64::INFINITY;
    for configuration in configurations {
        least = least.min(ratio(&figure, "lab", configuration)?);
    }
    Ok(Measured { figure: least, detail })
}

fn off_paper() -> Result<Measured, Unmeasured> {
    let (mut worst, mut detail): (f64, _) = (0.0, String::new());
    for (name, node) in [("group-figure-11", "the sender"), ("group-figure-12", "a listener")] {
        let figure = figure(name)?;
        for configuration in ["DTLS Uni-Uni", "DTLS Mul-Uni"] {
            let [ours, paper] = MEASURERS.map(|by| ratio(&figure, by, configuration));
            let (ours, paper) = (ours?, paper?);
            let off = 100.0 * (ours / paper - 1.0);
            detail += &format!(
                "{configuration} at {node}: {ours:.2} times Axiom's, the paper {paper:.2}: {off:+.1} %\n"
            );
            worst = worst.max(off.abs());
        }
    }
    Ok(Measured { figure: worst, detail })
}

/// Heap and time that many listeners take at the sender, measured with a counting allocator.
fn crowd() -> Result<Value, Unmeasured> {
    let line = [
        "run",
        "--quiet",
        "--release",
        "--package",
        "lightseal-lab",
        "--example",
        "groups",
        "--",
        "crowd",
    ];
    let text = capture(cargo(&line)).map_err(Unmeasured::Broken)?;
    let result: Value = serde_json::from_str(&text)
        .map_err(|error| Unmeasured::Broken(format!("no JSON was printed: {error}")))?;
    for row in rows(&result) {
        if number(row, "/responses")? != number(row, "/listeners")? {
            return Err(Unmeasured::Broken(format!("not all have answered: {row}")));
        }
    }
    Ok(result)
}

fn shown(result: &Value) -> Result<String, Unmeasured> {
    let mut detail = String::new();
    for row in rows(result) {
        detail += &format!(
            "{}, {} listeners: {:.1} B of heap and {:.2} us at the sender for each, {:.2} us at the \
             listener; responses within {:.0} s\n",
            row["profile"].as_str().unwrap_or("?"),
            number(row, "/listeners")?,
            number(row, "/heap_bytes_a_listener")?,
            number(row, "/sender_us_a_listener")?,
            number(row, "/listener_us")?,
            number(row, "/virtual_seconds")?,
        );
    }
    Ok(detail)
}

fn crowd_memory() -> Result<Measured, Unmeasured> {
    let result = crowd()?;
    let mut worst = f64::NAN;
    for row in rows(&result).filter(|row| row["listeners"] == 10_000) {
        worst = worst.max(number(row, "/heap_bytes_a_listener")?);
    }
    Ok(Measured { figure: worst, detail: shown(&result)? })
}

fn crowd_time() -> Result<Measured, Unmeasured> {
    let result = crowd()?;
    let mut worst = f64::NAN;
    for large in rows(&result).filter(|row| row["listeners"] == 10_000) {
        let is_small =
            |row: &&Value| row["listeners"] == 1000 && row["profile"] == large["profile"];
        let small = rows(&result).find(is_small).unwrap_or(&Value::Null);
        let [large, small] = [large, small].map(|row| number(row, "/sender_us_a_listener"));
        worst = worst.max(large? / small?);
    }
    Ok(Measured { figure: worst, detail: shown(&result)? })
}

fn step() -> Result<Measured, Unmeasured> {
    let figure = figure("group-eviction")?;
    let (mut lost, mut detail) = (0.0, String::new());
    for row in rows(&figure) {
        let of = |name: &str| number(row, &format!("/{name}"));
        detail += &format!(
            "{}, {} members: {} out of step after {:.2} s, {} in step by {} announcements of {} B, {} pulls\n",
            row["profile"].as_str().unwrap_or("?"),
            of("members")?,
            of("out_of_step")?,
            of("duration_s")?,
            of("by_announcement")?,
            of("announcements")?,
            of("announcement_bytes")?,
            of("pulls")?,
        );
        if of("opened_by_evicted")? > 0.0 {
            return Err(Unmeasured::Broken(format!("the evicted member reads on: {row}")));
        }
        lost += of("out_of_step")?;
    }
    if detail.is_empty() {
        return Err(Unmeasured::Broken("no member was evicted".into()));
    }
    Ok(Measured { figure: lost, detail })
}
