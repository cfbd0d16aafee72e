//! The best member over payload length and loss rate, with the boundaries: Fig. 4 of Wagner et al.

use super::channel::ORDINARY;
use super::report::Fit;
use crate::write::svg::{COLOURS, FONTS, GRID, renumbered};
use aggregation::choice::{Family, MEMBERS};
use kuva::plot::{LegendEntry, LegendShape, ScatterPlot};
use kuva::prelude::{Layout, LegendPosition, LinePlot, Plot as Drawn, Theme};

/// Samples drawn: more hide each other.
const MOST_DOTS: usize = 3000;

pub(super) fn render(fit: &Fit, family: Family) -> String {
    let members = family.members().map(|member| member.to_string());
    let dots = &fit.samples[..fit.samples.len().min(MOST_DOTS)];
    let mut drawn: Vec<Drawn> = Vec::new();
    for (member, colour) in COLOURS.iter().enumerate().take(MEMBERS) {
        let best = dots.iter().filter(|sample| sample.best(family) == member);
        let points: Vec<_> =
            best.map(|sample| (f64::from(sample.payload_bytes), 100.0 * sample.loss)).collect();
        if !points.is_empty() {
            drawn.push(
                ScatterPlot::new().with_data(points).with_color(*colour).with_size(2.0).into(),
            );
        }
    }
    let highest = 100.0 * ORDINARY.loss.end();
    for fitted in &fit.boundaries[family as usize] {
        let lengths = fit.plan.payload_bytes.clone().map(f64::from);
        let points = lengths.map(|x| (x, 100.0 * fitted.curve.at(x)));
        let inside: Vec<_> = points.filter(|(_, y)| (0.0..=highest).contains(y)).collect();
        drawn.push(
            LinePlot::new().with_data(inside).with_color("black").with_stroke_width(1.5).into(),
        );
    }
    let legend = members.into_iter().zip(COLOURS).map(|(label, colour)| LegendEntry {
        label,
        color: colour.into(),
        shape: LegendShape::Circle,
        dasharray: None,
    });
    let layout = Layout::auto_from_plots(&drawn)
        .with_title("The scheme with the most goodput")
        .with_subtitle(format!(
            "{} of {} Gilbert-Elliott channels, seed {}; lines: fitted boundaries",
            dots.len(),
            fit.samples.len(),
            fit.plan.seed
        ))
        .with_x_label("payload, in bytes")
        .with_y_label("packets lost, in %")
        .with_legend_entries(legend.collect())
        .with_legend_position(LegendPosition::OutsideRightTop)
        .with_legend_box(false)
        .with_font_family(FONTS)
        .with_theme(Theme { grid_color: GRID.into(), ..Theme::light() })
        .with_x_axis_min(0.0)
        .with_x_axis_max(f64::from(*fit.plan.payload_bytes.end()))
        .with_y_axis_min(0.0)
        .with_y_axis_max(highest)
        .with_width(960.0)
        .with_height(600.0);
    renumbered(&kuva::render_to_svg(drawn, layout))
}
