//! What came of scenarios, as rows of tables.

use super::{Run, Scenario};
use crate::Error;
use crate::energy::Use;
use crate::figure::Cell;
use crate::handshakes::{Cost, Outcome, Summary};
use crate::lowpan;
use crate::statistics::Interval;
use crate::world::Frame;
use std::fmt::Write as _;

/// A column's name, and what stands in it.
type Column = (&'static str, &'static str);

/// Of a row for each handshake.
pub const HANDSHAKE_COLUMNS: &[Column] = &[
    ("seed", "the run's"),
    ("client", "node that asked"),
    ("server", "node that answered"),
    ("success", "1 if both ends came to be allowed to send data, else 0"),
    ("duration_s", "from the client's first datagram until then"),
    ("datagrams", "sent by both ends"),
    ("bytes", "of those datagrams"),
    ("retransmissions", "datagrams sent again by tinydtls's timers, or flights by the engine"),
    ("energy_mj", "what the client spent, whether it succeeded or not"),
    ("sending_ms", "time that the client's radio sent"),
    ("listening_ms", "time that the client's radio listened or received"),
    ("computing_ms", "time that the client's processor worked"),
];

/// Of a summary.
pub const SUMMARY_COLUMNS: &[Column] = &[
    ("handshakes", "how many there were"),
    ("success_share", "how many of them succeeded; only these have times and energies"),
    ("duration_s", "mean"),
    ("duration_error_s", "half the width of its interval of 95 %"),
    ("duration_median_s", "half of them took at most this"),
    ("duration_p95_s", "95 % of them took at most this"),
    ("energy_mj", "what clients spent, mean"),
    ("energy_error_mj", "half the width of its interval of 95 %"),
    ("datagrams", "sent by both ends, mean over all handshakes"),
    ("bytes", "of those datagrams, mean over all handshakes"),
];

/// The figures of what a handshake cost, from which another machine makes a summary with others.
pub const COST_COLUMNS: &[Column] = &[
    ("seed", "the run's"),
    ("duration_us", "from the client's first datagram until both ends may send data"),
    ("energy_mj", "what the client spent"),
    ("datagrams", "sent by both ends"),
    ("bytes", "of those datagrams"),
];

/// Rows of cells under named columns.
#[derive(Clone, Debug)]
pub struct Rows {
    /// Names, unique and with units.
    pub columns: Vec<String>,
    /// As many cells each.
    pub rows: Vec<Vec<Cell>>,
}

impl Rows {
    /// None yet, under `before` and `columns`.
    pub fn new<'a>(before: impl IntoIterator<Item = &'a str>, columns: &[Column]) -> Self {
        let own = columns.iter().map(|(name, _)| *name);
        Self {
            columns: before.into_iter().chain(own).map(ToOwned::to_owned).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds what all runs come to in a row, with `before` in front.
    pub fn add_summary(&mut self, before: &[Cell], summary: &Summary) {
        let any = |value: f64| (summary.ended > 0).then_some(value).into();
        // One value says nothing about how far others are from it.
        let error = |interval: Interval| (summary.ended > 1).then_some(interval.half_width).into();
        let mut row = before.to_vec();
        row.extend([
            Cell::Integer(summary.runs as u64),
            summary.success().into(),
            any(summary.seconds.mean),
            error(summary.seconds),
            any(summary.median),
            any(summary.p95),
            any(summary.millijoules.mean),
            error(summary.millijoules),
            summary.datagrams.into(),
            summary.bytes.into(),
        ]);
        self.rows.push(row);
    }

    /// The names of all columns as a line of CSV.
    ///
    /// # Errors
    /// As [`Self::csv_line`].
    pub fn csv_header(&self) -> Result<String, Error> {
        line(&self.columns)
    }

    /// A row as a line of CSV (RFC 4180 with a bare line feed).
    ///
    /// # Errors
    /// None that cells can cause.
    pub fn csv_line(row: &[Cell]) -> Result<String, Error> {
        let text = |cell: &Cell| match cell {
            Cell::Text(text) => text.clone(),
            Cell::Integer(value) => value.to_string(),
            Cell::Number(value) => value.to_string(),
            Cell::Missing => String::new(),
        };
        line(&row.iter().map(text).collect::<Vec<_>>())
    }

    /// A row as a JSON object in one line.
    ///
    /// # Errors
    /// None that cells can cause.
    pub fn json_line(&self, row: &[Cell]) -> Result<String, Error> {
        let failed =
            |error: serde_json::Error| Error::Format { format: "JSON", reason: error.to_string() };
        let mut text = String::new();
        for (name, cell) in self.columns.iter().zip(row) {
            text.push(if text.is_empty() { '{' } else { ',' });
            let name = serde_json::to_string(name).map_err(failed)?;
            let cell = serde_json::to_string(cell).map_err(failed)?;
            let _ = write!(text, "{name}:{cell}");
        }
        text.push_str("}\n");
        Ok(text)
    }

    /// Everything as CSV.
    ///
    /// # Errors
    /// As [`Self::csv_line`].
    pub fn csv(&self) -> Result<String, Error> {
        let rows = self.rows.iter().map(|row| Self::csv_line(row));
        std::iter::once(self.csv_header()).chain(rows).collect()
    }

    /// All rows as a JSON array, an object in a line each.
    ///
    /// # Errors
    /// As [`Self::json_line`].
    pub fn json(&self) -> Result<String, Error> {
        let lines: Result<Vec<String>, Error> =
            self.rows.iter().map(|row| Ok(self.json_line(row)?.trim_end().to_owned())).collect();
        Ok(format!("[\n{}\n]\n", lines?.join(",\n")))
    }
}

/// A row for each handshake of a run by [`HANDSHAKE_COLUMNS`], each with `before` in front.
pub fn handshake_rows(
    before: &[Cell],
    scenario: &Scenario,
    run: &Run,
) -> impl Iterator<Item = Vec<Cell>> {
    run.outcomes.iter().map(|outcome| {
        let mut row = before.to_vec();
        row.push(Cell::Integer(run.seed));
        row.extend(handshake(scenario, outcome));
        row
    })
}

/// A row of what a handshake cost by [`COST_COLUMNS`], with `before` in front.
pub fn cost_row(before: &[Cell], seed: u64, cost: &Cost) -> Vec<Cell> {
    let mut row = before.to_vec();
    let duration = cost.duration.map(|duration| Cell::Integer(duration.as_micros() as u64));
    row.extend([
        Cell::Integer(seed),
        duration.unwrap_or(Cell::Missing),
        cost.millijoules.into(),
        cost.datagrams.into(),
        cost.bytes.into(),
    ]);
    row
}

fn line(fields: &[String]) -> Result<String, Error> {
    let failed = |reason: String| Error::Format { format: "CSV", reason };
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(fields).map_err(|error| failed(error.to_string()))?;
    let bytes = writer.into_inner().map_err(|error| failed(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| failed(error.to_string()))
}

fn handshake(scenario: &Scenario, outcome: &Outcome) -> [Cell; 11] {
    let Outcome { pair, duration, client, server, spent } = outcome;
    let millis = |what: Use| (spent.of(what) as f64 / 1e3).into();
    let sum = |of: [u32; 2]| Cell::Integer(of.into_iter().map(u64::from).sum());
    [
        u32::from(pair[0].0).into(),
        u32::from(pair[1].0).into(),
        u32::from(duration.is_some()).into(),
        duration.map(|duration| duration.as_secs_f64()).into(),
        sum([client.datagrams, server.datagrams]),
        sum([client.bytes, server.bytes]),
        sum([client.again, server.again]),
        scenario.network.device.millijoules(spent).into(),
        millis(Use::Send),
        millis(Use::Listen),
        millis(Use::Compute),
    ]
}

/// A frame on the air as a line of JSON: its time, who sent it to whom, and its bytes in
/// hexadecimal, checksum included. An acknowledgement names nobody.
pub fn frame_line(frame: &Frame) -> String {
    let bytes = frame.bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    let ends = match lowpan::ends(&frame.bytes) {
        Some([from, to]) => format!(r#""from":{},"to":{},"#, from.0, to.0),
        None => String::new(),
    };
    format!(
        "{{\"time_us\":{},{ends}\"bytes\":{},\"frame\":\"{bytes}\"}}\n",
        frame.at.as_micros(),
        frame.bytes.len()
    )
}
