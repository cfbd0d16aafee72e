//! Tables that are written row by row, so that no command needs memory for the rows of many runs.

use lightseal_cli::failure::{Context, Failure};
use lightseal_lab::figure::Cell;
use lightseal_lab::scenario::Rows;
use std::fmt;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// The reason why runs stopped before their end.
pub(crate) struct RunFailure(Failure);

impl From<lightseal_lab::Error> for RunFailure {
    fn from(error: lightseal_lab::Error) -> Self {
        Self(Failure::new(error))
    }
}

impl From<Failure> for RunFailure {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

impl fmt::Display for RunFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The formats of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableFormat {
    /// A header, and one line per row.
    Csv,
    /// One array with an object per row.
    Json,
    /// One object per line.
    JsonLines,
}

/// A table that is being written into a sink.
pub(crate) struct Table<W> {
    columns: Rows,
    form: TableFormat,
    is_empty: bool,
    sink: W,
}

impl<W: Write> Table<W> {
    /// Begins a table by writing what comes before its rows; `columns` names the columns.
    pub(crate) fn begin(columns: Rows, form: TableFormat, mut sink: W) -> Result<Self, Failure> {
        let head = match form {
            TableFormat::Csv => columns.csv_header().context("a table")?,
            TableFormat::Json => "[\n".into(),
            TableFormat::JsonLines => String::new(),
        };
        sink.write_all(head.as_bytes()).context("a table")?;
        Ok(Self { columns, form, is_empty: true, sink })
    }

    /// Writes a row.
    pub(crate) fn row(&mut self, row: &[Cell]) -> Result<(), Failure> {
        let line = match self.form {
            TableFormat::Csv => Rows::csv_line(row),
            TableFormat::Json | TableFormat::JsonLines => self.columns.json_line(row),
        };
        let line = line.context("a table")?;
        let is_first = std::mem::replace(&mut self.is_empty, false);
        let written = match self.form {
            TableFormat::Json if is_first => self.sink.write_all(line.trim_end().as_bytes()),
            TableFormat::Json => write!(self.sink, ",\n{}", line.trim_end()),
            TableFormat::Csv | TableFormat::JsonLines => self.sink.write_all(line.as_bytes()),
        };
        written.context("a table")
    }

    /// Ends the table by writing what comes behind its rows. Returns the sink.
    pub(crate) fn end(mut self) -> Result<W, Failure> {
        if self.form == TableFormat::Json {
            self.sink.write_all(b"\n]\n").context("a table")?;
        }
        self.sink.flush().context("a table")?;
        Ok(self.sink)
    }
}

/// A table in a file of its own.
pub(crate) struct TableFile {
    pub(crate) path: PathBuf,
    table: Table<BufWriter<File>>,
}

impl TableFile {
    pub(crate) fn create(path: &Path, columns: Rows, form: TableFormat) -> Result<Self, Failure> {
        let file = BufWriter::new(File::create(path).context(path.display())?);
        let table = Table::begin(columns, form, file).context(path.display())?;
        Ok(Self { path: path.into(), table })
    }

    pub(crate) fn row(&mut self, row: &[Cell]) -> Result<(), Failure> {
        self.table.row(row).context(self.path.display())
    }

    pub(crate) fn end(self) -> Result<PathBuf, Failure> {
        self.table.end().context(self.path.display())?;
        Ok(self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_one_by_one_are_the_table_at_once() {
        let mut rows = Rows::new(["a", "b"], &[]);
        for row in [["1", "x,y"], ["2", "\"z\""]] {
            rows.rows.push(row.map(Cell::from).to_vec());
        }
        for (form, whole) in [(TableFormat::Csv, rows.csv()), (TableFormat::Json, rows.json())] {
            let mut table = Table::begin(rows.clone(), form, Vec::new()).unwrap();
            rows.rows.iter().for_each(|row| table.row(row).unwrap());
            assert_eq!(String::from_utf8(table.end().unwrap()).unwrap(), whole.unwrap());
        }
    }
}
