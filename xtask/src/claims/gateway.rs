//! Claims on the MACsec gateway's engine, without sockets: the information it hides, the frames it
//! loses, the forgeries it lets through, the memory it takes and the bytes it adds.

use crate::claim::{Bar, Claim, Measured, Unmeasured};
use crate::claims::{number, run_json};
use serde_json::Value;

pub(super) const CLAIMS: &[Claim] = &[
    hidden("gateway-hidden-sealed", || found("sealed")),
    hidden("gateway-hidden-compressed", || found("compressed")),
    hidden("gateway-hidden-identifier", || found("identifier")),
    hidden("gateway-hidden-encryption-paper", || found("encryption-paper")),
    sorting("gateway-sorting-sealed", || sorted("sealed")),
    sorting("gateway-sorting-compressed", || sorted("compressed")),
    sorting("gateway-sorting-identifier", || sorted("identifier")),
    sorting("gateway-sorting-encryption-paper", || sorted("encryption-paper")),
    Claim {
        name: "gateway-sorting-plain",
        about: "Information, in bits, that the best field of a datagram gives about its flow \
            under the scheme plain, where sorting should succeed. Bar: our own target; \
            telling ten flows apart takes 3.32 bits",
        bar: Bar::AtLeast(3.0),
        seconds: 5,
        measure: || sorted("plain"),
    },
    lost("gateway-loss-sealed", || loss("sealed")),
    lost("gateway-loss-compressed", || loss("compressed")),
    lost("gateway-loss-identifier", || loss("identifier")),
    Claim {
        name: "gateway-stall-identifier-paper",
        about: "How many of the next 10 000 frames never arrive after 64 frames were lost in a \
            row, under the tunnel paper's identifiers, which shows their fault. Bar: all of \
            them",
        bar: Bar::AtLeast(10_000.0),
        seconds: 8,
        measure: stall,
    },
    Claim {
        name: "gateway-forgeries-sealed",
        about: "How many of 1 000 000 forged, replayed, cut or header-swapped datagrams reach \
            the LAN or make a genuine one be dropped, under the scheme sealed; the detail \
            has the other schemes. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 12,
        measure: || forgeries("sealed", &[]),
    },
    Claim {
        name: "gateway-forgeries-compressed",
        about: "How many of 1 000 000 forged, replayed, cut or header-swapped datagrams reach \
            the LAN or make a genuine one be dropped, under the scheme compressed (short \
            headers). Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 4,
        measure: || forgeries("compressed", &["--scheme", "compressed"]),
    },
    Claim {
        name: "gateway-forgeries-identifier",
        about: "How many of 1 000 000 forged, replayed, cut or header-swapped datagrams reach \
            the LAN under the scheme identifier; forgeries that overtake their original do \
            not count. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 4,
        measure: || forgeries("identifier", &["--scheme", "identifier"]),
    },
    Claim {
        name: "gateway-flood-memory",
        about: "Heap, in MiB, that 1 000 000 frames from invented sources add to two gateways: \
            the worst scheme. Bar: our own target",
        bar: Bar::AtMost(56.0),
        seconds: 20,
        measure: || flood_memory(&[]),
    },
    Claim {
        name: "gateway-flood-memory-sealed",
        about: "Heap, in MiB, that 1 000 000 frames from invented sources add to two gateways \
            under the scheme sealed, whose only table is that of stations. Bar: our own \
            target",
        bar: Bar::AtMost(1.0),
        seconds: 10,
        measure: || flood_memory(&["--scheme", "sealed"]),
    },
    Claim {
        name: "gateway-flood-old-flows",
        about: "Number of frames, of flows that existed before a flood of invented sources, that \
            do not arrive: all schemes. Bar: there may be none",
        bar: Bar::AtMost(0.0),
        seconds: 20,
        measure: flood_old_flows,
    },
    Claim {
        name: "gateway-narrowing",
        about: "Longest time, in seconds, until frames of 1300 B pass again after the path \
            narrows from 1500 to 1300 B: the worst scheme. Bar: the timers of path probes, 2 \
            s to the next probe, three unanswered probes a second apart, and 0.1 s",
        // Probes of a path in use are two seconds apart; three probes a second apart go unanswered;
        // and the clock is looked at every tenth of a second.
        bar: Bar::AtMost(5.1),
        seconds: 20,
        measure: narrowing,
    },
    Claim {
        name: "gateway-spoofed-station",
        about: "Number of frames lost, in a one-way flow of 25 frames a second, after one frame \
            is sent under the listener's address: the worst scheme. Bar: the frames of one \
            round trip of 40 ms and of up to 40 ms until the listener's next frame",
        // At 25 frames a second: those sent in a round trip of 40 ms and in up to 40 ms until the
        // listener's next frame.
        bar: Bar::AtMost(3.0),
        seconds: 10,
        measure: spoofed_station,
    },
    bytes("gateway-bytes-identifier", -1.0, || added("identifier")),
    bytes("gateway-bytes-sealed", 22.0, || added("sealed")),
    bytes("gateway-bytes-compressed", 4.0, || added("compressed")),
];

type Measure = fn() -> Result<Measured, Unmeasured>;

const fn hidden(name: &'static str, measure: Measure) -> Claim {
    let about = "Number of station addresses, SCIs, PNs, ANs, EtherTypes 0x88E5 and bytes \
        constant in a flow that an observer finds in 10 000 datagrams of ten flows, \
        under the scheme that ends the claim's name. Bar: there may be none";
    Claim { name, about, bar: Bar::AtMost(0.0), seconds: 5, measure }
}

const fn sorting(name: &'static str, measure: Measure) -> Claim {
    let about = "Information, in bits, that the best field of a datagram gives about its flow \
        beyond chance, under the scheme that ends the claim's name. Bar: our own target; \
        telling ten flows apart takes 3.32 bits";
    Claim { name, about, bar: Bar::AtMost(0.06), seconds: 5, measure }
}

const fn lost(name: &'static str, measure: Measure) -> Claim {
    let about = "Number of frames that do not arrive beside those lost on the path (1, 10 and \
        1000 in a row) or reordered within the window, under the scheme that ends the \
        claim's name. Bar: there may be none";
    Claim { name, about, bar: Bar::AtMost(0.0), seconds: 8, measure }
}

const fn bytes(name: &'static str, bar: f64, measure: Measure) -> Claim {
    let about = "Bytes added to a frame beside those of VXLAN over IPv4, for a known flow with \
        SCI and without VLAN tags, under the scheme that ends the claim's name. Bar: our \
        own target";
    Claim { name, about, bar: Bar::AtMost(bar), seconds: 2, measure }
}

fn rows(result: &Value) -> &[Value] {
    result["rows"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The row of a scheme.
fn row<'a>(result: &'a Value, scheme: &str) -> Result<&'a Value, Unmeasured> {
    rows(result)
        .iter()
        .find(|row| row["scheme"] == scheme)
        .ok_or_else(|| Unmeasured::Broken(format!("there is no row of {scheme}")))
}

/// The JSON of a campaign run with one scheme.
fn campaign(name: &str, scheme: &str) -> Result<Value, Unmeasured> {
    run_json("fuzz", "campaign", &[name, "--scheme", scheme])
}

fn observer(scheme: &str) -> Result<(Value, String), Unmeasured> {
    let result = campaign("tunnel-observer", scheme)?;
    let row = row(&result, scheme)?;
    let count = |name| number(row, &format!("/{name}"));
    let detail = format!(
        "{} datagrams of {} flows: {} addresses, {} SCIs or their ports, {} PNs or their halves, {} places that \
        reveal the AN, 0x88E5 {} times beyond chance; {} bytes that are constant in a flow\n\
         the best of {} fields gives {:.4} of {:.2} bits about the flow beyond chance, \
         and {:.4} about flows drawn at random",
        count("packets")?,
        count("flows")?,
        count("addresses")?,
        count("scis")?,
        count("pns")?,
        count("ans")?,
        count("ethertypes")?,
        count("constant_positions")?,
        count("features")?,
        count("information_bits")?,
        count("flow_bits")?,
        count("chance_bits")?,
    );
    if count("packets")? < 10_000.0 {
        return Err(Unmeasured::Broken("too little was seen".into()));
    }
    Ok((row.clone(), detail))
}

fn found(scheme: &str) -> Result<Measured, Unmeasured> {
    let (row, detail) = observer(scheme)?;
    Ok(Measured { figure: number(&row, "/leaks")? + number(&row, "/constant_positions")?, detail })
}

fn sorted(scheme: &str) -> Result<Measured, Unmeasured> {
    let (row, detail) = observer(scheme)?;
    Ok(Measured { figure: number(&row, "/information_bits")?, detail })
}

fn loss(scheme: &str) -> Result<Measured, Unmeasured> {
    let result = campaign("tunnel-loss", scheme)?;
    let row = row(&result, scheme)?;
    let count = |name| number(row, &format!("/{name}"));
    let mut detail = String::new();
    for burst in row["bursts"].as_array().into_iter().flatten() {
        let count = |name| number(burst, &format!("/{name}"));
        detail += &format!(
            "{} times {} frames lost in a row, of {} flows: of the {} after them {} are missing\n",
            count("bursts")?,
            count("burst")?,
            count("flows")?,
            count("sent_after")?,
            count("missing")?,
        );
    }
    detail += &format!(
        "{} frames in random order, {} at a time: {} are missing\n",
        count("reordered")?,
        count("window")?,
        count("reordered_missing")?,
    );
    if detail.lines().count() < 7 || count("reordered")? < 1000.0 {
        return Err(Unmeasured::Broken("too little was lost".into()));
    }
    Ok(Measured { figure: count("missing")? + count("reordered_missing")?, detail })
}

fn stall() -> Result<Measured, Unmeasured> {
    let result = campaign("tunnel-loss", "identifier-paper")?;
    let row = row(&result, "identifier-paper")?;
    let count = |name| number(row, &format!("/{name}"));
    let figure = count("after_stall_missing")?;
    let detail = format!(
        "{} frames lost in a row: of the {} after them, a millisecond apart, {figure} do not arrive",
        count("stalling_burst")?,
        count("after_stall")?,
    );
    Ok(Measured { figure, detail })
}

/// The figure is that of one scheme. Under `identifier`, forgeries that overtake their original are
/// only in the detail.
fn forgeries(scheme: &str, only: &[&str]) -> Result<Measured, Unmeasured> {
    let result = run_json("fuzz", "campaign", &[&["tunnel-forgeries"], only].concat())?;
    let mut detail = String::new();
    for row in rows(&result) {
        let count = |name| number(row, &format!("/{name}"));
        let kinds = row["kinds"].as_array().into_iter().flatten().map(|kind| {
            let kind = |name: &str| kind[name].to_string();
            format!("{} {}", kind("kind").trim_matches('"'), kind("passed"))
        });
        detail += &format!(
            "{}: {} of {} forgeries reach the LAN ({}); {} of {} true datagrams that came after a forgery of theirs \
             are dropped\n",
            row["scheme"].as_str().unwrap_or("?"),
            count("passed")?,
            count("forgeries")?,
            kinds.collect::<Vec<_>>().join(", "),
            count("burnt")?,
            count("raced")?,
        );
    }
    let row = row(&result, scheme)?;
    let count = |name| number(row, &format!("/{name}"));
    if count("forgeries")? < 1e6 {
        return Err(Unmeasured::Broken("too little was forged".into()));
    }
    let figure = match scheme {
        "identifier" => count("passed_of_delivered")?,
        _ => count("passed")? + count("burnt")?,
    };
    Ok(Measured { figure, detail })
}

/// The outcome of the flood under each scheme, as JSON and in words. Identifiers take most of the
/// memory: 2^20 of them, which is their cap, with some 50 bytes each.
fn flood(only: &[&str]) -> Result<(Value, String), Unmeasured> {
    let result = run_json("fuzz", "flood", only)?;
    let mut detail = String::new();
    for row in rows(&result) {
        let count = |name| number(row, &format!("/{name}"));
        let mib = |name| Ok::<_, Unmeasured>(count(name)? / f64::from(1 << 20));
        let scheme = row["scheme"].as_str().unwrap_or("?");
        detail += &format!(
            "{scheme}: {} sources: at most {} stations, {} at a port, {} flows sent, {} received; {:.2} MiB in the \
             first half, {:.2} MiB in the second; {} of {} frames of old flows missing\n",
            count("invented")?,
            count("stations")?,
            count("stations_a_port")?,
            count("flows_sent")?,
            count("flows_received")?,
            mib("first_half_bytes")?,
            mib("second_half_bytes")?,
            count("old_lost")?,
            count("old")?,
        );
        if count("invented")? < 1e6 || count("old")? < 1000.0 {
            return Err(Unmeasured::Broken("too little was sent".into()));
        }
        for (table, cap) in [
            ("stations", "stations_cap"),
            ("stations_a_port", "stations_a_port_cap"),
            ("flows_sent", "flows_cap"),
            ("flows_received", "flows_cap"),
        ] {
            if count(table)? > count(cap)? {
                return Err(Unmeasured::Broken(format!("{scheme}: {table} are over their cap")));
            }
        }
    }
    Ok((result, detail))
}

fn flood_memory(only: &[&str]) -> Result<Measured, Unmeasured> {
    let (result, detail) = flood(only)?;
    let mut figure = 0.0_f64;
    for row in rows(&result) {
        for half in ["/first_half_bytes", "/second_half_bytes"] {
            figure = figure.max(number(row, half)? / f64::from(1 << 20));
        }
    }
    Ok(Measured { figure, detail })
}

fn flood_old_flows() -> Result<Measured, Unmeasured> {
    let (result, detail) = flood(&[])?;
    let lost = rows(&result).iter().map(|row| number(row, "/old_lost"));
    Ok(Measured { figure: lost.sum::<Result<f64, _>>()?, detail })
}

/// The largest number of added bytes over all frame lengths.
fn added(scheme: &str) -> Result<Measured, Unmeasured> {
    let result = campaign("tunnel-bytes", scheme)?;
    let (mut figure, mut detail) = (f64::NAN, String::new());
    for frame in row(&result, scheme)?["frames"].as_array().into_iter().flatten() {
        let count = |name| number(frame, &format!("/{name}"));
        let beside = count("beside_vxlan")?;
        figure = figure.max(beside);
        detail += &format!(
            "frame of {} B: {} B more on the wire, VXLAN {} B, VXLAN in WireGuard {} B; beside them {beside} and {} B\n",
            count("frame_bytes")?,
            count("added")?,
            count("vxlan_added")?,
            count("vxlan_wireguard_added")?,
            count("beside_vxlan_wireguard")?,
        );
    }
    Ok(Measured { figure, detail })
}

/// The longest time of all schemes.
fn narrowing() -> Result<Measured, Unmeasured> {
    let result = run_json("fuzz", "campaign", &["tunnel-narrowing"])?;
    let (mut figure, mut detail) = (f64::NAN, String::new());
    for row in rows(&result) {
        let seconds = number(row, "/worst_seconds")?;
        figure = figure.max(seconds);
        detail += &format!("{}: {seconds:.1} s, the worst of 25 moments\n", row["scheme"]);
    }
    Ok(Measured { figure, detail })
}

/// The largest number of lost frames of all schemes.
fn spoofed_station() -> Result<Measured, Unmeasured> {
    let result = run_json("fuzz", "campaign", &["tunnel-claims"])?;
    let (mut figure, mut detail) = (f64::NAN, String::new());
    for row in rows(&result) {
        let count = |name| number(row, &format!("/{name}"));
        figure = figure.max(count("lost")?);
        detail += &format!(
            "{}: {} of {} frames lost after one spoofed frame, {} after 15 a second apart; {} where the listener \
             sends every 3 s\n",
            row["scheme"],
            count("lost")?,
            count("frames")?,
            count("lost_of_fifteen_claims")?,
            count("lost_of_a_slow_station")?,
        );
    }
    Ok(Measured { figure, detail })
}
