//! Figures 6 and 7 of the paper on MAC aggregation: goodput and energy by payload length.

use super::prelude::*;
use crate::aggregation::sweep::{Point, RadioChannel, plain, sweep};
use crate::aggregation::title;
use crate::stream::Accounting;
use ::lightseal_aggregation::Scheme;

const GOODPUT: &str = "Verified payload divided by bytes sent, with the engine itself over a channel \
                     on which longer packets are lost more often. The data has both accountings, \
                     the plot shows ours. Plain tags, one for each record, are what the paper \
                     calls Trad.";

const ENERGY: &str = "Energy of transmission for each byte of verified payload, computed from the \
                     paper's cost of a packet by its length. The paper's own unit is unclear, so \
                     only savings can be compared. Plain tags leave no room for the longest \
                     payloads; savings with those are relative to the longest payload that plain \
                     tags allow. The data has both accountings, the plot shows ours.";

pub(super) const GOOD_GOODPUT: Figure = Figure {
    name: "aggregation-figure-6a",
    title: "Goodput on the good channel",
    source: PaperItem { paper: AGGREGATION, item: "Figure 6a" },
    about: GOODPUT,
    make: |options| goodput(options, RadioChannel::Good),
};

pub(super) const BAD_GOODPUT: Figure = Figure {
    name: "aggregation-figure-6b",
    title: "Goodput on the bad channel",
    source: PaperItem { paper: AGGREGATION, item: "Figure 6b" },
    about: GOODPUT,
    make: |options| goodput(options, RadioChannel::Bad),
};

pub(super) const GOOD_ENERGY: Figure = Figure {
    name: "aggregation-figure-7a",
    title: "Energy on the good channel",
    source: PaperItem { paper: AGGREGATION, item: "Figure 7a" },
    about: ENERGY,
    make: |options| energy(options, RadioChannel::Good),
};

pub(super) const BAD_ENERGY: Figure = Figure {
    name: "aggregation-figure-7b",
    title: "Energy on the bad channel",
    source: PaperItem { paper: AGGREGATION, item: "Figure 7b" },
    about: ENERGY,
    make: |options| energy(options, RadioChannel::Bad),
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

/// A row for each point of a sweep. `shown` has the columns of one figure, and `cells` returns a
/// point's cells in them, given all points of its accounting.
fn swept(
    options: &FigureOptions,
    radio: RadioChannel,
    shown: &[(&'static str, &'static str)],
    cells: impl Fn(&Point, &[Point]) -> Vec<Cell>,
    subtitle: &str,
    y: Axis,
) -> Result<FigureData, Error> {
    let messages = options.messages / 5;
    let mut rows = Vec::new();
    for accounting in Accounting::ALL {
        let points = sweep(radio, accounting, messages, options.seed)?;
        for point in &points {
            let drawn = accounting == Accounting::Ours;
            let mut row = vec![
                if drawn { Cell::Text(title(point.scheme)) } else { Cell::Missing },
                accounting.name().into(),
                name(point.scheme),
                whole(point.payload_bytes),
                point.packet_bytes.into(),
                percent(point.loss),
            ];
            row.extend(cells(point, &points));
            rows.push(row);
        }
    }
    let mut columns = vec![
        ("curve", "the curve that the row belongs to"),
        ("accounting", "ours: bytes really sent; paper: 5 bytes beside payload and tags"),
        ("scheme", "how records are tagged"),
        ("payload_bytes", "payload of each message, in bytes"),
        ("packet_bytes", "mean length of a packet, in bytes"),
        ("loss_percent", "share of packets lost"),
    ];
    columns.extend(shown);
    let plot = Plot {
        subtitle: format!("{subtitle}; {messages} messages per point"),
        marks: Marks::Curves,
        series: "curve",
        emphasis: Some("plain tags"),
        x: Axis::linear("payload_bytes", "payload, in bytes", 110.0),
        y,
    };
    Ok(FigureData::plotted(Table::new(&columns, rows), plot))
}

fn goodput(options: &FigureOptions, radio: RadioChannel) -> Result<FigureData, Error> {
    let cells = |point: &Point, points: &[Point]| {
        let gain =
            plain(points, point.payload_bytes).map(|plain| point.goodput.gain_over(plain.goodput));
        let paper = paper_gain(radio, point.payload_bytes).filter(|(scheme, _)| match scheme {
            Some(scheme) => point.scheme.to_string() == *scheme,
            None => is_best(point, points),
        });
        vec![
            percent(point.goodput.mean),
            percent(point.goodput.half_width),
            gain.map_or(Cell::Missing, |gain| percent(gain.mean)),
            gain.map_or(Cell::Missing, |gain| percent(gain.half_width)),
            paper.map(|(_, gain)| gain).into(),
        ]
    };
    let columns = [
        ("goodput_percent", "verified payload divided by bytes sent"),
        ("goodput_error_percent", "half the width of its 95 % confidence interval"),
        ("gain_percent", "by how much the goodput exceeds that of plain tags"),
        ("gain_error_percent", "half the width of its 95 % confidence interval"),
        ("paper_gain_percent", "the gain that the paper reports"),
    ];
    let [short, long] = radio.measured().map(|loss| 100.0 * loss);
    let subtitle =
        format!("{short:.2} % of packets of 4 bytes and {long:.2} % of 108 bytes are lost");
    let y = Axis::linear("goodput_percent", "goodput, in %", 100.0);
    swept(options, radio, &columns, cells, &subtitle, y)
}

fn energy(options: &FigureOptions, radio: RadioChannel) -> Result<FigureData, Error> {
    let cells = |point: &Point, points: &[Point]| {
        let longest = || points.iter().rfind(|point| point.scheme == Scheme::Plain);
        let plain = plain(points, point.payload_bytes).or_else(longest);
        vec![
            point.energy.into(),
            plain.map_or(Cell::Missing, |plain| percent(1.0 - point.energy / plain.energy)),
            paper_saving(radio, &point.scheme.to_string(), point.payload_bytes).into(),
        ]
    };
    let columns = [
        ("energy_microjoules_per_byte", "energy for each byte of verified payload"),
        ("saving_percent", "energy saved in comparison with plain tags"),
        ("paper_saving_percent", "the saving that the paper reports"),
    ];
    let y =
        Axis::linear("energy_microjoules_per_byte", "µJ for each byte of verified payload", 0.2);
    let subtitle = "0.6 µJ per packet of 4 bytes, 2.6 of 110";
    swept(options, radio, &columns, cells, subtitle, y)
}

fn is_best(point: &Point, points: &[Point]) -> bool {
    let same = points.iter().filter(|other| other.payload_bytes == point.payload_bytes);
    same.fold(f64::MIN, |most, other| most.max(other.goodput.mean)) == point.goodput.mean
}
