//! The MACsec gateway without sockets: what it hides, loses, lets through, holds and adds.

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
        about: "the same where it should succeed: of 3.32 bits that a flow of ten has",
        bar: Bar::AtLeast(3.0),
        seconds: 5,
        measure: || sorted("plain"),
    },
    lost("gateway-loss-sealed", || loss("sealed")),
    lost("gateway-loss-compressed", || loss("compressed")),
    lost("gateway-loss-identifier", || loss("identifier")),
    Claim {
        name: "gateway-stall-identifier-paper",
        about: "of the next 10 000 frames after 64 lost in a row, under the paper's identifiers: never arrive",
        bar: Bar::AtLeast(10_000.0),
        seconds: 8,
        measure: stall,
    },
    Claim {
        name: "gateway-forgeries-sealed",
        about: "of 10^6 forged, replayed, cut, header-swapped datagrams: reach the LAN, or burn a true one; other \
            schemes beside",
        bar: Bar::AtMost(0.0),
        seconds: 12,
        measure: || forgeries("sealed", &[]),
    },
    Claim {
        name: "gateway-forgeries-compressed",
        about: "the same with short headers",
        bar: Bar::AtMost(0.0),
        seconds: 4,
        measure: || forgeries("compressed", &["--scheme", "compressed"]),
    },
    Claim {
        name: "gateway-forgeries-identifier",
        about: "of 10^6 of them that reach the LAN under identifier, those apart that come before their original",
        bar: Bar::AtMost(0.0),
        seconds: 4,
        measure: || forgeries("identifier", &["--scheme", "identifier"]),
    },
    Claim {
        name: "gateway-flood-memory",
        about: "MiB of heap that 10^6 frames of invented sources add to two gateways, the worst scheme",
        bar: Bar::AtMost(56.0),
        seconds: 20,
        measure: || flood_memory(&[]),
    },
    Claim {
        name: "gateway-flood-memory-sealed",
        about: "the same under sealed, whose only table is that of stations",
        bar: Bar::AtMost(1.0),
        seconds: 10,
        measure: || flood_memory(&["--scheme", "sealed"]),
    },
    Claim {
        name: "gateway-flood-old-flows",
        about: "frames of flows that were there before this flood and that do not arrive, all schemes",
        bar: Bar::AtMost(0.0),
        seconds: 20,
        measure: flood_old_flows,
    },
    Claim {
        name: "gateway-narrowing",
        about: "seconds until frames of 1300 bytes pass again where the path narrows from 1500 to 1300, all schemes",
        // Probes two seconds apart in use, three of them a second apart unanswered, and a tenth to look at the clock.
        bar: Bar::AtMost(5.1),
        seconds: 20,
        measure: narrowing,
    },
    Claim {
        name: "gateway-spoofed-station",
        about: "frames of a one-way flow of 25 a second lost after one under its listener's address, all schemes",
        // A round trip of 40 ms and up to 40 ms until the listener's next frame.
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
    let about = "addresses, SCIs, PNs, ANs, 0x88E5, bytes constant in a flow: found in 10 000 datagrams of 10 flows";
    Claim { name, about, bar: Bar::AtMost(0.0), seconds: 5, measure }
}

const fn sorting(name: &'static str, measure: Measure) -> Claim {
    let about =
        "bits that the best field of these datagrams tells of the flow, beyond those by lot";
    Claim { name, about, bar: Bar::AtMost(0.06), seconds: 5, measure }
}

const fn lost(name: &'static str, measure: Measure) -> Claim {
    let about =
        "frames missing beside those lost, 1, 10 and 1 000 in a row, or out of order in the window";
    Claim { name, about, bar: Bar::AtMost(0.0), seconds: 8, measure }
}

const fn bytes(name: &'static str, bar: f64, measure: Measure) -> Claim {
    let about =
        "bytes a frame beside VXLAN's over IPv4, of a known flow with SCI and without VLAN tags";
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

/// A campaign of one scheme.
fn campaign(name: &str, scheme: &str) -> Result<Value, Unmeasured> {
    run_json("fuzz", "campaign", &[name, "--scheme", scheme])
}

fn observer(scheme: &str) -> Result<(Value, String), Unmeasured> {
    let result = campaign("tunnel-observer", scheme)?;
    let row = row(&result, scheme)?;
    let count = |name| number(row, &format!("/{name}"));
    let detail = format!(
        "{} datagrams of {} flows: {} addresses, {} SCIs or their ports, {} PNs or their halves, {} places that \
         tell the AN, 0x88E5 {} times beyond chance; {} bytes that are constant in a flow\n\
         the best of {} fields tells {:.4} of {:.2} bits beyond a lot, and of another lot {:.4}",
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

/// The figure is of one scheme; under the identifiers the race of its own kind is beside it.
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

/// What came of the flood under each scheme, and in words. Identifiers take most of the memory:
/// 2^20 of them, their cap, some 50 bytes each.
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

/// The most of all frame lengths.
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

/// The most of all schemes.
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

/// The most of all schemes.
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
