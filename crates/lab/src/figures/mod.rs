//! The registry of figures. Each figure has a file of its own.

mod aggregation_delays;
mod aggregation_figure_10;
mod aggregation_figure_11;
mod aggregation_figure_4;
mod aggregation_figure_5;
mod aggregation_figure_8;
mod aggregation_figure_9;
mod aggregation_sweep;
mod aggregation_table_1;
mod aggregation_table_2;
mod cells;
mod duty;
mod duty_engset;
mod duty_facts;
mod duty_figure_2;
mod duty_figure_3;
mod duty_profiles;
mod duty_streams;
mod duty_tables;
mod group_eviction;
mod group_sizes;
mod group_transactions;
mod lightmac_figure_1;
mod lightmac_table_1;
mod lightmac_table_2;

use crate::Figure;

/// All figures, sorted by paper.
pub const FIGURES: &[Figure] = &[
    lightmac_figure_1::FIGURE,
    lightmac_table_1::FIGURE,
    lightmac_table_2::FIGURE,
    aggregation_table_1::FIGURE,
    aggregation_figure_4::AGG,
    aggregation_figure_4::R2D2,
    aggregation_figure_5::FIGURE,
    aggregation_sweep::GOOD_GOODPUT,
    aggregation_sweep::BAD_GOODPUT,
    aggregation_sweep::GOOD_ENERGY,
    aggregation_sweep::BAD_ENERGY,
    aggregation_table_2::FIGURE,
    aggregation_figure_8::FIGURE,
    aggregation_figure_9::FIGURE,
    aggregation_delays::FIGURE,
    aggregation_figure_10::OFF,
    aggregation_figure_10::AGG,
    aggregation_figure_10::R2D2,
    aggregation_figure_11::FIGURE,
    group_sizes::OVERHEAD,
    group_sizes::REKEY,
    group_eviction::FIGURE,
    group_transactions::DURATION,
    group_transactions::TIMES,
    group_transactions::SENDER,
    group_transactions::LISTENER,
    group_transactions::DETAIL,
    duty_figure_2::DURATION,
    duty_figure_2::HOPS,
    duty_figure_2::ENERGY,
    duty_figure_3::DURATION,
    duty_figure_3::HOPS,
    duty_figure_3::ENERGY,
    duty_tables::SINGLE_HOP,
    duty_tables::MULTI_HOP,
    duty_tables::MATCHES,
    duty_engset::FIGURE,
    duty_profiles::FIGURE,
    duty_streams::FIGURE,
    duty_facts::FIGURE,
];

/// What the files of figures use.
mod prelude {
    pub(super) use super::cells::{name, percent, whole};
    pub(super) use crate::Error;
    pub(super) use crate::figure::{
        Axis, Cell, Figure, FigureData, FigureOptions, Marks, PaperItem, Plot, Scale, Table,
    };
    pub(super) use crate::papers::{AGGREGATION, AXIOM, DUTY_CYCLED, LIGHTMAC};
}

/// The figure with this name.
pub fn by_name(name: &str) -> Option<&'static Figure> {
    FIGURES.iter().find(|figure| figure.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FigureOptions;
    use crate::figure::Marks;
    use crate::write::svg;

    #[test]
    fn names_are_unique_and_fit_into_file_names() {
        for (i, figure) in FIGURES.iter().enumerate() {
            let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(figure.name.chars().all(plain), "{}", figure.name);
            assert!(FIGURES[..i].iter().all(|other| other.name != figure.name));
            assert_eq!(by_name(figure.name).map(|found| found.name), Some(figure.name));
        }
        assert!(by_name("all").is_none());
    }

    /// The fewest messages and runs that fill every row.
    fn few() -> FigureOptions {
        FigureOptions { messages: 600, runs: 4, ..FigureOptions::default() }
    }

    #[test]
    fn every_figure_is_made_and_whole() {
        for figure in FIGURES {
            let output = (figure.make)(&few()).expect(figure.name);
            let table = &output.table;
            assert!(!table.rows.is_empty(), "{}", figure.name);
            for row in &table.rows {
                assert_eq!(row.len(), table.columns.len(), "{}", figure.name);
            }
            if let Some(plot) = &output.plot {
                let svg = svg::render(figure, &output).expect(figure.name);
                assert!(
                    svg.contains(plot.x.label) && svg.contains(plot.y.label),
                    "{}",
                    figure.name
                );
                let extra = match plot.marks {
                    Marks::Curves => None,
                    Marks::CurvesAndDots(column) | Marks::Bars(column) => Some(column),
                };
                for column in [plot.series, plot.x.column, plot.y.column].into_iter().chain(extra) {
                    assert!(table.column(column).is_some(), "{}: {column}", figure.name);
                }
            }
        }
    }
}
