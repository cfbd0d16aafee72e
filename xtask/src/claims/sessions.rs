//! Servers with few session slots.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{number, run_json};
use serde_json::Value;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "engset-time",
        about: "time with 3 of 3 slots taken, in %, 5 clients, rho 0.5, by formula (paper 17)",
        bar: Bar::Exactly(17.24),
        seconds: 1,
        measure: || formula("time"),
    },
    Claim {
        name: "engset-call",
        about: "attempts that find them so, in %, by formula",
        bar: Bar::Exactly(10.0),
        seconds: 1,
        measure: || formula("call"),
    },
    Claim {
        name: "engset-time-measured",
        about: "how far the time counted at a real server is from the formula, in percentage points",
        bar: Bar::AtMost(0.5),
        seconds: 10,
        measure: || difference("time"),
    },
    Claim {
        name: "engset-call-measured",
        about: "the same of attempts",
        bar: Bar::AtMost(0.5),
        seconds: 10,
        measure: || difference("call"),
    },
];

fn sessions(attempts: &str) -> Result<Value, Unmeasured> {
    let example = ["--slots", "3", "--clients", "5", "--rho", "0.5"];
    let arguments = [&["lab", "sessions", "--json", "--attempts", attempts], &example[..]];
    run_json("lightseal", "lightseal", &arguments.concat())
}

/// To two decimals, as it is quoted.
fn formula(which: &str) -> Result<Measured, Unmeasured> {
    let exact = number(&sessions("100")?, &format!("/formula/{which}_congestion_percent"))?;
    Ok(Measured { figure: (100.0 * exact).round() / 100.0, detail: format!("{exact:.6} %\n") })
}

fn difference(which: &str) -> Result<Measured, Unmeasured> {
    let result = sessions("100000")?;
    let exact = number(&result, &format!("/formula/{which}_congestion_percent"))?;
    let counted = |what| number(&result, &format!("/counted/{which}_congestion/{what}"));
    let (percent, error) = (counted("percent")?, counted("error_percent")?);
    let detail = format!(
        "{percent:.2} ± {error:.2} % of {} attempts, {exact:.2} % by formula, seed {}\n",
        number(&result, "/counted/attempts")?,
        number(&result, "/seed")?,
    );
    Ok(Measured { figure: (percent - exact).abs(), detail })
}
