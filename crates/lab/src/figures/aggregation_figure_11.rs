//! Figure 11 of the paper on MAC aggregation: delays of a moving sender.

use super::prelude::*;
use crate::aggregation::robot::{Drive, LossProfile};
use lightseal_dtls::AdaptRule;

pub(super) const FIGURE: Figure = Figure {
    name: "aggregation-figure-11",
    title: "How long a moving sender's messages wait",
    source: PaperItem { paper: AGGREGATION, item: "Figure 11" },
    about: "The share of messages that are verified, by the time since they were sent, in the \
            drives of Figure 10. Most messages of the paper's R2D2 take 2.6 s, which is the time \
            of the 26 follow-ups of R2D2(8, 50).",
    make,
};

/// The largest delay on the axis, and the step from one row to the next, in seconds.
const MOST: f64 = 5.0;
const STEP: f64 = 0.1;

fn make(options: &FigureOptions) -> Result<FigureData, Error> {
    let mut rows = Vec::new();
    let mut medians = Vec::new();
    for drive in &Drive::all(LossProfile::Usual, AdaptRule::Hindsight, options.seed)? {
        let delays = drive.delays();
        for step in 0..=(MOST / STEP) as u32 {
            let seconds = f64::from(step) * STEP;
            // Delays are whole tenths of a second, but sums of the step are not exact. Half a step
            // is a safe margin.
            let within = delays.partition_point(|delay| *delay < seconds + STEP / 2.0);
            let paper = (drive.name() == "r2d2" && step == 26).then_some(2.6);
            rows.push(vec![
                drive.name().into(),
                seconds.into(),
                percent(within as f64 / delays.len().max(1) as f64),
                paper.into(),
            ]);
        }
        let median = delays.get(delays.len() / 2).copied().unwrap_or(f64::NAN);
        medians.push(format!("{} {median:.1} s", drive.name()));
    }
    let columns = [
        ("family", "off: plain tags; agg, r2d2: adaptive parameters"),
        ("seconds", "time since a message was sent"),
        ("messages_percent", "share of the verified messages that are verified by then"),
        ("paper_mostly_seconds", "the delay of most messages in the paper"),
    ];
    let plot = Plot {
        subtitle: format!("medians: {}", medians.join(", ")),
        marks: Marks::Curves,
        series: "family",
        emphasis: None,
        x: Axis::linear("seconds", "seconds since the message was sent", MOST),
        y: Axis::linear("messages_percent", "messages verified, in %", 100.0),
    };
    Ok(FigureData::plotted(Table::new(&columns, rows), plot))
}
