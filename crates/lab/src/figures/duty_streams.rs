//! Data with shared tags over the link layers of the paper on duty-cycled networks.

use super::prelude::*;
use crate::advise::CANDIDATES;
use crate::links::{Layer, beacon, tsch, xmac};
use crate::network::Network;
use crate::parallel::parallel;
use crate::stream::radio::run;
use crate::stream::{Accounting, Stream};
use core::time::Duration;
use lightseal_dtls::Scheme;

pub(super) const FIGURE: Figure = Figure {
    name: "duty-streams",
    title: "Shared tags over duty-cycled radios, one hop and three",
    source: PaperItem { paper: DUTY_CYCLED, item: "beyond the paper" },
    about: "10-byte messages every 5 s over an association that has already been established. \
            Where radios repeat lost frames, nearly every set of records is complete, and long \
            sets save the most. Over X-MAC a lost frame costs its whole set.",
    make,
};

const PAYLOAD_BYTES: usize = 10;
const INTERVAL: Duration = Duration::from_secs(5);

fn networks() -> Vec<(&'static str, f64, usize, Network)> {
    let layers = [
        ("X-MAC, CI 125 ms", Layer::XMac(xmac::XMacSettings::contiki(125.0))),
        ("TSCH, L = 101, C = 1", Layer::Tsch(tsch::TschSettings::dedicated(101, 1))),
        ("beacons, BI 983 ms, CAP 30.7 ms", Layer::Beacon(beacon::BeaconSettings::direct(6, 1))),
    ];
    let mut networks = Vec::new();
    for (link, layer) in layers {
        for (hops, delivery) in [(1, 1.0), (1, 0.95), (3, 0.95)] {
            let network = Network::line(hops + 1, layer.clone()).with_delivery(delivery);
            networks.push((link, delivery, usize::from(hops), network));
        }
    }
    networks
}

fn make(options: &FigureOptions) -> Result<FigureData, Error> {
    let networks = networks();
    let rows = parallel(networks.len() * CANDIDATES.len(), |index| {
        let (link, delivery, hops, network) = &networks[index / CANDIDATES.len()];
        let scheme = CANDIDATES[index % CANDIDATES.len()].parse::<Scheme>();
        let scheme = scheme.map_err(|_| Error::Stream("no such scheme"))?;
        let stream = Stream {
            interval: INTERVAL,
            seed: options.seed,
            ..Stream::new(scheme, PAYLOAD_BYTES, (options.messages / 50).max(100))
        };
        let found = run(&stream, network)?.summarize(&network.device, Accounting::Ours);
        let measured = |value: f64| match value.is_nan() {
            true => Cell::Missing,
            false => Cell::Number(value),
        };
        Ok(vec![
            (*link).into(),
            whole(*hops),
            percent(*delivery),
            name(scheme),
            percent(found.goodput),
            percent(found.delivered),
            measured(found.median_delay_s),
            measured(found.p95_delay_s),
            found.millijoules.into(),
        ])
    });
    let named = [
        ("link", "the link layer and its settings"),
        ("hops", "number of hops from sender to receiver"),
        ("delivery_percent", "share of frames, and of acknowledgements, that arrive on each hop"),
        ("scheme", "how records are tagged"),
        ("goodput_percent", "verified payload divided by the DTLS bytes that both ends sent"),
        ("verified_percent", "share of messages that are verified"),
        ("median_delay_s", "median time from sending a message until it is verified"),
        ("p95_delay_s", "95th percentile of that time"),
        ("energy_mj", "the sender's energy for a message, its listening included"),
    ];
    let rows = rows.into_iter().collect::<Result<_, Error>>()?;
    Ok(FigureData::table(Table::new(&named, rows)))
}
