//! A store in a PostgreSQL database, which the nodes of a fleet share: `--store URL`.
//!
//! - [`schema`]: the tables;
//! - [`session`]: connections to the database;
//! - [`presence`]: whether a node runs that must not;
//! - [`remembered`]: what a node remembers of the database, to see that it was rolled back;
//! - [`witness`]: whether a running node still trusts the database;
//! - [`beat`]: the thread of a node that beats;
//! - [`member`]: the thread of a node that moves slots;
//! - [`reseal`]: how all rows get another key;
//! - [`rows`]: how a batch becomes statements;
//! - [`sql`]: the statements;
//!
//! Each row has a version, and a write has an effect only on the version that its writer knows. The
//! process that wrote a row last therefore is the only one that can go on with the association,
//! whatever others believe, and however late their writes arrive.

mod beat;
mod member;
pub(crate) mod owners;
#[cfg(all(test, target_os = "linux"))]
mod plans;
mod presence;
mod remembered;
pub(crate) mod reseal;
mod rows;
mod schema;
mod session;
mod sql;
mod witness;

use super::DatabaseArgs;
use super::fleet_keys::FleetKeys;
use super::key::StateKey;
use super::place::Lock;
use super::row::{Row, RowId, Sizes};
use super::writer::{Backend, Batch, Loaded, WriteError};
use crate::database::{DatabaseError, OwnRuntime, StoreUrl};
use crate::failure::{Context, Failure};
use crate::proxy::fleet::slots::NodeNumber;
use beat::{Heart, Pulse};
use lightseal_owner_only::socket::prepare_directory;
pub(super) use member::Member;
pub(crate) use member::MemberHandle;
use presence::Newcomer;
use remembered::{Doubt, Memory};
use rows::Statements;
use session::Session;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use witness::Witness;

/// How many slots are read at once.
const SLOTS_AT_ONCE: usize = 8;

/// An open store.
#[derive(Debug)]
pub(super) struct Postgres {
    name: String,
    runtime: OwnRuntime,
    url: StoreUrl,
    node: NodeNumber,
    key: Arc<StateKey>,
    session: Option<Session>,
    witness: Arc<Witness>,
    /// The number of this run, which no other process of the fleet has or ever had.
    incarnation: u32,
    /// The number with which this run writes. It is random: after a rollback, numbers that are counted
    /// come again.
    writer: i64,
    /// The slots that the node owns at its start.
    slots: BTreeSet<u8>,
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
    ) -> Result<(Self, Member, Arc<FleetKeys>), Failure> {
        let DatabaseArgs { url, node, address, scrambles_ids, synchronous_failover } = database;
        let (node, address) = (*node, address.to_string());
        let place = format!("--state {}", directory.display());
        prepare_directory(directory).context(&place)?;
        let Some(lock) = Lock::take(directory).context(&place)? else {
            return Err(Failure::new(format_args!("{place}: another process has it open")));
        };
        let name = format!("--store {url}");
        if let Some(host) = url.exposed_host() {
            tracing::warn!(
                "{name}: the connection to {host} is not encrypted: sslmode=verify-full with \
                 sslrootcert=FILE is"
            );
        }
        let (key, memory) =
            (Arc::new(key), Memory::read(directory, node.0.into()).context(&place)?);
        let runtime = OwnRuntime::new().context(&name)?;
        let former = memory.remembered().map(|remembered| remembered.incarnation);
        let newcomer = Newcomer { node, former, forgets: forget };
        let (session, incarnation, roster, secrets, witness) = runtime.block_on(async {
            let mut session = Session::begin(url, node).await.context(&name)?;
            let secrets = session::bounded(schema::prepare(session.client(), &key, &newcomer))
                .await
                .context(&name)?
                .context(&name)?
                .context(&name)?;
            session.prepare().await.context(&name)?;
            let seen = session::bounded(session.look()).await.context(&name)?.context(&name)?;
            let witness = Witness::begin(&name, *synchronous_failover, memory, &seen, forget);
            let witness = witness.context(&name)?;
            let incarnation = session.enter(&address, &key.check_value()).await.context(&name)?;
            witness.entered(incarnation);
            witness.remember().context(&place)?;
            session.fence(incarnation.into()).await.context(&name)?;
            let joined = session::bounded(async {
                let (mut roster, _) = session.roster().await?;
                // Nobody else is known to be dead yet. What is nobody's is taken at once.
                let take = roster.plan(node, &BTreeSet::new(), &BTreeSet::new()).take;
                let taken = session.move_slots(&take).await?;
                roster.moved(&take, &taken);
                Ok::<_, DatabaseError>(roster)
            });
            let roster = joined.await.context(&name)?.context(&name)?;
            Ok::<_, Failure>((session, incarnation, roster, secrets, Arc::new(witness)))
        })?;
        let mut drawn = [0; 8];
        getrandom::fill(&mut drawn).context("no randomness")?;
        let store = Self {
            name: name.clone(),
            runtime,
            url: url.clone(),
            node,
            key: Arc::clone(&key),
            session: Some(session),
            witness: Arc::clone(&witness),
            incarnation,
            writer: i64::from_be_bytes(drawn),
            slots: roster.slots_of(node),
            _lock: lock,
        };
        let pulse = Arc::<Pulse>::default();
        let heart = Heart {
            url: url.clone(),
            node,
            incarnation,
            address: address.clone(),
            witness: Arc::clone(&witness),
            pulse: Arc::clone(&pulse),
        };
        let beating = heart.start().context(&name)?;
        let keys = Arc::new(FleetKeys::new(secrets, *scrambles_ids));
        let member = Member {
            name,
            url: url.clone(),
            key,
            keys: Arc::clone(&keys),
            scrambles_ids: *scrambles_ids,
            node,
            address,
            roster,
            witness,
            pulse,
            beating,
        };
        Ok((store, member, keys))
    }
}

impl Backend for Postgres {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn load(&mut self, each: &mut dyn FnMut(Row)) -> Result<Loaded, Failure> {
        let session = self.session.as_ref().ok_or_else(|| Failure::new("not connected"))?;
        let (mut sizes, slots) = (Sizes::default(), Vec::from_iter(&self.slots));
        for some in slots.chunks(SLOTS_AT_ONCE) {
            let some: Vec<_> = some.iter().map(|slot| i16::from(**slot)).collect();
            let rows = self.runtime.block_on(session.load(&self.key, &self.witness, &some));
            for row in rows.map_err(Failure::new)? {
                sizes.rows += 1;
                sizes.stored += row.bytes;
                each(row);
            }
        }
        let next = RowId::from(self.incarnation) << 32;
        Ok(Loaded { sizes, next, writer: self.writer })
    }

    fn write(&mut self, batch: &Batch) -> Result<Vec<RowId>, WriteError> {
        let statements = Statements::of(batch, &self.key)?;
        let session = self.session.as_ref().ok_or_else(|| DatabaseError::new("not connected"))?;
        let writing = session::bounded(statements.write(session, self.writer, &self.witness));
        let written = self.runtime.block_on(writing);
        let lost = written.and_then(|written| written).inspect_err(|_| {
            // The answer to this write may be lost: nothing more is heard of this connection.
            self.session = None;
        })?;
        for alarm in &lost.rolled_back {
            tracing::error!("{}: {alarm}; was the database rolled back?", self.name);
            self.witness.doubt(Doubt::OlderRow);
        }
        Ok(lost.rows)
    }

    /// Connects again.
    fn reopen(&mut self) -> Result<(), WriteError> {
        self.session = None;
        let (url, node, witness) = (&self.url, self.node, &self.witness);
        let incarnation = self.incarnation.into();
        self.session = Some(self.runtime.block_on(async {
            let mut session = Session::begin(url, node).await?;
            session.prepare().await?;
            let known = witness.known();
            let seen = session::bounded(session.look()).await??;
            Witness::refuse_other_cluster(witness.judge(&known, &seen))?;
            session.fence(incarnation).await?;
            Ok::<_, DatabaseError>(session)
        })?);
        Ok(())
    }
}

impl From<DatabaseError> for WriteError {
    /// Whatever the database refuses, it is known to have done nothing or is asked later what it has
    /// done: each error may pass.
    fn from(error: DatabaseError) -> Self {
        Self { why: error.to_string(), may_pass: true, is_late: error.is_late() }
    }
}
