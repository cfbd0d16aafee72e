//! Figure 8 of the paper on MAC aggregation: goodput in three scenarios.

use super::prelude::*;
use crate::aggregation::static_scenarios::SCENARIOS;
use crate::aggregation::title;
use crate::stream::Accounting;

pub(super) const FIGURE: Figure = Figure {
    name: "aggregation-figure-8",
    title: "Goodput in three scenarios",
    source: PaperItem { paper: AGGREGATION, item: "Figure 8" },
    about: "Verified payload divided by bytes sent, over sockets and an impairment relay that \
            loses the same share of every scheme's packets. In the paper the share of lost packets \
            differs from scheme to scheme. The data has both accountings, the plot shows ours.",
    make,
};

/// The paper's goodputs in percent, as far as its text gives them.
fn paper_goodput(scheme: &str, payload_bytes: usize) -> Option<f64> {
    match (scheme, payload_bytes) {
        ("off", 10) => Some(32.17),
        ("agg:16", 10) => Some(61.34),
        _ => None,
    }
}

fn make(options: &FigureOptions) -> Result<FigureData, Error> {
    let mut rows = Vec::new();
    for scenario in SCENARIOS {
        let cells = scenario.run(options.messages, options.seed)?;
        for accounting in Accounting::ALL {
            let gains: Vec<_> =
                cells.iter().map(|cell| cell.gain_over(&cells[0], accounting)).collect();
            let best = gains.iter().fold(0.0, |best: f64, gain| best.max(gain.mean));
            for (cell, gain) in cells.iter().zip(&gains) {
                let goodput = cell.log.goodput_interval(accounting);
                let group = format!("{} B, {} Hz", scenario.payload_bytes, scenario.per_second);
                let drawn = accounting == Accounting::Ours;
                rows.push(vec![
                    if drawn { Cell::Text(title(cell.scheme)) } else { Cell::Missing },
                    group.as_str().into(),
                    accounting.name().into(),
                    name(cell.scheme),
                    whole(scenario.payload_bytes),
                    percent(cell.loss),
                    percent(goodput.mean),
                    percent(goodput.half_width),
                    percent(gain.mean),
                    percent(gain.half_width),
                    paper_goodput(&cell.scheme.to_string(), scenario.payload_bytes).into(),
                    (gain.mean == best).then_some(100.0 * scenario.paper_gain).into(),
                ]);
            }
        }
    }
    let columns = [
        ("bar", "the bar that the row is drawn as"),
        ("scenario", "payload length and messages a second"),
        ("accounting", "ours: bytes really sent; paper: 5 bytes beside payload and tags"),
        ("scheme", "how records are tagged"),
        ("payload_bytes", "payload of each message, in bytes"),
        ("loss_percent", "share of packets lost"),
        ("goodput_percent", "verified payload divided by bytes sent"),
        ("goodput_error_percent", "half the width of its 95 % confidence interval"),
        ("gain_percent", "by how much the goodput exceeds that of plain tags"),
        ("gain_error_percent", "half the width of its 95 % confidence interval"),
        ("paper_goodput_percent", "the goodput that the paper reports"),
        ("paper_gain_percent", "the paper's best gain, in the row of our best scheme"),
    ];
    let plot = Plot {
        subtitle: format!("{} messages per bar, 95 % confidence intervals", options.messages),
        marks: Marks::Bars("goodput_error_percent"),
        series: "bar",
        emphasis: None,
        x: Axis::linear("scenario", "payload and rate", 3.0),
        y: Axis::linear("goodput_percent", "goodput, in %", 100.0),
    };
    Ok(FigureData::plotted(Table::new(&columns, rows), plot))
}
