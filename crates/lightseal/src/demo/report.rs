//! The results of the demo, as a table or as JSON.

use super::DemoParameters;
use super::session::SessionResults;
use crate::failure::{Context, Failure};
use std::io::Write;
use std::time::Duration;

/// A row of a table: its label, and a function that makes a cell of a session and the session with
/// plain tags.
type Row = (&'static str, fn(&SessionResults, &SessionResults) -> String);

/// The rows at the end of the demo.
const RESULTS: &[Row] = &[
    ("goodput", |s, _| percent(s.goodput)),
    ("  beside one tag each", |s, plain| times(s.goodput, plain.goodput)),
    ("bytes a message", |s, _| format!("{:.2}", s.bytes_per_message)),
    ("messages sent", |s, _| s.sent.to_string()),
    ("  delivered", |s, _| s.delivered.to_string()),
    ("  byte for byte as sent", |s, _| s.identical.to_string()),
    ("  lost", |s, _| s.missing().to_string()),
    ("  lost, share", |s, _| share(s.missing(), s.sent)),
    ("lost by the relay", |s, _| s.lost_by_relay.to_string()),
    ("  share", |s, _| share(s.lost_by_relay, s.sent)),
    ("lost in sockets", |s, _| s.lost_in_sockets.to_string()),
    ("authenticated after", |s, _| milliseconds(s.delay_mean_ms)),
    ("  95th percentile", |s, _| milliseconds(s.delay_p95_ms)),
    ("  messages sent by then", |s, _| format!("{:.1}", s.messages_behind)),
    ("record bytes", |s, _| s.record_bytes.to_string()),
    ("handshake bytes", |s, _| s.handshake_bytes.to_string()),
];

/// The rows of the live view, the most important first: a low terminal cuts off the last ones.
const LIVE: &[Row] = &[
    ("goodput", |s, _| percent(s.goodput)),
    ("  beside one tag each", |s, plain| times(s.goodput, plain.goodput)),
    ("bytes a message", |s, _| format!("{:.2}", s.bytes_per_message)),
    ("authenticated after", |s, _| milliseconds(s.delay_mean_ms)),
    ("  95th percentile", |s, _| milliseconds(s.delay_p95_ms)),
    ("delivered", |s, _| s.delivered.to_string()),
    ("  byte for byte as sent", |s, _| s.identical.to_string()),
    ("lost or waiting", |s, _| s.missing().to_string()),
    ("lost by the relay", |s, _| s.lost_by_relay.to_string()),
];

/// Explanations of the words in the tables.
const MEANINGS: &str = "\
goodput: authenticated payload, as a share of all bytes sent
authenticated after: mean time from sending a message until
  its whole tag is verified
";

/// Widths in columns. A table of three sessions fits a terminal of 60 columns.
const LABEL_WIDTH: usize = 23;
const CELL_WIDTH: usize = 12;

/// The number of sessions that fit side by side into `width` columns, but at least one.
pub(super) fn sessions_that_fit(width: u16) -> usize {
    (usize::from(width).saturating_sub(LABEL_WIDTH) / CELL_WIDTH).max(1)
}

/// Prints the results to standard output.
///
/// # Errors
///
/// If the results cannot be written as JSON.
pub(crate) fn print(
    parameters: &DemoParameters,
    results: &[SessionResults],
    took: Duration,
    complete: bool,
    json: bool,
) -> Result<(), Failure> {
    let printed = if json {
        let value = serde_json::json!({
            "messages": parameters.messages,
            "message_bytes": super::readings::MESSAGE_BYTES,
            "rate_per_second": parameters.rate,
            "loss": parameters.loss.as_f64(),
            "seed": parameters.seed,
            "source": parameters.source,
            "seconds": took.as_secs_f64(),
            "complete": complete,
            "sessions": results,
        });
        let text = serde_json::to_string_pretty(&value).context("results")?;
        writeln!(std::io::stdout(), "{text}")
    } else {
        write!(std::io::stdout(), "{}", table(parameters, results, took, complete))
    };
    printed.context("standard output")
}

/// The name of a scheme for people.
pub(crate) fn title(scheme: &str) -> String {
    if scheme == "off" { "one tag each".into() } else { scheme.into() }
}

fn table(
    parameters: &DemoParameters,
    results: &[SessionResults],
    took: Duration,
    complete: bool,
) -> String {
    let mut out = String::new();
    if !complete {
        out += "Stopped early; so far:\n";
    }
    out += &format!(
        "{} messages of {} bytes in {:.1} s\n{} independent loss, seed {}\n\n",
        results.first().map_or(0, |s| s.sent),
        super::readings::MESSAGE_BYTES,
        took.as_secs_f64(),
        parameters.loss,
        parameters.seed
    );
    for line in lines(RESULTS, results, results.len()) {
        out += &line;
        out.push('\n');
    }
    out.push('\n');
    out += MEANINGS;
    out
}

/// The table of the live view with its head, for the first `shown` sessions.
pub(super) fn live_lines(results: &[SessionResults], shown: usize) -> Vec<String> {
    lines(LIVE, results, shown)
}

/// A line with the names of the sessions, and one line for each row.
fn lines(rows: &[Row], results: &[SessionResults], shown: usize) -> Vec<String> {
    let Some(plain) = results.first() else { return Vec::new() };
    let line = |label: &str, cell: &dyn Fn(&SessionResults) -> String| {
        let cells = results.iter().take(shown);
        let cells: String = cells.map(|s| format!("{:>CELL_WIDTH$}", cell(s))).collect();
        format!("{label:LABEL_WIDTH$}{cells}")
    };
    let head = line("", &|session| title(&session.scheme));
    let rows = rows.iter().map(|(label, cell)| line(label, &|session| cell(session, plain)));
    std::iter::once(head).chain(rows).collect()
}

fn percent(ratio: f64) -> String {
    format!("{:.2} %", ratio * 100.0)
}

fn times(ratio: f64, base: f64) -> String {
    if base > 0.0 { format!("{:.2} x", ratio / base) } else { "-".into() }
}

fn share(part: u64, whole: u64) -> String {
    percent(part as f64 / whole.max(1) as f64)
}

fn milliseconds(ms: f64) -> String {
    format!("{ms:.2} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters() -> DemoParameters {
        DemoParameters {
            messages: 100,
            rate: 10,
            loss: lightseal_net::Probability::percent(1),
            seed: 3,
            source: String::new(),
        }
    }

    fn session(scheme: &str, goodput: f64) -> SessionResults {
        SessionResults { scheme: scheme.into(), sent: 100, goodput, ..SessionResults::default() }
    }

    #[test]
    fn every_row_has_a_cell_for_every_session() {
        let results = [session("off", 0.3), session("agg:8", 0.6)];
        let text = table(&parameters(), &results, Duration::from_secs(10), false);
        assert!(text.starts_with("Stopped early"));
        assert!(text.contains("one tag each") && text.contains("agg:8"));
        assert!(text.contains("2.00 x"), "{text}");
        let width = LABEL_WIDTH + 2 * CELL_WIDTH;
        let rows = text.lines().skip_while(|line| !line.contains("agg:8"));
        let rows: Vec<_> = rows.take_while(|line| !line.is_empty()).collect();
        assert_eq!(rows.len(), RESULTS.len() + 1);
        assert!(rows.iter().all(|row| row.chars().count() == width), "{text}");
    }

    #[test]
    fn the_table_fits_60_columns_with_the_largest_values() {
        let largest = |scheme: &str| SessionResults {
            sent: 16_777_216,
            delivered: 16_000_000,
            identical: 16_000_000,
            lost_by_relay: 777_216,
            record_bytes: 16_777_216 * 29,
            handshake_bytes: 99_999,
            bytes_per_message: 129.01,
            delay_mean_ms: 12_345.67,
            delay_p95_ms: 23_456.78,
            messages_behind: 123_456.7,
            ..session(scheme, 1.0)
        };
        let results = [largest("off"), largest("agg:16"), largest("r2d2:100")];
        let text = table(&parameters(), &results, Duration::from_secs(10_000), true);
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        for value in ["16777216", "486539264", "23456.78 ms"] {
            assert!(text.contains(&format!(" {value}")), "{value} is not whole in\n{text}");
        }
    }
}
