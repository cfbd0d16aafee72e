//! Claims on the MACsec gateway's engine, without sockets: the information it hides, the frames it
//! loses, the forgeries it lets through, the memory it takes and the bytes it adds.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    let topics = [observed(), lost(), forged(), flooded(), moved(), added()];
    topics.into_iter().flatten().collect()
}

/// The schemes under which an observer should find nothing.
const HIDING: [&str; 4] = ["sealed", "compressed", "identifier", "encryption-paper"];

/// A campaign run with one scheme.
fn campaign(name: &str, scheme: &str) -> Reading {
    read(CAMPAIGN.run(format!("{name} --scheme {scheme}")))
}

fn observed() -> Vec<Claim> {
    let hidden = HIDING.map(|scheme| {
        "Number of station addresses, SCIs, PNs, ANs, EtherTypes 0x88E5 and bytes constant in a \
            flow that an observer finds in 10 000 datagrams of ten flows, under the scheme that \
            ends the claim's name. Bar: there may be none"
            .claim(format!("gateway-hidden-{scheme}"), AtMost(0.0), Seconds(5))
            .by(observer(scheme, "leaks + constant_positions"))
    });
    let sorting = HIDING.map(|scheme| {
        "Information, in bits, that the best field of a datagram gives about its flow beyond \
            chance, under the scheme that ends the claim's name. Bar: our own target; telling ten \
            flows apart takes 3.32 bits"
            .claim(format!("gateway-sorting-{scheme}"), AtMost(0.06), Seconds(5))
            .by(observer(scheme, "information_bits"))
    });
    let plain = "Information, in bits, that the best field of a datagram gives about its flow \
            under the scheme plain, where sorting should succeed. Bar: our own target; telling ten \
            flows apart takes 3.32 bits"
        .claim("gateway-sorting-plain", AtLeast(3.0), Seconds(5))
        .by(observer("plain", "information_bits"));
    hidden.into_iter().chain(sorting).chain([plain]).collect()
}

fn observer(scheme: &str, figure: &'static str) -> Reading {
    let row = format!("rows[scheme={scheme}]");
    campaign("tunnel-observer", scheme)
        .each(
            row.clone(),
            "{packets} datagrams of {flows} flows: {addresses} addresses, {scis} SCIs or their \
             ports, {pns} PNs or their halves, {ans} places that reveal the AN, 0x88E5 \
             {ethertypes} times beyond chance; {constant_positions} bytes that are constant in a \
             flow\n\
             the best of {features} fields gives {information_bits:.4} of {flow_bits:.2} bits \
             about the flow beyond chance, and {chance_bits:.4} about flows drawn at random",
        )
        .needs_each(row.clone(), "packets >= 10000")
        .reduced(only, row, figure)
}

fn lost() -> Vec<Claim> {
    let beside = ["sealed", "compressed", "identifier"].map(|scheme| {
        "Number of frames that do not arrive beside those lost on the path (1, 10 and 1000 in a \
            row) or reordered within the window, under the scheme that ends the claim's name. Bar: \
            there may be none"
            .claim(format!("gateway-loss-{scheme}"), AtMost(0.0), Seconds(8))
            .by(loss(scheme))
    });
    let row = "rows[scheme=identifier-paper]";
    let stall = campaign("tunnel-loss", "identifier-paper")
        .each(
            row,
            "{stalling_burst} frames lost in a row: of the {after_stall} after them, a millisecond \
             apart, {after_stall_missing} do not arrive",
        )
        .reduced(only, row, "after_stall_missing");
    let stalled = "How many of the next 10 000 frames never arrive after 64 frames were lost in a \
            row, under the tunnel paper's identifiers, which shows their fault. Bar: all of them"
        .claim("gateway-stall-identifier-paper", AtLeast(10_000.0), Seconds(8))
        .by(stall);
    beside.into_iter().chain([stalled]).collect()
}

fn loss(scheme: &str) -> Reading {
    let row = format!("rows[scheme={scheme}]");
    campaign("tunnel-loss", scheme)
        .each(
            format!("{row}/bursts[]"),
            "{bursts} times {burst} frames lost in a row, of {flows} flows: of the {sent_after} \
             after them {missing} are missing",
        )
        .each(
            row.clone(),
            "{reordered} frames in random order, {window} at a time: {reordered_missing} are \
             missing",
        )
        .needs_each(row.clone(), "#bursts[] >= 6")
        .needs_each(row.clone(), "reordered >= 1000")
        .reduced(only, row, "missing + reordered_missing")
}

fn forged() -> Vec<Claim> {
    vec![
        "How many of 1 000 000 forged, replayed, cut or header-swapped datagrams reach the LAN or \
            make a genuine one be dropped, under the scheme sealed; the detail has the other \
            schemes. Bar: there may be none"
            .claim("gateway-forgeries-sealed", AtMost(0.0), Seconds(12))
            .by(forgeries("sealed", "", "passed + burnt")),
        "How many of 1 000 000 forged, replayed, cut or header-swapped datagrams reach the LAN or \
            make a genuine one be dropped, under the scheme compressed (short headers). Bar: there \
            may be none"
            .claim("gateway-forgeries-compressed", AtMost(0.0), Seconds(4))
            .by(forgeries("compressed", "--scheme compressed", "passed + burnt")),
        "How many of 1 000 000 forged, replayed, cut or header-swapped datagrams reach the LAN \
            under the scheme identifier; forgeries that overtake their original do not count. Bar: \
            there may be none"
            .claim("gateway-forgeries-identifier", AtMost(0.0), Seconds(4))
            .by(forgeries("identifier", "--scheme identifier", "passed_of_delivered")),
    ]
}

/// The figure is that of one scheme.
fn forgeries(scheme: &str, options: &str, figure: &'static str) -> Reading {
    let row = format!("rows[scheme={scheme}]");
    read(CAMPAIGN.run(format!("tunnel-forgeries {options}")))
        .lines(forgeries_by_kind)
        .needs_each(row.clone(), "forgeries >= 1000000")
        .reduced(only, row, figure)
}

fn forgeries_by_kind(result: &Value) -> Result<String, Failure> {
    let mut detail = String::new();
    for row in select(result, "rows[]") {
        let kinds: Result<Vec<_>, _> =
            select(row, "kinds[]").into_iter().map(|kind| fill(kind, "{kind} {passed}")).collect();
        detail += &fill(row, "{scheme}: {passed} of {forgeries} forgeries reach the LAN (")?;
        detail += &kinds?.join(", ");
        detail += &fill(
            row,
            "); {burnt} of {raced} true datagrams that came after a forgery of theirs are dropped\n",
        )?;
    }
    Ok(detail)
}

fn flooded() -> Vec<Claim> {
    let memory = |options: &str| {
        flood(options).reduced(
            greatest,
            "rows[]",
            "first_half_bytes / 1048576, second_half_bytes / 1048576",
        )
    };
    vec![
        "Heap, in MiB, that 1 000 000 frames from invented sources add to two gateways: the worst \
            scheme. Bar: our own target"
            .claim("gateway-flood-memory", AtMost(56.0), Seconds(20))
            .by(memory("")),
        "Heap, in MiB, that 1 000 000 frames from invented sources add to two gateways under the \
            scheme sealed, whose only table is that of stations. Bar: our own target"
            .claim("gateway-flood-memory-sealed", AtMost(1.0), Seconds(10))
            .by(memory("--scheme sealed")),
        "Number of frames, of flows that existed before a flood of invented sources, that do not \
            arrive: all schemes. Bar: there may be none"
            .claim("gateway-flood-old-flows", AtMost(0.0), Seconds(20))
            .by(flood("").reduced(sum, "rows[]", "old_lost")),
    ]
}

/// The flood under each scheme. Identifiers take most of the memory: 2^20 of them, which is their
/// cap, with some 50 bytes each.
fn flood(options: &str) -> Reading {
    let reading = read(FLOOD.run(options)).each(
        "rows[]",
        "{scheme}: {invented} sources: at most {stations} stations, {stations_a_port} at a port, \
         {flows_sent} flows sent, {flows_received} received; {first_half_bytes / 1048576:.2} MiB \
         in the first half, {second_half_bytes / 1048576:.2} MiB in the second; {old_lost} of \
         {old} frames of old flows missing",
    );
    let needs = [
        "invented >= 1000000",
        "old >= 1000",
        "stations <= stations_cap",
        "stations_a_port <= stations_a_port_cap",
        "flows_sent <= flows_cap",
        "flows_received <= flows_cap",
    ];
    needs.into_iter().fold(reading, |reading, need| reading.needs_each("rows[]", need))
}

fn moved() -> Vec<Claim> {
    let narrowing = read(CAMPAIGN.run("tunnel-narrowing"))
        .each("rows[]", "{scheme}: {worst_seconds:.1} s, the worst of 25 moments")
        .reduced(greatest, "rows[]", "worst_seconds");
    let spoofed_station = read(CAMPAIGN.run("tunnel-claims"))
        .each(
            "rows[]",
            "{scheme}: {lost} of {frames} frames lost after one spoofed frame, \
             {lost_of_fifteen_claims} after 15 a second apart; {lost_of_a_slow_station} where the \
             listener sends every 3 s",
        )
        .reduced(greatest, "rows[]", "lost");
    vec![
        "Longest time, in seconds, until frames of 1300 B pass again after the path narrows from \
            1500 to 1300 B: the worst scheme. Bar: the timers of path probes, 2 s to the next \
            probe, three unanswered probes a second apart, and 0.1 s"
            // Probes of a path in use are two seconds apart; three probes a second apart go unanswered;
            // and the clock is looked at every tenth of a second.
            .claim("gateway-narrowing", AtMost(5.1), Seconds(20))
            .by(narrowing),
        "Number of frames lost, in a one-way flow of 25 frames a second, after one frame is sent \
            under the listener's address: the worst scheme. Bar: the frames of one round trip of \
            40 ms and of up to 40 ms until the listener's next frame"
            // At 25 frames a second: those sent in a round trip of 40 ms and in up to 40 ms until the
            // listener's next frame.
            .claim("gateway-spoofed-station", AtMost(3.0), Seconds(10))
            .by(spoofed_station),
    ]
}

fn added() -> Vec<Claim> {
    let row = |(scheme, bar)| {
        "Bytes added to a frame beside those of VXLAN over IPv4, for a known flow with SCI and \
            without VLAN tags, under the scheme that ends the claim's name. Bar: our own target"
            .claim(format!("gateway-bytes-{scheme}"), AtMost(bar), Seconds(2))
            .by(bytes_of(scheme))
    };
    [("identifier", -1.0), ("sealed", 22.0), ("compressed", 4.0)].map(row).into()
}

/// The largest number of added bytes over all frame lengths.
fn bytes_of(scheme: &str) -> Reading {
    let frames = format!("rows[scheme={scheme}]/frames[]");
    campaign("tunnel-bytes", scheme)
        .each(
            frames.clone(),
            "frame of {frame_bytes} B: {added} B more on the wire, VXLAN {vxlan_added} B, VXLAN in \
             WireGuard {vxlan_wireguard_added} B; beside them {beside_vxlan} and \
             {beside_vxlan_wireguard} B",
        )
        .reduced(greatest, frames, "beside_vxlan")
}
