//! Table II of the paper on MAC aggregation: the static scenarios.

use super::prelude::*;
use crate::aggregation::static_scenarios::SCENARIOS;

pub(super) const FIGURE: Figure = Figure {
    name: "aggregation-table-2",
    title: "The static scenarios",
    source: PaperItem { paper: AGGREGATION, item: "Table II" },
    about: "The messages sent in Figure 8, and the median loss measured again over its nine schemes.",
    make,
};

fn make(options: &FigureOptions) -> Result<FigureData, Error> {
    let mut rows = Vec::new();
    for scenario in SCENARIOS {
        let cells = scenario.run(options.messages, options.seed)?;
        let mut losses: Vec<f64> = cells.iter().map(|cell| cell.loss).collect();
        losses.sort_by(f64::total_cmp);
        rows.push(vec![
            whole(scenario.payload_bytes),
            whole(scenario.per_second as usize),
            percent(losses[losses.len() / 2]),
            percent(f64::from(scenario.loss) / 10_000.0),
        ]);
    }
    let columns = [
        ("payload_bytes", "payload of each message, in bytes"),
        ("frequency_hertz", "messages a second"),
        ("median_loss_percent", "share of packets lost, the median of the schemes"),
        ("paper_loss_percent", "the median that the paper measured"),
    ];
    Ok(FigureData::table(Table::new(&columns, rows)))
}
