//! HTML that is also well-formed XML: every element is closed, and all text is escaped.

use super::words::words;
use crate::figure::{Cell, Table};
use lightseal_core::math;

/// Escapes text for an element or a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            // XML has no escape for this character.
            c if c.is_control() && c != '\n' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// A number with five significant digits. No value is known more precisely.
pub fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let magnitude = math::log10(value.abs()).floor() as i32;
    if !(-4..12).contains(&magnitude) {
        return format!("{value:.4e}");
    }
    let decimals = (4 - magnitude).max(0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

/// A table with the given rows. Columns in `theirs` are marked as the paper's values.
pub fn table(
    table: &Table,
    caption: &str,
    theirs: &[usize],
    wanted: impl Fn(&[Cell]) -> bool,
) -> String {
    let caption = escape(caption);
    // A scrollable element must be reachable by keyboard.
    let mut out = format!(
        "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"{caption}\"><table>\n\
         <caption>{caption}</caption>\n<thead><tr>"
    );
    let class = |place: usize| if theirs.contains(&place) { " class=\"theirs\"" } else { "" };
    for (place, column) in table.columns.iter().enumerate() {
        let (about, name) = (escape(column.about), escape(&words(column.name)));
        out += &format!("<th scope=\"col\" title=\"{about}\"{}>{name}</th>", class(place));
    }
    out += "</tr></thead>\n<tbody>\n";
    for row in table.rows.iter().filter(|row| wanted(row)) {
        out += "<tr>";
        for (place, cell) in row.iter().enumerate() {
            let class = class(place);
            out += &match cell {
                Cell::Text(text) => format!("<td{class}>{}</td>", escape(text)),
                Cell::Integer(value) => format!("<td{class} data-n=\"\">{value}</td>"),
                Cell::Number(value) => format!("<td{class} data-n=\"\">{}</td>", number(*value)),
                Cell::Missing => format!("<td{class}></td>"),
            };
        }
        out += "</tr>\n";
    }
    out + "</tbody></table></div>\n"
}

/// The descriptions of a table's columns.
pub fn columns(table: &Table) -> String {
    let mut out = String::from("<dl class=\"columns\">\n");
    for column in &table.columns {
        let (name, about) = (escape(&words(column.name)), escape(column.about));
        out += &format!("<dt>{name}</dt><dd>{about}</dd>\n");
    }
    out + "</dl>\n"
}

/// Makes an SVG picture part of a page with others: it scales, has a label, and its identifiers are
/// made unique by `name`.
pub fn picture(svg: &str, name: &str, label: &str) -> String {
    let size = |attribute: &str| {
        let rest = svg.split_once(&format!(" {attribute}=\""))?.1;
        rest.split_once('"')?.0.parse::<f64>().ok()
    };
    let (width, height) = (size("width").unwrap_or(960.0), size("height").unwrap_or(600.0));
    let root = format!(
        "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {width} {height}\"",
        escape(label)
    );
    svg.trim_end()
        .replacen("<svg", &root, 1)
        .replace("id=\"", &format!("id=\"{name}-"))
        .replace("url(#", &format!("url(#{name}-"))
        .replace("href=\"#", &format!("href=\"#{name}-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_text_is_only_text() {
        assert_eq!(escape("a<b> & \"c\"\u{1}"), "a&lt;b&gt; &amp; &quot;c&quot;\u{fffd}");
    }

    #[test]
    fn numbers_have_five_digits() {
        for (value, text) in [
            (0.0, "0"),
            (100.0, "100"),
            (7.033_333_3, "7.0333"),
            (-0.012_345_67, "-0.012346"),
            (123_456.7, "123457"),
            (200_000.0, "200000"),
            (1.5e-7, "1.5000e-7"),
            (2.0e15, "2.0000e15"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn pictures_keep_their_identifiers_apart() {
        let svg = "<svg width=\"10\" height=\"5\"><g id=\"a\"/><g clip-path=\"url(#a)\"/></svg>\n";
        let label = "role=\"img\" aria-label=\"A\" viewBox=\"0 0 10 5\" width=\"10\" height=\"5\"";
        let expected = format!("<svg {label}><g id=\"n-a\"/><g clip-path=\"url(#n-a)\"/></svg>");
        assert_eq!(picture(svg, "n", "A"), expected);
    }
}
