//! Claims on servers with few session slots.

use super::prelude::*;

pub(super) fn claims() -> Vec<Claim> {
    vec![
        "Share of time in which all slots of a server are taken, in %, by the Engset formula for 3 \
            slots, 5 clients, rho = 0.5. Bar: the formula's value; Vucinic et al. report 17"
            .claim("engset-time", Exactly(17.24), Seconds(1))
            .by(|| formula("time")),
        "Share of attempts that find all slots of a server taken, in %, by the Engset formula for \
            3 slots, 5 clients, rho = 0.5. Bar: the formula's value"
            .claim("engset-call", Exactly(10.0), Seconds(1))
            .by(|| formula("call")),
        "Difference, in percentage points, between the share of time in which all slots of a real \
            server are taken and the Engset formula: 3 slots, 5 clients, rho = 0.5. Bar: our own \
            target"
            .claim("engset-time-measured", AtMost(0.5), Seconds(10))
            .by(difference("time")),
        "Difference, in percentage points, between the share of attempts that find all slots of a \
            real server taken and the Engset formula: 3 slots, 5 clients, rho = 0.5. Bar: our own \
            target"
            .claim("engset-call-measured", AtMost(0.5), Seconds(10))
            .by(difference("call")),
        "Number of 100 000 associations with certificates on both sides that a process does not \
            hold, idle, or that are not answered in the end. Bar: there may be none"
            .claim("idle-associations", AtMost(0.0), Seconds(120))
            .by(read(ASSOCIATIONS.run("idle"))
                .line(
                    "{held} of {associations} associations held in {bytes} B, {bytes / \
                     associations:.0} B each; {answered} of {asked} answered",
                )
                .needs("asked >= 100")
                .figure("associations - held + asked - answered")),
        "Bytes of heap, and associations, that are left at a server with certificates after a \
            million hellos from invented addresses. Bar: there may be none"
            .claim("spoofed-hellos", AtMost(0.0), Seconds(60))
            .by(read(ASSOCIATIONS.run("flood"))
                .line(
                    "{hellos} hellos, {answers} answers, {left_bytes} B left; at most {most_open} \
                     associations open, {open} in the end",
                )
                .needs("hellos >= 1000000")
                .figure("left_bytes + most_open - 1")),
    ]
    .into_iter()
    .chain(memory())
    .chain(many())
    .collect()
}

/// The memory of an association, for each credential. The first is the claim of the small device.
fn memory() -> impl Iterator<Item = Claim> {
    let rows = [
        ("association-memory", "psk", "AES_128_CCM_8", "a PSK"),
        ("association-memory-raw-keys", "raw-keys", "AES_128_CCM_8", "raw public keys"),
        ("association-memory-certificates", "certificates", "AES_128_CCM_8", "certificates"),
        (
            "association-memory-server-certificate",
            "server-certificate",
            "AES_128_CCM_8",
            "a certificate of the server",
        ),
        ("association-memory-ticket", "ticket", "AES_128_CCM_8", "a ticket of certificates"),
        (
            "association-memory-certificates-12",
            "certificates",
            "ECDHE_ECDSA_WITH_AES_128_CCM_8",
            "DTLS 1.2 certificates",
        ),
    ];
    rows.into_iter().map(|(name, credential, suite, what)| {
        format!(
            "Heap, in bytes, that an idle association takes on a server of 10 000 when it sleeps, \
             four minutes after its handshake: {what} with CCM_8, connection IDs of 8 B, entries in the \
             maps included. Bar: our own target"
        )
        .claim(name, AtMost(1024.0), Seconds(40))
        .by(read(ASSOCIATIONS.run(""))
            .each(
                "rows[]",
                "{credential}, {suite}: {settled:.0} B, {fresh:.0} B directly after its handshake",
            )
            .needs("+rows[]/queued == 0")
            .figure(format!("rows[credential={credential}][suite={suite}]/settled")))
    })
}

/// A server with a million associations, as one endpoint without sockets.
fn many() -> impl Iterator<Item = Claim> {
    let of = "on an endpoint with a million associations (PSK, AES-128-GCM, connection IDs of 8 B), of \
              which 10 000 are active";
    let rows = [
        (
            "dormant",
            "Heap in bytes of an association that sleeps,",
            AtMost(1024.0),
            "dormant_bytes",
        ),
        ("active", "Heap in bytes of an active association,", AtMost(4096.0), "active_bytes"),
        ("mean", "Heap in bytes of an association in the mean,", AtMost(1536.0), "mean_bytes"),
        (
            "handshakes",
            "Handshakes a second of the server alone, over those with a thousand associations,",
            AtLeast(0.8),
            "many_rate / few_rate",
        ),
        (
            "message",
            "Time in which a message of 64 B to an active association, one after the other at random, is \
             opened and delivered, over the time with a thousand associations, all active,",
            AtMost(1.5),
            "many_us / few_us",
        ),
        (
            "wake",
            "Time in microseconds that the message takes longer that wakes an association,",
            AtMost(15.0),
            "wake_us - many_us",
        ),
    ];
    rows.into_iter().map(move |(name, what, bar, figure)| {
        format!("{what} {of}. Bar: our own target")
            .claim(format!("million-{name}"), bar, Seconds(90))
            .by(read(MANY_ASSOCIATIONS.run(""))
                .line(
                    "{associations} associations, {sleeping} slept, {active} active: {dormant_bytes:.0} B \
                     dormant, {active_bytes:.0} B active, {mean_bytes:.0} B in the mean",
                )
                .line(
                    "{few_rate:.0} handshakes a second with {few}, {many_rate:.0} with all; a message \
                     {few_us:.2} µs with {few}, {many_us:.2} µs with all, {wake_us:.2} µs if it wakes",
                )
                .needs("associations == 1000000")
                .needs("sleeping == associations")
                .needs("active == 10000")
                .figure(figure))
    })
}

fn sessions(attempts: &str) -> Run {
    let example = "--slots 3 --clients 5 --rho 0.5";
    LAB.run(format!("sessions --json --attempts {attempts} {example}"))
}

/// The formula's value to two decimals, as documents quote it.
fn formula(which: &str) -> Result<Measured, Failure> {
    let result = sessions("100").json()?;
    let exact = number(&result, &format!("formula/{which}_congestion_percent"))?;
    Ok(Measured { figure: (100.0 * exact).round() / 100.0, detail: format!("{exact:.6} %") })
}

fn difference(which: &str) -> Reading {
    let (counted, exact) =
        (format!("counted/{which}_congestion"), format!("formula/{which}_congestion_percent"));
    read(sessions("100000"))
        .line(format!(
            "{{{counted}/percent:.2}} ± {{{counted}/error_percent:.2}} % of {{counted/attempts}} \
             attempts, {{{exact}:.2}} % by formula, seed {{seed}}"
        ))
        .figure(format!("|{counted}/percent - {exact}|"))
}
