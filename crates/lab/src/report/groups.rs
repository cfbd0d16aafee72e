//! Figures 7 to 9 of the paper on secure groups, from measurements on an emulated device.

use super::stored::{FOOTPRINT, StoredTable, image, ram};
use crate::figure::{Cell, FigureData, PaperItem, Table};
use crate::papers::AXIOM;
use serde_json::Value;

pub(super) const ROM: StoredTable = StoredTable {
    name: "group-figure-7",
    title: "Flash of a sender and of a listener",
    source: PaperItem { paper: AXIOM, item: "Figure 7" },
    about: "Code and constants of an image for a Cortex-M3 that has one role, with one cipher suite \
            and AES from a table. The paper's images (section 8.2.1) include an operating system, \
            the network and CoAP, ours do not. In the paper, Axiom takes 0.796 KB more at the \
            sender and 1.372 KB more at a listener than Mul-Uni. Its images include DTLS in all \
            three secure configurations, ours have no handshake in Mul-Mul. The group engine has \
            signatures in all configurations, for the controller's messages.",
    set: FOOTPRINT,
    read: rom,
};

pub(super) const RAM: StoredTable = StoredTable {
    name: "group-figure-8",
    title: "RAM of a sender with three listeners, and of a listener",
    source: PaperItem { paper: AXIOM, item: "Figure 8" },
    about: "Static RAM, and the most heap and the deepest stack of a first transaction with its \
            handshakes, on an emulated Cortex-M3. Heap counts the bytes that were asked for; the \
            datagram's buffer is not counted. The paper (section 8.2.1) measured whole images, in \
            which Axiom takes 2.33 KB less at the sender and 3.06 KB less at a listener than \
            Mul-Uni.",
    set: FOOTPRINT,
    read: of_three,
};

pub(super) const BY_SIZE: StoredTable = StoredTable {
    name: "group-figure-9",
    title: "RAM of a sender, by the number of its listeners",
    source: PaperItem { paper: AXIOM, item: "Figure 9" },
    about: "RAM as in Figure 8, measured after each listener's first response. The paper's images \
            (section 8.2.1), with operating system and network, fill 32 KB with 12 listeners in \
            Uni-Uni, and 31.992 KB with 40 listeners under Axiom. The last column says how many \
            listeners fit in 32 KB (of 1024 B) here; images without security keep nothing of a \
            listener.",
    set: FOOTPRINT,
    read: by_size,
};

/// The profile in which the images are measured.
const PROFILE: &str = "small";

const AXIOM_ITSELF: &str = "DTLS Mul-Mul";
const BESIDE: &str = "DTLS Mul-Uni";

/// The configurations, and the images of their senders and of their listeners.
const CONFIGURATIONS: [(&str, &str, &str); 7] = [
    ("CoAP Uni", "coap-uni-sender", "coap-listener"),
    ("CoAP Mul", "coap-mul-sender", "coap-listener"),
    ("DTLS Uni-Uni", "uni-uni-sender", "uni-uni-listener"),
    (BESIDE, "mul-uni-sender", "mul-uni-listener"),
    (AXIOM_ITSELF, "mul-mul-sender", "mul-mul-listener"),
    ("DTLS 1.3 Uni-Uni", "uni-uni-13-sender", "uni-uni-13-listener"),
    ("compact Mul-Mul", "compact-sender", "compact-listener"),
];

/// A node, its image in a configuration, its number of peers in the paper's setting, and by how much
/// the paper's flash and RAM under Axiom exceed those in Mul-Uni, in 1000 B.
struct Node {
    name: &'static str,
    image: fn(&(&'static str, &'static str, &'static str)) -> &'static str,
    peers: u64,
    flash_kb: f64,
    ram_kb: f64,
}

const NODES: [Node; 2] = [
    Node { name: "sender", image: |one| one.1, peers: 3, flash_kb: 0.796, ram_kb: -2.33 },
    Node { name: "listener", image: |one| one.2, peers: 1, flash_kb: 1.372, ram_kb: -3.06 },
];

const CONFIGURATION: (&str, &str) =
    ("configuration", "how messages are sent and secured; the last two are ours");

/// A table of both nodes of each configuration: the bytes that `of` reads from the row of an image,
/// beside the paper's excess.
fn nodes(
    result: &Value,
    about: &'static str,
    of: fn(&Value, &Node) -> Option<u64>,
    paper: fn(&Node) -> f64,
) -> Option<FigureData> {
    let columns = [
        ("node", "the node that was measured"),
        CONFIGURATION,
        ("bytes", about),
        ("beyond_mul_uni_kb", "excess over DTLS Mul-Uni, in 1000 B"),
        ("paper_kb", "that excess in the paper"),
    ];
    let mut table = Table::new(&columns, Vec::new());
    for node in &NODES {
        let measured =
            |configuration| of(image(result, (node.image)(configuration), PROFILE)?, node);
        let beside = CONFIGURATIONS.iter().find(|one| one.0 == BESIDE).and_then(measured)?;
        for configuration in &CONFIGURATIONS {
            let (name, bytes) = (configuration.0, measured(configuration)?);
            table.rows.push(vec![
                node.name.into(),
                name.into(),
                Cell::Integer(bytes),
                Cell::Number((bytes as f64 - beside as f64) / 1e3),
                Some(paper(node)).filter(|_| name == AXIOM_ITSELF).into(),
            ]);
        }
    }
    Some(FigureData::table(table))
}

fn rom(result: &Value) -> Option<FigureData> {
    let flash = |row: &Value, _: &Node| row["flash_bytes"].as_u64();
    nodes(result, "bytes of flash", flash, |node| node.flash_kb)
}

fn of_three(result: &Value) -> Option<FigureData> {
    let of = |row: &Value, node: &Node| {
        ram(row)?.into_iter().find(|(peers, _)| *peers == node.peers).map(|(_, bytes)| bytes)
    };
    nodes(result, "bytes of RAM", of, |node| node.ram_kb)
}

fn by_size(result: &Value) -> Option<FigureData> {
    let columns = [
        CONFIGURATION,
        ("listeners", "number of the sender's listeners"),
        ("bytes", "bytes of RAM at the sender"),
        ("paper_kb", "size of the paper's whole image, in KB"),
        ("listeners_in_32_kb", "how many listeners fit in 32 KB"),
    ];
    let mut table = Table::new(&columns, Vec::new());
    // The configurations without security come first.
    for (name, sender, _) in CONFIGURATIONS.iter().filter(|one| !one.0.starts_with("CoAP")) {
        let row = image(result, sender, PROFILE)?;
        let fitting = row["peers_in_32_kb"].as_u64()?;
        for (listeners, bytes) in ram(row)? {
            let paper = match (*name, listeners) {
                ("DTLS Uni-Uni", 12) => Some(32.0),
                (AXIOM_ITSELF, 40) => Some(31.992),
                _ => None,
            };
            table.rows.push(vec![
                (*name).into(),
                Cell::Integer(listeners),
                Cell::Integer(bytes),
                paper.into(),
                Cell::Integer(fitting),
            ]);
        }
    }
    Some(FigureData::table(table))
}
