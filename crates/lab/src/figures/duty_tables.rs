//! Tables I and II of the paper on duty-cycled networks, both on TSCH, and the TSCH schedules and
//! beacon settings that the paper finds alike.

use super::duty::{COLUMNS, Point, RAISED, cells};
use super::prelude::*;
use crate::handshakes::expected;
use crate::links::{Layer, beacon, tsch};
use crate::network::Network;

pub(super) const SINGLE_HOP: Figure = Figure {
    name: "duty-table-1",
    title: "A handshake over TSCH, one hop",
    source: PaperItem { paper: DUTY_CYCLED, item: "Table I" },
    about: "Ten frames by the paper's equation (1); the law for three round trips and four frames \
            that queue, 7 L / C timeslots; tinydtls simulated, with its timer raised; and real \
            tinydtls over Contiki-NG in Cooja. Each frame of a flight waits for a cell, and \
            answers wait for a cell in the opposite direction, which the equation leaves out.",
    make: single_hop,
};

pub(super) const MULTI_HOP: Figure = Figure {
    name: "duty-table-2",
    title: "A handshake over TSCH, two to four hops",
    source: PaperItem { paper: DUTY_CYCLED, item: "Table II" },
    about: "Ten frames by the paper's equation (2), and tinydtls simulated along a line with its \
            timer raised, with one cell in each direction of each link at random offsets.",
    make: multi_hop,
};

pub(super) const MATCHES: Figure = Figure {
    name: "duty-matches",
    title: "TSCH schedules and beacon settings that the paper finds alike",
    source: PaperItem { paper: DUTY_CYCLED, item: "section III-C" },
    about: "tinydtls with its timer raised, simulated over both link layers.",
    make: matches,
};

/// Durations in s of real tinydtls over Contiki-NG's TSCH in Cooja with L = 101, for each number of
/// cells.
const COOJA: [f64; 3] = [7.03, 3.51, 2.36];

fn point(nodes: u16, layer: Layer) -> Point {
    Point {
        series: String::new(),
        x: 0.0,
        network: Network::line(nodes, layer),
        profile: "tinydtls",
        timeout: Some(RAISED),
        paper: None,
    }
}

fn tsch(nodes: u16, slotframe: u64, cells: u64) -> Point {
    point(nodes, Layer::Tsch(tsch::TschSettings::dedicated(slotframe, cells)))
}

fn single_hop(options: &FigureOptions) -> Result<FigureData, Error> {
    let mut rows = Vec::new();
    let paper = [[5.15, 3.467, 2.625], [50.15, 33.467, 25.125]];
    for (slotframe, paper) in [101, 1001].into_iter().zip(paper) {
        for ((count, paper), cooja) in (1..=3).zip(paper).zip(COOJA) {
            let summary = tsch(2, slotframe, count).survey(options.runs, options.seed)?;
            let mut row: Vec<Cell> = vec![
                Cell::Integer(slotframe),
                Cell::Integer(count),
                expected::tsch_seconds(slotframe, count, 1, 1.0).into(),
                paper.into(),
                expected::queued_tsch_seconds(slotframe, count).into(),
                Some(cooja).filter(|_| slotframe == 101).into(),
            ];
            row.extend(cells(&summary));
            rows.push(row);
        }
    }
    let mut named = vec![
        ("slotframe", "L, timeslots of 10 ms"),
        ("cells", "C, cells in each direction"),
        ("equation_s", "ten frames by equation (1)"),
        ("paper_s", "the paper's value"),
        ("law_s", "7 L / C timeslots"),
        ("cooja_s", "real tinydtls over Contiki-NG in Cooja"),
    ];
    named.extend(COLUMNS);
    Ok(FigureData::table(Table::new(&named, rows)))
}

fn multi_hop(options: &FigureOptions) -> Result<FigureData, Error> {
    let mut rows = Vec::new();
    let paper = [[10.3, 15.45, 20.6], [100.3, 150.45, 200.6]];
    for (slotframe, paper) in [101, 1001].into_iter().zip(paper) {
        for (hops, paper) in (2..=4u16).zip(paper) {
            let summary = tsch(hops + 1, slotframe, 1).survey(options.runs, options.seed)?;
            let mut row: Vec<Cell> = vec![
                Cell::Integer(slotframe),
                Cell::Integer(hops.into()),
                expected::tsch_seconds(slotframe, 1, hops, 1.0).into(),
                paper.into(),
            ];
            row.extend(cells(&summary));
            rows.push(row);
        }
    }
    let mut named = vec![
        ("slotframe", "L, timeslots of 10 ms"),
        ("hops", "H"),
        ("equation_s", "ten frames by equation (2), C = 1"),
        ("paper_s", "the paper's value"),
    ];
    named.extend(COLUMNS);
    Ok(FigureData::table(Table::new(&named, rows)))
}

fn matches(options: &FigureOptions) -> Result<FigureData, Error> {
    let mut rows = Vec::new();
    for (count, beacon_order, superframe_order) in [(1, 6, 2), (2, 5, 1), (3, 5, 2)] {
        let settings = beacon::BeaconSettings::direct(beacon_order, superframe_order);
        let (interval, access) = (settings.interval_micros(), settings.access_micros());
        let beside = point(2, Layer::Beacon(settings));
        let [over_tsch, over_beacons] = [tsch(2, 101, count), beside]
            .map(|point| point.survey(options.runs, options.seed).map(|found| found.seconds));
        let (over_tsch, over_beacons) = (over_tsch?, over_beacons?);
        rows.push(vec![
            Cell::Integer(count),
            expected::tsch_seconds(101, count, 1, 1.0).into(),
            over_tsch.mean.into(),
            over_tsch.half_width.into(),
            (interval as f64 / 1e3).into(),
            (access as f64 / 1e3).into(),
            over_beacons.mean.into(),
            over_beacons.half_width.into(),
        ]);
    }
    let named = [
        ("cells", "C of a slotframe of 101 timeslots"),
        ("equation_s", "the paper's estimate for TSCH"),
        ("tsch_s", "simulated over TSCH"),
        ("tsch_error_s", "half the width of its 95 % confidence interval"),
        ("beacon_interval_ms", "the beacon interval with about the same duration in the paper"),
        ("access_period_ms", "its contention access period"),
        ("beacon_s", "simulated in beacon-enabled mode"),
        ("beacon_error_s", "half the width of its 95 % confidence interval"),
    ];
    Ok(FigureData::table(Table::new(&named, rows)))
}
