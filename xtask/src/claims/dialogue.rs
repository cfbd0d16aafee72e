//! Claims on the delay that shared tags add, and on the detection of proxies that form a loop.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::number;
use crate::process::{capture, cargo, command, succeeds, target_dir};
use serde_json::Value;

/// The bar for the mean time of an exchange under agg:8 or auto, the slower of them, divided by the
/// time allowed: 1.05 times the mean with plain tags, or 0.3 ms more than it.
const ALLOWED: Bar = Bar::AtMost(1.0);

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "dialogue-coap-libcoap-get",
        about: "Mean time of a GET by libcoap with shared tags (agg:8 or auto, the slower; 2000 \
            exchanges), over the time allowed: 1.05 times that with plain tags, or 0.3 ms \
            more. Bar: the time allowed",
        bar: ALLOWED,
        seconds: 120,
        measure: || coap("libcoap", "get"),
    },
    Claim {
        name: "dialogue-coap-libcoap-put",
        about: "Mean time of a PUT by libcoap with shared tags (agg:8 or auto, the slower; 2000 \
            exchanges), over the time allowed: 1.05 times that with plain tags, or 0.3 ms \
            more. Bar: the time allowed",
        bar: ALLOWED,
        seconds: 120,
        measure: || coap("libcoap", "put"),
    },
    Claim {
        name: "dialogue-coap-libcoap-block",
        about: "Mean time of a block-wise GET by libcoap with shared tags (agg:8 or auto, the \
            slower; 2000 exchanges), over the time allowed: 1.05 times that with plain tags, \
            or 0.3 ms more. Bar: the time allowed",
        bar: ALLOWED,
        seconds: 180,
        measure: || coap("libcoap", "block"),
    },
    Claim {
        name: "dialogue-coap-aiocoap-get",
        about: "Mean time of a GET by aiocoap with shared tags (agg:8 or auto, the slower; 2000 \
            exchanges), over the time allowed: 1.05 times that with plain tags, or 0.3 ms \
            more. Bar: the time allowed",
        bar: ALLOWED,
        seconds: 60,
        measure: || coap("aiocoap", "get"),
    },
    Claim {
        name: "dialogue-coap-aiocoap-put",
        about: "Mean time of a PUT by aiocoap with shared tags (agg:8 or auto, the slower; 2000 \
            exchanges), over the time allowed: 1.05 times that with plain tags, or 0.3 ms \
            more. Bar: the time allowed",
        bar: ALLOWED,
        seconds: 60,
        measure: || coap("aiocoap", "put"),
    },
    Claim {
        name: "dialogue-coap-aiocoap-block",
        about: "Mean time of a block-wise GET by aiocoap with shared tags (agg:8 or auto, the \
            slower; 2000 exchanges), over the time allowed: 1.05 times that with plain tags, \
            or 0.3 ms more. Bar: the time allowed",
        bar: ALLOWED,
        seconds: 90,
        measure: || coap("aiocoap", "block"),
    },
    Claim {
        name: "dialogue-virtual",
        about: "Time of exchanges with shared tags over that with plain tags, on a path of 20 ms \
            in virtual time: the slowest of five schemes and auto. Bar: our own target",
        bar: Bar::AtMost(1.05),
        seconds: 10,
        measure: || pace("/dialogue"),
    },
    Claim {
        name: "stream-goodput-fast",
        about: "Goodput of 1000 messages a second at default settings, over that of sets that \
            always wait to be full: the worst of five schemes. Bar: our own target",
        bar: Bar::AtLeast(0.98),
        seconds: 10,
        measure: || pace("/fast_stream"),
    },
    Claim {
        name: "stream-goodput-slow",
        about: "Goodput of one message a second with --max-wait 20s, over that of sets that \
            always wait to be full: the worse of agg:8 and agg:16. Bar: our own target",
        bar: Bar::AtLeast(0.98),
        seconds: 10,
        measure: || pace("/slow_stream"),
    },
    Claim {
        name: "proxy-loop-flows",
        about: "Number of flows that one datagram opens where two proxies are configured to \
            forward to each other; the proxies must also give one warning. Bar: our own \
            target",
        bar: Bar::AtMost(16.0),
        seconds: 10,
        measure: looped,
    },
];

/// Builds the command and runs a Python program of `interop` with it. Returns the JSON that the
/// Python program prints.
fn beside_the_command(arguments: &[&str]) -> Result<Value, Unmeasured> {
    let build = ["build", "--quiet", "--release", "--package", "lightseal"];
    capture(cargo(&build)).map_err(Unmeasured::Broken)?;
    let mut python = command("python3", arguments);
    python.env("LIGHTSEAL_PROGRAM", target_dir().join("release/lightseal"));
    let text = capture(python).map_err(Unmeasured::Broken)?;
    serde_json::from_str(&text)
        .map_err(|error| Unmeasured::Broken(format!("it printed no JSON: {error}")))
}

fn coap(client: &str, method: &str) -> Result<Measured, Unmeasured> {
    if !succeeds(command("which", &["coap-server-notls"])) {
        return Err(Unmeasured::NotHere("libcoap3-bin".into()));
    }
    if client == "aiocoap" && !succeeds(command("python3", &["-c", "import aiocoap"])) {
        return Err(Unmeasured::NotHere("aiocoap: python3 -m pip install aiocoap".into()));
    }
    let result =
        beside_the_command(&["interop/dialogue.py", "--client", client, "--method", method])?;
    let detail = format!("mean ms: {}; {} allowed", result["mean_ms"], result["allowed_ms"]);
    Ok(Measured { figure: number(&result, "/over_allowed")?, detail })
}

fn pace(pointer: &str) -> Result<Measured, Unmeasured> {
    let run = ["run", "--quiet", "--release", "--package", "lightseal-dtls", "--example", "pace"];
    let text = capture(cargo(&run)).map_err(Unmeasured::Broken)?;
    let result: Value = serde_json::from_str(&text)
        .map_err(|error| Unmeasured::Broken(format!("it printed no JSON: {error}")))?;
    Ok(Measured { figure: number(&result, pointer)?, detail: text })
}

fn looped() -> Result<Measured, Unmeasured> {
    let result = beside_the_command(&["interop/loop.py"])?;
    if number(&result, "/warnings")? != 1.0 {
        return Err(Unmeasured::Broken(format!("not one warning: {result}")));
    }
    Ok(Measured { figure: number(&result, "/flows")?, detail: result.to_string() })
}
