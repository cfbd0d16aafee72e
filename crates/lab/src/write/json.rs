//! JSON with the source of the figure, the descriptions of its columns, and an object for each row.

use crate::figure::{Figure, FigureData};
use crate::{Error, figure::Table};
use serde_json::{Map, Value, json};

/// Writes a figure as JSON.
///
/// # Errors
///
/// Fails if a number is not finite.
pub fn render(figure: &Figure, output: &FigureData) -> Result<String, Error> {
    let failed =
        |error: serde_json::Error| Error::Format { format: "JSON", reason: error.to_string() };
    let value = json!({
        "name": figure.name,
        "title": figure.title,
        "source": figure.source,
        "about": figure.about,
        "columns": output.table.columns,
        "rows": rows(&output.table),
        "plot": output.plot,
    });
    serde_json::to_string_pretty(&value).map(|text| text + "\n").map_err(failed)
}

fn rows(table: &Table) -> Vec<Value> {
    let row = |cells: &Vec<_>| {
        let pairs = table.columns.iter().zip(cells);
        let object: Map<_, _> =
            pairs.map(|(column, cell)| (column.name.into(), json!(cell))).collect();
        Value::Object(object)
    };
    table.rows.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FigureOptions, figures};

    #[test]
    fn rows_are_objects() {
        let figure = figures::by_name("lightmac-table-1").unwrap();
        let output = (figure.make)(&FigureOptions::default()).unwrap();
        let value: Value = serde_json::from_str(&render(figure, &output).unwrap()).unwrap();
        assert_eq!(value["rows"][0]["cipher"], "AES");
        assert_eq!(value["rows"][0]["block_bits"], 128);
        assert_eq!(value["rows"][1]["taken_as"], Value::Null);
        assert_eq!(value["source"]["item"], "Table 1");
    }
}
