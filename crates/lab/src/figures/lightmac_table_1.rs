//! Table 1 of the LightMAC paper: how small the blocks of lightweight ciphers are.

use super::LIGHTMAC_PAPER;
use crate::figure::{Cell, Column, Figure, FigureData, FigureOptions, PaperItem, Table};
use lightseal_cli::ciphers::CIPHERS;

pub(super) const FIGURE: Figure = Figure {
    name: "lightmac-table-1",
    title: "Block and key sizes of lightweight block ciphers",
    source: PaperItem { paper: LIGHTMAC_PAPER, item: "Table 1" },
    about: "A selection like the paper's, whose rows are missing in our copy: each cipher's block \
            and key sizes from its own publication, and its name in this tool.",
    make,
};

fn make(_: &FigureOptions) -> Result<FigureData, crate::Error> {
    let columns = vec![
        Column { name: "cipher", about: "the cipher's name" },
        Column { name: "block_bits", about: "bits of a block" },
        Column { name: "key_bits", about: "bits of a key" },
        Column {
            name: "taken_as",
            about: "the cipher's name in lightseal mac; empty if it is not supported there",
        },
        Column { name: "source", about: "where the cipher is published" },
    ];
    let mut rows: Vec<(u32, Vec<Cell>)> = Vec::new();
    for cipher in CIPHERS {
        for size in cipher.sizes {
            rows.push((
                size.block_bits,
                vec![
                    cipher.name.into(),
                    size.block_bits.into(),
                    size.key_bits.into(),
                    size.taken_as.into(),
                    cipher.source.into(),
                ],
            ));
        }
    }
    rows.sort_by_key(|(block_bits, _)| std::cmp::Reverse(*block_bits));
    let rows = rows.into_iter().map(|(_, row)| row).collect();
    Ok(FigureData { table: Table { columns, rows }, plot: None })
}
