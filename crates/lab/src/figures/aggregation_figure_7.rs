//! Figure 7 of the paper on MAC aggregation: energy by payload length.

use super::aggregation::{PAPER, columns, linear, name, percent, whole};
use crate::Error;
use crate::aggregation::sweep::{RadioChannel, plain, sweep};
use crate::aggregation::title;
use crate::figure::{Cell, Figure, FigureData, FigureOptions, Marks, PaperItem, Plot, Table};
use crate::stream::Accounting;

const ABOUT: &str = "Energy of transmission for each byte of verified payload, computed from the \
                     paper's cost of a packet by its length. The paper's own unit is unclear, so \
                     only savings can be compared. Plain tags leave no room for the longest \
                     payloads; savings with those are relative to the longest payload that plain \
                     tags allow. The data has both accountings, the plot shows ours.";

pub(super) const GOOD: Figure = Figure {
    name: "aggregation-figure-7a",
    title: "Energy on the good channel",
    source: PaperItem { paper: PAPER, item: "Figure 7a" },
    about: ABOUT,
    make: |options| make(options, RadioChannel::Good),
};

pub(super) const BAD: Figure = Figure {
    name: "aggregation-figure-7b",
    title: "Energy on the bad channel",
    source: PaperItem { paper: PAPER, item: "Figure 7b" },
    about: ABOUT,
    make: |options| make(options, RadioChannel::Bad),
};

/// The paper's energy savings in percent.
fn paper_saving(radio: RadioChannel, scheme: &str, payload_bytes: usize) -> Option<f64> {
    match (radio, scheme, payload_bytes) {
        (RadioChannel::Good, "r2d2:50", 10) => Some(27.1),
        (RadioChannel::Good, "r2d2:150", 91) => Some(8.4),
        (RadioChannel::Good, "r2d2:150", 102) => Some(10.1),
        (RadioChannel::Bad, "r2d2:150", 21) => Some(20.6),
        _ => None,
    }
}

fn make(options: &FigureOptions, radio: RadioChannel) -> Result<FigureData, Error> {
    let messages = options.messages / 5;
    let mut rows = Vec::new();
    for accounting in Accounting::ALL {
        let points = sweep(radio, accounting, messages, options.seed)?;
        let longest =
            points.iter().rfind(|point| point.scheme == ::lightseal_aggregation::Scheme::Plain);
        for point in &points {
            let plain = plain(&points, point.payload_bytes).or(longest);
            let scheme = point.scheme.to_string();
            let drawn = accounting == Accounting::Ours;
            rows.push(vec![
                if drawn { Cell::Text(title(point.scheme)) } else { Cell::Missing },
                accounting.name().into(),
                name(point.scheme),
                whole(point.payload_bytes),
                point.packet_bytes.into(),
                percent(point.loss),
                point.energy.into(),
                plain.map_or(Cell::Missing, |plain| percent(1.0 - point.energy / plain.energy)),
                paper_saving(radio, &scheme, point.payload_bytes).into(),
            ]);
        }
    }
    let columns = columns(&[
        ("curve", "the curve that the row belongs to"),
        ("accounting", "ours: bytes really sent; paper: 5 bytes beside payload and tags"),
        ("scheme", "how records are tagged"),
        ("payload_bytes", "payload of each message, in bytes"),
        ("packet_bytes", "mean length of a packet, in bytes"),
        ("loss_percent", "share of packets lost"),
        ("energy_microjoules_per_byte", "energy for each byte of verified payload"),
        ("saving_percent", "energy saved in comparison with plain tags"),
        ("paper_saving_percent", "the saving that the paper reports"),
    ]);
    let plot = Plot {
        subtitle: format!(
            "0.6 µJ per packet of 4 bytes, 2.6 of 110; {messages} messages per point"
        ),
        marks: Marks::Curves,
        series: "curve",
        emphasis: Some("plain tags"),
        x: linear("payload_bytes", "payload, in bytes", 110.0),
        y: linear("energy_microjoules_per_byte", "µJ for each byte of verified payload", 0.2),
    };
    Ok(FigureData { table: Table { columns, rows }, plot: Some(plot) })
}
