//! The thread of a node that sees which nodes are dead, moves slots, and takes associations over.
//!
//! When it cannot reach the database nothing moves: slots only say where datagrams go. What it takes
//! over it reads in pieces, so that it sees meanwhile what the others do.

use super::SLOTS_AT_ONCE;
use super::beat::{BEAT, Beating, Pulse};
use super::schema;
use super::session::{self, Session};
use super::witness::Witness;
use crate::database::{DatabaseError, OwnRuntime, StoreUrl};
use crate::proxy::fleet::death::DeathWatch;
use crate::proxy::fleet::plan::{Roster, RosterNode, SlotMove};
use crate::proxy::fleet::slots::{NodeNumber, SlotMap};
use crate::proxy::state::fleet_keys::FleetKeys;
use crate::proxy::state::key::StateKey;
use crate::proxy::state::node::{FleetFacts, Host};
use crate::proxy::state::writer::Flushed;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often a node writes down how far the database has come.
const REMEMBER: Duration = Duration::from_secs(1);

/// How often a node looks whether the fleet has a new secret.
const SECRETS: Duration = Duration::from_secs(1);

/// How often chains are removed that no association needs.
const TIDY: Duration = Duration::from_secs(3600);

/// The most slots that a node gives away in one turn: their associations wait meanwhile.
const MOST_GIVEN: usize = 16;

/// How many associations are taken over under one lock of the proxy.
const MOST_ADOPTED: usize = 256;

/// How long a node that ends gives slots away. After that the others notice that it has ended.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);

/// A node of the fleet, which beats, and moves no slots yet.
#[derive(Debug)]
pub(crate) struct Member {
    pub(super) name: String,
    pub(super) url: StoreUrl,
    pub(super) key: Arc<StateKey>,
    pub(super) keys: Arc<FleetKeys>,
    pub(super) scrambles_ids: bool,
    pub(super) node: NodeNumber,
    pub(super) address: String,
    pub(super) witness: Arc<Witness>,
    pub(super) pulse: Arc<Pulse>,
    pub(super) beating: Beating,
    /// The fleet as it was when this node came.
    pub(super) roster: Roster,
}

/// The way to the thread, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct MemberHandle {
    leave: Sender<()>,
    thread: Option<JoinHandle<()>>,
    facts: Arc<Mutex<FleetFacts>>,
}

impl Member {
    /// The owner of each slot.
    pub(crate) fn map(&self) -> SlotMap {
        self.roster.map()
    }

    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// If the system has no thread or descriptor left.
    pub(crate) fn start(self, host: Box<dyn Host>) -> std::io::Result<MemberHandle> {
        let (leave, leaves) = channel();
        let facts = FleetFacts { node: self.node.0, ..FleetFacts::default() };
        let facts = Arc::new(Mutex::new(facts));
        let thread = Thread {
            runtime: OwnRuntime::new()?,
            session: None,
            host,
            facts: Arc::clone(&facts),
            began: Instant::now(),
            watch: DeathWatch::default(),
            owned: self.roster.slots_of(self.node),
            unwritten: BTreeSet::new(),
            flushed: None,
            remembered_at: Instant::now(),
            tidied_at: None,
            secrets_read_at: Instant::now(),
            leaves: false,
            member: self,
        };
        let thread =
            std::thread::Builder::new().name("fleet".into()).spawn(|| thread.run(leaves))?;
        Ok(MemberHandle { leave, thread: Some(thread), facts })
    }
}

impl MemberHandle {
    /// What the thread has done, and sees.
    pub(crate) fn facts(&self) -> FleetFacts {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives all slots to the other nodes, and ends the thread. Waits for that.
    pub(crate) fn leave(mut self) {
        let _ = self.leave.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Thread {
    member: Member,
    runtime: OwnRuntime,
    session: Option<Session>,
    host: Box<dyn Host>,
    facts: Arc<Mutex<FleetFacts>>,
    began: Instant,
    watch: DeathWatch,
    /// The slots whose associations this node has.
    owned: BTreeSet<u8>,
    /// Slots that this node has left while writes of its associations may be under way. Their rows are
    /// not read before these have ended: an association must not take the write of the one before it
    /// for its own.
    unwritten: BTreeSet<u8>,
    flushed: Option<Flushed>,
    /// When it was last written down how far the database has come.
    remembered_at: Instant,
    /// When unused chains were last removed.
    tidied_at: Option<Instant>,
    secrets_read_at: Instant,
    leaves: bool,
}

/// What a turn leads to.
enum Turn {
    /// The next turn follows a beat later.
    Later,
    /// There is more to do at once.
    AtOnce,
    /// The thread ends.
    Last,
}

impl Thread {
    fn run(mut self, leaves: Receiver<()>) {
        let mut wait = Duration::ZERO;
        let mut leaves_until = None;
        loop {
            match leaves.recv_timeout(wait) {
                Ok(()) => {
                    self.leaves = true;
                    self.member.pulse.leaves.store(true, Relaxed);
                    leaves_until = Some(Instant::now() + LEAVE_WITHIN);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) if self.leaves => std::thread::sleep(wait),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let began = Instant::now();
            let turn = self.turn().unwrap_or_else(|error| {
                self.session = None;
                self.say_alone(Some(&error));
                Turn::Later
            });
            self.remember();
            wait = match turn {
                Turn::Later => BEAT.saturating_sub(began.elapsed()),
                Turn::AtOnce => Duration::ZERO,
                Turn::Last => return self.depart(),
            };
            if leaves_until.is_some_and(|until| Instant::now() >= until) {
                tracing::warn!("{}: the other nodes take over in a while", self.member.name);
                return;
            }
        }
    }

    fn with_facts<T>(&self, change: impl FnOnce(&mut FleetFacts) -> T) -> T {
        change(&mut self.facts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Says once that the database cannot be reached, and once that it can.
    fn say_alone(&self, error: Option<&DatabaseError>) {
        let was = self.with_facts(|facts| {
            let since = facts.alone_since.take();
            facts.alone_since = error.map(|_| since.unwrap_or_else(Instant::now));
            std::mem::replace(&mut facts.is_alone, error.is_some())
        });
        let name = &self.member.name;
        match error {
            Some(error) if !was => tracing::warn!("{name}: no slots move: {error}"),
            None if was => tracing::info!("{name}: the other nodes are seen again"),
            _ => {}
        }
    }

    /// Runs something with the connection, which is made if there is none.
    fn ask<T>(
        &mut self,
        what: impl AsyncFnOnce(&mut Session) -> Result<T, DatabaseError>,
    ) -> Result<T, DatabaseError> {
        let Self { runtime, session, member, .. } = self;
        runtime.block_on(async {
            if session.is_none() {
                let mut begun = Session::begin(&member.url, member.node).await?;
                begun.prepare().await?;
                *session = Some(begun);
            }
            let session = session.as_mut().ok_or_else(|| DatabaseError::new("not connected"))?;
            session::bounded(what(session)).await?
        })
    }

    /// Writes down now and then how far the database has come.
    fn remember(&mut self) {
        if self.remembered_at.elapsed() < REMEMBER {
            return;
        }
        self.remembered_at = Instant::now();
        if let Err(error) = self.member.witness.remember() {
            tracing::warn!("{error}");
        }
    }

    fn turn(&mut self) -> Result<Turn, DatabaseError> {
        let me = self.member.node;
        if self.member.pulse.is_replaced.load(Relaxed) {
            self.with_facts(|facts| facts.ended = Some("another process runs as this node"));
            return Ok(Turn::Last);
        }
        let known = self.member.witness.known();
        let (mut roster, seen) = self.ask(async |session| session.roster().await)?;
        Witness::refuse_other_cluster(self.member.witness.judge(&known, &seen))?;
        self.say_alone(None);
        let address = self.member.address.parse().ok();
        let pulse = (known.incarnation, known.beat);
        // A database that was rolled back may not know this node.
        let own = roster.nodes.entry(me);
        let own = own.or_insert(RosterNode { pulse, leaves: false, address });
        own.leaves = self.leaves || self.member.witness.distrusts();
        let others = roster.nodes.iter().filter(|(node, _)| **node != me);
        let others = others.map(|(node, of)| (*node, of.pulse));
        let dead = self.watch.read(self.began.elapsed(), others);
        let plan = roster.plan(me, &dead, &self.watch.heard());
        if !plan.take.is_empty() && !self.member.witness.distrusts() {
            let taken = self.ask(async |session| session.move_slots(&plan.take).await)?;
            if !taken.is_empty() {
                tracing::info!("{}: {} slots taken", self.member.name, taken.len());
                self.with_facts(|facts| facts.taken += taken.len() as u64);
                roster.moved(&plan.take, &taken);
            }
        }
        self.read_secrets()?;
        let has_more = self.follow(&roster, &dead)?;
        let given = self.give(&mut roster, &plan.give)?;
        let waits_for_none = plan.give.len() <= given;
        if !has_more && !self.leaves {
            self.tidy(&roster)?;
        }
        Ok(match (self.leaves, given > 0) {
            (true, _) if waits_for_none => Turn::Last,
            (true, true) => Turn::AtOnce,
            _ if has_more => Turn::AtOnce,
            _ => Turn::Later,
        })
    }

    /// Reads the fleet's secrets, if there are others than this node knows.
    fn read_secrets(&mut self) -> Result<(), DatabaseError> {
        if self.secrets_read_at.elapsed() < SECRETS {
            return Ok(());
        }
        self.secrets_read_at = Instant::now();
        let key = Arc::clone(&self.member.key);
        let read = self.ask(async |session| schema::open_secrets(session.client(), &key).await)?;
        // Whoever made a secret that does not open here has a key that this node lacks.
        if let Some(secrets) = read {
            let former = self.member.keys.numbers();
            self.member.keys.learn(secrets);
            if self.member.keys.numbers().last() > former.last() {
                tracing::info!("{}: the fleet has a new secret", self.member.name);
            }
        }
        Ok(())
    }

    /// Takes nodes out of the fleet that have been dead for long, and removes chains that no association
    /// needs.
    fn tidy(&mut self, roster: &Roster) -> Result<(), DatabaseError> {
        for (node, pulse) in self.watch.gone() {
            if roster.slots_of(node).is_empty() {
                self.ask(async |session| session.depart(node, pulse).await)?;
            }
        }
        if self.tidied_at.is_some_and(|at| at.elapsed() < TIDY) {
            return Ok(());
        }
        self.tidied_at = Some(Instant::now());
        let (url, node) = (self.member.url.clone(), self.member.node);
        let (name, scrambles_ids) = (self.member.name.clone(), self.member.scrambles_ids);
        // It may take a while in a large fleet. If it fails, the next one may succeed.
        let tidying = std::thread::Builder::new().name("tidy".into()).spawn(move || {
            let Ok(runtime) = OwnRuntime::new() else { return };
            let removed = runtime.block_on(async {
                let session = Session::begin(&url, node).await?;
                schema::remove_secrets(session.client(), scrambles_ids).await?;
                session.remove_chains().await
            });
            match removed {
                Ok(0) => {}
                Ok(count) => tracing::info!("{name}: {count} chains of certificates removed"),
                Err(error) => tracing::debug!("{name}: no chains removed: {error}"),
            }
        });
        drop(tidying);
        Ok(())
    }

    /// The node has given its slots away: the others need not see it die.
    fn depart(mut self) {
        if !self.leaves {
            return;
        }
        self.member.beating.stop();
        let known = self.member.witness.known();
        let (node, pulse) = (self.member.node, (known.incarnation, known.beat));
        let departed = self.ask(async |session| {
            let (roster, _) = session.roster().await?;
            match roster.slots_of(node).is_empty() {
                true => session.depart(node, pulse).await,
                false => Ok(()),
            }
        });
        if let Err(error) = departed {
            tracing::debug!("{}: {error}", self.member.name);
        }
        self.remembered_at = Instant::now();
        if let Err(error) = self.member.witness.remember() {
            tracing::warn!("{error}");
        }
    }

    /// Goes by the slots as the database has them. Returns whether there are more associations to be
    /// taken over at once.
    fn follow(
        &mut self,
        roster: &Roster,
        dead: &BTreeSet<NodeNumber>,
    ) -> Result<bool, DatabaseError> {
        let now = roster.slots_of(self.member.node);
        self.host.set_map(roster.map());
        let lost: BTreeSet<u8> = self.owned.difference(&now).copied().collect();
        if !lost.is_empty() {
            tracing::warn!("{}: {} slots are another node's now", self.member.name, lost.len());
            self.host.leave(&lost);
            self.left_unwritten(&lost);
        }
        self.with_facts(|facts| {
            let numbers =
                |nodes: &mut dyn Iterator<Item = NodeNumber>| nodes.map(|of| of.0).collect();
            facts.dead = numbers(&mut dead.iter().copied());
            let living = roster.nodes.keys().copied().filter(|node| !dead.contains(node));
            facts.living = numbers(&mut { living });
            facts.slots = now.len() as u64;
        });
        let lost_rows = self.host.lost_slots();
        if !lost_rows.is_empty() {
            self.left_unwritten(&lost_rows);
        }
        let gained = now.difference(&self.owned).copied();
        let load: BTreeSet<u8> = gained.chain(lost_rows.intersection(&now).copied()).collect();
        // Slots count as owned once their associations are here, so that a failure is made good.
        self.owned.retain(|slot| now.contains(slot) && !load.contains(slot));
        if !self.are_written() {
            return Ok(false);
        }
        if self.member.witness.distrusts() {
            self.owned = now;
            return Ok(false);
        }
        let some: BTreeSet<u8> = load.iter().copied().take(SLOTS_AT_ONCE).collect();
        if some.is_empty() {
            return Ok(false);
        }
        let adopted = self.load(&some)?;
        if adopted > 0 {
            tracing::info!("{}: {adopted} associations taken over", self.member.name);
            self.with_facts(|facts| facts.adopted += adopted);
        }
        self.owned.extend(&some);
        Ok(load.len() > some.len())
    }

    /// Notes that writes of associations in these slots may be under way.
    fn left_unwritten(&mut self, slots: &BTreeSet<u8>) {
        self.unwritten.extend(slots);
        self.flushed = None;
    }

    /// Whether all writes have ended that were under way when slots were left. It does not wait.
    fn are_written(&mut self) -> bool {
        if self.unwritten.is_empty() {
            return true;
        }
        if self.flushed.is_none() {
            self.flushed = self.host.flushed();
        }
        let ended = self.flushed.as_ref().is_some_and(|flushed| flushed.wait(Duration::ZERO));
        if ended {
            self.unwritten.clear();
            self.flushed = None;
        }
        ended
    }

    /// Goes on with the associations in these slots. Returns how many there are.
    fn load(&mut self, slots: &BTreeSet<u8>) -> Result<u64, DatabaseError> {
        let (key, witness) = (Arc::clone(&self.member.key), Arc::clone(&self.member.witness));
        let slots: Vec<i16> = slots.iter().map(|slot| i16::from(*slot)).collect();
        let rows = self.ask(async |session| session.load(&key, &witness, &slots).await)?;
        let (mut adopted, mut rows) = (0, rows.into_iter().peekable());
        while rows.peek().is_some() {
            adopted += self.host.adopt(rows.by_ref().take(MOST_ADOPTED).collect());
        }
        Ok(adopted)
    }

    /// Gives some slots away. Returns how many.
    fn give(&mut self, roster: &mut Roster, moves: &[SlotMove]) -> Result<usize, DatabaseError> {
        let moves = &moves[..moves.len().min(MOST_GIVEN)];
        if moves.is_empty() {
            return Ok(0);
        }
        let slots: BTreeSet<u8> = moves.iter().map(|moved| moved.slot).collect();
        // From now on their datagrams go to the next owner.
        roster.moved(moves, &slots);
        self.host.set_map(roster.map());
        // Until they are given away their associations are neither here nor there.
        self.owned.retain(|slot| !slots.contains(slot));
        if !self.host.hand_over(&slots) {
            self.left_unwritten(&slots);
            return Err(DatabaseError::new("associations of slots that move are not written"));
        }
        let given = self.ask(async |session| session.move_slots(moves).await)?;
        self.with_facts(|facts| facts.given += given.len() as u64);
        Ok(moves.len())
    }
}
