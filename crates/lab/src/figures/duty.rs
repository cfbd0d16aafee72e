//! What the figures of the paper on duty-cycled networks share.

use super::prelude::*;
use crate::handshakes::{Profile, Summary, Survey};
use crate::network::Network;
use core::time::Duration;
use lightseal_core::math;

/// A retransmission timeout that never expires within a handshake: that of tinydtls raised to 15
/// minutes.
pub(super) const RAISED: Duration = Duration::from_secs(900);

/// Handshakes to simulate for one point of a curve.
pub(super) struct Point {
    pub(super) series: String,
    pub(super) x: f64,
    pub(super) network: Network,
    pub(super) profile: &'static str,
    pub(super) timeout: Option<Duration>,
    pub(super) paper: Option<f64>,
}

impl Point {
    pub(super) fn survey(&self, runs: u32, seed: u64) -> Result<Summary, Error> {
        let profile = Profile::by_name(self.profile).ok_or(Error::Stream("no such profile"))?;
        let survey = Survey::new(self.network.clone(), profile, runs, seed);
        Survey { timeout: self.timeout, ..survey }.summarize()
    }
}

/// The columns that [`cells`] fills, which stand after the series and the horizontal axis.
pub(super) const COLUMNS: [(&str, &str); 9] = [
    ("duration_s", "mean from the first datagram until both ends may send data"),
    ("duration_error_s", "half the width of its 95 % confidence interval"),
    ("median_s", "median duration"),
    ("p95_s", "95th percentile of the durations"),
    ("energy_mj", "mean energy that the client spends until then"),
    ("energy_error_mj", "half the width of its 95 % confidence interval"),
    ("success_percent", "share of handshakes that were completed; the means are over these"),
    ("datagrams", "mean number of datagrams that both ends sent"),
    ("bytes", "mean number of DTLS bytes that both ends sent"),
];

/// The results of a survey, in the order of [`COLUMNS`].
pub(super) fn cells(summary: &Summary) -> [Cell; 9] {
    let measured = |value: f64| {
        if value.is_nan() || summary.ended == 0 { Cell::Missing } else { Cell::Number(value) }
    };
    [
        measured(summary.seconds.mean),
        measured(summary.seconds.half_width),
        measured(summary.median),
        measured(summary.p95),
        measured(summary.millijoules.mean),
        measured(summary.millijoules.half_width),
        percent(summary.success()),
        Cell::Number(summary.datagrams),
        Cell::Number(summary.bytes),
    ]
}

/// A table with a row for each point: the series, x, [`COLUMNS`], and the paper's value.
fn table(
    points: &[Point],
    x: (&'static str, &'static str),
    paper: &'static str,
    options: &FigureOptions,
) -> Result<Table, Error> {
    let mut columns = vec![("series", "kind of handshake, and settings of its link layer"), x];
    columns.extend(COLUMNS);
    columns.push(("paper", paper));
    let mut rows = Vec::with_capacity(points.len());
    for point in points {
        let summary = point.survey(options.runs, options.seed)?;
        let mut row = vec![point.series.as_str().into(), point.x.into()];
        row.extend(cells(&summary));
        row.push(point.paper.into());
        rows.push(row);
    }
    Ok(Table::new(&columns, rows))
}

/// Handshakes of tinydtls along lines of two to five nodes.
pub(super) fn by_hops(
    series: &str,
    is_raised: bool,
    network: impl Fn(u16) -> Network,
) -> [Point; 4] {
    [1, 2, 3, 4].map(|hops: u16| Point {
        series: series.into(),
        x: hops.into(),
        network: network(hops + 1),
        profile: "tinydtls",
        timeout: is_raised.then_some(RAISED),
        paper: None,
    })
}

/// The figure of points from [`by_hops`]. `by` says what the curves differ in.
pub(super) fn hops(
    points: &[Point],
    by: &'static str,
    options: &FigureOptions,
) -> Result<FigureData, Error> {
    let x = ("hops", "number of hops from client to server");
    let look = PlotAxes {
        by,
        emphasis: None,
        x: Axis::linear("hops", "hops", 4.0),
        y: ("duration_s", "duration, in s"),
    };
    surveyed(points, x, NO_VALUE, look, options)
}

/// The description of the paper's values where it gives none.
pub(super) const NO_VALUE: &str = "the paper's text gives no value";

/// How a table is plotted, with a curve for each series.
pub(super) struct PlotAxes {
    pub(super) by: &'static str,
    pub(super) emphasis: Option<&'static str>,
    pub(super) x: Axis,
    pub(super) y: (&'static str, &'static str),
}

/// The points' surveys and their plot.
pub(super) fn surveyed(
    points: &[Point],
    x: (&'static str, &'static str),
    paper: &'static str,
    look: PlotAxes,
    options: &FigureOptions,
) -> Result<FigureData, Error> {
    let table = table(points, x, paper, options)?;
    let plot = Plot {
        subtitle: format!("{} handshakes per point{}", options.runs, look.by),
        marks: Marks::Curves,
        series: "series",
        emphasis: look.emphasis,
        x: look.x,
        y: axis(&table, look.y.0, look.y.1),
    };
    Ok(FigureData::plotted(table, plot))
}

/// An axis from 0 to a round number above all values of the column.
fn axis(table: &Table, column: &'static str, label: &'static str) -> Axis {
    let place = table.column(column);
    let values = table.rows.iter().filter_map(|row| row.get(place?)?.as_f64());
    let most = values.fold(0.0, f64::max);
    let step = math::powf(10.0, math::log10(most.max(1e-6)).floor()) / 2.0;
    Axis::linear(column, label, (most / step).ceil() * step)
}
