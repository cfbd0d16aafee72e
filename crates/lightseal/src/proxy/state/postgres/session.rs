//! Connections to the database.

use super::remembered::Seen;
use super::sql;
use super::witness::Witness;
use crate::database::{DatabaseError, StoreUrl};
use crate::proxy::fleet::plan::{Roster, RosterNode, RosterSlot, SlotMove};
use crate::proxy::fleet::slots::NodeNumber;
use crate::proxy::state::key::StateKey;
use crate::proxy::state::row::{self, Revision, Row};
use lightseal_dtls::Marks;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Row as Record, Statement};

/// How long the database may take for anything. After this the connection is given up, because an
/// answer may never come.
const PATIENCE: Duration = Duration::from_secs(10);

/// Waits for the database, but not for ever.
///
/// # Errors
///
/// If it does not answer in time.
pub(super) async fn bounded<T>(answer: impl Future<Output = T>) -> Result<T, DatabaseError> {
    let late = |_| DatabaseError::late(PATIENCE);
    tokio::time::timeout(PATIENCE, answer).await.map_err(late)
}

/// Parameters of a statement.
type Parameters<'a, const N: usize> = [&'a (dyn ToSql + Sync); N];

/// A connection. After an error it is to be given up: a transaction may be open, and an answer be lost.
#[derive(Debug)]
pub(super) struct Session {
    client: Client,
    node: NodeNumber,
    prepared: Option<Prepared>,
    /// The number under which the session writes, if it does.
    fence: Option<i64>,
}

/// The statements of a session whose tables are known to exist.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) marks: Statement,
    pub(super) states: Statement,
    pub(super) insert: Statement,
    pub(super) remove: Statement,
    pub(super) chains: Statement,
    pub(super) read_back: Statement,
    pub(super) writes: Statement,
    nodes: Statement,
    slots: Statement,
    beat: Statement,
    look: Statement,
    load: Statement,
}

/// What came of a beat.
pub(super) struct Beaten {
    /// Whether the database has taken it.
    pub(super) is_taken: bool,
    /// What the database had before.
    pub(super) seen: Seen,
}

impl Session {
    /// Connects to a database that accepts writes.
    ///
    /// # Errors
    ///
    /// If it cannot be reached, or refuses.
    pub(super) async fn begin(url: &StoreUrl, node: NodeNumber) -> Result<Self, DatabaseError> {
        let adjust = |config: &mut Config| {
            config.application_name("lightseal");
            config.connect_timeout(PATIENCE);
            config.tcp_user_timeout(PATIENCE);
            // If the URL names several servers, the primary one is used.
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        };
        bounded(async {
            let client = url.connect(adjust).await?;
            client.batch_execute(sql::SETTINGS).await?;
            Ok(Self { client, node, prepared: None, fence: None })
        })
        .await?
    }

    /// Prepares the statements, for which the tables must exist.
    ///
    /// # Errors
    ///
    /// If they do not, or the connection is broken.
    pub(super) async fn prepare(&mut self) -> Result<(), DatabaseError> {
        let client = &self.client;
        // All are asked for at once: the database may be far away.
        let prepared = async {
            tokio::try_join!(
                client.prepare(sql::UPDATE_MARKS),
                client.prepare(sql::UPDATE_STATES),
                client.prepare(sql::INSERT),
                client.prepare(sql::REMOVE),
                client.prepare(sql::CHAINS),
                client.prepare(sql::READ_BACK),
                client.prepare(sql::WRITES),
                client.prepare(sql::NODES),
                client.prepare(sql::SLOTS),
                client.prepare(sql::BEAT),
                client.prepare(sql::LOOK),
                client.prepare(sql::LOAD),
            )
        };
        let (
            marks,
            states,
            insert,
            remove,
            chains,
            read_back,
            writes,
            nodes,
            slots,
            beat,
            look,
            load,
        ) = bounded(prepared).await??;
        self.prepared = Some(Prepared {
            marks,
            states,
            insert,
            remove,
            chains,
            read_back,
            writes,
            nodes,
            slots,
            beat,
            look,
            load,
        });
        Ok(())
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) const fn node(&self) -> i16 {
        self.node.0 as i16
    }

    pub(super) fn parts(&self) -> Result<(&Client, &Prepared), DatabaseError> {
        let prepared = self.prepared.as_ref();
        Ok((&self.client, prepared.ok_or_else(|| DatabaseError::new("nothing is prepared"))?))
    }

    /// How far the database has come.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub(super) async fn look(&self) -> Result<Seen, DatabaseError> {
        let (client, prepared) = self.parts()?;
        let node = self.node();
        Seen::from_record(&client.query_one(&prepared.look, &[&node]).await?, 0, node)
    }

    /// Begins a run of the node, whose address is `address`, and which seals under the key with the check
    /// value `seals`. Returns a number that no other process
    /// has or ever had.
    ///
    /// # Errors
    ///
    /// If the database does not answer, or the numbers are used up.
    pub(super) async fn enter(&self, address: &str, seals: &[u8]) -> Result<u32, DatabaseError> {
        let node = self.node();
        let parameters: Parameters<'_, 3> = [&node, &address, &seals];
        let entered = self.alone(sql::ENTER, &parameters).await?;
        let entered = entered.first().ok_or_else(|| DatabaseError::new("no run has begun"))?;
        let number: i64 = entered.try_get(0)?;
        u32::try_from(number).map_err(|_| DatabaseError::new("all numbers of runs are used"))
    }

    /// Runs one statement as a transaction.
    async fn alone(
        &self,
        statement: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Record>, DatabaseError> {
        let statement = bounded(self.client.prepare(statement)).await??;
        self.at_once(self.client.query(&statement, parameters)).await
    }

    /// Runs one prepared statement as a transaction. The database does not wait for this program in
    /// between, which may be far away: it ends transactions that wait.
    async fn at_once<T>(
        &self,
        statement: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, DatabaseError> {
        let begin = self.client.batch_execute(sql::BEGIN);
        let commit = self.client.batch_execute("COMMIT");
        let (_, done, _) = bounded(async { tokio::try_join!(begin, statement, commit) }).await??;
        Ok(done)
    }

    /// Writes for this run of the node from now on. No session before it does so any more: a statement
    /// that is late changes nothing.
    ///
    /// # Errors
    ///
    /// If the connection is broken, or another process runs as this node.
    pub(super) async fn fence(&mut self, incarnation: i64) -> Result<(), DatabaseError> {
        let node = self.node();
        let parameters: Parameters<'_, 2> = [&node, &incarnation];
        let fenced = self.alone(sql::FENCE, &parameters).await?;
        let Some(fenced) = fenced.first() else {
            return Err(DatabaseError::new("the database does not know this run of the node"));
        };
        self.fence = Some(fenced.try_get(0)?);
        Ok(())
    }

    /// The number under which the session writes.
    pub(super) fn fenced(&self) -> Result<i64, DatabaseError> {
        self.fence.ok_or_else(|| DatabaseError::new("the session does not write"))
    }

    /// The fleet, as the database has it, and how far the database has come.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub(super) async fn roster(&self) -> Result<(Roster, Seen), DatabaseError> {
        let (client, prepared) = self.parts()?;
        let me = self.node();
        let mine: Parameters<'_, 1> = [&me];
        let (nodes, slots, look) = tokio::try_join!(
            client.query(&prepared.nodes, &[]),
            client.query(&prepared.slots, &[]),
            client.query_one(&prepared.look, &mine),
        )?;
        let mut roster = Roster::default();
        let node = |number: i16| u8::try_from(number).ok().map(NodeNumber);
        for row in nodes {
            let Some(number) = node(row.try_get(0)?) else { continue };
            let address: &str = row.try_get(4)?;
            let pulse = (row.try_get(1)?, row.try_get(2)?);
            let (leaves, address) = (row.try_get(3)?, address.parse().ok());
            roster.nodes.insert(number, RosterNode { pulse, leaves, address });
        }
        for row in slots {
            let (slot, owner, term): (i16, Option<i16>, i64) =
                (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            if let Some(slot) = usize::try_from(slot).ok().and_then(|at| roster.slots.get_mut(at)) {
                *slot = RosterSlot { owner: owner.and_then(node), term };
            }
        }
        Ok((roster, Seen::from_record(&look, 0, self.node())?))
    }

    /// A beat of the node's run `incarnation`, after the beat `confirmed`.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub(super) async fn beat(
        &self,
        incarnation: i64,
        (confirmed, beat): (i64, i64),
        leaves: bool,
    ) -> Result<Beaten, DatabaseError> {
        let (client, prepared) = self.parts()?;
        let node = self.node();
        let parameters: Parameters<'_, 5> = [&node, &incarnation, &beat, &leaves, &confirmed];
        let record = self.at_once(client.query_one(&prepared.beat, &parameters)).await?;
        let is_taken = record.try_get::<_, i64>(0)? > 0;
        Ok(Beaten { is_taken, seen: Seen::from_record(&record, 1, node)? })
    }

    /// Lets the node live again in a database that knows less of it, as one that leaves.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub(super) async fn enter_again(
        &self,
        (incarnation, beat, writes): (i64, i64, i64),
        address: &str,
    ) -> Result<(), DatabaseError> {
        self.alone(sql::NEXT_INCARNATION, &[&incarnation]).await?;
        let node = self.node();
        let parameters: Parameters<'_, 5> = [&node, &incarnation, &beat, &address, &writes];
        self.alone(sql::ENTER_AGAIN, &parameters).await?;
        Ok(())
    }

    /// Tells all nodes that the database was rolled back.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub(super) async fn condemn(&self) -> Result<(), DatabaseError> {
        self.alone(sql::CONDEMN, &[]).await.map(drop)
    }

    /// Takes a node out of the fleet if it is still as it was seen.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub(super) async fn depart(
        &self,
        node: NodeNumber,
        (incarnation, beat): (i64, i64),
    ) -> Result<(), DatabaseError> {
        let node = i16::from(node.0);
        self.alone(sql::DEPART, &[&node, &incarnation, &beat]).await.map(drop)
    }

    /// Removes chains to which nothing refers. Returns how many.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub(super) async fn remove_chains(&self) -> Result<u64, DatabaseError> {
        let statement = bounded(self.client.prepare(sql::REMOVE_CHAINS)).await??;
        let mut all = 0;
        loop {
            let looked = self.at_once(self.client.query_one(&statement, &[])).await?;
            let (old, removed): (i64, i64) = (looked.try_get(0)?, looked.try_get(1)?);
            all += removed.unsigned_abs();
            if old == 0 {
                return Ok(all);
            }
        }
    }

    /// Moves slots that have not moved meanwhile. Returns those.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub(super) async fn move_slots(
        &self,
        moves: &[SlotMove],
    ) -> Result<BTreeSet<u8>, DatabaseError> {
        let number = |node: NodeNumber| i16::from(node.0);
        let slots: Vec<i16> = moves.iter().map(|of| of.slot.into()).collect();
        let former: Vec<_> = moves.iter().map(|of| of.from.owner.map(number)).collect();
        let terms: Vec<_> = moves.iter().map(|of| of.from.term).collect();
        let owners: Vec<_> = moves.iter().map(|of| number(of.to)).collect();
        let parameters: Parameters<'_, 4> = [&slots, &former, &terms, &owners];
        let moved = self.alone(sql::MOVE, &parameters).await?;
        let slots = moved.iter().map(|row| row.try_get::<_, i16>(0));
        slots.map(|slot| Ok(u8::try_from(slot?).unwrap_or_default())).collect()
    }

    /// The associations in some of the node's slots, the newest first; none if the database is not to
    /// be trusted.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub(super) async fn load(
        &self,
        key: &StateKey,
        witness: &Witness,
        slots: &[i16],
    ) -> Result<Vec<Row>, DatabaseError> {
        let (client, prepared) = self.parts()?;
        let (node, known) = (self.node(), witness.known());
        let (mut slots, mut rows) = (slots.to_vec(), Vec::new());
        let mut below = vec![i64::MAX; slots.len()];
        loop {
            let some: Parameters<'_, 4> = [&node, &slots, &below, &sql::LOADED_AT_ONCE];
            let (_, look, records, _) = bounded(async {
                tokio::try_join!(
                    client.batch_execute(sql::BEGIN),
                    client.query_one(&prepared.look, &some[..1]),
                    client.query(&prepared.load, &some),
                    client.batch_execute("COMMIT"),
                )
            })
            .await??;
            if witness.judge(&known, &Seen::from_record(&look, 0, self.node())?).is_err() {
                return Ok(Vec::new());
            }
            // How many were read of each slot, and the oldest of them.
            let mut counts = BTreeMap::<i16, (i64, i64)>::new();
            for record in &records {
                let (id, slot): (i64, i16) = (record.try_get(0)?, record.try_get(11)?);
                let (count, oldest) = counts.entry(slot).or_insert((0, i64::MAX));
                (*count, *oldest) = (*count + 1, id.min(*oldest));
                rows.push(row(key, record)?);
            }
            let more = counts.iter().filter(|(_, (count, _))| *count == sql::LOADED_AT_ONCE);
            (slots, below) = more.map(|(slot, (_, oldest))| (*slot, *oldest)).unzip();
            if slots.is_empty() {
                return Ok(rows);
            }
        }
    }
}

/// Reads a row of [`sql::LOAD`].
fn row(key: &StateKey, record: &Record) -> Result<Row, DatabaseError> {
    let number = |at: usize| record.try_get::<_, i64>(at).map(|number| number as u64);
    let id = number(0)?;
    let marks = Marks {
        version: number(1)?,
        send_epoch: number(3)?,
        send_below: number(4)?,
        deliver_epoch: number(5)?,
        deliver_below: number(6)?,
        skipped: number(7)?,
    };
    let port: i32 = record.try_get(8)?;
    let sealed: &[u8] = record.try_get(9)?;
    let chain: Option<&[u8]> = record.try_get(10)?;
    let opened = row::open(key, id, marks, sealed);
    let (saved, peer) = opened.map_or((None, None), |(saved, peer)| (Some(saved), peer));
    Ok(Row {
        id,
        revision: Revision { version: marks.version, writer: record.try_get(2)? },
        saved,
        service_port: u16::try_from(port).unwrap_or(0),
        peer,
        chain: peer.and(chain).map(<[u8]>::to_vec),
        bytes: (sql::MARK_COLUMNS + sealed.len()) as u64,
    })
}
