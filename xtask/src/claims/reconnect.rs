//! Claims on how soon a dead server is noticed, and on live servers that are taken for dead.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::number;
use crate::process::{capture, cargo, command, target_dir};
use serde_json::Value;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "reconnect-after-kill",
        about: "Longest time, in seconds, from kill -9 of the server proxy to the next answer, \
            of seven kills; the application sends twice a second and the server is away for \
            1 to 4 s. Bar: our own target",
        bar: Bar::AtMost(5.0),
        seconds: 90,
        measure: after_kill,
    },
    Claim {
        name: "reconnect-false-alarms-loss",
        about: "Number of times that a live server is taken for dead at 5 % loss, in ten virtual \
            hours of each of six flows: dense and sparse, one-way and two-way. Bar: there \
            may be none",
        bar: Bar::AtMost(0.0),
        seconds: 60,
        measure: || virtual_time("/loss/false_alarms"),
    },
    Claim {
        name: "reconnect-false-alarms-rtt",
        about: "Number of times that a live server is taken for dead over a round trip of 3 s, \
            without loss and at 5 %, in ten virtual hours of each flow. Bar: there may be \
            none",
        bar: Bar::AtMost(0.0),
        seconds: 60,
        measure: || virtual_time("/slow/false_alarms"),
    },
];

fn parsed(text: &str) -> Result<Value, Unmeasured> {
    serde_json::from_str(text)
        .map_err(|error| Unmeasured::Broken(format!("it printed no JSON: {error}")))
}

fn after_kill() -> Result<Measured, Unmeasured> {
    let build = ["build", "--quiet", "--release", "--package", "lightseal"];
    capture(cargo(&build)).map_err(Unmeasured::Broken)?;
    let mut python = command("python3", &["interop/reconnect.py"]);
    python.env("LIGHTSEAL_PROGRAM", target_dir().join("release/lightseal"));
    let result = parsed(&capture(python).map_err(Unmeasured::Broken)?)?;
    let kills = result["seconds"].as_array().map_or(0, Vec::len) as f64;
    if number(&result, "/named")? != kills || number(&result, "/back")? != kills {
        return Err(Unmeasured::Broken(format!("not one warning for each kill: {result}")));
    }
    Ok(Measured { figure: number(&result, "/longest_s")?, detail: result.to_string() })
}

fn virtual_time(pointer: &str) -> Result<Measured, Unmeasured> {
    let run =
        ["run", "--quiet", "--release", "--package", "lightseal-dtls", "--example", "liveness"];
    let text = capture(cargo(&run)).map_err(Unmeasured::Broken)?;
    Ok(Measured { figure: number(&parsed(&text)?, pointer)?, detail: text })
}
