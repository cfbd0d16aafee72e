//! Figure 10 of the paper on MAC aggregation: a moving sender whose parameters adapt.

use super::prelude::*;
use crate::aggregation::robot::{
    COURSE_MINUTES, Drive, LossProfile, RobotChannel, WINDOW, minutes,
};
use crate::aggregation::title;
use crate::stream::Accounting;
use lightseal_dtls::AdaptRule;

const ABOUT: &str = "Goodput and loss over the last 200 packets of a sender that moves away twice \
                     and sends 30 bytes ten times a second. All drives lose the same packets. The \
                     plot shows goodput by the bytes that are really sent; the paper's accounting \
                     is in the data.";

pub(super) const OFF: Figure = Figure {
    name: "aggregation-figure-10a",
    title: "A moving sender with plain tags",
    source: PaperItem { paper: AGGREGATION, item: "Figure 10a" },
    about: ABOUT,
    make: |options| make(options, 0),
};

pub(super) const AGG: Figure = Figure {
    name: "aggregation-figure-10b",
    title: "A moving sender under Agg",
    source: PaperItem { paper: AGGREGATION, item: "Figure 10b" },
    about: ABOUT,
    make: |options| make(options, 1),
};

pub(super) const R2D2: Figure = Figure {
    name: "aggregation-figure-10c",
    title: "A moving sender under R2D2",
    source: PaperItem { paper: AGGREGATION, item: "Figure 10c" },
    about: ABOUT,
    make: |options| make(options, 2),
};

/// The paper's goodput over the whole course, in percent.
const PAPER_GOODPUT: [f64; 3] = [57.0, 74.4, 73.9];

/// Messages from one row of a curve to the next; ten messages a second make it one row every two
/// seconds.
const STEP: usize = 20;

fn make(options: &FigureOptions, which: usize) -> Result<FigureData, Error> {
    let drives = Drive::all(LossProfile::Usual, AdaptRule::Hindsight, options.seed)?;
    let (drive, plain) = (&drives[which], &drives[0]);
    let [ours, theirs] = Accounting::ALL.map(|accounting| drive.running_goodput(accounting));
    let loss = RobotChannel::new(LossProfile::Usual, options.seed).running_loss();
    let mut rows = Vec::new();
    for last in (WINDOW - 1..WINDOW - 1 + ours.len()).step_by(STEP) {
        let at = last + 1 - WINDOW;
        let scheme = drive.log.schemes.iter().rfind(|(from, _)| *from <= last);
        let scheme = scheme.map_or(Cell::Missing, |(_, scheme)| Cell::Text(title(*scheme)));
        rows.push(vec![
            "goodput".into(),
            Cell::Missing,
            minutes(last).into(),
            percent(ours[at]),
            percent(theirs[at]),
        ]);
        rows.push(vec![
            Cell::Missing,
            scheme,
            minutes(last).into(),
            percent(loss[at]),
            percent(loss[at]),
        ]);
    }
    let columns = [
        ("curve", "goodput: verified payload divided by bytes sent"),
        ("scheme", "how records are tagged; then the value is the share of packets lost"),
        ("minutes", "when the last of the 200 packets was sent"),
        ("percent", "goodput or loss over 200 packets"),
        ("paper_accounting_percent", "the percentage with 5 bytes beside payload and tags"),
    ];
    let [ours, theirs] = Accounting::ALL.map(|accounting| drive.log.goodput(accounting));
    let gain = ours / plain.log.goodput(Accounting::Ours);
    let plot = Plot {
        subtitle: format!(
            "goodput {:.1} % in total, {gain:.3} times that of plain tags; by the paper's \
             accounting {:.1} %, in the paper {:.1} %; dots: loss",
            100.0 * ours,
            100.0 * theirs,
            PAPER_GOODPUT[which]
        ),
        marks: Marks::CurvesAndDots("scheme"),
        series: "curve",
        emphasis: Some("goodput"),
        x: Axis::linear("minutes", "minutes", COURSE_MINUTES),
        y: Axis::linear("percent", "goodput and loss, in %", 100.0),
    };
    Ok(FigureData::plotted(Table::new(&columns, rows), plot))
}
