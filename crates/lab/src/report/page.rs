//! The page: a table of contents, then for each paper what is made, stored or missing.

use super::TABLES;
use super::html::{columns, escape, picture, table};
use super::stored::{self, StoredMeasurement, StoredTable};
use super::{Made, Report};
use crate::Error;
use crate::figure::{Figure, FigureOptions, Table};
use crate::figures::FIGURES;
use crate::papers::{Item, PAPERS, Paper};
use crate::write::svg;

const STYLE: &str = include_str!("style.css");

/// One entry of the page.
enum PageEntry<'a> {
    /// A figure of the registry that was made.
    Made(&'a Made),
    /// A figure of the registry that was not asked for.
    LeftOut(&'static Figure),
    /// A table of stored measurements, its set, and the set's position among those of several
    /// processors.
    Stored(&'static StoredTable, &'a StoredMeasurement, usize),
    /// An item that no figure or measurement shows yet.
    Missing(&'static Item),
}

/// Counts of the papers' items and of those on the page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of figures, tables and results in the papers.
    pub items: usize,
    /// Number of items that are made or stored.
    pub here: usize,
    /// Number of items that a figure could make but that were not asked for.
    pub left_out: usize,
}

impl Report<'_> {
    /// The entries of a paper's section: first the paper's items in their order, then further
    /// figures.
    fn entries<'a>(&'a self, paper: &Paper) -> Vec<PageEntry<'a>> {
        let mut entries = Vec::new();
        for item in paper.items {
            let found = self.of_item(paper, item);
            if found.is_empty() {
                entries.push(PageEntry::Missing(item));
            }
            entries.extend(found);
        }
        let others = FIGURES.iter().filter(|figure| paper.has(&figure.source));
        let others = others.filter(|figure| paper.item(&figure.source).is_none());
        entries.extend(others.map(|figure| self.entry(figure)));
        entries
    }

    /// The entries that show an item.
    fn of_item<'a>(&'a self, paper: &Paper, item: &Item) -> Vec<PageEntry<'a>> {
        let of_it = |source| paper.has(source) && item.covers(source.item);
        let made = FIGURES.iter().filter(|figure| of_it(&figure.source));
        let stored = TABLES.iter().filter(|stored| of_it(&stored.source));
        let stored = stored.flat_map(|it| {
            let sets = stored::newest_each(&self.stored, it.set).into_iter().enumerate();
            sets.map(move |(place, set)| PageEntry::Stored(it, set, place))
        });
        made.map(|figure| self.entry(figure)).chain(stored).collect()
    }

    fn entry<'a>(&'a self, figure: &'static Figure) -> PageEntry<'a> {
        let made = self.made.iter().find(|made| made.figure.name == figure.name);
        made.map_or(PageEntry::LeftOut(figure), PageEntry::Made)
    }

    /// Counts how many of the papers' items are on the page.
    pub fn count(&self) -> Count {
        let mut count = Count::default();
        for (paper, item) in PAPERS.iter().flat_map(|p| p.items.iter().map(move |item| (p, item))) {
            let found = self.of_item(paper, item);
            let is_here =
                |entry: &PageEntry<'_>| matches!(entry, PageEntry::Made(_) | PageEntry::Stored(..));
            count.items += 1;
            count.here += usize::from(found.iter().any(is_here));
            count.left_out += usize::from(!found.is_empty() && !found.iter().any(is_here));
        }
        count
    }
}

impl PageEntry<'_> {
    /// The number of the item in its paper.
    fn item(&self) -> &'static str {
        match self {
            Self::Made(Made { figure, .. }) | Self::LeftOut(figure) => figure.source.item,
            Self::Stored(stored, ..) => stored.source.item,
            Self::Missing(item) => item.name,
        }
    }

    fn title(&self) -> String {
        match self {
            Self::Made(Made { figure, .. }) | Self::LeftOut(figure) => figure.title.into(),
            Self::Stored(stored, _, 0) => stored.title.into(),
            Self::Stored(stored, set, _) => {
                format!("{}, on {}", stored.title, set.machine.processor)
            }
            Self::Missing(item) => capitalised(item.shows),
        }
    }

    /// The heading, escaped.
    fn heading(&self) -> String {
        format!("{}: {}", escape(&capitalised(self.item())), escape(&self.title()))
    }

    /// The identifier for links.
    fn id(&self, paper: &Paper) -> String {
        match self {
            Self::Made(Made { figure, .. }) | Self::LeftOut(figure) => figure.name.into(),
            Self::Stored(stored, _, 0) => stored.name.into(),
            Self::Stored(stored, _, place) => format!("{}-{}", stored.name, place + 1),
            Self::Missing(item) => {
                let plain =
                    |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
                format!(
                    "missing-{}-{}",
                    paper.name,
                    item.name.chars().map(plain).collect::<String>()
                )
            }
        }
    }

    /// A note in the table of contents about an entry that is not on the page.
    fn note(&self) -> &'static str {
        match self {
            Self::Made(_) | Self::Stored(..) => "",
            Self::LeftOut(_) => " <em>(not asked for)</em>",
            Self::Missing(_) => " <em>(missing)</em>",
        }
    }
}

fn capitalised(text: &str) -> String {
    let mut rest = text.chars();
    let first: String = rest.next().into_iter().flat_map(char::to_uppercase).collect();
    first + rest.as_str()
}

/// The whole page.
pub(super) fn render(report: &Report<'_>) -> Result<String, Error> {
    let (date, commit) = (escape(report.date), escape(report.commit));
    let Count { items, here, left_out } = report.count();
    let missing = items - here - left_out;
    let not_asked = match left_out {
        0 => String::new(),
        count => format!(", {count} were not asked for"),
    };
    let FigureOptions { resolution, messages, runs, seed } = report.options;
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n\
         <meta charset=\"utf-8\" />\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" />\n\
         <meta name=\"color-scheme\" content=\"light dark\" />\n\
         <title>Lightseal: the figures of five papers, made again</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#papers\">Skip the contents</a>\n\
         <header>\n<h1>The figures of five papers, made again</h1>\n\
         <p>Of the {items} figures, tables and results of the papers {here} are on this page, {missing} \
         are missing{not_asked}. Further figures follow those \
         of each paper.</p>\n\
         <p>Made on <time>{date}</time> at {commit}, with {runs} simulated handshakes for each point, {messages} \
         messages for each cell, {resolution} points for each doubling of a computed curve, seed {seed}. The same \
         options give the same figures, except those marked as measured. Numbers here have five \
         digits; <code>lightseal lab figure</code> writes all digits. In tables, the values of a paper \
         have a coloured background.</p>\n</header>\n"
    );
    page += &contents(report);
    page += "<main id=\"papers\">\n";
    for paper in &PAPERS {
        page += &format!(
            "<section aria-labelledby=\"{0}\">\n<h2 id=\"{0}\">{1}</h2>\n<p class=\"source\">{2}</p>\n",
            paper.name,
            escape(paper.short),
            escape(paper.title)
        );
        for entry in report.entries(paper) {
            page += &section(report, paper, &entry)?;
        }
        page += "</section>\n";
    }
    page += "</main>\n</body>\n</html>\n";
    Ok(page)
}

fn contents(report: &Report<'_>) -> String {
    let mut out = String::from(
        "<nav aria-labelledby=\"contents\">\n<h2 id=\"contents\">Contents</h2>\n<ul>\n",
    );
    for paper in &PAPERS {
        out += &format!("<li><a href=\"#{}\">{}</a>\n<ul>\n", paper.name, escape(paper.short));
        for entry in report.entries(paper) {
            let (id, heading, note) = (entry.id(paper), entry.heading(), entry.note());
            out += &format!("<li><a href=\"#{id}\">{heading}</a>{note}</li>\n");
        }
        out += "</ul></li>\n";
    }
    out + "</ul>\n</nav>\n"
}

fn section(report: &Report<'_>, paper: &Paper, entry: &PageEntry<'_>) -> Result<String, Error> {
    let (id, heading) = (entry.id(paper), entry.heading());
    let body = match entry {
        PageEntry::Made(made) => figure(report, made)?,
        PageEntry::Stored(table, set, _) => stored_table(table, set, &id)?,
        PageEntry::LeftOut(figure) => format!(
            "<p class=\"absent\">Not asked for; <code>lightseal lab report --only {}</code> makes it.</p>\n",
            figure.name
        ),
        PageEntry::Missing(item) => {
            format!("<p class=\"absent\">Missing. What will make it: {}.</p>\n", escape(item.by))
        }
    };
    Ok(format!(
        "<article aria-labelledby=\"{id}\">\n<h3 id=\"{id}\">{heading}</h3>\n{body}</article>\n"
    ))
}

/// The plot, the values that the paper states, the data, and how the figure was made.
fn figure(report: &Report<'_>, made: &Made) -> Result<String, Error> {
    let Made { figure, output } = made;
    let data = &output.table;
    let theirs = theirs(data);
    let mut out = format!("<p>{}</p>\n", escape(figure.about));
    let everything = |out: &mut String| *out += &table(data, "Data", &theirs, |_| true);
    if output.plot.is_some() {
        let svg = svg::render(figure, output)?;
        let picture = picture(&svg, figure.name, figure.title);
        out += &format!("<figure>{picture}</figure>\n");
        if !theirs.is_empty() {
            let has_theirs =
                |row: &[_]| theirs.iter().any(|place| row[*place] != crate::figure::Cell::Missing);
            out += &table(data, "Where the paper states a value", &theirs, has_theirs);
        }
        out += &format!("<details><summary>Data, {} rows</summary>\n", data.rows.len());
        everything(&mut out);
        out += &columns(data);
    } else {
        everything(&mut out);
        out += "<details><summary>Meaning of the columns</summary>\n";
        out += &columns(data);
    }
    out += "</details>\n";
    let FigureOptions { resolution, messages, runs, seed } = report.options;
    out += &format!(
        "<p class=\"made\">Made by <code>lightseal lab figure {} --resolution {resolution} --messages \
         {messages} --runs {runs} --seed {seed}</code> on {} at {}.</p>\n",
        figure.name,
        escape(report.date),
        escape(report.commit)
    );
    Ok(out)
}

fn stored_table(stored: &StoredTable, set: &StoredMeasurement, id: &str) -> Result<String, Error> {
    let failed = || Error::Format {
        format: "stored results",
        reason: format!("{} lacks what {} needs", set.name, stored.name),
    };
    let output = (stored.read)(&set.result).filter(|output| !output.table.rows.is_empty());
    let output = output.ok_or_else(failed)?;
    let data = &output.table;
    let mut out = format!("<p>{}</p>\n", escape(stored.about));
    let rows = table(data, "Data", &theirs(data), |_| true);
    match output.plot {
        Some(_) => {
            let svg = svg::drawn(stored.title, &output)?;
            out += &format!("<figure>{}</figure>\n", picture(&svg, id, stored.title));
            out += &format!("<details><summary>Data, {} rows</summary>\n{rows}", data.rows.len());
        }
        None => out += &format!("{rows}<details><summary>Meaning of the columns</summary>\n"),
    }
    out += &columns(data);
    let stored::Machine { processor, processors, kernel } = &set.machine;
    out += &format!(
        "</details>\n<p class=\"made\">Measured by <code>{}</code> on {} at {}, on {} ({processors} of its \
         threads), {}.</p>\n",
        escape(&set.command),
        escape(&set.date),
        escape(&set.commit),
        escape(processor),
        escape(kernel)
    );
    Ok(out)
}

/// The indices of the columns with the paper's values. Columns by the paper's accounting hold our
/// own values.
fn theirs(table: &Table) -> Vec<usize> {
    let columns = table.columns.iter().enumerate();
    let theirs = columns.filter(|(_, column)| {
        let of_paper = column.name == "paper" || column.name.starts_with("paper_");
        of_paper && !column.name.contains("accounting")
    });
    theirs.map(|(place, _)| place).collect()
}
