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
        "Heap, in bytes, that an idle association takes on a server of 10 000 when the keys of its \
            handshake are erased: PSK with CCM_8, connection IDs of 8 B, entries in the maps \
            included. Bar: our own target"
            .claim("association-memory", AtMost(1536.0), Seconds(10))
            .by(read(ASSOCIATIONS.run(""))
                .each("rows[]", "{suite}: {settled:.0} B, {fresh:.0} B directly after its handshake")
                .figure("rows[suite=AES_128_CCM_8]/settled")),
    ]
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
