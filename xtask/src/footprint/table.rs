//! The figures of an image, and how they are printed.

use super::emulator::Run;
use super::flash::{Share, Sizes};
use super::frames::{self, Frame};
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
    /// The stack frames of functions, largest first.
    frames: Vec<Frame>,
}

/// The key of a figure, and its column.
const COLUMNS: [(&str, &str); 14] = [
    ("flash_bytes", "flash"),
    ("static_bytes", "static"),
    ("configuration_bytes", "config"),
    ("steady_bytes", "steady"),
    ("later_bytes", "later"),
    ("peak_bytes", "peak"),
    ("handshake_stack_bytes", "stack hs"),
    ("record_stack_bytes", "stack rec"),
    ("frame_bytes", "frame"),
    ("handshake_instructions", "instr hs"),
    ("seal_instructions", "seal"),
    ("open_instructions", "open"),
    ("record_bytes", "record"),
    ("tag_instructions", "tag"),
];

/// Sizes of types and of what they hold, which `--json` prints and the tables leave out: the key of a figure, and the value
/// that images print.
const TYPES: [(&str, &str); 4] = [
    ("connection_bytes", "Connection"),
    ("endpoint_bytes", "Endpoint"),
    ("state_bytes", "state"),
    // What the heap has for payloads of records, after the last one.
    ("payload_bytes", "payloads"),
];

/// The figures of images that save their association and restore it: the key, and the head of the
/// document's column. They are printed below the table.
const SAVED: [(&str, &str); 4] = [
    ("saved_bytes", "saved bytes"),
    ("save_instructions", "instructions, save"),
    ("restore_instructions", "instructions, restore"),
    ("save_stack_bytes", "stack, save and restore"),
];

/// The sizes of RAM of the papers' devices, in bytes, and the keys of the number of peers that fit.
/// They are printed below the table.
const DEVICES: [(u64, &str); 2] = [(16 << 10, "peers_in_16_kb"), (32 << 10, "peers_in_32_kb")];

/// Whether a figure is the number of peers that fit, which is better the greater it is.
pub(super) fn is_number_that_fits(key: &str) -> bool {
    DEVICES.iter().any(|(_, known)| *known == key)
}

/// The numbers of peers whose RAM is stored, with the greatest that was measured.
const NUMBERS: [usize; 20] =
    [1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 30, 40, 60, 80, 100, 150, 200, 300];

/// The columns' heads in the document, in the order of `COLUMNS`.
const HEADS: [&str; COLUMNS.len()] = [
    "flash",
    "static RAM",
    "configuration",
    "heap, steady",
    "heap, 5 min later",
    "heap, peak",
    "stack, handshake",
    "stack, record",
    "largest frame",
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

/// The step after which the handshake's keys are erased, and associations that may sleep do.
const LATER: &str = "later";

impl Row {
    pub(super) fn new(
        profile: &str,
        image: &str,
        about: &'static str,
        sizes: &Sizes,
        run: &Run,
    ) -> Self {
        let configuration = run.value("configuration");
        // A session takes what is allocated beside its configuration.
        let session = |bytes: Option<u64>| bytes?.checked_sub(configuration?);
        let figures = [
            ("flash_bytes", Some(sizes.flash)),
            ("static_bytes", Some(sizes.statics)),
            ("configuration_bytes", configuration),
            ("steady_bytes", session(run.heap_before(LATER))),
            ("later_bytes", session(run.heap(LATER))),
            ("peak_bytes", session(run.peak("handshake"))),
            ("handshake_stack_bytes", run.stack(&["handshake"])),
            ("record_stack_bytes", run.stack(&RECORD)),
            ("handshake_instructions", run.instructions("handshake")),
            ("seal_instructions", run.steady_instructions("seal")),
            ("open_instructions", run.steady_instructions("open")),
            ("record_bytes", run.steady_value("record")),
            ("tag_instructions", run.steady_instructions("tag")),
            ("saved_bytes", run.value("saved")),
            ("save_instructions", run.instructions("save")),
            ("restore_instructions", run.instructions("restore")),
            ("save_stack_bytes", run.stack(&["save", "restore"])),
        ];
        let types = TYPES.map(|(key, name)| (key, run.value(name)));
        let peers: Vec<_> = run.by_peers().into_iter().map(|sum| sum + sizes.statics).collect();
        let fitting = DEVICES.map(|(bytes, key)| (key, fitting(&peers, bytes)));
        let more = peers.get(24).zip(peers.first()).map(|(all, one)| all.saturating_sub(*one));
        let more = [("ram_of_24_more_bytes", more)];
        let figures = figures.into_iter().chain(types).chain(fitting).chain(more);
        Self {
            profile: profile.into(),
            image: image.into(),
            about,
            figures: figures.filter_map(|(key, value)| Some((key, value?))).collect(),
            peers,
            cases: run.cases(),
            crates: Vec::new(),
            frames: Vec::new(),
        }
    }

    /// The numbers of peers that are stored, with the bytes of RAM.
    fn by_peers(&self) -> impl Iterator<Item = (usize, u64)> {
        let numbered = self.peers.iter().enumerate().map(|(at, bytes)| (at + 1, *bytes));
        let last = self.peers.len();
        numbered.filter(move |(number, _)| *number == last || NUMBERS.contains(number))
    }

    /// The row with its flash divided by crate.
    pub(super) fn with_crates(self, crates: Vec<Share>) -> Self {
        Self { crates, ..self }
    }

    /// The row with the frames of its functions, and the largest one of our crates among its figures.
    pub(super) fn with_frames(mut self, frames: Vec<Frame>) -> Self {
        let largest = frames.iter().find(|frame| frame.is_ours());
        self.figures.extend(largest.map(|frame| ("frame_bytes", frame.bytes)));
        Self { frames, ..self }
    }

    #[cfg(test)]
    pub(super) fn test(profile: &str, image: &str, figures: &[(&'static str, u64)]) -> Self {
        let (profile, image) = (profile.into(), image.into());
        let (figures, peers, cases) = (figures.to_vec(), Vec::new(), Vec::new());
        let (crates, frames) = (Vec::new(), Vec::new());
        Self { profile, image, about: "", figures, peers, cases, crates, frames }
    }

    /// The figure with this key.
    pub(super) fn figure(&self, key: &str) -> Option<u64> {
        self.figures.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
    }

    /// Whether the image saves its association and restores it.
    fn is_saved(&self) -> bool {
        self.figure(SAVED[0].0).is_some()
    }

    /// The functions of our crates whose frames are over the bar, largest first.
    pub(super) fn frames_over(&self) -> impl Iterator<Item = &Frame> {
        self.frames.iter().filter(|frame| frame.is_over())
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
        let frames = self.frames.iter().filter(|frame| frame.bytes >= frames::STORED);
        let frames: Vec<_> = frames.map(|frame| json!([frame.name, frame.bytes])).collect();
        if !frames.is_empty() {
            row.insert("frames".into(), json!(frames));
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
    for row in rows.iter().filter(|row| row.is_saved()) {
        let _ = write!(text, "\n{} ({}), before deep sleep:", row.image, row.profile);
        for (key, head) in SAVED {
            let _ = write!(text, " {head}: {},", row.figure(key).unwrap_or_default());
        }
        let _ = writeln!(text);
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
        for row in rows.iter().filter(|row| row.profile == profile && row.peers.is_empty()) {
            let cells = COLUMNS.iter().map(|(key, _)| row.figure(key));
            let cells = cells.map(|value| value.map_or("–".into(), |value| value.to_string()));
            let cells: Vec<String> = cells.collect();
            let _ = writeln!(text, "| {} | {} |", row.about, cells.join(" | "));
        }
    }
    text += &saved(rows);
    text += &by_peers(rows);
    text += &by_case(rows);
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

/// The table of images that save their association and restore it.
fn saved(rows: &[Row]) -> String {
    let mut rows = rows.iter().filter(|row| row.is_saved()).peekable();
    if rows.peek().is_none() {
        return String::new();
    }
    let heads = SAVED.map(|(_, head)| head).join(" | ");
    let rule = "|---".repeat(2 + SAVED.len());
    let mut text = format!(
        "\nAn association that is saved before deep sleep and restored after it:\n\n\
         | image | profile | {heads} |\n{rule}|\n"
    );
    for row in rows {
        let cells = SAVED.map(|(key, _)| row.figure(key).unwrap_or_default().to_string());
        let _ = writeln!(text, "| {} | `{}` | {} |", row.about, row.profile, cells.join(" | "));
    }
    text
}

/// The numbers of peers whose RAM the document shows.
const SHOWN: [usize; 5] = [1, 3, 12, 40, 100];

/// The table of images whose RAM grows with peers.
fn by_peers(rows: &[Row]) -> String {
    let mut rows = rows.iter().filter(|row| !row.peers.is_empty()).peekable();
    let Some(first) = rows.peek() else { return String::new() };
    let numbers = SHOWN.map(|number| format!("RAM, {number}")).join(" | ");
    let fitting = DEVICES.map(|(bytes, _)| format!("fit in {} KB", bytes >> 10)).join(" | ");
    let rule = "|---".repeat(2 + SHOWN.len() + DEVICES.len());
    let mut text = format!(
        "\nRAM by number of peers: static, heap and stack (profile `{}`). KB are of 1024 B:\n\n\
         | image | flash | {numbers} | {fitting} |\n{rule}|\n",
        first.profile
    );
    for row in rows {
        let number = |value: Option<u64>| value.map_or("–".into(), |value| value.to_string());
        let flash = number(row.figure("flash_bytes"));
        let ram = SHOWN.map(|peers| number(row.peers.get(peers - 1).copied())).join(" | ");
        let most = row.peers.len() as u64;
        let fitting = DEVICES.map(|(_, key)| match row.figure(key) {
            Some(fit) if fit == most => format!("all {fit}"),
            other => number(other),
        });
        let _ = writeln!(text, "| {} | {flash} | {ram} | {} |", row.about, fitting.join(" | "));
    }
    text
}

/// The table of images that compare cases.
fn by_case(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows.iter().filter(|row| !row.cases.is_empty()) {
        if text.is_empty() {
            text += "\nInstructions by case: a scheme, or the length of a message in bytes:\n\n\
                     | image | profile | instructions |\n|---|---|---|\n";
        }
        let cases = row.cases.iter().map(|(case, mean)| format!("{case}: {mean}"));
        let cases = cases.collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "| {} | `{}` | {cases} |", row.about, row.profile);
    }
    text
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

/// The stack frames of each image, largest first; those of our crates that are over the bar are marked.
pub(super) fn frames(rows: &[Row]) -> String {
    let mut text = format!("stack frames in bytes; * over the bar of {} B\n", frames::BAR);
    for row in rows.iter().filter(|row| !row.frames.is_empty()) {
        let _ = writeln!(text, "{} ({}): {}", row.image, row.profile, row.about);
        for frame in &row.frames {
            let mark = if frame.is_over() { '*' } else { ' ' };
            let _ = writeln!(text, "{mark} {:8} {}", frame.bytes, frame.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_shows_how_many_peers_fit() {
        let row = Row { peers: vec![900, 16_384, 40_000], ..Row::test("small", "x", &[]) };
        assert_eq!((fitting(&row.peers, 16 << 10), fitting(&[], 1)), (Some(2), None));
        let figures = vec![("flash_bytes", 5), ("peers_in_16_kb", 2), ("peers_in_32_kb", 3)];
        let text = by_peers(&[Row { figures, ..row }]);
        assert!(text.ends_with("|  | 5 | 900 | 40000 | – | – | – | 2 | all 3 |\n"), "{text}");
        assert!(by_peers(&[]).is_empty() && by_case(&[]).is_empty());
    }

    #[test]
    fn the_document_shows_what_saving_takes() {
        let figures = [
            ("flash_bytes", 5),
            ("saved_bytes", 160),
            ("save_instructions", 7),
            ("restore_instructions", 8),
            ("save_stack_bytes", 9),
        ];
        let text =
            saved(&[Row::test("small", "x", &figures[..1]), Row::test("fast", "x", &figures)]);
        assert!(text.ends_with("|---|\n|  | `fast` | 160 | 7 | 8 | 9 |\n"), "{text}");
        assert!(saved(&[]).is_empty());
    }
}
