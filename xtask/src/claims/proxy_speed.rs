//! Claims on what two proxies cost: processor time, datagrams a second, and memory.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Processor time in µs for each datagram that arrives, client and server proxy together, over \
            the loopback interface at full rate, one flow: the greater median of 64 B and 1000 B. \
            Bar: our own target"
            .claim("proxy-cpu-one-flow", AtMost(6.0), Seconds(30))
            .by(speed("--flows 1").reduced(greatest, "rows[name=lightseal full]", "us/median")),
        "Processor time in µs for each datagram that arrives, client and server proxy together, over \
            the loopback interface at full rate, a thousand flows that share sockets between the \
            proxies: the greater median of 64 B and 1000 B. Bar: our own target"
            .claim("proxy-cpu-thousand-flows", AtMost(8.0), Seconds(30))
            .by(speed("--flows 1000").reduced(greatest, "rows[name=lightseal full]", "us/median")),
        "As proxy-cpu-thousand-flows, with a socket for each flow at either proxy. Bar: our own target"
            .claim("proxy-cpu-socket-per-flow", AtMost(10.0), Seconds(30))
            .by(speed("--flows 1000 --socket-per-flow")
                .reduced(greatest, "rows[name=lightseal full]", "us/median")),
        "Memory in bytes that each of a thousand flows more takes, at the proxy where it takes more. \
            Bar: our own target"
            .claim("proxy-memory-a-flow", AtMost(4096.0), Seconds(20))
            .by(memory("--memory --flows 1000")),
        "As proxy-memory-a-flow, with a socket for each flow at either proxy. Bar: our own target"
            .claim("proxy-memory-socket-per-flow", AtMost(4096.0), Seconds(20))
            .by(memory("--memory --flows 1000 --socket-per-flow")),
        "Records of 64 B a second that a server proxy with two workers carries, over those of one with \
            one worker: records sealed beforehand, and a service that discards them. Bar: our own target"
            .claim("proxy-workers", AtLeast(1.5), Seconds(90))
            .by(workers()),
    ]
}

fn measured(how: &str) -> Result<Value, Failure> {
    let lightseal = LIGHTSEAL.built()?;
    PROXY_SPEED.run(how).argument(lightseal.to_string_lossy()).json()
}

fn memory(how: &'static str) -> Reading {
    read(move || measured(how))
        .line("client proxy {client_bytes:.0} B, server proxy {server_bytes:.0} B")
        .reduced(greatest, "", "client_bytes, server_bytes")
}

fn workers() -> Reading {
    read(move || measured("--workers --turns 5"))
        .each(
            "rows[]",
            "{workers} workers: {rate/median:.0} records/s, half of the turns within \
             {rate/low:.0}..{rate/high:.0}; {proxy/median:.2} processors for the proxy, none for what sends, \
             which has sent before; {dropped:.0} dropped",
        )
        .figure("ratio/median")
}

/// The rows of both lengths, at full rate and at a tenth of it, beside those of nginx.
fn speed(how: &'static str) -> Reading {
    read(move || measured(how))
        .each(
            "rows[]",
            "{name}, {bytes} B: {us/median:.2} µs, half of the turns within {us/low:.2}..{us/high:.2}; \
             {rate/median:.0} datagrams/s; {lost} lost",
        )
        .each("ratios[]", "{bytes} B at full rate: {median:.2} times as much as {name}")
        .each("missing[]", "{}: not measured, it is not installed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dearer_length_counts_and_only_at_full_rate() {
        let row = |name: &str, bytes: u32, us: f64| {
            let us = json!({ "low": us, "median": us, "high": us });
            json!({ "name": name, "bytes": bytes, "us": us, "rate": us, "lost": 0 })
        };
        let report = json!({ "rows": [
            row("lightseal full", 64, 5.0), row("lightseal full", 1000, 5.5),
            row("lightseal tenth", 64, 30.0), row("nginx full", 64, 9.0),
        ], "ratios": [{ "name": "nginx", "bytes": 64, "median": 0.6 }], "missing": [] });
        let measured =
            speed("--flows 1").reduced(greatest, "rows[name=lightseal full]", "us/median");
        let measured = measured.judge(&report).unwrap();
        assert_eq!(measured.figure, 5.5);
        assert!(measured.detail.contains("64 B at full rate: 0.60 times"), "{}", measured.detail);
    }
}
