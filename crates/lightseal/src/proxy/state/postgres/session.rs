//! Connections to the database.

use super::remembered::Remembered;
use super::rows;
use crate::proxy::fleet::slots::NodeNumber;
use std::error::Error;
use std::fmt;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, Config, NoTls, Statement};

/// How long the database may take for anything. After this the connection is given up, because an
/// answer may never come.
const PATIENCE: Duration = Duration::from_secs(10);

/// What holds for each connection. What is confirmed is durable, whatever the database's default is.
/// A transaction of a process that was paused in its midst must not hold the rows that another process
/// goes on with.
const SETTINGS: &str = "
    SET synchronous_commit = on;
    SET default_transaction_isolation = 'read committed';
    SET default_transaction_read_only = off;
    SET idle_in_transaction_session_timeout = '2s';
    SET lock_timeout = '5s';
    SET search_path = lightseal;";

/// Which database this is, and how far it has come. A log of writes that was flushed never gets shorter,
/// except if the database is rolled back.
const LOOK: &str = "
    SELECT (SELECT system_identifier FROM pg_control_system()),
           ('x' || substr(pg_walfile_name(pg_current_wal_flush_lsn()), 1, 8))::bit(32)::bigint,
           (pg_current_wal_flush_lsn() - '0/0')::bigint,
           coalesce((SELECT incarnation FROM node WHERE number = $1), 0)";

/// Begins a run of a node.
const ENTER: &str = "
    INSERT INTO node (number, incarnation, beat, leaves, address)
    VALUES ($1, nextval('incarnation'), 0, false, $2)
    ON CONFLICT (number) DO UPDATE SET incarnation = excluded.incarnation, beat = 0,
        leaves = false, address = excluded.address
    RETURNING incarnation";

/// Why the database has not done what it was asked for.
#[derive(Debug)]
pub(super) struct DatabaseError(String);

impl DatabaseError {
    pub(super) fn new(why: &str) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for DatabaseError {}

impl From<tokio_postgres::Error> for DatabaseError {
    fn from(error: tokio_postgres::Error) -> Self {
        Self(match (error.as_db_error(), error.source()) {
            (Some(answer), _) => {
                format!("{} (SQLSTATE {})", answer.message(), answer.code().code())
            }
            (None, Some(cause)) => format!("{error}: {cause}"),
            (None, None) => error.to_string(),
        })
    }
}

/// Waits for the database, but not for ever.
///
/// # Errors
///
/// If it does not answer in time.
pub(super) async fn bounded<T>(answer: impl Future<Output = T>) -> Result<T, DatabaseError> {
    let seconds = PATIENCE.as_secs();
    let late = |_| DatabaseError(format!("the database has not answered for {seconds} s"));
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
            client.batch_execute(SETTINGS).await?;
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
                    marks: client.prepare(rows::UPDATE_MARKS).await?,
                    states: client.prepare(rows::UPDATE_STATES).await?,
                    insert: client.prepare(rows::INSERT).await?,
                    remove: client.prepare(rows::REMOVE).await?,
                    chains: client.prepare(rows::CHAINS).await?,
                    read_back: client.prepare(rows::READ_BACK).await?,
                    look: client.prepare(LOOK).await?,
                })
            })
            .await??,
        );
        Ok(())
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn client_mut(&mut self) -> &mut Client {
        &mut self.client
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
        let entered = self.client.query_one(ENTER, &[&node, &address]);
        let number: i64 = bounded(entered).await??.try_get(0)?;
        u32::try_from(number).map_err(|_| DatabaseError::new("all numbers of runs are used"))
    }
}
