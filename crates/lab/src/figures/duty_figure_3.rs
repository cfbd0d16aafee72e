//! Figure 3 of the paper on duty-cycled networks: beacon-enabled mode.

use super::duty::{self, NO_VALUE, PlotAxes, Point, RAISED, by_hops, surveyed};
use super::prelude::*;
use crate::energy::Device;
use crate::links::Layer;
use crate::links::beacon::{BeaconSettings, Downlink};
use crate::network::Network;

pub(super) const DURATION: Figure = Figure {
    name: "duty-figure-3a",
    title: "In beacon-enabled mode a handshake waits for beacons",
    source: PaperItem { paper: DUTY_CYCLED, item: "Figure 3 (a)" },
    about: "tinydtls with cookie over one hop without loss, by beacon interval and contention \
            access period. With its timer of 2 s, frames that wait for a beacon are sent again; \
            with a raised timer they are not. Indirect: the client requests one frame after each \
            beacon. The paper measured slower hardware: up to 35 s at a beacon interval of 4 s. \
            For direct frames, the data has the durations that ns-3.37 gives for ten such frames \
            and beacons.",
    make: duration,
};

pub(super) const HOPS: Figure = Figure {
    name: "duty-figure-3b",
    title: "Along a cluster tree each hop waits for its own beacon",
    source: PaperItem { paper: DUTY_CYCLED, item: "Figure 3 (b)" },
    about: "tinydtls with cookie along a line of 2 to 5 nodes, without loss, CAP 30.7 ms. The \
            paper reports 1.88 to 16.6 s, and beyond 250 ms only with a raised timer. Here a timer \
            of 2 s is too short from 983 ms and three hops on: retransmitted frames delay the \
            frames that they repeat.",
    make: hops,
};

pub(super) const ENERGY: Figure = Figure {
    name: "duty-figure-3c",
    title: "Energy of a handshake in beacon-enabled mode",
    source: PaperItem { paper: DUTY_CYCLED, item: "Figure 3 (c)" },
    about: "The energy of the client, a GreenNet, over one hop without loss, with a raised timer. \
            In the paper it increases only slightly with the beacon interval. The radio's currents \
            are not published; see the device file.",
    make: energy,
};

const ORDERS: [u32; 6] = [3, 4, 5, 6, 7, 8];

/// Durations in s of ten frames with direct transmission in ns-3.37 (`interop/ns3/beacon.cc`), for
/// superframe orders 1 and 2 and for each of [`ORDERS`].
const NS3: [[f64; 6]; 2] =
    [[0.225, 0.439, 0.864, 1.725, 3.428, 6.893], [0.099, 0.166, 0.294, 0.546, 1.057, 2.075]];

const X: (&str, &str) = ("beacon_interval_ms", "time from beacon to beacon");

fn network(nodes: u16, settings: &BeaconSettings) -> Network {
    let device = Device::by_name("greennet").expect("a known device");
    Network { device, ..Network::line(nodes, Layer::Beacon(settings.clone())) }
}

fn milliseconds(micros: u64) -> f64 {
    micros as f64 / 1e3
}

fn settings(beacon_order: u32, superframe_order: u32, downlink: Downlink) -> BeaconSettings {
    BeaconSettings { downlink, ..BeaconSettings::direct(beacon_order, superframe_order) }
}

fn axes() -> Axis {
    Axis::linear(X.0, "beacon interval, in ms", 4000.0)
}

/// Points over one hop for each variant: series, superframe order, downlink, and whether the timer
/// is raised.
fn single_hop(variants: &[(&str, u32, Downlink, bool)]) -> Vec<Point> {
    let mut points = Vec::new();
    for (name, superframe_order, downlink, raised) in variants {
        let is_ns3 = *downlink == Downlink::Direct && *raised;
        let ns3 = is_ns3.then(|| NS3.get(*superframe_order as usize - 1)).flatten();
        for (nth, order) in ORDERS.into_iter().enumerate() {
            let settings = settings(order, *superframe_order, *downlink);
            let settings = BeaconSettings { short_beacons: is_ns3, ..settings };
            points.push(Point {
                series: (*name).into(),
                x: milliseconds(settings.interval_micros()),
                network: network(2, &settings),
                profile: "tinydtls",
                timeout: raised.then_some(RAISED),
                paper: ns3.map(|seconds| seconds[nth]),
            });
        }
    }
    points
}

fn duration(options: &FigureOptions) -> Result<FigureData, Error> {
    let points = single_hop(&[
        ("CAP 30.7 ms", 1, Downlink::Direct, true),
        ("CAP 61.4 ms", 2, Downlink::Direct, true),
        ("CAP 122.9 ms", 3, Downlink::Direct, true),
        ("CAP 30.7 ms, timer of 2 s", 1, Downlink::Direct, false),
        ("CAP 30.7 ms, indirect", 1, Downlink::Indirect, true),
    ]);
    let look = PlotAxes {
        by: "",
        emphasis: Some("CAP 30.7 ms"),
        x: axes(),
        y: ("duration_s", "duration, in s"),
    };
    surveyed(&points, X, "duration in s by ns-3.37", look, options)
}

fn energy(options: &FigureOptions) -> Result<FigureData, Error> {
    let points = single_hop(&[
        ("CAP 30.7 ms", 1, Downlink::Direct, true),
        ("CAP 30.7 ms, indirect", 1, Downlink::Indirect, true),
    ]);
    let look = PlotAxes {
        by: "",
        emphasis: None,
        x: axes(),
        y: ("energy_mj", "energy of the client, in mJ"),
    };
    surveyed(&points, X, NO_VALUE, look, options)
}

fn hops(options: &FigureOptions) -> Result<FigureData, Error> {
    let mut points = Vec::new();
    for (order, raised) in [(4, true), (5, true), (6, true), (4, false), (5, false), (6, false)] {
        let settings = settings(order, 1, Downlink::Direct);
        let interval = milliseconds(settings.interval_micros());
        let timer = if raised { "raised timer" } else { "timer of 2 s" };
        let series = format!("{interval:.0} ms, {timer}");
        points.extend(by_hops(&series, raised, |nodes| network(nodes, &settings)));
    }
    duty::hops(&points, ", by beacon interval", options)
}
