//! Addresses of identities in the database of `--store`, which all nodes of a fleet share.

use super::store::AddressStore;
use super::{KEPT_DAYS, SourcePrefix};
use crate::database::{DatabaseError, OwnRuntime, StoreUrl};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio_postgres::{Client, Config, Transaction};

/// How long the database may take for a transaction. After this the connection is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Two nodes that start at once make the table one after the other.
const CREATE: &str = "
    BEGIN;
    SELECT pg_advisory_xact_lock(7308332045234563693);
    CREATE SCHEMA IF NOT EXISTS lightseal_source;
    CREATE TABLE IF NOT EXISTS lightseal_source.identity (
        name text PRIMARY KEY,
        address inet NOT NULL UNIQUE,
        seen date NOT NULL DEFAULT current_date);
    COMMIT";

const KNOWN: &str = "SELECT name, address FROM lightseal_source.identity WHERE name = ANY($1)";

const NOTE: &str = "UPDATE lightseal_source.identity SET seen = current_date
    WHERE name = ANY($1) AND seen < current_date";

/// What is known of some addresses: whose they are, and whether that identity was seen lately.
const OWNERS: &str = "SELECT address, seen + $2::int < current_date
    FROM lightseal_source.identity WHERE address = ANY($1)";

const FREE: &str = "DELETE FROM lightseal_source.identity
    WHERE address = $1 AND seen + $2::int < current_date";

const LEAVE: &str = "DELETE FROM lightseal_source.identity WHERE name = $1";

/// No row is made if another node has made one with the name or the address in between.
const INSERT: &str = "INSERT INTO lightseal_source.identity (name, address) VALUES ($1, $2)
    ON CONFLICT DO NOTHING";

/// How many addresses of a sequence are looked at together.
const AT_ONCE: usize = 8;

/// The table.
pub(super) struct AddressTable {
    url: StoreUrl,
    runtime: OwnRuntime,
    client: Option<Client>,
}

impl AddressTable {
    /// # Errors
    ///
    /// If the database does not answer or refuses.
    pub(super) fn open(url: &StoreUrl) -> Result<Self, DatabaseError> {
        let runtime = OwnRuntime::new().map_err(|error| DatabaseError::new(error.to_string()))?;
        let mut table = Self { url: url.clone(), runtime, client: None };
        table.ask(async |client| Ok(client.batch_execute(CREATE).await?))?;
        Ok(table)
    }

    fn ask<T>(
        &mut self,
        what: impl AsyncFnOnce(&mut Client) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        let Self { url, runtime, client } = self;
        let asked = runtime.block_on(async {
            let asked = async {
                if client.is_none() {
                    *client = Some(connect(url).await?);
                }
                match client {
                    Some(client) => what(client).await,
                    None => Err(DatabaseError::new("not connected")),
                }
            };
            let late = |_| DatabaseError::late(PATIENCE);
            tokio::time::timeout(PATIENCE, asked).await.map_err(late)?
        });
        if asked.is_err() {
            self.client = None;
        }
        asked
    }
}

async fn connect(url: &StoreUrl) -> Result<Client, DatabaseError> {
    let adjust = |config: &mut Config| {
        config.application_name("lightseal addresses");
        config.connect_timeout(PATIENCE);
        config.tcp_user_timeout(PATIENCE);
    };
    let client = url.connect(adjust).await?;
    client.batch_execute("SET synchronous_commit = on").await?;
    Ok(client)
}

impl AddressStore for AddressTable {
    fn assign(
        &mut self,
        prefix: SourcePrefix,
        identities: &[Arc<str>],
    ) -> Result<Vec<Option<IpAddr>>, String> {
        let assigned = self.ask(async |client| {
            let names: Vec<&str> = identities.iter().map(|identity| &**identity).collect();
            let transaction = client.transaction().await?;
            transaction.execute(NOTE, &[&names]).await?;
            let mut known = HashMap::new();
            for row in transaction.query(KNOWN, &[&names]).await? {
                known.insert(row.try_get::<_, String>(0)?, row.try_get::<_, IpAddr>(1)?);
            }
            let mut assigned = Vec::with_capacity(names.len());
            for name in names {
                let former = known.get(name).copied();
                assigned.push(match former.filter(|address| prefix.contains(*address)) {
                    Some(address) => Some(address),
                    None => {
                        if former.is_some() {
                            transaction.execute(LEAVE, &[&name]).await?;
                        }
                        find(&transaction, prefix, name).await?
                    }
                });
            }
            transaction.commit().await?;
            Ok(assigned)
        });
        assigned.map_err(|error| error.to_string())
    }

    fn note(&mut self, identities: &[Arc<str>]) -> Result<(), String> {
        let noted = self.ask(async |client| {
            let names: Vec<&str> = identities.iter().map(|identity| &**identity).collect();
            client.execute(NOTE, &[&names]).await?;
            Ok(())
        });
        noted.map_err(|error| error.to_string())
    }
}

/// Makes a row for an identity that has none, with the first address of its sequence that is free.
async fn find(
    transaction: &Transaction<'_>,
    prefix: SourcePrefix,
    name: &str,
) -> Result<Option<IpAddr>, DatabaseError> {
    let days = KEPT_DAYS.cast_signed();
    let sequence: Vec<IpAddr> = prefix.sequence(name).collect();
    for some in sequence.chunks(AT_ONCE) {
        let mut taken = HashMap::new();
        for row in transaction.query(OWNERS, &[&some, &days]).await? {
            taken.insert(row.try_get::<_, IpAddr>(0)?, row.try_get::<_, bool>(1)?);
        }
        for address in some {
            match taken.get(address) {
                Some(false) => continue,
                Some(true) => drop(transaction.execute(FREE, &[address, &days]).await?),
                None => {}
            }
            if transaction.execute(INSERT, &[&name, address]).await? > 0 {
                return Ok(Some(*address));
            }
            // Another node was faster, with this address or with this identity.
            if let Some(row) = transaction.query_opt(KNOWN, &[&[name].as_slice()]).await? {
                return Ok(Some(row.try_get(1)?).filter(|address| prefix.contains(*address)));
            }
        }
    }
    Ok(None)
}
