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
    processors::targets().map(claim).collect()
}
