//! Claims on servers with few session slots.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{number, run_json};
use serde_json::Value;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "engset-time",
        about: "Share of time in which all slots of a server are taken, in %, by the Engset \
            formula for 3 slots, 5 clients, rho = 0.5. Bar: the formula's value; Vucinic et \
            al. report 17",
        bar: Bar::Exactly(17.24),
        seconds: 1,
        measure: || formula("time"),
    },
    Claim {
        name: "engset-call",
        about: "Share of attempts that find all slots of a server taken, in %, by the Engset \
            formula for 3 slots, 5 clients, rho = 0.5. Bar: the formula's value",
        bar: Bar::Exactly(10.0),
        seconds: 1,
        measure: || formula("call"),
    },
    Claim {
        name: "engset-time-measured",
        about: "Difference, in percentage points, between the share of time in which all slots \
            of a real server are taken and the Engset formula: 3 slots, 5 clients, rho = \
            0.5. Bar: our own target",
        bar: Bar::AtMost(0.5),
        seconds: 10,
        measure: || difference("time"),
    },
    Claim {
        name: "engset-call-measured",
        about: "Difference, in percentage points, between the share of attempts that find all \
            slots of a real server taken and the Engset formula: 3 slots, 5 clients, rho = \
            0.5. Bar: our own target",
        bar: Bar::AtMost(0.5),
        seconds: 10,
        measure: || difference("call"),
    },
];

fn sessions(attempts: &str) -> Result<Value, Unmeasured> {
    let example = ["--slots", "3", "--clients", "5", "--rho", "0.5"];
    let arguments = [&["sessions", "--json", "--attempts", attempts], &example[..]];
    run_json("lightseal-lab", "lightseal-lab", &arguments.concat())
}

/// The formula's value to two decimals, as documents quote it.
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
