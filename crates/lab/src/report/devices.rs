//! What the papers on MAC aggregation, duty-cycled networks and LightMAC do not measure, or measured
//! on other processors: memory and work on an emulated device.

use super::stored::{FOOTPRINT, StoredTable, image, ram};
use crate::figure::{Axis, Cell, FigureData, Marks, PaperItem, Plot, Table};
use crate::papers::{AGGREGATION, DEVICE, DUTY_CYCLED, LIGHTMAC};
use crate::sessions::Engset;
use serde_json::Value;

pub(super) const TAGS: StoredTable = StoredTable {
    name: "aggregation-device",
    title: "Memory and work of shared tags on a device",
    source: PaperItem { paper: AGGREGATION, item: DEVICE },
    about: "What a scheme adds to a record beyond its MAC, on an emulated Cortex-M3 with the paper's \
            parameters: instructions to seal a record's share of tags, and to verify records that \
            arrive in order, as means over whole sets; and the state. An output block of the \
            pseudorandom function is one block of AES from a table and is included; the row `plain` \
            has one such block and nothing else. The state is what one type for all parameters \
            takes. Instructions are not cycles. The paper measures goodput and energy, and neither \
            memory nor processing time.",
    set: FOOTPRINT,
    read: tags,
};

pub(super) const MACS: StoredTable = StoredTable {
    name: "lightmac-device",
    title: "Tags of LightMAC, CMAC and HMAC on a device",
    source: PaperItem { paper: LIGHTMAC, item: DEVICE },
    about: "Instructions to compute a tag on an emulated Cortex-M3, by length of the message, in the \
            two profiles for devices; the last column is for a byte in profile `fast`. AES is the \
            constant-time one in software, which encrypts two blocks at a time; PRESENT is bitsliced \
            and encrypts four. Instructions are not cycles: a Cortex-M3 needs 1 to 2 cycles for \
            each. The paper has no figures for small processors: its Tables 3 and 4 are cycles per \
            byte on a Core i7-6700.",
    set: FOOTPRINT,
    read: macs,
};

pub(super) const SESSIONS: StoredTable = StoredTable {
    name: "duty-device",
    title: "How often a server is full, by the sessions that fit in its RAM",
    source: PaperItem { paper: DUTY_CYCLED, item: DEVICE },
    about: "The Engset formula with the number of sessions that were measured to fit in the RAM of \
            the paper's devices (16 KB of a WiSMote, 32 KB of a GreenNet node; KB of 1024 B), for a \
            DTLS 1.3 server on an emulated Cortex-M3: static RAM, heap and the stack of the last \
            handshake. An operating system and the network, which take most of the RAM of the \
            paper's nodes, are not counted: the paper's row has three sessions beside Contiki.",
    set: FOOTPRINT,
    read: sessions,
};

/// The profiles of the images.
const PROFILES: [&str; 2] = ["small", "fast"];

/// The cases of an image, with their instructions.
fn cases(row: &Value) -> Option<Vec<(&str, u64)>> {
    let pairs = row.get("instructions_by_case")?.as_array()?.iter();
    pairs.map(|pair| Some((pair.get(0)?.as_str()?, pair.get(1)?.as_u64()?))).collect()
}

/// The instructions of each case of an image, in both profiles.
fn in_profiles<'a>(result: &'a Value, name: &str) -> Option<Vec<(&'a str, [u64; 2])>> {
    let [small, fast] = PROFILES.map(|profile| image(result, name, profile).and_then(cases));
    let (small, fast) = (small?, fast?);
    let both = small.into_iter().map(|(case, small)| {
        let (_, fast) = fast.iter().find(|(other, _)| *other == case)?;
        Some((case, [small, *fast]))
    });
    both.collect()
}

fn tags(result: &Value) -> Option<FigureData> {
    const SIDES: [(&str, &str); 4] = [
        ("sender", "tags-agg-sender"),
        ("sender", "tags-r2d2-sender"),
        ("receiver", "tags-agg-receiver"),
        ("receiver", "tags-r2d2-receiver"),
    ];
    let columns = [
        ("side", "the side of the association"),
        ("scheme", "the scheme and its parameter; `plain` is a tag in each record"),
        ("small", "instructions a record, profile `small`"),
        ("fast", "instructions a record, profile `fast`"),
        ("state_bytes", "bytes of the side's state"),
    ];
    let mut table = Table::new(&columns, Vec::new());
    for (side, name) in SIDES {
        let state = image(result, name, PROFILES[0])?["state_bytes"].as_u64()?;
        for (scheme, [small, fast]) in in_profiles(result, name)? {
            let is_plain = scheme == "plain";
            // Both senders measure it.
            if is_plain && name != SIDES[0].1 {
                continue;
            }
            let state = if is_plain { Cell::Missing } else { Cell::Integer(state) };
            let [small, fast] = [small, fast].map(Cell::Integer);
            table.rows.push(vec![side.into(), scheme.into(), small, fast, state]);
        }
    }
    Some(FigureData::table(table))
}

fn macs(result: &Value) -> Option<FigureData> {
    const IMAGES: [(&str, &str); 4] = [
        ("LightMAC, AES-128", "lightmac-aes"),
        ("LightMAC, PRESENT-80", "lightmac-present"),
        ("CMAC, AES-128", "cmac-aes"),
        ("HMAC, SHA-256", "hmac-sha256"),
    ];
    let columns = [
        ("mac", "the MAC"),
        ("message_bytes", "length of the message"),
        ("small", "instructions a tag, profile `small`"),
        ("fast", "instructions a tag, profile `fast`"),
        ("fast_for_a_byte", "instructions for each byte, profile `fast`"),
    ];
    let mut table = Table::new(&columns, Vec::new());
    for (mac, name) in IMAGES {
        for (bytes, [small, fast]) in in_profiles(result, name)? {
            let bytes: u64 = bytes.parse().ok()?;
            table.rows.push(vec![
                mac.into(),
                Cell::Integer(bytes),
                Cell::Integer(small),
                Cell::Integer(fast),
                Cell::Number(fast as f64 / bytes as f64),
            ]);
        }
    }
    Some(FigureData::table(table))
}

/// The clients of the paper's example, and more.
const CLIENTS: [u64; 3] = [5, 10, 20];
/// The loads of an idle client, in erlangs.
const LOADS: [f64; 9] = [0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0];

fn sessions(result: &Value) -> Option<FigureData> {
    // tinydtls takes about 400 B, by the paper.
    let mut servers = vec![("paper", 16, 3, 400)];
    for (server, name) in [("measured", "sessions-24"), ("measured, asleep", "sessions-asleep")] {
        let row = image(result, name, PROFILES[0])?;
        let by_number = ram(row)?;
        let (first, last) = (by_number.first()?, by_number.last()?);
        let session = last.1.checked_sub(first.1)?.checked_div(last.0.checked_sub(first.0)?)?;
        for (kb, key) in [(16, "peers_in_16_kb"), (32, "peers_in_32_kb")] {
            servers.push((server, kb, row[key].as_u64()?, session));
        }
    }
    let columns = [
        ("curve", "the curve that the row belongs to"),
        ("server", "the paper's server, or ours, whose sessions may sleep between their events"),
        ("ram_kb", "RAM of the device, in KB of 1024 B"),
        ("slots", "R: sessions that fit"),
        ("session_bytes", "bytes of RAM for each further session"),
        ("clients", "N: clients"),
        ("load_erlangs", "ρ: mean duration of a session divided by that of a client's idle time"),
        ("congestion_percent", "share of time in which all slots are taken"),
        ("paper_percent", "the congestion that the paper reports"),
    ];
    let mut table = Table::new(&columns, Vec::new());
    for (server, kb, slots, session) in servers {
        for clients in CLIENTS {
            for load in LOADS {
                let is_paper = server == "paper";
                let congestion = 100.0 * Engset { slots, clients, load }.time_congestion();
                let example = is_paper && clients == 5 && load == 0.5;
                table.rows.push(vec![
                    format!("{server}, {kb} KB, N = {clients}").as_str().into(),
                    server.into(),
                    Cell::Integer(kb),
                    Cell::Integer(slots),
                    Cell::Integer(session),
                    Cell::Integer(clients),
                    load.into(),
                    congestion.into(),
                    Some(17.0).filter(|_| example).into(),
                ]);
            }
        }
    }
    let plot = Plot {
        subtitle: "N clients, sessions as they fit in RAM".into(),
        marks: Marks::Curves,
        series: "curve",
        emphasis: None,
        x: Axis::linear("load_erlangs", "load of an idle client, ρ = λ/μ", 2.0),
        y: Axis::linear("congestion_percent", "time congestion in %", 100.0),
    };
    Some(FigureData::plotted(table, plot))
}
