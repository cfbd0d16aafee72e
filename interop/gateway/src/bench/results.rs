//! The results: values by turn, ratios within turns, and the tables.

use super::echo::Echoes;
use crate::rows::Row;
use lightseal_measure::Spread;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A quantity that is measured once a turn. A number in brackets is the bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Measure {
    /// The median round trip, in microseconds.
    RoundTrip,
    /// TCP payload that arrived between MACsec endpoints, in Mbit/s.
    Tcp,
    /// TCP payload that arrived without MACsec, in Mbit/s.
    PlainTcp,
    /// Frames that arrived, a second.
    Rate(usize),
    /// Frames that were offered, a second.
    Offered(usize),
    /// Processor time of all processes and of the kernel, in microseconds for each frame.
    Processor(usize),
    /// Processor time of the gateways' programs, in microseconds for each frame.
    Programs(usize),
    /// Bytes between the gateways for each frame.
    WireBytes(usize),
    /// Packets between the gateways for each frame.
    WirePackets(usize),
    /// The share of a paced stream's frames that did not arrive, 0 to 1.
    Lost(usize),
}

impl Measure {
    /// The measure's name with its unit, as in the JSON.
    pub fn name(self) -> String {
        match self {
            Self::RoundTrip => "rtt_us".into(),
            Self::Tcp => "tcp_mbit_s".into(),
            Self::PlainTcp => "plain_tcp_mbit_s".into(),
            Self::Rate(bytes) => format!("frames_s_{bytes}"),
            Self::Offered(bytes) => format!("offered_frames_s_{bytes}"),
            Self::Processor(bytes) => format!("processor_us_{bytes}"),
            Self::Programs(bytes) => format!("programs_us_{bytes}"),
            Self::WireBytes(bytes) => format!("wire_bytes_{bytes}"),
            Self::WirePackets(bytes) => format!("wire_packets_{bytes}"),
            Self::Lost(bytes) => format!("lost_{bytes}"),
        }
    }

    /// Whether the ratio of two rows' values is reported.
    const fn is_compared(self) -> bool {
        matches!(self, Self::RoundTrip | Self::Tcp | Self::PlainTcp | Self::Rate(_))
    }
}

/// Rows with which all others are compared.
const REFERENCES: [&str; 2] = ["vxlan", "boringtun"];

/// The tunnel paper's Table 2: our row, the paper's scenario, round trip and deviation in ms,
/// throughput and deviation in Mbit/s.
const PAPER: [(&str, &str, [f64; 4]); 6] = [
    ("vxlan", "VXLAN", [3.0, 0.13, 837.0, 9.0]),
    ("boringtun", "VXLAN + Wireguard", [4.85, 0.55, 245.0, 16.0]),
    ("wireguard-go", "VXLAN + Wireguard", [4.85, 0.55, 245.0, 16.0]),
    ("identifier", "Identifier-based", [1.3, 0.07, 842.0, 3.0]),
    ("identifier-paper", "Identifier-based", [1.3, 0.07, 842.0, 3.0]),
    ("encryption-paper", "Encryption-based", [1.3, 0.05, 837.0, 3.0]),
];

/// The results of one row.
#[derive(Clone, Debug)]
pub struct RowResult {
    /// The row's name.
    pub name: &'static str,
    /// The row's title in the table.
    pub title: &'static str,
    /// The value of [`Row::carries_plain`].
    pub carries_plain: bool,
    /// The round trips of the table.
    pub pings: Echoes,
    /// Round trips over an underlay with the MTU of the LAN, by bytes of a frame.
    pub sweep: BTreeMap<usize, Echoes>,
    /// The values of all turns by measure.
    turns: BTreeMap<Measure, Vec<f64>>,
    /// Error messages of measurements that failed.
    pub failures: Vec<String>,
}

impl RowResult {
    /// A row without measurements yet.
    pub fn of(row: &dyn Row) -> Self {
        Self {
            name: row.name(),
            title: row.title(),
            carries_plain: row.carries_plain(),
            pings: Echoes::default(),
            sweep: BTreeMap::new(),
            turns: BTreeMap::new(),
            failures: Vec::new(),
        }
    }

    /// Whether this measure was taken in some turn.
    pub fn has(&self, measure: Measure) -> bool {
        self.turns.contains_key(&measure)
    }

    /// Adds the value of a turn.
    pub fn note(&mut self, measure: Measure, value: f64) {
        self.turns.entry(measure).or_default().push(value);
    }

    /// Median and quartiles over the turns; `None` without a value.
    pub fn spread(&self, measure: Measure) -> Option<Spread> {
        self.turns.get(&measure).map(|values| Spread::of(values.clone()))
    }

    /// The median over the turns times `unit`, with this number of decimals, as text for the table.
    fn median(&self, measure: Measure, unit: f64, digits: usize) -> String {
        self.spread(measure)
            .map_or_else(dash, |spread| format!("{:.digits$}", spread.median * unit))
    }

    /// The mean and the standard deviation over the turns; `None` without a value.
    pub fn mean_and_deviation(&self, measure: Measure) -> Option<(f64, f64)> {
        let values = self.turns.get(&measure)?;
        Echoes { us: values.clone(), lost: 0 }.mean_and_mdev()
    }

    /// This row's value over another's, turn by turn. `None` if a turn of either is missing.
    pub fn ratio(&self, measure: Measure, over: &Self) -> Option<Spread> {
        let (own, other) = (self.turns.get(&measure)?, over.turns.get(&measure)?);
        (own.len() == other.len())
            .then(|| Spread::of(own.iter().zip(other).map(|(own, other)| own / other).collect()))
    }
}

/// The results of a run.
#[derive(Clone, Debug)]
pub struct Results {
    /// The rows in the order of the table.
    pub rows: Vec<RowResult>,
    /// Number of turns of each row.
    pub turns: usize,
    /// Duration of the run in seconds.
    pub seconds: f64,
}

impl Results {
    /// The row of this name.
    pub fn row(&self, name: &str) -> Option<&RowResult> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// A row's median less that of the row `cable`, never below 0. The cable's value is the cost of
    /// measuring itself.
    pub fn beyond_the_cable(&self, row: &RowResult, measure: Measure) -> Option<f64> {
        let cable = self.row("cable")?.spread(measure)?.median;
        Some((row.spread(measure)?.median - cable).max(0.0))
    }

    /// All results as JSON; spreads are median and quartiles over the turns.
    pub fn json(&self, versions: &[(&str, String)]) -> Value {
        let versions: Map<_, _> =
            versions.iter().map(|(name, text)| ((*name).into(), json!(text))).collect();
        json!({
            "turns": self.turns,
            "seconds": self.seconds.round(),
            "versions": versions,
            "rows": self.rows.iter().map(|row| self.row_json(row)).collect::<Vec<_>>(),
            "table": self.table(),
            "ratios": self.ratios(),
        })
    }

    fn row_json(&self, row: &RowResult) -> Value {
        let spread = |spread: Spread| json!({ "median": rounded(spread.median), "low": rounded(spread.low), "high": rounded(spread.high) });
        let mut measures = Map::new();
        let mut ratios = Map::new();
        for measure in row.turns.keys().copied() {
            measures.extend(row.spread(measure).map(|value| (measure.name(), spread(value))));
            for reference in REFERENCES.into_iter().filter(|_| measure.is_compared()) {
                let ratio = self.row(reference).and_then(|reference| row.ratio(measure, reference));
                ratios.extend(
                    ratio.map(|ratio| {
                        (format!("{}_over_{reference}", measure.name()), spread(ratio))
                    }),
                );
            }
        }
        for bytes in row.turns.keys().filter_map(|measure| match measure {
            Measure::Processor(bytes) => Some(*bytes),
            _ => None,
        }) {
            let beyond = self.beyond_the_cable(row, Measure::Processor(bytes));
            measures
                .insert(format!("processor_beyond_cable_us_{bytes}"), json!(beyond.map(rounded)));
        }
        let pings = row.pings.mean_and_mdev().map(|(mean, mdev)| {
            json!({ "count": row.pings.us.len(), "lost": row.pings.lost,
                    "mean_us": rounded(mean), "mdev_us": rounded(mdev),
                    "median_us": row.pings.median().map(rounded),
                    "percentile_95_us": row.pings.percentile_95().map(rounded) })
        });
        let sweep = row.sweep.iter().map(|(bytes, echoes)| {
            let told = echoes.mean_and_mdev();
            json!({ "frame_bytes": bytes, "count": echoes.us.len(), "lost": echoes.lost,
                    "median_us": echoes.median().map(rounded),
                    "percentile_95_us": echoes.percentile_95().map(rounded),
                    "mean_us": told.map(|told| rounded(told.0)),
                    "mdev_us": told.map(|told| rounded(told.1)) })
        });
        json!({
            "name": row.name,
            "title": row.title,
            "pings": pings,
            "measures": measures,
            "ratios": ratios,
            "round_trips": sweep.collect::<Vec<_>>(),
            "failures": row.failures,
            "paper": paper(row.name).map(|(scenario, [rtt, rtt_mdev, rate, rate_mdev])| {
                json!({ "scenario": scenario, "rtt_ms": rtt, "rtt_mdev_ms": rtt_mdev,
                        "throughput_mbit_s": rate, "throughput_mdev_mbit_s": rate_mdev })
            }),
        })
    }

    /// The paper's Table 2 beside our values, and a table of rates, processor time and added bytes.
    pub fn table(&self) -> String {
        let mut text = String::from(
            "| scenario | RTT ± mdev, µs | RTT: median, 95 % below, µs | TCP ± sd, Mbit/s \
             | TCP: median, Mbit/s | paper: RTT ± mdev, ms | paper: throughput ± mdev, Mbit/s |\n\
             |---|---|---|---|---|---|---|\n",
        );
        for row in &self.rows {
            let (rtt, rate) = paper(row.name).map_or_else(
                || (dash(), dash()),
                |(_, [rtt, mdev, rate, deviation])| {
                    (format!("{rtt} ± {mdev}"), format!("{rate} ± {deviation}"))
                },
            );
            let above = row.pings.median().zip(row.pings.percentile_95());
            let above = above.map_or_else(dash, |(median, high)| format!("{median:.0}, {high:.0}"));
            let _ = writeln!(
                text,
                "| {} | {} | {above} | {} | {} | {rtt} | {rate} |",
                row.title,
                both(row.pings.mean_and_mdev()),
                both(row.mean_and_deviation(Measure::Tcp)),
                row.median(Measure::Tcp, 1.0, 0),
            );
        }
        text.push_str(
            "\n| scenario | 96 B, kframes/s | 1400 B, kframes/s | CPU µs a frame, 96 B, 1400 B \
             | bytes added, 96 B, 1400 B | TCP without MACsec, Mbit/s |\n|---|---|---|---|---|---|\n",
        );
        for row in &self.rows {
            let cpu = |bytes| {
                let beyond = self.beyond_the_cable(row, Measure::Processor(bytes));
                beyond.map_or_else(dash, |us| format!("{us:.1}"))
            };
            let added = |bytes: usize| {
                let on_wire = row.spread(Measure::WireBytes(bytes)).map(|spread| spread.median);
                on_wire.map_or_else(dash, |on_wire| format!("{:.0}", on_wire - bytes as f64))
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {}, {} | {}, {} | {} |",
                row.title,
                row.median(Measure::Rate(96), 1e-3, 0),
                row.median(Measure::Rate(1400), 1e-3, 0),
                cpu(96),
                cpu(1400),
                added(96),
                added(1400),
                row.median(Measure::PlainTcp, 1.0, 0),
            );
        }
        text
    }

    /// Median ratios to each reference row, one line for each row and reference that were measured.
    pub fn ratios(&self) -> String {
        let mut text = String::new();
        for reference in REFERENCES {
            let Some(over) = self.row(reference) else { continue };
            for row in self.rows.iter().filter(|row| row.name != reference) {
                let parts = row.turns.keys().filter(|measure| measure.is_compared());
                let parts = parts.filter_map(|measure| {
                    let ratio = row.ratio(*measure, over)?;
                    let Spread { low, median, high } = ratio;
                    Some(format!("{} {median:.2} ({low:.2} to {high:.2})", measure.name()))
                });
                let parts: Vec<_> = parts.collect();
                if !parts.is_empty() {
                    let _ = writeln!(text, "{} over {reference}: {}", row.name, parts.join(", "));
                }
            }
        }
        text
    }
}

fn dash() -> String {
    "–".into()
}

fn both(pair: Option<(f64, f64)>) -> String {
    pair.map_or_else(dash, |(mean, deviation)| format!("{mean:.0} ± {deviation:.0}"))
}

/// The paper's values for a row.
fn paper(name: &str) -> Option<(&'static str, [f64; 4])> {
    let found = PAPER.into_iter().find(|(row, ..)| *row == name);
    found.map(|(_, scenario, numbers)| (scenario, numbers))
}

/// A value with four decimals, which is more than its precision.
fn rounded(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows;
    use std::path::Path;

    fn results() -> Results {
        let rows = rows::all(Path::new("x"), Path::new("y"));
        let rows = rows.iter().map(|row| RowResult::of(row.as_ref())).collect();
        Results { rows, turns: 2, seconds: 1.0 }
    }

    #[test]
    fn ratios_are_taken_within_a_turn() {
        let mut results = results();
        for (name, values) in [("bridge", [30.0, 60.0]), ("vxlan", [10.0, 20.0])] {
            let row = results.rows.iter_mut().find(|row| row.name == name).unwrap();
            values.into_iter().for_each(|value| row.note(Measure::Rate(96), value));
        }
        let ratio =
            results.row("bridge").unwrap().ratio(Measure::Rate(96), results.row("vxlan").unwrap());
        assert_eq!(ratio, Some(Spread { low: 3.0, median: 3.0, high: 3.0 }));
        assert!(results.ratios().contains("bridge over vxlan: frames_s_96 3.00"));
        let value = results.json(&[]);
        let bridge = value["rows"].as_array().unwrap().iter().find(|row| row["name"] == "bridge");
        assert_eq!(bridge.unwrap()["ratios"]["frames_s_96_over_vxlan"]["median"], 3.0);
    }

    #[test]
    fn what_the_cable_takes_is_subtracted() {
        let mut results = results();
        for (name, value) in [("cable", 2.0), ("bridge", 3.5)] {
            let row = results.rows.iter_mut().find(|row| row.name == name).unwrap();
            row.note(Measure::Processor(96), value);
        }
        let of =
            |name| results.beyond_the_cable(results.row(name).unwrap(), Measure::Processor(96));
        assert_eq!((of("cable"), of("bridge"), of("vxlan")), (Some(0.0), Some(1.5), None));
    }

    #[test]
    fn the_table_has_the_papers_values_and_holes() {
        let table = results().table();
        let line = |start: &str| {
            table.lines().find(|line| line.starts_with(start)).map(str::to_owned).unwrap()
        };
        assert!(line("| VXLAN (kernel)").ends_with("| 3 ± 0.13 | 837 ± 9 |"));
        assert!(line("| bridge").ends_with("| – | – |"));
    }
}
