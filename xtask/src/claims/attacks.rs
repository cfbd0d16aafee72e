//! Claims on attackers on the path of records that share tags.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{number, run_json, run_json_with};
use serde_json::Value;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "injection-goodput",
        about: "Goodput lost, in %, when an attacker injects junk at 10 % of the packet rate: \
            the worst scheme and loss rate at which at least two thirds of the payload are \
            verified without junk. Bar: our own target",
        bar: Bar::AtMost(2.0),
        seconds: 20,
        measure: injection,
    },
    Claim {
        name: "rivals-ahead-of-one",
        about: "Records delivered, in %, when four junk records precede one record of each set \
            under its number (30 and 1000 B payloads): the worst scheme. Bar: our own target",
        bar: Bar::AtLeast(60.0),
        seconds: 30,
        measure: || rivals(|cell| cell.attack == "four_ahead_of_one"),
    },
    Claim {
        name: "rivals-long",
        about: "Records delivered, in %, when one junk record of 16 300 B precedes every fourth \
            record (30 and 1000 B payloads): the worst scheme. Bar: our own target",
        bar: Bar::AtLeast(95.0),
        seconds: 30,
        measure: || rivals(|cell| cell.attack == "one_long"),
    },
    Claim {
        name: "rivals-ahead-of-all-checked",
        about: "Records delivered, in %, when four junk records precede every record (30 and \
            1000 B payloads): the worst scheme that adds a check byte. Bar: our own target",
        bar: Bar::AtLeast(90.0),
        seconds: 30,
        measure: || rivals(|cell| cell.attack == "four_ahead_of_all" && cell.is_checked()),
    },
    Claim {
        name: "rivals-plain",
        about: "Records delivered, in %, with plain tags under each of the junk attacks of the \
            other rivals claims: the worst attack. Bar: nothing may be lost",
        bar: Bar::AtLeast(100.0),
        seconds: 30,
        measure: || rivals(|cell| cell.scheme == "off"),
    },
    Claim {
        name: "forgery-aggregate-lightmac",
        about: "Number of forged or repeated records accepted as verified in 1 000 000 attacks \
            on each of eight aggregation schemes with LightMAC tags. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 400,
        measure: || forgery("lightmac", "1000000"),
    },
    Claim {
        name: "forgery-aggregate-ccm",
        about: "Number of forged or repeated records accepted as verified in 1 000 000 attacks \
            on each of eight aggregation schemes with AES-CCM tags. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 400,
        measure: || forgery("ccm", "1000000"),
    },
    Claim {
        name: "forgery-aggregate-hmac",
        about: "Number of forged or repeated records accepted as verified in 1 000 000 attacks \
            on each of eight aggregation schemes with HMAC-SHA256 tags. Bar: there may be \
            none",
        bar: Bar::AtMost(0.0),
        seconds: 400,
        measure: || forgery("hmac", "1000000"),
    },
    Claim {
        name: "forgery-gcm",
        about: "Number of successful forgeries in 300 attacks on aggregated AES-GCM tags, a \
            combination that is broken and therefore not offered. Bar: every attack succeeds",
        bar: Bar::AtLeast(300.0),
        seconds: 1,
        measure: || forgery("gcm", "75"),
    },
];

/// The feature with the paper's broken suite, which is compiled in for `forgery-gcm` alone.
const DANGEROUS: &str = "dangerous-gcm-aggregation";

/// There is no figure if a record was forged, or if flooding one record number made the receiver
/// hold more records or evaluate more sets than the bounds allow.
fn injection() -> Result<Measured, Unmeasured> {
    let result = run_json("fuzz", "campaign", &["injection"])?;
    let mut detail = String::from("goodput without junk, with junk, and the loss in percent\n");
    for cell in rows(&result, "cells") {
        let count = |name| number(cell, &format!("/{name}"));
        detail += &format!(
            "{} {} at {:.1} % loss: {:.4} {:.4} {:.2} %, {} junk datagrams, {:.2} evaluations each, \
             {} bytes held\n",
            text(cell, "suite"),
            text(cell, "scheme"),
            count("loss_percent")?,
            count("clean")?,
            count("junk")?,
            count("fall_percent")?,
            count("junk_datagrams")?,
            count("evaluations_per_junk")?,
            count("most_held_bytes")?,
        );
    }
    let (mut given, mut expected) = (0.0, 0.0);
    for early in rows(&result, "early") {
        let count = |name| number(early, &format!("/{name}"));
        given += count("given")?;
        expected += count("junk_datagrams")? * (-count("bits")?).exp2();
    }
    detail += &format!(
        "early delivery from 16 and 32 bits: {given} junk payloads given, {expected:.3} expected at most\n"
    );
    let all = number(&result, "/worst_fall_percent_of_all")?;
    detail += &format!("{all:.2} % where less than two thirds are verified without junk, too\n");
    let (mut held, mut evaluated) = (0f64, 0f64);
    for flood in rows(&result, "floods") {
        let count = |name| number(flood, &format!("/{name}"));
        held = held.max(count("held")?);
        evaluated = evaluated.max(count("evaluated")?);
    }
    detail += &format!("a number flooded with 1000: at most {held} held and {evaluated} evaluated");
    if number(&result, "/forged")? > 0.0 || held > 4.0 || evaluated > 64.0 {
        return Err(Unmeasured::Broken(detail));
    }
    Ok(Measured { figure: number(&result, "/worst_fall_percent")?, detail })
}

/// The outcome of one attack on one scheme.
struct Cell<'a> {
    scheme: &'a str,
    attack: &'a str,
    payload: f64,
    any_length: bool,
    percent: f64,
    most_held: f64,
}

impl Cell<'_> {
    fn is_checked(&self) -> bool {
        self.scheme.ends_with("+check")
    }
}

/// The least delivery among the cells that count; the detail shows all cells. There is no figure if
/// a record was forged.
fn rivals(counts: impl Fn(&Cell<'_>) -> bool) -> Result<Measured, Unmeasured> {
    let result = run_json("fuzz", "campaign", &["rivals"])?;
    let mut detail = format!("of {} records each\n", number(&result, "/records")?);
    let (mut least, mut forged) = (f64::INFINITY, 0.0);
    for cell in rows(&result, "cells") {
        let count = |name| number(cell, &format!("/{name}"));
        forged += count("forged")?;
        let cell = Cell {
            scheme: text(cell, "scheme"),
            attack: text(cell, "attack"),
            payload: count("payload")?,
            any_length: cell["any_length"] == true,
            percent: count("delivered_percent")?,
            most_held: count("most_held_bytes")?,
        };
        let counts = counts(&cell);
        if counts {
            least = least.min(cell.percent);
        }
        detail += &format!(
            "{}{} {} B, {}{}: {:.1} %, {} bytes held\n",
            if counts { "* " } else { "  " },
            cell.scheme,
            cell.payload,
            cell.attack,
            if cell.any_length { ", records of any length taken" } else { "" },
            cell.percent,
            cell.most_held,
        );
    }
    if forged > 0.0 || !least.is_finite() {
        return Err(Unmeasured::Broken(detail));
    }
    Ok(Measured { figure: least, detail })
}

fn forgery(suite: &str, attempts: &str) -> Result<Measured, Unmeasured> {
    let arguments = ["forgery", suite, "--count", attempts];
    let features: &[&str] = if suite == "gcm" { &[DANGEROUS] } else { &[] };
    let result = run_json_with(features, "fuzz", "campaign", &arguments)?;
    let count = |name| number(&result, &format!("/{name}"));
    let detail = format!(
        "{} attacks on {} schemes, {} forged; {} of {} genuine records arrived all the same; where data \
         was wanted unverified, {} forged payloads were given and {} of them refuted",
        count("attempts")?,
        count("schemes")?,
        count("forged")?,
        count("delivered")?,
        count("sent")?,
        count("early")?,
        count("refuted")?,
    );
    Ok(Measured { figure: count("forged")?, detail })
}

fn rows<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    value[name].as_array().into_iter().flatten()
}

fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or("?")
}
