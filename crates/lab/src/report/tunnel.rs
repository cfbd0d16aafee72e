//! Table 2 and Figure 5 of the paper on MACsec tunnels, from the measurements of `cargo xtask
//! bench-gateway`.

use super::stored::{StoredTable, rows};
use crate::figure::{Axis, Cell, FigureData, Marks, PaperItem, Plot, Table};
use crate::papers::TUNNEL;
use serde_json::Value;

const SET: &str = "gateway";

pub(super) const TUNNELS: StoredTable = StoredTable {
    name: "gateway-table-2",
    title: "Round-trip time and throughput of connections between two LANs",
    source: PaperItem { paper: TUNNEL, item: "Table 2" },
    about: "MACsec between two hosts over different connections of their LANs, all on one machine \
            in turns: round trips of small frames, and TCP. The paper's values stand in the rows \
            of similar scenarios. Its hardware was different, so only the order of the rows and \
            their ratios can be compared. A row without TCP carried too few frames: the paper's \
            identifiers without a protection against loss.",
    set: SET,
    read: table_2,
};

pub(super) const ROUND_TRIPS: StoredTable = StoredTable {
    name: "gateway-figure-5a",
    title: "Round trips through a tunnel by frame size",
    source: PaperItem { paper: TUNNEL, item: "Figure 5 (a)" },
    about: "Median round trip of single MACsec frames between two hosts. The MTU of the underlay \
            is 1500 bytes, as that of the LANs: if a frame with its overhead is longer, it is \
            carried in two packets.",
    set: SET,
    read: round_trips,
};

pub(super) const THROUGHPUT: StoredTable = StoredTable {
    name: "gateway-figure-5b",
    title: "What passes through a tunnel",
    source: PaperItem { paper: TUNNEL, item: "Figure 5 (b)" },
    about: "TCP's payload between MACsec endpoints, and MACsec frames of 1400 bytes that were \
            prepared beforehand: the median over the turns, and half the distance of the \
            quartiles. No frame is split, because the MTU of the underlay is large enough.",
    set: SET,
    read: throughput,
};

/// The titles of rows, by their names in the results.
const TITLES: [(&str, &str); 15] = [
    ("cable", "a cable"),
    ("bridge", "bridge"),
    ("vxlan", "VXLAN (kernel)"),
    ("boringtun", "VXLAN + WireGuard (boringtun)"),
    ("wireguard-go", "VXLAN + WireGuard (wireguard-go)"),
    ("plain", "plain, AF_XDP"),
    ("identifier", "identifier, AF_XDP"),
    ("identifier-paper", "identifier as in the paper, AF_XDP"),
    ("encryption-paper", "encryption as in the paper, AF_XDP"),
    ("sealed", "sealed, AF_XDP"),
    ("sealed-compressed", "sealed and compressed, AF_XDP"),
    ("plain-packet", "plain, AF_PACKET"),
    ("identifier-packet", "identifier, AF_PACKET"),
    ("sealed-packet", "sealed, AF_PACKET"),
    ("sealed-compressed-packet", "sealed and compressed, AF_PACKET"),
];

const SCENARIO: (&str, &str) = ("scenario", "the tunnel that carries the frames");

fn title(row: &Value) -> Option<&str> {
    let name = row["name"].as_str()?;
    Some(TITLES.iter().find(|(known, _)| *known == name).map_or(name, |(_, title)| *title))
}

fn number(row: &Value, pointer: &str) -> Cell {
    row.pointer(pointer).and_then(Value::as_f64).into()
}

fn table_2(result: &Value) -> Option<FigureData> {
    let columns = [
        SCENARIO,
        ("rtt_us", "median round trip"),
        ("rtt_p95_us", "95th percentile of the round trips"),
        ("rtt_mean_us", "mean round trip"),
        ("rtt_mdev_us", "mean deviation of the round trips"),
        ("paper_rtt_ms", "the paper's mean round trip"),
        ("paper_rtt_mdev_ms", "its mean deviation"),
        ("tcp_mbit_s", "TCP's payload, median over the turns"),
        ("tcp_low_mbit_s", "the lower quartile"),
        ("tcp_high_mbit_s", "the upper quartile"),
        ("paper_throughput_mbit_s", "the paper's mean throughput"),
        ("paper_throughput_mdev_mbit_s", "its mean deviation"),
    ];
    let mut table = Table::new(&columns, Vec::new());
    for row in rows(result)? {
        let mut cells: Vec<Cell> = vec![title(row)?.into()];
        let values = [
            "/pings/median_us",
            "/pings/percentile_95_us",
            "/pings/mean_us",
            "/pings/mdev_us",
            "/paper/rtt_ms",
            "/paper/rtt_mdev_ms",
            "/measures/tcp_mbit_s/median",
            "/measures/tcp_mbit_s/low",
            "/measures/tcp_mbit_s/high",
            "/paper/throughput_mbit_s",
            "/paper/throughput_mdev_mbit_s",
        ];
        cells.extend(values.map(|pointer| number(row, pointer)));
        table.rows.push(cells);
    }
    Some(FigureData::table(table))
}

fn round_trips(result: &Value) -> Option<FigureData> {
    let columns = [
        SCENARIO,
        ("frame_bytes", "the frame, without its check sequence"),
        ("rtt_us", "median round trip"),
        ("rtt_p95_us", "95th percentile of the round trips"),
        ("rtt_mean_us", "mean round trip"),
        ("rtt_mdev_us", "mean deviation of the round trips"),
        ("count", "round trips"),
        ("lost", "frames that did not come back"),
    ];
    let mut table = Table::new(&columns, Vec::new());
    for row in rows(result)? {
        for trip in row["round_trips"].as_array().into_iter().flatten() {
            let whole = |name: &str| trip[name].as_u64().map_or(Cell::Missing, Cell::Integer);
            table.rows.push(vec![
                title(row)?.into(),
                whole("frame_bytes"),
                number(trip, "/median_us"),
                number(trip, "/percentile_95_us"),
                number(trip, "/mean_us"),
                number(trip, "/mdev_us"),
                whole("count"),
                whole("lost"),
            ]);
        }
    }
    let plot = Plot {
        subtitle: "by the tunnel that carries the frames; 1500 bytes between the gateways".into(),
        marks: Marks::Curves,
        series: "scenario",
        emphasis: None,
        x: Axis::linear("frame_bytes", "frame, in bytes", 1600.0),
        y: Axis::linear("rtt_us", "round trip, in µs", above(&table, "rtt_us")),
    };
    Some(FigureData::plotted(table, plot))
}

fn throughput(result: &Value) -> Option<FigureData> {
    let columns = [
        SCENARIO,
        ("measure", "TCP, or frames that were prepared beforehand"),
        ("throughput_mbit_s", "median over the turns"),
        ("spread_mbit_s", "half the distance of the quartiles"),
    ];
    let mut table = Table::new(&columns, Vec::new());
    const FRAME_MBIT: f64 = 1400.0 * 8.0 / 1e6;
    for row in rows(result)? {
        for (measure, name, unit) in
            [("TCP", "tcp_mbit_s", 1.0), ("frames of 1400 bytes", "frames_s_1400", FRAME_MBIT)]
        {
            let of = |part: &str| row.pointer(&format!("/measures/{name}/{part}"))?.as_f64();
            let (Some(median), Some(low), Some(high)) = (of("median"), of("low"), of("high"))
            else {
                continue;
            };
            table.rows.push(vec![
                title(row)?.into(),
                measure.into(),
                (median * unit).into(),
                ((high - low) / 2.0 * unit).into(),
            ]);
        }
    }
    let plot = Plot {
        subtitle: "by the tunnel that carries the frames; 1700 bytes between the gateways".into(),
        marks: Marks::Bars("spread_mbit_s"),
        series: "measure",
        emphasis: None,
        x: Axis::linear("scenario", "", 1.0),
        y: Axis::linear("throughput_mbit_s", "Mbit/s", above(&table, "throughput_mbit_s")),
    };
    Some(FigureData::plotted(table, plot))
}

/// A value somewhat above the highest value of a column.
fn above(table: &Table, column: &str) -> f64 {
    let place = table.column(column);
    let values = table.rows.iter().filter_map(|row| row.get(place?)?.as_f64());
    1.15 * values.fold(1.0, f64::max)
}
