//! Claims on attackers on the path of records that share tags.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    let mut claims = vec![
        "Goodput lost, in %, when an attacker injects junk at 10 % of the packet rate: the worst \
            scheme and loss rate at which at least two thirds of the payload are verified without \
            junk. Bar: our own target"
            .claim("injection-goodput", AtMost(2.0), Seconds(20))
            .by(injection()),
        "Records delivered, in %, when four junk records precede one record of each set under its \
            number (30 and 1000 B payloads): the worst scheme. Bar: our own target"
            .claim("rivals-ahead-of-one", AtLeast(60.0), Seconds(30))
            .by(|| rivals(|cell| cell["attack"] == "four_ahead_of_one")),
        "Records delivered, in %, when one junk record of 16 300 B precedes every fourth record \
            (30 and 1000 B payloads): the worst scheme. Bar: our own target"
            .claim("rivals-long", AtLeast(95.0), Seconds(30))
            .by(|| rivals(|cell| cell["attack"] == "one_long")),
        "Records delivered, in %, when four junk records precede every record (30 and 1000 B \
            payloads): the worst scheme that adds a check byte. Bar: our own target"
            .claim("rivals-ahead-of-all-checked", AtLeast(90.0), Seconds(30))
            .by(|| rivals(|cell| cell["attack"] == "four_ahead_of_all" && is_checked(cell))),
        "Records delivered, in %, with plain tags under each of the junk attacks of the other \
            rivals claims: the worst attack. Bar: nothing may be lost"
            .claim("rivals-plain", AtLeast(100.0), Seconds(30))
            .by(|| rivals(|cell| cell["scheme"] == "off")),
    ];
    let suites = [("lightmac", "LightMAC"), ("ccm", "AES-CCM"), ("hmac", "HMAC-SHA256")];
    claims.extend(suites.map(|(suite, name)| {
        format!(
            "Number of forged or repeated records accepted as verified in 1 000 000 attacks on \
             each of eight aggregation schemes with {name} tags. Bar: there may be none"
        )
        .claim(format!("forgery-aggregate-{suite}"), AtMost(0.0), Seconds(400))
        .by(forgery(suite, "1000000"))
    }));
    claims.push(
        "Number of successful forgeries in 300 attacks on aggregated AES-GCM tags, a combination \
            that is broken and therefore not offered. Bar: every attack succeeds"
            .claim("forgery-gcm", AtLeast(300.0), Seconds(1))
            .by(forgery("gcm", "75")),
    );
    claims
}

/// There is no figure if a record was forged, or if flooding one record number made the receiver
/// hold more records or evaluate more sets than the bounds allow.
fn injection() -> Reading {
    read(CAMPAIGN.run("injection"))
        .line("goodput without junk, with junk, and the loss in percent")
        .each(
            "cells[]",
            "{suite} {scheme} at {loss_percent:.1} % loss: {clean:.4} {junk:.4} {fall_percent:.2} \
             %, {junk_datagrams} junk datagrams, {evaluations_per_junk:.2} evaluations each, \
             {most_held_bytes} bytes held",
        )
        .lines(early_delivery)
        .line(
            "{worst_fall_percent_of_all:.2} % where less than two thirds are verified without \
             junk, too",
        )
        .each("floods[]", "a number flooded with 1000: {held} held and {evaluated} evaluated")
        .needs("forged == 0")
        .needs_each("floods[]", "held <= 4")
        .needs_each("floods[]", "evaluated <= 64")
        .figure("worst_fall_percent")
}

fn early_delivery(result: &Value) -> Result<String, Failure> {
    let (mut given, mut expected) = (0.0, 0.0);
    for early in select(result, "early[]") {
        given += number(early, "given")?;
        expected += number(early, "junk_datagrams")? * (-number(early, "bits")?).exp2();
    }
    Ok(format!(
        "early delivery from 16 and 32 bits: {given} junk payloads given, {expected:.3} expected \
         at most"
    ))
}

fn is_checked(cell: &Value) -> bool {
    cell["scheme"].as_str().is_some_and(|scheme| scheme.ends_with("+check"))
}

/// The least delivery among the outcomes that count, each of one attack on one scheme; the detail
/// shows all and marks these. There is no figure if a record was forged.
fn rivals(counts: fn(&Value) -> bool) -> Result<Measured, Failure> {
    let result = CAMPAIGN.run("rivals").json()?;
    let mut detail = fill(&result, "of {records} records each\n")?;
    let (mut counted, mut forged) = (Vec::new(), 0.0);
    for cell in select(&result, "cells[]") {
        forged += number(cell, "forged")?;
        if counts(cell) {
            counted.push(vec![number(cell, "delivered_percent")?]);
        }
        detail += if counts(cell) { "* " } else { "  " };
        detail += &fill(cell, "{scheme} {payload} B, {attack}")?;
        detail += if cell["any_length"] == true { ", records of any length taken" } else { "" };
        detail += &fill(cell, ": {delivered_percent:.1} %, {most_held_bytes} bytes held\n")?;
    }
    if forged > 0.0 || counted.is_empty() {
        return Err(Failure::Failed(detail));
    }
    Ok(Measured { figure: least(&counted), detail })
}

fn forgery(suite: &str, attempts: &str) -> Reading {
    read(CAMPAIGN.run(format!("forgery {suite} --count {attempts}")))
        .line(
            "{attempts} attacks on {schemes} schemes, {forged} forged; {delivered} of {sent} \
             genuine records arrived all the same; where data was wanted unverified, {early} \
             forged payloads were given and {refuted} of them refuted",
        )
        .figure("forged")
}
