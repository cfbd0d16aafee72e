//! Claims on the size and the work of the engine on a Cortex-M3, measured as `cargo xtask
//! footprint` does. They need the toolchain that this command unpacks.

use super::prelude::*;
use crate::footprint::figure;

/// A figure of an image and its bar, which is a target of our own.
struct Row {
    name: &'static str,
    what: &'static str,
    profile: &'static str,
    image: &'static str,
    key: &'static str,
    bar: f64,
}

const KB: f64 = 1000.0;

const ROWS: [Row; 13] = [
    Row {
        name: "footprint-flash-client-13",
        what: "Bytes of flash of a DTLS 1.3 client",
        profile: "small",
        image: "client-13",
        key: "flash_bytes",
        bar: 36.0 * KB,
    },
    Row {
        name: "footprint-flash-client-both",
        what: "Bytes of flash of a client of both versions",
        profile: "small",
        image: "client-both",
        key: "flash_bytes",
        bar: 46.0 * KB,
    },
    Row {
        name: "footprint-flash-server",
        what: "Bytes of flash of a DTLS 1.3 server",
        profile: "small",
        image: "server-13",
        key: "flash_bytes",
        bar: 38.0 * KB,
    },
    Row {
        name: "footprint-flash-ends",
        what: "Bytes of flash of client and server of DTLS 1.3 in one program",
        profile: "small",
        image: "ends-13",
        key: "flash_bytes",
        bar: 42.0 * KB,
    },
    Row {
        name: "footprint-stack-handshake",
        what: "Bytes of stack of a DTLS 1.3 client's handshake; the bar is for stack and heap together",
        profile: "small",
        image: "client-13",
        key: "handshake_stack_bytes",
        bar: 3.7 * KB,
    },
    Row {
        name: "footprint-stack-record",
        what: "Bytes of stack to seal or open a record at a DTLS 1.3 client",
        profile: "small",
        image: "client-13",
        key: "record_stack_bytes",
        bar: 768.0,
    },
    Row {
        name: "footprint-session-steady",
        what: "Bytes of heap of a DTLS 1.3 client's session after its handshake",
        profile: "small",
        image: "client-13",
        key: "steady_bytes",
        bar: 400.0,
    },
    Row {
        name: "footprint-handshake-instructions-small",
        what: "Instructions of a DTLS 1.3 client's handshake with cookie",
        profile: "small",
        image: "client-13",
        key: "handshake_instructions",
        bar: 900.0 * KB,
    },
    Row {
        name: "footprint-handshake-instructions-fast",
        what: "Instructions of a DTLS 1.3 client's handshake with cookie",
        profile: "fast",
        image: "client-13",
        key: "handshake_instructions",
        bar: 550.0 * KB,
    },
    Row {
        name: "footprint-record-seal-small",
        what: "Instructions to seal a record of 32 B at a DTLS 1.3 client",
        profile: "small",
        image: "client-13",
        key: "seal_instructions",
        bar: 13.0 * KB,
    },
    Row {
        name: "footprint-record-seal-fast",
        what: "Instructions to seal a record of 32 B at a DTLS 1.3 client",
        profile: "fast",
        image: "client-13",
        key: "seal_instructions",
        bar: 9.0 * KB,
    },
    Row {
        name: "footprint-record-open-small",
        what: "Instructions to open a record of 32 B at a DTLS 1.3 client",
        profile: "small",
        image: "client-13",
        key: "open_instructions",
        bar: 14.0 * KB,
    },
    Row {
        name: "footprint-record-open-fast",
        what: "Instructions to open a record of 32 B at a DTLS 1.3 client",
        profile: "fast",
        image: "client-13",
        key: "open_instructions",
        bar: 10.0 * KB,
    },
];

pub(super) fn claims() -> Vec<Claim> {
    ROWS.iter().map(claim).chain([listeners(), sessions()]).collect()
}

/// How many listeners the device of the Axiom paper has room for.
fn listeners() -> Claim {
    "Listeners of a sender whose image fits in 32 KB (of 1024 B) of RAM, static, heap and stack, on an \
     emulated Cortex-M3: each responds to a request under the keys of a group of profile axiom-1.2. \
     Bar: our own target; the Axiom paper's image, with operating system and network, has room for 40"
        .claim("axiom-listeners-in-32-kb", AtLeast(100.0), Seconds(120))
        .by(|| fitting("mul-mul-sender", "peers_in_32_kb"))
}

/// How many sessions the device of the paper on duty-cycled networks has room for.
fn sessions() -> Claim {
    "Sessions of a DTLS 1.3 server (PSK without key exchange, CCM_8) that fit in 16 KB (of 1024 B) of \
     RAM with the heap and the stack of the last handshake, on an emulated Cortex-M3. Bar: our own \
     target; the paper on duty-cycled networks observed 3 on a WiSMote with 16 KB, beside operating \
     system and network"
        .claim("sessions-in-16-kb", AtLeast(24.0), Seconds(120))
        .by(|| fitting("sessions-24", "peers_in_16_kb"))
}

/// How many peers an image has room for.
fn fitting(image: &str, key: &str) -> Result<Measured, Failure> {
    let figure = figure("small", image, key)? as f64;
    Ok(Measured {
        figure,
        detail: format!("cargo xtask footprint --profile small --image {image}"),
    })
}

fn claim(row: &'static Row) -> Claim {
    let Row { name, what, profile, image, key, bar } = *row;
    let about = format!(
        "{what}, PSK without key exchange and CCM_8, on an emulated Cortex-M3, profile {profile}. \
         Bar: our own target"
    );
    about.claim(name, AtMost(bar), Seconds(120)).by(move || {
        let figure = figure(profile, image, key)? as f64;
        let detail = format!("cargo xtask footprint --profile {profile} --image {image}");
        Ok(Measured { figure, detail })
    })
}
