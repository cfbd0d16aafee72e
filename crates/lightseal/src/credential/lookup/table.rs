//! A table in a PostgreSQL database: `--psk-table URL` and `--allow-table URL`.
//!
//! The proxy calls two functions for each kind of identity: one finds what belongs to identities, and
//! one says which have changed since a snapshot that the proxy was given before ([`SCHEMA`]). With snapshots nothing is missed, whatever
//! the order in which transactions begin and end.

use super::source::{
    Changed, Entry, KeySource, Kind, MOST_KEY_BYTES, PeerIdentity, SourceError, read, written,
};
use crate::database::{DatabaseError, OwnRuntime, StoreUrl};
use crate::units::counted;
use lightseal_dtls::{Identity, Psk};
use lightseal_net::RateLimitedLog;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Config, Row, Statement};
use zeroize::Zeroizing;

/// The tables and functions, as `lightseal proxy key-table` prints them.
pub(crate) const SCHEMA: &str = include_str!("keys.sql");

/// How long the database may take for an answer, and for a connection. After this the connection is
/// given up.
const PATIENCE: Duration = Duration::from_secs(1);

/// The most changed identities that are told apart.
const MOST_CHANGED: usize = 100_000;

const FIND_PSKS: &str = "SELECT identity, key FROM lightseal_keys.find($1)";

const FIND_PEERS: &str = "SELECT identity FROM lightseal_keys.find_peers($1) AS identity";

const NOW: &str = "SELECT pg_current_snapshot()::text";

/// One statement, and so one snapshot. There may be one row more than [`MOST_CHANGED`] identities.
const PSK_CHANGES: &str = "
    SELECT NULL::bytea, pg_current_snapshot()::text
    UNION ALL (
        SELECT identity, NULL FROM lightseal_keys.changes($1::text::pg_snapshot) AS identity
        LIMIT 100001)";

/// As [`PSK_CHANGES`].
const PEER_CHANGES: &str = "
    SELECT NULL::text, pg_current_snapshot()::text
    UNION ALL (
        SELECT identity, NULL FROM lightseal_keys.peer_changes($1::text::pg_snapshot) AS identity
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
    kind: Kind,
    runtime: OwnRuntime,
    session: Option<Session>,
    /// What the database had when it was asked about changes last.
    snapshot: Option<String>,
    /// Whether the connection was interrupted since everything was checked. Another server may answer
    /// now, whose transactions have other numbers.
    was_interrupted: bool,
    /// Limits the warnings of rows that cannot be used.
    unusable: RateLimitedLog,
}

impl Table {
    /// # Errors
    ///
    /// If the database does not answer, refuses, or lacks the functions.
    pub(super) fn open(url: &StoreUrl, kind: Kind) -> Result<Self, SourceError> {
        let runtime = OwnRuntime::new().map_err(SourceError::new)?;
        let mut table = Self {
            url: url.clone(),
            kind,
            runtime,
            session: None,
            snapshot: None,
            was_interrupted: false,
            unusable: RateLimitedLog::default(),
        };
        table.find(&[])?;
        Ok(table)
    }

    /// Runs something with the connection, which is made if there is none, and given up if it fails.
    fn ask<T>(
        &mut self,
        what: impl AsyncFnOnce(&Session) -> Result<T, DatabaseError>,
    ) -> Result<T, SourceError> {
        let Self { url, kind, runtime, session, .. } = self;
        let asked = runtime.block_on(async {
            if session.is_none() {
                *session = Some(bounded(connect(url, *kind)).await?);
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

async fn connect(url: &StoreUrl, kind: Kind) -> Result<Session, DatabaseError> {
    let adjust = |config: &mut Config| {
        config.application_name("lightseal keys");
        config.connect_timeout(PATIENCE);
        config.tcp_user_timeout(PATIENCE);
    };
    let client = url.connect(adjust).await?;
    let (find, asked, changes) = match kind {
        Kind::Psks => (FIND_PSKS, Type::BYTEA_ARRAY, PSK_CHANGES),
        Kind::Peers => (FIND_PEERS, Type::TEXT_ARRAY, PEER_CHANGES),
    };
    let find = client.prepare_typed(find, &[asked]).await?;
    let changes = client.prepare(changes).await?;
    Ok(Session { client, find, changes })
}

impl KeySource for Table {
    fn find(&mut self, identities: &[PeerIdentity]) -> Result<Vec<Option<Entry>>, SourceError> {
        let kind = self.kind;
        let rows = self.ask(async |Session { client, find, .. }| {
            Ok(match kind {
                Kind::Psks => {
                    let asked: Vec<_> =
                        identities.iter().filter_map(|of| psk_identity(of)).collect();
                    client.query(find, &[&asked]).await?
                }
                Kind::Peers => {
                    let asked: Vec<_> = identities.iter().map(|of| written(of)).collect();
                    client.query(find, &[&asked]).await?
                }
            })
        })?;
        let mut found = HashMap::new();
        for row in &rows {
            let (identity, entry) = match kind {
                Kind::Psks => match psk(row)? {
                    (identity, Ok(psk)) => (identity, Entry::Psk(psk)),
                    (identity, Err(why)) => {
                        if let Some(count) = self.unusable.due() {
                            let rows = counted(count, "such row");
                            let identity = written(&identity);
                            tracing::warn!(
                                "{identity}: {why}; it counts as if it were not there ({rows})"
                            );
                        }
                        continue;
                    }
                },
                Kind::Peers => match changed_identity(kind, row)? {
                    Some(identity) => (identity, Entry::Admitted),
                    None => continue,
                },
            };
            found.insert(identity, entry);
        }
        Ok(identities.iter().map(|identity| found.remove(identity)).collect())
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
        let kind = self.kind;
        let (now, rows) = self.ask(async |Session { client, changes, .. }| {
            let (mut now, mut rows) = (None, client.query(changes, &[&then]).await?);
            rows.retain(|row| match row.try_get::<_, Option<String>>(1) {
                Ok(None) => true,
                Ok(snapshot) => {
                    now = snapshot;
                    false
                }
                Err(_) => true,
            });
            Ok((now, rows))
        })?;
        let mut is_known = rows.len() <= MOST_CHANGED;
        let mut these = BTreeSet::new();
        for row in &rows {
            match changed_identity(kind, row)? {
                Some(identity) => drop(these.insert(identity)),
                None => is_known = false,
            }
        }
        self.snapshot = now;
        let checks_all = !is_new && std::mem::take(&mut self.was_interrupted);
        self.was_interrupted |= is_new;
        Ok(match is_known && !checks_all {
            true => Changed::These(these.into_iter().collect()),
            false => Changed::All,
        })
    }
}

/// The identity of a pre-shared key.
fn psk_identity(identity: &Identity) -> Option<&[u8]> {
    match identity {
        Identity::Psk(identity) => Some(identity),
        _ => None,
    }
}

/// The identity and the key in a row, or why there can be no such key.
fn psk(row: &Row) -> Result<(PeerIdentity, Result<Psk, String>), SourceError> {
    let key = row.try_get::<_, Option<Vec<u8>>>(1).map_err(SourceError::new)?.map(Zeroizing::new);
    let identity = row.try_get::<_, Vec<u8>>(0).map_err(SourceError::new)?;
    let psk = match key {
        Some(key) if key.len() > MOST_KEY_BYTES => {
            Err(format!("the key is longer than {MOST_KEY_BYTES} bytes"))
        }
        Some(key) => Psk::external(&identity, &key).map_err(|error| error.to_string()),
        None => Err("it has no key".into()),
    };
    Ok((Identity::Psk(identity).into(), psk))
}

/// The identity in the first column of a row; `None` if that stands for all of them.
fn changed_identity(kind: Kind, row: &Row) -> Result<Option<PeerIdentity>, SourceError> {
    if kind == Kind::Psks {
        let identity = row.try_get::<_, Vec<u8>>(0).map_err(SourceError::new)?;
        return Ok((!identity.is_empty()).then(|| Identity::Psk(identity).into()));
    }
    Ok(read(kind, row.try_get(0).map_err(SourceError::new)?))
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
        for local in ["postgresql://localhost/a", "postgresql://127.0.0.1/a"] {
            assert!(!leaves(local), "{local}");
        }
        // Elsewhere a directory is the name of a host.
        assert_eq!(leaves("host=/run/postgresql"), !cfg!(unix));
        assert!(leaves("postgresql://db/a") && leaves("postgresql://localhost,192.0.2.1/a"));
    }
}
