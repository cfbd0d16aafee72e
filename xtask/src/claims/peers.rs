//! Beside other people's implementations.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{number, run_peer};

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "wolfssl-plain-fallback",
        about: "associations with wolfSSL, of all roles, suites and modes, that asking for agg:8 breaks",
        bar: Bar::AtMost(0.0),
        seconds: 5,
        measure: fallback,
    },
    Claim {
        name: "records-16",
        about: "wolfSSL's time over ours, a 16 B record sealed and opened, AES-128-GCM",
        bar: Bar::AtLeast(1.0),
        seconds: 12,
        measure: || records("16"),
    },
    Claim {
        name: "records-64",
        about: "wolfSSL's time over ours, a 64 B record sealed and opened, AES-128-GCM",
        bar: Bar::AtLeast(1.0),
        seconds: 12,
        measure: || records("64"),
    },
    Claim {
        name: "records-256",
        about: "wolfSSL's time over ours, a 256 B record sealed and opened, AES-128-GCM",
        bar: Bar::AtLeast(1.0),
        seconds: 12,
        measure: || records("256"),
    },
    Claim {
        name: "records-1200",
        about: "wolfSSL's time over ours, a 1200 B record sealed and opened, AES-128-GCM",
        bar: Bar::AtLeast(1.0),
        seconds: 12,
        measure: || records("1200"),
    },
    Claim {
        name: "handshakes-per-second",
        about: "our handshakes a second over wolfSSL's, DTLS 1.3 psk_ke, AES-128-GCM, both ends",
        bar: Bar::AtLeast(1.0),
        seconds: 12,
        measure: handshakes,
    },
];

fn fallback() -> Result<Measured, Unmeasured> {
    let result = run_peer("fallback", &["--json"])?;
    let figure = number(&result, "/wrong")?;
    let detail = format!("{} associations tried, {figure} wrong", number(&result, "/tried")?);
    Ok(Measured { figure, detail })
}

fn records(bytes: &str) -> Result<Measured, Unmeasured> {
    race(&["records", "--bytes", bytes, "--suite", "aes-128-gcm", "--json"])
}

fn handshakes() -> Result<Measured, Unmeasured> {
    race(&["handshakes", "--mode", "psk-ke", "--suite", "aes-128-gcm", "--json"])
}

/// Both implementations in turn, in one process: how many times as fast ours is.
fn race(arguments: &[&str]) -> Result<Measured, Unmeasured> {
    let result = run_peer("race", arguments)?;
    let [median, low, high] =
        ["median", "low", "high"].map(|part| number(&result, &format!("/ratio/{part}")));
    let [ours, theirs, turns] =
        ["/ours/median_ns", "/wolfssl/median_ns", "/turns"].map(|part| number(&result, part));
    let figure = median?;
    let detail = format!(
        "ours {:.0} ns, wolfSSL {:.0} ns (medians); ratio {figure:.3}, half of {} turns within {:.3}..{:.3}",
        ours?, theirs?, turns?, low?, high?
    );
    Ok(Measured { figure, detail })
}
