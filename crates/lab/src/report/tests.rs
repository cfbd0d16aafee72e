use super::TABLES;
use super::page::Count;
use super::{Made, Report, stored};
use crate::FigureOptions;
use crate::figure::{Cell, Column, FigureData, Plot, Table};
use crate::figures::{FIGURES, by_name};
use crate::papers::PAPERS;
use std::collections::BTreeSet;
use std::path::Path;

/// Figures that take little time to make, among them one with a plot.
const FAST: [&str; 3] = ["lightmac-figure-1", "lightmac-table-1", "aggregation-table-1"];

fn made(name: &str) -> Made {
    let figure = by_name(name).expect(name);
    Made { figure, output: (figure.make)(&FigureOptions::default()).expect(name) }
}

fn results() -> Vec<stored::StoredMeasurement> {
    stored::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results")).unwrap()
}

fn report(made: Vec<Made>) -> Report<'static> {
    let (date, commit) = ("2026-11-22 01:02 UTC", "commit <abc> & \"more\"");
    Report { date, commit, options: FigureOptions::default(), made, stored: results() }
}

/// A page that another project's parser has checked: its tags are balanced and all text is escaped.
struct Page {
    ids: BTreeSet<String>,
    links: BTreeSet<String>,
    text: String,
}

fn parsed(html: &str) -> Page {
    assert!(html.starts_with("<!DOCTYPE html>\n<html lang=\"en\""));
    let options = roxmltree::ParsingOptions { allow_dtd: true, ..Default::default() };
    let document = roxmltree::Document::parse_with_options(html, options).unwrap();
    let mut page = Page { ids: BTreeSet::new(), links: BTreeSet::new(), text: String::new() };
    for node in document.descendants() {
        if let Some(text) = node.text().filter(|_| node.is_text()) {
            page.text += text;
        }
        let name = node.tag_name().name();
        assert!(!["script", "link", "iframe", "img", "object"].contains(&name), "<{name}>");
        for attribute in node.attributes() {
            let value = attribute.value();
            match attribute.name() {
                "id" => assert!(page.ids.insert(value.into()), "{value} twice"),
                "href" => drop(page.links.insert(value.into())),
                // An attribute that makes a browser fetch or run something.
                "src" | "srcset" | "style" => panic!("{} in <{name}>", attribute.name()),
                event => assert!(!event.starts_with("on"), "{event}"),
            }
            assert!(!value.contains("://"), "{value}");
        }
    }
    for link in &page.links {
        let id = link.strip_prefix('#').expect("links stay on the page");
        assert!(page.ids.contains(id), "{link}");
    }
    let heading = |id: &str| page.links.contains(&format!("#{id}"));
    assert!(page.ids.iter().filter(|id| by_name(id).is_some()).all(|id| heading(id)));
    page
}

#[test]
fn every_figure_is_on_the_page_and_every_item_that_has_none_is_missing() {
    let report = report(FAST.map(made).into());
    let html = report.render().unwrap();
    let page = parsed(&html);
    for figure in FIGURES {
        assert!(page.ids.contains(figure.name), "{}", figure.name);
        assert!(page.text.contains(figure.title), "{}", figure.name);
        let command = format!("--only {}", figure.name);
        let asked_for = FAST.contains(&figure.name);
        let says_how = format!("lightseal lab figure {} --resolution", figure.name);
        assert_eq!(page.text.contains(&says_how), asked_for, "{}", figure.name);
        assert!(asked_for || page.text.contains(&command), "{}", figure.name);
    }
    let mut items = 0;
    for paper in PAPERS {
        for item in paper.items {
            let heads = |id: &&str| {
                let figure = by_name(id).map(|figure| figure.source);
                let stored = TABLES.iter().find(|table| table.name == *id);
                let source = figure.or(stored.map(|stored| stored.source));
                source.is_some_and(|source| paper.has(&source) && item.covers(source.item))
            };
            let there = page.ids.iter().map(String::as_str).any(|id| heads(&id));
            let place = item.name.to_lowercase().replace([' ', '(', ')'], "-");
            let missing = page.ids.contains(&format!("missing-{}-{place}", paper.name));
            assert!(there != missing, "{}, {}", paper.name, item.name);
            items += 1;
        }
    }
    let Count { items: counted, here, left_out } = report.count();
    // Figure 5 of the paper on tunnels is shown by two stored tables.
    assert_eq!((counted, here), (items, FAST.len() + TABLES.len() - 1));
    // Each item has a figure that makes it, or stored measurements.
    assert_eq!(here + left_out, items);
}

#[test]
fn items_stand_in_the_order_of_their_papers() {
    let html = report(Vec::new()).render().unwrap();
    let mut from = html.find("<main").unwrap();
    for paper in PAPERS {
        for item in paper.items {
            // The title comes after the number of the item or of its part.
            let name = item.name.replacen("section", "Section", 1);
            let heading = html[from..].find(&format!(">{name}"));
            from += heading.unwrap_or_else(|| panic!("{}, {}", paper.name, item.name));
        }
    }
}

#[test]
fn the_same_report_is_the_same_page() {
    let page = || report(FAST.map(made).into()).render().unwrap();
    assert!(page() == page(), "the pages of two runs differ");
    assert!(page().contains("commit &lt;abc&gt; &amp; &quot;more&quot;"));
}

#[test]
fn without_stored_results_their_tables_are_missing() {
    let without = Report { stored: Vec::new(), ..report(Vec::new()) };
    let html = without.render().unwrap();
    let page = parsed(&html);
    for stored in TABLES {
        assert!(!page.ids.contains(stored.name));
    }
    assert!(page.text.contains("cargo xtask measure"));
}

#[test]
fn stored_results_that_lack_what_a_table_needs_are_an_error() {
    let mut report = report(Vec::new());
    for set in &mut report.stored {
        set.result = serde_json::json!({ "rows": [] });
    }
    assert!(report.render().unwrap_err().to_string().contains("lightmac-speed"));
}

#[test]
fn what_the_paper_says_stands_below_the_plot() {
    let Made { figure, output } = made("lightmac-figure-1");
    let plot: Plot = output.plot.unwrap();
    let mut columns = output.table.columns;
    columns.push(Column { name: "paper_blocks", about: "the paper's" });
    let with = |row: &Vec<Cell>, paper| row.iter().cloned().chain([paper]).collect();
    let mut rows: Vec<Vec<Cell>> =
        output.table.rows.iter().map(|row| with(row, Cell::Missing)).collect();
    *rows[7].last_mut().unwrap() = Cell::Text("<b>1 & 2".into());
    let output = FigureData { table: Table { columns, rows }, plot: Some(plot) };
    let html = report(vec![Made { figure, output }]).render().unwrap();
    parsed(&html);
    let start = html.find("<caption>Where the paper states a value").unwrap();
    let (shown, _) = html[start..].split_once("</table>").unwrap();
    assert_eq!(shown.matches("<tr>").count(), 2, "the head and one row");
    assert!(shown.contains("<td class=\"theirs\">&lt;b&gt;1 &amp; 2</td>"));
}
