//! A table in a PostgreSQL database: `--psk-table URL`.
//!
//! The proxy calls two functions: one finds keys, and one says which identities have changed since a
//! snapshot that the proxy was given before ([`SCHEMA`]). With snapshots nothing is missed, whatever
//! the order in which transactions begin and end.

use super::source::{Changed, KeySource, PskIdentity, SourceError};
use crate::database::{DatabaseError, OwnRuntime, StoreUrl};
use lightseal_dtls::Psk;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Statement};
use zeroize::Zeroizing;

/// The tables and functions, as `lightseal proxy key-table` prints them.
pub(crate) const SCHEMA: &str = include_str!("keys.sql");

/// How long the database may take for an answer, and for a connection. After this the connection is
/// given up.
const PATIENCE: Duration = Duration::from_secs(1);

/// The most changed identities that are told apart.
const MOST_CHANGED: usize = 100_000;

const FIND: &str = "SELECT identity, key FROM lightseal_keys.find($1)";

const NOW: &str = "SELECT pg_current_snapshot()::text";

/// One statement, and so one snapshot. There may be one row more than [`MOST_CHANGED`] identities.
const CHANGES: &str = "
    SELECT NULL::bytea, pg_current_snapshot()::text
    UNION ALL (
        SELECT identity, NULL FROM lightseal_keys.changes($1::text::pg_snapshot) AS identity
        LIMIT 100001)";

/// A connection and its statements.
#[derive(Debug)]
struct Session {
    client: Client,
    find: Statement,
    changes: Statement,
}

/// A table of keys.
#[derive(Debug)]
pub(super) struct Table {
    url: StoreUrl,
    runtime: OwnRuntime,
    session: Option<Session>,
    /// What the database had when it was asked about changes last.
    snapshot: Option<String>,
    /// Whether the connection was interrupted since everything was checked. Another server may answer
    /// now, whose transactions have other numbers.
    was_interrupted: bool,
}

impl Table {
    /// # Errors
    ///
    /// If the database does not answer, refuses, or lacks the functions.
    pub(super) fn open(url: &StoreUrl) -> Result<Self, SourceError> {
        let runtime = OwnRuntime::new().map_err(SourceError::new)?;
        let mut table = Self {
            url: url.clone(),
            runtime,
            session: None,
            snapshot: None,
            was_interrupted: false,
        };
        table.find(&[])?;
        Ok(table)
    }

    /// Runs something with the connection, which is made if there is none, and given up if it fails.
    fn ask<T>(
        &mut self,
        what: impl AsyncFnOnce(&Session) -> Result<T, DatabaseError>,
    ) -> Result<T, SourceError> {
        let Self { url, runtime, session, .. } = self;
        let asked = runtime.block_on(async {
            if session.is_none() {
                *session = Some(bounded(connect(url)).await?);
            }
            match session {
                Some(session) => bounded(what(session)).await,
                None => Err(DatabaseError::new("not connected")),
            }
        });
        asked.map_err(|error| {
            self.session = None;
            SourceError::new(error)
        })
    }
}

async fn bounded<T>(
    answer: impl Future<Output = Result<T, DatabaseError>>,
) -> Result<T, DatabaseError> {
    let late = |_| DatabaseError::new(format!("no answer within {} s", PATIENCE.as_secs()));
    tokio::time::timeout(PATIENCE, answer).await.map_err(late)?
}

async fn connect(url: &StoreUrl) -> Result<Session, DatabaseError> {
    let adjust = |config: &mut Config| {
        config.application_name("lightseal keys");
        config.connect_timeout(PATIENCE);
        config.tcp_user_timeout(PATIENCE);
    };
    let client = url.connect(adjust).await?;
    let find = client.prepare_typed(FIND, &[Type::BYTEA_ARRAY]).await?;
    let changes = client.prepare(CHANGES).await?;
    Ok(Session { client, find, changes })
}

impl KeySource for Table {
    fn find(&mut self, identities: &[PskIdentity]) -> Result<Vec<Option<Psk>>, SourceError> {
        let asked: Vec<&[u8]> = identities.iter().map(|identity| &**identity).collect();
        let rows = self
            .ask(async |Session { client, find, .. }| Ok(client.query(find, &[&asked]).await?))?;
        let mut found = HashMap::new();
        for row in &rows {
            let read =
                row.try_get::<_, &[u8]>(0).and_then(|of| Ok((of, row.try_get::<_, &[u8]>(1)?)));
            let (identity, key) = read.map_err(SourceError::new)?;
            let key = Zeroizing::new(key.to_vec());
            let psk = Psk::external(identity, &key).map_err(SourceError::new)?;
            found.insert(identity, psk);
        }
        Ok(asked.iter().map(|identity| found.remove(identity)).collect())
    }

    /// After an interruption first what has changed since the last snapshot, which is found fast, and
    /// then everything.
    fn changes(&mut self) -> Result<Changed, SourceError> {
        let is_new = self.session.is_none();
        let Some(then) = self.snapshot.clone() else {
            let now = self.ask(async |Session { client, .. }| {
                Ok(client.query_one(NOW, &[]).await?.try_get(0)?)
            })?;
            self.snapshot = Some(now);
            return Ok(Changed::All);
        };
        let (now, these) = self.ask(async |Session { client, changes, .. }| {
            let (mut now, mut these) = (None, BTreeSet::<PskIdentity>::new());
            for row in client.query(changes, &[&then]).await? {
                match row.try_get::<_, Option<&[u8]>>(0)? {
                    Some(identity) => drop(these.insert(identity.into())),
                    None => now = Some(row.try_get(1)?),
                }
            }
            Ok((now, these))
        })?;
        self.snapshot = now;
        let is_known = these.len() <= MOST_CHANGED && these.first().is_none_or(|of| !of.is_empty());
        let checks_all = !is_new && std::mem::take(&mut self.was_interrupted);
        self.was_interrupted |= is_new;
        Ok(match is_known && !checks_all {
            true => Changed::These(these.into_iter().collect()),
            false => Changed::All,
        })
    }
}

/// Whether keys would go through a network in clear on their way from the database.
pub(super) fn leaves_host(url: &StoreUrl) -> bool {
    url.exposed_host().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_travel_are_noticed() {
        let leaves = |url: &str| leaves_host(&url.parse().unwrap());
        for local in
            ["host=/run/postgresql", "postgresql://localhost/a", "postgresql://127.0.0.1/a"]
        {
            assert!(!leaves(local), "{local}");
        }
        assert!(leaves("postgresql://db/a") && leaves("postgresql://localhost,192.0.2.1/a"));
    }
}
