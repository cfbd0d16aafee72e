//! Claims on interoperability with other implementations of DTLS and on speed compared with them.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{number, run_peer};
use crate::{Failure, interop};
use serde_json::json;

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "wolfssl-plain-fallback",
        about: "Number of associations with wolfSSL, over all roles, suites and modes, that fail \
            because our end asks for agg:8. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 5,
        measure: fallback,
    },
    Claim {
        name: "interop-matrix",
        about: "Number of failed meetings with other implementations of DTLS, over all peers, \
            roles, suites and connection ID lengths. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 150,
        measure: matrix,
    },
    Claim {
        name: "records-16",
        about: "Time of wolfSSL to seal and open a record of 16 B over ours, DTLS 1.3 \
            AES-128-GCM. Bar: we are no slower",
        bar: Bar::AtLeast(1.0),
        seconds: 12,
        measure: || records("16"),
    },
    Claim {
        name: "records-64",
        about: "Time of wolfSSL to seal and open a record of 64 B over ours, DTLS 1.3 \
            AES-128-GCM. Bar: we are no slower",
        bar: Bar::AtLeast(1.0),
        seconds: 12,
        measure: || records("64"),
    },
    Claim {
        name: "records-256",
        about: "Time of wolfSSL to seal and open a record of 256 B over ours, DTLS 1.3 \
            AES-128-GCM. Bar: we are no slower",
        bar: Bar::AtLeast(1.0),
        seconds: 12,
        measure: || records("256"),
    },
    Claim {
        name: "records-1200",
        about: "Time of wolfSSL to seal and open a record of 1200 B over ours, DTLS 1.3 \
            AES-128-GCM. Bar: we are no slower",
        bar: Bar::AtLeast(1.0),
        seconds: 12,
        measure: || records("1200"),
    },
    Claim {
        name: "handshakes-per-second",
        about: "Our handshakes a second over wolfSSL's, both ends counted: DTLS 1.3 psk_ke, \
            AES-128-GCM. Bar: we are no slower",
        bar: Bar::AtLeast(1.0),
        seconds: 12,
        measure: handshakes,
    },
    Claim {
        name: "handshakes-12-wolfssl",
        about: "Our handshakes a second over wolfSSL's, both ends counted: DTLS 1.2 PSK_CCM_8 \
            with cookie. Bar: our own target",
        bar: Bar::AtLeast(1.5),
        seconds: 12,
        measure: || handshakes_12("wolfssl"),
    },
    Claim {
        name: "handshakes-12-dimpl",
        about: "Our handshakes a second over dimpl's, both ends counted: DTLS 1.2 PSK_CCM_8 with \
            cookie. Bar: our own target",
        bar: Bar::AtLeast(1.2),
        seconds: 15,
        measure: || handshakes_12("dimpl"),
    },
    Claim {
        name: "records-ccm8-wolfssl-16",
        about: "Time of wolfSSL to seal and open a record of 16 B over ours, DTLS 1.2 PSK_CCM_8. \
            Bar: our own target",
        bar: Bar::AtLeast(1.5),
        seconds: 12,
        measure: || records_12("wolfssl", "16"),
    },
    Claim {
        name: "records-ccm8-wolfssl-64",
        about: "Time of wolfSSL to seal and open a record of 64 B over ours, DTLS 1.2 PSK_CCM_8. \
            Bar: our own target",
        bar: Bar::AtLeast(1.5),
        seconds: 12,
        measure: || records_12("wolfssl", "64"),
    },
    Claim {
        name: "records-ccm8-wolfssl-256",
        about: "Time of wolfSSL to seal and open a record of 256 B over ours, DTLS 1.2 \
            PSK_CCM_8. Bar: our own target",
        bar: Bar::AtLeast(1.5),
        seconds: 12,
        measure: || records_12("wolfssl", "256"),
    },
    Claim {
        name: "records-ccm8-wolfssl-1200",
        about: "Time of wolfSSL to seal and open a record of 1200 B over ours, DTLS 1.2 \
            PSK_CCM_8. Bar: our own target",
        bar: Bar::AtLeast(1.5),
        seconds: 12,
        measure: || records_12("wolfssl", "1200"),
    },
    Claim {
        name: "records-ccm8-openssl-1200",
        about: "Time of OpenSSL to seal and open a record of 1200 B over ours, DTLS 1.2 \
            PSK_CCM_8. Bar: we are no slower",
        bar: Bar::AtLeast(1.0),
        seconds: 12,
        measure: || records_12("openssl", "1200"),
    },
    Claim {
        name: "handshake-12-datagrams",
        about: "Number of datagrams in our DTLS 1.2 PSK_CCM_8 handshake with cookie. Bar: the \
            six flights of RFC 6347, section 4.2.4",
        bar: Bar::AtMost(6.0),
        seconds: 1,
        measure: || wire(&WIRE_12, "datagrams"),
    },
    Claim {
        name: "handshake-12-bytes",
        about: "UDP payload, in bytes, of our DTLS 1.2 PSK_CCM_8 handshake with cookie and an \
            identity of 9 B. Bar: our own target",
        bar: Bar::AtMost(480.0),
        seconds: 1,
        measure: || wire(&WIRE_12, "bytes"),
    },
    Claim {
        name: "handshake-13-datagrams",
        about: "Number of datagrams in our DTLS 1.3 psk_ke handshake with CCM_8. Bar: our own \
            target",
        bar: Bar::AtMost(4.0),
        seconds: 1,
        measure: || wire(&WIRE_13, "datagrams"),
    },
    Claim {
        name: "handshake-13-bytes",
        about: "UDP payload, in bytes, of our DTLS 1.3 psk_ke handshake with CCM_8 and an \
            identity of 9 B. Bar: our own target",
        bar: Bar::AtMost(380.0),
        seconds: 1,
        measure: || wire(&WIRE_13, "bytes"),
    },
    Claim {
        name: "handshake-13-cookie-datagrams",
        about: "Number of datagrams in our DTLS 1.3 psk_ke handshake with CCM_8 and a cookie. \
            Bar: our own target",
        bar: Bar::AtMost(6.0),
        seconds: 1,
        measure: || wire(&[&WIRE_13[..], &["--cookie"]].concat(), "datagrams"),
    },
];

/// The suite that small devices speak (RFC 7925, section 4.2).
const SUITE_12: &str = "psk-with-aes-128-ccm-8";

const WIRE_12: [&str; 3] = ["wire", "--suite", SUITE_12];
const WIRE_13: [&str; 3] = ["wire", "--suite", "aes-128-ccm-8"];

fn matrix() -> Result<Measured, Unmeasured> {
    let results = interop::results().map_err(|failure| match failure {
        Failure::Failed(reason) => Unmeasured::Broken(reason),
        Failure::NotPossibleHere(reason) => Unmeasured::NotHere(reason),
    })?;
    let [met, failed, impossible] =
        ["met", "failed", "impossible"].map(|kind| number(&results, &format!("/{kind}")));
    let (met, failed, impossible) = (met?, failed?, impossible?);
    if met < 1.0 {
        return Err(Unmeasured::Broken("no meeting was held".into()));
    }
    let detail =
        format!("{met} meetings succeeded, {failed} failed, {impossible} are not possible");
    Ok(Measured { figure: failed, detail })
}

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

fn handshakes_12(peer: &str) -> Result<Measured, Unmeasured> {
    let fixed = ["handshakes", "--suite", SUITE_12, "--provider", "rustcrypto", "--json"];
    race(&[&fixed[..], &["--peer", peer]].concat())
}

fn records_12(peer: &str, bytes: &str) -> Result<Measured, Unmeasured> {
    let fixed = ["records", "--suite", SUITE_12, "--provider", "rustcrypto", "--json"];
    race(&[&fixed[..], &["--peer", peer, "--bytes", bytes]].concat())
}

/// Datagrams or bytes of our handshake without loss; the detail shows other implementations' too.
fn wire(arguments: &[&str], what: &str) -> Result<Measured, Unmeasured> {
    let result = run_peer("race", arguments)?;
    let mut detail = String::new();
    let peers = result["peers"].as_array().cloned().unwrap_or_default();
    let ours = json!({ "name": "ours", "wire": result["ours"] });
    for end in [ours].iter().chain(&peers) {
        let name = end["name"].as_str().unwrap_or_default();
        let [datagrams, bytes] = ["/wire/datagrams", "/wire/bytes"].map(|part| number(end, part));
        let lengths = &end["wire"]["lengths"];
        detail += &format!("{name}: {} datagrams, {} B: {lengths}\n", datagrams?, bytes?);
    }
    Ok(Measured { figure: number(&result, &format!("/ours/{what}"))?, detail })
}

/// Runs both implementations in turns in one process. The figure is how many times as fast ours is.
fn race(arguments: &[&str]) -> Result<Measured, Unmeasured> {
    let result = run_peer("race", arguments)?;
    let [median, low, high] =
        ["median", "low", "high"].map(|part| number(&result, &format!("/ratio/{part}")));
    let [ours, theirs, turns] =
        ["/ours/median_ns", "/theirs/median_ns", "/turns"].map(|part| number(&result, part));
    let figure = median?;
    let peer = result["peer"].as_str().unwrap_or_default();
    let detail = format!(
        "ours {:.0} ns, {peer} {:.0} ns (medians); ratio {figure:.3}, half of {} turns within {:.3}..{:.3}",
        ours?, theirs?, turns?, low?, high?
    );
    Ok(Measured { figure, detail })
}
