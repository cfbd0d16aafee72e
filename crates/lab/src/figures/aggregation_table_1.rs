//! Table I of the paper on MAC aggregation: schemes on the wire.

use super::prelude::*;
use crate::aggregation::{schemes, title};
use ::lightseal_aggregation::Scheme;

pub(super) const FIGURE: Figure = Figure {
    name: "aggregation-table-1",
    title: "Aggregation schemes",
    source: PaperItem { paper: AGGREGATION, item: "Table I" },
    about: "Identifiers and parameters of the schemes as the engine sends them, and tag bytes.",
    make,
};

fn make(_: &FigureOptions) -> Result<FigureData, Error> {
    let rows = schemes().map(|scheme| {
        let [identifier, n, o] = scheme.context();
        let family = match scheme {
            Scheme::Plain => "-",
            Scheme::Agg(_) => "Agg(·)",
            _ => "R2D2(·)",
        };
        vec![
            Cell::Text(format!("0x{identifier:02x}")),
            Cell::Text(title(scheme)),
            family.into(),
            if scheme.aggregates() { "XOR".into() } else { "-".into() },
            whole(n.into()),
            whole(o.into()),
            (f64::from(::lightseal_aggregation::choice::tag_sixteenths(scheme)) / 16.0).into(),
            whole(scheme.largest_aggregate_len().max(match scheme {
                Scheme::Plain => ::lightseal_aggregation::scheme::TAG_BYTES,
                _ => 0,
            })),
        ]
    });
    let columns = [
        ("identifier", "first byte of the scheme in the extension"),
        ("scheme", "as the paper writes it"),
        ("dependency_sets", "which messages share a tag"),
        ("aggregation_function", "how tags are combined"),
        ("n", "first parameter; 0 if there is none"),
        ("o", "second parameter; 0 if there is none"),
        ("tag_bytes_mean", "mean number of tag bytes in a record"),
        ("tag_bytes_most", "largest number of tag bytes in a record"),
    ];
    Ok(FigureData::table(Table::new(&columns, rows.to_vec())))
}
