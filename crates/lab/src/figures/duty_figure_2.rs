//! Figure 2 of the paper on duty-cycled networks: preamble sampling.

use super::duty::{self, PlotAxes, Point, by_hops, surveyed};
use super::prelude::*;
use crate::links::{Layer, xmac};
use crate::network::Network;

pub(super) const DURATION: Figure = Figure {
    name: "duty-figure-2a",
    title: "Handshakes over X-MAC take longer if nodes listen less often, or more frames are lost",
    source: PaperItem { paper: DUTY_CYCLED, item: "Figure 2 (a)" },
    about: "Handshakes over one hop: tinydtls with cookie as in the paper, and our DTLS 1.3 \
            without cookie (1.3-no-cookie), on X-MAC as in Contiki. Frames are not acknowledged, \
            so a lost frame waits for a timer. The paper reports 1 to 50 s, linear in the check \
            interval without loss, and about three times as long when 90 % of the frames arrive. \
            If the last flight is lost, tinydtls never completes its handshake: see the success \
            rates.",
    make: duration,
};

pub(super) const HOPS: Figure = Figure {
    name: "duty-figure-2b",
    title: "Each hop over X-MAC adds its own share",
    source: PaperItem { paper: DUTY_CYCLED, item: "Figure 2 (b)" },
    about: "tinydtls with cookie along a line of 2 to 5 nodes, without loss. Two nodes that do not \
            hear each other may still interfere, as in the paper. If the timer of 2 s expires \
            before an answer can arrive, retransmissions cause congestion, which a raised timer \
            avoids.",
    make: hops,
};

pub(super) const ENERGY: Figure = Figure {
    name: "duty-figure-2c",
    title: "Energy of a handshake over X-MAC",
    source: PaperItem { paper: DUTY_CYCLED, item: "Figure 2 (c)" },
    about: "The energy of the client, a WiSMote, over one hop, with phase lock, the radio on \
            between strobes and the processor waiting actively, as in Contiki. The paper reports \
            10 to 200 mJ: 29.05 mJ at 500 ms without loss, and twice as much when 90 % of the \
            frames arrive.",
    make: energy,
};

const CHECK_INTERVALS_MS: [f64; 5] = [62.5, 125.0, 250.0, 500.0, 1000.0];

fn network(nodes: u16, check_interval_ms: f64) -> Network {
    Network::line(nodes, Layer::XMac(xmac::XMacSettings::contiki(check_interval_ms)))
}

/// Points of both profiles over one hop, by delivery ratio and check interval.
fn single_hop(paper: fn(&str, f64, f64) -> Option<f64>) -> Vec<Point> {
    let mut points = Vec::new();
    for (profile, delivery) in [
        ("tinydtls", 1.0),
        ("tinydtls", 0.95),
        ("tinydtls", 0.9),
        ("1.3-no-cookie", 1.0),
        ("1.3-no-cookie", 0.9),
    ] {
        points.extend(CHECK_INTERVALS_MS.map(|interval| Point {
            series: format!("{profile}, {} %", 100.0 * delivery),
            x: interval,
            network: network(2, interval).with_delivery(delivery),
            profile,
            timeout: None,
            paper: paper(profile, delivery, interval),
        }));
    }
    points
}

const X: (&str, &str) = ("check_interval_ms", "time from one channel check to the next");

fn by_interval() -> Axis {
    Axis::linear(X.0, "check interval, in ms", 1000.0)
}

fn duration(options: &FigureOptions) -> Result<FigureData, Error> {
    // Durations with Contiki's own X-MAC in a few runs.
    let cooja = |profile: &str, delivery: f64, interval: f64| {
        let known = [(62.5, 0.742), (125.0, 1.353), (250.0, 4.16), (500.0, 5.98)];
        let found = known.into_iter().find(|(at, _)| *at == interval).map(|(_, seconds)| seconds);
        found.filter(|_| profile == "tinydtls" && delivery == 1.0)
    };
    let about = "duration in s in a few runs of Contiki's CX-MAC in Cooja";
    let look = PlotAxes {
        by: ", by delivery ratio",
        emphasis: Some("tinydtls, 100 %"),
        x: by_interval(),
        y: ("duration_s", "duration, in s"),
    };
    surveyed(&single_hop(cooja), X, about, look, options)
}

fn energy(options: &FigureOptions) -> Result<FigureData, Error> {
    let paper = |profile: &str, delivery: f64, interval: f64| {
        (profile == "tinydtls" && delivery == 1.0 && interval == 500.0).then_some(29.05)
    };
    let about = "energy in mJ that the paper reports";
    let look = PlotAxes {
        by: ", by delivery ratio",
        emphasis: Some("tinydtls, 100 %"),
        x: by_interval(),
        y: ("energy_mj", "energy of the client, in mJ"),
    };
    surveyed(&single_hop(paper), X, about, look, options)
}

fn hops(options: &FigureOptions) -> Result<FigureData, Error> {
    let mut points = Vec::new();
    for (interval, raised) in
        [(62.5, false), (125.0, false), (250.0, false), (500.0, false), (500.0, true)]
    {
        let timer = if raised { ", raised timer" } else { "" };
        let series = format!("{interval} ms{timer}");
        points.extend(by_hops(&series, raised, |nodes| network(nodes, interval)));
    }
    duty::hops(&points, ", by check interval", options)
}
