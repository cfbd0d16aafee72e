//! Claims on what the engines do on other processors, which are emulated.

use super::prelude::*;
use crate::processors;

pub(super) fn claims() -> Vec<Claim> {
    let claim = |target: &'static str| {
        let processor = target.split('-').next().unwrap_or(target);
        format!(
            "Tests of the engines that fail on {target}, in the emulation of QEMU. Bar: our own target"
        )
        .claim(format!("processor-{processor}"), Exactly(0.0), Seconds(900))
        .by(move || {
            let outcome = processors::test(target, &[], false)?;
            if outcome.passed == 0 && outcome.failed.is_empty() {
                return Err(Failure::Failed("no test has run".into()));
            }
            Ok(Measured { figure: outcome.failed.len() as f64, detail: outcome.text() })
        })
    };
    let mixed = |target: &'static str| {
        let processor = target.split('-').next().unwrap_or(target);
        format!(
            "Messages of 10 000 that a proxy on {target}, emulated, and one on this processor do not \
             carry or carry wrongly, the worst of both ways round, both versions of DTLS, and plain and \
             shared tags. Bar: our own target"
        )
        .claim(format!("mixed-{processor}"), Exactly(0.0), Seconds(450))
        .by(read(move || pairs(target))
            .each("rows[]", "{name}: {lost} lost, {other} wrong")
            .reduced(greatest, "rows[]", "lost, other"))
    };
    processors::targets().map(claim).chain(processors::targets().map(mixed)).collect()
}

fn pairs(target: &str) -> Result<Value, Failure> {
    let own = LIGHTSEAL.built()?;
    let other = processors::proxy(target)?;
    // QEMU does not translate how many bytes each segment of a message has.
    let filter = RESTRICTED.built()?;
    let first = ["10000".into(), own.to_string_lossy().into_owned()];
    let filter = [&*filter.to_string_lossy(), "--under", "no-batches"].map(str::to_owned);
    let words = [&first[..], &filter[..], &other[..]].concat();
    let run = words.into_iter().fold(MIXED.run(""), Run::argument);
    let found = run.json()?;
    for row in select(&found, "rows[]") {
        if let Some(refused) = row["refused"].as_str() {
            return Err(Failure::Failed(format!("{}: {refused}", row["name"])));
        }
    }
    Ok(found)
}
