//! Figure 6 of the paper on MAC aggregation: goodput by payload length.

use super::aggregation::{PAPER, columns, linear, name, percent, whole};
use crate::Error;
use crate::aggregation::sweep::{Point, RadioChannel, plain, sweep};
use crate::aggregation::title;
use crate::figure::{Cell, Figure, FigureData, FigureOptions, Marks, PaperItem, Plot, Table};
use crate::stream::Accounting;

const ABOUT: &str = "Verified payload divided by bytes sent, with the engine itself over a channel \
                     on which longer packets are lost more often. The data has both accountings, \
                     the plot shows ours. Plain tags, one for each record, are what the paper \
                     calls Trad.";

pub(super) const GOOD: Figure = Figure {
    name: "aggregation-figure-6a",
    title: "Goodput on the good channel",
    source: PaperItem { paper: PAPER, item: "Figure 6a" },
    about: ABOUT,
    make: |options| make(options, RadioChannel::Good),
};

pub(super) const BAD: Figure = Figure {
    name: "aggregation-figure-6b",
    title: "Goodput on the bad channel",
    source: PaperItem { paper: PAPER, item: "Figure 6b" },
    about: ABOUT,
    make: |options| make(options, RadioChannel::Bad),
};

/// The paper's gains in percent, by payload length. A gain without a scheme's name is that of the
/// best scheme.
fn paper_gain(radio: RadioChannel, payload_bytes: usize) -> Option<(Option<&'static str>, f64)> {
    match (radio, payload_bytes) {
        (RadioChannel::Good, 30) => Some((None, 32.0)),
        (RadioChannel::Bad, 1) => Some((None, 146.0)),
        (RadioChannel::Bad, 20) => Some((Some("r2d2:200"), 38.0)),
        _ => None,
    }
}

fn make(options: &FigureOptions, radio: RadioChannel) -> Result<FigureData, Error> {
    let messages = options.messages / 5;
    let mut rows = Vec::new();
    for accounting in Accounting::ALL {
        let points = sweep(radio, accounting, messages, options.seed)?;
        for point in &points {
            let gain = plain(&points, point.payload_bytes)
                .map(|plain| point.goodput.gain_over(plain.goodput));
            let paper = paper_gain(radio, point.payload_bytes).filter(|(scheme, _)| match scheme {
                Some(scheme) => point.scheme.to_string() == *scheme,
                None => is_best(point, &points),
            });
            let drawn = accounting == Accounting::Ours;
            rows.push(vec![
                if drawn { Cell::Text(title(point.scheme)) } else { Cell::Missing },
                accounting.name().into(),
                name(point.scheme),
                whole(point.payload_bytes),
                point.packet_bytes.into(),
                percent(point.loss),
                percent(point.goodput.mean),
                percent(point.goodput.half_width),
                gain.map_or(Cell::Missing, |gain| percent(gain.mean)),
                gain.map_or(Cell::Missing, |gain| percent(gain.half_width)),
                paper.map(|(_, gain)| gain).into(),
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
        ("goodput_percent", "verified payload divided by bytes sent"),
        ("goodput_error_percent", "half the width of its 95 % confidence interval"),
        ("gain_percent", "by how much the goodput exceeds that of plain tags"),
        ("gain_error_percent", "half the width of its 95 % confidence interval"),
        ("paper_gain_percent", "the gain that the paper reports"),
    ]);
    let [short, long] = radio.measured();
    let plot = Plot {
        subtitle: format!(
            "{:.2} % of packets of 4 bytes and {:.2} % of 108 bytes are lost; {messages} messages \
             per point",
            100.0 * short,
            100.0 * long
        ),
        marks: Marks::Curves,
        series: "curve",
        emphasis: Some("plain tags"),
        x: linear("payload_bytes", "payload, in bytes", 110.0),
        y: linear("goodput_percent", "goodput, in %", 100.0),
    };
    Ok(FigureData { table: Table { columns, rows }, plot: Some(plot) })
}

fn is_best(point: &Point, points: &[Point]) -> bool {
    let same = points.iter().filter(|other| other.payload_bytes == point.payload_bytes);
    same.fold(f64::MIN, |most, other| most.max(other.goodput.mean)) == point.goodput.mean
}
