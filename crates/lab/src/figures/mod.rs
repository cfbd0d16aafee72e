//! The registry, one file a figure.

mod lightmac_figure_1;
mod lightmac_table_1;
mod lightmac_table_2;

use crate::Figure;

/// Every figure, paper by paper.
pub const FIGURES: &[Figure] =
    &[lightmac_figure_1::FIGURE, lightmac_table_1::FIGURE, lightmac_table_2::FIGURE];

/// The LightMAC paper, for its figures' sources.
const LIGHTMAC_PAPER: &str =
    "Luykx, Preneel, Tischhauser, Yasuda: A MAC Mode for Lightweight Block Ciphers, FSE 2016";

/// The figure of this name.
pub fn by_name(name: &str) -> Option<&'static Figure> {
    FIGURES.iter().find(|figure| figure.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

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

    #[test]
    fn every_figure_is_made_and_whole() {
        for figure in FIGURES {
            let output = (figure.make)(&Options::default()).expect(figure.name);
            let table = &output.table;
            assert!(!table.rows.is_empty(), "{}", figure.name);
            for row in &table.rows {
                assert_eq!(row.len(), table.columns.len(), "{}", figure.name);
            }
            if let Some(plot) = output.plot {
                for column in [plot.series, plot.x.column, plot.y.column] {
                    assert!(table.column(column).is_some(), "{}: {column}", figure.name);
                }
            }
        }
    }
}
