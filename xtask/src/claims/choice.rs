//! Claims on the choice between aggregation schemes.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{number, run_json};
use serde_json::Value;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "choice-constants",
        about: "Largest difference between the scheme-choice boundaries in the source and a \
            fresh fit, as a loss rate in units of 1/65536. Bar: the unit to which they are \
            rounded",
        bar: Bar::AtMost(1.0),
        seconds: 40,
        measure: constants,
    },
    Claim {
        name: "choice-regret",
        about: "Goodput of our rule for choosing schemes over that of the rule of Wagner et al., \
            in 1000 fresh sessions: the worst of six kinds of family and channel. Bar: our \
            rule is never worse",
        bar: Bar::AtLeast(1.0),
        seconds: 30,
        measure: regret,
    },
];

fn constants() -> Result<Measured, Unmeasured> {
    let fit = run_json("lightseal-lab", "lightseal-lab", &["choice", "--json"])?;
    let mut detail = format!(
        "{} channels of {} packets, seed {}\n",
        number(&fit, "/channels")?,
        number(&fit, "/packets")?,
        number(&fit, "/seed")?
    );
    for boundary in rows(&fit, "boundaries")? {
        detail += &format!(
            "{} to {}: residual {:.5} over {} points\n",
            text(boundary, "below"),
            text(boundary, "above"),
            number(boundary, "/residual")?,
            number(boundary, "/points")?,
        );
    }
    Ok(Measured { figure: number(&fit, "/difference")?, detail })
}

fn regret() -> Result<Measured, Unmeasured> {
    let result = run_json("lightseal-lab", "lightseal-lab", &["rules", "--json"])?;
    let mut figure = f64::INFINITY;
    let mut detail = String::from("goodput over that of the best member kept throughout\n");
    for pair in rows(&result, "rows")?.chunks(2) {
        let [paper, ours] = pair else {
            return Err(Unmeasured::Broken("a rule is missing".into()));
        };
        let [theirs, own] = [paper, ours].map(|row| number(row, "/goodput"));
        let (theirs, own) = (theirs?, own?);
        detail += &format!(
            "{} on {} channels: {} {theirs:.4}, {} {own:.4}\n",
            text(paper, "family"),
            text(paper, "channels"),
            text(paper, "rule"),
            text(ours, "rule"),
        );
        figure = figure.min(own / theirs);
    }
    Ok(Measured { figure, detail })
}

fn rows<'a>(value: &'a Value, name: &str) -> Result<&'a [Value], Unmeasured> {
    match value[name].as_array() {
        Some(rows) if !rows.is_empty() => Ok(rows),
        _ => Err(Unmeasured::Broken(format!("there are no {name}"))),
    }
}

fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row[name].as_str().unwrap_or("?")
}
