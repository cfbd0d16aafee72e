//! Networks that lose and peers that lie.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{number, run_json};
use serde_json::Value;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "handshakes-lossy",
        about: "of 10 000 handshakes at 20 % loss, 5 % duplication and reordering: % complete in 60 s",
        bar: Bar::AtLeast(99.9),
        seconds: 30,
        measure: || lossy(&[]),
    },
    Claim {
        name: "handshakes-repeatable",
        about: "% of these 10 000 that differ in a byte or a microsecond when the seed is run again",
        bar: Bar::AtMost(0.0),
        seconds: 55,
        measure: || lossy(&["--twice"]),
    },
];

fn campaign(arguments: &[&str]) -> Result<Value, Unmeasured> {
    run_json("fuzz", "campaign", arguments)
}

/// A program that panicked or hung has no figure.
fn lossy(arguments: &[&str]) -> Result<Measured, Unmeasured> {
    let result = campaign(&[&["handshakes", "--count", "10000"], arguments].concat())?;
    let count = |name| number(&result, &format!("/{name}"));
    let detail = format!(
        "{} handshakes, {} complete, {} failed by their deadline, {} hung, {} wrong messages; \
         {} datagrams, {} lost",
        count("handshakes")?,
        count("complete")?,
        count("failed")?,
        count("hung")?,
        count("wrong")?,
        count("datagrams")?,
        count("lost")?,
    );
    if count("hung")? + count("wrong")? > 0.0 {
        return Err(Unmeasured::Broken(detail));
    }
    let figure = if arguments.is_empty() { count("percent")? } else { count("differ_percent")? };
    Ok(Measured { figure, detail })
}
