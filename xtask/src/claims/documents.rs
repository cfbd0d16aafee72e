//! The claim on the commands in README and docs.

use crate::Failure;
use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::documents::{outcomes, shown, summary};

pub(super) const CLAIMS: &[Claim] = &[Claim {
    name: "documents-blocks",
    about: "Number of command blocks in README and docs that do not run as they are written. \
        Bar: there may be none",
    bar: Bar::AtMost(0.0),
    seconds: 900,
    measure: blocks,
}];

fn blocks() -> Result<Measured, Unmeasured> {
    let outcomes = outcomes(None, false, false, &[], false).map_err(|failure| match failure {
        Failure::Failed(reason) => Unmeasured::Broken(reason),
        Failure::NotPossibleHere(reason) => Unmeasured::NotHere(reason),
    })?;
    let failed = outcomes.iter().filter(|outcome| outcome.failure.is_some()).count();
    let detail = outcomes.iter().map(shown).collect::<String>() + &summary(&outcomes);
    Ok(Measured { figure: failed as f64, detail })
}
