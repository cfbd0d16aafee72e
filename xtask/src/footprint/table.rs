//! The figures of an image, and how they are printed.

use super::emulator::Run;
use super::flash::{Share, Sizes};
use super::images::{Image, Profile};
use super::peers::{self, Peer};
use crate::Failure;
use serde_json::{Map, Value, json};
use std::fmt::Write;

/// The figures of one image in one profile.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) profile: String,
    pub(super) image: String,
    about: &'static str,
    /// Key and value; a figure that the image does not have is absent.
    pub(super) figures: Vec<(&'static str, u64)>,
    /// The bytes of RAM of an image with peers: static, heap and stack, for each number of peers
    /// from 1.
    peers: Vec<u64>,
    /// The cases that the image compares, with their instructions.
    cases: Vec<(String, u64)>,
    crates: Vec<Share>,
}

/// The key of a figure, and its column.
const COLUMNS: [(&str, &str); 12] = [
    ("flash_bytes", "flash"),
    ("static_bytes", "static"),
    ("configuration_bytes", "config"),
    ("steady_bytes", "steady"),
    ("peak_bytes", "peak"),
    ("handshake_stack_bytes", "stack hs"),
    ("record_stack_bytes", "stack rec"),
    ("handshake_instructions", "instr hs"),
    ("seal_instructions", "seal"),
    ("open_instructions", "open"),
    ("record_bytes", "record"),
    ("tag_instructions", "tag"),
];

/// Sizes of types, which `--json` prints and the tables leave out: the key of a figure, and the value
/// that images print.
const TYPES: [(&str, &str); 3] =
    [("connection_bytes", "Connection"), ("endpoint_bytes", "Endpoint"), ("state_bytes", "state")];

/// The sizes of RAM of the papers' devices, in bytes, and the keys of the number of peers that fit.
/// They are printed below the table.
const DEVICES: [(u64, &str); 2] = [(16 << 10, "peers_in_16_kb"), (32 << 10, "peers_in_32_kb")];

/// The numbers of peers whose RAM is stored, with the greatest that was measured.
const NUMBERS: [usize; 20] =
    [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 30, 40, 60, 80, 100, 150, 200, 300];

/// The columns' heads in the document, in the order of `COLUMNS`.
const HEADS: [&str; COLUMNS.len()] = [
    "flash",
    "static RAM",
    "configuration",
    "heap, steady",
    "heap, peak",
    "stack, handshake",
    "stack, record",
    "instructions, handshake",
    "instructions, seal",
    "instructions, open",
    "datagram of 32 B",
    "instructions, tag",
];

/// The profile and the image whose flash the document shows by crate.
const DIVIDED: (&str, &str) = ("small", "client-13");

/// The steps that belong to a record.
const RECORD: [&str; 3] = ["seal", "open", "other"];

impl Row {
    pub(super) fn new(profile: Profile, image: Image, sizes: &Sizes, run: &Run) -> Self {
        let configuration = run.value("configuration");
        // A session takes what is allocated beside its configuration.
        let session = |bytes: Option<u64>| bytes?.checked_sub(configuration?);
        let figures = [
            Some(sizes.flash),
            Some(sizes.statics),
            configuration,
            session(run.steady_heap()),
            session(run.peak("handshake")),
            run.stack(&["handshake"]),
            run.stack(&RECORD),
            run.instructions("handshake"),
            run.steady_instructions("seal"),
            run.steady_instructions("open"),
            run.steady_value("record"),
            run.steady_instructions("tag"),
        ];
        let keys = COLUMNS.iter().map(|(key, _)| *key);
        let types = TYPES.map(|(key, name)| (key, run.value(name)));
        let peers: Vec<_> = run.by_peers().into_iter().map(|sum| sum + sizes.statics).collect();
        let fitting = DEVICES.map(|(bytes, key)| (key, fitting(&peers, bytes)));
        let figures = keys.zip(figures).chain(types).chain(fitting);
        Self {
            profile: profile.name.into(),
            image: image.name.into(),
            about: image.about,
            figures: figures.filter_map(|(key, value)| Some((key, value?))).collect(),
            peers,
            cases: run.cases(),
            crates: sizes.crates.clone(),
        }
    }

    /// The numbers of peers that are stored, with the bytes of RAM.
    fn by_peers(&self) -> impl Iterator<Item = (usize, u64)> {
        let numbered = self.peers.iter().enumerate().map(|(at, bytes)| (at + 1, *bytes));
        let last = self.peers.len();
        numbered.filter(move |(number, _)| *number == last || NUMBERS.contains(number))
    }

    /// A peer's client, which is sized and not run.
    pub(super) fn peer(peer: Peer, sizes: &Sizes) -> Self {
        Self {
            profile: peers::PROFILE.into(),
            image: peer.name.into(),
            about: peer.about,
            figures: vec![("flash_bytes", sizes.flash), ("static_bytes", sizes.statics)],
            peers: Vec::new(),
            cases: Vec::new(),
            crates: Vec::new(),
        }
    }

    #[cfg(test)]
    pub(super) fn test(profile: &str, image: &str, figures: &[(&'static str, u64)]) -> Self {
        let (profile, image) = (profile.into(), image.into());
        let (figures, peers, cases) = (figures.to_vec(), Vec::new(), Vec::new());
        Self { profile, image, about: "", figures, peers, cases, crates: Vec::new() }
    }

    /// The figure with this key.
    pub(super) fn figure(&self, key: &str) -> Option<u64> {
        self.figures.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }

    fn json(&self) -> Value {
        let mut row = Map::new();
        row.insert("profile".into(), json!(self.profile));
        row.insert("image".into(), json!(self.image));
        row.extend(self.figures.iter().map(|(key, value)| ((*key).to_owned(), json!(value))));
        if !self.peers.is_empty() {
            row.insert("ram_by_peers".into(), json!(self.by_peers().collect::<Vec<_>>()));
        }
        if !self.cases.is_empty() {
            row.insert("instructions_by_case".into(), json!(self.cases));
        }
        let crates = self.crates.iter();
        let crates = crates.map(|share| (share.name.clone(), json!([share.own, share.generics])));
        if !self.crates.is_empty() {
            row.insert("crates".into(), Value::Object(crates.collect()));
        }
        Value::Object(row)
    }
}

/// The number of peers with which an image needs at most this many bytes; `None` if it has no peers.
fn fitting(peers: &[u64], bytes: u64) -> Option<u64> {
    let fit = peers.iter().take_while(|needed| **needed <= bytes).count();
    (!peers.is_empty()).then_some(fit as u64)
}

/// What is stored and printed with `--json`.
pub(super) fn json(compiler: &str, rows: &[Row]) -> Value {
    json!({ "compiler": compiler, "rows": rows.iter().map(Row::json).collect::<Vec<_>>() })
}

/// A table for the terminal.
pub(super) fn text(rows: &[Row]) -> String {
    let mut lines = vec![[&["profile", "image"][..], &COLUMNS.map(|column| column.1)].concat()];
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let figures = COLUMNS.iter().map(|(key, _)| row.figure(key));
            let figures = figures.map(|value| value.map_or("-".into(), |value| value.to_string()));
            [row.profile.clone(), row.image.clone()].into_iter().chain(figures).collect()
        })
        .collect();
    lines.extend(cells.iter().map(|row| row.iter().map(String::as_str).collect()));
    let columns = COLUMNS.len() + 2;
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for line in &lines {
        let cells =
            line.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
                0 | 1 => format!("{cell:width$}"),
                _ => format!("{cell:>width$}"),
            });
        let _ = writeln!(text, "{}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    for row in rows.iter().filter(|row| !row.peers.is_empty()) {
        let _ = write!(text, "\n{} ({}), RAM by number of peers:", row.image, row.profile);
        for (number, bytes) in row.by_peers() {
            let _ = write!(text, " {number}: {bytes},");
        }
        for (bytes, key) in DEVICES {
            let number = row.figure(key).unwrap_or_default();
            let _ = write!(text, " {number} in {} KB,", bytes >> 10);
        }
        let _ = writeln!(text, " of {}", row.peers.len());
    }
    for row in rows.iter().filter(|row| !row.cases.is_empty()) {
        let cases: Vec<_> =
            row.cases.iter().map(|(case, mean)| format!(" {case}: {mean}")).collect();
        let _ =
            writeln!(text, "\n{} ({}), instructions:{}", row.image, row.profile, cases.join(","));
    }
    text
}

/// The tables of docs/devices.md: for each profile the images in rows, and for each image of
/// `DIVIDED` its flash by crate.
pub(super) fn markdown(compiler: &str, rows: &[Row]) -> Result<String, Failure> {
    let mut text = format!(
        "Measured {} with\n{compiler}, on the board mps2-an385 as\nQEMU emulates it. All figures are bytes or instructions.\n",
        crate::measure::now()?
    );
    let mut profiles: Vec<_> = rows.iter().map(|row| row.profile.as_str()).collect();
    profiles.dedup();
    for profile in profiles {
        let heads = HEADS.join(" | ");
        let rule = "|---".repeat(HEADS.len());
        let _ = writeln!(text, "\nProfile `{profile}`:\n\n| image | {heads} |\n|---{rule}|");
        for row in rows.iter().filter(|row| row.profile == profile) {
            let cells = COLUMNS.iter().map(|(key, _)| row.figure(key));
            let cells = cells.map(|value| value.map_or("–".into(), |value| value.to_string()));
            let cells: Vec<String> = cells.collect();
            let _ = writeln!(text, "| {} | {} |", row.about, cells.join(" | "));
        }
    }
    let divided = |row: &&Row| row.profile == DIVIDED.0 && row.image == DIVIDED.1;
    for row in rows.iter().filter(divided) {
        let about = row.about;
        let _ = writeln!(text, "\nThe flash of the {about} (`{}`), by crate:\n", row.profile);
        let _ =
            writeln!(text, "| crate | own | in `core` and `alloc` for its types |\n|---|---|---|");
        for Share { name, own, generics } in &row.crates {
            let _ = writeln!(text, "| {name} | {own} | {generics} |");
        }
    }
    Ok(text)
}

/// The flash of each crate in each image.
pub(super) fn crates(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows.iter().filter(|row| !row.crates.is_empty()) {
        let _ = writeln!(text, "{} ({}): {}", row.image, row.profile, row.about);
        for share in &row.crates {
            let Share { name, own, generics } = share;
            let _ = write!(text, "  {name:24} {own:8}");
            let _ = match generics {
                0 => writeln!(text),
                _ => writeln!(text, " and {generics} in core and alloc for its types"),
            };
        }
    }
    text
}
