//! What shared tags cost in time, and that a loop of proxies is noticed.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::number;
use crate::process::{capture, cargo, command, succeeds, target_dir};
use serde_json::Value;

/// Mean time of an exchange under agg:8 or auto, the slower of them, over what is allowed: 1.05 times
/// the mean with unshared tags, or 0.3 ms more.
const ALLOWED: Bar = Bar::AtMost(1.0);

pub(super) const CLAIMS: &[Claim] = &[
    Claim {
        name: "dialogue-coap-libcoap-get",
        about: "GET by libcoap under agg:8 and auto, mean of 2000, over 1.05 times that without, or 0.3 ms more",
        bar: ALLOWED,
        seconds: 120,
        measure: || coap("libcoap", "get"),
    },
    Claim {
        name: "dialogue-coap-libcoap-put",
        about: "PUT by libcoap under agg:8 and auto, mean of 2000, over 1.05 times that without, or 0.3 ms more",
        bar: ALLOWED,
        seconds: 120,
        measure: || coap("libcoap", "put"),
    },
    Claim {
        name: "dialogue-coap-libcoap-block",
        about: "block-wise GET by libcoap under agg:8 and auto, mean of 2000, over 1.05 times that without, or 0.3 ms more",
        bar: ALLOWED,
        seconds: 180,
        measure: || coap("libcoap", "block"),
    },
    Claim {
        name: "dialogue-coap-aiocoap-get",
        about: "GET by aiocoap under agg:8 and auto, mean of 2000, over 1.05 times that without, or 0.3 ms more",
        bar: ALLOWED,
        seconds: 60,
        measure: || coap("aiocoap", "get"),
    },
    Claim {
        name: "dialogue-coap-aiocoap-put",
        about: "PUT by aiocoap under agg:8 and auto, mean of 2000, over 1.05 times that without, or 0.3 ms more",
        bar: ALLOWED,
        seconds: 60,
        measure: || coap("aiocoap", "put"),
    },
    Claim {
        name: "dialogue-coap-aiocoap-block",
        about: "block-wise GET by aiocoap under agg:8 and auto, mean of 2000, over 1.05 times that without, or 0.3 ms more",
        bar: ALLOWED,
        seconds: 90,
        measure: || coap("aiocoap", "block"),
    },
    Claim {
        name: "dialogue-virtual",
        about: "exchanges over 20 ms of path, in virtual time: the slowest of five schemes and auto over unshared tags",
        bar: Bar::AtMost(1.05),
        seconds: 10,
        measure: || pace("/dialogue"),
    },
    Claim {
        name: "stream-goodput-fast",
        about: "1000 messages a second at the defaults: goodput over that of sets that always wait, the least of five schemes",
        bar: Bar::AtLeast(0.98),
        seconds: 10,
        measure: || pace("/fast_stream"),
    },
    Claim {
        name: "stream-goodput-slow",
        about: "one message a second, --max-wait 20s: goodput over that of sets that always wait, the least of agg:8 and agg:16",
        bar: Bar::AtLeast(0.98),
        seconds: 10,
        measure: || pace("/slow_stream"),
    },
    Claim {
        name: "proxy-loop-flows",
        about: "flows that one datagram opens where the proxies make a loop; there must be one warning",
        bar: Bar::AtMost(16.0),
        seconds: 10,
        measure: looped,
    },
];

/// Runs a Python program of `interop` beside the command, built now; what it prints.
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
    let run = ["run", "--quiet", "--release", "--package", "dtls", "--example", "pace"];
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
