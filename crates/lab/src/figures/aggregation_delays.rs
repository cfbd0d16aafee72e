//! Delays in the static scenarios in seconds, which section IV-C3 of the paper on MAC aggregation
//! discusses.

use super::prelude::*;
use crate::aggregation::schemes;
use crate::aggregation::static_scenarios::SCENARIOS;
use crate::parallel::parallel;

pub(super) const FIGURE: Figure = Figure {
    name: "aggregation-delays",
    title: "Delays in three scenarios",
    source: PaperItem { paper: AGGREGATION, item: "section IV-C3" },
    about: "How long messages wait until they are verified, with one and with ten messages a \
            second, in virtual time over a link without delay.",
    make,
};

fn make(options: &FigureOptions) -> Result<FigureData, Error> {
    let cells: Vec<_> = SCENARIOS
        .into_iter()
        .flat_map(|scenario| schemes().map(|scheme| (scenario, scheme)))
        .collect();
    let rows = parallel(cells.len(), |cell| {
        let (scenario, scheme) = cells[cell];
        let log = scenario.in_virtual_time(scheme, options.messages / 5, options.seed)?;
        let delivered = log.messages.iter().filter_map(|message| message.delivered);
        let mut seconds: Vec<f64> = delivered.map(|delay| delay.time.as_secs_f64()).collect();
        seconds.sort_by(f64::total_cmp);
        let quantile = |share: f64| {
            let place = (share * seconds.len() as f64) as usize;
            Cell::from(seconds.get(place.min(seconds.len().saturating_sub(1))).copied())
        };
        Ok(vec![
            whole(scenario.payload_bytes),
            whole(scenario.per_second as usize),
            name(scheme),
            percent(log.delivered()),
            quantile(0.5),
            quantile(0.95),
            quantile(1.0),
        ])
    });
    let columns = [
        ("payload_bytes", "payload of each message, in bytes"),
        ("frequency_hertz", "messages a second"),
        ("scheme", "how records are tagged"),
        ("verified_percent", "share of messages that are verified"),
        ("median_seconds", "median delay from sending to verification"),
        ("p95_seconds", "95th percentile of the delay"),
        ("longest_seconds", "longest delay"),
    ];
    let rows = rows.into_iter().collect::<Result<_, Error>>()?;
    Ok(FigureData::table(Table::new(&columns, rows)))
}
