//! Figure 4 of the paper on MAC aggregation: which parameters suit which channel.

use super::prelude::*;
use crate::aggregation::title;
use crate::choice::SimulationParameters;
use crate::choice::channel::ORDINARY;
use crate::choice::report::Fit;
use ::lightseal_aggregation::choice::{Family, MEMBERS};

const ABOUT: &str = "The member of the family with the most goodput on each of many \
                     Gilbert-Elliott channels (dots), and the boundaries a e^(b/x) + c between \
                     members that are fitted to them. The paper gives neither its constants nor \
                     its channels.";

pub(super) const AGG: Figure = Figure {
    name: "aggregation-figure-4a",
    title: "The best n of Agg(n)",
    source: PaperItem { paper: AGGREGATION, item: "Figure 4a" },
    about: ABOUT,
    make: |options| make(options, Family::Agg),
};

pub(super) const R2D2: Figure = Figure {
    name: "aggregation-figure-4b",
    title: "The best o of R2D2(8, o)",
    source: PaperItem { paper: AGGREGATION, item: "Figure 4b" },
    about: ABOUT,
    make: |options| make(options, Family::R2d2),
};

/// The largest number of dots drawn. More would hide each other.
const MAX_DOTS: usize = 3000;

fn make(options: &FigureOptions, family: Family) -> Result<FigureData, Error> {
    let usual = SimulationParameters::default();
    // The number of channels that the shipped constants are fitted to, unless fewer messages are
    // wanted.
    let channels = (options.messages / 10).clamp(200, usual.channels);
    let fit = Fit::new(SimulationParameters { channels, ..usual });
    let members = family.members();
    let mut rows = Vec::new();
    for (i, sample) in fit.samples.iter().enumerate() {
        let best = title(members[sample.best(family)]);
        rows.push(vec![
            Cell::Missing,
            if i < MAX_DOTS { best.as_str().into() } else { Cell::Missing },
            best.as_str().into(),
            whole(sample.payload_bytes.into()),
            percent(sample.loss),
        ]);
    }
    let highest = *ORDINARY.loss.end();
    for (place, fitted) in fit.boundaries[family as usize].iter().enumerate() {
        let curve = format!("{} / {}", title(members[place]), title(members[place + 1]));
        for payload in fit.parameters.payload_bytes.clone() {
            let loss = fitted.curve.at(payload.into());
            let drawn = (0.0..=highest).contains(&loss);
            rows.push(vec![
                if drawn { curve.as_str().into() } else { Cell::Missing },
                Cell::Missing,
                curve.as_str().into(),
                whole(payload.into()),
                percent(loss),
            ]);
        }
    }
    debug_assert_eq!(fit.boundaries[family as usize].len(), MEMBERS - 1);
    let columns = [
        ("boundary", "for a point of a curve: the two members that the fitted boundary separates"),
        ("best", "for a dot: the member with the most goodput"),
        ("what", "the boundary or the best member, whether the row is drawn or not"),
        ("payload_bytes", "payload of each record, in bytes"),
        ("loss_percent", "share of packets lost"),
    ];
    let plot = Plot {
        subtitle: format!("{channels} Gilbert-Elliott channels, seed {}", fit.parameters.seed),
        marks: Marks::CurvesAndDots("best"),
        series: "boundary",
        emphasis: None,
        x: Axis::linear("payload_bytes", "payload, in bytes", 110.0),
        y: Axis::linear("loss_percent", "packets lost, in %", 100.0 * highest),
    };
    Ok(FigureData::plotted(Table::new(&columns, rows), plot))
}
