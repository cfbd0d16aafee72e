//! Figures 7 to 9 of the paper on secure groups, from measurements on a host.

use super::stored::{StoredTable, rows};
use crate::figure::{Cell, FigureData, PaperItem, Table};
use crate::papers::AXIOM;
use serde_json::Value;

const MEMORY: &str = "group-memory";

const FOOTPRINT: &str = "group-footprint";

pub(super) const ROM: StoredTable = StoredTable {
    name: "group-figure-7",
    title: "Code of a sender and of a listener",
    source: PaperItem { paper: AXIOM, item: "Figure 7" },
    about: "Code and constants of a program that has one role, on a host. It includes the standard \
            library and every cipher suite, so only the differences are meaningful. In the paper \
            (section 8.2.1), Axiom takes 0.796 KB more at the sender and 1.372 KB more at a \
            listener than Mul-Uni. The paper's images include DTLS in all three configurations, \
            ours have no handshake in Mul-Mul. Images of firmware are not measured yet.",
    set: FOOTPRINT,
    read: rom,
};

pub(super) const RAM: StoredTable = StoredTable {
    name: "group-figure-8",
    title: "Memory of a sender with three listeners, and of a listener",
    source: PaperItem { paper: AXIOM, item: "Figure 8" },
    about: "Heap that a node holds after a first transaction, on a host with 64-bit words: \
            engines, their configuration and all state, without stacks and without an operating \
            system. The paper (section 8.2.1) measured whole images, in which Axiom takes 2.33 KB \
            less at the sender and 3.06 KB less at a listener than Mul-Uni. Images of firmware are \
            not measured yet.",
    set: MEMORY,
    read: ram,
};

pub(super) const BY_SIZE: StoredTable = StoredTable {
    name: "group-figure-9",
    title: "Memory of a sender, by the number of its listeners",
    source: PaperItem { paper: AXIOM, item: "Figure 9" },
    about: "Heap as in Figure 8. The paper's images (section 8.2.1) fill 32 KB with 12 listeners \
            in Uni-Uni, and 31.992 KB with 40 listeners under Axiom.",
    set: MEMORY,
    read: by_size,
};

const AXIOM_ITSELF: &str = "DTLS Mul-Mul";
const BESIDE: &str = "DTLS Mul-Uni";
/// The number of listeners in the paper's setting.
const LISTENERS: u64 = 3;

/// By how much the paper's ROM under Axiom exceeds that in Mul-Uni, in 1000 B.
const CODE: [(&str, f64); 2] = [("sender", 0.796), ("listener", 1.372)];

const NODES: [(&str, &str, f64); 2] =
    [("sender", "sender_bytes", -2.33), ("listener", "listener_bytes", -3.06)];

const CONFIGURATION: (&str, &str) =
    ("configuration", "how messages are sent and secured; the last are ours");

/// A table of both nodes of each configuration. The rows of a node have their configuration and the
/// bytes in the named column; the paper says how much Axiom's exceed those in Mul-Uni.
fn nodes<'a>(
    columns: [&'static str; 2],
    nodes: impl IntoIterator<Item = (&'static str, &'static str, f64, Vec<&'a Value>)>,
) -> Option<FigureData> {
    let columns = [
        ("node", columns[0]),
        CONFIGURATION,
        ("bytes", columns[1]),
        ("beyond_mul_uni_kb", "excess over DTLS Mul-Uni, in 1000 B"),
        ("paper_kb", "that excess in the paper"),
    ];
    let mut table = Table::new(&columns, Vec::new());
    for (node, column, paper, rows) in nodes {
        let beside = rows.iter().find(|row| row["configuration"] == BESIDE)?;
        let beside = beside[column].as_u64()? as f64;
        for row in rows {
            let (name, bytes) = (row["configuration"].as_str()?, row[column].as_u64()?);
            table.rows.push(vec![
                node.into(),
                name.into(),
                Cell::Integer(bytes),
                Cell::Number((bytes as f64 - beside) / 1e3),
                Some(paper).filter(|_| name == AXIOM_ITSELF).into(),
            ]);
        }
    }
    Some(FigureData::table(table))
}

fn rom(result: &Value) -> Option<FigureData> {
    let rows = rows(result)?;
    let of = |(node, paper): (&'static str, f64)| {
        let own = rows.iter().filter(|row| row["node"] == node || row["node"] == "either");
        (node, "text_bytes", paper, own.collect())
    };
    nodes(["whose program", "bytes of code and constants"], CODE.map(of))
}

fn ram(result: &Value) -> Option<FigureData> {
    let of_three: Vec<&Value> =
        rows(result)?.iter().filter(|row| row["listeners"] == LISTENERS).collect();
    let of = |(node, column, paper)| (node, column, paper, of_three.clone());
    nodes(["whose memory", "of heap"], NODES.map(of))
}

fn by_size(result: &Value) -> Option<FigureData> {
    let columns = [
        CONFIGURATION,
        ("listeners", "number of the sender's listeners"),
        ("bytes", "bytes of heap at the sender"),
        ("paper_kb", "size of the paper's whole image, in KB"),
    ];
    let mut table = Table::new(&columns, Vec::new());
    for row in rows(result)? {
        let name = row["configuration"].as_str()?;
        let (listeners, bytes) = (row["listeners"].as_u64()?, row["sender_bytes"].as_u64()?);
        let paper = match (name, listeners) {
            ("DTLS Uni-Uni", 12) => Some(32.0),
            (AXIOM_ITSELF, 40) => Some(31.992),
            _ => None,
        };
        let cells = vec![name.into(), Cell::Integer(listeners), Cell::Integer(bytes), paper.into()];
        table.rows.push(cells);
    }
    Some(FigureData::table(table))
}
