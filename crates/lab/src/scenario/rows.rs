//! The results of scenarios as rows of tables.

use super::{Scenario, ScenarioRun};
use crate::Error;
use crate::energy::Activity;
use crate::figure::Cell;
use crate::handshakes::{Cost, Outcome, Summary};
use crate::lowpan;
use crate::statistics::Interval;
use crate::world::Frame;
use std::fmt::Write as _;

/// The name of a column, and its description.
type Column = (&'static str, &'static str);

/// The columns of a row for each handshake.
pub const HANDSHAKE_COLUMNS: &[Column] = &[
    ("seed", "the run's"),
    ("client", "node that is the client"),
    ("server", "node that is the server"),
    ("success", "1 if the handshake was completed, so that both ends may send data, else 0"),
    ("duration_s", "time from the client's first datagram until then"),
    ("datagrams", "number of datagrams that both ends sent"),
    ("bytes", "number of bytes in those datagrams"),
    ("retransmissions", "datagrams sent again by tinydtls's timers, or flights by the engine"),
    ("energy_mj", "energy that the client spent, whether it succeeded or not"),
    ("sending_ms", "time that the client's radio sent"),
    ("listening_ms", "time that the client's radio listened or received"),
    ("computing_ms", "time that the client's processor worked"),
];

/// The columns of a summary.
pub const SUMMARY_COLUMNS: &[Column] = &[
    ("handshakes", "number of handshakes"),
    ("success_share", "share of handshakes that succeeded; only these count in times and energies"),
    ("duration_s", "mean"),
    ("duration_error_s", "half the width of its 95 % confidence interval"),
    ("duration_median_s", "median of the durations"),
    ("duration_p95_s", "95th percentile of the durations"),
    ("energy_mj", "mean energy that clients spent"),
    ("energy_error_mj", "half the width of its 95 % confidence interval"),
    ("datagrams", "datagrams that both ends sent, mean over all handshakes"),
    ("bytes", "bytes in those datagrams, mean over all handshakes"),
];

/// The columns of a handshake's cost, from which another machine can compute a summary together
/// with other results.
pub const COST_COLUMNS: &[Column] = &[
    ("seed", "the run's"),
    ("duration_us", "time from the client's first datagram until both ends may send data"),
    ("energy_mj", "energy that the client spent"),
    ("datagrams", "number of datagrams that both ends sent"),
    ("bytes", "number of bytes in those datagrams"),
];

/// Rows of cells under named columns.
#[derive(Clone, Debug)]
pub struct Rows {
    /// The names of the columns, unique and with units.
    pub columns: Vec<String>,
    /// The rows. Each has one cell for every column.
    pub rows: Vec<Vec<Cell>>,
}

impl Rows {
    /// A table without rows whose columns are `before` and `columns`.
    pub fn new<'a>(before: impl IntoIterator<Item = &'a str>, columns: &[Column]) -> Self {
        let own = columns.iter().map(|(name, _)| *name);
        Self {
            columns: before.into_iter().chain(own).map(ToOwned::to_owned).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds the summary of all runs as a row, with `before` in front.
    pub fn add_summary(&mut self, before: &[Cell], summary: &Summary) {
        let any = |value: f64| (summary.ended > 0).then_some(value).into();
        // A single value tells nothing about the spread.
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
    ///
    /// The errors of [`Self::csv_line`].
    pub fn csv_header(&self) -> Result<String, Error> {
        line(&self.columns)
    }

    /// A row as a line of CSV (RFC 4180 with a bare line feed).
    ///
    /// # Errors
    ///
    /// No cell causes an error.
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
    ///
    /// No cell causes an error.
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

    /// All rows as CSV, with a header.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::csv_line`].
    pub fn csv(&self) -> Result<String, Error> {
        let rows = self.rows.iter().map(|row| Self::csv_line(row));
        std::iter::once(self.csv_header()).chain(rows).collect()
    }

    /// All rows as a JSON array, with one object in each line.
    ///
    /// # Errors
    ///
    /// The errors of [`Self::json_line`].
    pub fn json(&self) -> Result<String, Error> {
        let lines: Result<Vec<String>, Error> =
            self.rows.iter().map(|row| Ok(self.json_line(row)?.trim_end().to_owned())).collect();
        Ok(format!("[\n{}\n]\n", lines?.join(",\n")))
    }
}

/// A row for each handshake of a run, with the columns [`HANDSHAKE_COLUMNS`] and `before` in front.
pub fn handshake_rows(
    before: &[Cell],
    scenario: &Scenario,
    run: &ScenarioRun,
) -> impl Iterator<Item = Vec<Cell>> {
    run.outcomes.iter().map(|outcome| {
        let mut row = before.to_vec();
        row.push(Cell::Integer(run.seed));
        row.extend(handshake(scenario, outcome));
        row
    })
}

/// A row of a handshake's cost, with the columns [`COST_COLUMNS`] and `before` in front.
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
    let millis = |what: Activity| (spent.of(what) as f64 / 1e3).into();
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
        millis(Activity::Send),
        millis(Activity::Listen),
        millis(Activity::Compute),
    ]
}

/// A frame on the air as a line of JSON: its time, its sender and receiver, and its bytes in
/// hexadecimal, checksum included. An acknowledgement has no sender and receiver.
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
