//! How a batch of changes becomes statements.
//!
//! A batch is one transaction of at most one statement of each kind. Each statement takes columns as
//! arrays and answers with the rows that it changed.

use super::remembered::Seen;
use super::session::{Prepared, Session};
use super::sql;
use super::witness::Witness;
use crate::database::DatabaseError;
use crate::proxy::state::key::StateKey;
use crate::proxy::state::row::{self, Change, PeerHash, Revision, RowId, Save};
use crate::proxy::state::writer::{Batch, WriteError};
use std::collections::{BTreeMap, HashSet};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

/// The columns of rows that are inserted or updated.
#[derive(Debug, Default)]
struct Columns {
    id: Vec<i64>,
    /// The version that a row has before, and who has written it.
    former: Vec<i64>,
    former_writer: Vec<i64>,
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
            let why = || WriteError {
                why: format!("a mark of {number}"),
                may_pass: false,
                is_late: false,
            };
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
        let former = save.replaces.unwrap_or_default();
        self.former.push(number(former.version)?);
        self.former_writer.push(former.writer);
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
        let mut parameters: Vec<&(dyn ToSql + Sync)> =
            vec![&self.id, &self.former, &self.former_writer];
        parameters.extend(self.marks.iter().map(|column| column as &(dyn ToSql + Sync)));
        parameters.extend([&self.port as &(dyn ToSql + Sync), writer]);
        parameters
    }

    /// Runs a statement, and returns the rows that it has not changed.
    async fn run(
        &self,
        (client, statement): (&Client, &Statement),
        writer: i64,
        node: i16,
    ) -> Result<Vec<Expected>, tokio_postgres::Error> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        let mut parameters = self.parameters(&writer);
        if statement.params().len() > parameters.len() {
            parameters.extend([&self.sealed as &(dyn ToSql + Sync), &self.cids.0, &self.cids.1]);
        }
        if statement.params().len() > parameters.len() {
            parameters.extend([&self.slot as &(dyn ToSql + Sync), &self.peer, &node]);
        }
        let mut changed = HashSet::new();
        for row in client.query(statement, &parameters).await? {
            changed.insert(row.try_get::<_, i64>(0)?);
        }
        let former = self.former.iter().zip(&self.former_writer);
        let rows = self.id.iter().zip(former).zip(self.versions());
        let rows = rows.map(|((id, former), version)| Expected {
            id: *id,
            former: (*former.0, *former.1),
            version: *version,
        });
        Ok(rows.filter(|row| !changed.contains(&row.id)).collect())
    }
}

/// A row that a statement has not changed.
#[derive(Clone, Copy, Debug)]
struct Expected {
    id: i64,
    /// The version and the writer that the row has before; both are 0 if there was none.
    former: (i64, i64),
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
    /// The version that was confirmed, of another writer: others have gone on from an older one.
    Diverged,
}

impl Expected {
    /// `row` is the version and the writer that the database has.
    fn found(self, row: Option<(i64, i64)>, writer: i64) -> Found {
        match row {
            Some((version, by)) if (version, by) == (self.version, writer) => Found::Written,
            Some((version, _)) if version < self.former.0 => Found::Older,
            Some((version, by)) if version == self.former.0 && by != self.former.1 => {
                Found::Diverged
            }
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
    removed: Removed,
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
                        is_late: false,
                    })?;
                    let columns = match (save.replaces, &sealed) {
                        (None, _) => &mut statements.inserts,
                        (Some(_), Some(_)) => &mut statements.states,
                        (Some(_), None) => &mut statements.marks,
                    };
                    columns.push(id, save, sealed)?;
                }
                Change::Remove { revision: Revision { version, writer } } => {
                    statements.removed.push(id as i64, (*version as i64, *writer));
                }
            }
        }
        Ok(statements)
    }

    /// Writes the batch in one transaction. The same batch can be written again: what is written
    /// already is found to be so.
    ///
    /// # Errors
    ///
    /// If it is not known whether the batch is written, or another session writes for this node.
    pub(super) async fn write(
        &self,
        session: &Session,
        writer: i64,
        witness: &Witness,
    ) -> Result<NotWritten, DatabaseError> {
        let (client, prepared) = session.parts()?;
        let (node, fence, known) = (session.node(), session.fenced()?, witness.known());
        // After an error the caller gives up the connection, and with it the transaction.
        let cluster = known.system_identifier;
        let parameters: [&(dyn ToSql + Sync); 3] = [&node, &fence, &cluster];
        // All is sent at once: the database may be far away, and ends transactions that wait.
        let (_, begun, _, marks, states, inserts, _, _) = tokio::try_join!(
            client.batch_execute(sql::BEGIN),
            client.query_one(&prepared.writes, &parameters),
            self.write_chains(client, prepared),
            self.marks.run((client, &prepared.marks), writer, node),
            self.states.run((client, &prepared.states), writer, node),
            self.inserts.run((client, &prepared.insert), writer, node),
            self.removed.run((client, &prepared.remove)),
            client.batch_execute("COMMIT"),
        )
        .map_err(|error| match error.code() {
            Some(code) if *code == SqlState::DIVISION_BY_ZERO => {
                DatabaseError::new("another session writes for this node, or it is another cluster")
            }
            _ => error.into(),
        })?;
        // What it has goes on in a database that is doubted; the doubt is noted for all others.
        let judged = witness.judge(&known, &Seen::from_record(&begun, 2, node)?);
        Witness::refuse_other_cluster(judged)?;
        witness.written(begun.try_get(0)?);
        let unchanged = [marks, states, inserts].concat();
        if unchanged.is_empty() {
            return Ok(NotWritten::default());
        }
        self.read_back(client, prepared, unchanged, writer).await
    }

    async fn write_chains(
        &self,
        client: &Client,
        prepared: &Prepared,
    ) -> Result<(), tokio_postgres::Error> {
        if !self.chains.0.is_empty() {
            client.execute(&prepared.chains, &[&self.chains.0, &self.chains.1]).await?;
        }
        Ok(())
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
        let mut older = Removed::default();
        for expected in unchanged {
            let row = rows.get(&expected.id).copied();
            match (expected.found(row, writer), row) {
                (Found::Written, _) => continue,
                (Found::Older, Some((version, by))) => {
                    let Expected { id, former, .. } = expected;
                    let former = former.0;
                    let alarm = format!("row {id} has version {version}, after version {former}");
                    not_written.rolled_back.push(alarm);
                    older.push(id, (version, by));
                }
                (Found::Diverged, _) => {
                    let Expected { id, former, .. } = expected;
                    let version = former.0;
                    let alarm = format!("row {id} has version {version} of another process");
                    not_written.rolled_back.push(alarm);
                }
                _ => {}
            }
            not_written.rows.push(expected.id as RowId);
        }
        // Nobody may go on from such a row: its numbers were used.
        older.run((client, &prepared.remove)).await?;
        Ok(not_written)
    }
}

/// Rows that are removed: numbers, versions and writers.
#[derive(Debug, Default)]
struct Removed(Vec<i64>, Vec<i64>, Vec<i64>);

impl Removed {
    fn push(&mut self, id: i64, (version, writer): (i64, i64)) {
        self.0.push(id);
        self.1.push(version);
        self.2.push(writer);
    }

    async fn run(
        &self,
        (client, statement): (&Client, &Statement),
    ) -> Result<(), tokio_postgres::Error> {
        if !self.0.is_empty() {
            client.execute(statement, &[&self.0, &self.1, &self.2]).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_was_not_changed_is_ours_lost_older_or_diverged() {
        let expected = Expected { id: 1, former: (6, 29), version: 7 };
        for (row, found) in [
            (Some((7, 30)), Found::Written),
            // Another process has taken it over from version 6, as this one tried to write.
            (Some((7, 31)), Found::Lost),
            (Some((8, 30)), Found::Lost),
            // The row that was to be replaced: the transaction was taken back.
            (Some((6, 29)), Found::Lost),
            (Some((6, 31)), Found::Diverged),
            (None, Found::Lost),
            (Some((5, 30)), Found::Older),
        ] {
            assert_eq!(expected.found(row, 30), found, "{row:?}");
        }
    }
}
