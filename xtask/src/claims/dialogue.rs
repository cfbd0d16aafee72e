//! Claims on the delay that shared tags add, and on the detection of proxies that form a loop.

use super::prelude::*;
use crate::process::{command, succeeds};

pub(super) fn claims() -> Vec<Claim> {
    let mut claims = exchanges();
    claims.extend([
        "Time of exchanges with shared tags over that with plain tags, on a path of 20 ms in \
            virtual time: the slowest of five schemes and auto. Bar: our own target"
            .claim("dialogue-virtual", AtMost(1.05), Seconds(10))
            .by(pace().figure("dialogue")),
        "Goodput of 1000 messages a second at default settings, over that of sets that always wait \
            to be full: the worst of five schemes. Bar: our own target"
            .claim("stream-goodput-fast", AtLeast(0.98), Seconds(10))
            .by(pace().figure("fast_stream")),
        "Goodput of one message a second with --max-wait 20s, over that of sets that always wait \
            to be full: the worse of agg:8 and agg:16. Bar: our own target"
            .claim("stream-goodput-slow", AtLeast(0.98), Seconds(10))
            .by(pace().figure("slow_stream")),
        "Number of flows that one datagram opens where two proxies are configured to forward to \
            each other; the proxies must also give one warning. Bar: our own target"
            .claim("proxy-loop-flows", AtMost(16.0), Seconds(10))
            .by(read(|| python("interop/loop.py"))
                .line("{}")
                .needs("warnings == 1")
                .figure("flows")),
    ]);
    claims
}

/// Real CoAP clients. The slower of agg:8 and auto counts.
fn exchanges() -> Vec<Claim> {
    [
        ("libcoap", "get", "GET", 120),
        ("libcoap", "put", "PUT", 120),
        ("libcoap", "block", "block-wise GET", 180),
        ("aiocoap", "get", "GET", 60),
        ("aiocoap", "put", "PUT", 60),
        ("aiocoap", "block", "block-wise GET", 90),
    ]
    .map(|(client, method, name, seconds)| {
        format!(
            "Mean time of a {name} by {client} with shared tags (agg:8 or auto, the slower; 2000 \
             exchanges), over the time allowed: 1.05 times that with plain tags, or 0.3 ms more. \
             Bar: the time allowed"
        )
        .claim(format!("dialogue-coap-{client}-{method}"), AtMost(1.0), Seconds(seconds))
        .by(read(move || coap(client, method))
            .line("mean ms: {mean_ms}; {allowed_ms} allowed")
            .figure("over_allowed"))
    })
    .into()
}

fn coap(client: &str, method: &str) -> Result<Value, Failure> {
    if !succeeds(command("which", &["coap-server-notls"])) {
        return Err(Failure::NotPossibleHere("libcoap3-bin".into()));
    }
    if client == "aiocoap" && !succeeds(command("python3", &["-c", "import aiocoap"])) {
        let reason = "aiocoap: python3 -m pip install aiocoap";
        return Err(Failure::NotPossibleHere(reason.into()));
    }
    python(&format!("interop/dialogue.py --client {client} --method {method}"))
}

fn pace() -> Reading {
    read(PACE.run("")).line("{}")
}
