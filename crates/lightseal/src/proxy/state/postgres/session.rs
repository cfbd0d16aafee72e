//! Connections to the database.

use super::error::DatabaseError;
use super::remembered::Remembered;
use super::sql;
use crate::proxy::fleet::plan::{Roster, RosterNode, RosterSlot, SlotMove};
use crate::proxy::fleet::slots::NodeNumber;
use crate::proxy::state::key::StateKey;
use crate::proxy::state::row::{self, Row};
use lightseal_dtls::Marks;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, Config, NoTls, Row as Record, Statement};

/// How long the database may take for anything. After this the connection is given up, because an
/// answer may never come.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many rows are read at once.
const ROWS_AT_ONCE: i32 = 1000;

/// Waits for the database, but not for ever.
///
/// # Errors
///
/// If it does not answer in time.
pub(super) async fn bounded<T>(answer: impl Future<Output = T>) -> Result<T, DatabaseError> {
    let seconds = PATIENCE.as_secs();
    let late = |_| DatabaseError::new(format!("the database has not answered for {seconds} s"));
    tokio::time::timeout(PATIENCE, answer).await.map_err(late)
}

/// The runtime of a thread that waits for the database. It may be dropped anywhere.
#[derive(Debug)]
pub(super) struct OwnRuntime(Option<Runtime>);

impl OwnRuntime {
    /// # Errors
    ///
    /// If the system has no descriptors left.
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self(Some(tokio::runtime::Builder::new_current_thread().enable_all().build()?)))
    }

    /// Waits for a future. Not to be called by a task of another runtime.
    pub(super) fn block_on<F: Future>(&self, future: F) -> F::Output {
        self.0.as_ref().expect("it is there until it is dropped").block_on(future)
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// A connection.
#[derive(Debug)]
pub(super) struct Session {
    client: Client,
    node: NodeNumber,
    prepared: Option<Prepared>,
}

/// Statements that are used again and again.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) marks: Statement,
    pub(super) states: Statement,
    pub(super) insert: Statement,
    pub(super) remove: Statement,
    pub(super) chains: Statement,
    pub(super) read_back: Statement,
    pub(super) nodes: Statement,
    pub(super) slots: Statement,
    pub(super) beat: Statement,
    look: Statement,
}

impl Session {
    /// Connects to a database that accepts writes.
    ///
    /// # Errors
    ///
    /// If it cannot be reached, or refuses.
    pub(super) async fn begin(config: &Config, node: NodeNumber) -> Result<Self, DatabaseError> {
        let mut config = config.clone();
        config.application_name("lightseal");
        config.connect_timeout(PATIENCE);
        config.tcp_user_timeout(PATIENCE);
        bounded(async {
            let (client, connection) = config.connect(NoTls).await?;
            // It ends with the client, and the client's next call reports its errors.
            tokio::spawn(async { drop(connection.await) });
            client.batch_execute(sql::SETTINGS).await?;
            Ok(Self { client, node, prepared: None })
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
        self.prepared = Some(
            bounded(async {
                Ok::<_, DatabaseError>(Prepared {
                    marks: client.prepare(sql::UPDATE_MARKS).await?,
                    states: client.prepare(sql::UPDATE_STATES).await?,
                    insert: client.prepare(sql::INSERT).await?,
                    remove: client.prepare(sql::REMOVE).await?,
                    chains: client.prepare(sql::CHAINS).await?,
                    read_back: client.prepare(sql::READ_BACK).await?,
                    nodes: client.prepare(sql::NODES).await?,
                    slots: client.prepare(sql::SLOTS).await?,
                    beat: client.prepare(sql::BEAT).await?,
                    look: client.prepare(sql::LOOK).await?,
                })
            })
            .await??,
        );
        Ok(())
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
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
    pub(super) async fn look(&self) -> Result<Remembered, DatabaseError> {
        let (client, prepared) = self.parts()?;
        let node = i16::from(self.node.0);
        Remembered::from_record(&client.query_one(&prepared.look, &[&node]).await?)
    }

    /// Begins a run of the node, whose address is `address`. Returns a number that no other process
    /// has or ever had.
    ///
    /// # Errors
    ///
    /// If the database does not answer, or the numbers are used up.
    pub(super) async fn enter(&self, address: &str) -> Result<u32, DatabaseError> {
        let node = i16::from(self.node.0);
        let entered = bounded(self.client.query_one(sql::ENTER, &[&node, &address])).await??;
        let number: i64 = entered.try_get(0)?;
        u32::try_from(number).map_err(|_| DatabaseError::new("all numbers of runs are used"))
    }

    /// The fleet, as the database has it.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub(super) async fn roster(&self) -> Result<Roster, DatabaseError> {
        let (client, prepared) = self.parts()?;
        let mut roster = Roster::default();
        let node = |number: i16| u8::try_from(number).ok().map(NodeNumber);
        for row in client.query(&prepared.nodes, &[]).await? {
            let Some(number) = node(row.try_get(0)?) else { continue };
            let address: &str = row.try_get(4)?;
            let pulse = (row.try_get(1)?, row.try_get(2)?);
            let (leaves, address) = (row.try_get(3)?, address.parse().ok());
            roster.nodes.insert(number, RosterNode { pulse, leaves, address });
        }
        for row in client.query(&prepared.slots, &[]).await? {
            let (slot, owner, term): (i16, Option<i16>, i64) =
                (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            if let Some(slot) = usize::try_from(slot).ok().and_then(|at| roster.slots.get_mut(at)) {
                *slot = RosterSlot { owner: owner.and_then(node), term };
            }
        }
        Ok(roster)
    }

    /// A beat of the node's run `incarnation`.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub(super) async fn beat(
        &self,
        incarnation: i64,
        beat: i64,
        leaves: bool,
    ) -> Result<(), DatabaseError> {
        let (client, prepared) = self.parts()?;
        let node = i16::from(self.node.0);
        client.query(&prepared.beat, &[&node, &incarnation, &beat, &leaves]).await?;
        Ok(())
    }

    /// Lets the node live again in a database that knows less of it.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub(super) async fn enter_again(
        &self,
        incarnation: i64,
        beat: i64,
        address: &str,
    ) -> Result<(), DatabaseError> {
        let node = i16::from(self.node.0);
        let client = &self.client;
        client.query(sql::NEXT_INCARNATION, &[&incarnation]).await?;
        client.execute(sql::ENTER_AGAIN, &[&node, &incarnation, &beat, &address]).await?;
        Ok(())
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
        let moved = self.client.query(sql::MOVE, &[&slots, &former, &terms, &owners]).await?;
        let slots = moved.iter().map(|row| row.try_get::<_, i16>(0));
        slots.map(|slot| Ok(u8::try_from(slot?).unwrap_or_default())).collect()
    }

    /// The associations in some of the node's slots, the newest first.
    ///
    /// # Errors
    ///
    /// If the connection is broken.
    pub(super) async fn load(
        &mut self,
        key: &StateKey,
        node: NodeNumber,
        slots: &[i16],
    ) -> Result<Vec<Row>, DatabaseError> {
        let node = i16::from(node.0);
        let transaction = self.client.transaction().await?;
        let portal = transaction.bind(sql::LOAD, &[&node, &slots]).await?;
        let mut rows = Vec::new();
        loop {
            let records = transaction.query_portal(&portal, ROWS_AT_ONCE).await?;
            for record in &records {
                rows.push(row(key, record)?);
            }
            if records.is_empty() {
                transaction.commit().await?;
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
        send_epoch: number(2)?,
        send_below: number(3)?,
        deliver_epoch: number(4)?,
        deliver_below: number(5)?,
        skipped: number(6)?,
    };
    let port: i32 = record.try_get(7)?;
    let sealed: &[u8] = record.try_get(8)?;
    let chain: Option<&[u8]> = record.try_get(9)?;
    let opened = row::open(key, id, marks, sealed);
    let (saved, peer) = opened.map_or((None, None), |(saved, peer)| (Some(saved), peer));
    Ok(Row {
        id,
        version: marks.version,
        saved,
        service_port: u16::try_from(port).unwrap_or(0),
        peer,
        chain: peer.and(chain).map(<[u8]>::to_vec),
        bytes: (sql::MARK_COLUMNS + sealed.len()) as u64,
    })
}
