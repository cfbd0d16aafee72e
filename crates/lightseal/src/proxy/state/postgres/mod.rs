//! A store in a PostgreSQL database, which the nodes of a fleet share: `--store URL`.
//!
//! - [`schema`]: the tables;
//! - [`session`]: connections to the database;
//! - [`remembered`]: what a node remembers of the database, to see that it was rolled back;
//! - [`member`]: the thread of a node, which moves slots;
//! - [`rows`]: how a batch becomes statements;
//! - [`sql`]: the statements;
//! - [`error`]: why a database fails.
//!
//! Each row has a version, and a write has an effect only on the version that its writer knows. The
//! process that wrote a row last therefore is the only one that can go on with the association,
//! whatever others believe, and however late their writes arrive.

mod error;
pub(crate) mod member;
pub(crate) mod owners;
mod remembered;
mod rows;
mod schema;
mod session;
mod sql;

use super::fleet_keys::FleetKeys;
use super::key::StateKey;
use super::place::Lock;
use super::row::{Row, RowId, Sizes};
use super::writer::{Backend, Batch, Loaded, WriteError};
use crate::failure::{Context, Failure};
use crate::proxy::fleet::slots::NodeNumber;
use error::DatabaseError;
use lightseal_owner_only::socket::prepare_directory;
use member::Member;
use remembered::{Memory, Remembered};
use rows::Statements;
use session::{OwnRuntime, Session};
use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// How many slots are read at once.
const SLOTS_AT_ONCE: usize = 16;

/// How often a node writes down how far the database has come.
const REMEMBER: Duration = Duration::from_secs(1);

/// The address of a database: `postgresql://user@host/database` or `host=/run/postgresql dbname=…`.
#[derive(Clone, Debug)]
pub(crate) struct StoreUrl(Config);

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let config: Config = text.parse().map_err(|error: tokio_postgres::Error| {
            let why = std::error::Error::source(&error);
            why.map_or_else(|| error.to_string(), ToString::to_string)
        })?;
        if config.get_hosts().is_empty() {
            return Err("no host of the database, as in postgresql://host/database".into());
        }
        Ok(Self(config))
    }
}

/// Hosts and database, and no password.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("postgresql:")?;
        for (at, host) in self.0.get_hosts().iter().enumerate() {
            f.write_str(if at == 0 { "//" } else { "," })?;
            match host {
                Host::Tcp(name) => f.write_str(name)?,
                #[cfg(unix)]
                Host::Unix(path) => path.display().fmt(f)?,
            }
        }
        write!(f, "/{}", self.0.get_dbname().or(self.0.get_user()).unwrap_or_default())
    }
}

/// `--store`, and which node of the fleet this is.
#[derive(Clone, Debug)]
pub(crate) struct DatabaseArgs {
    pub(crate) url: StoreUrl,
    pub(crate) node: NodeNumber,
    /// Where other nodes send what is this node's.
    pub(crate) address: SocketAddr,
    /// Whether connection IDs hide their slots.
    pub(crate) scrambles_ids: bool,
}

/// An open store.
#[derive(Debug)]
pub(super) struct Postgres {
    name: String,
    runtime: OwnRuntime,
    config: Config,
    node: NodeNumber,
    key: Arc<StateKey>,
    session: Option<Session>,
    memory: Memory,
    /// Whether the database was rolled back while this process ran.
    is_rolled_back: Arc<AtomicBool>,
    /// The number of this run, which no other process of the fleet has or ever had.
    incarnation: u32,
    /// The slots that the node owns at its start.
    slots: BTreeSet<u8>,
    /// When it was last written down how far the database has come.
    remembered_at: Instant,
    _lock: Lock,
}

impl Postgres {
    /// Opens the store in a database as a node of its fleet, and makes the tables if there are none.
    /// `directory` has what is remembered of the database. With `forget` both begin anew.
    ///
    /// # Errors
    ///
    /// If the database or the directory cannot be used, the store was made with another key or by
    /// another version, or it was rolled back. Then nothing is changed.
    pub(super) fn open(
        database: &DatabaseArgs,
        directory: &Path,
        key: StateKey,
        forget: bool,
    ) -> Result<(Self, Member, FleetKeys), Failure> {
        let DatabaseArgs { url, node, address, scrambles_ids } = database;
        let (node, address) = (*node, address.to_string());
        let place = format!("--state {}", directory.display());
        prepare_directory(directory).context(&place)?;
        let Some(lock) = Lock::take(directory).context(&place)? else {
            return Err(Failure::new(format_args!("{place}: another process has it open")));
        };
        let name = format!("--store {url}");
        let (key, mut memory) = (Arc::new(key), Memory::read(directory).context(&place)?);
        let runtime = OwnRuntime::new().context(&name)?;
        let (session, incarnation, roster, secret) = runtime.block_on(async {
            let mut session = Session::begin(&url.0, node).await.context(&name)?;
            let secret = session::bounded(schema::prepare(session.client(), &key, forget))
                .await
                .context(&name)?
                .context(&name)?
                .context(&name)?;
            session.prepare().await.context(&name)?;
            let seen = session::bounded(session.look()).await.context(&name)?.context(&name)?;
            if !forget {
                memory.judge(&seen).context(&name)?;
            }
            let incarnation = session.enter(&address).await.context(&name)?;
            memory.write(seen.with_incarnation(incarnation)).context(&place)?;
            let joined = session::bounded(async {
                let mut roster = session.roster().await?;
                // Nobody else is known to be dead yet. What is nobody's is taken at once.
                let take = roster.plan(node, &BTreeSet::new(), &BTreeSet::new()).take;
                let taken = session.move_slots(&take).await?;
                roster.moved(&take, &taken);
                Ok::<_, DatabaseError>(roster)
            });
            let roster = joined.await.context(&name)?.context(&name)?;
            Ok::<_, Failure>((session, incarnation, roster, secret))
        })?;
        let (config, is_rolled_back) = (url.0.clone(), Arc::<AtomicBool>::default());
        let store = Self {
            name: name.clone(),
            runtime,
            config: config.clone(),
            node,
            key: Arc::clone(&key),
            session: Some(session),
            memory,
            is_rolled_back: Arc::clone(&is_rolled_back),
            incarnation,
            slots: roster.slots_of(node),
            remembered_at: Instant::now(),
            _lock: lock,
        };
        let member =
            Member { name, config, key, node, incarnation, address, roster, is_rolled_back };
        Ok((store, member, FleetKeys::new(secret, *scrambles_ids)))
    }

    /// Writes down how far the database has come, so that the next run sees if it was rolled back.
    fn remember(&mut self, seen: Remembered) {
        self.remembered_at = Instant::now();
        // The next run is to see it, too.
        if self.is_rolled_back.load(Relaxed) {
            return;
        }
        if let Err(error) = self.memory.write(seen) {
            tracing::warn!("{}: {error}", self.memory.path().display());
        }
    }
}

impl Backend for Postgres {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn load(&mut self, each: &mut dyn FnMut(Row)) -> Result<Loaded, Failure> {
        let session = self.session.as_mut().ok_or_else(|| Failure::new("not connected"))?;
        let (mut sizes, slots) = (Sizes::default(), Vec::from_iter(&self.slots));
        for some in slots.chunks(SLOTS_AT_ONCE) {
            let some: Vec<_> = some.iter().map(|slot| i16::from(**slot)).collect();
            let rows = self.runtime.block_on(session.load(&self.key, self.node, &some));
            for row in rows.map_err(Failure::new)? {
                sizes.rows += 1;
                sizes.stored += row.bytes;
                each(row);
            }
        }
        Ok(Loaded { sizes, next: RowId::from(self.incarnation) << 32 })
    }

    fn write(&mut self, batch: &Batch) -> Result<Vec<RowId>, WriteError> {
        let statements = Statements::of(batch, &self.key)?;
        let session = self.session.as_mut().ok_or_else(|| DatabaseError::new("not connected"))?;
        let incarnation = self.incarnation.into();
        let written = self.runtime.block_on(session::bounded(async {
            let lost = statements.write(session, incarnation).await?;
            let seen = match self.remembered_at.elapsed() >= REMEMBER {
                true => Some(session.look().await?),
                false => None,
            };
            Ok((lost, seen))
        }));
        let (lost, seen) = written.and_then(|written| written).inspect_err(|_| {
            // The answer to this write may be lost: nothing more is heard of this connection.
            self.session = None;
        })?;
        if let Some(seen) = seen {
            self.remember(seen);
        }
        for alarm in &lost.rolled_back {
            tracing::error!("{}: {alarm}; was the database rolled back?", self.name);
        }
        Ok(lost.rows)
    }

    /// Connects again.
    fn reopen(&mut self) -> Result<(), WriteError> {
        self.session = None;
        let (session, seen) = self.runtime.block_on(async {
            let mut session = Session::begin(&self.config, self.node).await?;
            session.prepare().await?;
            let seen = session::bounded(session.look()).await??;
            Ok::<_, DatabaseError>((session, seen))
        })?;
        if let Err(rolled_back) = self.memory.judge(&seen)
            && !self.is_rolled_back.swap(true, Relaxed)
        {
            tracing::error!("{}: {rolled_back}", self.name);
        }
        self.session = Some(session);
        Ok(())
    }
}

impl From<DatabaseError> for WriteError {
    /// Whatever the database refuses, it is known to have done nothing or is asked later what it has
    /// done: each error may pass.
    fn from(error: DatabaseError) -> Self {
        Self { why: error.to_string(), may_pass: true }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_a_database_is_shown_without_its_password() {
        let url: StoreUrl = "postgresql://proxy:secret@db1,db2/fleet".parse().unwrap();
        assert_eq!(url.to_string(), "postgresql://db1,db2/fleet");
        assert!(!format!("{url:?}").contains("secret"));
        let local: StoreUrl = "host=/run/postgresql user=proxy".parse().unwrap();
        assert_eq!(local.to_string(), "postgresql:///run/postgresql/proxy");
        for wrong in ["", "redis://db", "postgresql://db:port", "user=proxy"] {
            assert!(wrong.parse::<StoreUrl>().is_err(), "{wrong}");
        }
    }
}
