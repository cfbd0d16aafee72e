//! Tables of text for people.

use std::fmt::Write as _;

/// A table whose columns are as wide as their widest cells.
pub(crate) struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// A table with these column titles.
    pub(crate) fn new(head: &[&str; N]) -> Self {
        Self { rows: vec![head.map(str::to_owned)] }
    }

    /// Adds a row at the bottom.
    pub(crate) fn row(&mut self, row: [String; N]) {
        self.rows.push(row);
    }

    /// The table as lines, with two spaces between columns.
    pub(crate) fn text(&self) -> String {
        let width =
            |at: usize| self.rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
        let widths: [usize; N] = std::array::from_fn(width);
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(widths) {
                let _ = write!(line, "{cell:width$}  ");
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let mut table = Table::new(&["NAME", "N"]);
        table.row(["ä".into(), "1000".into()]);
        table.row(["longer".into(), String::new()]);
        assert_eq!(table.text(), "NAME    N\nä       1000\nlonger\n");
    }
}
