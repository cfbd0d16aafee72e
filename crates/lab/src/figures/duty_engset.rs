//! The Engset curves that section IV of the paper on duty-cycled networks describes, and congestion
//! measured at a real server.

use super::prelude::*;
use crate::sessions::{ClientPopulation, Engset, Measured};
use crate::statistics::Interval;
use core::num::NonZeroUsize;
use lightseal_core::math;

pub(super) const FIGURE: Figure = Figure {
    name: "duty-engset",
    title: "How often a server with three session slots is full",
    source: PaperItem { paper: DUTY_CYCLED, item: "section IV" },
    about: "The share of time in which all three slots are taken (time congestion), and the share \
            of attempts that are refused (call congestion), by the Engset formula and as measured \
            with clients and a server that are the engine itself. The paper's 17 % for 5 clients \
            at a load of 0.5 are time congestion; 10 % of the attempts are refused.",
    make,
};

/// R, the number of sessions that a WiSMote has memory for.
const SLOTS: NonZeroUsize = NonZeroUsize::new(3).unwrap();
/// N, the number of clients of each curve.
const CLIENTS: [NonZeroUsize; 3] =
    [NonZeroUsize::new(5).unwrap(), NonZeroUsize::new(10).unwrap(), NonZeroUsize::new(20).unwrap()];
/// The largest load of an idle client on the axis, in erlangs.
const MAX_LOAD: f64 = 2.0;
/// The loads at which congestion is measured.
const COUNTED: [f64; 5] = [0.1, 0.25, 0.5, 1.0, 2.0];

/// The time congestion that the paper reports, in percent.
fn paper(clients: NonZeroUsize, load: f64) -> Option<f64> {
    (clients.get() == 5 && load == 0.5).then_some(17.0)
}

/// A row of the table. A missing value is not drawn.
struct Row {
    clients: NonZeroUsize,
    load: f64,
    congestion: &'static str,
    formula: f64,
    measured: Option<(Interval, u64)>,
    paper: Option<f64>,
}

impl Row {
    fn cells(self) -> Vec<Cell> {
        let Self { clients, load, congestion, formula, measured, paper } = self;
        let name = format!("N = {clients}, {congestion}");
        let curve = measured.is_none().then_some(name.as_str());
        let dots = measured.map(|_| format!("{congestion}, counted"));
        vec![
            curve.into(),
            dots.as_deref().into(),
            congestion.into(),
            whole(SLOTS.get()),
            whole(clients.get()),
            load.into(),
            percent(measured.map_or(formula, |(interval, _)| interval.mean)),
            measured.map_or(Cell::Missing, |(interval, _)| percent(interval.half_width)),
            percent(formula),
            measured.map_or(Cell::Missing, |(_, attempts)| Cell::Integer(attempts)),
            paper.into(),
        ]
    }
}

/// The rows of time congestion and of call congestion at one load.
fn both(clients: NonZeroUsize, load: f64, measured: Option<&Measured>) -> [Row; 2] {
    let formula = Engset { slots: SLOTS.get() as u64, clients: clients.get() as u64, load };
    let with = |interval: fn(&Measured) -> Interval| {
        measured.map(|measured| (interval(measured), measured.attempts))
    };
    let time = Row {
        clients,
        load,
        congestion: "time congestion",
        formula: formula.time_congestion(),
        measured: with(|measured| measured.time_congestion),
        paper: paper(clients, load),
    };
    let call = Row {
        congestion: "call congestion",
        formula: formula.call_congestion(),
        measured: with(|measured| measured.call_congestion),
        paper: None,
        ..time
    };
    [time, call]
}

fn make(options: &FigureOptions) -> Result<FigureData, Error> {
    let mut rows = Vec::new();
    let steps = 8 * options.resolution.max(1);
    for clients in CLIENTS {
        for step in 0..=steps {
            // Points are closer together at low loads, where the curves bend most.
            let load = MAX_LOAD * math::powi(f64::from(step) / f64::from(steps), 2);
            rows.extend(both(clients, load, None).map(Row::cells));
        }
    }
    // A fifth of the messages is enough for an error smaller than a dot.
    let attempts = options.messages / 5;
    for clients in CLIENTS {
        for load in COUNTED {
            let population = ClientPopulation {
                attempts,
                seed: options.seed,
                ..ClientPopulation::new(SLOTS, clients, load)
            };
            rows.extend(both(clients, load, Some(&population.run()?)).map(Row::cells));
        }
    }
    let columns = [
        ("curve", "the curve that the row belongs to"),
        ("dots", "the group of dots that the row belongs to"),
        ("congestion", "share of time with a full server, or share of refused attempts"),
        ("slots", "R: session slots of the server"),
        ("clients", "N: clients"),
        ("load_erlangs", "ρ: mean duration of a session divided by that of a client's idle time"),
        ("congestion_percent", "from the formula for a curve, measured for a dot"),
        ("error_percent", "half the width of the measured value's 95 % confidence interval"),
        ("formula_percent", "by formula"),
        ("attempts", "attempts counted"),
        ("paper_percent", "the congestion that the paper reports"),
    ];
    let plot = Plot {
        subtitle: format!("R = {SLOTS} slots, N clients, {attempts} attempts per dot"),
        marks: Marks::CurvesAndDots("dots"),
        series: "curve",
        emphasis: None,
        x: Axis::linear("load_erlangs", "load of an idle client, ρ = λ/μ", MAX_LOAD),
        y: Axis::linear("congestion_percent", "congestion in %", 100.0),
    };
    Ok(FigureData::plotted(Table::new(&columns, rows), plot))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_value_stands_beside_ours() {
        let [time, call] = both(CLIENTS[0], 0.5, None);
        assert_eq!(time.paper, Some((100.0 * time.formula).round()));
        assert!(call.paper.is_none() && (call.formula - 0.1).abs() < 1e-15);
        assert!(both(CLIENTS[1], 0.5, None)[0].paper.is_none());
    }

    #[test]
    fn dots_lie_on_their_curves() {
        let output = make(&FigureOptions { messages: 5000, ..FigureOptions::default() }).unwrap();
        let column = |name| output.table.column(name).unwrap();
        let number = |row: &[Cell], name| row[column(name)].as_f64();
        let mut dots = 0;
        for row in &output.table.rows {
            let Some(error) = number(row, "error_percent") else { continue };
            let value = number(row, "congestion_percent").unwrap();
            let formula = number(row, "formula_percent").unwrap();
            assert!((value - formula).abs() < 3.0 * error.max(0.3), "{row:?}");
            dots += 1;
        }
        assert_eq!(dots, 2 * CLIENTS.len() * COUNTED.len());
    }
}
