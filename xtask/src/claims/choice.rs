//! Claims on the choice between aggregation schemes.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Largest difference between the scheme-choice boundaries in the source and a fresh fit, as \
            a loss rate in units of 1/65536. Bar: the unit to which they are rounded"
            .claim("choice-constants", AtMost(1.0), Seconds(40))
            .by(constants()),
        "Goodput of our rule for choosing schemes over that of the rule of Wagner et al., in 1000 \
            fresh sessions: the worst of six kinds of family and channel. Bar: our rule is never \
            worse"
            .claim("choice-regret", AtLeast(1.0), Seconds(30))
            .by(regret()),
    ]
}

fn constants() -> Reading {
    read(LAB.run("choice --json"))
        .line("{channels} channels of {packets} packets, seed {seed}")
        .each("boundaries[]", "{below} to {above}: residual {residual:.5} over {points} points")
        .needs("#boundaries[] > 0")
        .figure("difference")
}

fn regret() -> Reading {
    read(pairs)
        .line("goodput over that of the best member kept throughout")
        .each(
            "pairs[]",
            "{paper/family} on {paper/channels} channels: {paper/rule} {paper/goodput:.4}, \
             {ours/rule} {ours/goodput:.4}",
        )
        .reduced(least, "pairs[]", "ours/goodput / paper/goodput")
}

/// The paper's rule and ours for each kind of family and channel: they follow each other.
fn pairs() -> Result<Value, Failure> {
    let rules = LAB.run("rules --json").json()?;
    let pair = |rows: &[&Value]| json!({ "paper": rows[0], "ours": rows.get(1) });
    let pairs: Vec<_> = select(&rules, "rows[]").chunks(2).map(pair).collect();
    Ok(json!({ "pairs": pairs }))
}
