//! Figure 1 of the LightMAC paper: how much data one key may process.

use super::prelude::*;
use lightseal_core::math;
use lightseal_mac_papers::bounds::{Certainty, MODES, Mode, Parameters, power_of_two};

pub(super) const FIGURE: Figure = Figure {
    name: "lightmac-figure-1",
    title: "Longest messages, by the number of messages under one key",
    source: PaperItem { paper: LIGHTMAC, item: "Figure 1" },
    about: "The longest messages for a number of messages under one set of keys, so that an attack \
            succeeds with a probability of at most 2^-20, with 32-bit blocks. The product of a \
            point's coordinates is the number of blocks that a key processes. Each mode is drawn \
            by its own proof. Our copy of the paper has only the caption of its Table 2, so the \
            data tells how certain each bound is.",
    make,
};

/// The block length of the paper's example, in bits. Its counter takes half a block (section 1.1).
const BLOCK_BITS: u32 = 32;
const COUNTER_BITS: u32 = 16;
/// The largest probability of an attack's success that the paper accepts: 2^-20.
const PROBABILITY: f64 = power_of_two(-20);
/// Bounds that improve or precede another bound of the same mode. They are in the data, but not
/// drawn.
const NOT_DRAWN: [&str; 2] = ["emac-short", "pmac-2007"];

fn make(options: &FigureOptions) -> Result<FigureData, Error> {
    let parameters = Parameters::new(BLOCK_BITS, COUNTER_BITS, BLOCK_BITS)
        .expect("LightMAC is defined for the paper's own example");
    let columns = [
        ("mode", "short name of the mode and its bound"),
        ("curve", "the curve it is drawn as, with all modes of the same bound; empty if not drawn"),
        ("keys", "independent keys"),
        ("certainty", "how sure the bound's coefficients are"),
        ("messages", "messages tagged under one set of keys"),
        ("longest_message_blocks", "longest message, in 32-bit blocks"),
        ("data_bytes", "bytes of data if all messages have that length"),
        ("data_bytes_per_key", "those bytes divided by the number of keys"),
    ];
    let mut rows = Vec::new();
    for mode in MODES {
        let curve = drawn(mode).then(|| curve(mode));
        for (messages, blocks) in points(mode, parameters, options.resolution) {
            let bytes = messages * blocks * f64::from(BLOCK_BITS) / 8.0;
            rows.push(vec![
                mode.name.into(),
                curve.as_deref().into(),
                mode.keys.into(),
                mode.certainty.explanation().into(),
                messages.into(),
                blocks.into(),
                bytes.into(),
                (bytes / f64::from(mode.keys)).into(),
            ]);
        }
    }
    let marks =
        [Certainty::Derived, Certainty::LeadingTerm, Certainty::OrderOnly, Certainty::Unchecked];
    let marks = marks.map(|certainty| format!("{} {}", certainty.mark(), certainty.in_brief()));
    let plot = Plot {
        subtitle: format!(
            "32-bit blocks, an attack succeeds with at most 2⁻²⁰ ({})",
            marks.join(", ")
        ),
        marks: Marks::Curves,
        series: "curve",
        emphasis: Some("LightMAC"),
        x: Axis {
            column: "messages",
            label: "messages under one set of keys",
            scale: Scale::Log2,
            from: 1.0,
            to: power_of_two(13),
        },
        y: Axis {
            column: "longest_message_blocks",
            label: "longest message, in blocks",
            scale: Scale::Log2,
            from: 1.0,
            to: power_of_two(22),
        },
    };
    Ok(FigureData::plotted(Table::new(&columns, rows), plot))
}

/// Whether the curve of the mode's bound is drawn from the rows of this mode.
fn drawn(mode: &Mode) -> bool {
    !NOT_DRAWN.contains(&mode.name) && same_bound(mode).next().is_some_and(|first| first == mode)
}

/// All modes with the same bound. They share a curve.
fn same_bound(mode: &Mode) -> impl Iterator<Item = &'static Mode> {
    MODES
        .iter()
        .filter(move |other| other.formula == mode.formula && !NOT_DRAWN.contains(&other.name))
}

fn curve(mode: &Mode) -> String {
    let titles: Vec<_> = same_bound(mode).map(|mode| mode.title).collect();
    format!("{} {}", titles.join(", "), mode.certainty.mark()).trim_end().into()
}

/// Numbers of messages and lengths of the longest message along a curve, as real numbers. The curve
/// ends where messages have one block.
fn points(mode: &Mode, parameters: Parameters, resolution: u32) -> Vec<(f64, f64)> {
    let fits = |messages: f64, blocks: f64| {
        mode.advantage(parameters, messages, blocks).is_ok_and(|advantage| advantage <= PROBABILITY)
    };
    let longest_proved = mode.longest_proved(parameters) as f64;
    let longest = |messages: f64| last(longest_proved, |blocks| fits(messages, blocks));
    let Some(most) = last(power_of_two(BLOCK_BITS as i32), |messages| fits(messages, 1.0)) else {
        return Vec::new();
    };
    let steps = f64::from(resolution.max(1));
    let grid =
        (0..).map(|i| math::exp2(f64::from(i) / steps)).take_while(|messages| *messages < most);
    // Some curves bend sharply at their end, so points are closer there.
    let end = (5..20).map(|i| most * (1.0 - power_of_two(-i))).chain([most]);
    let mut messages: Vec<f64> = grid.chain(end.filter(|messages| *messages >= 1.0)).collect();
    messages.sort_by(f64::total_cmp);
    let mut points: Vec<_> = messages
        .into_iter()
        .filter_map(|messages| longest(messages).map(|blocks| (messages, blocks)))
        .collect();
    // A curve that ends where messages are longer than one block drops vertically.
    if points.last().is_some_and(|(_, blocks)| *blocks > 1.0) {
        points.push((most, 1.0));
    }
    points
}

/// The greatest real number from 1 to `limit` for which `fits` holds. It must hold for all smaller
/// numbers from 1 on.
fn last(limit: f64, fits: impl Fn(f64) -> bool) -> Option<f64> {
    if !fits(1.0) {
        return None;
    }
    if fits(limit) {
        return Some(limit);
    }
    let (mut fitting, mut beyond) = (1.0, limit);
    // Each step halves the interval on a logarithmic scale, and 64 steps narrow it to adjacent f64.
    for _ in 0..64 {
        let middle = f64::sqrt(fitting * beyond);
        if fits(middle) {
            fitting = middle;
        } else {
            beyond = middle;
        }
    }
    Some(fitting)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points_of(name: &str) -> Vec<(f64, f64)> {
        let parameters = Parameters::new(BLOCK_BITS, COUNTER_BITS, BLOCK_BITS).unwrap();
        points(Mode::by_name(name).unwrap(), parameters, 8)
    }

    #[test]
    fn lightmac_is_flat_to_its_end_and_falls() {
        let points = points_of("lightmac");
        let (end, flat) = points.split_last().unwrap();
        assert!(flat.iter().all(|(_, blocks)| *blocks == 32_768.0));
        assert!(end.0 > 63.9 && end.0 < 64.0 && end.1 == 1.0, "{end:?}");
    }

    #[test]
    fn curves_fall_and_end_at_one_block() {
        for mode in MODES.iter().filter(|mode| !NOT_DRAWN.contains(&mode.name)) {
            let points = points_of(mode.name);
            assert!(points.windows(2).all(|pair| pair[0].0 <= pair[1].0), "{}", mode.name);
            assert!(points.windows(2).all(|pair| pair[0].1 >= pair[1].1), "{}", mode.name);
            assert_eq!(points.last().map(|(_, blocks)| blocks.round()), Some(1.0), "{}", mode.name);
        }
    }

    #[test]
    fn a_curve_point_agrees_with_the_integers() {
        let parameters = Parameters::new(BLOCK_BITS, COUNTER_BITS, BLOCK_BITS).unwrap();
        for (mode, messages) in MODES.iter().flat_map(|mode| [(mode, 1), (mode, 8), (mode, 32)]) {
            let whole = mode.longest_message(parameters, PROBABILITY, messages) as f64;
            let real = points_of(mode.name).into_iter().find(|point| point.0 == messages as f64);
            let real = real.map_or(0.0, |(_, blocks)| blocks);
            assert!((real + 1e-9).floor() == whole, "{}: {real} and {whole}", mode.name);
        }
    }

    /// Section 1.1: the figure shows that LightMAC begins with an advantage of a factor of 2^4 over
    /// many modes, which grows to roughly 2^10 with the number of queries.
    #[test]
    fn the_papers_own_reading_of_the_figure_holds() {
        let parameters = Parameters::new(BLOCK_BITS, COUNTER_BITS, BLOCK_BITS).unwrap();
        let longest = |name: &str, messages| {
            let mode = Mode::by_name(name).unwrap();
            mode.longest_message(parameters, PROBABILITY, messages) as f64
        };
        let lead =
            |name, messages| math::log2(longest("lightmac", messages) / longest(name, messages));
        for many in ["emac", "omac", "xcbc", "tmac", "pmac"] {
            assert!((4.0..6.0).contains(&lead(many, 1)), "{many}: 2^{}", lead(many, 1));
            assert!((9.0..=12.0).contains(&lead(many, 10)), "{many}: 2^{}", lead(many, 10));
        }
    }

    #[test]
    fn equal_bounds_share_a_curve() {
        assert_eq!(curve(Mode::by_name("xcbc").unwrap()), "XCBC, TMAC *");
        assert_eq!(curve(Mode::by_name("lightmac").unwrap()), "LightMAC");
        assert!(drawn(Mode::by_name("xcbc").unwrap()) && !drawn(Mode::by_name("tmac").unwrap()));
        assert!(!drawn(Mode::by_name("pmac-2007").unwrap()));
    }
}
