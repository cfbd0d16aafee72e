//! Claims on proxies for machines with little memory and few rights: `cargo xtask router` builds them.

use super::prelude::*;
use crate::router::{TARGETS, build, size};
use std::path::PathBuf;

const RESTRICTIONS: &str = "over the six restrictions that containers and routers have: a read-only root folder, no rights, \
     no IPv6, no /proc, no writable home, and a filter that forbids system calls for batches";

pub(super) fn claims() -> Vec<Claim> {
    let lost = |whose: &str| {
        format!(
            "Messages lost of 10 000 that {whose} carry and a service answers, summed {RESTRICTIONS}. \
             Bar: our own target"
        )
    };
    vec![
        "Size in MB of the proxy alone (cargo feature `proxy`) as a static program for x86-64, \
            stripped; those for other processors beside it. Bar: our own target"
            .claim("router-size", AtMost(3.0), Seconds(5))
            .by(sizes),
        "Resident memory in MiB of that program for x86-64 when it is idle, as server or client, the \
            greater. Bar: our own target"
            .claim("router-resident", AtMost(3.0), Seconds(5))
            .by(read(|| restricted(&small()?)).figure("idle_mib")),
        lost("two of those programs")
            .claim("router-restricted", Exactly(0.0), Seconds(5))
            .by(lines(read(|| restricted(&small()?))).reduced(sum, "rows[]", "lost")),
        lost("two proxies with all commands")
            .claim("proxy-restricted", Exactly(0.0), Seconds(5))
            .by(lines(read(|| restricted(&LIGHTSEAL.built()?))).reduced(sum, "rows[]", "lost")),
    ]
}

fn small() -> Result<PathBuf, Failure> {
    build(TARGETS[0], "")
}

fn sizes() -> Result<Measured, Failure> {
    let mut detail = Vec::new();
    let mut figure = None;
    for target in TARGETS {
        let built = build(target, "").and_then(|program| size(&program));
        detail.push(match (built, figure) {
            (Ok(bytes), _) => {
                let mb = bytes as f64 / 1e6;
                figure = figure.or(Some(mb));
                format!("{target}: {mb:.2} MB")
            }
            // The first one counts.
            (Err(failure), None) => return Err(failure),
            (Err(Failure::Failed(why) | Failure::NotPossibleHere(why)), Some(_)) => {
                format!("{target}: not built here: {}", why.lines().next().unwrap_or_default())
            }
        });
    }
    Ok(Measured { figure: figure.unwrap_or(f64::NAN), detail: detail.join("\n") })
}

/// What the proxies of a program do under each restriction. A refusal by a proxy is a failure.
fn restricted(program: &std::path::Path) -> Result<Value, Failure> {
    let mut found = RESTRICTED.run("").argument(program.to_string_lossy()).json()?;
    let rows = found["rows"].as_array().cloned().unwrap_or_default();
    for row in &rows {
        if let Some(refused) = row["refused"].as_str() {
            let name = row["name"].as_str().unwrap_or_default();
            let failure = format!("{name}: {refused}");
            return Err(match refused.contains("lightseal: ") || refused.contains(" ERROR ") {
                true => Failure::Failed(failure),
                false => Failure::NotPossibleHere(failure),
            });
        }
    }
    let first = rows.first().map(|row| row["idle_bytes"].as_f64().unwrap_or(f64::NAN));
    found["idle_mib"] = json!(first.unwrap_or(f64::NAN) / f64::from(1 << 20));
    Ok(found)
}

fn lines(reading: Reading) -> Reading {
    reading
        .each("rows[]", "{name}: {lost} lost, {rate:.0} messages/s")
        .each("rows[].said[]", "said: {}")
        .needs_each("rows[]", "other == 0")
}
