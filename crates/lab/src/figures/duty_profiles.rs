//! The cost of each kind of handshake over each link layer.

use super::duty::{COLUMNS, Point, cells};
use super::prelude::*;
use crate::handshakes::PROFILES;
use crate::links::{Layer, beacon, tsch, xmac};
use crate::network::Network;

pub(super) const FIGURE: Figure = Figure {
    name: "duty-profiles",
    title: "The cost of each kind of handshake over each link layer",
    source: PaperItem { paper: DUTY_CYCLED, item: "beyond the paper" },
    about: "Real handshakes of the engine over one hop, with every frame arriving and with 90 % of \
            them. A profile's name tells its version and kind. 1.2 and 1.3 are DTLS 1.2 and 1.3 \
            with a pre-shared key. With half-rtt, the server may send data after its own Finished, \
            half a round trip before the client's arrives. no-cookie omits the round trip in which \
            the client proves its address. resumed begins with a ticket, dhe adds X25519, and cid \
            continues an earlier association by its connection ID. raw-keys and certificates are \
            those of both ends, with ECDSA over P-256, and ml-kem adds ML-KEM-768. tinydtls's timer \
            starts at 2 s, ours at the longest round trip of flights, of two frames with a \
            pre-shared key. The last rows are sizes of \
            other protocols as their authors give them; they are not simulated.",
    make,
};

/// Bytes of a handshake as others count them (draft-ietf-iotops-security-protocol-comparison). They
/// are not simulated here.
const LITERATURE: [(&str, u64); 5] = [
    ("DTLS 1.3 with PSK", 331),
    ("TLS 1.3 with PSK", 280),
    ("cTLS with PSK", 120),
    ("EDHOC", 101),
    ("OSCORE, no handshake", 0),
];

fn layers() -> [(String, Layer); 6] {
    let xmac = |interval: f64| {
        (format!("X-MAC, CI {interval} ms"), Layer::XMac(xmac::XMacSettings::contiki(interval)))
    };
    let beacon = |beacon_order| {
        let settings = beacon::BeaconSettings::direct(beacon_order, 1);
        let interval = settings.interval_micros() as f64 / 1e3;
        (format!("beacons, BI {interval} ms, CAP 30.7 ms"), Layer::Beacon(settings))
    };
    let tsch = ("TSCH, L = 101, C = 1".into(), Layer::Tsch(tsch::TschSettings::dedicated(101, 1)));
    [xmac(62.5), xmac(125.0), xmac(500.0), tsch, beacon(3), beacon(6)]
}

fn make(options: &FigureOptions) -> Result<FigureData, Error> {
    let mut rows = Vec::new();
    for (name, layer) in layers() {
        for delivery in [1.0, 0.9] {
            for profile in PROFILES {
                let point = Point {
                    series: String::new(),
                    x: 0.0,
                    network: Network::line(2, layer.clone()).with_delivery(delivery),
                    profile: profile.name,
                    timeout: None,
                    paper: None,
                };
                let summary = point.survey(options.runs.div_ceil(4).max(2), options.seed)?;
                let mut row: Vec<Cell> = vec![
                    profile.name.into(),
                    "simulated".into(),
                    name.as_str().into(),
                    (100.0 * delivery).into(),
                ];
                row.extend(cells(&summary));
                rows.push(row);
            }
        }
    }
    for (name, bytes) in LITERATURE {
        let mut row: Vec<Cell> =
            vec![name.into(), "literature".into(), Cell::Missing, Cell::Missing];
        row.resize(COLUMNS.len() + 3, Cell::Missing);
        row.push(Cell::Integer(bytes));
        rows.push(row);
    }
    let mut named = vec![
        ("profile", "the kind of handshake"),
        ("origin", "simulated here, or taken from the literature"),
        ("link", "the link layer and its settings"),
        ("delivery_percent", "share of frames, and of acknowledgements, that arrive"),
    ];
    named.extend(COLUMNS);
    Ok(FigureData::table(Table::new(&named, rows)))
}
