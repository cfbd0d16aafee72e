//! Connections to the database.

use super::error::DatabaseError;
use super::remembered::Remembered;
use super::sql;
use crate::proxy::fleet::slots::NodeNumber;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, Config, NoTls, Statement};

/// How long the database may take for anything. After this the connection is given up, because an
/// answer may never come.
const PATIENCE: Duration = Duration::from_secs(10);

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
        let entered = bounded(self.client.query_one(sql::ENTER, &[&node, &address])).await??;
        let number: i64 = entered.try_get(0)?;
        u32::try_from(number).map_err(|_| DatabaseError::new("all numbers of runs are used"))
    }
}
