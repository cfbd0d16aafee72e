//! What remains of the demo: a table, or JSON.

use super::Plan;
use super::session::Standing;
use crate::failure::{Context, Failure};
use std::io::Write;
use std::time::Duration;

/// A row of the table: its label, and a cell from a session and the plain one.
type Row = (&'static str, fn(&Standing, &Standing) -> String);

const ROWS: &[Row] = &[
    ("goodput (authenticated payload / bytes)", |s, _| percent(s.goodput)),
    ("  against one tag a message", |s, plain| times(s.goodput, plain.goodput)),
    ("bytes a message", |s, _| format!("{:.2}", s.bytes_per_message)),
    ("messages sent", |s, _| s.sent.to_string()),
    ("  delivered", |s, _| s.delivered.to_string()),
    ("  byte for byte as sent", |s, _| s.identical.to_string()),
    ("records lost by the relay", |s, _| of(s.lost_by_relay, s.sent)),
    ("messages lost", |s, _| of(s.sent - s.delivered, s.sent)),
    ("datagrams lost in sockets", |s, _| s.lost_in_sockets.to_string()),
    ("delay to full authentication, mean", |s, _| milliseconds(s.delay_mean_ms)),
    ("  95th percentile", |s, _| milliseconds(s.delay_p95_ms)),
    ("  messages sent meanwhile, mean", |s, _| format!("{:.1}", s.messages_behind)),
    ("record bytes", |s, _| s.record_bytes.to_string()),
    ("handshake bytes (apart)", |s, _| s.handshake_bytes.to_string()),
];

const LABEL_WIDTH: usize = 41;
const CELL_WIDTH: usize = 16;

/// Prints the results to standard output.
///
/// # Errors
///
/// If they cannot be written as JSON.
pub(crate) fn print(
    plan: &Plan,
    standings: &[Standing],
    took: Duration,
    complete: bool,
    json: bool,
) -> Result<(), Failure> {
    let printed = if json {
        let value = serde_json::json!({
            "messages": plan.messages,
            "message_bytes": super::readings::MESSAGE_BYTES,
            "rate_per_second": plan.rate,
            "loss": plan.loss.as_f64(),
            "seed": plan.seed,
            "source": plan.source,
            "seconds": took.as_secs_f64(),
            "complete": complete,
            "sessions": standings,
        });
        let text = serde_json::to_string_pretty(&value).context("results")?;
        writeln!(std::io::stdout(), "{text}")
    } else {
        write!(std::io::stdout(), "{}", table(plan, standings, took, complete))
    };
    printed.context("standard output")
}

/// The name of a session's way of tagging, for people.
pub(crate) fn title(scheme: &str) -> String {
    if scheme == "off" { "one tag each".into() } else { scheme.into() }
}

fn table(plan: &Plan, standings: &[Standing], took: Duration, complete: bool) -> String {
    let mut out = String::new();
    if !complete {
        out += "Stopped early; so far:\n";
    }
    out += &format!(
        "{} messages of {} bytes in {:.1} s over {} independent loss, seed {}\n\n",
        standings.first().map_or(0, |s| s.sent),
        super::readings::MESSAGE_BYTES,
        took.as_secs_f64(),
        plan.loss,
        plan.seed
    );
    out += &format!("{:LABEL_WIDTH$}", "");
    for standing in standings {
        out += &format!("{:>CELL_WIDTH$}", title(&standing.scheme));
    }
    out.push('\n');
    let Some(plain) = standings.first() else { return out };
    for (label, cell) in ROWS {
        out += &format!("{label:LABEL_WIDTH$}");
        for standing in standings {
            out += &format!("{:>CELL_WIDTH$}", cell(standing, plain));
        }
        out.push('\n');
    }
    out
}

fn percent(ratio: f64) -> String {
    format!("{:.2} %", ratio * 100.0)
}

fn times(ratio: f64, base: f64) -> String {
    if base > 0.0 { format!("{:.3} x", ratio / base) } else { "-".into() }
}

fn of(part: u64, whole: u64) -> String {
    format!("{part} ({})", percent(part as f64 / whole.max(1) as f64))
}

fn milliseconds(ms: f64) -> String {
    format!("{ms:.2} ms")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_a_cell_for_every_session() {
        let plan = Plan {
            messages: 100,
            rate: 10,
            loss: net::Probability::percent(1),
            seed: 3,
            source: String::new(),
        };
        let plain =
            Standing { scheme: "off".into(), sent: 100, goodput: 0.3, ..Standing::default() };
        let agg =
            Standing { scheme: "agg:8".into(), sent: 100, goodput: 0.6, ..Standing::default() };
        let text = table(&plan, &[plain, agg], Duration::from_secs(10), false);
        assert!(text.starts_with("Stopped early"));
        assert!(text.contains("one tag each") && text.contains("agg:8"));
        assert!(text.contains("2.000 x"), "{text}");
        let width = LABEL_WIDTH + 2 * CELL_WIDTH;
        let rows = text.lines().skip_while(|line| !line.contains("agg:8"));
        assert!(rows.clone().count() == ROWS.len() + 1);
        assert!(rows.clone().all(|row| row.chars().count() == width), "{text}");
    }
}
