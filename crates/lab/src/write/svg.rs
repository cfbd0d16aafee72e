//! Scalable vector graphics for papers and browsers. Text in them remains text.

use crate::Error;
use crate::figure::{Axis, Cell, Figure, FigureData, Marks, Plot, Scale, Table};
use kuva::AxisLabelOverlap;
use kuva::plot::{BarPlot, LegendEntry, LegendShape, ScatterPlot};
use kuva::prelude::{
    Layout, LegendPosition, LinePlot, LineStyle, Plot as Drawn, Theme, TickFormat,
};
use lightseal_core::math;
use std::sync::Arc;

/// The colours of Okabe and Ito, which are distinct for every kind of colour vision. Black is left
/// out because it marks emphasis, and yellow because it is too light for lines.
const COLOURS: [&str; 6] = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"];
/// Dashes, by which curves differ without colour as well: those of a curve, and those of its short
/// sample in the legend. Their number shares no factor with the number of colours, so pairs repeat
/// late.
const DASHES: [(Option<&str>, &str); 5] = [
    (None, "16 2"),
    (Some("5 2.5"), "5 2.5 5 2.5"),
    (Some("1.5 2"), "1.5 2 1.5 2 1.5 2 1.5 2"),
    (Some("7 2 1.5 2"), "7 2 1.5 2 3 2"),
    (Some("11 2.5"), "10 2.5 3.5 2"),
];
/// The fill colours of bars, which have no dashes: grey for the first series, then two rows with
/// one hue each.
const SHADES: [&str; 9] = [
    "#777777", "#9ecae1", "#6baed6", "#3182bd", "#08519c", "#fdd0a2", "#fdae6b", "#e6550d",
    "#a63603",
];
/// A grey light enough to stay in the background of the curves.
const GRID: &str = "#e4e4e4";
/// Fonts that browsers and drawing programs have. Widths are computed with the first one.
const FONTS: &str = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif";

/// Draws a figure as SVG.
///
/// # Errors
///
/// Fails if the figure has no plot, or if the plot names a column that the table does not have.
pub fn render(figure: &Figure, output: &FigureData) -> Result<String, Error> {
    drawn(figure.title, output)
}

/// Draws the output under a title as SVG.
///
/// # Errors
///
/// The errors of [`render`].
pub fn drawn(title: &str, output: &FigureData) -> Result<String, Error> {
    let failed = |reason: &str| Error::Format { format: "SVG", reason: reason.into() };
    let plot = output.plot.as_ref().ok_or_else(|| failed("this figure has no plot"))?;
    let drawing = drawing(&output.table, plot).ok_or_else(|| failed("the plot names no column"))?;
    let layout = Layout::auto_from_plots(&drawing.drawn)
        .with_title(title)
        .with_subtitle(plot.subtitle.as_str())
        .with_x_label(plot.x.label)
        .with_y_label(plot.y.label)
        .with_legend_entries(drawing.legend)
        .with_legend_position(LegendPosition::OutsideRightTop)
        .with_legend_box(false)
        .with_font_family(FONTS)
        .with_theme(Theme { grid_color: GRID.into(), ..Theme::light() })
        .with_width(960.0)
        .with_height(600.0);
    let layout = vertical(layout, &plot.y);
    let layout = match plot.marks {
        Marks::Bars(_) => apart(layout, &output.table, plot),
        Marks::Curves | Marks::CurvesAndDots(_) => horizontal(layout, &plot.x),
    };
    Ok(renumbered(&kuva::render_to_svg(drawing.drawn, layout)))
}

/// The marks of a plot, and the legend that names them.
struct Drawing {
    drawn: Vec<Drawn>,
    legend: Vec<LegendEntry>,
}

fn drawing(table: &Table, plot: &Plot) -> Option<Drawing> {
    if let Marks::Bars(error) = plot.marks {
        return bars(table, plot, error);
    }
    let mut curves = curves(table, plot, plot.series)?;
    curves.sort_by_key(|curve| plot.emphasis == Some(curve.name.as_str()));
    let mut drawn: Vec<Drawn> = Vec::new();
    let mut legend = legend(plot, &curves);
    if let Marks::CurvesAndDots(column) = plot.marks {
        // The dots come first, so that they lie behind the curves.
        let mut dots = self::curves(table, plot, column)?;
        dots.sort_by_cached_key(|dots| natural(&dots.name));
        for (dots, colour) in dots.into_iter().zip(COLOURS) {
            legend.push(LegendEntry {
                label: dots.name,
                color: colour.into(),
                shape: LegendShape::Circle,
                dasharray: None,
            });
            let dots = ScatterPlot::new().with_data(dots.points).with_color(colour);
            drawn.push(dots.with_size(2.0).into());
        }
    }
    drawn.extend(curves.iter().enumerate().map(|(i, curve)| line(plot, curve, i)));
    Some(Drawing { drawn, legend })
}

/// A name as a key for sorting in which numbers are compared by value: `Agg(4)` before `Agg(16)`.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts = vec![(String::new(), 0_u64)];
    let mut was_digit = false;
    for c in name.chars() {
        if was_digit && !c.is_ascii_digit() {
            parts.push((String::new(), 0));
        }
        was_digit = c.is_ascii_digit();
        if let Some((text, number)) = parts.last_mut() {
            match c.to_digit(10) {
                Some(digit) => *number = number.saturating_mul(10).saturating_add(digit.into()),
                None => text.push(c),
            }
        }
    }
    parts
}

/// Keeps the names of groups of bars apart: in two rows, or slanted if two rows are too narrow as
/// well.
fn apart(layout: Layout, table: &Table, plot: &Plot) -> Layout {
    /// The width of a letter, and the width of all groups together.
    const LETTER: usize = 7;
    const WIDTH: usize = 700;
    let mut names: Vec<&str> = Vec::new();
    for row in &table.rows {
        if let Some(Cell::Text(name)) = table.column(plot.x.column).and_then(|place| row.get(place))
            && !names.contains(&name.as_str())
        {
            names.push(name);
        }
    }
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    match longest * names.len() * LETTER {
        // In two rows, each name has the width of two groups.
        needed if needed <= 2 * WIDTH => layout.with_x_label_overlap(AxisLabelOverlap::Stagger),
        _ => layout.with_x_tick_rotate(-35.0),
    }
}

/// Draws groups of bars in the order of the table, with a bar of each series in each group.
fn bars(table: &Table, plot: &Plot, error: &str) -> Option<Drawing> {
    let [series, x, y] = [plot.series, plot.x.column, plot.y.column].map(|c| table.column(c));
    let (series, x, y, error) = (series?, x?, y?, table.column(error)?);
    let mut names: Vec<&str> = Vec::new();
    let mut groups: Vec<(&str, Vec<(f64, &str)>)> = Vec::new();
    let mut errors = Vec::new();
    for row in &table.rows {
        let (Cell::Text(name), Cell::Text(group), Some(value)) =
            (&row[series], &row[x], row[y].as_f64())
        else {
            continue;
        };
        let known = names.iter().position(|known| known == name);
        let place = known.unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        if groups.last().is_none_or(|(last, _)| last != group) {
            groups.push((group, Vec::new()));
        }
        let (_, bars) = groups.last_mut()?;
        bars.push((value, SHADES[place % SHADES.len()]));
        errors.push(row[error].as_f64().unwrap_or(0.0));
    }
    let bars =
        groups.into_iter().fold(BarPlot::new(), |plot, (group, bars)| plot.with_group(group, bars));
    let legend = names.into_iter().enumerate().map(|(place, name)| LegendEntry {
        label: name.into(),
        color: SHADES[place % SHADES.len()].into(),
        shape: LegendShape::Rect,
        dasharray: None,
    });
    Some(Drawing { drawn: vec![bars.with_error(errors).into()], legend: legend.collect() })
}

/// Renumbers the identifiers of clipping paths from 0. kuva counts through the whole process, and a
/// figure must not depend on the figures made before it.
fn renumbered(svg: &str) -> String {
    const PREFIX: &str = "kuva-clip-";
    let mut parts = svg.split(PREFIX);
    let mut out = parts.next().unwrap_or_default().to_owned();
    let mut seen = Vec::new();
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        let (number, rest) = part.split_at(digits);
        let index = seen.iter().position(|known| *known == number).unwrap_or_else(|| {
            seen.push(number);
            seen.len() - 1
        });
        out += &format!("clip-{index}{rest}");
    }
    out
}

/// A curve: its name, and its points in the order of the table.
struct Curve {
    name: String,
    points: Vec<(f64, f64)>,
}

fn curves(table: &Table, plot: &Plot, series: &str) -> Option<Vec<Curve>> {
    let series = table.column(series)?;
    let (x, y) = (table.column(plot.x.column)?, table.column(plot.y.column)?);
    let mut curves: Vec<Curve> = Vec::new();
    for row in &table.rows {
        let (Cell::Text(name), Some(x), Some(y)) = (&row[series], row[x].as_f64(), row[y].as_f64())
        else {
            continue;
        };
        let point = (place(&plot.x, x), place(&plot.y, y));
        match curves.iter_mut().find(|curve| curve.name == *name) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve { name: name.clone(), points: vec![point] }),
        }
    }
    Some(curves)
}

fn line(plot: &Plot, curve: &Curve, index: usize) -> Drawn {
    let look = look(plot, curve, index);
    let line = LinePlot::new().with_data(curve.points.iter().copied());
    let line = line.with_color(look.colour).with_stroke_width(look.width);
    match look.dashes {
        Some(dashes) => line.with_line_style(LineStyle::Custom(dashes.into())).into(),
        None => line.into(),
    }
}

/// The legend. The emphasised curve comes first, although it is drawn last, in front of all others.
fn legend(plot: &Plot, curves: &[Curve]) -> Vec<LegendEntry> {
    let mut curves: Vec<_> = curves.iter().enumerate().collect();
    curves.sort_by_key(|(_, curve)| plot.emphasis != Some(curve.name.as_str()));
    let entry = |(index, curve): (usize, &Curve)| {
        let look = look(plot, curve, index);
        LegendEntry {
            label: curve.name.clone(),
            color: look.colour.into(),
            shape: LegendShape::Line,
            dasharray: Some(look.sample.into()),
        }
    };
    curves.into_iter().map(entry).collect()
}

/// The colour, the dashes and the width of a curve.
struct CurveStyle {
    colour: &'static str,
    dashes: Option<&'static str>,
    sample: &'static str,
    width: f64,
}

fn look(plot: &Plot, curve: &Curve, index: usize) -> CurveStyle {
    let emphasised = plot.emphasis == Some(curve.name.as_str());
    let (dashes, sample) = DASHES[if emphasised { 0 } else { index % DASHES.len() }];
    let colour = if emphasised { "black" } else { COLOURS[index % COLOURS.len()] };
    CurveStyle { colour, dashes, sample, width: if emphasised { 3.5 } else { 2.0 } }
}

/// The position of a value on its axis, before it is scaled to the page.
fn place(axis: &Axis, value: f64) -> f64 {
    match axis.scale {
        Scale::Linear => value,
        Scale::Log2 => math::log2(value),
    }
}

fn horizontal(layout: Layout, axis: &Axis) -> Layout {
    let layout =
        layout.with_x_axis_min(place(axis, axis.from)).with_x_axis_max(place(axis, axis.to));
    match axis.scale {
        Scale::Linear => layout,
        Scale::Log2 => layout.with_x_tick_step(1.0).with_x_tick_format(powers_of_two()),
    }
}

fn vertical(layout: Layout, axis: &Axis) -> Layout {
    let layout =
        layout.with_y_axis_min(place(axis, axis.from)).with_y_axis_max(place(axis, axis.to));
    match axis.scale {
        Scale::Linear => layout,
        Scale::Log2 => layout.with_y_tick_step(2.0).with_y_tick_format(powers_of_two()),
    }
}

fn powers_of_two() -> TickFormat {
    TickFormat::Custom(Arc::new(|exponent| format!("2{}", raised(exponent.round() as i64))))
}

/// An integer in superscript.
fn raised(number: i64) -> String {
    const DIGITS: [char; 10] = ['⁰', '¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'];
    let digit = |c: char| c.to_digit(10).map_or('⁻', |digit| DIGITS[digit as usize]);
    number.to_string().chars().map(digit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FigureOptions, figures};

    #[test]
    fn text_stays_text_and_every_curve_is_named() {
        let figure = figures::by_name("lightmac-figure-1").unwrap();
        let output = (figure.make)(&FigureOptions::default()).unwrap();
        let svg = render(figure, &output).unwrap();
        let plot = output.plot.as_ref().unwrap();
        for curve in curves(&output.table, plot, plot.series).unwrap() {
            assert!(svg.contains(&format!(">{}<", curve.name)), "{}", curve.name);
        }
        for text in [figure.title, plot.x.label, plot.y.label, "2¹³", "2²⁰"] {
            assert!(svg.contains(&format!(">{text}<")), "{text}");
        }
    }

    #[test]
    fn a_figure_is_the_same_every_time() {
        let figure = figures::by_name("lightmac-figure-1").unwrap();
        let make = || render(figure, &(figure.make)(&FigureOptions::default()).unwrap()).unwrap();
        assert!(make() == make(), "the pictures of two runs differ");
        let twice = r##"id="kuva-clip-7" url(#kuva-clip-7) id="kuva-clip-12""##;
        assert_eq!(renumbered(twice), r##"id="clip-0" url(#clip-0) id="clip-1""##);
    }

    #[test]
    fn a_table_is_no_picture() {
        let figure = figures::by_name("lightmac-table-1").unwrap();
        let output = (figure.make)(&FigureOptions::default()).unwrap();
        assert!(render(figure, &output).is_err());
    }

    #[test]
    fn numbers_in_names_are_compared_as_such() {
        let mut names =
            ["Agg(8)", "plain tags", "Agg(16)", "Agg(4)", "R2D2(8, 100)", "R2D2(8, 50)"];
        names.sort_by_cached_key(|name| natural(name));
        let sorted = ["Agg(4)", "Agg(8)", "Agg(16)", "R2D2(8, 50)", "R2D2(8, 100)", "plain tags"];
        assert_eq!(names, sorted);
    }

    #[test]
    fn superscripts() {
        assert_eq!(raised(-20), "⁻²⁰");
        assert_eq!(raised(0), "⁰");
    }
}
