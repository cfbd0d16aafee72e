//! The tunnel paper's Figure 5, drawn from our measurements.

use super::results::{Measure, Results};
use crate::Failure;
use lightseal_lab::figure::{Axis, Cell, Column, Marks, PaperItem, Plot, Scale, Table};
use lightseal_lab::{Error, Figure, FigureData, FigureOptions};
use std::path::{Path, PathBuf};

const PAPER: &str = "MACsec over layer 3: a tunnel";

const FIGURE_5A: Figure = Figure {
    name: "gateway-figure-5a",
    title: "Round trips through a tunnel by frame size",
    source: PaperItem { paper: PAPER, item: "Figure 5 (a)" },
    about: "Median of round trips of single MACsec frames between two hosts, and its mean deviation. \
            The underlay is as narrow as the LANs, 1500 bytes: where a frame and what is added to it \
            are longer, two packets are on the way.",
    make: only_measured,
};

const FIGURE_5B: Figure = Figure {
    name: "gateway-figure-5b",
    title: "What passes through a tunnel",
    source: PaperItem { paper: PAPER, item: "Figure 5 (b)" },
    about: "TCP's payload between MACsec endpoints, and MACsec frames of 1400 bytes made beforehand, mean and standard \
            deviation over the turns. Nothing is split: the underlay is wide enough.",
    make: only_measured,
};

/// Figures of the laboratory compute their own data; these are drawn from measured results only.
fn only_measured(_: &FigureOptions) -> Result<FigureData, Error> {
    Err(Error::Stream("this figure is measured by cargo xtask bench-gateway"))
}

/// Writes those figures for which there are measurements into `directory`, as CSV, JSON and SVG.
///
/// # Errors
/// A file cannot be written.
pub fn write(results: &Results, directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut written = Vec::new();
    for (figure, output) in [(FIGURE_5A, round_trips(results)), (FIGURE_5B, throughput(results))] {
        if output.table.rows.is_empty() {
            continue;
        }
        let files = lightseal_lab::write::write(
            &figure,
            &output,
            directory,
            &lightseal_lab::write::Format::ALL,
        );
        written.extend(files.map_err(|error| Failure::broken(figure.name, error))?);
    }
    Ok(written)
}

fn round_trips(results: &Results) -> FigureData {
    let columns = vec![
        Column { name: "scenario", about: "what carries the frames" },
        Column { name: "frame_bytes", about: "bytes of the frame, without its check sequence" },
        Column { name: "rtt_us", about: "median round trip in microseconds" },
        Column {
            name: "percentile_95_us",
            about: "95th percentile of round trips in microseconds",
        },
        Column { name: "mean_us", about: "mean round trip in microseconds" },
        Column { name: "mdev_us", about: "mean deviation in microseconds" },
        Column { name: "count", about: "round trips" },
        Column { name: "lost", about: "frames that did not come back" },
    ];
    let mut rows = Vec::new();
    for row in &results.rows {
        for (bytes, echoes) in &row.sweep {
            let told = echoes.mean_and_mdev();
            rows.push(vec![
                Cell::from(row.title),
                Cell::Integer(*bytes as u64),
                echoes.median().into(),
                echoes.percentile_95().into(),
                told.map(|told| told.0).into(),
                told.map(|told| told.1).into(),
                Cell::Integer(echoes.us.len() as u64),
                Cell::Integer(echoes.lost as u64),
            ]);
        }
    }
    let to = highest(&rows, 2, 1.1);
    let plot = Plot {
        subtitle: "by what carries the frames; 1500 bytes between the gateways".into(),
        marks: Marks::Curves,
        series: "scenario",
        emphasis: None,
        x: Axis {
            column: "frame_bytes",
            label: "frame, in bytes",
            scale: Scale::Linear,
            from: 0.0,
            to: 1600.0,
        },
        y: Axis {
            column: "rtt_us",
            label: "round trip, in microseconds",
            scale: Scale::Linear,
            from: 0.0,
            to,
        },
    };
    FigureData { table: Table { columns, rows }, plot: Some(plot) }
}

fn throughput(results: &Results) -> FigureData {
    let columns = vec![
        Column { name: "scenario", about: "what carries the frames" },
        Column {
            name: "measure",
            about: "TCP between MACsec endpoints, or MACsec frames made beforehand",
        },
        Column { name: "mbit_s", about: "mean over the turns, in Mbit/s" },
        Column { name: "deviation_mbit_s", about: "standard deviation over the turns" },
    ];
    const BYTES: usize = 1400;
    let mbit = (BYTES * 8) as f64 / 1e6;
    let mut rows = Vec::new();
    for row in &results.rows {
        for (name, measure, unit) in
            [("TCP", Measure::Tcp, 1.0), ("frames of 1400 bytes", Measure::Rate(BYTES), mbit)]
        {
            if let Some((mean, deviation)) = row.mean_and_deviation(measure) {
                rows.push(vec![
                    Cell::from(row.title),
                    Cell::from(name),
                    (mean * unit).into(),
                    (deviation * unit).into(),
                ]);
            }
        }
    }
    let to = highest(&rows, 2, 1.15);
    let plot = Plot {
        subtitle: "by what carries the frames; 1700 bytes between the gateways".into(),
        marks: Marks::Bars("deviation_mbit_s"),
        series: "measure",
        emphasis: None,
        x: Axis { column: "scenario", label: "", scale: Scale::Linear, from: 0.0, to: 1.0 },
        y: Axis { column: "mbit_s", label: "Mbit/s", scale: Scale::Linear, from: 0.0, to },
    };
    FigureData { table: Table { columns, rows }, plot: Some(plot) }
}

/// Somewhat above the highest value of a column.
fn highest(rows: &[Vec<Cell>], column: usize, factor: f64) -> f64 {
    let values = rows.iter().filter_map(|row| row[column].as_f64());
    values.fold(1.0, f64::max) * factor
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::echo::Echoes;
    use crate::bench::results::RowResult;
    use crate::rows;

    #[test]
    fn figures_are_drawn_of_what_was_measured() {
        let mut rows: Vec<_> = rows::all(Path::new("x"), Path::new("y"))
            .iter()
            .map(|row| RowResult::of(row.as_ref()))
            .collect();
        let empty = Results { rows: rows.clone(), turns: 1, seconds: 0.0 };
        assert!(round_trips(&empty).table.rows.is_empty());
        for row in &mut rows {
            row.note(Measure::Tcp, 100.0);
            row.sweep.insert(64, Echoes { us: vec![10.0, 20.0], lost: 0 });
            row.sweep.insert(1514, Echoes { us: vec![], lost: 2 });
        }
        let results = Results { rows, turns: 1, seconds: 0.0 };
        for (figure, output) in
            [(FIGURE_5A, round_trips(&results)), (FIGURE_5B, throughput(&results))]
        {
            let svg = lightseal_lab::write::svg::render(&figure, &output).unwrap();
            assert!(svg.contains("VXLAN (kernel)"), "{}", figure.name);
        }
    }
}
