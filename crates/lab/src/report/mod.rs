//! Every figure and table of the papers on one page.
//!
//! - [`papers`]: what each paper has, in its order;
//! - [`stored`]: measurements of machines, read from dated files;
//! - [`mod@page`]: the page;
//! - [`html`]: text for it, escaped.
//!
//! Figures are found by their [`Source`](crate::figure::Source), so one that joins the registry stands
//! in its place, and what no figure has as its source is missing.

mod groups;
pub mod html;
pub mod page;
pub mod papers;
pub mod stored;
mod tables;
mod tunnel;
mod words;

use crate::{Error, Figure, Options, Output};

/// A figure of the registry, made.
#[derive(Clone, Debug)]
pub struct Made {
    /// Which.
    pub figure: &'static Figure,
    /// What making it gave.
    pub output: Output,
}

/// What the page is made of.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// When, in UTC.
    pub date: &'a str,
    /// Of which commit.
    pub commit: &'a str,
    /// What the figures were made with.
    pub options: Options,
    /// The figures, in the registry's order; those that are not here were not asked for.
    pub made: Vec<Made>,
    /// Measurements of machines.
    pub stored: Vec<stored::Set>,
}

impl Report<'_> {
    /// As one page without scripts, in HTML that is well-formed XML as well.
    ///
    /// # Errors
    ///
    /// If a figure cannot be drawn, or a stored measurement lacks what it should have.
    pub fn render(&self) -> Result<String, Error> {
        page::render(self)
    }
}

#[cfg(test)]
mod tests;
