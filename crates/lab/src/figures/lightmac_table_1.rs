//! Table 1 of the LightMAC paper: how small the blocks of lightweight ciphers are.

use super::prelude::*;
use lightseal_cli::ciphers::CIPHERS;

pub(super) const FIGURE: Figure = Figure {
    name: "lightmac-table-1",
    title: "Block and key sizes of lightweight block ciphers",
    source: PaperItem { paper: LIGHTMAC, item: "Table 1" },
    about: "A selection like the paper's, whose rows are missing in our copy: each cipher's block \
            and key sizes from its own publication, and its name in this tool.",
    make,
};

fn make(_: &FigureOptions) -> Result<FigureData, Error> {
    let columns = [
        ("cipher", "the cipher's name"),
        ("block_bits", "bits of a block"),
        ("key_bits", "bits of a key"),
        ("taken_as", "the cipher's name in lightseal mac; empty if it is not supported there"),
        ("source", "where the cipher is published"),
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
    Ok(FigureData::table(Table::new(&columns, rows)))
}
