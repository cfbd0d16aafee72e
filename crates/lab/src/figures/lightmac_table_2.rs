//! Table 2 of the LightMAC paper: the bounds, sorted by powers of the message length.

use super::LIGHTMAC_PAPER;
use crate::figure::{Column, Figure, FigureData, FigureOptions, PaperItem, Table};
use lightseal_mac_papers::bounds::MODES;

pub(super) const FIGURE: Figure = Figure {
    name: "lightmac-table-2",
    title: "Coefficients of the powers of the message length in bounds of MAC modes",
    source: PaperItem { paper: LIGHTMAC_PAPER, item: "Table 2" },
    about: "A row for each term of each mode's bound, for q messages of l blocks of n bits. Our \
            copy of the paper has only the table's caption. Each bound is taken from the paper \
            that proves it, with a column that tells how certain its coefficients are.",
    make,
};

fn make(_: &FigureOptions) -> Result<FigureData, crate::Error> {
    let columns = vec![
        Column { name: "mode", about: "short name of the mode and its bound" },
        Column { name: "title", about: "the mode's name" },
        Column { name: "keys", about: "independent keys" },
        Column { name: "power_of_l", about: "power of the message length in this term" },
        Column { name: "coefficient", about: "coefficient of this term" },
        Column { name: "power_of_q", about: "power of the number of messages in this term" },
        Column { name: "power_of_2_n", about: "power of 2^n in the denominator of this term" },
        Column { name: "term", about: "this term as it is written" },
        Column { name: "bound", about: "the whole bound as it is written" },
        Column { name: "certainty", about: "how sure the coefficients are" },
        Column { name: "source", about: "where the bound is proved" },
        Column { name: "remark", about: "conditions and later results" },
    ];
    let rows = MODES.iter().flat_map(|mode| {
        mode.terms().iter().map(|term| {
            vec![
                mode.name.into(),
                mode.title.into(),
                mode.keys.into(),
                term.length.into(),
                term.coefficient.into(),
                term.messages.into(),
                term.blocks.into(),
                term.to_string().as_str().into(),
                mode.formula.to_string().as_str().into(),
                mode.certainty.explanation().into(),
                mode.source.into(),
                mode.remark.into(),
            ]
        })
    });
    Ok(FigureData { table: Table { columns, rows: rows.collect() }, plot: None })
}
