//! Draws a screen as the window of a terminal.
//!
//! Each run of characters is stretched to the columns that it has, so the picture is right with any
//! monospaced font. Blocks are drawn as rectangles, because glyphs leave gaps.

use super::screen::{Cell, Screen, Style};
use std::fmt::Write;

/// Width and height of a cell, in pixels.
const CELL: (f64, f64) = (8.4, 18.0);
/// The distance between the window's edge and its text, and the height of the title bar.
const MARGIN: f64 = 20.0;
const TITLE: f64 = 34.0;
/// The distance from the top of a cell to the line on which letters stand.
const BASELINE: f64 = 13.5;

/// The colours, with those for readers who prefer dark pages.
const STYLES: &str = "\
.w{fill:#fbfcfd;stroke:#d0d7de}.b{fill:#eaeef2}.c1{fill:#fa5e57}.c2{fill:#fdbc2e}.c3{fill:#2ac840}
text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono','Liberation Mono',monospace;fill:#1f2328;white-space:pre}
.h{font-weight:bold}.t{font-size:13px;fill:#656d76;text-anchor:middle}
.k2{fill:#2da44e}.k4{fill:#3b82d6}.k6{fill:#0a6c84}.k8{fill:#77808a}rect.k8{fill:#c3cad2}
@media(prefers-color-scheme:dark){
.w{fill:#0d1117;stroke:#3d444d}.b{fill:#1c2128}text{fill:#e6edf3}.t{fill:#9198a1}
.k2{fill:#3fb950}.k4{fill:#4493f8}.k6{fill:#56c8d8}.k8{fill:#9198a1}rect.k8{fill:#57606a}}
";

pub(super) fn draw(screen: &Screen, title: &str) -> String {
    let columns = screen.rows.first().map_or(0, Vec::len) as f64;
    let (width, height) =
        (columns * CELL.0 + 2.0 * MARGIN, screen.rows.len() as f64 * CELL.1 + TITLE + 1.4 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\">\n<style>\n{STYLES}</style>\n\
         <rect class=\"w\" x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"9\"/>\n\
         <path class=\"b\" d=\"M1 {TITLE}V10a9 9 0 0 1 9-9H{}a9 9 0 0 1 9 9V{TITLE}z\"/>\n\
         <circle class=\"c1\" cx=\"20\" cy=\"17\" r=\"6\"/><circle class=\"c2\" cx=\"40\" cy=\"17\" \
         r=\"6\"/><circle class=\"c3\" cx=\"60\" cy=\"17\" r=\"6\"/>\n\
         <text class=\"t\" x=\"{}\" y=\"22\">{title}</text>\n",
        width - 1.0,
        height - 1.0,
        width - 10.0,
        width / 2.0,
    );
    for (row, cells) in screen.rows.iter().enumerate() {
        let top = TITLE + 0.7 * MARGIN + row as f64 * CELL.1;
        for run in runs(cells) {
            run.draw(top, &mut svg);
        }
    }
    svg + "</svg>\n"
}

/// Characters beside each other that are drawn at once.
#[derive(Debug, PartialEq)]
struct StyledRun {
    column: usize,
    text: String,
    style: Style,
}

/// The runs of a row. A run has one style, has no two spaces in a row, and is either all blocks of
/// one height or has none.
fn runs(cells: &[Cell]) -> Vec<StyledRun> {
    let mut runs: Vec<StyledRun> = Vec::new();
    let mut column = 0;
    while let Some(cell) = cells.get(column) {
        if cell.character == ' ' {
            column += 1;
            continue;
        }
        let start = column;
        let block = eighths(cell.character);
        let mut text = String::new();
        while let Some(next) = cells.get(column) {
            let is_gap = |at: usize| cells.get(at).is_none_or(|cell| cell.character == ' ');
            let is_part = if next.character == ' ' {
                // A single space is a part of the text around it.
                block.is_none() && !is_gap(column + 1)
            } else {
                next.style == cell.style && eighths(next.character) == block
            };
            if !is_part {
                break;
            }
            text.push(next.character);
            column += 1;
        }
        let text = text.trim_end().to_owned();
        runs.push(StyledRun { column: start, text, style: cell.style });
    }
    runs
}

/// The height of a block in eighths of a cell.
fn eighths(character: char) -> Option<u32> {
    matches!(character, '▁'..='█').then(|| character as u32 - '▁' as u32 + 1)
}

impl StyledRun {
    fn draw(&self, top: f64, svg: &mut String) {
        let columns = self.text.chars().count() as f64;
        let (left, width) = (MARGIN + self.column as f64 * CELL.0, columns * CELL.0);
        let colour = self.style.colour.map(|colour| format!("k{colour}")).unwrap_or_default();
        let written = if let Some(eighths) = self.text.chars().next().and_then(eighths) {
            let filled = CELL.1 * f64::from(eighths) / 8.0;
            // A bar that fills its cells leaves a line free to the bar in the next row.
            let height = if eighths == 8 { filled - 3.0 } else { filled };
            let top = top + CELL.1 - filled + 1.0;
            writeln!(
                svg,
                "<rect class=\"{colour}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" \
                 height=\"{height:.1}\"/>"
            )
        } else {
            let class = if self.style.bold { format!("{colour} h") } else { colour };
            writeln!(
                svg,
                "<text class=\"{}\" x=\"{left:.1}\" y=\"{:.1}\" textLength=\"{width:.1}\" \
                 lengthAdjust=\"spacingAndGlyphs\">{}</text>",
                class.trim(),
                top + BASELINE,
                escaped(&self.text)
            )
        };
        written.expect("a string takes all text");
    }
}

/// The text as the content of an element.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Vec<Cell> {
        text.chars().map(|character| Cell { character, style: Style::default() }).collect()
    }

    #[test]
    fn runs_end_at_gaps_and_at_blocks() {
        let found = runs(&row("  a b   c██▂ d "));
        let found: Vec<_> = found.iter().map(|run| (run.column, run.text.as_str())).collect();
        assert_eq!(found, [(2, "a b"), (8, "c"), (9, "██"), (11, "▂"), (13, "d")]);
    }

    #[test]
    fn a_picture_has_the_text_and_no_markup_from_it() {
        let output = "\x1b[?1049ha<b & c\x1b[?1049l";
        let picture = draw(&Screen::last_full(10, 1, output).unwrap(), "title");
        assert!(picture.contains(">a&lt;b &amp; c</text>"), "{picture}");
        assert!(picture.contains(">title</text>") && picture.ends_with("</svg>\n"), "{picture}");
    }
}
