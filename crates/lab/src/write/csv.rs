//! Comma-separated values: a header of column names, then the rows.

use crate::Error;
use crate::figure::{Cell, Table};

/// Writes a table as CSV (RFC 4180 with bare line feeds).
///
/// # Errors
///
/// No table with as many cells in each row as columns causes an error.
pub fn render(table: &Table) -> Result<String, Error> {
    let failed = |reason: String| Error::Format { format: "CSV", reason };
    let mut writer = csv::Writer::from_writer(Vec::new());
    let header = table.columns.iter().map(|column| column.name);
    writer.write_record(header).map_err(|error| failed(error.to_string()))?;
    for row in &table.rows {
        writer.write_record(row.iter().map(text)).map_err(|error| failed(error.to_string()))?;
    }
    let bytes = writer.into_inner().map_err(|error| failed(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| failed(error.to_string()))
}

fn text(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Integer(value) => value.to_string(),
        Cell::Number(value) => value.to_string(),
        Cell::Missing => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figure::Column;

    #[test]
    fn names_with_commas_are_quoted_and_nothing_is_empty() {
        let columns = ["name", "bits", "rate"].map(|name| Column { name, about: "" }).to_vec();
        let rows = vec![
            vec!["a, b".into(), 3u32.into(), 0.5.into()],
            vec!["c".into(), Cell::Missing, 1.0.into()],
        ];
        let text = render(&Table { columns, rows }).unwrap();
        assert_eq!(text, "name,bits,rate\n\"a, b\",3,0.5\nc,,1\n");
    }
}
