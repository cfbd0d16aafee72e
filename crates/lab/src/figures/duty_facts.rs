//! Single values that the paper on duty-cycled networks gives in its text.

use super::duty::Point;
use super::prelude::*;
use crate::energy::Device;
use crate::handshakes::{Profile, expected};
use crate::links::{FRAME_BYTES, Layer, tsch, xmac};
use crate::network::Network;
use core::time::Duration;

pub(super) const FIGURE: Figure = Figure {
    name: "duty-facts",
    title: "Values in the paper's text, and ours",
    source: PaperItem { paper: DUTY_CYCLED, item: "figures in the text" },
    about: "The bytes that a record adds, the share of a small battery that a handshake uses, the \
            two values that the paper gives for one TSCH schedule, and the effect of a fixed \
            retransmission timer where frames are delayed and not lost.",
    make,
};

fn survey(
    options: &FigureOptions,
    layer: Layer,
    profile: &'static str,
    timeout: Option<Duration>,
) -> Result<crate::handshakes::Summary, Error> {
    let network = Network::line(2, layer);
    let series = String::new();
    Point { series, x: 0.0, network, profile, timeout, paper: None }
        .survey(options.runs, options.seed)
}

fn make(options: &FigureOptions) -> Result<FigureData, Error> {
    let overhead = |name| {
        let profile = Profile::by_name(name).ok_or(Error::Stream("no such profile"))?;
        profile.overhead_bytes().map(|bytes| bytes as f64)
    };
    let (old, new) = (overhead("1.2")?, overhead("1.3")?);
    let share = |bytes: f64| 100.0 * bytes / FRAME_BYTES as f64;
    let layer = Layer::XMac(xmac::XMacSettings::contiki(500.0));
    let spent = survey(options, layer, "tinydtls", None)?.millijoules.mean;
    let greennet = Device::by_name("greennet").expect("a known device");
    let battery = greennet.battery_joules.unwrap_or(f64::NAN);
    let of_battery = |millijoules: f64| 100.0 * millijoules / 1e3 / battery;
    let shared = tsch::TschSettings { shared: true, ..tsch::TschSettings::dedicated(101, 1) };
    let one_shared = |profile, timeout| {
        let layer = Layer::Tsch(shared.clone());
        survey(options, layer, profile, timeout).map(|found| found.seconds.mean)
    };
    let raised = Some(super::duty::RAISED);
    let rows: Vec<(&str, &str, Option<f64>, f64)> = vec![
        ("overhead of a record, DTLS 1.2 with CCM_8", "B", Some(29.0), old),
        ("the overhead's share of a frame", "%", Some(22.8), share(old)),
        ("overhead of a record, DTLS 1.3 with CCM", "B", None, new),
        ("the overhead's share of a frame", "%", None, share(new)),
        ("a handshake over X-MAC, CI 500 ms", "mJ", Some(29.05), spent),
        ("that energy's share of a battery of 201.6 J", "%", Some(0.0144), of_battery(spent)),
        ("the paper's own energy, share of that battery", "%", Some(0.0144), of_battery(29.05)),
        (
            "a handshake over TSCH, L = 101, C = 1, in Table I",
            "s",
            Some(5.15),
            expected::tsch_seconds(101, 1, 1, 1.0),
        ),
        (
            "that handshake in the paper's conclusion",
            "s",
            Some(5.5),
            expected::tsch_seconds(101, 1, 1, 1.0),
        ),
        (
            "one shared cell of 101, tinydtls with its timer of 2 s",
            "s",
            None,
            one_shared("tinydtls", None)?,
        ),
        ("one shared cell, tinydtls, raised timer", "s", None, one_shared("tinydtls", raised)?),
        ("one shared cell, our DTLS 1.2", "s", None, one_shared("1.2", None)?),
        (
            "one shared cell, our DTLS 1.3 without cookie",
            "s",
            None,
            one_shared("1.3-no-cookie", None)?,
        ),
    ];
    let named = [
        ("what", "the quantity"),
        ("unit", "unit of both values"),
        ("paper", "the paper's"),
        ("ours", "ours"),
    ];
    let rows = rows
        .into_iter()
        .map(|(what, unit, paper, ours)| {
            vec![what.into(), unit.into(), paper.into(), Cell::Number(ours)]
        })
        .collect();
    Ok(FigureData::table(Table::new(&named, rows)))
}
