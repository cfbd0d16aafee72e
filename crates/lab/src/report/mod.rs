//! Every figure and table of the papers on one page.
//!
//! - [`stored`]: measurements on real machines, read from dated files;
//! - [`mod@page`]: the page;
//! - [`html`]: text and tables for the page, escaped.
//!
//! Figures are found by their [`PaperItem`](crate::figure::PaperItem), so a figure that joins the
//! registry appears in its place. An item that is the source of no figure is shown as missing.

mod devices;
mod groups;
pub mod html;
pub mod page;
pub mod stored;
mod tables;
mod tunnel;
mod words;

use crate::{Error, Figure, FigureData, FigureOptions};

/// A figure of the registry together with its data.
#[derive(Clone, Debug)]
pub struct Made {
    /// The figure.
    pub figure: &'static Figure,
    /// The result of making it.
    pub output: FigureData,
}

/// All tables of stored measurements.
pub const TABLES: &[stored::StoredTable] = &[
    tables::CIPHERS,
    tables::MACS,
    devices::MACS,
    devices::TAGS,
    groups::ROM,
    groups::RAM,
    groups::BY_SIZE,
    tunnel::TUNNELS,
    tunnel::ROUND_TRIPS,
    tunnel::THROUGHPUT,
    devices::SESSIONS,
];

/// The contents of the page.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// The date and time of the report, in UTC.
    pub date: &'a str,
    /// The commit of the program.
    pub commit: &'a str,
    /// The options that the figures were made with.
    pub options: FigureOptions,
    /// The figures that were made, in the registry's order. The others were not asked for.
    pub made: Vec<Made>,
    /// The stored measurements.
    pub stored: Vec<stored::StoredMeasurement>,
}

impl Report<'_> {
    /// Renders the report as one page without scripts, in HTML that is also well-formed XML.
    ///
    /// # Errors
    ///
    /// Fails if a figure cannot be drawn, or if a stored measurement lacks a value.
    pub fn render(&self) -> Result<String, Error> {
        page::render(self)
    }
}

#[cfg(test)]
mod tests;
