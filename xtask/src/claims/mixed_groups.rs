//! Claims on groups whose controller and members are on two processors, one of which is emulated if
//! this kernel does not run its programs.

use super::prelude::*;
use crate::processors;

pub(super) fn claims() -> Vec<Claim> {
    let claim = |target: &'static str| {
        let processor = target.split('-').next().unwrap_or(target);
        format!(
            "Messages of a group, of 22 000 (10 000 and 1 000 each way), that members and a controller on {target} and on \
             this processor do not carry or answer wrongly, and epochs that begin because stored state is \
             not understood: each goes on with what the other has stored. The worst of both profiles and \
             of pairwise responses. Bar: our own target"
        )
        .claim(format!("mixed-group-{processor}"), Exactly(0.0), Seconds(420))
        .by(read(move || groups(target))
            .each("rows[]", "{name}: {lost} lost, {other} wrong, {epochs} epochs")
            .reduced(greatest, "rows[]", "lost, other, epochs"))
    };
    processors::targets().map(claim).collect()
}

fn groups(target: &str) -> Result<Value, Failure> {
    let own = LIGHTSEAL.built()?;
    let other = processors::multicast(target)?;
    let run = MIXED_GROUPS.run("10000").argument(own.to_string_lossy());
    let found = other.into_iter().fold(run, Run::argument).json()?;
    if let Some(reason) = found["not_here"].as_str() {
        return Err(Failure::NotPossibleHere(reason.into()));
    }
    for row in select(&found, "rows[]") {
        if let Some(refused) = row["refused"].as_str() {
            return Err(Failure::Failed(format!("{}: {refused}", row["name"])));
        }
    }
    Ok(found)
}
