//! Draws the crates in their layers: a row of boxes for each layer, the highest layer first.

use super::window::escaped;
use crate::layers::Row;
use std::fmt::Write;

/// The picture's width in pixels.
const WIDTH: f64 = 800.0;
/// Where the names of layers begin, where the boxes begin, and where both end.
const LABELS: f64 = 34.0;
const BOXES: f64 = 168.0;
const RIGHT: f64 = 786.0;
/// The largest number of boxes beside each other, and that of tools, which have short descriptions.
const MOST_BOXES: usize = 3;
const MOST_TOOLS: usize = 4;
/// The distance between boxes, and between a box and the edge of its layer.
const GAP: f64 = 8.0;
/// The distance between a box's edge and its text.
const INSIDE: f64 = 10.0;
/// The distance between two layers.
const BETWEEN: f64 = 7.0;
/// The height of the heading.
const HEADING: f64 = 40.0;
/// The heights of a crate's name and of a line of its description.
const NAME: f64 = 18.0;
const LINE: f64 = 15.0;
/// The sizes of letters in descriptions of crates and of layers.
const BOX_LETTERS: f64 = 12.0;
const LABEL_LETTERS: f64 = 11.5;

/// The colours, with those for readers who prefer dark pages. Layers with I/O, layers without I/O
/// and tools differ in colour.
const STYLES: &str = "\
text{font:12px -apple-system,BlinkMacSystemFont,'Segoe UI','Noto Sans','DejaVu Sans',Helvetica,Arial,sans-serif;fill:#57606a}
.p{fill:#fff;stroke:#d0d7de}.g{font-size:13.5px;fill:#1f2328}.l{font-size:15px;font-weight:600}.a{font-size:11.5px}
.n{font:600 13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace;fill:#1f2328}
.x{fill:#fff;stroke:#d0d7de}.r{fill:none;stroke:#8c959f;stroke-width:1.5}
.io{fill:#ddf0ff}text.io{fill:#0550ae}.pure{fill:#dcf5e3}text.pure{fill:#116329}.tool{fill:#eff1f3}text.tool{fill:#57606a}
@media(prefers-color-scheme:dark){
text{fill:#9ea7b1}.p{fill:#0d1117;stroke:#3d444d}.g,.n{fill:#e6edf3}.x{fill:#151b23;stroke:#3d444d}.r{stroke:#7d8590}
.io{fill:#10294a}text.io{fill:#79c0ff}.pure{fill:#0f2e1a}text.pure{fill:#7ee787}.tool{fill:#212830}text.tool{fill:#b1bac4}}
";

/// The picture of `rows`, the highest layer first.
pub(super) fn draw(rows: &[Row]) -> String {
    let mut body = String::new();
    let mut top = HEADING;
    // The arrow ends at the last layer that takes part in the order.
    let mut arrow_end = top;
    for row in rows {
        let bottom = layer(row, top, &mut body);
        if !row.is_tool {
            arrow_end = bottom;
        }
        top = bottom + BETWEEN;
    }
    let height = top - BETWEEN + 14.0;
    let (arrow_start, tip) = (HEADING + 4.0, arrow_end - 4.0);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\">\n<style>\n{STYLES}</style>\n\
         <rect class=\"p\" x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"9\"/>\n\
         <text class=\"g\" x=\"14\" y=\"26\">The crates: each uses only crates of lower layers</text>\n\
         <path class=\"r\" d=\"M20 {arrow_start}V{tip}m-5 -7l5 7l5 -7\"/>\n{body}</svg>\n",
        WIDTH - 1.0,
        height - 1.0,
    )
}

/// Draws a layer from `top` on, and returns where it ends.
fn layer(row: &Row, top: f64, svg: &mut String) -> f64 {
    let most = if row.is_tool { MOST_TOOLS } else { MOST_BOXES };
    let lines = row.crates.len().div_ceil(most).max(1);
    let columns = row.crates.len().div_ceil(lines).max(1);
    let width = (RIGHT - BOXES - GAP * columns as f64) / columns as f64;
    let mut boxes = String::new();
    let mut y = top + GAP;
    for crates in row.crates.chunks(columns) {
        let texts: Vec<_> = crates
            .iter()
            .map(|(name, about)| (name, wrapped(clause(about), width - 2.0 * INSIDE, BOX_LETTERS)))
            .collect();
        let most = texts.iter().map(|(_, about)| about.len()).max().unwrap_or(0) as f64;
        let height = INSIDE + NAME + LINE * most + 4.0;
        for (at, (name, about)) in texts.into_iter().enumerate() {
            let x = BOXES + at as f64 * (width + GAP);
            rectangle("x", [x, y, width, height], 5, &mut boxes);
            text("n", x + INSIDE, y + 20.0, name, &mut boxes);
            for (line, words) in about.iter().enumerate() {
                let y = y + 20.0 + NAME + LINE * line as f64;
                text("", x + INSIDE, y, words, &mut boxes);
            }
        }
        y += height + GAP;
    }
    let about = wrapped(row.about, BOXES - LABELS - 16.0, LABEL_LETTERS);
    let bottom = y.max(top + 30.0 + LINE * about.len() as f64 + GAP);
    let colour = match (row.is_tool, row.has_io) {
        (true, _) => "tool",
        (_, true) => "io",
        (_, false) => "pure",
    };
    rectangle(colour, [LABELS, top, RIGHT - LABELS, bottom - top], 7, svg);
    text(&format!("l {colour}"), LABELS + 10.0, top + 25.0, row.title, svg);
    for (line, words) in about.iter().enumerate() {
        text("a", LABELS + 10.0, top + 43.0 + LINE * line as f64, words, svg);
    }
    svg.push_str(&boxes);
    bottom
}

fn rectangle(class: &str, [x, y, width, height]: [f64; 4], radius: u32, svg: &mut String) {
    writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
         height=\"{height:.1}\" rx=\"{radius}\"/>"
    )
    .expect("a string takes all text");
}

fn text(class: &str, x: f64, y: f64, words: &str, svg: &mut String) {
    let words = escaped(words);
    let class = if class.is_empty() { String::new() } else { format!("class=\"{class}\" ") };
    writeln!(svg, "<text {class}x=\"{x:.1}\" y=\"{y:.1}\">{words}</text>")
        .expect("a string takes all text");
}

/// A description up to its first colon, behind which details follow.
fn clause(description: &str) -> &str {
    let mut depth = 0;
    let colon = description.char_indices().find(|(_, c)| {
        depth += match c {
            '(' => 1,
            ')' => -1,
            _ => 0,
        };
        *c == ':' && depth == 0
    });
    colon.map_or(description, |(at, _)| &description[..at])
}

/// The text in lines that are at most `width` pixels wide, with letters of `size` pixels.
fn wrapped(text: &str, width: f64, size: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if pixels(&format!("{line} {word}"), size) <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// About how wide a text is in a wide font without serifs.
fn pixels(text: &str, size: f64) -> f64 {
    let width = |c: char| match c {
        'i' | 'j' | 'l' | 't' | 'f' | 'r' | 'I' | ' ' | '.' | ',' | ':' | ';' | '\'' | '('
        | ')' => 0.36,
        'm' | 'w' | 'M' | 'W' => 0.95,
        c if c.is_uppercase() => 0.7,
        _ => 0.6,
    };
    text.chars().map(width).sum::<f64>() * size
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(crates: usize) -> Row {
        let one = |nth| (format!("crate-{nth}"), "What it is & does, in many words".to_owned());
        Row {
            title: "Engines",
            about: "one protocol each",
            has_io: false,
            is_tool: false,
            crates: (0..crates).map(one).collect(),
        }
    }

    #[test]
    fn every_crate_has_a_box_with_its_description() {
        let picture = draw(&[row(2), row(5)]);
        assert_eq!(picture.matches("class=\"x\"").count(), 7);
        assert_eq!(picture.matches("What it is &amp; does").count(), 7, "{picture}");
    }

    #[test]
    fn descriptions_end_at_a_colon_outside_of_parentheses() {
        assert_eq!(clause("tags (schemes: two), shared: by all"), "tags (schemes: two), shared");
        assert_eq!(clause("no details"), "no details");
    }

    #[test]
    fn lines_are_no_wider_than_their_box() {
        let lines = wrapped("one two three four", 60.0, 12.0);
        assert!(lines.len() > 1 && lines.iter().all(|line| pixels(line, 12.0) <= 60.0));
        assert_eq!(lines.join(" "), "one two three four");
    }
}
