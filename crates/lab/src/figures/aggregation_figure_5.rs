//! Figure 5 of the paper on MAC aggregation: loss by packet length.

use super::prelude::*;
use crate::aggregation::sweep::{PACKET_BYTES, RadioChannel, sweep};
use crate::stream::Accounting;

pub(super) const FIGURE: Figure = Figure {
    name: "aggregation-figure-5",
    title: "Long packets are lost more often",
    source: PaperItem { paper: AGGREGATION, item: "Figure 5" },
    about: "The share of packets lost on the good and on the bad channel: by the model (curves), \
            whose end points are the paper's measurements, and as measured with the engine's \
            packets for each scheme and payload (dots).",
    make,
};

fn make(options: &FigureOptions) -> Result<FigureData, Error> {
    let mut rows = Vec::new();
    for radio in RadioChannel::ALL {
        let measured = format!("{}, measured", radio.name());
        for point in sweep(radio, Accounting::Paper, options.messages / 5, options.seed)? {
            rows.push(vec![
                Cell::Missing,
                measured.as_str().into(),
                point.packet_bytes.into(),
                percent(point.loss),
                Cell::Missing,
            ]);
        }
        let [short, long] = radio.measured();
        for bytes in 4..=PACKET_BYTES {
            let paper = match bytes {
                4 => percent(short),
                108 => percent(long),
                _ => Cell::Missing,
            };
            rows.push(vec![
                radio.name().into(),
                Cell::Missing,
                (bytes as f64).into(),
                percent(radio.loss(0).rate(bytes as f64)),
                paper,
            ]);
        }
    }
    let columns = [
        ("model", "the channel, if the loss rate is computed from the model"),
        ("measured", "the channel, if the loss rate was measured"),
        ("packet_bytes", "mean length of a DTLS packet by the paper's accounting"),
        ("loss_percent", "share of packets lost"),
        ("paper_percent", "the loss rate that the paper measured"),
    ];
    let plot = Plot {
        subtitle: format!("{} packets per dot", options.messages / 5),
        marks: Marks::CurvesAndDots("measured"),
        series: "model",
        emphasis: None,
        x: Axis::linear("packet_bytes", "packet, in bytes", 120.0),
        y: Axis::linear("loss_percent", "packets lost, in %", 16.0),
    };
    Ok(FigureData::plotted(Table::new(&columns, rows), plot))
}
