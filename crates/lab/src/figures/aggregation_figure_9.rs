//! Figure 9 of the paper on MAC aggregation: how soon messages are authenticated.

use super::prelude::*;
use crate::aggregation::delays::{Delays, delays};
use crate::aggregation::title;

pub(super) const FIGURE: Figure = Figure {
    name: "aggregation-figure-9",
    title: "How soon messages are secure",
    source: PaperItem { paper: AGGREGATION, item: "Figure 9" },
    about: "The share of messages that have reached a level of security, by the number of messages \
            sent after them, with payloads of 30 bytes and 0.30 % of packets lost. Under Agg, a \
            message has either its whole security or none.",
    make,
};

/// The largest number of follow-up messages on the axis.
const MOST: u32 = 40;

/// The shares of messages that the paper's text reports, in percent.
fn paper(scheme: &str, bits: u8, follow_ups: u32) -> Option<f64> {
    (scheme == "agg:8" && bits == 128 && follow_ups == 5).then_some(73.9)
}

fn make(options: &FigureOptions) -> Result<FigureData, Error> {
    let mut rows = Vec::new();
    for Delays { scheme, bits, log } in delays(options.messages / 5, options.seed)? {
        let short = scheme.to_string();
        let drawn = match bits {
            128 => true,
            1 | 64 => short.starts_with("r2d2"),
            _ => false,
        };
        let curve = format!("{}, {bits} bits", title(scheme));
        for follow_ups in 0..=MOST {
            rows.push(vec![
                if drawn { curve.as_str().into() } else { Cell::Missing },
                name(scheme),
                whole(bits.into()),
                whole(follow_ups as usize),
                percent(log.delivered_within(follow_ups)),
                paper(&short, bits, follow_ups).into(),
            ]);
        }
    }
    let columns = [
        ("curve", "the curve that the row belongs to"),
        ("scheme", "how records are tagged"),
        ("level_bits", "the level of security"),
        ("follow_ups", "number of messages sent after a message"),
        ("messages_percent", "share of messages that have reached the level by then"),
        ("paper_percent", "the share that the paper reports"),
    ];
    let plot = Plot {
        subtitle: format!("{} messages per curve", options.messages / 5),
        marks: Marks::Curves,
        series: "curve",
        emphasis: None,
        x: Axis::linear("follow_ups", "messages sent after it", f64::from(MOST)),
        y: Axis::linear("messages_percent", "messages at this level or above, in %", 100.0),
    };
    Ok(FigureData::plotted(Table::new(&columns, rows), plot))
}
