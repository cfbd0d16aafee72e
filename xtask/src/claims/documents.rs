//! The claim on the commands in README and docs.

use super::prelude::*;
use crate::documents::{outcomes, shown, summary};

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Number of command blocks in README and docs that do not run as they are written. Bar: \
            there may be none"
            .claim("documents-blocks", AtMost(0.0), Seconds(900))
            .by(blocks),
    ]
}

fn blocks() -> Result<Measured, Failure> {
    let outcomes = outcomes(None, false, false, &[], false)?;
    let failed = outcomes.iter().filter(|outcome| outcome.failure.is_some()).count();
    let detail = outcomes.iter().map(shown).collect::<String>() + &summary(&outcomes);
    Ok(Measured { figure: failed as f64, detail })
}
