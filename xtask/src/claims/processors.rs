//! Claims on what the engines do on other processors, in an emulator where this kernel does not run
//! their programs.

use super::prelude::*;
use crate::processors;

pub(super) fn claims() -> Vec<Claim> {
    let claim = |target: &'static str| {
        let processor = target.split('-').next().unwrap_or(target);
        format!(
            "Tests of the engines that fail on {target}, in QEMU where the kernel cannot run them. Bar: our own \
             target"
        )
        .claim(format!("processor-{processor}"), Exactly(0.0), Seconds(900))
        .by(move || {
            let outcome = processors::test(target, &[], false)?;
            Ok(Measured { figure: outcome.failures()?, detail: outcome.text() })
        })
    };
    let mixed = |target: &'static str| {
        let processor = target.split('-').next().unwrap_or(target);
        about_pairs(target).claim(format!("mixed-{processor}"), Exactly(0.0), Seconds(550)).by(
            wrong_in_pairs(move || {
                let other = processors::proxy(target)?;
                // QEMU does not translate how many bytes each segment of a message has.
                let filter = RESTRICTED.built()?.to_string_lossy().into_owned();
                Ok([vec![filter, "--under".into(), "no-batches".into()], other].concat())
            }),
        )
    };
    processors::targets().map(claim).chain(processors::targets().map(mixed)).collect()
}

/// What a claim says of the proxies that [`wrong_in_pairs`] measures.
pub(super) fn about_pairs(place: &str) -> String {
    format!(
        "Messages of 10 000 that a proxy on {place} and one of this machine do not carry or carry \
         wrongly, the worst of both ways round, both versions of DTLS, plain and shared tags, and after \
         1 000 datagrams to closed ports. Bar: our own target"
    )
}

/// Messages that are lost or wrong between our proxy and one that the words `other` run.
pub(super) fn wrong_in_pairs(
    other: impl Fn() -> Result<Vec<String>, Failure> + Send + Sync + 'static,
) -> Reading {
    read(move || {
        let own = LIGHTSEAL.built()?.to_string_lossy().into_owned();
        let words = [vec!["10000".into(), own], other()?].concat();
        let found = words.into_iter().fold(MIXED.run(""), Run::argument).json()?;
        for row in select(&found, "rows[]") {
            if let Some(refused) = row["refused"].as_str() {
                return Err(Failure::Failed(format!("{}: {refused}", row["name"])));
            }
        }
        Ok(found)
    })
    .each("rows[]", "{name}: {lost} lost, {other} wrong")
    .reduced(greatest, "rows[]", "lost, other")
}
