//! Table 2 of the LightMAC paper: the bounds, sorted by powers of the message length.

use super::prelude::*;
use lightseal_mac_papers::bounds::MODES;

pub(super) const FIGURE: Figure = Figure {
    name: "lightmac-table-2",
    title: "Coefficients of the powers of the message length in bounds of MAC modes",
    source: PaperItem { paper: LIGHTMAC, item: "Table 2" },
    about: "A row for each term of each mode's bound, for q messages of l blocks of n bits. Our \
            copy of the paper has only the table's caption. Each bound is taken from the paper \
            that proves it, with a column that tells how certain its coefficients are.",
    make,
};

fn make(_: &FigureOptions) -> Result<FigureData, Error> {
    let columns = [
        ("mode", "short name of the mode and its bound"),
        ("title", "the mode's name"),
        ("keys", "independent keys"),
        ("power_of_l", "power of the message length in this term"),
        ("coefficient", "coefficient of this term"),
        ("power_of_q", "power of the number of messages in this term"),
        ("power_of_2_n", "power of 2^n in the denominator of this term"),
        ("term", "this term as it is written"),
        ("bound", "the whole bound as it is written"),
        ("certainty", "how sure the coefficients are"),
        ("source", "where the bound is proved"),
        ("remark", "conditions and later results"),
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
    Ok(FigureData::table(Table::new(&columns, rows.collect())))
}
