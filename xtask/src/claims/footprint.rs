//! Claims on the size and the work of the engine on a Cortex-M3, measured as `cargo xtask
//! footprint` does. They need the toolchain that this command unpacks.

use super::prelude::*;
use crate::footprint::{Figures, frames};

/// A sum of figures and its bar, which is a target of our own.
#[derive(Clone, Copy)]
struct Row {
    name: &'static str,
    what: &'static str,
    profile: &'static str,
    /// The terms of the sum.
    terms: &'static [Term],
    bar: f64,
    beside: &'static [Beside],
}

/// A figure that is added, or that is subtracted if its sign is negative.
#[derive(Clone, Copy)]
struct Term {
    image: &'static str,
    key: &'static str,
    sign: i8,
}

/// What is printed beside the figure.
#[derive(Clone, Copy)]
enum Beside {
    /// A value that would be better than the bar.
    Stretch(f64),
    /// The image of another implementation's client. It is measured in the same run, and its value of
    /// the claimed figure is printed.
    Peer(&'static str),
    /// The functions whose stack frames are over the bar.
    Frames,
}

const fn plus(image: &'static str, key: &'static str) -> Term {
    Term { image, key, sign: 1 }
}

const fn minus(image: &'static str, key: &'static str) -> Term {
    Term { image, key, sign: -1 }
}

const fn row(
    name: &'static str,
    what: &'static str,
    profile: &'static str,
    terms: &'static [Term],
    bar: f64,
) -> Row {
    Row { name, what, profile, terms, bar, beside: &[] }
}

impl Row {
    const fn beside(self, beside: &'static [Beside]) -> Self {
        Self { beside, ..self }
    }
}

/// A thousand bytes of flash, or instructions.
const KB: f64 = 1000.0;
/// A kilobyte of RAM.
const KB_RAM: f64 = 1024.0;

const FLASH: &str = "flash_bytes";
const STACK: &str = "handshake_stack_bytes";
const STEADY: &str = "steady_bytes";
const PAYLOADS: &str = "payload_bytes";
const PEAK: &str = "peak_bytes";
const HANDSHAKE: &str = "handshake_instructions";
const SEAL: &str = "seal_instructions";
const OPEN: &str = "open_instructions";

/// The image whose figures most claims are about.
const CLIENT: &str = "client-13";
/// The client whose session sleeps between its events.
const ASLEEP: &str = "client-asleep";
/// The client with plain tags, to which those with shared tags are compared.
const PLAIN: &str = "client-ccm";

const ROWS: &[Row] = &[
    row(
        "footprint-flash-client-13",
        "Bytes of flash of a DTLS 1.3 client",
        "small",
        &[plus(CLIENT, FLASH)],
        36.0 * KB,
    )
    .beside(&[Beside::Stretch(30.0 * KB), Beside::Peer("wolfssl-13")]),
    row(
        "footprint-flash-client-both",
        "Bytes of flash of a client of both versions",
        "small",
        &[plus("client-both", FLASH)],
        46.0 * KB,
    )
    .beside(&[Beside::Stretch(40.0 * KB)]),
    row(
        "footprint-flash-server",
        "Bytes of flash of a DTLS 1.3 server",
        "small",
        &[plus("server-13", FLASH)],
        38.0 * KB,
    ),
    row(
        "footprint-flash-server-more",
        "Bytes of flash that a DTLS 1.3 server needs more than a client",
        "small",
        &[plus("server-13", FLASH), minus(CLIENT, FLASH)],
        2.0 * KB,
    ),
    row(
        "footprint-flash-ends",
        "Bytes of flash of client and server of DTLS 1.3 in one program",
        "small",
        &[plus("ends-13", FLASH)],
        42.0 * KB,
    ),
    row(
        "footprint-flash-ends-more",
        "Bytes of flash that client and server of DTLS 1.3 in one program need more than a client",
        "small",
        &[plus("ends-13", FLASH), minus(CLIENT, FLASH)],
        6.0 * KB,
    ),
    row(
        "footprint-flash-agg-sender",
        "Bytes of flash that sending under agg:16 adds to a DTLS 1.3 client",
        "small",
        &[plus("client-agg", FLASH), minus(PLAIN, FLASH)],
        5.0 * KB,
    ),
    row(
        "footprint-flash-senders",
        "Bytes of flash that sending under agg:16 and r2d2:50 adds to a DTLS 1.3 client",
        "small",
        &[plus("client-senders", FLASH), minus(PLAIN, FLASH)],
        9.0 * KB,
    ),
    row(
        "footprint-flash-agg-receiver",
        "Bytes of flash that receiving under agg:16 adds to a DTLS 1.3 client that sends under it",
        "small",
        &[plus("client-agg-both", FLASH), minus("client-agg", FLASH)],
        9.0 * KB,
    ),
    row(
        "footprint-flash-r2d2-receiver",
        "Bytes of flash that receiving under r2d2:50 adds to a DTLS 1.3 client that sends under it",
        "small",
        &[plus("client-r2d2-both", FLASH), minus("client-r2d2", FLASH)],
        18.0 * KB,
    ),
    row(
        "footprint-agg-sender",
        "Bytes of heap that sending under agg:16 adds to a DTLS 1.3 client's session",
        "small",
        &[plus("client-agg", STEADY), minus(PLAIN, STEADY)],
        128.0,
    ),
    row(
        "footprint-r2d2-sender",
        "Bytes of heap that sending under r2d2:50 adds to a DTLS 1.3 client's session",
        "small",
        &[plus("client-r2d2", STEADY), minus(PLAIN, STEADY)],
        1.1 * KB_RAM,
    ),
    row(
        "footprint-agg-receiver",
        "Bytes of heap that receiving under agg:16 adds to a DTLS 1.3 client's session, beside \
         the memory of payloads that wait for their verdict",
        "small",
        &[
            plus("client-agg-both", STEADY),
            minus("client-agg", STEADY),
            minus("client-agg-both", PAYLOADS),
            plus("client-agg", PAYLOADS),
        ],
        KB_RAM,
    ),
    row(
        "footprint-r2d2-receiver",
        "Bytes of heap that receiving under r2d2:50 adds to a DTLS 1.3 client's session, beside \
         the memory of payloads that wait for their verdict",
        "small",
        &[
            plus("client-r2d2-both", STEADY),
            minus("client-r2d2", STEADY),
            minus("client-r2d2-both", PAYLOADS),
            plus("client-r2d2", PAYLOADS),
        ],
        4.0 * KB_RAM,
    ),
    row(
        "footprint-flash-group-axiom",
        "Bytes of flash of a symmetric member of a group in axiom-1.2, sender and listener, beside \
         AES-128 and the start of a program",
        "small",
        &[plus("group-axiom", FLASH), minus("aes", FLASH)],
        12.0 * KB,
    ),
    row(
        "footprint-flash-group-compact",
        "Bytes of flash of a symmetric member of a group in compact, sender and listener, beside \
         AES-128 and the start of a program",
        "small",
        &[plus("group-compact", FLASH), minus("aes", FLASH)],
        12.0 * KB,
    ),
    row(
        "footprint-stack-handshake",
        "Bytes of stack of a DTLS 1.3 client's handshake; the bar is for stack and workspace together",
        "small",
        &[plus(CLIENT, STACK)],
        3.7 * KB_RAM,
    ),
    row(
        "footprint-workspace",
        "Bytes of heap that a DTLS 1.3 client's handshake takes beside what its session keeps",
        "small",
        &[plus(CLIENT, PEAK), minus(CLIENT, STEADY)],
        1.5 * KB_RAM,
    ),
    row(
        "footprint-workspace-stack",
        "Bytes of heap that a DTLS 1.3 client's handshake takes beside what its session keeps, and \
         of stack",
        "small",
        &[plus(CLIENT, PEAK), minus(CLIENT, STEADY), plus(CLIENT, STACK)],
        3.7 * KB_RAM,
    ),
    row(
        "footprint-stack-record",
        "Bytes of stack to seal or open a record at a DTLS 1.3 client",
        "small",
        &[plus(CLIENT, "record_stack_bytes")],
        768.0,
    ),
    row(
        "footprint-frame",
        "Bytes of the largest stack frame of a function at a DTLS 1.3 client",
        "small",
        &[plus(CLIENT, "frame_bytes")],
        frames::BAR as f64,
    )
    .beside(&[Beside::Frames]),
    row(
        "footprint-session-steady",
        "Bytes of heap of a DTLS 1.3 client's session after its handshake",
        "small",
        &[plus(CLIENT, STEADY)],
        400.0,
    ),
    row(
        "footprint-session-asleep",
        "Bytes of heap of a DTLS 1.3 client's session that sleeps, in the four minutes after its \
         handshake, while it answers a repeated last flight",
        "small",
        &[plus(ASLEEP, STEADY)],
        500.0,
    ),
    row(
        "footprint-session-asleep-later",
        "Bytes of heap of a DTLS 1.3 client's session that sleeps, four minutes after its handshake",
        "small",
        &[plus(ASLEEP, "later_bytes")],
        400.0,
    ),
    row(
        "footprint-handshake-instructions-small",
        "Instructions of a DTLS 1.3 client's handshake with cookie",
        "small",
        &[plus(CLIENT, HANDSHAKE)],
        900.0 * KB,
    ),
    row(
        "footprint-handshake-instructions-fast",
        "Instructions of a DTLS 1.3 client's handshake with cookie",
        "fast",
        &[plus(CLIENT, HANDSHAKE)],
        550.0 * KB,
    ),
    row(
        "footprint-record-seal-small",
        "Instructions to seal a record of 32 B at a DTLS 1.3 client",
        "small",
        &[plus(CLIENT, SEAL)],
        13.0 * KB,
    ),
    row(
        "footprint-record-seal-fast",
        "Instructions to seal a record of 32 B at a DTLS 1.3 client",
        "fast",
        &[plus(CLIENT, SEAL)],
        9.0 * KB,
    ),
    row(
        "footprint-record-open-small",
        "Instructions to open a record of 32 B at a DTLS 1.3 client",
        "small",
        &[plus(CLIENT, OPEN)],
        14.0 * KB,
    ),
    row(
        "footprint-record-open-fast",
        "Instructions to open a record of 32 B at a DTLS 1.3 client",
        "fast",
        &[plus(CLIENT, OPEN)],
        10.0 * KB,
    ),
];

pub(super) fn claims() -> Vec<Claim> {
    ROWS.iter()
        .map(claim)
        .chain([listeners(), sessions(), sessions_beside(), client_sessions()])
        .collect()
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
     RAM with the heap and the stack of the last handshake, on an emulated Cortex-M3: all are in their \
     first four minutes, and sleep between their events. Bar: our own target; the paper on duty-cycled networks observed 3 on a WiSMote with 16 KB, beside operating \
     system and network"
        .claim("sessions-in-16-kb", AtLeast(24.0), Seconds(120))
        .by(|| fitting("sessions-asleep", "peers_in_16_kb"))
}

/// As [`sessions`], without what a device needs once, however many sessions it has.
fn sessions_beside() -> Claim {
    "Bytes of RAM that 24 further sessions of a DTLS 1.3 server (PSK without key exchange, CCM_8) take \
     beside one, on an emulated Cortex-M3: what a handshake needs, and the stack, are there already. \
     All are in their first four minutes, and sleep between their events. Bar: our own target"
        .claim("sessions-24", AtMost(16.0 * KB_RAM), Seconds(120))
        .by(|| fitting("sessions-asleep", "ram_of_24_more_bytes"))
}

/// As [`sessions`], of a client.
fn client_sessions() -> Claim {
    "Sessions of a DTLS 1.3 client (PSK without key exchange, CCM_8) that fit in 16 KB (of 1024 B) of \
     RAM with the heap and the stack of the last handshake, on an emulated Cortex-M3: all are in their \
     first four minutes, and sleep between their events. Bar: our own target"
        .claim("client-sessions-in-16-kb", AtLeast(24.0), Seconds(120))
        .by(|| fitting("uni-uni-13-asleep", "peers_in_16_kb"))
}

/// A figure of an image with many peers.
fn fitting(image: &str, key: &str) -> Result<Measured, Failure> {
    let figure = Figures::measure("small", &[image])?.figure(image, key)? as f64;
    Ok(Measured {
        figure,
        detail: format!("cargo xtask footprint --profile small --image {image}"),
    })
}

fn claim(row: &'static Row) -> Claim {
    let Row { name, what, profile, bar, .. } = *row;
    // Tags of the suite with short tags cannot be shared.
    let shares_tags =
        |term: &Term| ["-agg", "-r2d2", "-senders"].iter().any(|s| term.image.contains(s));
    let suite = if row.terms.iter().any(shares_tags) { "CCM" } else { "CCM_8" };
    let is_of_group = row.terms.iter().any(|term| term.image.starts_with("group-"));
    let keys = if is_of_group { "" } else { "PSK without key exchange and " };
    let about = format!(
        "{what}, {keys}{suite}, on an emulated Cortex-M3, profile {profile}. \
         Bar: our own target"
    );
    about.claim(name, AtMost(bar), Seconds(120)).by(move || measure(row))
}

fn measure(row: &Row) -> Result<Measured, Failure> {
    let mut images: Vec<_> = row.terms.iter().map(|term| term.image).collect();
    images.sort_unstable();
    images.dedup();
    let named = images.iter().map(|image| format!(" --image {image}"));
    let command =
        format!("cargo xtask footprint --profile {}{}", row.profile, named.collect::<String>());
    images.extend(row.beside.iter().filter_map(|beside| match beside {
        Beside::Peer(peer) => Some(*peer),
        _ => None,
    }));
    let figures = Figures::measure(row.profile, &images)?;
    let mut figure = 0.0;
    let mut lines = vec![command];
    for Term { image, key, sign } in row.terms {
        let term = figures.figure(image, key)?;
        lines.push(format!("{} {key} of {image}: {term}", if *sign < 0 { '-' } else { '+' }));
        figure += f64::from(*sign) * term as f64;
    }
    for beside in row.beside {
        match *beside {
            Beside::Stretch(stretch) => lines.push(format!("stretch: {stretch}")),
            Beside::Peer(peer) => {
                let Some(term) = row.terms.first() else { continue };
                lines.push(format!("{} of {peer}: {}", term.key, figures.figure(peer, term.key)?));
            }
            Beside::Frames => {
                for Term { image, .. } in row.terms {
                    let over = figures.frames_over(image)?.into_iter();
                    lines.extend(over.map(|frame| format!("{:8} {}", frame.bytes, frame.name)));
                }
            }
        }
    }
    Ok(Measured { figure, detail: lines.join("\n") })
}
