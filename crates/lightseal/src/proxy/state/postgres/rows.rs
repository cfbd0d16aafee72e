//! How a batch of changes becomes statements.
//!
//! A batch is one transaction of at most one statement of each kind. Each statement takes columns as
//! arrays and answers with the rows that it changed.

use super::error::DatabaseError;
use super::session::{Prepared, Session};
use crate::proxy::state::key::StateKey;
use crate::proxy::state::row::{self, Change, PeerHash, RowId, Save};
use crate::proxy::state::writer::{Batch, WriteError};
use std::collections::{BTreeMap, HashSet};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

/// The columns of rows that are inserted or updated.
#[derive(Debug, Default)]
struct Columns {
    id: Vec<i64>,
    /// The version that a row has before.
    former: Vec<i64>,
    /// Version, sending epoch and limit, delivering epoch and limit, skipped numbers.
    marks: [Vec<i64>; 6],
    port: Vec<i32>,
    slot: Vec<i16>,
    peer: Vec<Option<Vec<u8>>>,
    sealed: Vec<Vec<u8>>,
    /// Connection IDs, and the rows that they belong to.
    cids: (Vec<Vec<u8>>, Vec<i64>),
}

impl Columns {
    fn is_empty(&self) -> bool {
        self.id.is_empty()
    }

    fn push(&mut self, id: RowId, save: &Save, sealed: Option<Vec<u8>>) -> Result<(), WriteError> {
        let number = |number: u64| {
            let why = || WriteError { why: format!("a mark of {number}"), may_pass: false };
            i64::try_from(number).map_err(|_| why())
        };
        let marks = save.saved.marks;
        let fields = [
            marks.version,
            marks.send_epoch,
            marks.send_below,
            marks.deliver_epoch,
            marks.deliver_below,
            marks.skipped,
        ];
        for (column, field) in self.marks.iter_mut().zip(fields) {
            column.push(number(field)?);
        }
        let id = number(id)?;
        self.id.push(id);
        self.former.push(number(save.replaces.unwrap_or(0))?);
        self.port.push(save.service_port.into());
        self.slot.push(save.slot.into());
        self.peer.push(save.peer.map(|peer| peer.to_vec()));
        if let Some(sealed) = sealed {
            self.sealed.push(sealed);
            for cid in save.ids.iter().filter(|cid| !cid.is_empty()) {
                self.cids.0.push(cid.to_vec());
                self.cids.1.push(id);
            }
        }
        Ok(())
    }

    /// The versions that the rows have afterwards.
    fn versions(&self) -> &[i64] {
        &self.marks[0]
    }

    fn parameters<'a>(&'a self, writer: &'a i64) -> Vec<&'a (dyn ToSql + Sync)> {
        let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&self.id, &self.former];
        parameters.extend(self.marks.iter().map(|column| column as &(dyn ToSql + Sync)));
        parameters.extend([&self.port as &(dyn ToSql + Sync), writer]);
        parameters
    }

    /// Runs a statement, and adds the rows that it has not changed to `unchanged`.
    async fn run(
        &self,
        (client, statement): (&Client, &Statement),
        writer: i64,
        unchanged: &mut Vec<Expected>,
    ) -> Result<(), DatabaseError> {
        if self.is_empty() {
            return Ok(());
        }
        let mut parameters = self.parameters(&writer);
        if statement.params().len() > parameters.len() {
            parameters.extend([&self.sealed as &(dyn ToSql + Sync), &self.cids.0, &self.cids.1]);
        }
        if statement.params().len() > parameters.len() {
            parameters.extend([&self.slot as &(dyn ToSql + Sync), &self.peer]);
        }
        let mut changed = HashSet::new();
        for row in client.query(statement, &parameters).await? {
            changed.insert(row.try_get::<_, i64>(0)?);
        }
        let rows = self.id.iter().zip(&self.former).zip(self.versions());
        let rows = rows.map(|((id, former), version)| Expected {
            id: *id,
            former: *former,
            version: *version,
        });
        unchanged.extend(rows.filter(|row| !changed.contains(&row.id)));
        Ok(())
    }
}

/// A row that a statement has not changed.
#[derive(Clone, Copy, Debug)]
struct Expected {
    id: i64,
    former: i64,
    version: i64,
}

/// What the database has of such a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// This very write, whose answer was lost.
    Written,
    /// A write of another process, or nothing.
    Lost,
    /// A version before the one that was confirmed.
    Older,
}

impl Expected {
    /// `row` is the version and the writer that the database has.
    fn found(self, row: Option<(i64, i64)>, writer: i64) -> Found {
        match row {
            Some((version, by)) if (version, by) == (self.version, writer) => Found::Written,
            Some((version, _)) if version < self.former => Found::Older,
            _ => Found::Lost,
        }
    }
}

/// What was not written.
#[derive(Debug, Default)]
pub(super) struct NotWritten {
    pub(super) rows: Vec<RowId>,
    /// What to say of rows that are older than they were.
    pub(super) rolled_back: Vec<String>,
}

/// A batch as the database gets it.
#[derive(Debug, Default)]
pub(super) struct Statements {
    marks: Columns,
    states: Columns,
    inserts: Columns,
    removed: (Vec<i64>, Vec<i64>),
    chains: (Vec<Vec<u8>>, Vec<Vec<u8>>),
}

impl Statements {
    /// Seals the rows of a batch.
    ///
    /// # Errors
    ///
    /// If there is no randomness, or a number is out of range.
    pub(super) fn of(batch: &Batch, key: &StateKey) -> Result<Self, WriteError> {
        let mut statements = Self::default();
        let chains: &BTreeMap<PeerHash, _> = &batch.chains;
        for (peer, chain) in chains {
            statements.chains.0.push(peer.to_vec());
            statements.chains.1.push(chain.clone());
        }
        for (id, change) in batch.changes() {
            match change {
                Change::Save(save) => {
                    let sealed = row::seal(key, id, save).map_err(|error| WriteError {
                        why: format!("no randomness: {error}"),
                        may_pass: true,
                    })?;
                    let columns = match (save.replaces, &sealed) {
                        (None, _) => &mut statements.inserts,
                        (Some(_), Some(_)) => &mut statements.states,
                        (Some(_), None) => &mut statements.marks,
                    };
                    columns.push(id, save, sealed)?;
                }
                Change::Remove { version } => {
                    statements.removed.0.push(id as i64);
                    statements.removed.1.push(*version as i64);
                }
            }
        }
        Ok(statements)
    }

    /// How many statements there are.
    fn count(&self) -> usize {
        let columns = [&self.marks, &self.states, &self.inserts];
        let saves = columns.into_iter().filter(|columns| !columns.is_empty()).count();
        let others = [self.removed.0.is_empty(), self.chains.0.is_empty()];
        saves + others.into_iter().filter(|empty| !empty).count()
    }

    /// Writes the batch in one transaction. The same batch can be written again: what is written
    /// already is found to be so.
    ///
    /// # Errors
    ///
    /// If it is not known whether the batch is written.
    pub(super) async fn write(
        &self,
        session: &Session,
        writer: i64,
    ) -> Result<NotWritten, DatabaseError> {
        let (client, prepared) = session.parts()?;
        // A statement alone is a transaction.
        let is_several = self.count() > 1;
        if is_several {
            client.batch_execute("BEGIN").await?;
        }
        // After an error the caller gives up the connection, and with it the transaction.
        let unchanged = self.run(client, prepared, writer).await?;
        if is_several {
            client.batch_execute("COMMIT").await?;
        }
        if unchanged.is_empty() {
            return Ok(NotWritten::default());
        }
        self.read_back(client, prepared, unchanged, writer).await
    }

    async fn run(
        &self,
        client: &Client,
        prepared: &Prepared,
        writer: i64,
    ) -> Result<Vec<Expected>, DatabaseError> {
        let mut unchanged = Vec::new();
        if !self.chains.0.is_empty() {
            client.execute(&prepared.chains, &[&self.chains.0, &self.chains.1]).await?;
        }
        for (columns, statement) in [
            (&self.marks, &prepared.marks),
            (&self.states, &prepared.states),
            (&self.inserts, &prepared.insert),
        ] {
            columns.run((client, statement), writer, &mut unchanged).await?;
        }
        if !self.removed.0.is_empty() {
            client.execute(&prepared.remove, &[&self.removed.0, &self.removed.1]).await?;
        }
        Ok(unchanged)
    }

    /// Decides what became of rows that were not changed: the answer to an earlier attempt may be
    /// lost, or another process goes on with them.
    async fn read_back(
        &self,
        client: &Client,
        prepared: &Prepared,
        unchanged: Vec<Expected>,
        writer: i64,
    ) -> Result<NotWritten, DatabaseError> {
        let ids: Vec<_> = unchanged.iter().map(|row| row.id).collect();
        let mut rows = BTreeMap::new();
        for row in client.query(&prepared.read_back, &[&ids]).await? {
            rows.insert(row.try_get::<_, i64>(0)?, (row.try_get(1)?, row.try_get(2)?));
        }
        let mut not_written = NotWritten::default();
        let mut older = (Vec::new(), Vec::new());
        for expected in unchanged {
            let row = rows.get(&expected.id).copied();
            match (expected.found(row, writer), row) {
                (Found::Written, _) => continue,
                (Found::Older, Some((version, _))) => {
                    let Expected { id, former, .. } = expected;
                    let alarm = format!("row {id} has version {version}, after version {former}");
                    not_written.rolled_back.push(alarm);
                    older.0.push(id);
                    older.1.push(version);
                }
                _ => {}
            }
            not_written.rows.push(expected.id as RowId);
        }
        if !older.0.is_empty() {
            // Nobody may go on from such a row: its numbers were used.
            client.execute(&prepared.remove, &[&older.0, &older.1]).await?;
        }
        Ok(not_written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_was_not_changed_is_ours_lost_or_older() {
        let expected = Expected { id: 1, former: 6, version: 7 };
        for (row, found) in [
            (Some((7, 30)), Found::Written),
            // Another process has taken it over from version 6, as this one tried to write.
            (Some((7, 31)), Found::Lost),
            (Some((8, 30)), Found::Lost),
            (Some((6, 31)), Found::Lost),
            (None, Found::Lost),
            (Some((5, 30)), Found::Older),
        ] {
            assert_eq!(expected.found(row, 30), found, "{row:?}");
        }
    }
}
